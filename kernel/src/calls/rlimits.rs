//! Limits of memory: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK.

use crate::base::user::{UserAddr, put};
use crate::link::delegate;
use crate::mm::map::limits::Limits;
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::process::{Process, limits, rights};
use alloc::sync::Arc;
use hanare_abi::service::MAY_LIMIT;
use hanare_core::errno::{self, Result};
use hanare_core::rlimits::{ADDRESS_SPACE, DATA, MEMLOCK};
use linux_raw_sys::general::{__NR_capget, __NR_prlimit64};
use zerocopy::IntoBytes;

const CAP_IPC_LOCK: u32 = 14;

/// Limits of what the running process may map, as they are now. May ask Linux.
pub fn of_memory(me: &Thread) -> Limits {
    limits::look(me);
    let p = &me.process;
    let (space, data) = {
        let id = p.identity.lock();
        (id.as_soft, id.data_soft)
    };
    // As Linux does for Valgrind: a soft limit of nothing does not count.
    let data = if data == 0 { linux_limit(me, 0, DATA as u64).map_or(0, |l| l[1]) } else { data };
    Limits { space, data }
}

/// Limit of what the running process may lock, and whether it is exempt.
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
        let [bytes, _] = linux_limit(me, 0, MEMLOCK as u64)?;
        let privileged = capable(me, CAP_IPC_LOCK)?;
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
    let scratch = me.write_scratch(&[])?;
    delegate::linux(me, __NR_prlimit64, [pid, resource, 0, scratch, 0, 0])?;
    Ok(p.memory().control(scratch))
}

/// Whether the caller has a capability (of the first 32) on Linux.
pub fn capable(me: &Thread, capability: u32) -> Result<bool> {
    // cap_user_header_t at 0, cap_user_data_t[2] at 64.
    let scratch = me.write_scratch(&[0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0])?;
    delegate::linux(me, __NR_capget, [scratch, scratch + 64, 0, 0, 0, 0])?;
    let effective: u32 = me.process.memory().control(scratch + 64);
    Ok(effective >> capability & 1 != 0)
}

/// The process of the instance that `prlimit64` of `caller` names; `None`: one of Linux'.
pub fn target(caller: &Arc<Process>, pid: u64) -> Option<Arc<Process>> {
    if pid as u32 == 0 || pid as u32 == caller.pid() {
        Some(caller.clone())
    } else {
        spaces::find_thread(caller, pid as u32).map(|t| t.process.clone())
    }
}

/// Arguments of getrlimit, setrlimit or prlimit64.
pub struct Change {
    /// Process whose limit is meant; 0: the caller.
    pub pid: u64,
    /// `RLIMIT_*`.
    pub resource: u64,
    /// Where `struct rlimit` lies that is to be set.
    pub new: Option<u64>,
    /// Where that is to be written which was set before.
    pub old: Option<u64>,
}

impl Change {
    /// Change that getrlimit(2) asks for: none, the limit is told.
    pub fn by_getrlimit(a: &[u64; 6]) -> Change {
        Change { pid: 0, resource: a[0], new: None, old: Some(a[1]) }
    }

    /// Change that setrlimit(2) asks for.
    pub fn by_setrlimit(a: &[u64; 6]) -> Change {
        Change { pid: 0, resource: a[0], new: Some(a[1]), old: None }
    }

    fn is_of_space(&self) -> bool {
        self.resource as u32 as usize == ADDRESS_SPACE
    }

    /// Change that prlimit(2) asks for. Null pointers stand for nothing to set, or to tell.
    pub fn by_prlimit(a: &[u64; 6]) -> Change {
        let given = |pointer| Some(pointer).filter(|&pointer| pointer != 0);
        Change { pid: a[0], resource: a[1], new: given(a[2]), old: given(a[3]) }
    }
}

/// getrlimit(2), setrlimit(2), prlimit(2), after Linux has made the call: applies what was set. For
/// the address space, the program's limit is told, since Linux has another one for the proxy.
pub fn made(me: &Thread, change: &Change, before: Before) -> Result<()> {
    let (process, tid, soft) = match before {
        Before::Known { process, tid, soft } => (process, tid, soft),
        Before::Refused => return Err(errno::EPERM),
        Before::Nothing => return Ok(()),
    };
    if change.new.is_some() {
        let _ = limits::ask(me, &process, tid); // else the module tells it soon
    }
    if let (true, Some(to)) = (change.is_of_space(), change.old) {
        put(UserAddr::of(to), soft.as_bytes())?;
    }
    Ok(())
}

/// Findings before Linux makes a call about a limit.
pub enum Before {
    /// Nothing of the LWK's is concerned.
    Nothing,
    /// The running thread has not the right, whatever its proxy will say.
    Refused,
    /// A process of the instance, and its soft limit of the address space.
    Known {
        /// The process whose limit is meant.
        process: Arc<Process>,
        /// A thread of the process.
        tid: u32,
        /// RLIMIT_AS.
        soft: u64,
    },
}

/// Looks, before Linux makes the call.
pub fn before(me: &Thread, change: &Change) -> Before {
    if change.new.is_none() && !change.is_of_space() {
        return Before::Nothing;
    }
    let Some(process) = target(&me.process, change.pid) else { return Before::Nothing };
    let is_own = core::ptr::eq(&*process, &*me.process);
    let tid = if is_own { me.tid() } else { change.pid as u32 };
    // Its own proxy's answer is no permission.
    match if is_own { Ok(()) } else { rights::may(me, MAY_LIMIT, tid, &process) } {
        Ok(()) => {}
        Err(errno::EPERM) => return Before::Refused,
        Err(_) => return Before::Nothing,
    }
    if change.is_of_space() && change.old.is_some() {
        let _ = limits::ask(me, &process, tid); // somebody else may have changed it
    }
    let soft = process.identity.lock().as_soft;
    Before::Known { process, tid, soft }
}
