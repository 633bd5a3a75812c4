//! Four-level page tables: the kernel's half, built once, and one user half per
//! address space with 4 KiB and 2 MiB leaves.
//!
//! A user leaf exists if its `VALID` software bit is set; `PRESENT` is clear for
//! PROT_NONE, so that the frame is kept (inverted, see [`inverted`]). `SEEN` marks pages that Linux was told
//! of, `SEEN_WRITE` those of them that it may write to; `FOREIGN` marks frames that are Linux' (shared file mappings).

use crate::isolation::switch;
use crate::memory::direct;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::layout::{CPU_STACKS_BASE, DIRECT_BASE, KERNEL_BASE, STACKS_BASE};

/// Page table entry bits and our software bits. As numbers: an entry is a word that is changed atomically.
#[allow(missing_docs)]
pub mod pte {
    use x86_64::structures::paging::PageTableFlags as Flags;

    pub const PRESENT: u64 = Flags::PRESENT.bits();
    pub const WRITE: u64 = Flags::WRITABLE.bits();
    pub const USER: u64 = Flags::USER_ACCESSIBLE.bits();
    pub const WRITE_THROUGH: u64 = Flags::WRITE_THROUGH.bits();
    pub const NO_CACHE: u64 = Flags::NO_CACHE.bits();
    pub const ACCESSED: u64 = Flags::ACCESSED.bits();
    pub const DIRTY: u64 = Flags::DIRTY.bits();
    pub const LARGE: u64 = Flags::HUGE_PAGE.bits();
    pub const GLOBAL: u64 = Flags::GLOBAL.bits();
    pub const SEEN: u64 = Flags::BIT_9.bits();
    pub const FOREIGN: u64 = Flags::BIT_10.bits();
    pub const VALID: u64 = Flags::BIT_11.bits();
    pub const SEEN_WRITE: u64 = Flags::BIT_52.bits();
    pub const NO_EXECUTE: u64 = Flags::NO_EXECUTE.bits();
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

/// Also read by the assembly of `boot`.
pub(crate) static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);
/// A root with the kernel's half as user mode has it under page-table isolation; 0: not made yet.
static USER_HALF: AtomicU64 = AtomicU64::new(0);
/// `NO_EXECUTE` where the CPU has it.
static NO_EXECUTE: AtomicU64 = AtomicU64::new(0);

fn entry(table: u64, index: usize) -> *mut u64 {
    debug_assert!(index < 512);
    (direct(table) as *mut u64).wrapping_add(index)
}

/// As an entry is kept in memory, and back: one that is not present has its address inverted.
///
/// L1TF (CVE-2018-3620): a load through an entry that is not present goes on speculatively with its address, and
/// gets what the L1 cache has of it. So that address is to be none of memory's: as on Linux
/// (Documentation/admin-guide/hw-vuln/l1tf.rst, "PTE inversion") it is inverted, which holds as long as memory
/// ends below half of what the CPU can address.
fn inverted(entry: u64) -> u64 {
    if entry & (pte::VALID | pte::PRESENT) == pte::VALID { entry ^ pte::ADDRESS } else { entry }
}

fn get(table: u64, index: usize) -> u64 {
    // SAFETY: `table` is a table page of ours (only such are ever linked), in the
    // direct map; the processor may set A/D bits, hence volatile.
    inverted(unsafe { entry(table, index).read_volatile() })
}

fn set(table: u64, index: usize, value: u64) {
    // SAFETY: as in `get`.
    unsafe { entry(table, index).write_volatile(inverted(value)) };
}

fn index(addr: u64, level: u32) -> usize {
    (addr >> (12 + 9 * level) & 511) as usize
}

const LINK: u64 = pte::PRESENT | pte::WRITE | pte::USER | pte::ACCESSED;

fn walk_create(
    root: u64,
    addr: u64,
    to_level: u32,
    source: &mut dyn TableSource,
) -> Result<u64, NoMemory> {
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

/// Entries of a root that the kernel's half uses: direct map, APIC, image.
const KERNEL_LINKS: [usize; 3] = [256, 508, 511];

/// Bits of what the kernel's half maps. What is global stays in the TLB while user mode runs.
fn shared() -> u64 {
    pte::PRESENT | if switch::is_on() { 0 } else { pte::GLOBAL }
}

/// Builds the kernel's half: direct map (not executable; image text and read-only data
/// not writable), image text read-only, read-only data, data not executable, the APIC page.
///
/// `text_end`, `rodata_end`, `image_end` are offsets from the image's start.
pub fn build_kernel(source: &mut dyn TableSource, nx: bool) -> Result<(), NoMemory> {
    unsafe extern "C" {
        static text_end: u8;
        static rodata_end: u8;
        static image_end: u8;
    }
    let no_execute = if nx { pte::NO_EXECUTE } else { 0 };
    NO_EXECUTE.store(no_execute, Ordering::Relaxed);
    let root = source.alloc_table().ok_or(NoMemory)?;
    // Upper-half tables exist in every address space: create all 256 links now,
    // lazily below them, so that a later kernel mapping shows up everywhere.
    for i in KERNEL_LINKS {
        let t = source.alloc_table().ok_or(NoMemory)?;
        set(root, i, t | LINK & !pte::USER);
    }
    let image = crate::shared::params().image_base;
    let (text, rodata, end) =
        (&raw const text_end as u64, &raw const rodata_end as u64, &raw const image_end as u64);
    let data = shared() | no_execute;
    for c in crate::shared::chunks() {
        map_direct(
            root,
            c.base..c.base + c.size,
            image..image + (rodata - KERNEL_BASE),
            data,
            source,
        )?;
    }
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
        if v != crate::firststack::first_guard() {
            set(t, index(v, 0), (image + (v - KERNEL_BASE)) | shared() | flags);
        }
        v += SMALL;
    }
    if let Some(apic) = crate::apic::mmio_paddr() {
        let t = walk_create(root, crate::apic::MMIO_VADDR, 0, source)?;
        let flags = data | pte::WRITE | pte::NO_CACHE | pte::WRITE_THROUGH;
        set(t, index(crate::apic::MMIO_VADDR, 0), apic | flags);
    }
    KERNEL_ROOT.store(root, Ordering::Release);
    Ok(())
}

