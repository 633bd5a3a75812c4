//! Memory of a process: the VMA map and the page table, kept in step.
//!
//! Rule: the lock of an [`AddressSpace`] is never held
//! while waiting for Linux. Changes are made under the lock; what Linux has seen
//! is zapped after it is released, and only then are frames freed.

pub mod advise;
pub mod aio;
pub mod bad;
pub mod calls;
pub mod content;
pub mod fault;
pub mod files;
pub mod fork;
pub mod guard;
pub mod huge;
pub mod join;
pub mod limits;
pub mod linux;
pub mod lock;
pub mod oom;
pub mod patch;
pub mod release;
pub mod remap;
pub mod shared;
pub mod space;
pub mod sysv;
pub mod vdso;

use crate::base::accounts::{Account, Sizes};
use crate::base::{frames, heap};
use crate::link::services;
use crate::sched::tlb;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::mempolicy::Policies;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags, VmaMap};
use hanare_hal::paging::{PageTable, SMALL, pte};

pub use guard::MmLock;
pub use release::retry_quarantine;

/// A file that mappings hold, by its id in the module.
#[derive(Debug)]
pub struct FileHandle {
    /// Space that holds it.
    pub space: u32,
    /// CPU that serves that space's requests.
    pub home: usize,
    /// Id in the module.
    pub id: u64,
    /// Inode and device, for `/proc/self/maps`.
    pub inode: u64,
    /// See `inode`.
    pub device: u64,
    /// Name, if known.
    pub name: String,
    /// What has been read of it, where that may be shared.
    pub content: Option<Arc<content::Content>>,
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        services::put_file(self.space, self.home, self.id);
    }
}

/// A counted reference to it.
pub type FileRef = Arc<FileHandle>;

/// One address space.
pub struct AddressSpace {
    /// What is mapped where.
    pub vmas: VmaMap<FileRef>,
    /// The hardware's view.
    pub table: PageTable,
    /// Heap: start, current end.
    pub brk_start: u64,
    /// See `brk_start`.
    pub brk: u64,
    /// Mappings without a wish are placed below this.
    pub mmap_base: u64,
    /// Pages mapped now and at most, in base pages.
    pub resident: u64,
    /// See `resident`.
    pub peak: u64,
    /// CPUs that have the table loaded.
    active: Arc<tlb::CpuSet>,
    /// What other CPUs have to forget, and what is freed then.
    stale: release::Stale,
    /// Counts what may make Linux have a page again that it was asked to forget for a fork:
    /// pages given to it read-only, and other forks.
    given: u64,
    /// Where forks have made pages read-only that Linux may still write to: it has not been
    /// seen to forget them. The next fork has it forget them, too.
    pub unforgotten: Option<(u64, u64)>,
    /// Pages that Linux is asked to forget so that they can be copied, one for a thread at
    /// most: meanwhile it is not given them.
    forgetting: Vec<u64>,
    /// Flags of new mappings (`mlockall(MCL_FUTURE)`).
    pub lock_future: VmaFlags,
    /// NUMA policies (`mbind`).
    pub policies: Policies,
    /// Of the resident pages those that are Linux'.
    foreign: u64,
    /// To whom it is charged, and how much of it is.
    account: Option<Arc<Account>>,
    charged: Sizes,
}

impl AddressSpace {
    /// Nothing mapped. `None`: no memory.
    pub fn new(account: Arc<Account>) -> Option<AddressSpace> {
        heap::room_for_arc::<tlb::CpuSet>().ok()?;
        Some(AddressSpace {
            vmas: VmaMap::new(USER_MIN, USER_MAX),
            table: PageTable::new(&mut frames::Tables).ok()?,
            brk_start: 0,
            brk: 0,
            mmap_base: USER_MAX - (64 << 30),
            resident: 0,
            peak: 0,
            active: Arc::default(),
            stale: release::Stale::default(),
            given: 0,
            unforgotten: None,
            forgetting: Vec::new(),
            lock_future: VmaFlags::empty(),
            policies: Policies::default(),
            foreign: 0,
            account: Some(account),
            charged: Sizes::default(),
        })
    }

