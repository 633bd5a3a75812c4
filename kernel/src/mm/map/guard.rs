//! The lock of an address space. Giving it back finishes what was begun under it:
//! other CPUs forget translations, then frames that lost their last mapping are freed.

use super::address_space::AddressSpace;
use crate::base::lock::{Mutex, MutexGuard, rank};
use crate::sched::{park, tlb};
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use hanare_core::transfers::Transfers;
use hanare_core::vma::Backing;
use hanare_hal::paging::{PageTable, Root};
use hanare_hal::percpu;
use hanare_hal::shared;

/// An address space behind its lock.
pub struct MmLock {
    mm: Mutex<AddressSpace, rank::AddressSpace>,
    root: Root,
    active: Arc<tlb::CpuSet>,
}

impl MmLock {
    /// An address space behind a new lock.
    pub fn new(mm: AddressSpace) -> MmLock {
        MmLock { root: mm.table.root(), active: mm.active.clone(), mm: Mutex::new(mm) }
    }

    /// Waits for the lock; serves shootdowns meanwhile, for the holder may be shooting. The calling
    /// CPU has no translation then that the holder before has made stale. Otherwise that holder
    /// unmaps a page, then a thread here maps another one at its address, and writes to the old
    /// one. The offer of the space is withdrawn, since the holder may change what it names.
    pub fn lock(&self) -> MmGuard<'_> {
        let mut guard = self.locked();
        tlb::serve();
        guard.withdraw_offer();
        guard.transfers.changing();
        MmGuard { guard: Some(guard), active: &self.active }
    }

    #[inline(always)]
    fn locked(&self) -> MutexGuard<'_, AddressSpace, rank::AddressSpace> {
        self.mm.lock_serving(|| {
            tlb::serve();
            if park::has_panicked() {
                park::park();
            }
        })
    }

    /// Waits for the lock, to begin or end a transfer. The space is not changed, so nothing has to
    /// be finished when the lock is given back.
    #[inline(always)]
    pub(in crate::mm) fn transfers(&self) -> TransfersGuard<'_> {
        TransfersGuard(self.locked())
    }

    /// Whether other address spaces may have memory of this one mapped.
    pub fn shares_memory(&self) -> bool {
        self.lock().vmas.iter().any(|v| matches!(v.backing, Backing::SharedLinux { .. }))
    }

    /// CPUs that have the space's page table loaded.
    pub fn active(&self) -> &tlb::CpuSet {
        &self.active
    }

    /// Loads the space's page table on the calling CPU.
    pub fn activate(&self) {
        if !self.root.is_active() {
            self.active.insert(percpu::index());
            self.root.activate();
        }
    }

    /// The calling CPU has another table now.
    pub fn left(&self) {
        self.active.remove(percpu::index());
    }

    /// Takes the table out, for good: no CPU uses it or ever will.
    pub fn take_table(&self) -> PageTable {
        core::mem::replace(&mut self.lock().table, PageTable::empty())
    }
}

/// The right to change an address space.
pub struct MmGuard<'a> {
    guard: Option<MutexGuard<'a, AddressSpace, rank::AddressSpace>>,
    active: &'a tlb::CpuSet,
}

impl Deref for MmGuard<'_> {
    type Target = AddressSpace;
    fn deref(&self) -> &AddressSpace {
        self.guard.as_ref().expect("held until the drop")
    }
}

impl DerefMut for MmGuard<'_> {
    fn deref_mut(&mut self) -> &mut AddressSpace {
        self.guard.as_mut().expect("held until the drop")
    }
}

impl Drop for MmGuard<'_> {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        guard.wish = None;
        guard.settle_account();
        if guard.stale.is_empty() {
            return;
        }
        let stale = core::mem::take(&mut guard.stale);
        stale.post(self.active);
        drop(guard);
        stale.settle(self.active);
    }
}

/// The right to begin and end transfers in an address space.
pub(in crate::mm) struct TransfersGuard<'a>(MutexGuard<'a, AddressSpace, rank::AddressSpace>);

impl Deref for TransfersGuard<'_> {
    type Target = Transfers;
    #[inline(always)]
    fn deref(&self) -> &Transfers {
        &self.0.transfers
    }
}

impl DerefMut for TransfersGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Transfers {
        &mut self.0.transfers
    }
}

impl AddressSpace {
    /// Withdraws the offer of the space.
    fn withdraw_offer(&mut self) {
        if self.offered_by != 0 {
            shared::offer(self.offered_by).withdraw(self.offered_by);
            self.offered_by = 0;
        }
    }
}