/// Memory in the direct map, with `flags`; what is `constant` (text and read-only data) is not writable there either.
fn map_direct(
    root: u64,
    memory: Range<u64>,
    constant: Range<u64>,
    flags: u64,
    source: &mut dyn TableSource,
) -> Result<(), NoMemory> {
    for large in memory.step_by(LARGE as usize) {
        let at = DIRECT_BASE + large;
        if large >= constant.end || large + LARGE <= constant.start {
            let t = walk_create(root, at, 1, source)?;
            set(t, index(at, 1), large | pte::WRITE | pte::LARGE | flags);
            continue;
        }
        let t = walk_create(root, at, 0, source)?;
        for i in 0..512 {
            let page = large + i as u64 * SMALL;
            let write = if constant.contains(&page) { 0 } else { pte::WRITE };
            set(t, i, page | write | flags);
        }
    }
    Ok(())
}

/// Loads the kernel's own page table on the calling CPU (no user half).
pub fn use_kernel() {
    let root = KERNEL_ROOT.load(Ordering::Acquire);
    crate::percpu::set_tables(root, 0);
    // SAFETY: built by `build_kernel`, maps the kernel as the boot table did.
    unsafe { crate::cpu::set_cr3(root) };
}

/// Makes the kernel's half as user mode has it, once: empty tables, for [`map_in_user_half`].
pub(crate) fn build_user_half(source: &mut dyn TableSource) -> Result<(), NoMemory> {
    let root = source.alloc_table().ok_or(NoMemory)?;
    for i in KERNEL_LINKS.into_iter().chain([index(CPU_STACKS_BASE, 3)]) {
        set(root, i, source.alloc_table().ok_or(NoMemory)? | LINK & !pte::USER);
    }
    USER_HALF.store(root, Ordering::Release);
    Ok(())
}

/// Sets a small leaf of that half. Address spaces that there are already see it, too.
pub(crate) fn map_in_user_half(
    addr: u64,
    entry: u64,
    source: &mut dyn TableSource,
) -> Result<(), NoMemory> {
    let root = USER_HALF.load(Ordering::Acquire);
    assert!(
        get(root, index(addr, 3)) & pte::PRESENT != 0,
        "{addr:#x} is in no part of the kernel's half"
    );
    let t = walk_create(root, addr, 0, source)?;
    set(t, index(addr, 0), entry);
    Ok(())
}

/// The entry of a small page of the kernel's half.
pub(crate) fn kernel_entry(addr: u64) -> Option<u64> {
    let mut table = KERNEL_ROOT.load(Ordering::Acquire);
    for level in (0..=3).rev() {
        let e = get(table, index(addr, level));
        if e & pte::PRESENT == 0 {
            return None;
        }
        if level == 1 && e & pte::LARGE != 0 {
            return Some((e & !pte::LARGE) + (addr & (LARGE - 1) & !(SMALL - 1)));
        }
        if level == 0 {
            return Some(e);
        }
        table = e & pte::ADDRESS;
    }
    None
}

/// Maps a page of the kernel's data at `addr`, for good (first CPU, before there is any other table).
pub fn map_kernel(addr: u64, frame: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
    assert!(addr >= STACKS_BASE && addr.is_multiple_of(SMALL));
    let t = walk_create(KERNEL_ROOT.load(Ordering::Acquire), addr, 0, source)?;
    assert!(get(t, index(addr, 0)) == 0, "mapped twice: {addr:#x}");
    set(t, index(addr, 0), frame | pte::WRITE | shared() | NO_EXECUTE.load(Ordering::Relaxed));
    Ok(())
}

