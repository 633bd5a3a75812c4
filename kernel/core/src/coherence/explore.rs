//! Exhaustive exploration of `coherence` (docs/coherence.md): two threads on two CPUs, one fault of
//! Linux that a third CPU serves, zaps, a fork, and a failure at each step. The machine below has
//! two pages, frames, the TLBs, Linux' page table; what is decided, reserved and checked is the
//! code of the kernel. A section under the lock is one step; CPUs and Linux write between any two
//! steps.

mod actions;
mod moves;
mod mutants;
mod sections;

use super::{Change, Coherence, ForWrite, Kept, Sight, Unmapping};
use super::{for_write, may_give_up, must_wait_to_keep};
use crate::addr::PAGE_SIZE;
use crate::pagerange::PageRange;
use actions::{Action, actions};
use core::hash::{Hash, Hasher};
pub(super) use mutants::{Mutant, is};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::string::String;
use std::vec::Vec;
use std::{format, println, vec};

const PAGES: usize = 2;
const FRAMES: usize = 6;
const ALL: PageRange = PageRange::of(0, PAGES as u64 * PAGE_SIZE);
const SERVER: usize = 2;
/// Pages that a fork copies at once.
const COPIES_MAX: usize = 1;

fn range(page: usize) -> PageRange {
    PageRange::page(page as u64 * PAGE_SIZE)
}

fn pages(range: PageRange) -> core::ops::Range<usize> {
    let number = |addr: u64| (addr / PAGE_SIZE) as usize;
    number(range.start())..number(range.end()).min(PAGES)
}

/// An entry of a TLB, of Linux' page table or of the child's: frame + 1 (0: none).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Entry {
    frame: u8,
    write: bool,
}

/// An entry of the parent's page table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Leaf {
    frame: u8,
    write: bool,
    present: bool,
    sight: Sight,
    lent: bool,
}

const NO_LEAF: Leaf =
    Leaf { frame: 0, write: false, present: false, sight: Sight::Unseen, lent: false };

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Frame {
    used: bool,
    quarantined: bool,
    refs: u8,
    marked: bool,
    /// The frame's memory was bad: the frame is not used again.
    bad: bool,
    /// The writes that the frame has, a bit each.
    content: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Rights {
    None,
    Read,
    Write,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Store(usize),
    Fork,
    ReadOnly(usize),
    /// Gives the right to write back.
    Writable(usize),
    Discard(usize),
    /// Moves the page to the other address, where nothing is.
    Move(usize),
    Unmap(usize),
    /// Maps the page anew, if nothing is mapped there.
    Map(usize),
    /// Maps it anew in place of what is mapped there.
    Replace(usize),
    /// Finds that the page's memory was bad.
    Lose(usize),
    /// Serves a fault of Linux.
    Serve(usize, bool),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Start,
    Plan,
    Finish,
    End,
}

/// Work of a thread, or of the CPU that serves Linux. First CPUs flush, then Linux is asked, then
/// frames are dropped, then its phase goes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Thread {
    script: [Option<Op>; 3],
    phase: Phase,
    change: Change,
    is_forgotten: bool,
    /// Range, and the next CPU that is to drop it.
    flush: Option<(PageRange, usize)>,
    /// Range, and how far Linux is.
    ask: Option<(PageRange, Asked)>,
    /// Frames of lent pages that Linux did not hold when it was asked.
    let_go: [u8; PAGES],
    /// Frames that lost a mapping, or the last one already.
    drop_mapping: u8,
    dead: [u8; 2],
    copies_max: usize,
    /// The child's pages for which it gets copies.
    copies: [bool; PAGES],
    /// The rights and writes there were at the beginning.
    begin: ([Rights; PAGES], [u8; PAGES], u8),
}

impl Thread {
    fn new(script: &[Op]) -> Thread {
        Thread {
            script: core::array::from_fn(|i| script.get(i).copied()),
            phase: Phase::Start,
            change: Change::new(ALL),
            is_forgotten: false,
            flush: None,
            ask: None,
            let_go: [0; PAGES],
            drop_mapping: 0,
            dead: [0; 2],
            copies_max: COPIES_MAX,
            copies: [false; PAGES],
            begin: ([Rights::None; PAGES], [0; PAGES], 0),
        }
    }

