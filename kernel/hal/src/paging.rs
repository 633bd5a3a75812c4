//! Four-level page tables: the kernel's half, built once, and one user half per
//! address space with 4 KiB and 2 MiB leaves.
//!
//! A user leaf exists if its `VALID` software bit is set; `PRESENT` is clear for PROT_NONE, so that
//! the frame is kept (inverted, see [`inverted`]). `SEEN` marks pages that Linux was told of,
//! `SEEN_WRITE` those of them that it may write to. `KIND` holds the code of the frame's kind
//! (`FrameKind`). `LENT`: Linux was given the page for writing, and may hold its frame, whatever it
//! has seen of the page since. `USED`: it was accessed before `ACCESSED` was cleared
//! (`clear_refs`). `DIRTY` stays when a page loses the right to be written: it was written.
//! `SOFT_CLEAN` marks pages that were not written since their soft-dirty bits were cleared; they
//! are never writable.

use crate::addr::PhysAddr;
use crate::isolation::switch;
use crate::pte::{self, Bits, Entry};
use crate::table::{copy_upper_half, for_each_used, get, replace, set};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_abi::layout::{CPU_STACKS_BASE, DIRECT_BASE, KERNEL_BASE, STACKS_BASE};

pub mod linuxwords;
mod missing;

/// Bytes of a small page.
pub const SMALL: u64 = 4096;
/// Bytes of a large page.
pub const LARGE: u64 = 2 << 20;

/// Where table pages come from and go to. Pages must be zeroed by `alloc_table`.
pub trait TableSource {
    /// A zeroed page, or `None`.
    fn alloc_table(&mut self) -> Option<PhysAddr>;
    /// Takes a page of a table back.
    fn free_table(&mut self, paddr: PhysAddr);
}

/// Behind the last address of the user half.
const USER_END: u64 = 1 << 47;

/// In place of a root: there is none. Frame 0 is never ours.
const NO_ROOT: PhysAddr = PhysAddr(0);

/// No page for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// Also read by the assembly of `boot`.
pub(crate) static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);
/// A root with the kernel's half as user mode has it under page-table isolation; 0: not made yet.
static USER_HALF: AtomicU64 = AtomicU64::new(0);
/// Whether the CPU has `NO_EXECUTE`.
static HAS_NO_EXECUTE: AtomicBool = AtomicBool::new(false);

/// A root that is kept in a word.
fn root(word: &AtomicU64) -> PhysAddr {
    PhysAddr(word.load(Ordering::Acquire))
}

fn index(addr: u64, level: u32) -> usize {
    (addr >> (12 + 9 * level) & 511) as usize
}

const LINK: Bits = pte::PRESENT.with(pte::WRITE).with(pte::USER).with(pte::ACCESSED);

/// The table of level `to_level` for `addr`. The links to it say that it is used where `addr` lies.
fn walk_create(
    root: PhysAddr,
    addr: u64,
    to_level: u32,
    source: &mut dyn TableSource,
) -> Result<PhysAddr, NoMemory> {
    if root == NO_ROOT {
        return Err(NoMemory);
    }
    let mut table = root;
    for level in (to_level + 1..=3).rev() {
        let e = get(table, index(addr, level));
        debug_assert!(!e.has(pte::LARGE) || !e.has(pte::PRESENT));
        let below =
            if e.has(pte::PRESENT) { e.frame() } else { source.alloc_table().ok_or(NoMemory)? };
        let used = pte::used(index(addr, level - 1));
        if !e.has(pte::PRESENT) {
            set(table, index(addr, level), below | LINK | used);
        } else if !e.has(used) {
            set(table, index(addr, level), e | used);
        }
        table = below;
    }
    Ok(table)
}

/// Entries of a root that the kernel's half uses: direct map, APIC, image.
const KERNEL_LINKS: [usize; 3] = [256, 508, 511];

