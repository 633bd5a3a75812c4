//! The rights of a thread, which its worker has, and what they allow it to do to others.

use crate::link::{delegate, services};
use crate::process::Ids;
use crate::process::Process;
use crate::process::thread::Thread;
use hanare_abi::service::SERVICE_MAY;
use hanare_core::errno::Result;
use linux_raw_sys::general::{__NR_getegid, __NR_geteuid, __NR_getgid, __NR_getuid};

/// Whether Linux lets the running thread do `what` (`MAY_*`) to the thread `tid` of another
/// process. The module decides, since the proxy could forge its worker's answers.
pub fn may(me: &Thread, what: u64, tid: u32, of: &Process) -> Result<()> {
    services::by_worker(me, SERVICE_MAY, &[tid.into(), of.memory().id.into(), what], &[])?;
    Ok(())
}

/// Asks Linux for the running thread's users and groups, which are told without it.
pub fn refresh_ids(me: &Thread) {
    let ask = |nr| delegate::linux(me, nr, [0; 6]).unwrap_or(0) as u32;
    let ids = [__NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid].map(ask);
    let [uid, euid, gid, egid] = ids;
    *me.ids.lock() = Ids { uid, euid, gid, egid };
}

/// Flag of personality(2): memory that may be read may be executed.
pub const READ_IMPLIES_EXEC: u32 = 0x40_0000;
/// `personality` that changes nothing.
pub const ONLY_ASKS: u32 = !0;
