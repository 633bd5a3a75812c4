//! Boot options: what `hanare boot --option` takes and the LWK understands, listed once.

use core::fmt;

/// The options, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Debug lines are logged, too.
    pub log_debug: bool,
    /// How long a CPU with nothing else to do polls for the answer to a delegated call, µs.
    pub spin_us: u32,
    /// How long threads are held at the moments that tests name, ms.
    pub hold_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { log_debug: false, spin_us: 50, hold_ms: 0 }
    }
}

/// What each is for.
pub const HELP: &str = "\
spin_us=N (poll N µs for Linux' answer before sleeping, 0: never; default 50), \
log=debug (more in hanare log; default log=info), \
hold_ms=N (for tests of Hanare: hold threads at certain moments)";

/// Largest number an option takes: a minute of µs.
const NUMBER_MAX: u32 = 60_000_000;

/// A word that is no option, or no value that the option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a>(&'a str);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "'{}' is no boot option; there are: {HELP}", self.0)
    }
}

impl core::error::Error for Refused<'_> {}

impl Options {
    /// Reads `key=value` words; of several with one key the last counts.
    pub fn parse(text: &str) -> Result<Self, Refused<'_>> {
        let mut options = Self::default();
        for word in text.split_ascii_whitespace() {
            options.set(word).ok_or(Refused(word))?;
        }
        Ok(options)
    }

    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=')?;
        let number = || value.parse().ok().filter(|&number| number <= NUMBER_MAX);
        match key {
            "log" => {
                self.log_debug = match value {
                    "debug" => true,
                    "info" => false,
                    _ => return None,
                }
            }
            "spin_us" => self.spin_us = number()?,
            "hold_ms" => self.hold_ms = number()?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn taken() {
        assert_eq!(Options::parse(""), Ok(Options::default()));
        let wanted = Options { log_debug: true, spin_us: 0, hold_ms: 40 };
        assert_eq!(Options::parse(" log=debug spin_us=9  hold_ms=40 spin_us=0"), Ok(wanted));
    }

    #[test]
    fn refused_by_name() {
        for wrong in ["spin=0", "spin_us=abc", "spin_us", "spin_us=", "spin_us=-1", "hold_ms=60000001", "log=all", "SPIN_US=0"] {
            assert_eq!(Options::parse(&std::format!("log=info {wrong}")), Err(Refused(wrong)));
        }
        let said = Options::parse("spin=0").unwrap_err().to_string();
        for key in ["'spin=0'", "spin_us=N", "log=debug", "hold_ms=N"] {
            assert!(said.contains(key), "{said}");
        }
    }
}
