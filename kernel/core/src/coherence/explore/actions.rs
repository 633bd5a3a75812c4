//! Actions: threads, CPUs, Linux and the child go on; and the properties that hold after each.

use super::*;

/// An action that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A thread stores, and its CPU has lost a stale translation by itself.
    Evict(usize),
    /// A thread or the server goes on.
    Go(usize),
    /// Linux cannot be asked.
    AskFails(usize),
    LinuxWrites(usize),
    LinuxReads(usize),
    LinuxInserts,
    /// Linux pins a page for writing.
    Pins(usize),
    /// Linux writes to the frame that it has pinned, and lets go of it.
    WritesPinned,
    ChildWrites(usize),
}

pub(super) fn actions() -> Vec<Action> {
    let mut all = vec![Action::LinuxInserts, Action::WritesPinned];
    for page in 0..PAGES {
        all.extend([Action::LinuxWrites(page), Action::Pins(page), Action::ChildWrites(page)]);
    }
    all.push(Action::LinuxReads(0)); // which brings page 1, too
    for t in 0..3 {
        all.extend([Action::Go(t), Action::AskFails(t)]);
        all.extend((t < SERVER).then_some(Action::Evict(t)));
    }
    all
}

impl State {
    pub(super) fn linux_is_idle(&self) -> bool {
        let server = &self.threads[SERVER];
        self.fault.answer.is_none()
            && server.op().is_none()
            && server.drop_mapping == 0
            && server.dead == [0; 2]
            && server.flush.is_none()
    }

    /// The page that a thread is about to store to by a stale translation.
    pub(super) fn stale(&self, t: usize) -> Option<usize> {
        match self.threads[t].op() {
            Some(Op::Store(page)) if self.tlbs[t][page].frame != 0 => Some(page),
            _ => None,
        }
    }

