//! fork of an address space: private pages are shared until somebody writes.

use super::address_space::is_lost;
use super::caller::Caller;
use super::release;
use super::reserve::is_reservation;
use super::{AddressSpace, FileRef, limits, pte_bits};
use crate::base::{frames, heap};
use crate::sched::{hold, tlb};
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::memory;
use hanare_hal::paging::{Leaf, SMALL, pte};

/// Pages that Linux may write to of which a child gets a copy at once. That costs less
/// than to have Linux forget them, and then ask for them again for its next answer.
const COPIED_MAX: u32 = 32;

/// What a fork made.
pub struct Forked {
    /// The child's memory.
    pub mm: AddressSpace,
    /// What Linux has to forget of the parent's pages: they are read-only now.
    zap: Option<(u64, u64)>,
    /// The parent's [`AddressSpace::given`].
    given: u64,
}

impl Forked {
    /// Has Linux forget what it may still write to. Without the lock; may wait.
    pub fn zap(&self, p: &Caller<'_>) {
        let Some((start, end)) = self.zap else { return };
        if !release::zap(p, start, end) {
            return; // the next fork does it
        }
        hold::at("fork-zapped");
        let mut mm = p.mm.lock();
        if mm.given != self.given {
            return; // it may have some again: each is zapped before its copy is made
        }
        mm.unforgotten = None;
        mm.table.update(start, end, &mut |leaf| {
            let forgotten = leaf.size == SMALL
                && leaf.entry & (pte::WRITE | pte::FOREIGN) == 0
                && frames::is_shared(leaf.frame());
            leaf.entry & if forgotten { !pte::SEEN } else { u64::MAX }
        });
    }
}

/// A fork under way.
struct Fork {
    child: AddressSpace,
    /// What Linux has to forget, of earlier forks, too.
    zap: Option<(u64, u64)>,
    /// How many pages may still be copied.
    copies: u32,
}

impl AddressSpace {
    /// A copy for a child. `ENOMEM` leaves the parent as it was, but for large pages that
    /// were split and rights that faults give back.
    pub fn fork(&mut self) -> Result<Forked> {
        if !limits::room_for_mappings(self.map_bytes()) {
            return Err(errno::ENOMEM);
        }
        let account = self.account.clone().ok_or(errno::ENOMEM)?;
        account.may_have_process()?;
        account.may_have(self.map_bytes() + self.table.pages() * SMALL)?;
        self.given += 1;
        let mut fork = Fork {
            child: AddressSpace::new(account).ok_or(errno::ENOMEM)?,
            zap: self.unforgotten,
            copies: COPIED_MAX,
        };
        let child = &mut fork.child;
        (child.brk_start, child.brk, child.mmap_base) = (self.brk_start, self.brk, self.mmap_base);
        heap::room(self.policies.bytes())?; // a program makes as many as it likes
        (child.policies, child.wish) = (self.policies.clone(), self.wish);
        let (mut at, mut result) = (0, Ok(()));
        while result.is_ok()
            && let Some(v) = self.vmas.find_next(at).cloned()
        {
            at = v.end;
            if !v.flags.contains(VmaFlags::DONTFORK) && !is_reservation(&v) {
                result = self.fork_mapping(&v, &mut fork);
            }
        }
        self.flush(0, 1 << 47);
        self.unforgotten = fork.zap;
        match result {
            Ok(()) => {
                fork.child.wish = None;
                fork.child.check_resident();
                fork.child.settle_account();
                Ok(Forked { mm: fork.child, zap: fork.zap, given: self.given })
            }
            Err(e) => Err(e),
        }
    }

    fn fork_mapping(&mut self, v: &Vma<FileRef>, fork: &mut Fork) -> Result<()> {
        // Bytes that are free may lie in pieces that the heap cannot use.
        if heap::is_short() {
            return Err(errno::ENOMEM);
        }
        let mut copy = v.clone();
        copy.flags -= VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT; // not inherited
        if let Backing::SharedLinux { watch, .. } = &mut copy.backing {
            *watch = 0; // the child watches its own mapping
        }
        fork.child.vmas.insert(copy)?;
        let shares = matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. });
        if shares && !v.flags.contains(VmaFlags::WIPEONFORK) {
            self.share_pages(v, fork)
        } else {
            Ok(())
        }
    }

    fn share_pages(&mut self, v: &Vma<FileRef>, fork: &mut Fork) -> Result<()> {
        self.split_all(v.start, v.end)?;
        let mut failed = false;
        let read_only = pte_bits(v.prot - Prot::WRITE);
        self.table.update(v.start, v.end, &mut |leaf| {
            if is_lost(&leaf) {
                let child = &mut fork.child;
                match child.table.map_small(leaf.addr, leaf.entry, &mut frames::UserTables) {
                    Ok(()) => child.add_foreign(1),
                    Err(_) => failed = true,
                }
                return leaf.entry;
            }
            if failed || leaf.entry & pte::FOREIGN != 0 || fork.copy_page(&leaf, v.prot) {
                return leaf.entry;
            }
            if fork
                .child
                .table
                .map_small(leaf.addr, leaf.frame() | read_only, &mut frames::UserTables)
                .is_err()
            {
                failed = true;
                return leaf.entry;
            }
            fork.child.add_resident(1);
            frames::share(leaf.frame());
            // Other pages Linux has read-only, too, if at all.
            if is_written_by_linux(&leaf) {
                fork.zap = Some(tlb::join(fork.zap, (leaf.addr, leaf.addr + leaf.size)));
            }
            leaf.entry & !pte::WRITE
        });
        if failed { Err(errno::ENOMEM) } else { Ok(()) }
    }
}

/// Whether Linux may have the page mapped for writing.
fn is_written_by_linux(leaf: &Leaf) -> bool {
    leaf.entry & (pte::WRITE | pte::SEEN) == pte::WRITE | pte::SEEN
}

impl Fork {
    /// Gives the child a copy of a page that Linux may write to; the parent keeps its
    /// own as it is. False: it is to be shared like others.
    fn copy_page(&mut self, leaf: &Leaf, prot: Prot) -> bool {
        if self.copies == 0 || !is_written_by_linux(leaf) {
            return false;
        }
        let Some(frame) = self.child.alloc(leaf.addr) else { return false };
        memory::copy(frame, leaf.frame(), SMALL as usize);
        if self
            .child
            .table
            .map_small(leaf.addr, frame | pte_bits(prot), &mut frames::UserTables)
            .is_err()
        {
            frames::free(frame, 0);
            return false;
        }
        self.child.add_resident(1);
        self.copies -= 1;
        true
    }
}
