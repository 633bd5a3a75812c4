//! Standard output and error of the command, which may be full, or closed.
//!
//! `print!` panics when it cannot write, and the standard library takes a closed descriptor for an
//! empty one: both are wrong here.

use std::fmt;
use std::io::{self, Write};

use anyhow::Result;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Writes to standard output as `println!` does; the result says whether that was possible.
#[macro_export]
macro_rules! outln {
    () => {
        $crate::output::write("\n")
    };
    ($($arguments:tt)*) => {
        $crate::output::write(&format!("{}\n", format_args!($($arguments)*)))
    };
}
pub use crate::outln;

/// Standard output, unbuffered.
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to standard output.
pub fn write(text: &str) -> Result<()> {
    write_bytes(text.as_bytes())
}

/// Like [`write`], for what may not be text.
pub fn write_bytes(bytes: &[u8]) -> Result<()> {
    Output.write_all(bytes).map_err(|error| cannot_write(&error))
}

/// Says that standard output takes nothing.
pub fn cannot_write(error: &io::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow::anyhow!(
        "cannot write to standard output: {}",
        text.split(" (os error").next().unwrap_or_default()
    )
}

/// Writes to standard error. A failure is ignored: there is no place left to report it.
pub fn complain(text: fmt::Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Closed descriptors 0 to 2 are taken by files that cannot be used, before others get their
/// numbers: what is printed must not reach the device. Rust's own entry point does that, which is
/// not used (see `main`).
pub fn occupy_standard_descriptors() {
    for fd in 0..3 {
        // The wrong direction, so that its use is an error, as of a closed one.
        let direction = if fd == 0 { OFlags::WRONLY } else { OFlags::RDONLY };
        let closed = match fd {
            0 => rustix::io::fcntl_getfd(rustix::stdio::stdin()),
            1 => rustix::io::fcntl_getfd(rustix::stdio::stdout()),
            _ => rustix::io::fcntl_getfd(rustix::stdio::stderr()),
        };
        if closed == Err(Errno::BADF)
            && let Ok(file) = rustix::fs::open("/dev/null", direction, Mode::empty())
        {
            // The lowest free number: this one.
            std::mem::forget(file);
        }
    }
}

/// Columns of the terminal that a descriptor is; `None`: it is none, or does not say.
pub fn columns(fd: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// `1 process`, `2 processes`.
pub fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// The beginning of a text that fits, with `…` where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_shows_that_it_was_cut() {
        assert_eq!(cut("perl", 4), "perl");
        assert_eq!(cut("perl -e", 4), "per…");
        assert_eq!(cut("ääää", 4), "ääää");
        assert_eq!((cut("ab", 1), cut("ab", 0)), ("…".into(), String::new()));
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(0, "process", "processes"), "0 processes");
        assert_eq!(count(1, "process", "processes"), "1 process");
    }
}
