//! NUMA policies: for the nodes of this instance as Linux has them. Pages that are there stay where
//! they are: none is moved.

use crate::base::frames;
use crate::base::heap;
use crate::base::user::{self, UserAddr, put};
use crate::base::usermemory::Running;
use crate::calls::context::{Context, handlers};
use crate::calls::rlimits;
use crate::link::delegate;
use crate::mm::map::limits;
use crate::mm::window::policy::node_of;
use crate::process::thread::Thread;
use crate::process::{Process, rights};
use crate::sched::cpus;
use alloc::sync::Arc;
use hanare_abi::service::MAY_SCHEDULE;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::limits::MAX_VMAS;
use hanare_core::link::ENDING;
use hanare_core::mempolicy::{Policy, check_mode};
use hanare_core::nodes::Nodes;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Backing;
use hanare_hal::paging::SMALL;
use hanare_hal::shared;
use linux_raw_sys::general::{__NR_get_mempolicy, __NR_migrate_pages, __NR_move_pages};
use zerocopy::IntoBytes;

handlers! { call:
    __NR_get_mempolicy => {
        get(call, call.address(0), call.address(1), call.args[2], call.args[3], call.args[4])
    },
    __NR_set_mempolicy => set(call.thread, call.args[0], call.address(1), call.args[2]),
    __NR_set_mempolicy_home_node => {
        set_home(call.process, call.args[0], call.args[1], call.args[2], call.args[3])
    },
    __NR_mbind => mbind(call),
    __NR_move_pages => move_pages(call),
    __NR_migrate_pages => migrate_pages(call),
}

/// MPOL_MF_STRICT of mbind(2): pages on other nodes than the policy's make the call fail (EIO).
const STRICT: u64 = 1;
/// MPOL_MF_MOVE of mbind(2) and move_pages(2): asks to move the process' own pages. None is moved
/// here.
const MOVE: u64 = 2;
/// MPOL_MF_MOVE_ALL of the same calls: asks to move pages that other processes map, too.
const MOVE_ALL: u64 = 4;

/// A set of nodes of the application.
fn read_nodes(at: UserAddr, max_node: u64) -> Result<Nodes> {
    Nodes::read(&Running, at.get(), max_node)
}

/// A mode that this Linux has, too.
fn mode(word: u64) -> Result<u32> {
    check_mode(word as u32, shared::params().linux_policy_modes)?;
    Ok(word as u32)
}

/// `start..start + len` in whole pages.
fn range(start: u64, len: u64) -> Result<PageRange> {
    let end = start.wrapping_add(len.wrapping_add(SMALL - 1) & !(SMALL - 1));
    PageRange::new(start, end).ok_or(errno::EINVAL)
}

/// set_mempolicy(2), of the running thread.
pub fn set(me: &Thread, mode: u64, at: UserAddr, max_node: u64) -> Result<u64> {
    let mode = self::mode(mode)?;
    let policy = Policy::new(mode, read_nodes(at, max_node)?, frames::nodes())?;
    me.policy.set(policy, me.process.memory());
    Ok(0)
}

/// mbind(2). What is there already stays where it is.
pub fn mbind(call: &Context<'_>) -> Result<u64> {
    let [start, len, mode, at, max_node, flags] = call.args;
    let (mode, flags) = (self::mode(mode)?, flags & 0xffff_ffff);
    let wished = read_nodes(UserAddr::of(at), max_node)?;
    if flags & !(STRICT | MOVE | MOVE_ALL) != 0 {
        return Err(errno::EINVAL);
    }
    if flags & MOVE_ALL != 0 && call.thread.ids.lock().euid != 0 {
        return Err(errno::EPERM);
    }
    let range = range(start, len)?;
    if range.is_empty() {
        return Ok(0);
    }
    let policy = Policy::new(mode, wished, frames::nodes())?;
    let mut mm = call.process.memory().mm.lock();
    let mapped: u64 = mm.mappings().parts(range).map(|(_, part)| part.len()).sum();
    // The default may be given back over holes.
    if mapped == 0 || mapped != range.len() && policy != Policy::default() {
        return Err(errno::EFAULT);
    }
    // On Linux a piece with a policy of its own is a mapping of its own.
    if mm.policies().count_with(range) + mm.mappings().count() > MAX_VMAS
        || !limits::room_for_mappings(0)
    {
        return Err(errno::ENOMEM);
    }
    // What lies elsewhere is not moved: with MOVE that is seen afterwards, as on Linux.
    let is_strict = flags & STRICT != 0 && policy != Policy::default();
    let elsewhere = Nodes(wished.0.map(|word| !word));
    let fails = is_strict && mm.pages_on(&elsewhere, range) > 0;
    if !fails || flags & (MOVE | MOVE_ALL) != 0 {
        mm.cursor(range).set_policy(policy)?;
    }
    if fails { Err(errno::EIO) } else { Ok(0) }
}

