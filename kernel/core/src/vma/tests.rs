use super::*;
use crate::errno::EEXIST;
use crate::lists::failing;
use proptest::prelude::*;
use std::vec;

const P: u64 = PAGE_SIZE;
/// The map under test: pages 16..16 + PAGES.
const MIN: u64 = 16 * P;
const PAGES: usize = 96;
const MAX: u64 = MIN + PAGES as u64 * P;

type File = u8;

fn vma(start: u64, end: u64, backing: Backing<File>) -> Vma<File> {
    Vma { start, end, prot: Prot::READ, max_prot: Prot::all(), flags: VmaFlags::empty(), backing }
}

fn anonymous(start: u64, end: u64) -> Vma<File> {
    vma(start, end, Backing::Anonymous)
}

fn file(start: u64, end: u64, offset: u64) -> Vma<File> {
    vma(start, end, Backing::PrivateFile { file: 1, offset })
}

fn map() -> VmaMap<File> {
    VmaMap::new(MIN, MAX)
}

#[test]
fn merges_what_belongs_together() {
    let mut map = map();
    map.insert(anonymous(MIN, MIN + P)).unwrap();
    map.insert(anonymous(MIN + 2 * P, MIN + 3 * P)).unwrap();
    assert_eq!(map.count(), 2);
    map.insert(anonymous(MIN + P, MIN + 2 * P)).unwrap();
    assert_eq!((map.count(), map.total_bytes()), (1, 3 * P));
    map.insert(file(MIN + 3 * P, MIN + 4 * P, 8 * P)).unwrap();
    map.insert(file(MIN + 4 * P, MIN + 5 * P, 9 * P)).unwrap();
    assert_eq!(map.count(), 2);
    map.insert(file(MIN + 5 * P, MIN + 6 * P, 11 * P)).unwrap();
    assert_eq!(map.count(), 3);
    map.check();
    let found = map.find(MIN + 4 * P).unwrap();
    assert_eq!(found.file_offset(MIN + 4 * P + 5), Some(9 * P + 5));
    assert_eq!(map.insert(anonymous(MIN, MIN + P)), Err(EEXIST));
    assert_eq!(map.insert(anonymous(MIN - P, MIN)), Err(EINVAL));
    assert_eq!(map.insert(anonymous(MAX, MAX + P)), Err(EINVAL));
    assert_eq!(map.insert(anonymous(MAX - P, MAX - P)), Err(EINVAL));
    assert_eq!(map.insert(anonymous(MAX - P + 1, MAX)), Err(EINVAL));
}

#[test]
fn a_mapping_that_could_once_be_written_to_is_not_unwritten_again() {
    let mut map = map();
    map.insert(Vma { flags: VmaFlags::UNWRITTEN, ..file(MIN, MIN + 4 * P, 0) }).unwrap();
    let is_unwritten = |map: &VmaMap<File>, page| {
        map.find(MIN + page * P).unwrap().flags.contains(VmaFlags::UNWRITTEN)
    };
    map.protect(PageRange::of(MIN, MIN + 4 * P), Prot::READ | Prot::EXEC).unwrap();
    assert!(is_unwritten(&map, 0));
    map.protect(PageRange::of(MIN + P, MIN + 2 * P), Prot::READ | Prot::WRITE).unwrap();
    map.protect(PageRange::of(MIN, MIN + 4 * P), Prot::READ).unwrap();
    assert_eq!([0, 1, 2].map(|page| is_unwritten(&map, page)), [true, false, true]);
}

#[test]
fn a_mapping_beside_one_that_is_clean_makes_the_whole_soft_dirty() {
    let mut map = map();
    let clean = |map: &VmaMap<File>, page| {
        map.find(MIN + page * P).unwrap().flags.contains(VmaFlags::SOFT_CLEAN)
    };
    map.insert(anonymous(MIN, MIN + 2 * P)).unwrap();
    map.insert(file(MIN + 4 * P, MIN + 5 * P, 0)).unwrap();
    assert!(!clean(&map, 0) && !clean(&map, 4));
    map.clear_soft_dirty();
    assert!(clean(&map, 0) && clean(&map, 4));
    // What is cut stays clean.
    map.protect(PageRange::of(MIN + P, MIN + 2 * P), Prot::empty()).unwrap();
    assert!(clean(&map, 0) && clean(&map, 1));
    map.protect(PageRange::of(MIN + P, MIN + 2 * P), Prot::READ).unwrap();
    assert_eq!(map.count(), 2);
    // From below and from above.
    map.insert(anonymous(MIN + 2 * P, MIN + 3 * P)).unwrap();
    assert_eq!((map.count(), clean(&map, 0), clean(&map, 4)), (2, false, true));
    map.insert(file(MIN + 3 * P, MIN + 4 * P, 0)).unwrap();
    assert_eq!((map.count(), clean(&map, 4)), (3, true));
    map.check();
}