/// Bits of what the kernel's half maps. What is global stays in the TLB while user mode runs.
fn shared() -> Bits {
    pte::PRESENT | if switch::is_on() { Bits::NONE } else { pte::GLOBAL }
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
    let no_execute = if nx { pte::NO_EXECUTE } else { Bits::NONE };
    HAS_NO_EXECUTE.store(nx, Ordering::Relaxed);
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
        map_direct(root, c.addresses(), image..image + (rodata - KERNEL_BASE), data, source)?;
    }
    let mut v = KERNEL_BASE;
    while v < end {
        let t = walk_create(root, v, 0, source)?;
        let flags = if v < text {
            Bits::NONE
        } else if v < rodata {
            no_execute
        } else {
            pte::WRITE | no_execute
        };
        if v != crate::firststack::first_guard() {
            set(t, index(v, 0), PhysAddr(image + (v - KERNEL_BASE)) | shared() | flags);
        }
        v += SMALL;
    }
    KERNEL_ROOT.store(root.0, Ordering::Release);
    let apic = crate::apic::mmio_paddr();
    apic.map_or(Ok(()), |apic| map_kernel(crate::apic::MMIO_VADDR, apic, pte::UNCACHED, source))
}

/// Memory in the direct map, with `flags`; what is `constant` (text and read-only data) is not
/// writable there either.
fn map_direct(
    root: PhysAddr,
    memory: Range<u64>,
    constant: Range<u64>,
    flags: Bits,
    source: &mut dyn TableSource,
) -> Result<(), NoMemory> {
    for large in memory.step_by(LARGE as usize) {
        let at = DIRECT_BASE + large;
        if large >= constant.end || large + LARGE <= constant.start {
            let t = walk_create(root, at, 1, source)?;
            set(t, index(at, 1), PhysAddr(large) | pte::WRITE | pte::LARGE | flags);
            continue;
        }
        let t = walk_create(root, at, 0, source)?;
        for i in 0..512 {
            let page = large + i as u64 * SMALL;
            let write = if constant.contains(&page) { Bits::NONE } else { pte::WRITE };
            set(t, i, PhysAddr(page) | write | flags);
        }
    }
    Ok(())
}

/// Loads the kernel's own page table on the calling CPU (no user half).
pub fn use_kernel() {
    let root = root(&KERNEL_ROOT);
    crate::percpu::set_tables(root.0, 0);
    // SAFETY: built by `build_kernel`, maps the kernel as the boot table did.
    unsafe { crate::cpu::set_cr3(root.0) };
}

/// Makes the kernel's half as user mode has it, once: empty tables, for [`map_in_user_half`].
pub(crate) fn build_user_half(source: &mut dyn TableSource) -> Result<(), NoMemory> {
    let root = source.alloc_table().ok_or(NoMemory)?;
    for i in KERNEL_LINKS.into_iter().chain([index(CPU_STACKS_BASE, 3)]) {
        set(root, i, source.alloc_table().ok_or(NoMemory)? | LINK & !pte::USER);
    }
    USER_HALF.store(root.0, Ordering::Release);
    Ok(())
}

/// Sets a small leaf of that half. Address spaces that there are already see it, too.
pub(crate) fn map_in_user_half(
    addr: u64,
    entry: Entry,
    source: &mut dyn TableSource,
) -> Result<(), NoMemory> {
    let root = root(&USER_HALF);
    assert!(
        get(root, index(addr, 3)).has(pte::PRESENT),
        "{addr:#x} is in no part of the kernel's half"
    );
    let t = walk_create(root, addr, 0, source)?;
    set(t, index(addr, 0), entry);
    Ok(())
}

/// The entry of a small page of the kernel's half.
pub(crate) fn kernel_entry(addr: u64) -> Option<Entry> {
    let mut table = root(&KERNEL_ROOT);
    for level in (0..=3).rev() {
        let e = get(table, index(addr, level));
        if !e.has(pte::PRESENT) {
            return None;
        }
        if level == 1 && e.has(pte::LARGE) {
            return Some((e & !pte::LARGE).behind(addr & (LARGE - 1) & !(SMALL - 1)));
        }
        if level == 0 {
            return Some(e);
        }
        table = e.frame();
    }
    None
}