/// Whether a page of a stack, or of the image, is mapped at `addr`.
pub(crate) fn is_stack(addr: u64) -> bool {
    let kernel =
        PageTable { root: KERNEL_ROOT.load(Ordering::Acquire), user_root: 0, id: 0, pages: 0 };
    addr >= STACKS_BASE
        && kernel.table(addr, 0).is_some_and(|t| get(t, index(addr, 0)) & pte::PRESENT != 0)
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
pub struct Root {
    kernel: u64,
    user: u64,
    /// Of this address space and of no other one ever.
    id: u64,
}

impl Root {
    /// Makes the table the calling CPU's.
    pub fn activate(self) {
        assert!(self.kernel != 0, "an empty table");
        crate::percpu::set_tables(self.kernel, self.user);
        // By address space and not by user: what users there are differs between user namespaces.
        if crate::percpu::replace_space(self.id) != self.id {
            crate::speculation::forget_predictions();
        }
        // SAFETY: the upper half is the kernel's.
        unsafe { crate::cpu::set_cr3(self.kernel) };
    }

    /// Whether the calling CPU uses it.
    pub fn is_active(self) -> bool {
        crate::cpu::cr3() == self.kernel
    }
}

/// A user address space's table.
pub struct PageTable {
    root: u64,
    /// The root that user mode has (`isolation`), with the same tables below; 0: `root`.
    user_root: u64,
    id: u64,
    /// Pages of it.
    pages: u64,
}

/// A source whose pages are counted.
struct Counted<'a> {
    source: &'a mut dyn TableSource,
    pages: &'a mut u64,
}

impl TableSource for Counted<'_> {
    fn alloc_table(&mut self) -> Option<u64> {
        self.source.alloc_table().inspect(|_| *self.pages += 1)
    }
    fn free_table(&mut self, paddr: u64) {
        *self.pages -= 1;
        self.source.free_table(paddr);
    }
}

/// Address spaces made so far.
static SPACES: AtomicU64 = AtomicU64::new(0);

impl PageTable {
    /// An empty user half under the kernel's.
    pub fn new(source: &mut dyn TableSource) -> Result<PageTable, NoMemory> {
        let root = source.alloc_table().ok_or(NoMemory)?;
        let user_root = match switch::is_on() {
            true => match source.alloc_table() {
                Some(user_root) => user_root,
                None => {
                    source.free_table(root);
                    return Err(NoMemory);
                }
            },
            false => 0,
        };
        for (root, half) in [(root, &KERNEL_ROOT), (user_root, &USER_HALF)] {
            if root != 0 {
                let half = half.load(Ordering::Acquire);
                (256..512).for_each(|i| set(root, i, get(half, i)));
            }
        }
        Ok(PageTable {
            root,
            user_root,
            id: SPACES.fetch_add(1, Ordering::Relaxed) + 1,
            pages: 1 + u64::from(user_root != 0),
        })
    }

    /// Tables for `addr` down to `level`, also for user mode.
    fn create(
        &mut self,
        addr: u64,
        level: u32,
        source: &mut dyn TableSource,
    ) -> Result<u64, NoMemory> {
        let table =
            walk_create(self.root, addr, level, &mut Counted { source, pages: &mut self.pages })?;
        let top = index(addr, 3);
        if self.user_root != 0 && get(self.user_root, top) == 0 {
            set(self.user_root, top, get(self.root, top));
        }
        Ok(table)
    }

    /// A table that maps nothing, can map nothing and owns no page; must not be activated.
    pub const fn empty() -> PageTable {
        PageTable { root: 0, user_root: 0, id: 0, pages: 0 }
    }

    /// Whether it is one, and not the empty one.
    pub fn exists(&self) -> bool {
        self.root != 0
    }

    /// What a CPU loads to use it; good until [`PageTable::free`].
    pub fn root(&self) -> Root {
        Root { kernel: self.root, user: self.user_root, id: self.id }
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
            return (e & pte::VALID != 0).then_some(Leaf {
                addr: addr & !(LARGE - 1),
                size: LARGE,
                entry: e,
            });
        }
        if e & pte::PRESENT == 0 {
            return None;
        }
        let e = get(e & pte::ADDRESS, index(addr, 0));
        (e & pte::VALID != 0).then_some(Leaf { addr: addr & !(SMALL - 1), size: SMALL, entry: e })
    }

    /// Sets a small leaf. `entry` is frame | bits; `VALID` is added.
    pub fn map_small(
        &mut self,
        addr: u64,
        entry: u64,
        source: &mut dyn TableSource,
    ) -> Result<(), NoMemory> {
        assert!(addr < 1 << 47 && addr.is_multiple_of(SMALL));
        let t = self.create(addr, 0, source)?;
        set(t, index(addr, 0), entry | pte::VALID);
        Ok(())
    }

    /// Sets a large leaf. Fails with `Ok(false)` if small leaves are in its way.
    pub fn map_large(
        &mut self,
        addr: u64,
        entry: u64,
        source: &mut dyn TableSource,
    ) -> Result<bool, NoMemory> {
        assert!(addr < 1 << 47 && addr.is_multiple_of(LARGE));
        let pd = self.create(addr, 1, source)?;
        let mut source = Counted { source, pages: &mut self.pages };
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
        let table = Counted { source, pages: &mut self.pages }.alloc_table().ok_or(NoMemory)?;
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
    pub const fn pages(&self) -> u64 {
        self.pages
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
        if self.user_root != 0 {
            source.free_table(self.user_root);
        }
    }
}