/// set_mempolicy_home_node(2).
pub fn set_home(p: &Process, start: u64, len: u64, node: u64, flags: u64) -> Result<u64> {
    let range = range(start, len)?;
    let has_cpu = |node: u32| {
        (0..shared::params().cpu_count as usize).any(|cpu| shared::cpu(cpu).node() == node)
    };
    let node = u32::try_from(node).map_err(|_| errno::EINVAL)?;
    if flags != 0 || !frames::nodes().contains(node) && !has_cpu(node) {
        return Err(errno::EINVAL);
    }
    if range.is_empty() {
        return Ok(0);
    }
    let mut mm = p.memory().mm.lock();
    if mm.policies().count() + 2 + mm.mappings().count() > MAX_VMAS || !limits::room_for_mappings(0)
    {
        return Err(errno::ENOMEM);
    }
    mm.cursor(range).set_home(node)?;
    Ok(0)
}

/// migrate_pages(2): how many pages could not be moved. Linux says whether the caller may, and
/// moves what it shares with the process; ours stay where they are.
pub fn migrate_pages(call: &Context<'_>) -> Result<u64> {
    let [pid, max_node, from, to, ..] = call.args;
    let of_linux = delegate::linux(call.thread, __NR_migrate_pages, call.args)?;
    let (from, to) =
        (read_nodes(UserAddr::of(from), max_node)?, read_nodes(UserAddr::of(to), max_node)?);
    let Some(p) = rlimits::target(call.process, pid) else { return Ok(of_linux) };
    // That was the worker's word.
    if !Arc::ptr_eq(&p, call.process) {
        rights::may(call.thread, MAY_SCHEDULE, pid as u32, &p)?;
    }
    let left = from.and(&Nodes(to.0.map(|word| !word)));
    Ok(of_linux.wrapping_add(p.memory().pages_on(&left))) // a proxy says what it likes
}

/// move_pages(2) without `nodes`: where pages are. None is moved.
pub fn move_pages(call: &Context<'_>) -> Result<u64> {
    let [pid, count, pages, to, status, flags] = call.args;
    if flags & !(MOVE | MOVE_ALL) != 0 {
        return Err(errno::EINVAL);
    }
    if to != 0 {
        return Err(errno::ENOSYS);
    }
    let Some(p) = rlimits::target(call.process, pid) else {
        return delegate::linux(call.thread, __NR_move_pages, call.args);
    };
    let is_own = p.memory().id == call.process.memory().id;
    if !Arc::ptr_eq(&p, call.process) || flags & MOVE_ALL != 0 {
        // Whether it may: asked about no page.
        delegate::linux(call.thread, __NR_move_pages, [pid, 0, 0, 0, 0, flags])?;
    }
    if !is_own {
        // That was the worker's word.
        rights::may(call.thread, MAY_SCHEDULE, pid as u32, &p)?;
    }
    for i in 0..count {
        cpus::serve_all(); // what is asked of this CPU does not wait for all the pages
        if call.thread.must_end() {
            return Err(ENDING);
        }
        let at = |list: u64, size: u64| list.wrapping_add(i.wrapping_mul(size));
        let addr = user::get::<u64>(UserAddr::of(at(pages, 8)))?;
        let node = {
            let mm = p.memory().mm.lock();
            let vma = mm.mappings().find(addr);
            // Of plain memory that no thread has touched Linux says this, too.
            let is_file = vma.is_some_and(|v| v.backing != Backing::Anonymous);
            let why = if is_file { errno::ENOENT } else { errno::EFAULT };
            vma.and_then(|_| mm.leaf(addr)).map(|leaf| node_of(&leaf)).ok_or(why)
        };
        let node = match node {
            Ok(None) if is_own => of_linux(call.thread, __NR_move_pages, addr),
            Ok(node) => node.ok_or(errno::ENOENT),
            Err(e) => Err(e),
        };
        let word = node.map_or_else(|e: Errno| -e.0, |node| node as i32);
        put(UserAddr::of(at(status, 4)), &word.to_le_bytes())?;
    }
    Ok(0)
}