    fn op(&self) -> Option<Op> {
        self.script[0]
    }

    fn begins(&self) -> bool {
        self.phase == Phase::Start
    }
}

/// How far Linux is that is asked to forget pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Asked {
    /// Linux has done nothing yet.
    Begun,
    /// Faults under way are void.
    Void,
    /// The pages are forgotten.
    Zapped,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct LinuxFault {
    answer: Option<[Entry; PAGES]>,
    /// A zap came since the fault has asked.
    void: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    coherence: Coherence,
    leaves: [Leaf; PAGES],
    /// Whether the memory of the page was bad: its entry keeps the sight only.
    lost: [bool; PAGES],
    /// Reason why addresses are kept, and the thread that keeps them.
    kept: [Option<(Kept, usize)>; PAGES],
    rights: [Rights; PAGES],
    frames: [Frame; FRAMES],
    tlbs: [[Entry; PAGES]; 2],
    linux: [Entry; PAGES],
    fault: LinuxFault,
    /// Page and frame that Linux has pinned for writing.
    pin: Option<(usize, u8)>,
    child: [Entry; PAGES],
    child_runs: bool,
    threads: [Thread; 3],
    /// How many of each action may still happen.
    linux_writes: u8,
    pins: u8,
    child_writes: u8,
    failures: u8,
    /// The second CPU never has the table: it has no translation.
    is_alone: bool,
    /// Pages that a fork copies at once.
    copies_max: usize,
    /// Writes so far; whose they are; what each page has to show.
    writes: u8,
    by_linux: u8,
    by_child: u8,
    must: [u8; PAGES],
    /// All writes to each page.
    to: [u8; PAGES],
    /// Writes that must not be seen of a page again.
    gone: [u8; PAGES],
    child_must: [u8; PAGES],
    wrong: Option<&'static str>,
}

/// A step under way: which of its allocations fails.
struct Step {
    fails_at: Option<u8>,
    allocations: u8,
    has_failed: bool,
}

impl Step {
    fn may_allocate(&mut self) -> bool {
        let fails = self.fails_at == Some(self.allocations);
        self.allocations += 1;
        self.has_failed |= fails;
        !fails
    }
}

impl State {
    fn new(scripts: [&[Op]; 2], pins: u8) -> State {
        let mut s = State {
            coherence: Coherence::new(),
            leaves: [NO_LEAF; PAGES],
            lost: [false; PAGES],
            kept: [None; PAGES],
            rights: [Rights::Write; PAGES],
            frames: [Frame::default(); FRAMES],
            tlbs: Default::default(),
            linux: Default::default(),
            fault: LinuxFault::default(),
            pin: None,
            child: Default::default(),
            child_runs: false,
            threads: [Thread::new(scripts[0]), Thread::new(scripts[1]), Thread::new(&[])],
            linux_writes: 1,
            pins,
            child_writes: u8::from(
                pins == 0
                    && matches!(
                        scripts,
                        [[Op::Fork], [Op::Store(0) | Op::Unmap(0) | Op::Discard(0)]]
                            | [[Op::Fork, Op::Unmap(0)], []]
                    ),
            ),
            is_alone: scripts[1].is_empty(),
            failures: 1,
            // There is one page then, which a fork is to ask about.
            copies_max: if scripts[1].contains(&Op::Move(1)) { 0 } else { COPIES_MAX },
            writes: 0,
            by_linux: 0,
            by_child: 0,
            must: [0; PAGES],
            to: [0; PAGES],
            gone: [0; PAGES],
            child_must: [0; PAGES],
            wrong: None,
        };
        let moves = scripts.iter().any(|s| s.contains(&Op::Move(0)));
        for page in 0..PAGES {
            if moves && page == 1 {
                s.rights[page] = Rights::None;
                continue;
            }
            s.frames[page] = Frame { used: true, refs: 1, ..Frame::default() };
            s.leaves[page] = Leaf { frame: page as u8 + 1, write: true, present: true, ..NO_LEAF };
        }
        s
    }

    fn frame(&mut self, number: u8) -> &mut Frame {
        &mut self.frames[usize::from(number) - 1]
    }

