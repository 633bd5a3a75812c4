use super::*;
use core::ops::Range;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

#[test]
fn all_freed_pages_join_to_the_blocks_of_before() {
    let mut frames = vec![Frame::default(); 5000];
    let mut chunks = [Chunk::new(Pfn(0x1234), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    assert_eq!(zone.alloc(0), None);
    zone.release(Pfn(0x1234), 1000);
    zone.release(Pfn(0x1234 + 1000), 4000);
    let before = zone.free_by_order();
    assert_eq!((zone.free_pages(), zone.total_pages()), (5000, 5000));
    let mut pages = Vec::new();
    while let Some(pfn) = zone.alloc(0) {
        assert_eq!(zone.frame(pfn).refs, 1);
        pages.push(pfn);
    }
    assert_eq!(pages.len(), 5000);
    pages.sort();
    pages.dedup();
    assert_eq!(pages.len(), 5000);
    for &pfn in pages.iter().step_by(2).chain(pages.iter().skip(1).step_by(2)) {
        zone.free(pfn, 0);
    }
    zone.check();
    assert_eq!(zone.free_by_order(), before);
}

#[test]
fn a_split_block_is_freed_by_pages() {
    let mut frames = vec![Frame::default(); 1 << 19];
    let mut chunks = [Chunk::new(Pfn(1 << 18), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(1 << 18), 1 << 19);
    assert_eq!(zone.free_by_order()[18], 2);
    assert_eq!(zone.alloc(19), None);
    let huge = zone.alloc(18).unwrap();
    assert!(huge.is_aligned(18));
    let large = zone.alloc(9).unwrap();
    zone.split(large, 9);
    for page in 0..512 {
        assert_eq!(zone.frame(large + page).refs, 1);
        zone.free(large + page, 0);
    }
    zone.check();
    zone.free(huge, 18);
    assert_eq!(zone.free_by_order()[18], 2);
}

#[test]
fn a_run_is_freed_at_once_up_to_the_end_of_its_chunk() {
    let (mut low, mut high) = (vec![Frame::default(); 1000], vec![Frame::default(); 24]);
    let mut chunks = [Chunk::new(Pfn(24), &mut low), Chunk::new(Pfn(1024), &mut high)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(24), 1000);
    zone.release(Pfn(1024), 24);
    let before = zone.free_by_order();
    while let Some(pfn) = zone.alloc(0) {
        zone.frame_mut(pfn).marks = u16::from(pfn.0 % 2 == 0);
    }
    let (mut at, mut marks) = (Pfn(24), Vec::new());
    let mut parts = Vec::new();
    while at < Pfn(1048) {
        let freed = zone.free_run(at, (1048 - at.0) as usize, |mark| marks.push(mark));
        parts.push(freed);
        at = at + freed as u64;
        zone.check();
    }
    assert_eq!((parts, marks.len()), (vec![1000, 24], 1024));
    assert!(marks.iter().step_by(2).all(|&mark| mark == 1) && marks[1] == 0);
    assert_eq!((zone.free_by_order(), zone.free_pages()), (before, 1024));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "of which 1 are single")]
fn a_run_with_a_free_page_panics() {
    let mut frames = vec![Frame::default(); 16];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(0), 16);
    let first = zone.alloc(1).unwrap();
    zone.split(first, 1);
    zone.free(first + 1, 0);
    zone.free_run(first, 2, |_| {});
}

#[test]
fn reserved_pages_stay_away() {
    let mut frames = vec![Frame::default(); 1024];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(1), 511);
    zone.release(Pfn(513), 511);
    while let Some(pfn) = zone.alloc(0) {
        assert!(pfn != Pfn(0) && pfn != Pfn(512));
    }
    assert_eq!(zone.total_pages(), 1022);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "not such an allocated block")]
fn a_double_free_panics() {
    let mut frames = vec![Frame::default(); 16];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(0), 16);
    let page = zone.alloc(0).unwrap();
    zone.free(page, 0);
    zone.free(page, 0);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "not such an allocated block")]
