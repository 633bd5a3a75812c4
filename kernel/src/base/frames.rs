//! Physical memory: a buddy zone per NUMA node, of all chunks of that node, and marks of frames.
//!
//! Where a page is to come from says a [`Placement`]: which nodes are asked, in which order. On a
//! machine with one node nothing is chosen, and the zone of a frame is not looked for.

use crate::base::lock::{Mutex, rank};
use crate::base::{badmemory, failing, owners, stocks};
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::MemoryChunk;
use hanare_core::addr::Pfn;
use hanare_core::buddy::{BlockState, Chunk, Frame, MARKS_ADDED, Zone};
use hanare_core::groups::{GROUPS_MAX, Groups, NOBODY, Tag};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::nodes::{Nodes, Placement};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory::Block;
use hanare_hal::{memory, shared};
use spin::Once;

/// A NUMA node with memory of the instance. Nodes share no cache line.
#[repr(align(64))]
struct Node {
    zone: Mutex<Zone<'static>, rank::FrameZone>,
    /// Pages of the zone, and how many of them were free when its lock was last released: readers
    /// of the counts do not wait for the lock.
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

    /// A block that leaves the kernel as many pages; else whether there are as many pages in
    /// smaller blocks.
    fn take(&self, order: u32, keep: impl Fn(&Zone<'static>) -> usize) -> Result<Pfn, bool> {
        self.with(|z| {
            let is_enough = z.free_pages() >= (1 << order) + keep(z);
            if is_enough { z.alloc(order) } else { None }.ok_or(is_enough)
        })
    }
}

/// Control groups that are charged for pages.
pub static GROUPS: Groups = Groups::new();

/// The nodes with memory, in ascending order, by their numbers, and as a set.
struct All {
    nodes: &'static [Node],
    ids: &'static [u32],
    set: Nodes,
}

static ALL: Once<All> = Once::new();

fn all() -> &'static All {
    ALL.get().expect("frames::init")
}

/// The nodes that have memory.
pub fn nodes() -> &'static Nodes {
    &all().set
}

/// Hands every chunk to the zone of its node, without the shared region, the image, and what lies
/// behind that: the lists of nodes and of their chunks. In front of each chunk, or behind these
/// lists, lies the metadata of its frames.
#[allow(unsafe_code)]
pub fn init() {
    let p = shared::params();
    let chunks = shared::chunks();
    let mut set = Nodes::default();
    chunks.iter().for_each(|c| set.insert(c.node));
    let of_node = |id: u32| chunks.iter().filter(move |c| c.node == id);
    assert_eq!(set.iter().map(|id| of_node(id).count()).sum::<usize>(), chunks.len());
    let image_end = p.image_base + p.image_size.next_multiple_of(4096);
    let mut taken = p.shared_base..image_end;
    let mut take = |bytes: usize| {
        let at = taken.end;
        taken.end += bytes.next_multiple_of(4096) as u64;
        PhysAddr(at)
    };
    let ids_at = take(set.count() as usize * size_of::<u32>());
    let nodes_at = take(set.count() as usize * size_of::<Node>());
    let lists_at = take(chunks.len() * size_of::<Chunk<'static>>());
    let owners_at = take(owners::list_bytes(chunks.len()));
    // Each chunk with the first address behind its metadata.
    let start = |c: &MemoryChunk| {
        if c.addresses().contains(&taken.start) { taken.end } else { c.addresses().start }
    };
    let mut list_at = lists_at;
    let zones = set.iter().map(|id| {
        let own = of_node(id).map(|c| Chunk::new(Pfn(c.base.number()), metadata(c, start(c))));
        // SAFETY: behind the image, where no zone has its pages, and for good. Each list has its
        // own part of it.
        let list = unsafe { memory::fill(list_at, own) };
        list_at = list_at + size_of_val(list) as u64;
        let mut zone = Zone::new(list);
        for c in of_node(id) {
            let first = start(c) + metadata_bytes(c);
            zone.release(Pfn(first / 4096), ((c.addresses().end - first) / 4096) as usize);
        }
        let (pages, free) = (zone.total_pages() as u64, zone.free_pages() as u64);
        Node { zone: Mutex::new(zone), pages, free_pages: AtomicU64::new(free) }
    });
    // SAFETY: as above.
    let (nodes, ids) = unsafe { (memory::fill(nodes_at, zones), memory::fill(ids_at, set.iter())) };
    let words = chunks.iter().map(|c| (c, PhysAddr(start(c) + frames_bytes(c))));
    // SAFETY: as above. The words of a chunk lie behind its frames' metadata, zeroed with that.
    unsafe { owners::init(owners_at, words) };
    for c in chunks {
        let (all, mib) = (c.addresses(), c.size >> 20);
        crate::info!("memory: {:#x}..{:#x} node {} ({mib} MiB)", all.start, all.end, c.node);
    }
    ALL.call_once(|| All { nodes, ids, set });
}

fn frames_bytes(c: &MemoryChunk) -> u64 {
    ((c.size / 4096) as usize * size_of::<Frame>()).next_multiple_of(4096) as u64
}

fn metadata_bytes(c: &MemoryChunk) -> u64 {
    frames_bytes(c) + owners::bytes(c)
}

/// The metadata of a chunk's frames, at `first`; behind it lie the words of the frames' owners.
fn metadata(c: &MemoryChunk, first: u64) -> &'static mut [Frame] {
    let bytes = metadata_bytes(c);
    assert!(first + bytes < c.addresses().end, "chunk {:#x} is too small", c.base.address());
    memory::zero(PhysAddr(first), bytes as usize);
    claim_frames(PhysAddr(first), (c.size / 4096) as usize)
}