    /// Whether an action may be possible now: a state that it is not need not be copied.
    pub(super) fn may(&self, action: Action) -> bool {
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
            Action::Pins(page) => self.pins > 0 && self.linux[page].write,
            Action::WritesPinned => self.pin.is_some(),
            Action::ChildWrites(_) => self.child_runs && self.child_writes > 0,
        }
    }

    /// A step was taken by thread `t`, if any. A CPU may have any translation that the table has:
    /// what counts is which it has when that is no longer the table's. So it gets the old one of a
    /// page as the entry changes, to lose it when it likes, and none that is as the table says.
    pub(super) fn settle_tlbs(&mut self, before: &[Leaf; PAGES], t: Option<usize>) {
        for (page, &old) in before.iter().enumerate() {
            let new = self.leaves[page];
            for cpu in 0..if self.is_alone { 1 } else { 2 } {
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
    pub(super) fn take(&mut self, action: Action, step: &mut Step) -> bool {
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
            Action::Pins(page) => {
                self.pins -= 1;
                self.pin = Some((page, self.linux[page].frame));
                true
            }
            Action::WritesPinned => {
                let Some((page, frame)) = self.pin.take() else { return false };
                self.write(page, frame, true);
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

    pub(super) fn ask_for(&mut self, page: usize, write: bool) {
        self.fault = LinuxFault::default();
        let server = &mut self.threads[SERVER];
        server.script = [Some(Op::Serve(page, write)), None, None];
        server.phase = Phase::Plan;
        // The module has removed what it had mapped there before it asked.
        server.change = Change::of_forgotten(range(page));
    }

    pub(super) fn go(&mut self, t: usize, step: &mut Step) -> bool {
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
        if let Some((r, asked)) = thread.ask {
            let looks = thread.op() == Some(Op::Fork);
            let look_first = is(Mutant::LooksBeforeZap);
            let next = match asked {
                Asked::Begun => {
                    self.fault.void = true;
                    if look_first {
                        self.look_for_holders(t);
                    }
                    Some(Asked::Void)
                }
                Asked::Void => {
                    for page in pages(r) {
                        self.linux[page] = Entry::default();
                    }
                    (looks && !look_first).then_some(Asked::Zapped)
                }
                Asked::Zapped => {
                    self.look_for_holders(t);
                    None
                }
            };
            self.threads[t].ask = next.map(|asked| (r, asked));
            self.threads[t].is_forgotten |= next.is_none();
            return true;
        }
        if thread.drop_mapping != 0 || thread.dead != [0; 2] {
            return self.drop_frames(t);
        }
        let Some(op) = thread.op() else { return false };
        let phase = thread.phase;
        if t < SERVER && matches!(phase, Phase::Plan | Phase::Finish) {
            self.serve_flushes(t);
        }
        match (phase, op) {
            (Phase::Start, Op::Store(page)) => self.store(t, page),
            (Phase::Start, _) => {
                let (begin, copies_max) = ((self.rights, self.must, self.writes), self.copies_max);
                let thread = &mut self.threads[t];
                (thread.begin, thread.phase, thread.is_forgotten) = (begin, Phase::Plan, true);
                thread.copies_max = copies_max;
                if let Op::Discard(page) | Op::Unmap(page) | Op::Lose(page) | Op::Replace(page) = op
                {
                    self.must[page] = 0;
                }
            }
            (Phase::Plan, Op::Store(page)) => self.store_plan(t, page, step),
            (Phase::Plan, Op::Serve(page, write)) if self.fault.answer.is_none() => {
                self.serve(page, write, step);
            }
            (_, Op::Serve(..)) => return false,
            (Phase::Plan, Op::Map(page)) => self.map(t, page),
            (Phase::Plan, _) => self.carry_out(t, step),
            (Phase::Finish, Op::Unmap(page) | Op::Replace(page)) => self.give_up_hidden(t, page),
            (Phase::Finish, _) => self.finish_fork(t, step),
            (Phase::End, _) => self.finish_op(t),
        }
        true
    }

    /// Keeps in `let_go` the frames that Linux does not hold, of those about which it is asked.
    fn look_for_holders(&mut self, t: usize) {
        let asked = self.threads[t].let_go;
        self.threads[t].let_go = asked.map(|frame| if self.is_pinned(frame) { 0 } else { frame });
    }

    /// The CPU of `t` has got the lock: it drops what others were about to ask it to drop.
    fn serve_flushes(&mut self, t: usize) {
        for other in (0..3).filter(|&other| other != t && !is(Mutant::AsksCpusUnlocked)) {
            if let Some((r, next)) = self.threads[other].flush
                && next <= t
            {
                self.flush(t, r);
            }
        }
    }

    pub(super) fn drop_frames(&mut self, t: usize) -> bool {
        let thread = &mut self.threads[t];
        let old = core::mem::take(&mut thread.drop_mapping);
        let dead = core::mem::take(&mut thread.dead);
        // The server cannot ask, nor does a thread that drops a child.
        let unmaps = matches!(thread.op(), Some(Op::Unmap(_) | Op::Replace(_)));
        let was_refused = unmaps && !thread.is_forgotten;
        let asks = unmaps || matches!(thread.op(), Some(Op::Store(_) | Op::Discard(_)));
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
    pub(super) fn store(&mut self, t: usize, page: usize) {
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

    pub(super) fn is_quiet(&self) -> bool {
        let at_rest = |t: &Thread| {
            t.op().is_none() && t.flush.is_none() && t.drop_mapping == 0 && t.dead == [0; 2]
        };
        self.threads.iter().all(at_rest) && self.fault.answer.is_none()
    }

    /// The property that does not hold after a step, if there is one.
    pub(super) fn check(&self) -> Option<&'static str> {
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
                // Where Linux could not be asked munmap cannot be undone.
                let is_unforgotten =
                    frame == linux && self.rights[page] == Rights::None && self.failures == 0;
                if content & self.by_child != 0 && !is_unforgotten {
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
                let op = t.op();
                !t.begins()
                    && (matches!(op, Some(Op::Move(_)))
                        || op == Some(Op::Unmap(page))
                        || op == Some(Op::Replace(page)))
            };
            if self.kept[page].is_some() && self.rights[page] != Rights::None {
                return Some("something is mapped at addresses that are kept");
            }
            // Where Linux could not be asked munmap cannot be undone.
            if self.rights[page] == Rights::None
                && self.failures > 0
                && (a.frame != 0 || b.frame != 0 || linux != 0 && !held)
                && !self.threads.iter().any(gives_up)
            {
                return Some("what is mapped no more can be reached");
            }
            let settles = |t: &Thread| !t.begins() && t.op() == Some(Op::ReadOnly(page));
            if self.rights[page] == Rights::Read
                && !self.threads.iter().any(settles)
                && (leaf.write || a.write || b.write || self.linux[page].write)
            {
                return Some("a read-only page can be written");
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
                if usize::from(frame.refs) != refs || frame.used != (refs > 0) && !frame.bad {
                    return Some("a frame is lost, or counted wrongly");
                }
            }
        }
        None
    }
}