fn a_double_free_in_a_joined_block_panics() {
    let mut frames = vec![Frame::default(); 2];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(0), 2);
    let pages = [zone.alloc(0).unwrap(), zone.alloc(0).unwrap()];
    let upper = *pages.iter().max().unwrap();
    zone.free(Pfn(upper.0 - 1), 0);
    zone.free(upper, 0);
    zone.free(upper, 0);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "not such an allocated block")]
fn a_free_of_another_order_panics() {
    let mut frames = vec![Frame::default(); 16];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(0), 16);
    let page = zone.alloc(2).unwrap();
    zone.free(page, 1);
}

#[test]
#[should_panic(expected = "released twice")]
fn a_double_release_panics() {
    let mut frames = vec![Frame::default(); 16];
    let mut chunks = [Chunk::new(Pfn(0), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(0), 16);
    zone.release(Pfn(3), 1);
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(u32),
    Free(usize),
    Split(usize, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u32..8).prop_map(Op::Alloc),
        2 => any::<usize>().prop_map(Op::Free),
        1 => (any::<usize>(), 0u32..4).prop_map(|(which, to)| Op::Split(which, to)),
    ]
}

/// Ranges of 600 pages that remain without `gaps`, each (first page, pages). A gap may have no
/// page.
fn chunks_between(mut gaps: Vec<(usize, usize)>) -> Vec<Range<usize>> {
    gaps.sort_unstable();
    gaps.push((600, 0));
    let mut from = 0;
    let mut all = Vec::new();
    for (at, pages) in gaps {
        if at > from {
            all.push(from..at);
        }
        from = from.max(at + pages);
    }
    if all.is_empty() {
        all.push(0..600);
    }
    all
}

proptest! {
    /// A zone of one to five chunks, against an array of the pages' owners.
    #[test]
    fn a_zone_never_gives_a_page_twice(
        base in 0u64..2000,
        holes in proptest::collection::vec(0usize..600, 0..5),
        gaps in proptest::collection::vec((0usize..600, 0usize..40), 0..4),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut frames = vec![Frame::default(); 600];
        let ranges = chunks_between(gaps);
        let mut chunks = Vec::new();
        let (mut left, mut at) = (&mut frames[..], 0);
        for range in &ranges {
            let (own, behind) = left[range.start - at..].split_at_mut(range.len());
            chunks.push(Chunk::new(Pfn(base + range.start as u64), own));
            (left, at) = (behind, range.end);
        }
        let mut zone = Zone::new(&mut chunks);
        let mut taken = vec![false; 600];
        for (page, taken) in taken.iter_mut().enumerate() {
            let is_there = ranges.iter().any(|r| r.contains(&page));
            prop_assert_eq!(zone.contains(Pfn(base + page as u64)), is_there);
            *taken = holes.contains(&page) || !is_there;
            if !*taken {
                zone.release(Pfn(base) + page as u64, 1);
            }
        }
        let is_in_one = |start, pages| ranges.iter().any(|r| r.contains(&start) && start + pages <= r.end);
        let whole = zone.free_by_order();
        let mut blocks: Vec<(Pfn, u32)> = Vec::new();
        for op in ops {
            match op {
                Op::Alloc(order) => match zone.alloc(order) {
                    Some(pfn) => {
                        prop_assert!(pfn.is_aligned(order));
                        let start = (pfn.0 - base) as usize;
                        prop_assert!(is_in_one(start, 1 << order));
                        for page in &mut taken[start..start + (1 << order)] {
                            prop_assert!(!*page);
                            *page = true;
                        }
                        blocks.push((pfn, order));
                    }
                    None => {
                        // no aligned free run of that size exists
                        for start in 0..600 {
                            let free = is_in_one(start, 1 << order)
                                && Pfn(base + start as u64).is_aligned(order)
                                && taken[start..start + (1 << order)].iter().all(|t| !t);
                            prop_assert!(!free);
                        }
                    }
                },
                Op::Free(which) if !blocks.is_empty() => {
                    let (pfn, order) = blocks.swap_remove(which % blocks.len());
                    zone.free(pfn, order);
                    let start = (pfn.0 - base) as usize;
                    taken[start..start + (1 << order)].fill(false);
                }
                Op::Split(which, to) if !blocks.is_empty() => {
                    let (pfn, order) = blocks.swap_remove(which % blocks.len());
                    let to = to.min(order);
                    zone.split_to(pfn, order, to);
                    for part in 0..1u64 << (order - to) {
                        blocks.push((pfn + (part << to), to));
                    }
                }
                _ => {}
            }
            zone.check();
            prop_assert_eq!(zone.free_pages(), taken.iter().filter(|t| !**t).count());
        }
        for (pfn, order) in blocks {
            zone.free(pfn, order);
        }
        prop_assert_eq!(zone.free_by_order(), whole);
    }
}