    fn is_shared(&self, number: u8) -> bool {
        self.frames[usize::from(number) - 1].refs > 1
    }

    fn alloc(&mut self, step: &mut Step, content: u8) -> Option<u8> {
        if !step.may_allocate() {
            return None;
        }
        let at = self.frames.iter().position(|f| !f.used && !f.quarantined)?;
        self.frames[at] = Frame { used: true, refs: 1, content, ..Frame::default() };
        Some(at as u8 + 1)
    }

    fn is_pinned(&self, frame: u8) -> bool {
        self.pin.is_some_and(|(_, pinned)| pinned == frame)
    }

    fn complain(&mut self, what: &'static str) {
        self.wrong = self.wrong.or(Some(what));
    }

    /// Whether a write to the page may be lost now: a thread takes the page away.
    fn is_going(&self, page: usize) -> bool {
        self.rights[page] == Rights::None
            || self.lost[page]
            || self.threads.iter().any(|t| match t.op() {
                Some(Op::Discard(p)) => p == page && !t.begins(),
                Some(Op::Unmap(p) | Op::Lose(p) | Op::Replace(p)) => {
                    p == page && t.phase == Phase::Plan
                }
                _ => false,
            })
    }

    fn write(&mut self, page: usize, frame: u8, by_linux: bool) {
        let bit = 1 << self.writes;
        self.writes += 1;
        self.by_linux |= if by_linux { bit } else { 0 };
        self.frame(frame).content |= bit;
        // What is written to a page that is discarded, by a CPU that does not know it yet, may be
        // lost before what another writes there, as on Linux.
        if by_linux || self.leaves[page].frame == frame {
            self.to[page] |= bit;
        }
        if !self.is_going(page) {
            self.must[page] |= bit;
        }
    }

    fn flush(&mut self, cpu: usize, r: PageRange) {
        for page in pages(r) {
            self.tlbs[cpu][page] = Entry::default();
        }
    }

    /// At the end of a section under the lock of thread `t`.
    fn flush_all(&mut self, t: usize, r: PageRange) {
        if t < SERVER {
            self.flush(t, r);
        }
        self.threads[t].flush = Some((r, usize::from(t == 0)));
    }

    /// A mapping of a frame is gone: what is to be done once CPUs have flushed.
    fn unmap_frame(&mut self, t: usize, frame: u8) {
        let f = self.frame(frame);
        f.refs -= 1;
        if f.refs == 0 {
            let place = self.threads[t].dead.iter().position(|&d| d == 0).expect("a place");
            self.threads[t].dead[place] = frame;
        }
    }

    /// Frees a frame that no table has, or waits until Linux lets it go.
    fn free(&mut self, frame: u8, may_ask: bool) {
        let held = self.linux.iter().any(|e| e.frame == frame) || self.is_pinned(frame);
        let f = self.frame(frame);
        if f.bad {
            return;
        }
        if f.marked && (held || !may_ask) && !is(Mutant::FreesUnasked) {
            f.quarantined = true;
        }
        f.used = false;
    }
}

/// Multiplies and rotates, for words; states are told apart by 64 bits.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let x = self.0 ^ (self.0 >> 32);
        let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^ (x >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, i: u8) {
        self.write_u64(u64::from(i));
    }
    fn write_u64(&mut self, i: u64) {
        self.0 = (self.0.rotate_left(5) ^ i).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }
    fn write_usize(&mut self, i: usize) {
        self.write_u64(i as u64);
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut mix = Mix::default();
    state.hash(&mut mix);
    mix.finish()
}

