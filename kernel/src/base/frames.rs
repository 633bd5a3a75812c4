//! Physical memory: one buddy zone per chunk, grouped by NUMA node, and the
//! quarantine of frames that Linux still holds.

use crate::base::lock::{Mutex, rank};
use crate::base::{badmemory, failing};
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::MemoryChunk;
use hanare_core::addr::Pfn;
use hanare_core::buddy::{Frame, MARKS_ADDED, Zone};
use hanare_core::groups::{GROUPS_MAX, Groups, NOBODY, Tag};
use hanare_hal::paging::TableSource;
use hanare_hal::{memory, percpu, shared};
use spin::Once;

/// Chunks an instance may have; more are left unused with a line in the log.
const ZONES_MAX: usize = 128;

struct Node {
    id: u32,
    base: u64,
    size: u64,
    zone: Mutex<Zone<'static>, rank::FrameZone>,
    /// Pages of the zone, and how many of them were free when its lock was last let go: who
    /// only wants to know does not wait.
    pages: u64,
    free_pages: AtomicU64,
}

impl Node {
    /// Does something with the zone.
    fn with<R>(&self, f: impl FnOnce(&mut Zone<'static>) -> R) -> R {
        let mut zone = self.zone.lock();
        let result = f(&mut zone);
        self.free_pages.store(zone.free_pages() as u64, Ordering::Relaxed);
        result
    }
}

/// Control groups that are charged for pages.
pub static GROUPS: Groups = Groups::new();

static ZONES: [Once<Node>; ZONES_MAX] = [const { Once::new() }; ZONES_MAX];

fn zones() -> impl Iterator<Item = &'static Node> {
    ZONES.iter().map_while(Once::get)
}

/// Hands every chunk to its zone, without the shared region and the image.
pub fn init() {
    let p = shared::params();
    let taken = p.shared_base..p.image_base + p.image_size.next_multiple_of(4096);
    let mut used = 0;
    for c in shared::chunks() {
        if used == ZONES_MAX {
            crate::info!(
                "memory: chunk {:#x}+{:#x} left unused: more than {ZONES_MAX} chunks",
                c.base,
                c.size
            );
            continue;
        }
        ZONES[used].call_once(|| zone(c, &taken));
        used += 1;
        crate::info!(
            "memory: {:#x}..{:#x} node {} ({} MiB)",
            c.base,
            c.base + c.size,
            c.node,
            c.size >> 20
        );
    }
}

fn zone(c: &MemoryChunk, taken: &core::ops::Range<u64>) -> Node {
    let pages = (c.size / 4096) as usize;
    // What is free at first: the chunk, or what is behind the image in its chunk.
    let first = if (c.base..c.base + c.size).contains(&taken.start) { taken.end } else { c.base };
    let table_bytes = (pages * size_of::<Frame>()).next_multiple_of(4096) as u64;
    assert!(first + table_bytes < c.base + c.size, "chunk {:#x} is too small", c.base);
    memory::zero(first, table_bytes as usize);
    let frames = claim_frames(first, pages);
    let mut zone = Zone::new(Pfn(c.base / 4096), frames);
    let start = first + table_bytes;
    zone.release(Pfn(start / 4096), ((c.base + c.size - start) / 4096) as usize);
    let (pages, free_pages) = (zone.total_pages() as u64, AtomicU64::new(zone.free_pages() as u64));
    Node { id: c.node, base: c.base, size: c.size, zone: Mutex::new(zone), pages, free_pages }
}

#[allow(unsafe_code)]
fn claim_frames(paddr: u64, count: usize) -> &'static mut [Frame] {
    // SAFETY: zeroed memory that no zone hands out, given to this table for good;
    // all-zero is a valid reserved `Frame`.
    unsafe { memory::claim(paddr, count) }
}

/// Part of each zone that applications cannot have, so that the kernel can go on
/// (page tables, heap) when they have taken all the rest.
pub const KERNEL_SHARE: usize = 64;

/// A block of `4096 << order` bytes near the calling CPU, or anywhere.
pub fn alloc(order: u32) -> Option<u64> {
    alloc_keeping(order, |_| 0)
}

