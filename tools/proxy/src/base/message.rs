//! Messages of the proxy: single lines on stderr.

use core::ffi::CStr;
use core::fmt::{self, Write};

use linux_raw_sys::errno::*;

use crate::sys::{self, Errno};

/// Exit status: Hanare itself failed.
pub const EXIT_HANARE: u32 = 125;
/// Exit status: the program exists but cannot be run.
pub const EXIT_CANNOT_RUN: u32 = 126;
/// Exit status: there is no such program.
pub const EXIT_NOT_FOUND: u32 = 127;

/// One line, cut to fit.
struct Line {
    bytes: [u8; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Prints `hanare: …` and a line end, in one write.
pub fn print(text: fmt::Arguments) {
    print_to(2, text);
}

/// Prints a line to another descriptor than stderr.
pub fn print_to(fd: u32, text: fmt::Arguments) {
    let mut line = Line { bytes: [0; 1024], length: 0 };
    let _ = line.write_str("hanare: ");
    let _ = line.write_fmt(text);
    line.length = line.length.min(line.bytes.len() - 1);
    line.bytes[line.length] = b'\n';
    let _ = sys::write(fd, &line.bytes[..line.length + 1]);
}

/// Prints and exits.
pub fn die(status: u32, text: fmt::Arguments) -> ! {
    print(text);
    sys::exit(status)
}

/// A C string as text: what is not UTF-8 is shown as `?`.
pub struct Text<'a>(pub &'a CStr);

impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        for chunk in self.0.to_bytes().utf8_chunks() {
            formatter.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                formatter.write_char('?')?;
            }
        }
        Ok(())
    }
}

/// Zero-terminated bytes as text.
pub fn text(bytes: &[u8]) -> Text<'_> {
    Text(CStr::from_bytes_until_nul(bytes).unwrap_or(c""))
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self.0 {
            EPERM => "Operation not permitted",
            ENOENT => "No such file or directory",
            EIO => "Input/output error",
            E2BIG => "Argument list too long",
            ENOEXEC => "Exec format error",
            EAGAIN => "Resource temporarily unavailable",
            ENOMEM => "Cannot allocate memory",
            EACCES => "Permission denied",
            EBUSY => "Device or resource busy",
            EEXIST => "File exists",
            ENODEV => "No such device",
            ENXIO => "No such device or address",
            ENOTDIR => "Not a directory",
            EISDIR => "Is a directory",
            EINVAL => "Invalid argument",
            ENFILE => "Too many open files in system",
            EMFILE => "Too many open files",
            ENOTTY => "Inappropriate ioctl for device",
            ETXTBSY => "Text file busy",
            ELOOP => "Too many levels of symbolic links",
            ENAMETOOLONG => "File name too long",
            ELIBBAD => "Accessing a corrupted shared library",
            number => return write!(formatter, "error {number}"),
        })
    }
}