/// Maps a page of the kernel's data, or of a device's registers with the flags for that, for good
/// (first CPU, before other tables exist).
pub fn map_kernel(
    addr: u64,
    frame: PhysAddr,
    more: Bits,
    source: &mut dyn TableSource,
) -> Result<(), NoMemory> {
    assert!(addr >= STACKS_BASE && addr.is_multiple_of(SMALL));
    let t = walk_create(root(&KERNEL_ROOT), addr, 0, source)?;
    assert!(get(t, index(addr, 0)).is_none(), "mapped twice: {addr:#x}");
    let no_execute =
        if HAS_NO_EXECUTE.load(Ordering::Relaxed) { pte::NO_EXECUTE } else { Bits::NONE };
    set(t, index(addr, 0), frame | pte::WRITE | shared() | no_execute | more);
    Ok(())
}

/// Whether a page of a stack, or of the image, is mapped at `addr`.
pub(crate) fn is_stack(addr: u64) -> bool {
    let kernel = PageTable { root: root(&KERNEL_ROOT), ..PageTable::empty() };
    addr >= STACKS_BASE
        && !crate::mmio::contains(addr)
        && kernel.table(addr, 0).is_some_and(|t| get(t, index(addr, 0)).has(pte::PRESENT))
}

/// One leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Address of the page.
    pub addr: u64,
    /// `SMALL` or `LARGE`.
    pub size: u64,
    /// The entry.
    pub entry: Entry,
}

impl Leaf {
    /// Physical address of the frame.
    pub fn frame(&self) -> PhysAddr {
        self.entry.frame()
    }
}

/// The address of a table's root, to be loaded while the table lives.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    kernel: PhysAddr,
    user: PhysAddr,
    /// Number of this address space, which no other one ever has.
    id: u64,
}

impl Root {
    /// Makes the table the calling CPU's.
    pub fn activate(self) {
        assert!(self.kernel != NO_ROOT, "an empty table");
        crate::percpu::set_tables(self.kernel.0, self.user.0);
        // By address space and not by user: what users there are differs between user namespaces.
        if crate::percpu::replace_space(self.id) != self.id {
            crate::speculation::forget_predictions();
        }
        // SAFETY: the upper half is the kernel's.
        unsafe { crate::cpu::set_cr3(self.kernel.0) };
    }

    /// Whether the calling CPU uses it.
    pub fn is_active(self) -> bool {
        crate::cpu::cr3() == self.kernel.0
    }
}

/// A user address space's table.
pub struct PageTable {
    root: PhysAddr,
    /// The root that user mode has (`isolation`), with the same tables below; none: `root`.
    user_root: PhysAddr,
    id: u64,
    /// Pages of it.
    pages: u64,
    /// The piece that had a leaf set last, as an address shifted by `PIECE_SHIFT`, and its table.
    last: (u64, PhysAddr),
}

/// Shift of an address to its piece, the addresses of one bit in a link ([`pte::used`]).
const PIECE_SHIFT: u32 = 12 + pte::PIECE.trailing_zeros();
/// In place of a piece: there is none.
const NO_PIECE: (u64, PhysAddr) = (u64::MAX, NO_ROOT);

/// A source whose pages are counted.
struct Counted<'a> {
    source: &'a mut dyn TableSource,
    pages: &'a mut u64,
}

