//! The library that posts a program's calls (docs/async.md), as an option of `hanare run`.

use std::env;
use std::ffi::OsString;

use anyhow::Result;
use clap::ValueEnum;

use crate::find;

/// Which calls are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Posted {
    /// Writes to files, closes and syncs of them
    Write,
    /// Readahead of files that are read in order
    Read,
    /// Both
    All,
}

impl Posted {
    /// Sets the environment that the program inherits.
    pub fn preload(self) -> Result<()> {
        let mut list = OsString::from(find::async_library()?);
        if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        let word = match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::All => "all",
        };
        // SAFETY: The command has one thread.
        unsafe {
            env::set_var(PRELOAD, list);
            env::set_var("HANARE_ASYNC", word);
        }
        Ok(())
    }
}

const PRELOAD: &str = "LD_PRELOAD";