    /// A placeholder that maps nothing and must not be used.
    pub fn nothing() -> AddressSpace {
        AddressSpace {
            vmas: VmaMap::new(USER_MIN, USER_MAX),
            table: PageTable::empty(),
            brk_start: 0,
            brk: 0,
            mmap_base: 0,
            resident: 0,
            peak: 0,
            active: Arc::default(),
            stale: release::Stale::default(),
            given: 0,
            unforgotten: None,
            forgetting: Vec::new(),
            lock_future: VmaFlags::empty(),
            policies: Policies::default(),
            foreign: 0,
            account: None,
            charged: Sizes::default(),
        }
    }

    /// Sets a large leaf; false if something is in its way or there is no memory.
    fn map_large(&mut self, addr: u64, entry: u64) -> bool {
        let mapped = self.table.map_large(addr, entry, &mut release::StaleTables(&mut self.stale))
            == Ok(true);
        if self.stale.has_tables() {
            self.flush(addr, addr + SMALL); // other CPUs may have cached the way to a table that is gone
        }
        mapped
    }

    /// Charges what it has now. At the end of each change: when its lock is given back.
    pub fn settle_account(&mut self) {
        let memory = self.resident.saturating_sub(self.foreign) * SMALL;
        let now = Sizes { memory, kernel: self.table.pages() * SMALL + self.map_bytes() };
        if now != self.charged
            && let Some(account) = &self.account
        {
            account.move_space(self.charged, now);
            self.charged = now;
        }
    }

    /// It is charged to another account from now on.
    pub fn charge_to(&mut self, account: Arc<Account>) {
        self.settle_account();
        if let Some(before) = self.account.replace(account) {
            before.move_space(self.charged, Sizes::default());
        }
        self.charged = Sizes::default();
        self.settle_account();
    }

    /// A block of `1 << order` pages of its own, charged to its control group.
    fn alloc(&self, order: u32) -> Option<u64> {
        self.account.as_ref()?.alloc(order)
    }

    /// As [`alloc`](Self::alloc), as single pages that are freed one by one.
    fn alloc_pages(&self, order: u32) -> Option<u64> {
        let paddr = self.alloc(order)?;
        frames::split(paddr, order);
        Some(paddr)
    }

    /// Charges a page of a file to its control group: it may be written from now on, and what of
    /// it can be had again is no more what it is. False: that is beyond the limit.
    fn take(&self, paddr: u64) -> bool {
        self.account.as_ref().is_none_or(|account| account.take(paddr))
    }

    /// Whether its user may have no more pages.
    pub fn is_full(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.is_full())
    }

    /// Whether its user may have more mappings.
    pub fn may_have_mappings(&self) -> bool {
        self.account.as_ref().is_none_or(|account| account.may_have(SMALL).is_ok())
    }

    /// Counts pages that were mapped.
    fn add_resident(&mut self, pages: u64) {
        self.resident += pages;
        self.peak = self.peak.max(self.resident);
    }
}

/// Page table bits for the rights of a mapping.
pub fn pte_bits(prot: Prot) -> u64 {
    if prot.is_empty() {
        return 0; // kept, not present
    }
    let mut bits = pte::PRESENT | pte::USER | pte::ACCESSED;
    if prot.contains(Prot::WRITE) {
        bits |= pte::WRITE | pte::DIRTY;
    }
    if !prot.contains(Prot::EXEC) {
        bits |= pte::NO_EXECUTE;
    }
    bits
}

/// A plain anonymous mapping.
pub fn anonymous(start: u64, end: u64, prot: Prot, flags: VmaFlags) -> Vma<FileRef> {
    Vma { start, end, prot, max_prot: Prot::all(), flags, backing: Backing::Anonymous }
}
