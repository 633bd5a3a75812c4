//! The library that posts a program's calls (docs/async.md), as an option of `hanare run`.

use std::env;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use clap::ValueEnum;

use hanare_common::find;

/// Which calls are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Posted {
    /// Writes to files, closes and syncs of them
    Write,
    /// Readahead of files that are read in order
    Read,
    /// Both
    All,
    /// Replies to TCP connections that the program has accepted
    Socket,
}

impl Posted {
    /// The environment of the program: this command's, with the library before others that are
    /// preloaded.
    pub fn environment(kinds: &[Self]) -> Result<Vec<CString>> {
        let mut list = OsString::from(find::async_library()?);
        if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        let words: Vec<_> = kinds.iter().map(|kind| kind.word()).collect();
        env::vars_os()
            .filter(|(name, _)| name != PRELOAD && name != KINDS)
            .chain([(PRELOAD.into(), list), (KINDS.into(), words.join(",").into())])
            .map(|(name, value)| {
                let parts = [name.as_bytes(), b"=", value.as_bytes()];
                Ok(CString::new(parts.concat())?)
            })
            .collect()
    }

    fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::All => "all",
            Self::Socket => "socket",
        }
    }
}

const PRELOAD: &str = "LD_PRELOAD";
const KINDS: &str = "HANARE_ASYNC";
