//! `Control::Fork`: the proxy forks, and the child becomes a space of its own.
//!
//! Of the parent's workers the child has only the one that forked; it comes out of
//! [`fork`] on its own copy of its stack and serves slot 0 of the new space, whose first
//! call may be there before it. The
//! device's mapping is not inherited; descriptors (a copy of their table, or with CLONE_FILES
//! the table itself) and dispositions are.

use linux_raw_sys::errno::{EIO, ESRCH, ETIMEDOUT};
use linux_raw_sys::general::{CLONE_FILES, clone_args};

use crate::base::message::{EXIT_HANARE, die};
use crate::process::{self, Process, attach, servers};
use crate::sys::worker::Worker;
use crate::sys::{self, Errno, signal};

/// Bits of the flags that are the exit signal; the next one is CLONE_NEWTIME.
const EXIT_SIGNAL: u64 = 0x7f;

/// Attributes of the child, as of `Control::Fork`.
pub struct Wanted {
    /// Flags of clone(2), the exit signal among them.
    pub flags: u64,
    /// Address for the child's pidfd.
    pub pidfd: u64,
    /// Address of the ids that the child is to have in its pid namespaces.
    pub set_tid: u64,
    /// Number of these ids.
    pub set_tid_size: u64,
    /// Descriptor of the control group that the child is to begin in.
    pub cgroup: u64,
}

/// Forks. In the parent: the child's process id. `None`: this is the child, which asks for a space
/// by `token`, and `worker` has a new slot to serve.
pub fn fork(
    process: &Process,
    worker: &Worker,
    token: u64,
    wanted: &Wanted,
) -> Option<sys::Result<u32>> {
    let Wanted { flags, pidfd, set_tid, set_tid_size, cgroup } = *wanted;
    let wanted = clone_args {
        flags: flags & !EXIT_SIGNAL,
        exit_signal: flags & EXIT_SIGNAL,
        pidfd,
        set_tid,
        set_tid_size,
        cgroup,
        child_tid: 0,
        parent_tid: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
    };
    // No thread may be told of a signal in between.
    let mask = signal::set_mask(!0);
    worker.block.inherit(true);
    let result = sys::fork(&wanted);
    worker.block.inherit(false);
    let child = result == Ok(0);
    if child {
        let shares_table = flags & u64::from(CLONE_FILES) != 0;
        become_child(process, worker, token, shares_table).unwrap_or_else(|error| give_up(error));
    }
    signal::set_mask(mask);
    if child { None } else { Some(result) }
}

fn become_child(
    process: &Process,
    worker: &Worker,
    token: u64,
    shares_table: bool,
) -> sys::Result<()> {
    process.begin_child(shares_table);
    servers::begin_child();
    let space = &process.space;
    attach::child(space, token, shares_table)?;
    worker.begin_child();
    Ok(())
}

fn give_up(error: Errno) -> ! {
    match error.0 {
        EIO => process::lwk_died(),
        // The parent was killed meanwhile: on Linux it would have no child, which says nothing.
        ESRCH => sys::exit(EXIT_HANARE),
        ETIMEDOUT => {
            die(EXIT_HANARE, format_args!("fork: the LWK does not answer; see: hanare status"))
        }
        _ => die(EXIT_HANARE, format_args!("fork: the child cannot be started: {error}")),
    }
}