impl TableSource for Counted<'_> {
    fn alloc_table(&mut self) -> Option<PhysAddr> {
        self.source.alloc_table().inspect(|_| *self.pages += 1)
    }
    fn free_table(&mut self, paddr: PhysAddr) {
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
            false => NO_ROOT,
        };
        for (root, half) in [(root, &KERNEL_ROOT), (user_root, &USER_HALF)] {
            if root != NO_ROOT {
                copy_upper_half(root, self::root(half));
            }
        }
        Ok(PageTable {
            root,
            user_root,
            id: SPACES.fetch_add(1, Ordering::Relaxed) + 1,
            pages: 1 + u64::from(user_root != NO_ROOT),
            last: NO_PIECE,
        })
    }

    /// Tables for `addr` down to `level`, also for user mode. In the last one any entry may be set.
    fn create(
        &mut self,
        addr: u64,
        level: u32,
        source: &mut dyn TableSource,
    ) -> Result<PhysAddr, NoMemory> {
        let table = self.create_piece(addr, level, source)?;
        if let Some(above) = self.table(addr, level + 1) {
            let i = index(addr, level + 1);
            set(above, i, get(above, i) | pte::ALL_USED);
        }
        Ok(table)
    }

    /// Tables for `addr` down to `level`, also for user mode. In the last one entries of the same
    /// piece ([`pte::used`]) may be set.
    fn create_piece(
        &mut self,
        addr: u64,
        level: u32,
        source: &mut dyn TableSource,
    ) -> Result<PhysAddr, NoMemory> {
        let table =
            walk_create(self.root, addr, level, &mut Counted { source, pages: &mut self.pages })?;
        let top = index(addr, 3);
        if self.user_root != NO_ROOT && get(self.user_root, top).is_none() {
            set(self.user_root, top, get(self.root, top));
        }
        Ok(table)
    }

    /// A table that maps nothing, can map nothing and owns no page; must not be activated.
    pub const fn empty() -> PageTable {
        PageTable { root: NO_ROOT, user_root: NO_ROOT, id: 0, pages: 0, last: NO_PIECE }
    }

    /// Whether there is a table: not [`PageTable::empty`].
    pub fn exists(&self) -> bool {
        self.root != NO_ROOT
    }

    /// Root of the table, which a CPU loads to use it; good until [`PageTable::free`].
    pub fn root(&self) -> Root {
        Root { kernel: self.root, user: self.user_root, id: self.id }
    }

    /// Whether the calling CPU uses it.
    pub fn is_active(&self) -> bool {
        self.root().is_active()
    }

    /// Table of `level` that covers `addr`, if there.
    fn table(&self, addr: u64, to_level: u32) -> Option<PhysAddr> {
        if self.root == NO_ROOT {
            return None;
        }
        let mut table = self.root;
        for level in (to_level + 1..=3).rev() {
            let e = get(table, index(addr, level));
            if !e.has(pte::PRESENT) || e.has(pte::LARGE) {
                return None;
            }
            table = e.frame();
        }
        Some(table)
    }

    /// The leaf that covers `addr`: none where no program has addresses.
    pub fn find(&self, addr: u64) -> Option<Leaf> {
        if addr >= USER_END {
            return None; // the kernel's half is in the same table
        }
        let pd = self.table(addr, 1)?;
        let e = get(pd, index(addr, 1));
        if e.has(pte::LARGE) {
            return (e.has(pte::VALID)).then_some(Leaf {
                addr: addr & !(LARGE - 1),
                size: LARGE,
                entry: e,
            });
        }
        if !e.has(pte::PRESENT) {
            return None;
        }
        let e = get(e.frame(), index(addr, 0));
        (e.has(pte::VALID)).then_some(Leaf { addr: addr & !(SMALL - 1), size: SMALL, entry: e })
    }

    /// Sets a small leaf; `VALID` is added.
    pub fn map_small(
        &mut self,
        addr: u64,
        entry: Entry,
        source: &mut dyn TableSource,
    ) -> Result<(), NoMemory> {
        assert!(addr < 1 << 47 && addr.is_multiple_of(SMALL));
        if self.last.0 != addr >> PIECE_SHIFT {
            self.last = (addr >> PIECE_SHIFT, self.create_piece(addr, 0, source)?);
        }
        set(self.last.1, index(addr, 0), entry | pte::VALID);
        Ok(())
    }

    /// Sets a large leaf. Fails with `Ok(false)` if small leaves are in its way.
    pub fn map_large(
        &mut self,
        addr: u64,
        entry: Entry,
        source: &mut dyn TableSource,
    ) -> Result<bool, NoMemory> {
        assert!(addr < 1 << 47 && addr.is_multiple_of(LARGE));
        let pd = self.create(addr, 1, source)?;
        let mut source = Counted { source, pages: &mut self.pages };
        let old = get(pd, index(addr, 1));
        if old.has(pte::PRESENT) && !old.has(pte::LARGE) {
            let table = old.frame();
            if (0..512).any(|i| !get(table, i).is_none()) {
                return Ok(false);
            }
            self.last = NO_PIECE;
            set(pd, index(addr, 1), Entry::NONE);
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
        if e.has(pte::LARGE) {
            return false;
        }
        !e.has(pte::PRESENT) || (0..512).all(|i| get(e.frame(), i).is_none())
    }

    /// Replaces the large leaf at `addr` by 512 small ones with the same bits.
    pub fn split(&mut self, addr: u64, source: &mut dyn TableSource) -> Result<(), NoMemory> {
        let Some(pd) = self.table(addr, 1) else { return Ok(()) };
        let e = get(pd, index(addr, 1));
        if !e.has(pte::LARGE) {
            return Ok(());
        }
        let table = Counted { source, pages: &mut self.pages }.alloc_table().ok_or(NoMemory)?;
        // The CPU may note a write in the large one until that is gone.
        let noted = if e.has(pte::WRITE) { pte::DIRTY } else { Bits::NONE };
        for i in 0..512 {
            set(table, i, (e & !pte::LARGE | noted).behind(i as u64 * SMALL));
        }
        set(pd, index(addr, 1), table | LINK.with(pte::ALL_USED));
        crate::cpu::flush_page(addr & !(LARGE - 1));
        Ok(())
    }

    /// Calls `f` for each leaf that begins in a range; what `f` returns is
    /// stored ([`Entry::NONE`] removes the leaf). The caller flushes the TLB.
    pub fn update(&mut self, range: Range<u64>, f: &mut dyn FnMut(Leaf) -> Entry) {
        if self.root != NO_ROOT {
            let range = range.start..range.end.min(USER_END);
            update_below(self.root | pte::ALL_USED, 3, 0, range, f);
        }
    }

    /// Pages that the table itself takes, without those of the kernel's half.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Gives every table page back. Leaves must have been removed before.
    pub fn free(self, source: &mut dyn TableSource) {
        free_below(self.root | pte::ALL_USED, 3, source);
        if self.user_root != NO_ROOT {
            source.free_table(self.user_root);
        }
    }
}