#[test]
fn removing_a_middle_cuts_a_mapping_in_two() {
    let mut map = map();
    map.insert(file(MIN, MIN + 10 * P, 0)).unwrap();
    let removed = map.remove(PageRange::of(MIN + 3 * P, MIN + 5 * P));
    assert!(removed.iter().eq([&file(MIN + 3 * P, MIN + 5 * P, 3 * P)]));
    assert_eq!(map.find(MIN + 5 * P).unwrap(), &file(MIN + 5 * P, MIN + 10 * P, 5 * P));
    assert!(
        map.is_covered(PageRange::of(MIN, MIN + 3 * P))
            && !map.is_covered(PageRange::of(MIN, MIN + 4 * P))
    );
    assert!(
        !map.overlaps(PageRange::of(MIN + 3 * P, MIN + 5 * P))
            && map.overlaps(PageRange::of(MIN, MIN + 4 * P))
    );
    // it grows together again
    map.insert(file(MIN + 3 * P, MIN + 5 * P, 3 * P)).unwrap();
    assert_eq!(map.count(), 1);
    assert_eq!(map.remove(PageRange::of(MIN, MAX)).len(), 1);
    assert_eq!((map.count(), map.total_bytes()), (0, 0));
    assert!(map.remove(PageRange::of(MIN, MAX)).is_empty());
    assert_eq!(map.try_remove(PageRange::of(MIN, MIN)), Err(EINVAL));
    assert_eq!(map.try_remove(PageRange::of(MIN, MAX + P)), Err(EINVAL));
}

#[test]
fn protect_stops_at_a_hole() {
    let mut map = map();
    map.insert(anonymous(MIN, MIN + 2 * P)).unwrap();
    map.insert(anonymous(MIN + 3 * P, MIN + 5 * P)).unwrap();
    let all = Prot::READ | Prot::WRITE;
    assert_eq!(map.protect(PageRange::of(MIN + P, MIN + 4 * P), all), Err(ENOMEM));
    assert_eq!(map.find(MIN + P).unwrap().prot, all);
    assert_eq!(map.find(MIN + 3 * P).unwrap().prot, Prot::READ);
    assert_eq!(map.count(), 3);
    assert_eq!(map.protect(PageRange::of(MIN + P, MIN + 2 * P), Prot::READ), Ok(()));
    assert_eq!(map.count(), 2);
    assert_eq!(map.protect(PageRange::of(MIN + 2 * P, MIN + 3 * P), all), Err(ENOMEM));
    let mut read_only = anonymous(MIN + 8 * P, MIN + 9 * P);
    read_only.max_prot = Prot::READ;
    map.insert(read_only).unwrap();
    assert_eq!(map.protect(PageRange::of(MIN + 8 * P, MIN + 9 * P), all), Err(EACCES));
    assert_eq!(map.protect(PageRange::of(MIN + 8 * P, MIN + 9 * P), Prot::empty()), Ok(()));
    map.check();
}

#[test]
fn memory_that_denies_execution_gains_none() {
    let (read, write, exec) = (Prot::READ, Prot::READ | Prot::WRITE, Prot::READ | Prot::EXEC);
    let mut map = map();
    map.insert(anonymous(MIN, MIN + P)).unwrap();
    map.insert(anonymous(MIN + P, MIN + 3 * P)).unwrap();
    map.protect(PageRange::of(MIN, MIN + P), exec).unwrap();
    map.deny_write_exec();
    assert!(map.may_map(write) && map.may_map(exec) && !map.may_map(write | exec));
    assert_eq!(map.protectable(PageRange::of(MIN, MIN + 3 * P), exec), MIN + P);
    assert_eq!(map.protect(PageRange::of(MIN, MIN + 3 * P), exec), Err(EACCES));
    assert_eq!(map.protect(PageRange::of(MIN, MIN + P), write | exec), Err(EACCES));
    assert_eq!(map.protect(PageRange::of(MIN, MIN + 3 * P), write), Ok(()));
    assert_eq!(map.protect(PageRange::of(MIN, MIN + P), exec), Err(EACCES));
    assert_eq!(map.protect(PageRange::of(MIN, MIN + 3 * P), read), Ok(()));
    map.check();
    // Another program in its place (execve) is denied it as well.
    assert_eq!(map.take().iter().count(), 1);
    assert!(!map.may_map(write | exec));
}