/// All states from a start on: how many, or the first wrong one, and the way to it.
fn explore(scripts: [&[Op]; 2], pins: u8) -> Result<usize, String> {
    let all = actions();
    let start = State::new(scripts, pins);
    let mut seen: HashSet<u64, BuildHasherDefault<Mix>> = HashSet::default();
    let mut from: HashMap<u64, (u64, Action), BuildHasherDefault<Mix>> = HashMap::default();
    let first = fingerprint(&start);
    seen.insert(first);
    let mut queue = VecDeque::from([(first, start)]);
    let keeps_ways = std::env::var_os("COHERENCE_WAYS").is_some();
    while let Some((number, state)) = queue.pop_front() {
        for &action in all.iter().filter(|&&action| state.may(action)) {
            let mut fails_at = None;
            loop {
                let mut next = state.clone();
                let mut step = Step { fails_at, allocations: 0, has_failed: false };
                if !next.take(action, &mut step) || fails_at.is_some() && !step.has_failed {
                    break;
                }
                if step.has_failed {
                    next.failures -= 1;
                }
                let t = match action {
                    Action::Go(t) | Action::Evict(t) => Some(t),
                    _ => None,
                };
                next.settle_tlbs(&state.leaves, t);
                let wrong = next.check();
                let new = fingerprint(&next);
                if seen.insert(new) {
                    if keeps_ways {
                        from.insert(new, (number, action));
                    }
                    if let Some(wrong) = wrong {
                        let mut way = vec![];
                        let mut at = new;
                        while let Some(&(before, action)) = from.get(&at) {
                            way.insert(0, action);
                            at = before;
                        }
                        let state = if keeps_ways { format!("{next:?}") } else { String::new() };
                        return Err(format!("{wrong}, of {scripts:?}: {way:?}: {state}"));
                    }
                    queue.push_back((new, next));
                }
                if state.failures == 0 || step.allocations <= fails_at.map_or(0, |n| n + 1) {
                    break;
                }
                fails_at = Some(fails_at.map_or(0, |n| n + 1));
            }
        }
    }
    Ok(seen.len())
}

const SCRIPTS: &[[&[Op]; 2]] = &[
    [&[Op::Store(0), Op::Store(1)], &[Op::Store(1), Op::Store(0)]],
    [&[Op::ReadOnly(0)], &[Op::Store(0), Op::Store(1)]],
    [&[Op::Discard(0)], &[Op::Store(0), Op::Store(0)]],
    [&[Op::Move(0)], &[Op::Store(0), Op::Store(1)]],
    [&[Op::Unmap(0)], &[Op::Store(0)]],
    [&[Op::Fork], &[Op::Store(0)]],
    [&[Op::Fork], &[Op::Unmap(0)]],
    [&[Op::Fork], &[Op::Move(0)]],
    [&[Op::Fork], &[Op::ReadOnly(0)]],
    [&[Op::Fork], &[Op::Store(1)]],
    [&[Op::Unmap(0)], &[Op::Unmap(0), Op::Map(0), Op::Store(0)]],
    [&[Op::Unmap(0)], &[Op::Map(0), Op::Store(0), Op::Store(0)]],
    [&[Op::Lose(0)], &[Op::Unmap(0), Op::Map(0), Op::Store(0)]],
    [&[Op::Lose(0)], &[Op::Store(0), Op::Fork]],
    [&[Op::Fork], &[Op::Discard(0)]],
    [&[Op::Replace(0)], &[Op::Store(0), Op::Store(0)]],
    [&[Op::Replace(0)], &[Op::Replace(0), Op::Store(0)]],
    [&[Op::Fork], &[Op::Replace(0)]],
    [&[Op::Fork, Op::Unmap(0)], &[]],
];

/// Beside these Linux pins a page, and writes to it later.
const PINNED: &[[&[Op]; 2]] = &[
    [&[Op::Fork], &[Op::Store(0)]],
    [&[Op::ReadOnly(0), Op::Writable(0), Op::Fork], &[]],
    [&[Op::Move(0), Op::Fork], &[]],
    [&[Op::Fork], &[Op::Move(0), Op::Move(1)]],
];

#[test]
fn no_write_is_lost_and_no_frame_freed_in_use() {
    let mut states = 0;
    std::thread::scope(|scope| {
        let all = SCRIPTS.iter().map(|&s| (s, 0)).chain(PINNED.iter().map(|&s| (s, 1)));
        let all: Vec<_> = all
            .map(|(scripts, pins)| (scripts, scope.spawn(move || explore(scripts, pins))))
            .collect();
        for (scripts, explored) in all {
            match explored.join().expect("no panic") {
                Ok(count) => {
                    println!("{count:8} states of {scripts:?}");
                    states += count;
                }
                Err(wrong) => panic!("{wrong}"),
            }
        }
    });
    println!("coherence: {states} states");
}
