//! How a program ends: its status, and what it says if it failed.

use alloc::string::{String, ToString};
use core::ffi::CStr;
use core::fmt::{self, Write};
use core::panic::PanicInfo;

use crate::eprintln;
use crate::errno::{Errno, Result};
use crate::sys;

/// The status of a program that failed.
const FAILED: u8 = 1;
/// The status of a program that was called in a wrong way.
const WRONG_USAGE: u8 = 2;
/// The status of a program that panicked, as Rust's standard library has it.
const PANICKED: u8 = 101;

/// Result of a program's function, which becomes the exit status.
pub trait Ending {
    /// The status; says before why it is not 0.
    fn status(self) -> u8;
}

impl Ending for () {
    fn status(self) -> u8 {
        0
    }
}

impl Ending for u8 {
    fn status(self) -> u8 {
        self
    }
}

impl Ending for core::result::Result<(), Failure> {
    fn status(self) -> u8 {
        let Err(failure) = self else { return 0 };
        eprintln!("{}: {}", Plain(sys::name()), failure.text);
        failure.status
    }
}

/// Why a program failed. It prints `PROGRAM: TEXT` and ends with status 1, or 2 for wrong usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: u8,
    text: String,
}

impl Failure {
    /// A failure that this text describes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { status: FAILED, text: text.to_string() }
    }

    /// The program was called in a wrong way. `usage` is what follows its name.
    #[must_use]
    pub fn usage(usage: &str) -> Self {
        let mut text = String::new();
        // A String takes all of it.
        _ = write!(text, "usage: {} {usage}", Plain(sys::name()));
        Self { status: WRONG_USAGE, text }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl core::error::Error for Failure {}

/// Makes a [`Failure`] of an [`Errno`].
pub trait OrFail<T> {
    /// Says what was tried: `.or_fail(format_args!("cannot open {}", quoted(path)))`.
    fn or_fail(self, tried: fmt::Arguments<'_>) -> core::result::Result<T, Failure>;
}

impl<T> OrFail<T> for Result<T> {
    fn or_fail(self, tried: fmt::Arguments<'_>) -> core::result::Result<T, Failure> {
        self.map_err(|why: Errno| {
            let mut text = String::new();
            // A String takes all of it.
            _ = write!(text, "{tried}: {why}");
            Failure { status: FAILED, text }
        })
    }
}

/// A name for a message, as [`quoted`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'n>(&'n CStr);

/// A name in quotes, with what does not print as escapes.
#[must_use]
pub fn quoted(name: &CStr) -> Quoted<'_> {
    Quoted(name)
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "'{}'", Plain(self.0))
    }
}

/// A name without quotes.
struct Plain<'n>(&'n CStr);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.to_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                match character.is_control() {
                    true => write!(to, "{}", character.escape_default())?,
                    false => to.write_char(character)?,
                }
            }
            write!(to, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

/// Says where a program panicked, and ends it.
pub fn panicked(information: &PanicInfo<'_>) -> ! {
    // Nothing of this allocates: the panic may be of a lack of memory.
    match information.location() {
        Some(place) => {
            eprintln!("{}: panicked at {place}: {}", Plain(sys::name()), information.message())
        }
        None => eprintln!("{}: panicked: {}", Plain(sys::name()), information.message()),
    }
    sys::exit(PANICKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_tried_on_what_and_why() {
        let failed: Result<()> = Err(Errno::ENOENT);
        let failure = failed.or_fail(format_args!("cannot open {}", quoted(c"a b"))).unwrap_err();
        assert_eq!(failure.to_string(), "cannot open 'a b': No such file or directory (ENOENT)");
        assert_eq!(failure.status, 1);
    }

    #[test]
    fn a_name_prints_on_one_line() {
        assert_eq!(quoted(c"\n\x1b\xff\xc3\xa4").to_string(), "'\\n\\u{1b}\\xffä'");
    }

    #[test]
    fn wrong_usage_has_a_status_of_its_own() {
        assert_eq!(Failure::usage("FROM TO").status, 2);
        assert_eq!(Failure::new("x").status, 1);
        assert_eq!((Ending::status(()), Ending::status(7)), (0, 7));
    }
}