#[allow(unsafe_code)]
fn claim_frames(paddr: PhysAddr, count: usize) -> &'static mut [Frame] {
    // SAFETY: zeroed memory that no zone hands out, given to this table for good;
    // all-zero is a valid reserved `Frame`.
    unsafe { memory::claim(paddr, count) }
}

/// Part of each zone that applications cannot have, so that the kernel can go on
/// (page tables, heap) when they have taken all the rest.
pub const KERNEL_SHARE: usize = 64;

/// A block of `4096 << order` bytes near the calling CPU, or anywhere.
pub fn alloc(order: u32, owner: FrameOwner) -> Option<PhysAddr> {
    alloc_keeping(order, |_| 0, &Placement::NEAR, owner)
}

/// As [`alloc`], for an application's pages: leaves the kernel its share.
pub fn alloc_user(order: u32, owner: FrameOwner) -> Option<PhysAddr> {
    alloc_keeping(order, kernel_share, &Placement::NEAR, owner)
}

fn kernel_share(zone: &Zone<'static>) -> usize {
    zone.total_pages() / KERNEL_SHARE
}

/// Reason why there is no page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoPage {
    /// There is no memory.
    Memory,
    /// The page is beyond the limit of this control group.
    Group(Tag),
}

/// As [`alloc_user`], where a policy wants it, charged to a control group until it is free.
pub fn alloc_charged(
    order: u32,
    group: Tag,
    place: &Placement,
    owner: FrameOwner,
) -> Result<PhysAddr, NoPage> {
    GROUPS.charge(group, 1 << order).map_err(NoPage::Group)?;
    let Some(paddr) = alloc_keeping(order, kernel_share, place, owner) else {
        GROUPS.uncharge(group, 1 << order);
        return Err(NoPage::Memory);
    };
    if group != NOBODY {
        set_group(paddr, group);
    }
    Ok(paddr)
}

/// Charges a single page to a control group, if none has been charged for it.
pub fn charge(paddr: PhysAddr, group: Tag) -> Result<(), NoPage> {
    if group == NOBODY || group_of(paddr) != NOBODY {
        return Ok(());
    }
    GROUPS.charge(group, 1).map_err(NoPage::Group)?;
    set_group(paddr, group);
    Ok(())
}

/// The control group that a page, or the block that begins with it, is charged to.
pub fn group_of(paddr: PhysAddr) -> Tag {
    with_zone(paddr, |z| z.frame(pfn(paddr)).marks >> GROUP_SHIFT)
}

fn set_group(paddr: PhysAddr, group: Tag) {
    with_zone(paddr, |z| z.frame_mut(pfn(paddr)).marks |= group << GROUP_SHIFT);
}

