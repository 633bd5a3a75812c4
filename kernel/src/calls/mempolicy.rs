//! NUMA policies: remembered and told as Linux does, for the nodes of this instance.

use crate::base::frames;
use crate::base::heap;
use crate::base::user::put;
use crate::calls::rlimits;
use crate::link::delegate;
use crate::mm::limits;
use crate::process::rights;
use crate::process::thread;
use alloc::sync::Arc;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::service::MAY_SCHEDULE;
use hanare_core::errno::{self, Result};
use hanare_core::limits::MAX_VMAS;
use hanare_core::mempolicy::{Nodes, Policy, WORDS, check_mode};
use hanare_hal::paging::{SMALL, pte};
use hanare_hal::{shared, usercopy};
use linux_raw_sys::general::__NR_migrate_pages;
use zerocopy::IntoBytes;

/// Nodes with memory of this instance.
fn nodes() -> Nodes {
    let mut mask = [0; WORDS];
    for n in shared::chunks().iter().map(|c| c.node) {
        if let Some(word) = mask.get_mut(n as usize / 64) {
            *word |= 1 << (n % 64);
        }
    }
    mask
}

/// A set of nodes of the application; bits that no node can have must be clear.
fn read_nodes(at: u64, max_node: u64) -> Result<Nodes> {
    const MOST_BITS: u64 = 4096 * 8;
    let mut nodes = [0; WORDS];
    let bits = max_node.wrapping_sub(1);
    if bits == 0 || at == 0 {
        return Ok(nodes);
    }
    if bits > MOST_BITS {
        return Err(errno::EINVAL);
    }
    for i in 0..bits.div_ceil(64) {
        let mut word = usercopy::read_u64(at.wrapping_add(i * 8)).map_err(|_| errno::EFAULT)?;
        if bits - i * 64 < 64 {
            word &= (1 << (bits - i * 64)) - 1;
        }
        match nodes.get_mut(i as usize) {
            Some(to) => *to = word,
            None if word != 0 => return Err(errno::EINVAL),
            None => {}
        }
    }
    Ok(nodes)
}

/// set_mempolicy(2), of the running thread.
pub fn set(mode: u64, at: u64, max_node: u64) -> Result<u64> {
    check_mode(mode as u32)?;
    let policy = Policy::new(mode as u32, read_nodes(at, max_node)?, &nodes())?;
    *thread::current().policy.lock() = policy;
    Ok(0)
}

/// mbind(2). What is there already stays where it is.
pub fn mbind(a: &[u64; 6]) -> Result<u64> {
    const STRICT: u64 = 1;
    const MOVE: u64 = 2;
    const MOVE_ALL: u64 = 4;
    let [start, len, mode, at, max_node, flags] = *a;
    let (mode, flags) = (mode as u32, flags & 0xffff_ffff);
    check_mode(mode)?;
    let wished = read_nodes(at, max_node)?;
    if flags & !(STRICT | MOVE | MOVE_ALL) != 0 {
        return Err(errno::EINVAL);
    }
    let p = &thread::current().process;
    if flags & MOVE_ALL != 0 && thread::current().ids.lock().euid != 0 {
        return Err(errno::EPERM);
    }
    let end = start.wrapping_add(len.wrapping_add(SMALL - 1) & !(SMALL - 1));
    if start % SMALL != 0 || end < start {
        return Err(errno::EINVAL);
    }
    if end == start {
        return Ok(0);
    }
    let policy = Policy::new(mode, wished, &nodes())?;
    let mut mm = p.mm.lock();
    let mapped: u64 = mm.vmas.range(start, end).map(|v| v.end.min(end) - v.start.max(start)).sum();
    // The default may be given back over holes.
    if mapped == 0 || mapped != end - start && policy != Policy::default() {
        return Err(errno::EFAULT);
    }
    // On Linux a piece with a policy of its own is a mapping of its own.
    if mm.policies.count_with(start, end) + mm.vmas.count() > MAX_VMAS
        || !limits::room_for_mappings(0)
    {
        return Err(errno::ENOMEM);
    }
    mm.policies.set(start, end, policy);
    Ok(0)
}

