//! What a process may map and lock: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK.

use super::{AddressSpace, FileRef};
use crate::base::{frames, heap};
use crate::link::delegate;
use crate::mm::space;
use crate::process::thread::Thread;
use crate::process::{Process, rights};
use crate::sched::cpus;
use alloc::sync::Arc;
use hanare_abi::service::MAY_LIMIT;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Prot, Vma, VmaFlags};
use hanare_hal::usercopy;

const SYS_CAPGET: u32 = 125;
const SYS_PRLIMIT64: u32 = 302;
const RLIMIT_DATA: u64 = 2;
const RLIMIT_MEMLOCK: u64 = 8;
const RLIMIT_AS: u32 = 9;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_RESOURCE: u32 = 24;

/// Limits of the address space, bytes.
#[derive(Clone, Copy)]
pub struct Limits {
    space: u64,
    data: u64,
}

impl Limits {
    /// Those of the running process, now. May ask Linux.
    pub fn of(me: &Thread) -> Limits {
        let p = &me.process;
        let (space, data) = {
            let id = p.identity.lock();
            (id.as_soft, id.data_soft)
        };
        // As Linux does for Valgrind: a soft limit of nothing does not count.
        let data =
            if data == 0 { linux_limit(me, 0, RLIMIT_DATA).map_or(0, |l| l.1) } else { data };
        Limits { space, data }
    }

    /// The same where so many bytes of the map are only reserved.
    pub fn with_reserved(self, bytes: u64) -> Limits {
        Limits { space: self.space.saturating_add(bytes), ..self }
    }

    /// Whether `more` bytes may be mapped, and the kernel has room for it; `data`: writable and private.
    pub fn allow(&self, mm: &AddressSpace, more: u64, data: bool) -> bool {
        mm.vmas.total_bytes().saturating_add(more) <= self.space
            && (!data || self.allow_data(mm, more))
            && room_for_mappings(0)
            && mm.may_have_mappings()
    }

    /// Whether `more` bytes may become writable and private.
    pub fn allow_data(&self, mm: &AddressSpace, more: u64) -> bool {
        // No sum over the map where there is no limit, as nearly always.
        self.data == u64::MAX || mm.vmas.bytes_where(is_data).saturating_add(more) <= self.data
    }
}

/// What counts against RLIMIT_DATA.
pub fn is_data(v: &Vma<FileRef>) -> bool {
    v.prot.contains(Prot::WRITE) && !v.flags.intersects(VmaFlags::SHARED | VmaFlags::GROWSDOWN)
}

/// Whether memory is promised to a mapping with such rights and flags when it is made.
pub fn is_accounted(prot: Prot, flags: VmaFlags) -> bool {
    prot.contains(Prot::WRITE) && !flags.intersects(VmaFlags::SHARED | VmaFlags::NORESERVE)
}

/// What of the memory, one part of so many, must be free for a new thread or process.
const FREE_FOR_TASKS: u64 = 16;

/// The same for a new mapping: half of what applications' pages leave to the kernel. So it is
/// the kernel's own need that leads to a refusal, not a program that uses all the memory it can.
const FREE_FOR_MAPPINGS: u64 = 2 * frames::KERNEL_SHARE as u64;

/// Whether the kernel has memory for another thread or process.
pub fn room_for_tasks() -> bool {
    is_free(0, FREE_FOR_TASKS)
}

/// Whether the kernel has `bytes` for more mappings. They cost its memory, not the process'.
pub fn room_for_mappings(bytes: u64) -> bool {
    is_free(bytes, FREE_FOR_MAPPINGS)
}

/// Whether `bytes` are free beside one of `parts` parts of the memory.
fn is_free(bytes: u64, parts: u64) -> bool {
    if heap::is_short() {
        return false;
    }
    let (free, total) = frames::usage();
    free >= bytes + total / parts
}

