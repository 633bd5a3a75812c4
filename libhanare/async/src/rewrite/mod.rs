//! System call instructions of loaded objects, led to the library.
//!
//! Symbol interposition sees only calls that a program makes by name: `fwrite`, `printf`, `opendir`
//! and the loader make theirs inside the C library. So each `syscall` instruction is replaced by a
//! jump to a stub, which asks `entry` what to do. An object is either covered whole or not at all:
//! one instruction that cannot be replaced is an error, after which the library posts nothing.

mod failure;
mod plan;
mod stubs;
mod survey;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::objects::{self, Text};

pub use failure::Failure;
pub use stubs::{DONE_BYTES, WATCHED_BYTES, lead_to};

const OBJECTS_MAX: usize = 1024;

/// The objects that have been looked at, by their text's address.
static DONE: [AtomicUsize; OBJECTS_MAX] = [const { AtomicUsize::new(0) }; OBJECTS_MAX];

/// Replaces the system call instructions of every loaded object that has not been looked at. How
/// many there are.
///
/// One thread at a time.
pub fn cover_all() -> Result<usize, Failure> {
    let mut sites = 0;
    for object in objects::loaded().ok_or(Failure::Malformed)? {
        for text in &object.texts {
            let Some(mark) = mark_of(text.start)? else { continue };
            sites += cover(text, &object.functions)?;
            mark.store(text.start as usize, Ordering::Relaxed);
        }
    }
    Ok(sites)
}

/// Where an object is to be noted; `None`: it has been.
fn mark_of(start: u64) -> Result<Option<&'static AtomicUsize>, Failure> {
    let mut free = None;
    for mark in &DONE {
        match mark.load(Ordering::Relaxed) as u64 {
            0 => free = free.or(Some(mark)),
            known if known == start => return Ok(None),
            _ => {}
        }
    }
    free.map(Some).ok_or(Failure::TooMany)
}

/// Memory is given back: an object that is loaded there later is another one.
pub fn forget(start: u64, size: u64) {
    for mark in &DONE {
        let known = mark.load(Ordering::Relaxed) as u64;
        if known != 0 && (start..start.saturating_add(size)).contains(&known) {
            mark.store(0, Ordering::Relaxed);
        }
    }
}

fn cover(text: &Text, functions: &[u64]) -> Result<usize, Failure> {
    let bytes = text.bytes();
    if !survey::has_site(text.start, bytes, functions) {
        return Ok(0);
    }
    let survey = survey::of(text.start, bytes, functions);
    if survey.sites.is_empty() {
        return Ok(0);
    }
    let patches = plan::of(&survey, bytes)?;
    stubs::install(text, &patches)?;
    Ok(patches.len())
}