#[test]
fn stacks_grow_and_keep_their_distance() {
    let gap = STACK_GUARD_GAP;
    let top = MIN + 64 * gap;
    let mut map: VmaMap<File> = VmaMap::new(MIN, top);
    let mut stack = anonymous(top - P, top);
    stack.flags = VmaFlags::GROWSDOWN | VmaFlags::STACK;
    map.insert(stack).unwrap();
    // a new mapping goes below the guard
    let start = map.find_gap(P, P, Search::TopDown(top)).unwrap();
    assert_eq!(start, top - P - gap - P);
    assert_eq!(map.find_gap(P, P, Search::BottomUp(top - gap)), None);
    assert_eq!(map.grow_down(top - 10 * P + 8, 8 << 20), Ok(top - P));
    assert_eq!(map.find(top - 10 * P).unwrap().len(), STACK_STEP);
    assert_eq!(map.grow_down(top - 3 * gap, 2 * gap), Err(ENOMEM));
    assert_eq!(map.grow_down(top - P, 8 << 20), Err(EFAULT));
    map.insert(anonymous(top - 4 * gap, top - 3 * gap)).unwrap();
    assert_eq!(map.grow_down(top - 3 * gap + P, 8 << 20), Err(ENOMEM));
    assert_eq!(map.grow_down(top - 2 * gap, 8 << 20), Ok(top - STACK_STEP));
    // no guard towards a mapping that cannot be touched
    map.protect(PageRange::of(top - 4 * gap, top - 3 * gap), Prot::empty()).unwrap();
    assert_eq!(map.grow_down(top - 3 * gap, 8 << 20), Ok(top - 2 * gap));
    assert_eq!(map.grow_down(top - 5 * gap, 8 << 20), Err(EFAULT));
    map.check();
}

#[test]
fn more_mappings_than_the_limit_are_enomem() {
    let pages = MAX_VMAS as u64 * 2 + 10;
    let mut map: VmaMap<File> = VmaMap::new(0, pages * P);
    for index in 0..=MAX_VMAS as u64 {
        map.insert(anonymous(index * 2 * P, (index * 2 + 1) * P)).unwrap();
    }
    let end = (MAX_VMAS as u64 + 1) * 2 * P;
    assert_eq!(map.insert(anonymous(end, end + P)), Err(ENOMEM));
    // it fits where it merges
    map.insert(anonymous(P, 2 * P)).unwrap();
    assert_eq!(map.count(), MAX_VMAS);
    map.insert(anonymous(end, end + P)).unwrap();
    assert_eq!(map.try_remove(PageRange::of(P, 2 * P)), Err(ENOMEM));
    assert_eq!(map.protect(PageRange::of(P, 2 * P), Prot::empty()), Err(ENOMEM));
    assert_eq!(
        map.set_flags(PageRange::of(P, 2 * P), VmaFlags::LOCKED, VmaFlags::empty()),
        Err(ENOMEM)
    );
    assert!(map.find(P).is_some());
    assert_eq!(map.try_remove(PageRange::of(0, P)).map(|removed| removed.len()), Ok(1));
    map.check();
}

#[test]
fn many_gap_searches_are_fast() {
    let mut map: VmaMap<File> = VmaMap::new(0, 1 << 40);
    // mappings with different rights do not merge; each search has to be short
    for index in 0..60_000u32 {
        let start = map.find_gap(P, P, Search::TopDown(1 << 40)).unwrap();
        let mut vma = anonymous(start, start + P);
        vma.prot = if index % 2 == 0 { Prot::READ } else { Prot::WRITE };
        map.insert(vma).unwrap();
    }
    assert_eq!(map.count(), 60_000);
    assert_eq!(map.find_gap(2 * P, P, Search::TopDown(1 << 40)), Some((1 << 40) - 60_002 * P));
    assert_eq!(map.find_gap(0, P, Search::TopDown(1 << 40)), None);
    assert_eq!(map.find_gap(u64::MAX, P, Search::BottomUp(0)), None);
    let large = map.find_gap(P, 2 << 20, Search::TopDown(1 << 40)).unwrap();
    assert_eq!(large % (2 << 20), 0);
}