/// migrate_pages(2): how many pages could not be moved. Linux says whether the caller may, and
/// moves what it shares with the process; ours stay where they are.
pub fn migrate_pages(a: &[u64; 6]) -> Result<u64> {
    let [pid, max_node, from, to, ..] = *a;
    let of_linux = delegate::linux(__NR_migrate_pages, *a)?;
    let (from, to) = (read_nodes(from, max_node)?, read_nodes(to, max_node)?);
    let leaves = |node: u32| {
        let has = |nodes: &Nodes| {
            nodes.get(node as usize / 64).is_some_and(|word| word & 1 << (node % 64) != 0)
        };
        has(&from) && !has(&to)
    };
    let Some(p) = rlimits::target(pid) else { return Ok(of_linux) };
    // That was the worker's word.
    if !Arc::ptr_eq(&p, &thread::current().process) {
        rights::may(MAY_SCHEDULE, pid as u32, &p)?;
    }
    let mut pages = 0;
    p.mm.lock().table.update(USER_MIN, USER_MAX, &mut |leaf| {
        if leaf.entry & pte::FOREIGN == 0 && leaves(frames::node_of(leaf.frame())) {
            pages += leaf.size / SMALL;
        }
        leaf.entry
    });
    Ok(of_linux + pages)
}

/// get_mempolicy(2).
pub fn get(mode_to: u64, nodes_to: u64, max_node: u64, addr: u64, flags: u64) -> Result<u64> {
    const NODE: u64 = 1;
    const ADDR: u64 = 2;
    const MEMS_ALLOWED: u64 = 4;
    const MODE: u32 = 7;
    const INTERLEAVE: u32 = 3;
    let flags = flags & 0xffff_ffff;
    let node_ids = u64::from(shared::params().linux_node_ids);
    if flags & !(NODE | ADDR | MEMS_ALLOWED) != 0 || nodes_to != 0 && max_node < node_ids {
        return Err(errno::EINVAL);
    }
    let own = || *thread::current().policy.lock();
    let (mode, mask) = match flags {
        0 | NODE if addr != 0 => return Err(errno::EINVAL),
        0 => (own().mode, own().nodes),
        // The node of the next page of a thread whose pages take turns.
        NODE if own().mode & MODE == INTERLEAVE => (own().nodes[0].trailing_zeros(), own().nodes),
        MEMS_ALLOWED => (0, nodes()),
        f if f & ADDR != 0 && f & MEMS_ALLOWED == 0 => {
            let policy = at_address(addr)?;
            (if f & NODE != 0 { node_of(addr)? } else { policy.mode }, policy.nodes)
        }
        _ => return Err(errno::EINVAL),
    };
    if mode_to != 0 {
        put(mode_to, &mode.to_le_bytes())?;
    }
    if nodes_to != 0 {
        // As many words as hold max_node - 1 bits; what is behind ours is cleared.
        let len = max_node.wrapping_sub(1).div_ceil(64) * 8;
        if len > SMALL {
            return Err(errno::EINVAL);
        }
        let mut bytes = heap::zeroed(len as usize)?;
        let known = bytes.len().min(size_of_val(&mask));
        bytes[..known].copy_from_slice(&mask.as_bytes()[..known]);
        put(nodes_to, &bytes)?;
    }
    Ok(0)
}

fn at_address(addr: u64) -> Result<Policy> {
    let mm = thread::current().process.mm.lock();
    if mm.vmas.find(addr).is_none() {
        return Err(errno::EFAULT);
    }
    Ok(mm.policies.get(addr))
}

/// Node of the page at `addr`, which is brought in.
fn node_of(addr: u64) -> Result<u32> {
    let mut byte = [0];
    usercopy::read(addr, &mut byte).map_err(|_| errno::EFAULT)?;
    let leaf = thread::current().process.mm.lock().table.find(addr).ok_or(errno::EFAULT)?;
    // A page of Linux' own: its node is not known here.
    Ok(if leaf.entry & pte::FOREIGN != 0 { 0 } else { frames::node_of(leaf.frame()) })
}