/// As [`alloc`], for an application's pages: leaves the kernel its share.
pub fn alloc_user(order: u32) -> Option<u64> {
    alloc_keeping(order, |z| z.total_pages() / KERNEL_SHARE)
}

/// Why there is no page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoPage {
    /// There is no memory.
    Memory,
    /// It is beyond the limit of this control group.
    Group(Tag),
}

/// As [`alloc_user`], charged to a control group until it is free.
pub fn alloc_charged(order: u32, group: Tag) -> Result<u64, NoPage> {
    GROUPS.charge(group, 1 << order).map_err(NoPage::Group)?;
    let Some(paddr) = alloc_user(order) else {
        GROUPS.uncharge(group, 1 << order);
        return Err(NoPage::Memory);
    };
    if group != NOBODY {
        set_group(paddr, group);
    }
    Ok(paddr)
}

/// Charges a single page to a control group, if nobody has been charged for it.
pub fn charge(paddr: u64, group: Tag) -> Result<(), NoPage> {
    if group == NOBODY || group_of(paddr) != NOBODY {
        return Ok(());
    }
    GROUPS.charge(group, 1).map_err(NoPage::Group)?;
    set_group(paddr, group);
    Ok(())
}

/// The control group that a page, or the block that begins with it, is charged to.
pub fn group_of(paddr: u64) -> Tag {
    with_zone(paddr, |z| z.frame(Pfn(paddr / 4096)).marks >> GROUP_SHIFT)
}

fn set_group(paddr: u64, group: Tag) {
    with_zone(paddr, |z| z.frame_mut(Pfn(paddr / 4096)).marks |= group << GROUP_SHIFT);
}