#[test]
fn single_pages_join_again() {
    let mut frames = vec![Frame::RESERVED; 64];
    let mut chunks = [Chunk::new(Pfn(1024), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(1024), 64);
    let block = zone.alloc(4).unwrap();
    zone.split(block, 4);
    zone.frame_mut(Pfn(block.0 + 3)).refs = 2;
    assert!(!zone.join(block, 4), "one page is shared");
    zone.frame_mut(Pfn(block.0 + 3)).refs = 1;
    zone.frame_mut(Pfn(block.0 + 5)).marks = 1;
    assert!(!zone.join(Pfn(block.0 + 1), 3), "not aligned");
    zone.frame_mut(Pfn(block.0 + 7)).marks = MARKS_ADDED + 1;
    assert!(!zone.join(block, 4), "one page has a mark that the others do not have");
    zone.frame_mut(Pfn(block.0 + 7)).marks = 0;
    assert!(zone.join(block, 4));
    assert_eq!(zone.block_order(block), Some(4));
    assert_eq!(zone.frame(block).marks, 1);
    assert!(!zone.join(block, 4), "it is one block already");
    zone.check();
    zone.free(block, 4);
    zone.check();
    assert_eq!(zone.free_pages(), 64);
    assert!(!zone.join(block, 4), "free pages");
}

#[test]
fn a_note_stays_with_an_allocated_block() {
    let mut frames = vec![Frame::default(); 64];
    let mut chunks = [Chunk::new(Pfn(64), &mut frames)];
    let mut zone = Zone::new(&mut chunks);
    zone.release(Pfn(64), 64);
    let (one, two) = (zone.alloc(0).unwrap(), zone.alloc(3).unwrap());
    for (pfn, note) in [(one, 0x1234_5678_9abc_d001), (two, u64::MAX - 1)] {
        zone.frame_mut(pfn).set_note(note);
        assert_eq!(zone.frame(pfn).note(), note);
        assert_eq!(zone.frame(pfn).refs, 1);
    }
    zone.free(two, 3);
    zone.free(one, 0);
    zone.check();
    assert_eq!(zone.free_pages(), 64);
}

#[test]
fn a_zone_of_4096_chunks_uses_all_of_them() {
    const CHUNKS: u64 = 4096;
    let mut frames = vec![Frame::default(); 4 * CHUNKS as usize];
    let mut chunks: Vec<_> = frames
        .chunks_exact_mut(4)
        .enumerate()
        .map(|(i, frames)| Chunk::new(Pfn(512 * i as u64), frames))
        .collect();
    let mut zone = Zone::new(&mut chunks);
    (0..CHUNKS).for_each(|i| zone.release(Pfn(512 * i), 4));
    assert_eq!(zone.total_pages(), 4 * CHUNKS as usize);
    assert_eq!(zone.alloc(3), None, "no block goes beyond its chunk");
    let mut seen = vec![false; CHUNKS as usize];
    while let Some(block) = zone.alloc(2) {
        assert!(!core::mem::replace(&mut seen[block.0 as usize / 512], true));
    }
    assert!(seen.iter().all(|&seen| seen));
    (0..CHUNKS).for_each(|i| zone.free(Pfn(512 * i), 2));
    zone.check();
    assert!(!zone.contains(Pfn(4)) && zone.contains(Pfn(512 * (CHUNKS - 1) + 3)));
}

#[test]
#[should_panic(expected = "chunks are not in order")]
fn chunks_that_overlap_panic() {
    let (mut one, mut two) = ([Frame::default(); 8], [Frame::default(); 8]);
    let mut chunks = [Chunk::new(Pfn(0), &mut one), Chunk::new(Pfn(7), &mut two)];
    let _ = Zone::new(&mut chunks);
}