/// The node of a page of Linux' own. Linux is asked by the call that the program makes, which its
/// filters let pass.
fn of_linux(me: &Thread, call: u32, addr: u64) -> Result<u32> {
    let to = me.write_scratch(addr.as_bytes())?;
    let args = match call {
        __NR_move_pages => [0, 1, to, 0, to + 8, 0],
        _ => [to + 8, 0, 0, addr, NODE | ADDR, 0],
    };
    delegate::linux(me, call, args)?;
    let node: i32 = me.process.memory().control(to + 8);
    u32::try_from(node).map_err(|_| Errno(node.saturating_neg()))
}

/// MPOL_F_NODE of get_mempolicy(2): a node is told in place of the policy's mode.
const NODE: u64 = 1;
/// MPOL_F_ADDR of get_mempolicy(2): the policy of an address is meant, not the thread's.
const ADDR: u64 = 2;

/// get_mempolicy(2).
pub fn get(
    call: &Context<'_>,
    mode_to: UserAddr,
    nodes_to: UserAddr,
    max_node: u64,
    addr: u64,
    flags: u64,
) -> Result<u64> {
    const MEMS_ALLOWED: u64 = 4;
    let flags = flags & 0xffff_ffff;
    let node_ids = u64::from(shared::params().linux_node_ids);
    if flags & !(NODE | ADDR | MEMS_ALLOWED) != 0 || !nodes_to.is_null() && max_node < node_ids {
        return Err(errno::EINVAL);
    }
    let own = call.thread.policy.get();
    let (mode, mask) = match flags {
        0 | NODE if addr != 0 => return Err(errno::EINVAL),
        0 => (own.mode, own.nodes),
        // The node of the next page of a thread whose pages take turns.
        NODE if own.takes_turns() => {
            (own.effective(frames::nodes()).first().unwrap_or(0), own.nodes)
        }
        MEMS_ALLOWED => (0, *frames::nodes()),
        f if f & ADDR != 0 && f & MEMS_ALLOWED == 0 => {
            let policy = at_address(call.process, addr)?;
            (if f & NODE != 0 { node_at(call.thread, addr)? } else { policy.mode }, policy.nodes)
        }
        _ => return Err(errno::EINVAL),
    };
    if !mode_to.is_null() {
        put(mode_to, &mode.to_le_bytes())?;
    }
    if !nodes_to.is_null() {
        // As many words as hold max_node - 1 bits; what is behind ours is cleared.
        let len = max_node.wrapping_sub(1).div_ceil(64) * 8;
        if len > SMALL {
            return Err(errno::EINVAL);
        }
        let mut bytes = heap::zeroed(len as usize)?;
        let known = bytes.len().min(size_of_val(&mask));
        bytes[..known].copy_from_slice(&mask.0.as_bytes()[..known]);
        put(nodes_to, &bytes)?;
    }
    Ok(0)
}

fn at_address(p: &Process, addr: u64) -> Result<Policy> {
    let mm = p.memory().mm.lock();
    if mm.mappings().find(addr).is_none() {
        return Err(errno::EFAULT);
    }
    Ok(mm.policies().get(addr))
}

/// Node of the page at `addr`, which is brought in.
fn node_at(me: &Thread, addr: u64) -> Result<u32> {
    user::get::<u8>(UserAddr::of(addr))?;
    let leaf = me.process.memory().mm.lock().leaf(addr).ok_or(errno::EFAULT)?;
    node_of(&leaf).map_or_else(|| of_linux(me, __NR_get_mempolicy, addr), Ok)
}
