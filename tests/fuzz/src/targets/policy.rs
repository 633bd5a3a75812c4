//! NUMA policies: sets of nodes in a program's memory, modes, and ranges that have a policy.

use hanare_core::addr::PAGE_SIZE;
use hanare_core::errno::{EFAULT, EINVAL};
use hanare_core::mempolicy::{Policies, Policy, check_mode, plain};
use hanare_core::nodes::Nodes;
use hanare_core::pagerange::PageRange;

use crate::input::Input;
use crate::memory::Memory;
use crate::target::Target;

pub const TARGET: Target = Target { name: "policy", check, size_max: 300, seeds };

/// Modes that this Linux has.
const MODES: u32 = 7;
/// Pages of the space.
const PAGES: u64 = 24;
const ALLOWED: [u32; 3] = [0, 2, 65];

/// Each mode with each flag, for two nodes, and ranges that overlap.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |mode: u32, nodes: u64| {
        let mut seed = vec![0];
        seed.extend_from_slice(&mode.to_le_bytes());
        seed.extend_from_slice(&65u64.to_le_bytes());
        seed.extend_from_slice(&0x1_0000u32.to_le_bytes());
        seed.extend_from_slice(&[0, 2, 9, 1, 4, 6, 2, 5, 9, 3, 0, 24]);
        seed.extend_from_slice(&nodes.to_le_bytes());
        seed
    };
    let flags = [0, 1 << 15, 1 << 14, 1 << 13];
    (0..MODES)
        .flat_map(|mode| flags.map(|flag| seed(mode | flag, if mode % 4 == 0 { 0 } else { 5 })))
        .collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let changes = input.byte() & 1 != 0;
    let (mode, max_node, at) = (input.u32(), input.u64(), u64::from(input.u32()));
    let steps = input.clone();
    let memory = Memory::new(input.rest(), changes);
    let nodes = Nodes::read(&memory, at, max_node);
    assert!(memory.most() <= 8);
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return assert!([EFAULT, EINVAL].contains(&error)),
    };
    let bits = max_node.wrapping_sub(1);
    assert!(
        nodes.iter().all(|node| u64::from(node) < bits)
            && nodes.count() as usize == nodes.iter().count()
    );
    let mut allowed = Nodes::default();
    ALLOWED.iter().for_each(|&node| allowed.insert(node));
    if check_mode(mode, MODES).is_err() {
        return;
    }
    let Ok(policy) = Policy::new(mode, nodes, &allowed) else { return };
    places(&policy, &allowed);
    ranges(steps, policy);
}

/// The zones that are asked are zones, none twice; at least one.
fn places(policy: &Policy, allowed: &Nodes) {
    let effective = policy.effective(allowed);
    assert_eq!(effective.and(allowed), effective);
    assert!(!effective.is_empty() || [0, 4].contains(&plain(policy.mode)), "{policy:?}");
    for (here, page) in [(0, 0), (2, 1), (65, 7), (7, u64::MAX)] {
        let placement = policy.placement(allowed, page);
        let mut zones: Vec<usize> = placement.order(here, &ALLOWED).collect();
        let count = zones.len();
        zones.sort_unstable();
        zones.dedup();
        assert!(
            zones.len() == count && count > 0 && zones[count - 1] < ALLOWED.len(),
            "{policy:?}"
        );
        assert!(placement.is_strict || count == ALLOWED.len(), "all of them");
        assert!(
            !placement.is_strict || zones.iter().all(|&zone| effective.contains(ALLOWED[zone]))
        );
    }
}

/// Ranges of pages, against an array of them.
fn ranges(mut input: Input, policy: Policy) {
    let (mut policies, mut pages) = (Policies::default(), [Policy::default(); PAGES as usize]);
    let mut interleaves = Policy::default();
    interleaves.mode = 3;
    for _ in 0..16 {
        let (what, start, end) =
            (input.byte(), u64::from(input.byte()) % PAGES, u64::from(input.byte()) % (PAGES + 1));
        let end = end.max(start);
        let (range, numbers) =
            (PageRange::of(start * PAGE_SIZE, end * PAGE_SIZE), start as usize..end as usize);
        let most = policies.count_with(range);
        match what & 3 {
            0 => {
                policies.set(range, policy).expect("there is memory");
                pages[numbers].fill(policy);
                assert!(policies.count() <= most);
            }
            1 => {
                policies.clear(range);
                pages[numbers].fill(Policy::default());
            }
            2 => {
                policies.set(range, interleaves).expect("there is memory");
                pages[numbers].fill(interleaves);
                assert!(policies.count() <= most);
            }
            // What comes before an error is changed, so it is looked up.
            _ => {
                let _ = policies.set_home(range, 2);
                for page in numbers {
                    let now = policies.get(page as u64 * PAGE_SIZE);
                    assert_eq!((now.mode, now.nodes), (pages[page].mode, pages[page].nodes));
                    pages[page] = now;
                }
            }
        }
        for (page, expected) in (0..).zip(&pages) {
            assert_eq!(policies.get(page * PAGE_SIZE), *expected, "page {page}");
            let behind = policies.end_of(page * PAGE_SIZE, PAGES * PAGE_SIZE) / PAGE_SIZE;
            assert!(
                behind > page
                    && pages[page as usize..behind as usize].iter().all(|p| p == expected)
            );
            assert!(behind == PAGES || pages[behind as usize] != *expected, "neighbours differ");
        }
    }
}
