//! fork of an address space: private pages are shared until somebody writes.

use super::release::Removed;
use super::{AddressSpace, FileRef, pte_bits};
use crate::frames;
use alloc::vec::Vec;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, pte};

/// What a fork made.
pub struct Forked {
    /// The child's memory.
    pub mm: AddressSpace,
    /// What Linux has to forget of the parent's pages: they are read-only now.
    pub zap: Option<(u64, u64)>,
}

impl AddressSpace {
    /// A copy for a child. `ENOMEM` leaves the parent as it was, but for large
    /// pages that were split and rights that faults give back.
    pub fn fork(&mut self) -> Result<Forked> {
        let mut child = AddressSpace::new().ok_or(errno::ENOMEM)?;
        (child.brk_start, child.brk, child.mmap_base) = (self.brk_start, self.brk, self.mmap_base);
        child.policies = self.policies.clone();
        let vmas: Vec<Vma<FileRef>> = self.vmas.iter().filter(|v| !v.flags.contains(VmaFlags::DONTFORK)).cloned().collect();
        let mut zap: Option<(u64, u64)> = None;
        let result = vmas.iter().try_for_each(|v| {
            let mut copy = v.clone();
            copy.flags -= VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT; // not inherited
            if let Backing::SharedLinux { watch, .. } = &mut copy.backing {
                *watch = 0; // the child watches its own mapping
            }
            child.vmas.insert(copy)?;
            let shares = matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. });
            if shares && !v.flags.contains(VmaFlags::WIPEONFORK) { self.share_pages(v, &mut child, &mut zap) } else { Ok(()) }
        });
        self.flush(0, 1 << 47);
        match result {
            Ok(()) => Ok(Forked { mm: child, zap }),
            Err(e) => {
                child.destroy();
                Err(e)
            }
        }
    }

    fn share_pages(&mut self, v: &Vma<FileRef>, child: &mut AddressSpace, zap: &mut Option<(u64, u64)>) -> Result<()> {
        self.split_all(v.start, v.end)?;
        let mut failed = false;
        let read_only = pte_bits(v.prot - Prot::WRITE);
        self.table.update(v.start, v.end, &mut |leaf| {
            if failed || leaf.entry & pte::FOREIGN != 0 {
                return leaf.entry;
            }
            if child.table.map_small(leaf.addr, leaf.frame() | read_only, &mut frames::UserTables).is_err() {
                failed = true;
                return leaf.entry;
            }
            child.add_resident(1);
            frames::share(leaf.frame());
            if leaf.entry & pte::SEEN != 0 {
                let (low, high) = zap.unwrap_or((leaf.addr, leaf.addr));
                *zap = Some((low.min(leaf.addr), high.max(leaf.addr + leaf.size)));
            }
            leaf.entry & !(pte::WRITE | pte::SEEN)
        });
        if failed { Err(errno::ENOMEM) } else { Ok(()) }
    }

    fn split_all(&mut self, start: u64, end: u64) -> Result<()> {
        let mut large = Vec::new();
        self.table.update(start, end, &mut |leaf| {
            if leaf.size == LARGE {
                large.push(leaf);
            }
            leaf.entry
        });
        for leaf in large {
            self.table.split(leaf.addr, &mut frames::Tables).map_err(|_| errno::ENOMEM)?;
            frames::split(leaf.frame(), 9);
        }
        Ok(())
    }

    /// Gives up a copy that no process ever used.
    pub fn destroy(mut self) {
        let mut removed = Removed::default();
        let (min, max) = (self.vmas.min(), self.vmas.max());
        drop(self.vmas.remove(min, max));
        let _ = self.unmap_pages(min, max, &mut removed);
        removed.set_aside();
        core::mem::take(&mut self.stale).settle(&self.active);
        self.table.free(&mut frames::Tables);
    }
}
