//! Limits of memory: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK.

use crate::base::user::{self, UserAddr, put};
use crate::link::delegate;
use crate::mm::limits::Limits;
use crate::process::spaces;
use crate::process::thread::{self, Thread};
use crate::process::{Process, rights};
use alloc::sync::Arc;
use hanare_abi::service::MAY_LIMIT;
use hanare_core::errno::{self, Result};
use linux_raw_sys::general::{__NR_capget, __NR_prlimit64};
use zerocopy::IntoBytes;

const RLIMIT_DATA: u64 = 2;
const RLIMIT_MEMLOCK: u64 = 8;
const RLIMIT_AS: u32 = 9;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_RESOURCE: u32 = 24;

/// What the running process may map, now. May ask Linux.
pub fn of_memory(me: &Thread) -> Limits {
    let p = &me.process;
    let (space, data) = {
        let id = p.identity.lock();
        (id.as_soft, id.data_soft)
    };
    // As Linux does for Valgrind: a soft limit of nothing does not count.
    let data = if data == 0 { linux_limit(me, 0, RLIMIT_DATA).map_or(0, |l| l[1]) } else { data };
    Limits { space, data }
}

/// What the running process may lock.
#[derive(Clone, Copy)]
pub struct LockLimit {
    bytes: u64,
    privileged: bool,
}

impl LockLimit {
    /// Asks Linux: the limit and the capability can change behind our back, and
    /// few programs lock memory.
    ///
    /// # Errors
    /// `EPERM`: it may lock nothing at all.
    pub fn ask(me: &Thread) -> Result<LockLimit> {
        let [bytes, _] = linux_limit(me, 0, RLIMIT_MEMLOCK)?;
        let privileged = capable(&me.process, me.slot_index, CAP_IPC_LOCK)?;
        if bytes == 0 && !privileged {
            Err(errno::EPERM)
        } else {
            Ok(LockLimit { bytes, privileged })
        }
    }

    /// Whether that many bytes may be locked in all. The limit counts whole pages.
    pub fn allows(&self, bytes: u64) -> bool {
        self.privileged || bytes <= self.bytes & !4095
    }
}

/// A limit as Linux has it: soft, hard. `pid` 0: the caller's.
fn linux_limit(me: &Thread, pid: u64, resource: u64) -> Result<[u64; 2]> {
    let p = &me.process;
    let scratch = p.write_scratch(me.slot_index, &[])?;
    delegate::linux(__NR_prlimit64, [pid, resource, 0, scratch, 0, 0])?;
    Ok(p.control(scratch))
}

/// Whether the caller has a capability (of the first 32) on Linux.
pub fn capable(p: &Process, slot: u32, capability: u32) -> Result<bool> {
    // cap_user_header_t at 0, cap_user_data_t[2] at 64.
    let scratch = p.write_scratch(slot, &[0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0])?;
    delegate::linux(__NR_capget, [scratch, scratch + 64, 0, 0, 0, 0])?;
    let effective: u32 = p.control(scratch + 64);
    Ok(effective >> capability & 1 != 0)
}

/// The process of the instance that `prlimit64` names; `None`: one of Linux'.
pub fn target(pid: u64) -> Option<Arc<Process>> {
    let p = &thread::current().process;
    let own = pid as u32 == 0 || pid as u32 == p.pid();
    if own {
        Some(p.clone())
    } else {
        spaces::find_thread(p, pid as u32).map(|t| t.process.clone())
    }
}

/// Arguments of getrlimit, setrlimit or prlimit64.
pub struct Change {
    /// Process whose limit it is; 0: the caller.
    pub pid: u64,
    /// `RLIMIT_*`.
    pub resource: u64,
    /// Where `struct rlimit` lies that is to be set.
    pub new: Option<u64>,
    /// Where that is to be written which was set before.
    pub old: Option<u64>,
}

impl Change {
    /// Of getrlimit(2).
    pub fn by_getrlimit(a: &[u64; 6]) -> Change {
        Change { pid: 0, resource: a[0], new: None, old: Some(a[1]) }
    }

    /// Of setrlimit(2).
    pub fn by_setrlimit(a: &[u64; 6]) -> Change {
        Change { pid: 0, resource: a[0], new: Some(a[1]), old: None }
    }

    /// Of prlimit(2).
    pub fn by_prlimit(a: &[u64; 6]) -> Change {
        let given = |pointer| Some(pointer).filter(|&pointer| pointer != 0);
        Change { pid: a[0], resource: a[1], new: given(a[2]), old: given(a[3]) }
    }
}

/// A change of RLIMIT_AS, which is the LWK's alone: in the proxy
/// the application's addresses are one huge mapping, and its own limit has to stay out of
/// the way. `None`: another limit, or of a process of Linux'.
pub fn address_space(change: &Change) -> Option<Result<u64>> {
    if change.resource as u32 != RLIMIT_AS {
        return None;
    }
    let p = target(change.pid)?;
    Some(exchange(&p, change.pid, change.new, change.old))
}

fn exchange(p: &Process, pid: u64, new: Option<u64>, old: Option<u64>) -> Result<u64> {
    let me = thread::current();
    let (soft, known) = {
        let id = p.identity.lock();
        (id.as_soft, id.as_hard)
    };
    let foreign = !core::ptr::eq(p, &*me.process);
    if foreign {
        rights::may(MAY_LIMIT, pid as u32, p)?;
    }
    let of_linux = if foreign || known.is_none() {
        Some(linux_limit(me, pid, u64::from(RLIMIT_AS))?[1])
    } else {
        None
    };
    let hard = known.or(of_linux).unwrap_or(u64::MAX);
    if let Some(from) = new {
        let [new_soft, new_hard]: [u64; 2] = user::get(UserAddr::of(from))?;
        if new_soft > new_hard {
            return Err(errno::EINVAL);
        }
        if new_hard > hard && !capable(&me.process, me.slot_index, CAP_SYS_RESOURCE)? {
            return Err(errno::EPERM);
        }
        let mut id = p.identity.lock();
        (id.as_soft, id.as_hard) = (new_soft, Some(new_hard));
    }
    if let Some(to) = old {
        put(UserAddr::of(to), [soft, hard].as_bytes())?;
    }
    Ok(0)
}
