//! Which of Linux' binfmt_misc entries takes a program that is about to be executed.

use crate::base::{heap, lists};
use crate::link::services;
use crate::process::thread::Thread;
use crate::sched::hold;
use alloc::vec::Vec;
use hanare_abi::layout::scratch;
use hanare_abi::service::SERVICE_BINFMT;
use hanare_core::binfmt::{self, Entry, Texts};
use hanare_core::errno::{self, Result};

/// Bytes of a slot's scratch page.
const SCRATCH_BYTES: u64 = 4096;

/// The interpreter that binfmt_misc has for a program, and how it gets the program.
pub struct Taker {
    /// Path of the interpreter.
    pub interpreter: Vec<u8>,
    /// The program's own first argument stays.
    pub keeps_name: bool,
    /// The interpreter gets the program open (AT_EXECFD).
    pub opens: bool,
    /// Linux has the interpreter open: its path may mean nothing here.
    pub is_fixed: bool,
}

/// The entry that takes the program that is called `name` and begins with `head`: the first one
/// that fits, in the order of Linux.
pub fn taker(thread: &Thread, name: &[u8], head: &[u8]) -> Result<Option<Taker>> {
    let at = scratch(thread.port.slot_index);
    let (mut found, mut is_off, mut from) = (None, false, 0);
    loop {
        let answer = services::by_worker(thread, SERVICE_BINFMT, &[at, SCRATCH_BYTES, from], &[]);
        let answer = match answer.map_err(errno::Errno::from) {
            Err(errno::ENOENT) => return Ok(None), // it was unmounted meanwhile
            answer => answer?,
        };
        let mut bytes = heap::zeroed(answer.args[0].min(SCRATCH_BYTES) as usize)?;
        thread.process.memory().read_control(at, &mut bytes);
        for text in Texts::new(&bytes) {
            is_off |= binfmt::is_off(text);
            if found.is_none()
                && let Ok(entry) = Entry::parse(text)
                && entry.takes(name, head)
            {
                found = Some(taken_by(&entry)?);
            }
        }
        if [0, from].contains(&answer.args[1]) {
            return Ok(found.filter(|_| !is_off));
        }
        from = answer.args[1];
        hold::at("entries-read");
    }
}

fn taken_by(entry: &Entry<'_>) -> Result<Taker> {
    Ok(Taker {
        interpreter: lists::joined(&[entry.interpreter])?,
        keeps_name: entry.keeps_name,
        opens: entry.opens,
        is_fixed: entry.is_fixed,
    })
}