/// [`PageTable::update`] for the table that `link` leads to, which maps addresses from `base` on.
fn update_below(
    link: Entry,
    level: u32,
    base: u64,
    range: Range<u64>,
    f: &mut dyn FnMut(Leaf) -> Entry,
) {
    if level == 0 {
        return update_leaves(link, base, range, f);
    }
    let (shift, table) = (12 + 9 * level, link.frame());
    let size = 1 << shift;
    let last = ((range.end.saturating_sub(base) + size - 1) >> shift).min(512) as usize;
    let first = (range.start.saturating_sub(base) >> shift) as usize;
    for_each_used(link, first..last, |i| {
        let (addr, e) = (base + ((i as u64) << shift), get(table, i));
        let is_leaf = level == 1 && e.has(pte::LARGE);
        if !is_leaf && e.has(pte::PRESENT) {
            update_below(e, level - 1, addr, range.clone(), f);
        } else if is_leaf && e.has(pte::VALID) && addr >= range.start {
            let new = f(Leaf { addr, size, entry: e });
            if new != e {
                replace(table, i, e, new);
            }
        }
    });
}

/// [`update_below`] for small leaves: what most of the time goes into.
fn update_leaves(link: Entry, base: u64, range: Range<u64>, f: &mut dyn FnMut(Leaf) -> Entry) {
    let table = link.frame();
    let place = |addr: u64| (addr.saturating_sub(base).div_ceil(SMALL)).min(512) as usize;
    for_each_used(link, place(range.start)..place(range.end), |i| {
        let e = get(table, i);
        if e.has(pte::VALID) {
            let new = f(Leaf { addr: base + i as u64 * SMALL, size: SMALL, entry: e });
            if new != e {
                replace(table, i, e, new);
            }
        }
    });
}

/// Gives back the table that `link` leads to, and those below it.
fn free_below(link: Entry, level: u32, source: &mut dyn TableSource) {
    if level > 0 {
        for_each_used(link, 0..if level == 3 { 256 } else { 512 }, |i| {
            let e = get(link.frame(), i);
            if e.has(pte::PRESENT) && !(level == 1 && e.has(pte::LARGE)) {
                free_below(e, level - 1, source);
            }
        });
    }
    source.free_table(link.frame());
}
