//! Standard input and output, which every proxy of the pool has open.

use core::fmt::{self, Write};

use crate::descriptor::{read_full, write_all};
use crate::errno::Result;
use crate::sys::{self, Fd};

/// Standard input.
#[derive(Clone, Copy, Debug)]
pub struct Input(());

impl Input {
    /// The standard input.
    pub const STANDARD: Self = Self(());

    /// Reads once: 0 at the end; else some of what there is.
    pub fn read(self, to: &mut [u8]) -> Result<usize> {
        sys::read(Fd::INPUT, to)
    }

    /// Reads until the buffer is full or the input ends; gives how much it was.
    pub fn read_full(self, to: &mut [u8]) -> Result<usize> {
        read_full(Fd::INPUT, to)
    }
}

/// Standard output, or standard error output. Nothing is kept back: each `print!` writes.
#[derive(Clone, Copy, Debug)]
pub struct Output(Fd);

impl Output {
    /// Standard output.
    pub const STANDARD: Self = Self(Fd::OUTPUT);
    /// Standard error output.
    pub const ERROR: Self = Self(Fd::ERROR);

    /// Writes once; gives the number of bytes written.
    pub fn write(self, bytes: &[u8]) -> Result<usize> {
        sys::write(self.0, bytes)
    }

    /// Writes all of it, by as many calls as that takes.
    pub fn write_all(self, bytes: &[u8]) -> Result<()> {
        write_all(self.0, bytes)
    }

    /// Formats and writes, by one call where it is short.
    pub fn print(self, text: fmt::Arguments<'_>) -> Result<()> {
        let mut gathered =
            Gathered { bytes: [0; GATHERED_BYTES], used: 0, to: self.0, written: Ok(()) };
        // Where this fails, `written` has the reason, or a value could not be formatted: then its
        // text ends early.
        _ = gathered.write_fmt(text);
        gathered.flush();
        gathered.written
    }
}

/// Longer texts are written by several calls.
const GATHERED_BYTES: usize = 1024;

/// The pieces of a text, until they are written.
struct Gathered {
    bytes: [u8; GATHERED_BYTES],
    used: usize,
    to: Fd,
    written: Result<()>,
}

impl Gathered {
    fn flush(&mut self) {
        if self.written.is_ok() {
            self.written = write_all(self.to, &self.bytes[..self.used]);
        }
        self.used = 0;
    }
}

impl Write for Gathered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            if self.used == self.bytes.len() {
                self.flush();
            }
            let room = &mut self.bytes[self.used..];
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.used += now.len();
            bytes = later;
        }
        self.written.map_err(|_| fmt::Error)
    }
}

/// Prints to standard output; gives [`Result<()>`](crate::Result).
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => {
        $crate::Output::STANDARD.print(::core::format_args!($($text)*))
    };
}

/// Prints a line to standard output; gives [`Result<()>`](crate::Result).
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {
        $crate::print!("{}\n", ::core::format_args!($($text)*))
    };
}

/// Prints a line to standard error output. Where that fails it cannot be told.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => {
        _ = $crate::Output::ERROR.print(::core::format_args!("{}\n", ::core::format_args!($($text)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::AsRawFd;
    use std::string::String;

    #[test]
    fn a_long_text_arrives_whole() {
        let mut file = tempfile();
        let to = Output(Fd::made(file.as_raw_fd() as usize));
        let text = "äöü€".repeat(1000);
        to.print(format_args!("{}:{text}:{}", 1, 'x')).unwrap();
        let mut seen = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, format!("1:{text}:x"));
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let to = Output(Fd::made(full.as_raw_fd() as usize));
        assert_eq!(to.print(format_args!("text")), Err(crate::Errno::ENOSPC));
        assert_eq!(to.print(format_args!("{}", "long".repeat(1000))), Err(crate::Errno::ENOSPC));
        assert_eq!(to.print(format_args!("")), Ok(()));
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("hanare-native-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
