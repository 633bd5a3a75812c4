//! Frames that Linux may still hold: it is asked, or they wait in quarantine.

use crate::base::accounts::Account;
use crate::base::chain::{Chain, Run};
use crate::base::frames::Known;
use crate::base::quarantine::Giver;
use crate::base::{frames, quarantine};
use crate::link::{caller, services};
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::service::{EXTENTS_MAX, SERVICE_HELD};
use hanare_core::fair::Owner;
use hanare_hal::addr::PhysAddr;
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;

/// How often a thread looks whether another one has asked, ns.
const LOOK_NS: u64 = 1_000_000;
/// How long it waits for what another thread asks, ns: the module's thread is given 10 s.
const ASKED_NS: u64 = 11_000_000_000;
/// Bytes of ended processes that may wait in quarantine before Linux is asked: at most, and at most as a share of the
/// memory. Each question is a wake-up of Linux' service thread, which this CPU waits for.
const WAITING_MAX: u64 = 512 * SMALL;
/// See [`WAITING_MAX`].
const WAITING_SHARE: u64 = 128;

/// As many runs as Linux is asked about at once.
pub(super) struct Batch {
    count: usize,
    runs: [Run; EXTENTS_MAX],
    extents: [u64; EXTENTS_MAX],
}

impl Batch {
    /// None.
    fn none() -> Batch {
        Batch {
            count: 0,
            runs: [Run::of(PhysAddr::default(), false); EXTENTS_MAX],
            extents: [0; EXTENTS_MAX],
        }
    }

    /// Takes them from a chain.
    pub(super) fn take(from: &mut Chain) -> Batch {
        let mut batch = Batch::none();
        batch.count = from.pop_into(&mut batch.runs);
        for (extent, run) in batch.extents.iter_mut().zip(&batch.runs) {
            *extent = run.extent();
        }
        batch
    }

    /// Takes one more, for which there is room.
    fn add(&mut self, run: Run) {
        (self.runs[self.count], self.extents[self.count]) = (run, run.extent());
        self.count += 1;
    }

    /// The runs.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    /// The same as extents of a service.
    pub(super) fn extents(&self) -> &[u64] {
        &self.extents[..self.count]
    }

    /// What Linux is asked to do first, as args[2] of a service: make answers to faults void, if
    /// one that is on its way may name a frame of these.
    pub(super) fn voids(&self) -> u64 {
        u64::from(self.runs().iter().any(|run| run.named))
    }

    /// Frees what Linux does not hold; the rest (or all, without an answer) waits. Of a run Linux may
    /// hold one page: its parts are to be asked about.
    pub(super) fn settle(
        &self,
        answer: Option<services::Answer>,
        parts: &mut Chain,
        whose: Whose<'_>,
    ) {
        for (i, run) in self.runs().iter().enumerate() {
            if !whose.settle(*run, held(answer.as_ref(), i)) {
                apart(*run, parts);
            }
        }
    }
}

/// Whether Linux holds a part of a run, by its answer. `None`: it has not answered.
fn held(answer: Option<&services::Answer>, number: usize) -> Option<bool> {
    answer.map(|answer| answer.held & 1 << number != 0)
}

/// Who gave runs up that Linux is asked about, and whether they were in quarantine before.
#[derive(Clone, Copy)]
pub(super) struct Whose<'a> {
    giver: Giver<'a>,
    is_charged: bool,
}

impl<'a> Whose<'a> {
    /// Of what a space gives up now.
    pub(super) fn gives_up(account: &'a Arc<Account>) -> Self {
        Whose { giver: Some(account), is_charged: false }
    }

    /// Frees a run that Linux does not hold; another one waits. False: it may hold a part of it, and has to be asked about
    /// the parts.
    fn settle(self, run: Run, is_held: Option<bool>) -> bool {
        match is_held {
            Some(false) if self.is_charged => quarantine::free(run, self.giver),
            Some(false) => run.free(),
            Some(true) if run.pages > 1 => return false,
            Some(true) => self.set_aside(run),
            None => self.set_aside(run.named()), // it has not forgotten anything
        }
        true
    }

    fn set_aside(self, run: Run) {
        if self.is_charged {
            quarantine::keep(run, self.giver);
        } else {
            set_aside(run, self.giver);
        }
    }
}

/// A run in eight parts, or as many as it has pages.
fn apart(run: Run, parts: &mut Chain) {
    if run.large {
        frames::split(run.frame, 9);
    }
    let pages = run.pages.div_ceil(8);
    for first in (0..run.pages).step_by(pages as usize) {
        parts.push_apart(Run {
            frame: run.frame + u64::from(first) * SMALL,
            pages: pages.min(run.pages - first),
            large: false,
            ..run
        });
    }
}

/// The run is used again only when Linux has let go of it.
pub(super) fn set_aside(run: Run, giver: Giver<'_>) {
    if run.large {
        frames::split(run.frame, 9);
    }
    quarantine::add(Run { large: false, ..run }, giver);
}

/// Gives back a page whose last mapping went where nothing may be asked of Linux (inside one of
/// its faults): a last page that Linux has seen waits in quarantine. It has not been asked to forget it.
pub fn page_deferred(frame: PhysAddr, giver: Giver<'_>) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(Known::Never) => frames::free(frame, 0),
        Some(_) => quarantine::add(Run::of(frame, false).named(), giver),
    }
}

