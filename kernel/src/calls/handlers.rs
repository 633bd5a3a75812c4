//! The handlers of the calls that the LWK serves itself, by number. A call has its row in
//! `core/src/syscalls/table.rs`, and its handler in the file of its family.

use crate::calls::context::{Context, Family, Handler, Served};
use crate::calls::{affinity, aio, clocks, execve, futex, identity, machine, madvise, membarrier};
use crate::calls::{mempolicy, mlock, mmap, mremap, prctl, processes, robust, seccomp, shm};
use crate::calls::{signals, sleep, usage, waitv};
use hanare_core::syscalls::{NUMBERS, Service, row};

/// All families.
const FAMILIES: &[Family] = &[
    affinity::CALLS,
    aio::CALLS,
    clocks::CALLS,
    execve::CALLS,
    futex::CALLS,
    identity::CALLS,
    machine::CALLS,
    madvise::CALLS,
    membarrier::CALLS,
    mempolicy::CALLS,
    mlock::CALLS,
    mmap::CALLS,
    mremap::CALLS,
    prctl::CALLS,
    processes::CALLS,
    processes::ENDS,
    robust::CALLS,
    seccomp::CALLS,
    shm::CALLS,
    signals::CALLS,
    signals::RETURNS,
    sleep::CALLS,
    usage::CALLS,
    waitv::CALLS,
];

/// Handlers by number. A row of the table that says `local` has one, and no other row has.
static HANDLERS: [Option<Handler>; NUMBERS] = {
    let mut all = [None::<Handler>; NUMBERS];
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut call = 0;
        while call < FAMILIES[family].len() {
            let (number, handler) = FAMILIES[family][call];
            assert!(all[number as usize].is_none(), "a call has one handler");
            all[number as usize] = Some(handler);
            call += 1;
        }
        family += 1;
    }
    let mut number = 0;
    while number < NUMBERS {
        let is_local = match row(number as u64) {
            Some(row) => matches!(row.service, Service::Local),
            None => false,
        };
        assert!(
            all[number].is_some() == is_local,
            "a row says whether its call has a handler here"
        );
        number += 1;
    }
    all
};

/// Serves a call whose row says that the LWK serves it.
pub fn serve(call: &mut Context<'_>) -> Served {
    let handler = HANDLERS[usize::from(call.row.number)].expect("of a row that is local");
    handler(call)
}