/// Linux' heuristic overcommit: `ENOMEM` for more at once than the machine has.
pub fn enough_memory(bytes: u64) -> Result<()> {
    if bytes > frames::usage().1 { Err(errno::ENOMEM) } else { Ok(()) }
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
        let (bytes, _) = linux_limit(me, 0, RLIMIT_MEMLOCK)?;
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
fn linux_limit(me: &Thread, pid: u64, resource: u64) -> Result<(u64, u64)> {
    let p = &me.process;
    let scratch = p.write_scratch(me.slot_index, &[])?;
    delegate::linux(SYS_PRLIMIT64, [pid, resource, 0, scratch, 0, 0])?;
    let mut words = [0; 16];
    p.read_control(scratch, &mut words);
    Ok(pair(words))
}

fn pair(words: [u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(words);
    (both as u64, (both >> 64) as u64)
}

/// Whether the caller has a capability (of the first 32) on Linux.
pub fn capable(p: &Process, slot: u32, capability: u32) -> Result<bool> {
    // cap_user_header_t at 0, cap_user_data_t[2] at 64.
    let scratch = p.write_scratch(slot, &[0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0])?;
    delegate::linux(SYS_CAPGET, [scratch, scratch + 64, 0, 0, 0, 0])?;
    let mut effective = [0; 4];
    p.read_control(scratch + 64, &mut effective);
    Ok(u32::from_le_bytes(effective) >> capability & 1 != 0)
}

/// The process of the instance that `prlimit64` names; `None`: one of Linux'.
pub fn target(pid: u64) -> Option<Arc<Process>> {
    let p = &cpus::current().process;
    let own = pid as u32 == 0 || pid as u32 == p.identity.lock().pid;
    if own { Some(p.clone()) } else { space::find_thread(p, pid as u32).map(|t| t.process.clone()) }
}

/// getrlimit, setrlimit and prlimit64 of RLIMIT_AS, which is the LWK's alone: in the proxy
/// the application's addresses are one huge mapping, and its own limit has to stay out of
/// the way. `None`: another limit, or of a process of Linux'.
pub fn address_space(number: u16, a: &[u64; 6]) -> Option<Result<u64>> {
    let (pid, resource, new, old) = match number {
        97 => (0, a[0], None, Some(a[1])),
        160 => (0, a[0], Some(a[1]), None),
        302 => (a[0], a[1], Some(a[2]).filter(|&n| n != 0), Some(a[3]).filter(|&o| o != 0)),
        _ => return None,
    };
    if resource as u32 != RLIMIT_AS {
        return None;
    }
    let p = target(pid)?;
    Some(exchange(&p, pid, new, old))
}

fn exchange(p: &Process, pid: u64, new: Option<u64>, old: Option<u64>) -> Result<u64> {
    let me = cpus::current();
    let (soft, known) = {
        let id = p.identity.lock();
        (id.as_soft, id.as_hard)
    };
    let foreign = !core::ptr::eq(p, &*me.process);
    if foreign {
        rights::may(MAY_LIMIT, pid as u32, p)?;
    }
    let of_linux = if foreign || known.is_none() {
        Some(linux_limit(me, pid, u64::from(RLIMIT_AS))?.1)
    } else {
        None
    };
    let hard = known.or(of_linux).unwrap_or(u64::MAX);
    if let Some(from) = new {
        let mut words = [0; 16];
        usercopy::read(from, &mut words).map_err(|_| errno::EFAULT)?;
        let (new_soft, new_hard) = pair(words);
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
        let words = (u128::from(hard) << 64 | u128::from(soft)).to_le_bytes();
        usercopy::write(to, &words).map_err(|_| errno::EFAULT)?;
    }
    Ok(0)
}

impl AddressSpace {
    /// Whether mappings may be cut so that `start..end` has its own.
    ///
    /// # Errors
    /// `ENOMEM`: the kernel has no memory for more.
    pub fn may_part(&self, start: u64, end: u64) -> Result<()> {
        let cuts = |at: u64| self.vmas.find(at).is_some_and(|v| v.start < at);
        if (cuts(start) || cuts(end)) && !(room_for_mappings(0) && self.may_have_mappings()) {
            Err(errno::ENOMEM)
        } else {
            Ok(())
        }
    }

    /// The mapping at `addr`; one that grows down to it does so, as far as
    /// RLIMIT_STACK and RLIMIT_AS allow.
    pub fn find_or_grow(&mut self, p: &Process, addr: u64) -> Option<Vma<FileRef>> {
        if let Some(vma) = self.vmas.find(addr) {
            return Some(vma.clone());
        }
        let above = self.vmas.find_next(addr).filter(|v| v.flags.contains(VmaFlags::GROWSDOWN))?;
        let more = above.start - (addr & !4095);
        let (space, stack) = {
            let id = p.identity.lock();
            (id.as_soft, id.stack_soft)
        };
        if self.vmas.total_bytes().saturating_add(more) > space {
            return None;
        }
        self.vmas.grow_down(addr, stack).ok()?;
        self.vmas.find(addr).cloned()
    }

    /// Bytes locked.
    pub fn locked_bytes(&self) -> u64 {
        self.vmas.bytes_where(|v| v.flags.contains(VmaFlags::LOCKED))
    }
}
