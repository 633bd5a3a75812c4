//! Exhaustive exploration of `coherence` (docs/coherence.md): two threads on two CPUs, one fault of
//! Linux that a third CPU serves, zaps, a fork, and a failure at each step. The machine below has two
//! pages, frames, the TLBs, Linux' page table; what is decided, reserved and checked is the code of
//! the kernel. A section under the lock is one step; CPUs and Linux write between any two steps.

use super::{Change, Coherence, ForWrite, Range, Sight, for_write};
use core::cell::Cell;
use core::hash::{Hash, Hasher};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::string::String;
use std::vec::Vec;
use std::{format, println, thread_local, vec};

/// A wrong step, which the exploration has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// Linux is given pages that are reserved.
    GivesReserved,
    /// A write to a shared page copies it without asking Linux.
    CopiesUnasked,
    /// A write to a shared page copies it while CPUs have translations of it.
    CopiesUnflushed,
    /// A copy is made while CPUs may still write to what a fork has just shared.
    CopiesBeforeForkIsFlushed,
    /// A page that was visible meanwhile counts as flushed.
    TrustsDisturbed,
    /// Linux, which could not be asked, counts as having forgotten.
    TrustsFailure,
    /// A page that Linux may write to is written down as one that it may read.
    ForgetsThatLinuxWrites,
    /// A fork shares what Linux may write to.
    ForkSharesWritten,
    /// A fork makes the child's copies before CPUs know that pages are read-only.
    ForkCopiesAtOnce,
    /// Pages move while Linux has them.
    MovesUnasked,
    /// Pages are discarded first, and Linux is asked then.
    DiscardsFirst,
    /// Frames are freed before Linux was asked for them.
    FreesUnasked,
    /// Frames are freed before CPUs have dropped their translations.
    FreesUnflushed,
    /// A failed fork leaves its count.
    LeavesFork,
}

thread_local! {
    static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
}

/// Whether the code under test is to take this wrong step.
pub(super) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == mutant
}

const PAGES: usize = 2;
const FRAMES: usize = 6;
const ALL: Range = (0, PAGES as u64);
const SERVER: usize = 2;
/// Pages that a fork copies at once.
const COPIES_MAX: usize = 1;

fn range(page: usize) -> Range {
    (page as u64, page as u64 + 1)
}

fn pages((start, end): Range) -> core::ops::Range<usize> {
    start as usize..(end as usize).min(PAGES)
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
}

const NO_LEAF: Leaf = Leaf { frame: 0, write: false, present: false, sight: Sight::Unseen };

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Frame {
    used: bool,
    quarantined: bool,
    refs: u8,
    marked: bool,
    /// The writes that it has, a bit each.
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
    Discard(usize),
    /// Page 0 to page 1, where nothing is.
    Move,
    Unmap(usize),
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

/// What a thread, or the CPU that serves Linux, does. First CPUs flush, then Linux is asked, then
/// frames are dropped, then its phase goes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Thread {
    script: [Option<Op>; 2],
    phase: Phase,
    change: Change,
    is_forgotten: bool,
    /// Range, and the next CPU that is to drop it.
    flush: Option<(Range, usize)>,
    /// Range, and whether faults under way are void already.
    ask: Option<(Range, bool)>,
    /// Frames that lost a mapping, or the last one already.
    drop_mapping: u8,
    dead: [u8; 2],
    copies_max: usize,
    /// The child's pages that it gets copies of.
    copies: [bool; PAGES],
    /// The rights and writes there were at the beginning.
    begin: ([Rights; PAGES], [u8; PAGES], u8),
}