/// Gives up the frames that Linux has seen of a space which has ended. No mapping is left to zap:
/// Linux is only asked which of them it still holds, of as many as possible at once, for each
/// question is a wake-up of its thread. The few of a small process wait for those of the next ones.
pub(super) fn give_up(p: Owner, account: &Arc<Account>, mut seen: Chain) {
    let new = quarantine::bytes().saturating_sub(STILL_HELD.load(Ordering::Relaxed));
    if seen.pages() * SMALL + new
        <= WAITING_MAX.min(frames::usage_without_stocks().1 / WAITING_SHARE)
    {
        while let Some(run) = seen.pop() {
            set_aside(run, Some(account));
        }
        return;
    }
    if ask(services::by_thread_at_once, p, seen, Whose::gives_up(account)) {
        retry_quarantine();
    }
}

/// Bytes that Linux held when it was last asked about all that is in quarantine.
static STILL_HELD: AtomicU64 = AtomicU64::new(0);
/// Threads that ask now about what they have taken out of quarantine.
static ASKING: AtomicU64 = AtomicU64::new(0);

/// Looks again at the frames in quarantine, where no thread can wait. Whether Linux has answered.
pub fn retry_quarantine() -> bool {
    retry(services::by_thread_at_once, Owner::kernel(0)).is_answered
}

/// Whether there may be something in quarantine that Linux does not hold: it has not been asked about all.
pub fn has_unasked() -> bool {
    quarantine::bytes() > STILL_HELD.load(Ordering::Relaxed)
}

/// What came of a look at what is in quarantine.
struct Looked {
    /// Something was there that no other thread asks about.
    is_any: bool,
    /// Linux has answered.
    is_answered: bool,
}

fn retry(by: By, p: Owner) -> Looked {
    let mut is_any = false;
    let mut asked = Asked {
        by,
        p,
        batch: Batch::none(),
        givers: [const { None }; EXTENTS_MAX],
        is_answered: true,
    };
    quarantine::take_each(|giver, mut frames| {
        while let Some(run) = frames.pop() {
            is_any = true;
            asked.add(run, giver);
        }
    });
    asked.ask();
    STILL_HELD.store(quarantine::bytes(), Ordering::Relaxed);
    Looked { is_any, is_answered: asked.is_answered }
}

/// How the service thread is asked.
type By = fn(u32, Owner, &[u64], &[u64]) -> Option<services::Answer>;

/// What is in quarantine, on the way to Linux: as much as fits in a question, of whomever it is.
struct Asked {
    by: By,
    p: Owner,
    batch: Batch,
    /// Who gave each run up.
    givers: [Option<Arc<Account>>; EXTENTS_MAX],
    is_answered: bool,
}

impl Asked {
    fn add(&mut self, run: Run, giver: Giver<'_>) {
        self.givers[self.batch.count] = giver.cloned();
        self.batch.add(run);
        if self.batch.count == EXTENTS_MAX {
            self.ask();
        }
    }

    /// Asks about what is there. Where Linux has not answered once it is not asked again.
    fn ask(&mut self) {
        let batch = core::mem::replace(&mut self.batch, Batch::none());
        if batch.count == 0 {
            return;
        }
        let args = [0, 0, batch.voids()];
        let by = self.by;
        let answer =
            if self.is_answered { by(SERVICE_HELD, self.p, &args, batch.extents()) } else { None };
        self.is_answered = answer.is_some();
        for (i, run) in batch.runs().iter().enumerate() {
            let giver = self.givers[i].take();
            let whose = Whose { giver: giver.as_ref(), is_charged: true };
            if !whose.settle(*run, held(answer.as_ref(), i)) {
                let mut parts = Chain::default();
                apart(*run, &mut parts);
                self.is_answered &= ask(by, self.p, parts, whose);
            }
        }
    }
}

/// Frees what Linux does not hold. Whether it has answered; if not the rest waits.
fn ask(by: By, p: Owner, mut given_up: Chain, whose: Whose<'_>) -> bool {
    while !given_up.is_empty() {
        let batch = Batch::take(&mut given_up);
        let answer = by(SERVICE_HELD, p, &[0, 0, batch.voids()], batch.extents());
        let is_answered = answer.is_some();
        batch.settle(answer, &mut given_up, whose);
        if !is_answered {
            while let Some(run) = given_up.pop() {
                whose.set_aside(run);
            }
            return false;
        }
    }
    true
}

/// Memory is short, and the running thread waits for what Linux may have let go of: true if something came back.
pub(super) fn retry_waiting() -> bool {
    let before = quarantine::bytes();
    if before != 0 {
        ASKING.fetch_add(1, Ordering::AcqRel);
        let looked = retry(services::by_thread, caller::current().owner());
        ASKING.fetch_sub(1, Ordering::AcqRel);
        if looked.is_any {
            return quarantine::bytes() < before;
        }
    }
    // Another thread has taken it all, to ask about it: what comes back is for everybody.
    let was_asked = ASKING.load(Ordering::Acquire) != 0;
    let until = cpus::deadline(ASKED_NS);
    while ASKING.load(Ordering::Acquire) != 0 && cpu::rdtsc() < until {
        cpus::until_told(|| false, cpus::deadline(LOOK_NS));
    }
    was_asked
}
