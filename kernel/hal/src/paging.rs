//! Four-level page tables: the kernel's half, built once, and one user half per
//! address space with 4 KiB and 2 MiB leaves.
//!
//! A user leaf exists if its `VALID` software bit is set; `PRESENT` is clear for
//! PROT_NONE, so that the frame is kept. `SEEN` marks pages that Linux was told
//! of; `FOREIGN` marks frames that are Linux' (shared file mappings).

use crate::memory::direct;
use core::sync::atomic::{AtomicU64, Ordering};

/// Page table entry bits (SDM volume 3, 4.5) and our software bits.
#[allow(missing_docs)]
pub mod pte {
    pub const PRESENT: u64 = 1;
    pub const WRITE: u64 = 1 << 1;
    pub const USER: u64 = 1 << 2;
    pub const WRITE_THROUGH: u64 = 1 << 3;
    pub const NO_CACHE: u64 = 1 << 4;
    pub const ACCESSED: u64 = 1 << 5;
    pub const DIRTY: u64 = 1 << 6;
    pub const LARGE: u64 = 1 << 7;
    pub const GLOBAL: u64 = 1 << 8;
    pub const SEEN: u64 = 1 << 9;
    pub const FOREIGN: u64 = 1 << 10;
    pub const VALID: u64 = 1 << 11;
    pub const NO_EXECUTE: u64 = 1 << 63;
    pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
}

/// Bytes of a small and a large page.
pub const SMALL: u64 = 4096;
/// See [`SMALL`].
pub const LARGE: u64 = 2 << 20;

/// Where table pages come from and go to. Pages must be zeroed by `alloc_table`.
pub trait TableSource {
    /// A zeroed page, or `None`.
    fn alloc_table(&mut self) -> Option<u64>;
    /// Takes it back.
    fn free_table(&mut self, paddr: u64);
}

/// No page for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

fn entry(table: u64, index: usize) -> *mut u64 {
    debug_assert!(index < 512);
    (direct(table) as *mut u64).wrapping_add(index)
}

fn get(table: u64, index: usize) -> u64 {
    // SAFETY: `table` is a table page of ours (only such are ever linked), in the
    // direct map; the processor may set A/D bits, hence volatile.
    unsafe { entry(table, index).read_volatile() }
}

fn set(table: u64, index: usize, value: u64) {
    // SAFETY: as in `get`.
    unsafe { entry(table, index).write_volatile(value) };
}

fn index(addr: u64, level: u32) -> usize {
    (addr >> (12 + 9 * level) & 511) as usize
}

const LINK: u64 = pte::PRESENT | pte::WRITE | pte::USER | pte::ACCESSED;

fn walk_create(root: u64, addr: u64, to_level: u32, source: &mut dyn TableSource) -> Result<u64, NoMemory> {
    if root == 0 {
        return Err(NoMemory);
    }
    let mut table = root;
    for level in (to_level + 1..=3).rev() {
        let e = get(table, index(addr, level));
        debug_assert!(e & pte::LARGE == 0 || e & pte::PRESENT == 0);
        table = if e & pte::PRESENT != 0 {
            e & pte::ADDRESS
        } else {
            let new = source.alloc_table().ok_or(NoMemory)?;
            set(table, index(addr, level), new | LINK);
            new
        };
    }
    Ok(table)
}

/// Builds the kernel's half and switches to it: direct map (not executable),
/// image text read-only, read-only data, data not executable, the APIC page.
///
/// `text_end`, `rodata_end`, `image_end` are offsets from the image's start.
pub fn build_kernel(source: &mut dyn TableSource, nx: bool) -> Result<(), NoMemory> {
    use hanare_abi::layout::{DIRECT_BASE, KERNEL_BASE};
    unsafe extern "C" {
        static text_end: u8;
        static rodata_end: u8;
        static image_end: u8;
    }
    let no_execute = if nx { pte::NO_EXECUTE } else { 0 };
    let root = source.alloc_table().ok_or(NoMemory)?;
    // Upper-half tables exist in every address space: create all 256 links now,
    // lazily below them, so that a later kernel mapping shows up everywhere.
    for i in [256, 508, 511] {
        let t = source.alloc_table().ok_or(NoMemory)?;
        set(root, i, t | LINK & !pte::USER);
    }
    for c in crate::shared::chunks() {
        let mut p = c.base;
        while p < c.base + c.size {
            let t = walk_create(root, DIRECT_BASE + p, 1, source)?;
            set(t, index(DIRECT_BASE + p, 1), p | pte::PRESENT | pte::WRITE | pte::LARGE | pte::GLOBAL | no_execute);
            p += LARGE;
        }
    }
    let image = crate::shared::params().image_base;
    let (text, rodata, end) = (&raw const text_end as u64, &raw const rodata_end as u64, &raw const image_end as u64);
    let mut v = KERNEL_BASE;
    while v < end {
        let t = walk_create(root, v, 0, source)?;
        let flags = if v < text {
            0
        } else if v < rodata {
            no_execute
        } else {
            pte::WRITE | no_execute
        };
        set(t, index(v, 0), image + (v - KERNEL_BASE) | pte::PRESENT | pte::GLOBAL | flags);
        v += SMALL;
    }
    if let Some(apic) = crate::apic::mmio_paddr() {
        let t = walk_create(root, crate::apic::MMIO_VADDR, 0, source)?;
        let flags = pte::PRESENT | pte::WRITE | pte::NO_CACHE | pte::WRITE_THROUGH | pte::GLOBAL | no_execute;
        set(t, index(crate::apic::MMIO_VADDR, 0), apic | flags);
    }
    KERNEL_ROOT.store(root, Ordering::Release);
    Ok(())
}