impl Thread {
    fn new(script: &[Op]) -> Thread {
        Thread {
            script: [script.first().copied(), script.get(1).copied()],
            phase: Phase::Start,
            change: Change::new(ALL),
            is_forgotten: false,
            flush: None,
            ask: None,
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

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct LinuxFault {
    answer: Option<[Entry; PAGES]>,
    /// A zap came since it asked.
    void: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    coherence: Coherence,
    leaves: [Leaf; PAGES],
    rights: [Rights; PAGES],
    frames: [Frame; FRAMES],
    tlbs: [[Entry; PAGES]; 2],
    linux: [Entry; PAGES],
    fault: LinuxFault,
    child: [Entry; PAGES],
    child_runs: bool,
    threads: [Thread; 3],
    /// What may still happen.
    linux_writes: u8,
    child_writes: u8,
    failures: u8,
    /// Writes so far; whose they are; what each page has to show.
    writes: u8,
    by_linux: u8,
    by_child: u8,
    must: [u8; PAGES],
    /// All writes to each page.
    to: [u8; PAGES],
    /// What must not be seen of a page again.
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
    fn new(scripts: [&[Op]; 2]) -> State {
        let mut s = State {
            coherence: Coherence::new(),
            leaves: [NO_LEAF; PAGES],
            rights: [Rights::Write; PAGES],
            frames: [Frame::default(); FRAMES],
            tlbs: Default::default(),
            linux: Default::default(),
            fault: LinuxFault::default(),
            child: Default::default(),
            child_runs: false,
            threads: [Thread::new(scripts[0]), Thread::new(scripts[1]), Thread::new(&[])],
            linux_writes: 1,
            child_writes: u8::from(scripts[1] == [Op::Store(0)]),
            failures: 1,
            writes: 0,
            by_linux: 0,
            by_child: 0,
            must: [0; PAGES],
            to: [0; PAGES],
            gone: [0; PAGES],
            child_must: [0; PAGES],
            wrong: None,
        };
        let moves = scripts.iter().any(|s| s.contains(&Op::Move));
        for page in 0..PAGES {
            if moves && page == 1 {
                s.rights[page] = Rights::None;
                continue;
            }
            s.frames[page] = Frame { used: true, refs: 1, ..Frame::default() };
            s.leaves[page] =
                Leaf { frame: page as u8 + 1, write: true, present: true, sight: Sight::Unseen };
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

    fn complain(&mut self, what: &'static str) {
        self.wrong = self.wrong.or(Some(what));
    }

    /// Whether what is written to the page now is anybody's loss: somebody takes it away.
    fn is_going(&self, page: usize) -> bool {
        self.rights[page] == Rights::None
            || self.threads.iter().any(|t| {
                !t.begins() && matches!(t.op(), Some(Op::Discard(p) | Op::Unmap(p)) if p == page)
            })
    }

    fn write(&mut self, page: usize, frame: u8, by_linux: bool) {
        let bit = 1 << self.writes;
        self.writes += 1;
        self.by_linux |= if by_linux { bit } else { 0 };
        self.frame(frame).content |= bit;
        // What is written to a page that is discarded, by a CPU that does not know it yet, may be lost
        // before what another writes there, as on Linux.
        if by_linux || self.leaves[page].frame == frame {
            self.to[page] |= bit;
        }
        if !self.is_going(page) {
            self.must[page] |= bit;
        }
    }

    fn flush(&mut self, cpu: usize, r: Range) {
        for page in pages(r) {
            self.tlbs[cpu][page] = Entry::default();
        }
    }

    /// At the end of a section under the lock of thread `t`.
    fn flush_all(&mut self, t: usize, r: Range) {
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
        let held = self.linux.iter().any(|e| e.frame == frame);
        let f = self.frame(frame);
        if f.marked && (held || !may_ask) && !is(Mutant::FreesUnasked) {
            f.quarantined = true;
        }
        f.used = false;
    }
}

/// As in `kernel/src/mm/populate.rs`.
enum Gained {
    Done,
    Copied(u8),
    Waits { ask: bool },
    NoMemory,
}

/// Steps under the lock.
impl State {
    fn refresh(&mut self, page: usize) {
        self.leaves[page].write = self.rights[page] == Rights::Write;
        self.leaves[page].present = true;
    }

    fn populate(&mut self, page: usize, step: &mut Step) -> bool {
        let Some(frame) = self.alloc(step, 0) else { return false };
        self.leaves[page] = Leaf { frame, write: true, present: true, sight: Sight::Unseen };
        true
    }

    /// `make_writable` and `unshare`.
    fn make_writable(&mut self, t: usize, page: usize, step: &mut Step) -> Gained {
        let leaf = self.leaves[page];
        let shared = self.is_shared(leaf.frame);
        if !shared {
            self.refresh(page);
            return Gained::Done;
        }
        let prepared = self.threads[t].change.prepared(range(page), leaf.present);
        if leaf.present {
            self.leaves[page].present = false;
            self.coherence.disturb(range(page));
        }
        if t < SERVER {
            self.flush(t, range(page));
        }
        let gained = match for_write(leaf.sight, shared, prepared) {
            ForWrite::Prepare { ask } => {
                let flushed = self.coherence.to_flush(range(page), ALL);
                self.flush_all(t, flushed);
                let reserved = step.may_allocate()
                    && self.threads[t].change.reserve(&mut self.coherence, range(page)).is_ok();
                if reserved { Gained::Waits { ask } } else { Gained::NoMemory }
            }
            ForWrite::Allow | ForWrite::Copy => {
                let content = self.frame(leaf.frame).content;
                match self.alloc(step, content) {
                    Some(frame) => {
                        self.leaves[page] =
                            Leaf { frame, write: true, present: true, sight: Sight::Unseen };
                        Gained::Copied(leaf.frame)
                    }
                    None => Gained::NoMemory,
                }
            }
        };
        if matches!(gained, Gained::NoMemory) {
            self.leaves[page].write = false;
            self.leaves[page].present = true;
        }
        gained
    }

    fn resume(&mut self, t: usize) {
        let is_forgotten = self.threads[t].is_forgotten;
        self.threads[t].change.resume(&mut self.coherence, is_forgotten);
    }

    /// `plan` of `fault.rs`.
    fn store_plan(&mut self, t: usize, page: usize, step: &mut Step) {
        self.resume(t);
        if self.rights[page] != Rights::Write {
            return self.end(t, true); // SIGSEGV
        }
        let leaf = self.leaves[page];
        if leaf.frame == 0 {
            return match self.populate(page, step) {
                true => self.threads[t].phase = Phase::Start,
                false => self.end(t, true),
            };
        }
        if leaf.write && leaf.present {
            self.flush(t, range(page));
            self.threads[t].phase = Phase::Start;
            return;
        }
        match self.make_writable(t, page, step) {
            Gained::Done => {
                self.flush(t, range(page));
                self.threads[t].phase = Phase::Start;
            }
            Gained::Copied(old) => {
                self.threads[t].drop_mapping = old;
                self.threads[t].phase = Phase::Start;
            }
            Gained::Waits { ask } => {
                self.threads[t].ask = ask.then_some((range(page), false));
                self.threads[t].is_forgotten = false;
            }
            Gained::NoMemory => self.end(t, true),
        }
    }

    /// `fault` of `linux.rs`.
    fn serve(&mut self, page: usize, write: bool, step: &mut Step) {
        if self.threads[SERVER].change.is_waiting() {
            self.threads[SERVER].is_forgotten = true;
            self.resume(SERVER);
        }
        let rights = self.rights[page];
        if rights == Rights::None || write && rights == Rights::Read {
            self.linux_writes -= u8::from(write);
            return self.served(None);
        }
        if self.coherence.is_reserved(range(page)) {
            return self.served(None);
        }
        if self.leaves[page].frame == 0 && !self.populate(page, step) {
            return self.served(None);
        }
        if write && !self.leaves[page].write {
            match self.make_writable(SERVER, page, step) {
                Gained::Done => {}
                Gained::Copied(old) => self.threads[SERVER].drop_mapping = old,
                Gained::Waits { .. } => return,
                Gained::NoMemory => return self.served(None),
            }
        }
        let mut answer = [Entry::default(); PAGES];
        for at in page..PAGES {
            if self.rights[at] != rights {
                break;
            }
            if self.leaves[at].frame == 0 && !(write && self.populate(at, step)) {
                break;
            }
            let leaf = self.leaves[at];
            if write && at != page && !leaf.write && !self.is_shared(leaf.frame) {
                self.refresh(at);
            }
            let leaf = self.leaves[at];
            if write && !leaf.write || self.coherence.is_reserved(range(at)) {
                break;
            }
            self.leaves[at].sight = leaf.sight.given(leaf.write);
            self.frame(leaf.frame).marked = true;
            answer[at] = Entry { frame: leaf.frame, write: leaf.write };
        }
        self.served((answer[page].frame != 0).then_some(answer));
    }

    fn served(&mut self, answer: Option<[Entry; PAGES]>) {
        self.threads[SERVER].change = Change::new(ALL);
        self.fault.answer = answer;
        if answer.is_none() {
            self.fault = LinuxFault::default();
            self.threads[SERVER].script[0] = None;
        }
    }

    /// `carry_out`: the plan of an operation, its reservation, or its commit.
    fn carry_out(&mut self, t: usize, step: &mut Step) {
        let op = self.threads[t].op().expect("an operation");
        self.resume(t);
        if !self.threads[t].is_forgotten && !is(Mutant::TrustsFailure) {
            return self.end(t, false);
        }
        let change = self.threads[t].change.clone();
        let mut needed: Option<Range> = None;
        let mut count = 0;
        for page in 0..PAGES {
            let leaf = self.leaves[page];
            let sight = change.sight(range(page), leaf.sight);
            let needs = match op {
                Op::Fork => sight == Sight::Write,
                Op::ReadOnly(p) => p == page && sight.exceeds(true, false),
                Op::Discard(p) => p == page && sight.is_seen() && !is(Mutant::DiscardsFirst),
                Op::Move => page == 0 && sight.is_seen() && !is(Mutant::MovesUnasked),
                _ => false,
            };
            if needs && leaf.frame != 0 {
                count += 1;
                let r = range(page);
                needed = Some(needed.map_or(r, |n| (n.0.min(r.0), n.1.max(r.1))));
            }
        }
        if op == Op::Fork && (count <= self.threads[t].copies_max || is(Mutant::ForkSharesWritten))
        {
            needed = None;
        }
        if let Some(needed) = needed {
            if !step.may_allocate() {
                return self.end(t, false);
            }
            let asked = self.threads[t].change.reserve(&mut self.coherence, needed);
            self.threads[t].ask = asked.ok().map(|r| (r, false));
            self.threads[t].is_forgotten = false;
            return;
        }
        match op {
            Op::Fork => self.share_with_child(t, &change, step),
            Op::ReadOnly(page) => {
                let leaf = &mut self.leaves[page];
                leaf.sight = change.sight(range(page), leaf.sight);
                (leaf.write, leaf.present) = (false, leaf.frame != 0);
                self.rights[page] = Rights::Read;
                self.coherence.disturb(range(page));
                self.flush_all(t, range(page));
                self.threads[t].phase = Phase::End;
            }
            Op::Discard(page) | Op::Unmap(page) => {
                let leaf = core::mem::replace(&mut self.leaves[page], NO_LEAF);
                if leaf.frame != 0 {
                    self.unmap_frame(t, leaf.frame);
                }
                self.flush_all(t, range(page));
                if matches!(op, Op::Unmap(_)) || is(Mutant::DiscardsFirst) {
                    self.threads[t].ask = leaf.sight.is_seen().then_some((range(page), false));
                }
                if matches!(op, Op::Unmap(_)) {
                    self.rights[page] = Rights::None;
                }
                self.threads[t].phase = Phase::End;
            }
            Op::Move => {
                if self.rights[0] == Rights::None || !step.may_allocate() {
                    return self.end(t, false);
                }
                self.leaves[1] = Leaf { sight: Sight::Unseen, ..self.leaves[0] };
                self.leaves[0] = NO_LEAF;
                self.rights = [Rights::None, self.rights[0]];
                self.must = [0, self.must[0]];
                self.flush_all(t, range(0));
                self.threads[t].phase = Phase::End;
            }
            Op::Store(_) | Op::Serve(..) => unreachable!(),
        }
    }

    fn share_with_child(&mut self, t: usize, change: &Change, step: &mut Step) {
        self.threads[t].copies = [false; PAGES];
        self.flush_all(t, ALL);
        for page in 0..PAGES {
            let leaf = self.leaves[page];
            if leaf.frame == 0 || self.rights[page] == Rights::None {
                continue;
            }
            if !step.may_allocate() {
                self.drop_child(t);
                return self.end(t, false);
            }
            let sight = change.sight(range(page), leaf.sight);
            let copied = sight == Sight::Write && !is(Mutant::ForkSharesWritten);
            if copied && is(Mutant::ForkCopiesAtOnce) {
                let content = self.frame(leaf.frame).content;
                let Some(frame) = self.alloc(step, content) else {
                    self.drop_child(t);
                    return self.end(t, false);
                };
                self.child[page] = Entry { frame, write: true };
                continue;
            }
            self.threads[t].copies[page] = copied;
            self.child[page].frame = leaf.frame;
            self.frame(leaf.frame).refs += 1;
            (self.leaves[page].write, self.leaves[page].sight) = (false, sight);
        }
        self.coherence.begin_fork();
        self.threads[t].phase = Phase::Finish;
    }

    fn drop_child(&mut self, t: usize) {
        for page in 0..PAGES {
            let entry = core::mem::take(&mut self.child[page]);
            if entry.frame != 0 {
                self.unmap_frame(t, entry.frame);
            }
        }
    }

    fn finish_fork(&mut self, t: usize, step: &mut Step) {
        let copies = self.threads[t].copies;
        let mut has_room = true;
        for page in (0..PAGES).filter(|&p| copies[p]) {
            let old = self.child[page].frame;
            let content = self.frame(old).content;
            has_room &= match self.alloc(step, content) {
                Some(frame) => {
                    self.child[page] = Entry { frame, write: true };
                    self.unmap_frame(t, old);
                    if self.leaves[page].frame == old && !self.is_shared(old) {
                        self.refresh(page);
                    }
                    true
                }
                None => false,
            };
        }
        if has_room || !is(Mutant::LeavesFork) {
            self.coherence.end_fork();
        }
        if has_room {
            self.threads[t].phase = Phase::End;
            return;
        }
        self.drop_child(t);
        let thread = &mut self.threads[t];
        if thread.copies_max == 0 {
            return self.end(t, false);
        }
        thread.copies_max = 0;
        thread.change = Change::new(ALL);
        thread.is_forgotten = true;
        thread.phase = Phase::Plan;
    }

    /// The operation is over, once what it has begun is.
    fn end(&mut self, t: usize, ok: bool) {
        if !ok {
            let (rights, ..) = self.threads[t].begin;
            let mine = |page: usize| match self.threads[t].op() {
                Some(Op::ReadOnly(p) | Op::Discard(p)) => p == page,
                Some(Op::Move) => true,
                _ => false,
            };
            if (0..PAGES).any(|p| mine(p) && self.rights[p] != rights[p]) {
                self.complain("a failed call has changed rights");
            }
            if let Some(Op::Discard(page)) = self.threads[t].op() {
                self.must[page] = self.threads[t].begin.1[page];
            }
        }
        self.threads[t].script = [self.threads[t].script[1], None];
        self.threads[t].phase = Phase::Start;
        self.threads[t].change = Change::new(ALL);
        self.threads[t].is_forgotten = false;
    }

    fn content(&self, frame: u8) -> u8 {
        if frame == 0 { 0 } else { self.frames[usize::from(frame) - 1].content }
    }

    fn finish_op(&mut self, t: usize) {
        let (_, must, writes) = self.threads[t].begin;
        let before = (1u8 << writes) - 1;
        match self.threads[t].op() {
            Some(Op::Fork) => self.check_child(t, &must),
            Some(Op::Discard(page)) => {
                self.gone[page] |= before;
                let during = self.to[page] & !before;
                let kept = self.content(self.leaves[page].frame) & during;
                let from = if kept == 0 { u8::MAX } else { !((1 << kept.trailing_zeros()) - 1) };
                if kept != 0 && kept != during & from {
                    self.complain("a write is lost, and one before it is not");
                }
                self.end(t, true);
                self.must[page] = kept;
                return;
            }
            _ => {}
        }
        self.end(t, true);
    }

    /// The child's view as it begins to run.
    fn check_child(&mut self, t: usize, begin: &[u8; PAGES]) {
        let copies = self.threads[t].copies;
        let has: [u8; PAGES] = core::array::from_fn(|p| self.content(self.child[p].frame));
        for page in 0..PAGES {
            if self.child[page].frame == 0 {
                continue;
            }
            if begin[page] & self.must[page] & !has[page] != 0 {
                self.complain("a child lacks a write from before its fork");
            }
            let missed = self.must[page] & !has[page];
            for other in 0..PAGES {
                // Of what it gets copies of, it has also what Linux writes until then.
                let counts = has[other] & !if copies[other] { self.by_linux } else { 0 };
                if missed != 0 && counts >> missed.trailing_zeros() != 0 {
                    self.complain("a child has a write, and not an earlier one");
                }
            }
        }
        (self.child_must, self.child_runs) = (has, true);
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A thread stores, and its CPU has lost a stale translation by itself.
    Evict(usize),
    /// A thread or the server goes on.
    Go(usize),
    /// Linux cannot be asked.
    AskFails(usize),
    LinuxWrites(usize),
    LinuxReads(usize),
    LinuxInserts,
    ChildWrites(usize),
}

fn actions() -> Vec<Action> {
    let mut all = vec![Action::LinuxInserts];
    for page in 0..PAGES {
        all.extend([Action::LinuxWrites(page), Action::ChildWrites(page)]);
    }
    all.push(Action::LinuxReads(0)); // which brings page 1, too
    for t in 0..3 {
        all.extend([Action::Go(t), Action::AskFails(t)]);
        all.extend((t < SERVER).then_some(Action::Evict(t)));
    }
    all
}

impl State {
    fn linux_is_idle(&self) -> bool {
        let server = &self.threads[SERVER];
        self.fault.answer.is_none()
            && server.op().is_none()
            && server.drop_mapping == 0
            && server.dead == [0; 2]
            && server.flush.is_none()
    }

    /// The page that a thread is about to store to by a stale translation.
    fn stale(&self, t: usize) -> Option<usize> {
        match self.threads[t].op() {
            Some(Op::Store(page)) if self.tlbs[t][page].frame != 0 => Some(page),
            _ => None,
        }
    }

    /// Whether an action may be possible now: a state that it is not need not be copied.
    fn may(&self, action: Action) -> bool {
        match action {
            Action::Evict(t) => self.threads[t].begins() && self.stale(t).is_some(),
            Action::Go(t) => {
                let thread = &self.threads[t];
                thread.op().is_some()
                    || thread.flush.is_some()
                    || thread.drop_mapping != 0
                    || thread.dead != [0; 2]
            }
            Action::AskFails(t) => self.failures > 0 && self.threads[t].ask.is_some(),
            Action::LinuxWrites(_) | Action::LinuxReads(_) => {
                self.linux_writes > 0 && self.linux_is_idle()
            }
            Action::LinuxInserts => self.fault.answer.is_some(),
            Action::ChildWrites(_) => self.child_runs && self.child_writes > 0,
        }
    }

    /// A step was taken by thread `t`, if any. A CPU may have any translation that the table has:
    /// what counts is which it has when that is no longer the table's. So it gets the old one of a page
    /// as the entry changes, to lose it when it likes, and none that is as the table says.
    fn settle_tlbs(&mut self, before: &[Leaf; PAGES], t: Option<usize>) {
        for page in 0..PAGES {
            let (old, new) = (before[page], self.leaves[page]);
            for cpu in 0..2 {
                let entry = &mut self.tlbs[cpu][page];
                let was = Entry { frame: old.frame, write: old.write };
                if old != new && old.present && entry.frame == 0 && t != Some(cpu) {
                    *entry = was;
                }
                if new.present && *entry == (Entry { frame: new.frame, write: new.write }) {
                    *entry = Entry::default();
                }
            }
        }
    }

    /// Takes an action; false: it is not possible now.
    fn take(&mut self, action: Action, step: &mut Step) -> bool {
        match action {
            Action::Evict(t) => {
                let page = self.stale(t).expect("a page");
                self.tlbs[t][page] = Entry::default();
                self.go(t, step)
            }
            Action::Go(t) => self.go(t, step),
            Action::AskFails(t) => {
                let fails = self.failures > 0
                    && self.threads[t].flush.is_none()
                    && self.threads[t].ask.is_some();
                if fails {
                    self.failures -= 1;
                    self.threads[t].ask = None;
                    self.threads[t].is_forgotten = false;
                    // The thread ends, and its process: it does not fault for ever.
                    if matches!(self.threads[t].op(), Some(Op::Store(_))) {
                        self.resume(t);
                        self.end(t, true);
                    }
                }
                fails
            }
            Action::LinuxWrites(page) => {
                if self.linux_writes == 0 || !self.linux_is_idle() {
                    return false;
                }
                let entry = self.linux[page];
                if entry.write {
                    self.linux_writes -= 1;
                    self.write(page, entry.frame, true);
                } else {
                    self.linux[page] = Entry::default(); // page_mkwrite
                    self.ask_for(page, true);
                }
                true
            }
            Action::LinuxReads(page) => {
                let asks = self.linux_is_idle()
                    && self.linux[page].frame == 0
                    && self.rights[page] != Rights::None
                    && self.linux_writes > 0; // a read alone leads to no write
                if asks {
                    self.ask_for(page, false);
                }
                asks
            }
            Action::LinuxInserts => {
                let Some(answer) = self.fault.answer else { return false };
                let Some(Op::Serve(page, write)) = self.threads[SERVER].op() else { return false };
                if self.fault.void {
                    self.threads[SERVER].script[0] = None;
                    self.ask_for(page, write);
                    return true;
                }
                for (at, entry) in answer.into_iter().enumerate() {
                    let replaces = write && entry.write && at == page;
                    if entry.frame != 0 && (self.linux[at].frame == 0 || replaces) {
                        self.linux[at] = entry;
                    }
                }
                self.threads[SERVER].script[0] = None;
                self.fault = LinuxFault::default();
                true
            }
            Action::ChildWrites(page) => {
                let entry = self.child[page];
                if !self.child_runs || self.child_writes == 0 || entry.frame == 0 {
                    return false;
                }
                let bit = 1 << self.writes;
                if self.is_shared(entry.frame) {
                    let content = self.frame(entry.frame).content;
                    let Some(frame) = self.alloc(step, content) else { return true };
                    self.frame(entry.frame).refs -= 1;
                    self.child[page].frame = frame;
                }
                self.child_writes -= 1;
                self.writes += 1;
                self.by_child |= bit;
                let frame = self.child[page].frame;
                self.frame(frame).content |= bit;
                self.child_must[page] |= bit;
                true
            }
        }
    }

    fn ask_for(&mut self, page: usize, write: bool) {
        self.fault = LinuxFault::default();
        let server = &mut self.threads[SERVER];
        server.script = [Some(Op::Serve(page, write)), None];
        server.phase = Phase::Plan;
        // The module has removed what it had mapped there before it asked.
        server.change = Change::of_forgotten(range(page));
    }

    fn go(&mut self, t: usize, step: &mut Step) -> bool {
        let thread = &self.threads[t];
        if is(Mutant::FreesUnflushed) && thread.dead != [0; 2] {
            return self.drop_frames(t);
        }
        if let Some((r, cpu)) = thread.flush {
            self.flush(cpu, r);
            let next = (cpu + 1..2).find(|&next| next != t);
            self.threads[t].flush = next.map(|next| (r, next));
            return true;
        }
        if let Some((r, is_void)) = thread.ask {
            if !is_void {
                self.fault.void = true;
                self.threads[t].ask = Some((r, true));
            } else {
                for page in pages(r) {
                    self.linux[page] = Entry::default();
                }
                self.threads[t].ask = None;
                self.threads[t].is_forgotten = true;
            }
            return true;
        }
        if thread.drop_mapping != 0 || thread.dead != [0; 2] {
            return self.drop_frames(t);
        }
        let Some(op) = thread.op() else { return false };
        match (thread.phase, op) {
            (Phase::Start, Op::Store(page)) => self.store(t, page),
            (Phase::Start, _) => {
                let begin = (self.rights, self.must, self.writes);
                let thread = &mut self.threads[t];
                (thread.begin, thread.phase, thread.is_forgotten) = (begin, Phase::Plan, true);
                thread.copies_max = COPIES_MAX;
                if let Op::Discard(page) | Op::Unmap(page) = op {
                    self.must[page] = 0;
                }
            }
            (Phase::Plan, Op::Store(page)) => self.store_plan(t, page, step),
            (Phase::Plan, Op::Serve(page, write)) if self.fault.answer.is_none() => {
                self.serve(page, write, step);
            }
            (_, Op::Serve(..)) => return false,
            (Phase::Plan, _) => self.carry_out(t, step),
            (Phase::Finish, _) => self.finish_fork(t, step),
            (Phase::End, _) => self.finish_op(t),
        }
        true
    }

    fn drop_frames(&mut self, t: usize) -> bool {
        let thread = &mut self.threads[t];
        let old = core::mem::take(&mut thread.drop_mapping);
        let dead = core::mem::take(&mut thread.dead);
        // The server cannot ask, nor does who drops a child.
        let was_refused = matches!(thread.op(), Some(Op::Unmap(_))) && !thread.is_forgotten;
        let asks = matches!(thread.op(), Some(Op::Store(_) | Op::Discard(_) | Op::Unmap(_)));
        let may_ask = t != SERVER && asks && !was_refused;
        if old != 0 {
            self.unmap_frame(t, old);
        }
        for frame in dead.into_iter().filter(|&f| f != 0) {
            self.free(frame, may_ask);
        }
        true
    }

    /// A store of a thread, by the TLB of its CPU or by the table.
    fn store(&mut self, t: usize, page: usize) {
        let leaf = self.leaves[page];
        let cached = self.tlbs[t][page];
        let entry = match cached.frame {
            0 if leaf.present => Entry { frame: leaf.frame, write: leaf.write },
            _ => cached,
        };
        if entry.write {
            self.write(page, entry.frame, false);
            self.end(t, true);
        } else {
            self.threads[t].change = Change::new(range(page));
            self.threads[t].is_forgotten = false;
            self.threads[t].phase = Phase::Plan;
        }
    }

    fn is_quiet(&self) -> bool {
        let at_rest = |t: &Thread| {
            t.op().is_none() && t.flush.is_none() && t.drop_mapping == 0 && t.dead == [0; 2]
        };
        self.threads.iter().all(at_rest) && self.fault.answer.is_none()
    }

    /// What has to hold after each step.
    fn check(&self) -> Option<&'static str> {
        if self.wrong.is_some() {
            return self.wrong;
        }
        for page in 0..PAGES {
            let leaf = self.leaves[page];
            let [a, b] = [self.tlbs[0][page], self.tlbs[1][page]];
            let views = [leaf.frame, a.frame, b.frame];
            let written = [a, b].map(|e| if e.write { e.frame } else { 0 });
            let kept = written.into_iter().chain([leaf.frame, self.child[page].frame]);
            for frame in kept.filter(|&f| f != 0) {
                if !self.frames[usize::from(frame) - 1].used {
                    return Some("a frame is free that a table has, or a TLB for writing");
                }
            }
            let linux = self.linux[page].frame;
            let held = linux != 0 && self.frames[usize::from(linux) - 1].quarantined;
            if linux != 0 && !held && !self.frames[usize::from(linux) - 1].used {
                return Some("a frame is free that Linux has");
            }
            let must = self.must[page];
            if must != 0 && leaf.frame == 0 {
                return Some("a write is lost");
            }
            for frame in views.into_iter().chain([linux]).filter(|&f| f != 0) {
                let content = self.content(frame);
                if must & !content != 0 {
                    return Some("a view of a page lacks a write to it");
                }
                // Of what it is giving up it may read until that is done.
                if content & self.by_child != 0 && !self.is_going(page) {
                    return Some("a parent has a write of its child");
                }
                if content & self.gone[page] != 0 {
                    return Some("a discarded write is seen");
                }
            }
            if self.child_runs && self.content(self.child[page].frame) != self.child_must[page] {
                return Some("a child has a write that is not its own, or lost one");
            }
            let gives_up = |t: &Thread| {
                !t.begins() && (t.op() == Some(Op::Move) || t.op() == Some(Op::Unmap(page)))
            };
            // Where Linux could not be asked munmap cannot be undone.
            if self.rights[page] == Rights::None
                && self.failures > 0
                && (a.frame != 0 || b.frame != 0 || linux != 0 && !held)
                && !self.threads.iter().any(gives_up)
            {
                return Some("what is mapped no more can be reached");
            }
            let settles = |t: &Thread| !t.begins() && t.op() == Some(Op::ReadOnly(page));
            if self.rights[page] == Rights::Read && !self.threads.iter().any(settles) {
                if leaf.write || a.write || b.write || self.linux[page].write {
                    return Some("a read-only page can be written");
                }
            }
        }
        if self.is_quiet() {
            if self.coherence != Coherence::new() {
                return Some("something stays reserved");
            }
            for (at, frame) in self.frames.iter().enumerate() {
                let number = at as u8 + 1;
                let refs = self.leaves.iter().filter(|l| l.frame == number).count()
                    + self.child.iter().filter(|e| e.frame == number).count();
                if usize::from(frame.refs) != refs || frame.used != (refs > 0) {
                    return Some("a frame is lost, or counted wrongly");
                }
            }
        }
        None
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
fn explore(scripts: [&[Op]; 2]) -> Result<usize, String> {
    let all = actions();
    let start = State::new(scripts);
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
    [&[Op::Move], &[Op::Store(0), Op::Store(1)]],
    [&[Op::Unmap(0)], &[Op::Store(0)]],
    [&[Op::Fork], &[Op::Store(0)]],
    [&[Op::Fork], &[Op::Unmap(0)]],
    [&[Op::Fork], &[Op::Move]],
    [&[Op::Fork], &[Op::ReadOnly(0)]],
    [&[Op::Fork], &[Op::Store(1)]],
];

#[test]
fn no_write_is_lost_and_no_frame_freed_in_use() {
    let mut states = 0;
    for &scripts in SCRIPTS {
        match explore(scripts) {
            Ok(count) => {
                println!("{count:8} states of {scripts:?}");
                states += count;
            }
            Err(wrong) => panic!("{wrong}"),
        }
    }
    println!("coherence: {states} states");
}

/// Each wrong step is found, by what it breaks.
#[test]
fn wrong_steps_are_found() {
    for &(mutant, script, breaks) in MUTANTS {
        MUTANT.set(mutant);
        let found = explore(SCRIPTS[script]).expect_err("a wrong state");
        MUTANT.set(Mutant::None);
        assert!(found.starts_with(breaks), "{mutant:?}: {found}");
    }
}

/// Wrong steps, the script that shows each, and what is found.
const MUTANTS: &[(Mutant, usize, &str)] = &[
    (Mutant::GivesReserved, 1, "a read-only page can be written"),
    (Mutant::CopiesUnasked, 5, "a view of a page lacks a write"),
    (Mutant::CopiesUnflushed, 5, "a view of a page lacks a write"),
    (Mutant::CopiesBeforeForkIsFlushed, 9, "a child has a write, and not an earlier one"),
    (Mutant::TrustsDisturbed, 9, "a child has a write, and not an earlier one"),
    (Mutant::TrustsFailure, 1, "a read-only page can be written"),
    (Mutant::ForgetsThatLinuxWrites, 1, "a read-only page can be written"),
    (Mutant::ForkSharesWritten, 5, "a child has a write that is not its own"),
    (Mutant::ForkCopiesAtOnce, 5, "a child has a write, and not an earlier one"),
    (Mutant::MovesUnasked, 3, "what is mapped no more can be reached"),
    (Mutant::DiscardsFirst, 2, "a frame is free that Linux has"),
    (Mutant::FreesUnasked, 4, "a frame is free that Linux has"),
    (Mutant::FreesUnflushed, 2, "a frame is free that a table has"),
    (Mutant::LeavesFork, 5, "something stays reserved"),
];