fn alloc_keeping(order: u32, keep: impl Fn(&Zone<'static>) -> usize) -> Option<u64> {
    if failing::is_to_fail() {
        return None;
    }
    let near = shared::cpu(percpu::index()).node();
    let take = |local: bool| {
        zones().filter(|n| (n.id == near) == local).find_map(|n| {
            n.with(|z| if z.free_pages() < (1 << order) + keep(z) { None } else { z.alloc(order) })
        })
    };
    loop {
        let paddr = take(true).or_else(|| take(false))?.0 * 4096;
        if !badmemory::contains(paddr, order) {
            return Some(paddr);
        }
        free_others(paddr, order);
    }
}

/// As [`alloc_user`], as single pages that are freed one by one.
pub fn alloc_pages(order: u32) -> Option<u64> {
    let paddr = alloc_user(order)?;
    split(paddr, order);
    Some(paddr)
}

/// A zeroed page.
pub fn alloc_zeroed() -> Option<u64> {
    let p = alloc(0)?;
    memory::zero(p, 4096);
    Some(p)
}

/// A zeroed page of an application.
pub fn alloc_user_zeroed() -> Option<u64> {
    let p = alloc_user(0)?;
    memory::zero(p, 4096);
    Some(p)
}

/// Splits an allocated block so that its pages are freed one by one.
pub fn split(paddr: u64, order: u32) {
    with_zone(paddr, |z| z.split(Pfn(paddr / 4096), order));
}

/// Makes a block of single pages again, if nobody shares one. False: somebody does.
pub fn join(paddr: u64, order: u32) -> bool {
    !badmemory::contains(paddr, order) && with_zone(paddr, |z| z.join(Pfn(paddr / 4096), order))
}

/// Gives a block back, but for bad memory in it.
pub fn free(paddr: u64, order: u32) {
    if badmemory::contains(paddr, order) {
        return free_others(paddr, order);
    }
    let group = with_zone(paddr, |z| {
        let marks = z.frame(Pfn(paddr / 4096)).marks;
        z.free(Pfn(paddr / 4096), order);
        marks >> GROUP_SHIFT
    });
    GROUPS.uncharge(group, 1 << order);
}

/// Frees an allocated block but for its bad frames.
fn free_others(paddr: u64, order: u32) {
    if order > 0 {
        split(paddr, order);
    }
    for page in (paddr..paddr + (4096 << order)).step_by(4096) {
        if badmemory::contains(page, 0) {
            uncharge(page);
        } else {
            free(page, 0);
        }
    }
}

/// A page that is never free again is charged to nobody.
fn uncharge(paddr: u64) {
    let group = with_zone(paddr, |z| {
        core::mem::take(&mut z.frame_mut(Pfn(paddr / 4096)).marks) >> GROUP_SHIFT
    });
    GROUPS.uncharge(group, 1);
}

fn with_zone<R>(paddr: u64, f: impl FnOnce(&mut Zone<'static>) -> R) -> R {
    zones().find(|n| paddr >= n.base && paddr < n.base + n.size).expect("a frame of ours").with(f)
}

/// Free, total bytes.
pub fn usage() -> (u64, u64) {
    usage_where(|_| true)
}

/// Free, total bytes of a NUMA node.
pub fn usage_of(node: u32) -> (u64, u64) {
    usage_where(|n| n.id == node)
}

fn usage_where(counts: impl Fn(&Node) -> bool) -> (u64, u64) {
    zones().filter(|n| counts(n)).fold((0, 0), |(free, all), n| {
        (free + n.free_pages.load(Ordering::Relaxed) * 4096, all + n.pages * 4096)
    })
}

/// NUMA node of a frame of ours.
pub fn node_of(paddr: u64) -> u32 {
    zones().find(|n| paddr >= n.base && paddr < n.base + n.size).map_or(0, |n| n.id)
}

/// Page table pages from the zones.
pub struct Tables;

impl TableSource for Tables {
    fn alloc_table(&mut self) -> Option<u64> {
        alloc_zeroed()
    }
    fn free_table(&mut self, paddr: u64) {
        free(paddr, 0);
    }
}

/// Page table pages for what an application maps: they leave the kernel its share.
pub struct UserTables;

impl TableSource for UserTables {
    fn alloc_table(&mut self) -> Option<u64> {
        alloc_user_zeroed()
    }
    fn free_table(&mut self, paddr: u64) {
        free(paddr, 0);
    }
}

/// The number that the owner of a block keeps with its first page, see `chain`.
pub fn note(paddr: u64) -> u64 {
    with_zone(paddr, |z| z.frame(Pfn(paddr / 4096)).note())
}

/// Sets [`note`].
pub fn set_note(paddr: u64, note: u64) {
    with_zone(paddr, |z| z.frame_mut(Pfn(paddr / 4096)).set_note(note));
}

/// Frees a run of single pages.
pub fn free_run(paddr: u64, pages: u32) {
    for i in 0..u64::from(pages) {
        free(paddr + i * 4096, 0);
    }
}

/// In [`Frame::marks`]: Linux was told of this frame, so it may hold it.
const MARK_SEEN: u16 = 1;
/// In [`Frame::marks`], from this bit on: the control group that is charged for it.
const GROUP_SHIFT: u32 = 4;

const _: () =
    assert!(MARKS_ADDED >> GROUP_SHIFT == 0 && GROUPS_MAX < 1 << (u16::BITS - GROUP_SHIFT));

/// One more mapping of a single page (fork).
pub fn share(paddr: u64) {
    with_zone(paddr, |z| z.frame_mut(Pfn(paddr / 4096)).refs += 1);
}

/// Whether a page has more than one mapping.
pub fn is_shared(paddr: u64) -> bool {
    with_zone(paddr, |z| z.frame(Pfn(paddr / 4096)).refs > 1)
}

/// How many mappings a page has.
pub fn mappings(paddr: u64) -> u64 {
    with_zone(paddr, |z| u64::from(z.frame(Pfn(paddr / 4096)).refs)).max(1)
}

/// Drops one mapping. `None`: others are left. `Some(seen)`: it was the last; the
/// caller frees the page, after asking Linux if `seen`.
pub fn drop_mapping(paddr: u64) -> Option<bool> {
    with_zone(paddr, |z| {
        let f = z.frame_mut(Pfn(paddr / 4096));
        if f.refs > 1 {
            f.refs -= 1;
            return None;
        }
        Some(f.marks & MARK_SEEN != 0)
    })
}

/// Remembers that Linux was told of a page (or of the block that begins with it).
pub fn mark_seen(paddr: u64) {
    with_zone(paddr, |z| z.frame_mut(Pfn(paddr / 4096)).marks |= MARK_SEEN);
}