/// State of a page in the model.
#[derive(Clone, Debug, PartialEq)]
struct Page {
    prot: Prot,
    max_prot: Prot,
    flags: VmaFlags,
    backing: Backing<File>,
}

#[derive(Clone, Debug)]
enum Op {
    Insert { page: usize, count: usize, prot: u32, backing: u8, offset: u64, max: bool },
    Remove { page: usize, count: usize },
    Protect { page: usize, count: usize, prot: u32 },
    Flags { page: usize, count: usize, add: bool },
    Gap { pages: u64, align: u32, limit: usize, top_down: bool, map: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (0..PAGES, 1usize..12);
    prop_oneof![
        4 => (range(), 0u32..8, 0u8..5, 0u64..4, any::<bool>()).prop_map(
            |((page, count), prot, backing, offset, max)| Op::Insert { page, count, prot, backing, offset, max }),
        2 => range().prop_map(|(page, count)| Op::Remove { page, count }),
        2 => (range(), 0u32..8).prop_map(|((page, count), prot)| Op::Protect { page, count, prot }),
        1 => (range(), any::<bool>()).prop_map(|((page, count), add)| Op::Flags { page, count, add }),
        4 => (1u64..20, prop_oneof![3 => Just(0u32), 1 => 1u32..4], prop_oneof![2 => Just(PAGES), 1 => 0..=PAGES], any::<bool>(), any::<bool>()).prop_map(
            |(pages, align, limit, top_down, map)| Op::Gap { pages, align, limit, top_down, map }),
    ]
}

/// Does one of the operations that can be refused.
fn apply(map: &mut VmaMap<File>, op: &Op) -> Result<()> {
    let range = |page, count: usize| (address(page), address((page + count).min(PAGES)));
    match *op {
        Op::Insert { page, count, .. } => {
            let (start, end) = range(page, count);
            map.insert(anonymous(start, end))
        }
        Op::Remove { page, count } => {
            let (start, end) = range(page, count);
            map.try_remove(PageRange::of(start, end)).map(drop)
        }
        Op::Protect { page, count, prot } => {
            let (start, end) = range(page, count);
            map.protect(PageRange::of(start, end), Prot::from_bits_truncate(prot))
        }
        Op::Flags { page, count, .. } => {
            let (start, end) = range(page, count);
            map.set_flags(PageRange::of(start, end), VmaFlags::LOCKED, VmaFlags::empty())
        }
        Op::Gap { .. } => Ok(()),
    }
}

fn address(page: usize) -> u64 {
    MIN + page as u64 * P
}

/// Finds a gap page by page.
fn gap(
    pages: &[Option<Page>],
    count: u64,
    align: u64,
    limit: usize,
    top_down: bool,
) -> Option<u64> {
    let fits = |first: &usize| {
        let end = first + count as usize;
        end <= PAGES
            && address(*first).is_multiple_of(align)
            && pages[*first..end].iter().all(Option::is_none)
            && (!top_down || end <= limit)
    };
    let found = if top_down { (0..PAGES).rev().find(fits) } else { (limit..PAGES).find(fits) };
    found.map(address)
}

/// The page of a mapping that lies `pages` behind the mapping's start.
fn page_of(vma: &Vma<File>, page: u64) -> Page {
    let &Vma { prot, max_prot, flags, ref backing, .. } = vma;
    Page { prot, max_prot, flags, backing: backing.advanced(page * P) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Against an array of pages.
    #[test]
    fn a_map_is_as_an_array_of_pages(ops in proptest::collection::vec((op(), 0u32..8), 1..60)) {
        let mut map = map();
        let mut pages: std::vec::Vec<Option<Page>> = vec![None; PAGES];
        for (op, nth) in ops {
            // What an allocation is refused for changes nothing.
            let mut refused = map.clone();
            let (result, has_failed) = failing::at(nth, || apply(&mut refused, &op));
            if has_failed {
                prop_assert_eq!(result, Err(ENOMEM));
                prop_assert!(refused.iter().eq(map.iter()));
                refused.check();
            }
            match op {
                Op::Insert { page, count, prot, backing, offset, max } => {
                    let end = (page + count).min(PAGES);
                    let mut new = vma(address(page), address(end), match backing {
                        0 => Backing::Anonymous,
                        1 | 2 => Backing::PrivateFile { file: backing, offset: offset * P + page as u64 * P },
                        3 => Backing::SharedLinux { watch: 1, file: Some(1), offset: page as u64 * P },
                        _ => Backing::Special(SpecialKind::Vdso),
                    });
                    new.prot = Prot::from_bits_truncate(prot);
                    if !max { new.max_prot = new.prot; }
                    let free = pages[page..end].iter().all(Option::is_none);
                    prop_assert_eq!(map.insert(new.clone()), if free { Ok(()) } else { Err(EEXIST) });
                    if free {
                        for (offset, slot) in pages[page..end].iter_mut().enumerate() {
                            *slot = Some(page_of(&new, offset as u64));
                        }
                    }
                }
                Op::Remove { page, count } => {
                    let end = (page + count).min(PAGES);
                    let removed = map.try_remove(PageRange::of(address(page), address(end))).unwrap();
                    for piece in removed {
                        prop_assert!(piece.start >= address(page) && piece.end <= address(end));
                        for at in (piece.start..piece.end).step_by(P as usize) {
                            let known = pages[((at - MIN) / P) as usize].take();
                            prop_assert_eq!(known, Some(page_of(&piece, (at - piece.start) / P)));
                        }
                    }
                    prop_assert!(pages[page..end].iter().all(Option::is_none));
                }
                Op::Protect { page, count, prot } => {
                    let end = (page + count).min(PAGES);
                    let prot = Prot::from_bits_truncate(prot);
                    let mut expected = Ok(());
                    for slot in &mut pages[page..end] {
                        match slot {
                            Some(known) if known.max_prot.contains(prot) => known.prot = prot,
                            Some(_) => { expected = Err(EACCES); break; }
                            None => { expected = Err(ENOMEM); break; }
                        }
                    }
                    prop_assert_eq!(map.protect(PageRange::of(address(page), address(end)), prot), expected);
                }
                Op::Flags { page, count, add } => {
                    let end = (page + count).min(PAGES);
                    let (add, remove) = if add { (VmaFlags::LOCKED, VmaFlags::empty()) } else { (VmaFlags::empty(), VmaFlags::LOCKED) };
                    let covered = pages[page..end].iter().all(Option::is_some);
                    for known in pages[page..end].iter_mut().flatten() {
                        known.flags = (known.flags - remove) | add;
                    }
                    let done = map.set_flags(PageRange::of(address(page), address(end)), add, remove);
                    prop_assert_eq!(done, if covered { Ok(()) } else { Err(ENOMEM) });
                }
                Op::Gap { pages: count, align, limit, top_down, map: insert } => {
                    let align = P << align;
                    let search = if top_down { Search::TopDown(address(limit)) } else { Search::BottomUp(address(limit)) };
                    let found = map.find_gap(count * P - 7, align, search);
                    prop_assert_eq!(found, gap(&pages, count, align, limit, top_down));
                    if let Some(start) = found && insert {
                        let new = anonymous(start, start + count * P);
                        map.insert(new.clone()).unwrap();
                        let first = ((start - MIN) / P) as usize;
                        pages[first..first + count as usize].fill(Some(page_of(&new, 0)));
                    }
                }
            }
            map.check();
            for (page, known) in pages.iter().enumerate() {
                let at = address(page);
                let found = map.find(at + 5).map(|vma| page_of(vma, (at - vma.start) / P));
                prop_assert_eq!(&found, known);
                let next = (page..PAGES).find(|&page| pages[page].is_some());
                let found = map.find_next(at).map(|vma| vma.start.max(at));
                prop_assert_eq!(found, next.map(address));
                let some = pages[page..].iter().take(4).any(Option::is_some);
                prop_assert_eq!(map.overlaps(PageRange::of(at, at + 4 * P)), some);
                let end = (page + 4).min(PAGES);
                let all = pages[page..end].iter().all(Option::is_some);
                prop_assert_eq!(map.is_covered(PageRange::of(at, address(end))), all);
            }
            let mapped = pages.iter().flatten().count() as u64 * P;
            prop_assert_eq!(map.total_bytes(), mapped);
            let total: u64 = map.range(PageRange::of(MIN, MAX)).map(Vma::len).sum();
            prop_assert_eq!(total, mapped);
        }
    }
}

#[test]
fn what_takes_a_place_is_not_refused() {
    let pages = MAX_VMAS as u64 + 2;
    let mut map: VmaMap<File> = VmaMap::new(0, 3 * pages * P);
    for index in 0..=MAX_VMAS as u64 {
        map.insert(file(3 * index * P, (3 * index + 2) * P, 0)).unwrap();
    }
    // The upper half of one: what takes its place is one more.
    let mut other = anonymous(P, 2 * P);
    other.prot = Prot::WRITE;
    assert_eq!(map.try_remove(PageRange::of(P, 2 * P)).unwrap().len(), 1);
    assert_eq!(map.insert(other.clone()), Err(ENOMEM));
    map.insert_anyway(other.clone()).unwrap();
    assert_eq!(map.insert_anyway(other), Err(EEXIST));
    assert_eq!(map.insert_anyway(anonymous(P, P)), Err(EINVAL));
    assert_eq!(map.count(), MAX_VMAS + 2);
    map.check();
}

#[test]
fn a_piece_is_held_if_range_and_file_are_the_same() {
    let mut map = map();
    map.insert(file(MIN, MIN + 4 * P, 0)).unwrap();
    map.insert(anonymous(MIN + 6 * P, MIN + 8 * P)).unwrap();
    assert!(map.holds(&file(MIN, MIN + 4 * P, 0)));
    assert!(map.holds(&file(MIN + P, MIN + 2 * P, P)));
    assert!(!map.holds(&file(MIN + P, MIN + 2 * P, 0)));
    assert!(!map.holds(&file(MIN + 2 * P, MIN + 5 * P, 2 * P)));
    assert!(
        !map.holds(&anonymous(MIN, MIN + P)) && !map.holds(&anonymous(MIN + 5 * P, MIN + 7 * P))
    );
    map.protect(PageRange::of(MIN + 3 * P, MIN + 4 * P), Prot::empty()).unwrap();
    assert!(map.holds(&file(MIN, MIN + 3 * P, 0)) && !map.holds(&file(MIN, MIN + 4 * P, 0)));
    let gone = map.remove_where(PageRange::of(MIN + P, MAX), |v| {
        v.backing != Backing::Anonymous && !v.prot.is_empty()
    });
    assert_eq!(gone, [file(MIN + P, MIN + 3 * P, P)].into());
    assert!(map.holds(&file(MIN, MIN + P, 0)) && map.holds(&anonymous(MIN + 6 * P, MIN + 8 * P)));
    assert_eq!(map.count(), 3);
    map.check();
}

#[test]
fn what_is_appended_in_order_is_as_inserted() {
    let locked =
        |index: u64| if index.is_multiple_of(3) { VmaFlags::LOCKED } else { VmaFlags::empty() };
    let mut parent = map();
    for index in 0..80 {
        let gap = index / 7 * P; // seven beside one another, of which some differ in their flags only
        let mut vma = anonymous(MIN + index * P + gap, MIN + (index + 1) * P + gap);
        vma.flags = locked(index);
        parent.insert(vma).unwrap();
    }
    parent.check();
    let copy = |vma: &Vma<File>| Vma { flags: vma.flags - VmaFlags::LOCKED, ..vma.clone() };
    let (mut appended, mut inserted) = (map(), map());
    appended.append(parent.iter().map(copy), |_| Ok(())).unwrap();
    parent.iter().map(copy).for_each(|vma| inserted.insert(vma).unwrap());
    appended.check();
    assert!(appended.iter().eq(inserted.iter()) && appended.count() < parent.count() / 2);
    assert_eq!(appended.total_bytes(), inserted.total_bytes());
    // Of a map without memory some are there at most.
    let asked = core::cell::Cell::new(0);
    let room = |_| if asked.replace(asked.get() + 1) < 2 { Ok(()) } else { Err(ENOMEM) };
    let mut refused = map();
    assert_eq!(refused.append(parent.iter().cloned(), room), Err(ENOMEM));
    refused.check();
}