/// Loads the kernel's own page table on the calling CPU (no user half).
pub fn use_kernel() {
    // SAFETY: built by `build_kernel`, maps the kernel as the boot table did.
    unsafe { crate::cpu::set_cr3(KERNEL_ROOT.load(Ordering::Acquire)) };
}

/// One leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Address of the page.
    pub addr: u64,
    /// `SMALL` or `LARGE`.
    pub size: u64,
    /// The raw entry.
    pub entry: u64,
}

impl Leaf {
    /// Physical address of the frame.
    pub fn frame(&self) -> u64 {
        self.entry & pte::ADDRESS
    }
}

/// The address of a table's root, to be loaded while the table lives.
#[derive(Clone, Copy, Debug)]
pub struct Root(u64);

impl Root {
    /// Makes the table the calling CPU's.
    pub fn activate(self) {
        assert!(self.0 != 0, "an empty table");
        // SAFETY: the upper half is the kernel's.
        unsafe { crate::cpu::set_cr3(self.0) };
    }

    /// Whether the calling CPU uses it.
    pub fn is_active(self) -> bool {
        crate::cpu::cr3() == self.0
    }
}

/// A user address space's table.
pub struct PageTable {
    root: u64,
}

impl PageTable {
    /// An empty user half under the kernel's.
    pub fn new(source: &mut dyn TableSource) -> Result<PageTable, NoMemory> {
        let root = source.alloc_table().ok_or(NoMemory)?;
        let kernel = KERNEL_ROOT.load(Ordering::Acquire);
        for i in 256..512 {
            set(root, i, get(kernel, i));
        }
        Ok(PageTable { root })
    }

    /// A table that maps nothing, can map nothing and owns no page; must not be activated.
    pub const fn empty() -> PageTable {
        PageTable { root: 0 }
    }

    /// What a CPU loads to use it; good until [`PageTable::free`].
    pub fn root(&self) -> Root {
        Root(self.root)
    }

    /// Whether the calling CPU uses it.
    pub fn is_active(&self) -> bool {
        self.root().is_active()
    }

    /// Table of `level` that covers `addr`, if there.
    fn table(&self, addr: u64, to_level: u32) -> Option<u64> {
        if self.root == 0 {
            return None;
        }
        let mut table = self.root;
        for level in (to_level + 1..=3).rev() {
            let e = get(table, index(addr, level));
            if e & pte::PRESENT == 0 || e & pte::LARGE != 0 {
                return None;
            }
            table = e & pte::ADDRESS;
        }
        Some(table)
    }

    /// The leaf that covers `addr`.
    pub fn find(&self, addr: u64) -> Option<Leaf> {
        let pd = self.table(addr, 1)?;
        let e = get(pd, index(addr, 1));
        if e & pte::LARGE != 0 {
            return (e & pte::VALID != 0).then_some(Leaf { addr: addr & !(LARGE - 1), size: LARGE, entry: e });
        }
        if e & pte::PRESENT == 0 {
            return None;
        }
        let e = get(e & pte::ADDRESS, index(addr, 0));
        (e & pte::VALID != 0).then_some(Leaf { addr: addr & !(SMALL - 1), size: SMALL, entry: e })
    }

    /// Sets a small leaf. `entry` is frame | bits; `VALID` is added.
    pub fn map_small(&mut self, addr: u64, entry: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
        assert!(addr < 1 << 47 && addr % SMALL == 0);
        let t = walk_create(self.root, addr, 0, source)?;
        set(t, index(addr, 0), entry | pte::VALID);
        Ok(())
    }

