//! Calls that ask about the machine: its memory and its nodes are the LWK's.

use crate::{cpus, frames};
use alloc::vec;
use hanare_core::errno::{self, Result};
use hanare_hal::paging::pte;
use hanare_hal::{shared, usercopy};
use zerocopy::IntoBytes;

/// `sysinfo`, after Linux has filled in the structure at `to`: memory is the LWK's;
/// uptime, load and number of processes stay.
pub fn sysinfo(to: u64) -> Result<u64> {
    /// Offsets of totalram (freeram, sharedram, bufferram, totalswap and freeswap
    /// follow), totalhigh (freehigh follows), mem_unit.
    const MEMORY: u64 = 32;
    const HIGH: u64 = 88;
    const UNIT: u64 = 104;
    let (free, total) = frames::usage();
    put(to + MEMORY, [total, free, 0, 0, 0, 0].as_bytes())?;
    put(to + HIGH, [0u64, 0].as_bytes())?;
    put(to + UNIT, &1u32.to_le_bytes())
}

fn put(addr: u64, bytes: &[u8]) -> Result<u64> {
    usercopy::write(addr, bytes).map(|()| 0).map_err(|_| errno::EFAULT)
}

/// Nodes with memory or CPUs of this instance, bit n of word n / 64.
fn nodes() -> vec::Vec<u64> {
    let cpus = (0..shared::params().cpu_count as usize).map(|i| shared::cpu(i).node());
    let mut mask = vec![0u64];
    for n in shared::chunks().iter().map(|c| c.node).chain(cpus) {
        let word = n as usize / 64;
        mask.resize(mask.len().max(word + 1), 0);
        mask[word] |= 1 << (n % 64);
    }
    mask
}

/// `get_mempolicy`: every policy is the default one: pages come from the node of
/// the CPU that touches them first.
pub fn get_mempolicy(mode_to: u64, nodes_to: u64, max_node: u64, addr: u64, flags: u64) -> Result<u64> {
    const NODE: u64 = 1;
    const ADDR: u64 = 2;
    const MEMS_ALLOWED: u64 = 4;
    let all = nodes();
    let node_ids = all.len() as u64 * 64 - u64::from(all.last().map_or(0, |w| w.leading_zeros()));
    if flags & !(NODE | ADDR | MEMS_ALLOWED) != 0 || nodes_to != 0 && max_node < node_ids {
        return Err(errno::EINVAL);
    }
    let (mode, mask) = match flags {
        0 if addr != 0 => return Err(errno::EINVAL),
        0 => (0, vec![0]),
        MEMS_ALLOWED => (0, all),
        ADDR if is_mapped(addr) => (0, vec![0]),
        f if f == NODE | ADDR && is_mapped(addr) => (node_of(addr)?, vec![0]),
        f if f & ADDR != 0 && f & MEMS_ALLOWED == 0 => return Err(errno::EFAULT),
        _ => return Err(errno::EINVAL),
    };
    if mode_to != 0 {
        put(mode_to, &mode.to_le_bytes())?;
    }
    if nodes_to != 0 {
        let mut bytes = mask.as_bytes().to_vec();
        // As many words as hold max_node - 1 bits; what is behind ours is cleared.
        bytes.resize(((max_node - 1).div_ceil(64) * 8).min(1 << 16) as usize, 0);
        put(nodes_to, &bytes)?;
    }
    Ok(0)
}

fn is_mapped(addr: u64) -> bool {
    cpus::current().process.mm.lock().vmas.find(addr).is_some()
}

/// Node of the page at `addr`, which is brought in.
fn node_of(addr: u64) -> Result<u32> {
    let mut byte = [0];
    usercopy::read(addr, &mut byte).map_err(|_| errno::EFAULT)?;
    let leaf = cpus::current().process.mm.lock().table.find(addr).ok_or(errno::EFAULT)?;
    // A page of Linux' own: its node is not known here.
    Ok(if leaf.entry & pte::FOREIGN != 0 { 0 } else { frames::node_of(leaf.frame()) })
}

/// `ioperm`: ports are nobody's here, as on a kernel in lockdown.
pub fn ioperm(from: u64, count: u64, on: u64) -> Result<u64> {
    const PORTS: u64 = 65536;
    if from.checked_add(count).is_none_or(|end| end <= from || end > PORTS) {
        return Err(errno::EINVAL);
    }
    if on as u32 == 0 { Ok(0) } else { Err(errno::EPERM) }
}

/// `iopl`, the same.
pub fn iopl(level: u64) -> Result<u64> {
    match level as u32 {
        0 => Ok(0),
        1..=3 => Err(errno::EPERM),
        _ => Err(errno::EINVAL),
    }
}
