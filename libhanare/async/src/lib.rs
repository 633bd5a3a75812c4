//! `libhanare-async.so`: posts calls of a program that knows nothing of it, where the program
//! cannot tell the difference (docs/async.md).
//!
//! [`rewrite`] leads every system call of the program and of its libraries to [`entry`], which asks
//! [`hook`]. That has [`writes`] or [`replies`] post a call, or awaits what is outstanding
//! ([`poster`]), by [`rules`]; [`worker`] makes what was posted. [`files`], [`sockets`] and
//! [`memory`] keep what is known of descriptors and addresses, [`guard`] stands between faults and
//! the program's end. All that is unsafe stands in [`sys`].

#![deny(unsafe_code)]

mod attributes;
mod calls;
mod entry;
mod faults;
mod files;
mod guard;
mod hook;
mod memory;
mod poster;
mod replies;
mod rewrite;
mod rights;
mod rules;
mod sockets;
mod state;
#[allow(unsafe_code)]
mod sys;
mod worker;
mod writes;

use std::sync::atomic::Ordering;

/// Called by the loader.
#[allow(unsafe_code, reason = "the section has addresses of functions, which this is")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Kinds of calls, as `hanare run --async` names them.
const VARIABLE: &str = "HANARE_ASYNC";

extern "C" fn begin() {
    sys::keep_standard_error();
    let kinds = std::env::var_os(VARIABLE).unwrap_or_else(|| "all".into());
    let kinds = kinds.to_string_lossy();
    let (mut writes, mut reads, mut replies) = (false, false, false);
    for kind in kinds.split(',').filter(|kind| !kind.is_empty()) {
        match kind {
            "all" => (writes, reads) = (true, true),
            "write" => writes = true,
            "read" => reads = true,
            "socket" => replies = true,
            // For tests: what is not awaited is not done in time, either.
            "slow" => state::IS_SLOW.store(true, Ordering::Relaxed),
            "report" => state::REPORTS.store(true, Ordering::Relaxed),
            _ => {
                let line = format!(
                    "hanare async: nothing is posted: {VARIABLE} has an unknown kind: '{kind}'\n"
                );
                sys::complain(line.as_bytes());
                return;
            }
        }
    }
    if !writes && !reads && !replies {
        (writes, reads) = (true, true);
    }
    state::KINDS[state::WRITES].store(writes, Ordering::Relaxed);
    state::KINDS[state::READS].store(reads, Ordering::Relaxed);
    state::KINDS[state::SOCKETS].store(replies, Ordering::Relaxed);
    if let (Err(why), true) = (prepare(), state::REPORTS.load(Ordering::Relaxed)) {
        sys::complain(format!("hanare async: nothing is posted: {why}\n").as_bytes());
    }
}

fn prepare() -> Result<(), String> {
    if sys::threads() != Some(1) {
        return Err("there are threads already, or there is no /proc".into());
    }
    if !sys::is_file_size_unlimited() {
        return Err("the size of files is limited".into());
    }
    if !entry::prepare() {
        return Err("the CPU cannot keep its registers".into());
    }
    let mask = sys::set_mask(libc::SIG_BLOCK, 0);
    if mask & faults::FAULTS != 0 || !guard::begin() {
        return Err("signals of faults are blocked, ignored or handled".into());
    }
    sys::signals::give_stack();
    let has_sockets = state::KINDS[state::SOCKETS].load(Ordering::Relaxed);
    if has_sockets {
        sockets::prepare();
        state::IGNORES_SIGPIPE.store(guard::is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    }
    rules::install(has_sockets);
    match rewrite::cover_all() {
        Ok(_) => {
            state::begin();
            Ok(())
        }
        Err(why) => Err(format!("{why:x?}")),
    }
}
