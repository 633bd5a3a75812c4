//! The vDSO: clock reads that trap nowhere (`kernel/vdso`). One copy of its code
//! for all processes, the clock page right below it.

use super::address_space::AddressSpace;
use crate::base::frames;
use crate::base::lists;
use alloc::vec::Vec;
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::vma::{Backing, Prot, Search, SpecialKind, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_hal::pte::Entry;
use spin::Once;

static CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));
static FRAMES: Once<Vec<PhysAddr>> = Once::new();
static EMPTY: Once<PhysAddr> = Once::new();

/// Copies the code into frames of its own (once, at boot).
pub fn init() {
    EMPTY.call_once(|| {
        frames::alloc_zeroed(FrameOwner::kernel(Subject::Shared)).expect("memory for the vDSO")
    });
    FRAMES.call_once(|| {
        let copied = lists::collected(CODE.chunks(4096).map(|part| {
            let frame = frames::alloc_zeroed(FrameOwner::kernel(Subject::Shared))
                .expect("memory for the vDSO");
            memory::write(frame, part);
            frame
        }));
        copied.expect("memory for the vDSO")
    });
}

/// Frame of the page of its code at `offset` bytes.
pub fn frame(offset: u64) -> Option<PhysAddr> {
    FRAMES.get()?.get((offset / 4096) as usize).copied()
}

/// Frame of the page that is mapped instead of the clock page where every read is to
/// be a system call.
pub fn empty() -> Option<PhysAddr> {
    EMPTY.get().copied()
}

/// Has a program's reads of the clock be system calls (`traps`), or reads of the clock page.
pub fn set_traps(mm: &mut AddressSpace, traps: bool) {
    let (from, to) = if traps {
        (SpecialKind::Vvar, SpecialKind::VvarEmpty)
    } else {
        (SpecialKind::VvarEmpty, SpecialKind::Vvar)
    };
    let found = mm.vmas.iter().find(|v| v.backing == Backing::Special(from)).map(Vma::range);
    let Some(pages) = found else { return };
    let changed = mm.vmas.update(pages, |v| {
        v.backing = Backing::Special(to);
        Ok(())
    });
    if changed.is_ok() {
        mm.change_pages(pages, &mut |_| Entry::NONE);
        mm.flush(pages);
    }
}

/// Maps clock page and code; the address of the code. `None`: no room (the
/// program then uses system calls).
pub fn map(mm: &mut AddressSpace, traps: bool) -> Option<u64> {
    let code = FRAMES.get()?.len() as u64 * 4096;
    let base = mm.mmap_base;
    let start = mm.vmas.find_gap(4096 + code, 4096, Search::TopDown(base))?;
    let flags = VmaFlags::VDSO | VmaFlags::DONTDUMP;
    let data = if traps { SpecialKind::VvarEmpty } else { SpecialKind::Vvar };
    let at = start + 4096;
    for (start, end, prot, kind) in
        [(start, at, Prot::READ, data), (at, at + code, Prot::READ | Prot::EXEC, SpecialKind::Vdso)]
    {
        let backing = Backing::Special(kind);
        mm.vmas.insert(Vma { start, end, prot, max_prot: prot, flags, backing }).ok()?;
    }
    Some(at)
}
