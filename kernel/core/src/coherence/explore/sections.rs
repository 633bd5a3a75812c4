//! Sections of the kernel under the lock of an address space, a step each.

use super::*;

/// As in `kernel/src/mm/map/populate.rs`.
pub(super) enum Gained {
    Done,
    Copied(u8),
    Waits { ask: bool },
    Forks,
    NoMemory,
}

/// Steps under the lock.
impl State {
    pub(super) fn refresh(&mut self, page: usize) {
        self.leaves[page].write = self.rights[page] == Rights::Write;
        self.leaves[page].present = true;
    }

    pub(super) fn populate(&mut self, page: usize, step: &mut Step) -> bool {
        let Some(frame) = self.alloc(step, 0) else { return false };
        self.leaves[page] = Leaf { frame, write: true, present: true, ..NO_LEAF };
        true
    }

    /// `make_writable` and `unshare`.
    pub(super) fn make_writable(&mut self, t: usize, page: usize, step: &mut Step) -> Gained {
        let leaf = self.leaves[page];
        let shared = self.is_shared(leaf.frame);
        if !shared {
            self.refresh(page);
            return Gained::Done;
        }
        let prepared = self.threads[t].change.prepared(range(page), leaf.present);
        let needed = for_write(leaf.sight, shared, leaf.lent, prepared);
        if needed == ForWrite::Wait {
            return Gained::Forks;
        }
        if leaf.present {
            self.leaves[page].present = false;
            self.coherence.disturb(range(page));
        }
        if t < SERVER {
            self.flush(t, range(page));
        }
        let gained = match needed {
            ForWrite::Prepare { ask } => {
                let flushed = self.coherence.to_flush(range(page), ALL);
                self.flush_all(t, flushed);
                let reserved = step.may_allocate()
                    && self.threads[t].change.reserve(&mut self.coherence, range(page)).is_ok();
                if reserved { Gained::Waits { ask } } else { Gained::NoMemory }
            }
            ForWrite::Allow | ForWrite::Copy | ForWrite::Wait => {
                let content = self.frame(leaf.frame).content;
                match self.alloc(step, content) {
                    Some(frame) => {
                        self.leaves[page] = Leaf { frame, write: true, present: true, ..NO_LEAF };
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

    pub(super) fn resume(&mut self, t: usize) {
        let is_forgotten = self.threads[t].is_forgotten;
        self.threads[t].change.resume(&mut self.coherence, is_forgotten);
    }

    /// `plan` of `fault.rs`.
    pub(super) fn store_plan(&mut self, t: usize, page: usize, step: &mut Step) {
        self.resume(t);
        if self.holds_accesses(page) {
            return;
        }
        if self.rights[page] != Rights::Write || self.lost[page] {
            if self.is_replaced(page) {
                self.complain("a signal at what is mapped all the time");
            }
            return self.end(t, true); // SIGSEGV, SIGBUS
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
                self.threads[t].ask = ask.then_some((range(page), Asked::Begun));
                self.threads[t].is_forgotten = false;
            }
            Gained::Forks => {}
            Gained::NoMemory => self.end(t, true),
        }
    }

    fn holds_accesses(&self, page: usize) -> bool {
        self.kept[page].is_some_and(|(what, _)| what.holds_accesses())
    }

    /// Whether a thread replaces what is mapped there, and nothing has failed.
    fn is_replaced(&self, page: usize) -> bool {
        let replaces = |t: &Thread| t.op() == Some(Op::Replace(page)) && !t.begins();
        self.failures > 0 && self.threads.iter().any(replaces)
    }

    /// `fault` of `linux.rs`.
    pub(super) fn serve(&mut self, page: usize, write: bool, step: &mut Step) {
        if self.threads[SERVER].change.is_waiting() {
            self.threads[SERVER].is_forgotten = true;
            self.resume(SERVER);
        }
        if self.holds_accesses(page) {
            return self.served(None); // it faults again
        }
        let rights = self.rights[page];
        if rights == Rights::None || write && rights == Rights::Read || self.lost[page] {
            if self.is_replaced(page) {
                self.complain("a signal at what is mapped all the time");
            }
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
                Gained::Forks | Gained::NoMemory => return self.served(None),
            }
        }
        let mut answer = [Entry::default(); PAGES];
        for (at, entry) in answer.iter_mut().enumerate().skip(page) {
            if self.rights[at] != rights || self.lost[at] {
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
            self.leaves[at].lent |= leaf.write;
            self.frame(leaf.frame).marked = true;
            *entry = Entry { frame: leaf.frame, write: leaf.write };
        }
        self.served((answer[page].frame != 0).then_some(answer));
    }

    pub(super) fn served(&mut self, answer: Option<[Entry; PAGES]>) {
        self.threads[SERVER].change = Change::new(ALL);
        self.fault.answer = answer;
        if answer.is_none() {
            self.fault = LinuxFault::default();
            self.threads[SERVER].script[0] = None;
        }
    }

    /// `carry_out`: the plan of an operation, its reservation, or its commit.
    pub(super) fn carry_out(&mut self, t: usize, step: &mut Step) {
        let op = self.threads[t].op().expect("an operation");
        self.resume(t);
        if !self.threads[t].is_forgotten && !is(Mutant::TrustsFailure) {
            return self.end(t, false);
        }
        if let Op::Unmap(page) | Op::Replace(page) = op {
            return self.unmap(t, page);
        }
        // `must_wait`.
        let changes = |page: usize| match op {
            Op::ReadOnly(p) | Op::Writable(p) | Op::Discard(p) => p == page,
            Op::Fork => true,
            Op::Move(from) => page == from,
            _ => false,
        };
        let waits = |page: usize| self.kept[page].is_some_and(|(what, _)| what.keeps_waiting());
        if (0..PAGES).any(|page| changes(page) && waits(page)) {
            return;
        }
        let change = self.threads[t].change.clone();
        let let_go = core::mem::take(&mut self.threads[t].let_go);
        let mut needed: Option<PageRange> = None;
        let mut count = 0;
        if let Op::Discard(page) = op
            && self.hide_shared(t, page)
        {
            needed = Some(range(page));
        }
        for page in 0..PAGES {
            let leaf = self.leaves[page];
            let sight = change.sight(range(page), leaf.sight);
            let needs = match op {
                Op::Fork => leaf.lent && !change.has_forgotten(range(page)),
                Op::ReadOnly(p) => p == page && sight.exceeds(true, false),
                Op::Discard(p) => p == page && sight.is_seen() && !is(Mutant::DiscardsFirst),
                Op::Move(from) => page == from && sight.is_seen() && !is(Mutant::MovesUnasked),
                _ => false,
            };
            if needs && leaf.frame != 0 {
                count += 1;
                let r = range(page);
                needed = Some(needed.map_or(r, |n| n.join(r)));
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
            self.threads[t].ask = asked.ok().map(|r| (r, Asked::Begun));
            self.threads[t].is_forgotten = false;
            if op == Op::Fork {
                self.threads[t].let_go = self.leaves.map(|l| if l.lent { l.frame } else { 0 });
            }
            return;
        }
        match op {
            Op::Fork => self.share_with_child(t, &change, let_go, step),
            Op::Writable(page) => {
                let leaf = self.leaves[page];
                self.leaves[page].write = leaf.frame != 0 && !self.is_shared(leaf.frame);
                self.rights[page] = Rights::Write;
                self.threads[t].phase = Phase::End;
            }
            Op::ReadOnly(page) => {
                let leaf = &mut self.leaves[page];
                leaf.sight = change.sight(range(page), leaf.sight);
                leaf.lent &= !is(Mutant::ForgetsLent) || leaf.sight == Sight::Write;
                (leaf.write, leaf.present) = (false, leaf.frame != 0);
                self.rights[page] = Rights::Read;
                self.coherence.disturb(range(page));
                self.flush_all(t, range(page));
                self.threads[t].phase = Phase::End;
            }
            Op::Discard(page) => {
                let leaf = core::mem::replace(&mut self.leaves[page], NO_LEAF);
                if leaf.frame != 0 {
                    self.unmap_frame(t, leaf.frame);
                }
                self.flush_all(t, range(page));
                if is(Mutant::DiscardsFirst) {
                    self.threads[t].ask =
                        leaf.sight.is_seen().then_some((range(page), Asked::Begun));
                }
                self.threads[t].phase = Phase::End;
            }
            Op::Lose(page) => {
                let leaf = self.leaves[page];
                if leaf.frame != 0 {
                    self.lose(t, page);
                }
                self.threads[t].phase = Phase::End;
            }
            Op::Move(from) => {
                let to = 1 - from;
                if self.rights[from] == Rights::None || !step.may_allocate() {
                    return self.end(t, false);
                }
                // `place_leaves`.
                self.coherence.arrive(range(to));
                self.leaves[to] = Leaf { sight: Sight::Unseen, ..self.leaves[from] };
                self.leaves[to].lent &= !is(Mutant::ForgetsLent);
                self.leaves[from] = NO_LEAF;
                self.pin = self.pin.map(|(_, frame)| (to, frame));
                self.rights.swap(from, to);
                self.must.swap(from, to);
                self.flush_all(t, range(from));
                self.threads[t].phase = Phase::End;
            }
            Op::Store(_) | Op::Serve(..) | Op::Unmap(_) | Op::Map(_) | Op::Replace(_) => {
                unreachable!()
            }
        }
    }

    /// `unmap_piece` of `unmap.rs`.
    fn unmap(&mut self, t: usize, page: usize) {
        let there = self.kept[page].map(|(what, _)| what);
        if must_wait_to_keep(there.into_iter(), None.into_iter()) {
            return;
        }
        let kept = there.map(Kept::to_unmap);
        let was_mapped = self.rights[page] != Rights::None;
        let leaf = self.leaves[page];
        self.lost[page] = false;
        self.rights[page] = Rights::None;
        self.must[page] = 0;
        let is_hidden = self.hide_shared(t, page);
        if !is_hidden {
            self.leaves[page] = NO_LEAF;
            if leaf != NO_LEAF {
                self.flush_all(t, range(page));
            }
            if leaf.frame != 0 {
                self.unmap_frame(t, leaf.frame);
            }
        }
        let asks = leaf.sight.is_seen() || kept == Some(Unmapping::Ask);
        self.kept[page] = match self.threads[t].op() {
            Some(Op::Replace(_)) => Some((Kept::for_mapping(was_mapped), t)),
            _ => (asks || is_hidden).then_some((Kept::Busy, t)),
        };
        let asks_later = is_hidden && is(Mutant::GivesUpUnasked);
        self.threads[t].ask = (asks && !asks_later).then_some((range(page), Asked::Begun));
        self.threads[t].phase = if is_hidden { Phase::Finish } else { Phase::End };
    }

    /// `finish` of `unmap.rs`.
    pub(super) fn give_up_hidden(&mut self, t: usize, page: usize) {
        let leaf = core::mem::replace(&mut self.leaves[page], NO_LEAF);
        if leaf.frame != 0 {
            self.unmap_frame(t, leaf.frame);
        }
        if is(Mutant::GivesUpUnasked) {
            self.threads[t].ask = leaf.sight.is_seen().then_some((range(page), Asked::Begun));
        }
        self.threads[t].phase = Phase::End;
    }

    /// Whether a page that is to be given up may not be yet. `hide_shared` and `unmap_pages` of
    /// `address_space.rs`.
    fn hide_shared(&mut self, t: usize, page: usize) -> bool {
        let leaf = self.leaves[page];
        let mut prepared = self.threads[t].change.prepared(range(page), leaf.present);
        prepared.is_flushed |= self.is_alone;
        if leaf.frame == 0 || !self.is_shared(leaf.frame) || may_give_up(leaf.sight, prepared) {
            return false;
        }
        self.leaves[page].present = false;
        self.coherence.disturb(range(page));
        self.flush_all(t, range(page));
        true
    }

    /// A mapping of nothing, where nothing is.
    pub(super) fn map(&mut self, t: usize, page: usize) {
        if self.rights[page] == Rights::None && self.kept[page].is_none() {
            self.rights[page] = Rights::Write;
            self.gone[page] |= (1u8 << self.writes) - 1;
        }
        self.end(t, true);
    }

    /// `forget` of `bad.rs`.
    fn lose(&mut self, t: usize, page: usize) {
        let leaf = self.leaves[page];
        let sight = if is(Mutant::ForgetsBad) { Sight::Unseen } else { leaf.sight };
        self.leaves[page] = Leaf { sight, ..NO_LEAF };
        (self.lost[page], self.must[page]) = (true, 0);
        let frame = self.frame(leaf.frame);
        frame.refs -= 1;
        frame.bad = true;
        self.flush_all(t, range(page));
        self.threads[t].ask = leaf.sight.is_seen().then_some((range(page), Asked::Begun));
    }

    fn share_with_child(
        &mut self,
        t: usize,
        change: &Change,
        let_go: [u8; PAGES],
        step: &mut Step,
    ) {
        self.threads[t].copies = [false; PAGES];
        self.flush_all(t, ALL);
        for page in 0..PAGES {
            let leaf = self.leaves[page];
            if self.rights[page] == Rights::None && self.is_replaced(page) {
                self.complain("a child lacks what is mapped all the time");
            }
            if leaf.frame == 0 || self.rights[page] == Rights::None {
                continue;
            }
            if !step.may_allocate() {
                self.drop_child(t);
                return self.end(t, false);
            }
            let sight = change.sight(range(page), leaf.sight);
            let is_let_go = let_go.contains(&leaf.frame);
            let shares = change.may_share(range(page), leaf.lent, is_let_go);
            let copied = !shares && !is(Mutant::ForkSharesWritten);
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
            self.leaves[page].lent &= !shares;
        }
        self.coherence.begin_fork();
        self.threads[t].phase = Phase::Finish;
    }

    pub(super) fn drop_child(&mut self, t: usize) {
        for page in 0..PAGES {
            let entry = core::mem::take(&mut self.child[page]);
            if entry.frame != 0 {
                self.unmap_frame(t, entry.frame);
            }
        }
    }

    pub(super) fn finish_fork(&mut self, t: usize, step: &mut Step) {
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
        (thread.copies_max, thread.let_go) = (0, [0; PAGES]);
        thread.change = Change::new(ALL);
        thread.is_forgotten = true;
        thread.phase = Phase::Plan;
    }

    /// The operation is over, once what it has begun is.
    pub(super) fn end(&mut self, t: usize, ok: bool) {
        if !ok {
            let (rights, ..) = self.threads[t].begin;
            let mine = |page: usize| match self.threads[t].op() {
                Some(Op::ReadOnly(p) | Op::Discard(p)) => p == page,
                Some(Op::Move(_)) => true,
                _ => false,
            };
            if (0..PAGES).any(|p| mine(p) && self.rights[p] != rights[p]) {
                self.complain("a failed call has changed rights");
            }
            if let Some(Op::Discard(page)) = self.threads[t].op() {
                self.must[page] = self.threads[t].begin.1[page];
            }
        }
        let [_, second, third] = self.threads[t].script;
        self.threads[t].script = [second, third, None];
        self.threads[t].phase = Phase::Start;
        self.threads[t].change = Change::new(ALL);
        self.threads[t].let_go = [0; PAGES];
        self.threads[t].is_forgotten = false;
    }

    pub(super) fn content(&self, frame: u8) -> u8 {
        if frame == 0 { 0 } else { self.frames[usize::from(frame) - 1].content }
    }

    pub(super) fn finish_op(&mut self, t: usize) {
        let (_, must, writes) = self.threads[t].begin;
        let before = (1u8 << writes) - 1;
        match self.threads[t].op() {
            Some(Op::Unmap(page)) if self.kept[page] == Some((Kept::Busy, t)) => {
                let is_forgotten = self.threads[t].is_forgotten;
                self.kept[page] = Kept::after_asking(is_forgotten).map(|what| (what, t));
            }
            Some(Op::Replace(page)) if matches!(self.kept[page], Some((_, by)) if by == t) => {
                if self.threads[t].is_forgotten {
                    // `fill_reserved`.
                    (self.kept[page], self.rights[page]) = (None, Rights::Write);
                    self.gone[page] |= (1u8 << self.writes) - 1;
                } else {
                    self.kept[page] = Kept::after_asking(false).map(|what| (what, t));
                }
            }
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
    pub(super) fn check_child(&mut self, t: usize, begin: &[u8; PAGES]) {
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