fn alloc_keeping(
    order: u32,
    keep: impl Fn(&Zone<'static>) -> usize,
    place: &Placement,
    owner: FrameOwner,
) -> Option<PhysAddr> {
    if failing::is_to_fail() {
        return None;
    }
    loop {
        let found = take(order, &keep, place).or_else(|| {
            // What other CPUs have in stock is no large block, and the last of the rest.
            let any = order < LARGE_ORDER && empty_stocks();
            if any { take(order, &keep, place) } else { None }
        });
        let paddr = PhysAddr(found?.0 * 4096);
        owners::set(paddr, owner);
        if !badmemory::contains(paddr, order) {
            return Some(paddr);
        }
        free_others(paddr, order);
    }
}

/// Order of a large page.
pub const LARGE_ORDER: u32 = 9;

/// A block of the best node that has one.
fn take(order: u32, keep: impl Fn(&Zone<'static>) -> usize, place: &Placement) -> Option<Pfn> {
    let All { nodes, ids, .. } = all();
    if let [only] = nodes {
        return take_stocked(0, order).or_else(|| only.take(order, keep).ok());
    }
    let here = shared::here().node();
    if order == 0
        && let Some(first) = place.order(here, ids).next()
        && ids[first] == here
        && let Some(page) = take_stocked(first, order)
    {
        return Some(page);
    }
    for zone in place.order(here, ids) {
        match nodes[zone].take(order, &keep) {
            Ok(block) => return Some(block),
            Err(true) if place.breaks_up => return None,
            Err(_) => {}
        }
    }
    None
}

/// A page of the CPU's stock of its own node, which is filled while applications may have pages.
#[inline]
fn take_stocked(zone: usize, order: u32) -> Option<Pfn> {
    if order != 0 {
        return None;
    }
    stocks::take(zone, || {
        all().nodes[zone].with(|z| {
            let enough = z.free_pages() >= stocks::PAGES as usize + kernel_share(z);
            let block = if enough { z.alloc(stocks::ORDER) } else { None }?;
            z.split(block, stocks::ORDER);
            owners::in_stock(PhysAddr(block.0 * 4096), stocks::PAGES);
            Some(block)
        })
    })
}

/// Gives all pages that CPUs have in stock back to the zones. Whether there was any.
#[cold]
fn empty_stocks() -> bool {
    stocks::empty(|zone, first, pages| {
        all().nodes[zone].with(|z| z.free_run(first, pages as usize, |_| ()));
    })
}

/// A block of the kernel that only the caller uses.
pub fn alloc_block(order: u32, owner: FrameOwner) -> Option<Block> {
    alloc(order, owner).map(|frame| block(frame, order))
}

/// A block for an application, as [`alloc_block`].
pub fn alloc_user_block(order: u32, owner: FrameOwner) -> Option<Block> {
    alloc_user(order, owner).map(|frame| block(frame, order))
}

#[allow(unsafe_code)]
fn block(frame: PhysAddr, order: u32) -> Block {
    // SAFETY: a zone has just handed it out, and none does so again before it is freed.
    unsafe { Block::new(frame, order) }
}

/// A zeroed page.
pub fn alloc_zeroed(owner: FrameOwner) -> Option<PhysAddr> {
    let p = alloc(0, owner)?;
    memory::zero(p, 4096);
    Some(p)
}

/// A zeroed page of an application.
pub fn alloc_user_zeroed(owner: FrameOwner) -> Option<PhysAddr> {
    let p = alloc_user(0, owner)?;
    memory::zero(p, 4096);
    Some(p)
}

/// Splits an allocated block so that its pages are freed one by one.
pub fn split(paddr: PhysAddr, order: u32) {
    with_zone(paddr, |z| {
        z.split(pfn(paddr), order);
        owners::split(paddr, order);
    });
}

/// Makes a block of single pages again, if none is shared. False: one is.
pub fn join(paddr: PhysAddr, order: u32) -> bool {
    !badmemory::contains(paddr, order) && with_zone(paddr, |z| z.join(pfn(paddr), order))
}

/// Gives a block back, but for bad memory in it.
pub fn free(paddr: PhysAddr, order: u32) {
    if badmemory::contains(paddr, order) {
        return free_others(paddr, order);
    }
    let group = with_zone(paddr, |z| {
        let marks = z.frame(pfn(paddr)).marks;
        z.free(pfn(paddr), order);
        marks >> GROUP_SHIFT
    });
    GROUPS.uncharge(group, 1 << order);
}

/// Frees an allocated block but for its bad frames.
fn free_others(paddr: PhysAddr, order: u32) {
    if order > 0 {
        split(paddr, order);
    }
    for i in 0..1 << order {
        let page = paddr + i * 4096;
        if badmemory::contains(page, 0) {
            owners::set(page, FrameOwner::kernel(Subject::Bad));
            uncharge(page);
        } else {
            free(page, 0);
        }
    }
}

/// Ends the charge for a page that is never free again.
fn uncharge(paddr: PhysAddr) {
    let group =
        with_zone(paddr, |z| core::mem::take(&mut z.frame_mut(pfn(paddr)).marks) >> GROUP_SHIFT);
    GROUPS.uncharge(group, 1);
}

/// A page is not charged to its control group any more.
pub fn discharge(paddr: PhysAddr) {
    let group = with_zone(paddr, |z| {
        let marks = &mut z.frame_mut(pfn(paddr)).marks;
        let group = *marks >> GROUP_SHIFT;
        *marks &= (1 << GROUP_SHIFT) - 1;
        group
    });
    GROUPS.uncharge(group, 1);
}

pub fn pfn(paddr: PhysAddr) -> Pfn {
    Pfn(paddr.0 / 4096)
}

pub fn with_zone<R>(paddr: PhysAddr, f: impl FnOnce(&mut Zone<'static>) -> R) -> R {
    let All { nodes, ids, .. } = all();
    match nodes {
        [only] => only.with(f),
        _ => {
            let id = node_of(paddr).expect("a frame of ours");
            nodes[ids.partition_point(|&other| other < id)].with(f)
        }
    }
}

/// Free, total bytes.
pub fn usage() -> (u64, u64) {
    usage_of(nodes())
}

/// Free, total bytes of some nodes.
pub fn usage_of(some: &Nodes) -> (u64, u64) {
    let those = all().ids.iter().enumerate().filter(|(_, id)| some.contains(**id));
    let stocked: u64 = those.map(|(zone, _)| stocks::pages(zone)).sum();
    let (free, all) = usage_of_zones(some);
    (free + stocked * 4096, all)
}

/// Like [`usage`], without the stocks of CPUs, each of which has a cache line of its own.
pub fn usage_without_stocks() -> (u64, u64) {
    usage_of_zones(nodes())
}

fn usage_of_zones(some: &Nodes) -> (u64, u64) {
    let All { nodes, ids, .. } = all();
    let those = nodes.iter().zip(*ids).filter(|(_, id)| some.contains(**id));
    those.fold((0, 0), |(free, all), (n, _)| {
        (free + n.free_pages.load(Ordering::Relaxed) * 4096, all + n.pages * 4096)
    })
}

/// Tells of all blocks: first frame, pages, state. A block that changes comes twice or not at all.
pub fn walk(mut tell: impl FnMut(PhysAddr, u64, BlockState)) {
    const WITH_LOCK: usize = 4096;
    for node in all().nodes {
        let mut from = Some(Pfn(0));
        while let Some(at) = from {
            from = node.zone.lock().walk(at, WITH_LOCK, |pfn, pages, state| {
                tell(PhysAddr(pfn.0 * 4096), pages, state);
            });
        }
    }
}

/// Whether none of these nodes has a page for applications.
pub fn are_full(some: &Nodes) -> bool {
    let All { nodes, ids, .. } = all();
    let has_page = |n: &Node| n.free_pages.load(Ordering::Relaxed) > n.pages / KERNEL_SHARE as u64;
    !nodes.iter().zip(*ids).any(|(n, &id)| some.contains(id) && has_page(n))
}

/// NUMA node of a frame of ours.
pub fn node_of(paddr: PhysAddr) -> Option<u32> {
    memory::chunk_of(paddr).map(|c| c.node)
}

/// The number that the owner of a block keeps with its first page, see `chain`.
pub fn note(paddr: PhysAddr) -> u64 {
    with_zone(paddr, |z| z.frame(pfn(paddr)).note())
}

/// Sets [`note`].
pub fn set_note(paddr: PhysAddr, note: u64) {
    with_zone(paddr, |z| z.frame_mut(pfn(paddr)).set_note(note));
}

/// Frees a run of single pages.
pub fn free_run(paddr: PhysAddr, pages: u32) {
    if badmemory::is_any() {
        return (0..u64::from(pages)).for_each(|i| free(paddr + i * 4096, 0));
    }
    let (mut done, pages) = (0, pages as usize);
    while done < pages {
        let first = paddr + done as u64 * 4096;
        // One group's pages mostly lie together.
        let (mut group, mut charged) = (NOBODY, 0);
        done += with_zone(first, |z| {
            z.free_run(pfn(first), pages - done, |marks| {
                if marks >> GROUP_SHIFT != group {
                    GROUPS.uncharge(group, core::mem::take(&mut charged));
                    group = marks >> GROUP_SHIFT;
                }
                charged += 1;
            })
        });
        GROUPS.uncharge(group, charged);
    }
}

/// In [`Frame::marks`]: Linux was told of this frame, so it may hold it.
pub const MARK_SEEN: u16 = 1;
/// In [`Frame::marks`]: a mapping of this frame, of which Linux was told, went while others were
/// left. The space that had that mapping may not have asked Linux to forget it, or not yet.
const MARK_NAMED: u16 = 2;
/// In [`Frame::marks`], from this bit on: the control group that is charged for it.
const GROUP_SHIFT: u32 = 4;

const _: () =
    assert!(MARKS_ADDED >> GROUP_SHIFT == 0 && GROUPS_MAX < 1 << (u16::BITS - GROUP_SHIFT));

/// One more mapping of a single page.
pub fn share(paddr: PhysAddr) {
    share_run(paddr, 1);
}

/// One more mapping of each page of a run.
pub fn share_run(paddr: PhysAddr, pages: usize) {
    let mut done = 0;
    while done < pages {
        let first = paddr + done as u64 * 4096;
        done += with_zone(first, |z| {
            let frames = z.frames_mut(pfn(first), pages - done);
            frames.iter_mut().for_each(|f| f.refs += 1);
            frames.len()
        });
    }
}

/// Splits the block of a large page, unless another space that maps the page has done so.
pub fn split_large(paddr: PhysAddr) {
    with_zone(paddr, |z| {
        if z.block_order(pfn(paddr)) == Some(LARGE_ORDER) {
            z.split(pfn(paddr), LARGE_ORDER);
            owners::split(paddr, LARGE_ORDER);
        }
    });
}

/// Drops one mapping of a large page, like [`drop_mapping_told`]. `Err`: its block is split, its
/// pages are dropped one by one.
pub fn drop_large(paddr: PhysAddr, told: bool) -> Result<Option<Known>, IsSplit> {
    with_zone(paddr, |z| match z.block_order(pfn(paddr)) {
        Some(LARGE_ORDER) => Ok(drop_one(z.frame_mut(pfn(paddr)), told)),
        _ => Err(IsSplit),
    })
}

/// The block of a large page is split.
pub struct IsSplit;

/// Whether a page has more than one mapping.
pub fn is_shared(paddr: PhysAddr) -> bool {
    with_zone(paddr, |z| z.frame(pfn(paddr)).refs > 1)
}

/// Number of mappings that a page has.
pub fn mappings(paddr: PhysAddr) -> u64 {
    with_zone(paddr, |z| u64::from(z.frame(pfn(paddr)).refs)).max(1)
}

/// Linux' possible hold on a page whose last mapping went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: the page can be freed.
    Never,
    /// Linux may hold the page.
    Seen,
    /// Linux may hold the page, and an answer to a fault that is on its way may name it.
    Named,
}

/// Drops one mapping, of which Linux may have been told. `None`: others are left. Else it was the
/// last; the caller frees the page, after asking Linux if it knows it.
pub fn drop_mapping(paddr: PhysAddr) -> Option<Known> {
    drop_mapping_told(paddr, true)
}

/// Like [`drop_mapping`]. `told`: Linux may have been told of this mapping.
pub fn drop_mapping_told(paddr: PhysAddr, told: bool) -> Option<Known> {
    drop_mappings(paddr, 1, told).0
}

/// Drops one mapping of each page of a run, up to the first page with another result. Returns the
/// result, and for how many pages.
pub fn drop_mappings(paddr: PhysAddr, pages: u32, told: bool) -> (Option<Known>, u32) {
    with_zone(paddr, |z| {
        let frames = z.frames_mut(pfn(paddr), pages as usize);
        let known = last_known(&frames[0]);
        let mut count = 0;
        for f in frames {
            if last_known(f) != known {
                break;
            }
            drop_one(f, told);
            count += 1;
        }
        (known, count)
    })
}

/// Drops one mapping, if there are others; else what Linux may have of the page.
fn drop_one(f: &mut Frame, told: bool) -> Option<Known> {
    let known = last_known(f);
    if known.is_none() {
        f.refs -= 1;
        if told && f.marks & MARK_SEEN != 0 {
            f.marks |= MARK_NAMED;
        }
    }
    known
}

/// The rights that Linux may have to a page, if only one mapping is left.
fn last_known(f: &Frame) -> Option<Known> {
    (f.refs <= 1).then_some(match f.marks & (MARK_SEEN | MARK_NAMED) {
        0 => Known::Never,
        MARK_SEEN => Known::Seen,
        _ => Known::Named,
    })
}

/// Remembers that Linux was told of a page (or of the block that begins with it).
pub fn mark_seen(paddr: PhysAddr) {
    with_zone(paddr, |z| z.frame_mut(pfn(paddr)).marks |= MARK_SEEN);
}