    /// Sets a large leaf. Fails with `Ok(false)` if small leaves are in its way.
    pub fn map_large(&mut self, addr: u64, entry: u64, source: &mut dyn TableSource) -> Result<bool, NoMemory> {
        assert!(addr < 1 << 47 && addr % LARGE == 0);
        let pd = walk_create(self.root, addr, 1, source)?;
        let old = get(pd, index(addr, 1));
        if old & pte::PRESENT != 0 && old & pte::LARGE == 0 {
            let table = old & pte::ADDRESS;
            if (0..512).any(|i| get(table, i) != 0) {
                return Ok(false);
            }
            set(pd, index(addr, 1), 0);
            crate::cpu::flush_page(addr); // drops cached links too
            source.free_table(table);
        }
        set(pd, index(addr, 1), entry | pte::LARGE | pte::VALID);
        Ok(true)
    }

    /// Whether no leaf lies in the 2 MiB around `addr`.
    pub fn is_large_free(&self, addr: u64) -> bool {
        let Some(pd) = self.table(addr, 1) else { return true };
        let e = get(pd, index(addr, 1));
        if e & pte::LARGE != 0 {
            return false;
        }
        e & pte::PRESENT == 0 || (0..512).all(|i| get(e & pte::ADDRESS, i) == 0)
    }

    /// Replaces the large leaf at `addr` by 512 small ones with the same bits.
    pub fn split(&mut self, addr: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
        let Some(pd) = self.table(addr, 1) else { return Ok(()) };
        let e = get(pd, index(addr, 1));
        if e & pte::LARGE == 0 {
            return Ok(());
        }
        let table = source.alloc_table().ok_or(NoMemory)?;
        for i in 0..512 {
            set(table, i, (e & !pte::LARGE) + i as u64 * SMALL);
        }
        set(pd, index(addr, 1), table | LINK);
        crate::cpu::flush_page(addr & !(LARGE - 1));
        Ok(())
    }

    /// Calls `f` for each leaf that begins in `start..end`; what `f` returns is
    /// stored (0 removes the leaf). The caller flushes the TLB.
    pub fn update(&mut self, start: u64, end: u64, f: &mut dyn FnMut(Leaf) -> u64) {
        let mut addr = start;
        while addr < end {
            let Some(pd) = self.table(addr, 1) else {
                // No directory here: skip to the next one that could exist.
                addr = self.skip(addr);
                continue;
            };
            let e = get(pd, index(addr, 1));
            if e & pte::LARGE != 0 {
                let base = addr & !(LARGE - 1);
                if e & pte::VALID != 0 && base >= start {
                    let new = f(Leaf { addr: base, size: LARGE, entry: e });
                    if new != e {
                        set(pd, index(addr, 1), new);
                    }
                }
                addr = base + LARGE;
            } else if e & pte::PRESENT == 0 {
                addr = (addr & !(LARGE - 1)) + LARGE;
            } else {
                let table = e & pte::ADDRESS;
                let stop = end.min((addr & !(LARGE - 1)) + LARGE);
                while addr < stop {
                    let e = get(table, index(addr, 0));
                    if e & pte::VALID != 0 {
                        let new = f(Leaf { addr, size: SMALL, entry: e });
                        if new != e {
                            set(table, index(addr, 0), new);
                        }
                    }
                    addr += SMALL;
                }
            }
        }
    }

    /// First address after `addr` not covered by the same missing table.
    fn skip(&self, addr: u64) -> u64 {
        let level = if self.table(addr, 2).is_some() { 2 } else { 3 };
        let size = 1u64 << (12 + 9 * level);
        (addr & !(size - 1)) + size
    }

    /// Pages that the table itself takes, without those of the kernel's half.
    pub fn pages(&self) -> u64 {
        let below = |table: u64, entries: usize| (0..entries).map(move |i| get(table, i)).filter(|e| e & (pte::PRESENT | pte::LARGE) == pte::PRESENT);
        if self.root == 0 {
            return 0;
        }
        let mut pages = 1;
        for e4 in below(self.root, 256) {
            pages += 1;
            for e3 in below(e4 & pte::ADDRESS, 512) {
                pages += 1 + below(e3 & pte::ADDRESS, 512).count() as u64;
            }
        }
        pages
    }

    /// Gives every table page back. Leaves must have been removed before.
    pub fn free(self, source: &mut dyn TableSource) {
        for i4 in 0..256 {
            let e4 = get(self.root, i4);
            if e4 & pte::PRESENT == 0 {
                continue;
            }
            for i3 in 0..512 {
                let e3 = get(e4 & pte::ADDRESS, i3);
                if e3 & pte::PRESENT == 0 {
                    continue;
                }
                for i2 in 0..512 {
                    let e2 = get(e3 & pte::ADDRESS, i2);
                    if e2 & pte::PRESENT != 0 && e2 & pte::LARGE == 0 {
                        source.free_table(e2 & pte::ADDRESS);
                    }
                }
                source.free_table(e3 & pte::ADDRESS);
            }
            source.free_table(e4 & pte::ADDRESS);
        }
        source.free_table(self.root);
    }
}
