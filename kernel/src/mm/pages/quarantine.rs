//! Frames that Linux may still hold: it is asked, or they wait in quarantine.

use crate::base::accounts::{Account, Sizes};
use crate::base::chain::{Chain, Run};
use crate::base::frames::{self, Known as Sight};
use crate::base::quarantine::{self, Giver, Of};
use crate::link::caller::Delegates;
use crate::link::services;
use crate::sched::cpus;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::service::{EXTENTS_MAX, SERVICE_HELD};
use hanare_core::fair::Owner;
use hanare_core::quarantine::{Answer, Known, Want};
use hanare_hal::addr::PhysAddr;
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;

/// How long a thread that can wait asks, ns: the module's thread is given 10 s for an answer.
const WAITING_NS: u64 = 11_000_000_000;
/// How long a CPU asks where no thread can wait, ns, besides the time of the last answer
/// (`services::by_thread_at_once`). Others go on with the rest.
const AT_ONCE_NS: u64 = 5_000_000;
/// Bytes of ended processes that may wait in quarantine before Linux is asked: at most, and at most
/// as a share of the memory. Each question is a wake-up of Linux' service thread, which this CPU
/// waits for.
const WAITING_MAX: u64 = 512 * SMALL;
/// The share of the memory for [`WAITING_MAX`], 1/x.
const WAITING_SHARE: u64 = 128;

/// As many runs as Linux is asked about at once.
pub(in crate::mm) struct Batch {
    count: usize,
    runs: [Run; EXTENTS_MAX],
    extents: [u64; EXTENTS_MAX],
}

impl Batch {
    /// A batch without runs.
    fn none() -> Batch {
        Batch {
            count: 0,
            runs: [Run::of(PhysAddr::default(), false); EXTENTS_MAX],
            extents: [0; EXTENTS_MAX],
        }
    }

    /// Takes as many runs from a chain as fit into a batch.
    pub(in crate::mm) fn take(from: &mut Chain) -> Batch {
        let mut batch = Batch::none();
        batch.count = from.pop_into(&mut batch.runs);
        for (extent, run) in batch.extents.iter_mut().zip(&batch.runs) {
            *extent = run.extent();
        }
        batch
    }

    /// Takes as many runs from the end of a list as fit into a batch.
    pub(in crate::mm) fn take_last(from: &mut Vec<Run>) -> Batch {
        let mut batch = Batch::none();
        let first = from.len().saturating_sub(EXTENTS_MAX);
        from.drain(first..).for_each(|run| batch.add(run));
        batch
    }

    /// Adds a run, for which there is room.
    fn add(&mut self, run: Run) {
        (self.runs[self.count], self.extents[self.count]) = (run, run.extent());
        self.count += 1;
    }

    /// The runs.
    pub(in crate::mm) fn runs(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    /// The runs as extents of a service.
    pub(in crate::mm) fn extents(&self) -> &[u64] {
        &self.extents[..self.count]
    }

    /// args[2] of the service, 1 where Linux first has to make answers to faults void: one that is
    /// on its way may name a frame of these.
    pub(in crate::mm) fn voids(&self) -> u64 {
        u64::from(self.runs().iter().any(|run| run.named))
    }

    /// Frees what Linux does not hold; the rest (or all, without an answer) waits. Of a run Linux
    /// may hold one page: its parts are to be asked about.
    pub(in crate::mm) fn settle(
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

/// Charge for frames that no space has any more and that are not in quarantine yet: Linux is asked
/// about them, for as long as its thread that is to answer is kept from it.
#[derive(Default)]
pub(in crate::mm) struct Passing {
    account: Option<Arc<Account>>,
    bytes: u64,
}

impl Passing {
    /// Charges an account for so many pages.
    pub(in crate::mm) fn begin(&mut self, account: Option<&Arc<Account>>, pages: u64) {
        if pages != 0 && self.account.is_none() {
            self.account = account.cloned();
        }
        self.set(pages);
    }

    /// So many pages are left.
    pub(in crate::mm) fn set(&mut self, pages: u64) {
        let Some(account) = &self.account else { return };
        let before = core::mem::replace(&mut self.bytes, pages * SMALL);
        if before != self.bytes {
            let sizes = |memory| Sizes { memory, kernel: 0 };
            account.move_space(sizes(before), sizes(self.bytes));
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Whether Linux holds a part of a run, by its answer. `None`: it has not answered.
fn held(answer: Option<&services::Answer>, number: usize) -> Option<bool> {
    answer.map(|answer| answer.held & 1 << number != 0)
}

/// The account that gives runs up now, which are not in quarantine yet.
#[derive(Clone, Copy)]
pub(in crate::mm) struct Whose<'a>(&'a Arc<Account>);

impl<'a> Whose<'a> {
    /// The account of a space that gives up frames now.
    pub(in crate::mm) fn gives_up(account: &'a Arc<Account>) -> Self {
        Whose(account)
    }

    /// Frees a run that Linux does not hold; another one waits. False: it may hold a part of it,
    /// and has to be asked about the parts.
    fn settle(self, run: Run, is_held: Option<bool>) -> bool {
        match is_held {
            Some(false) => run.free(),
            Some(true) if run.pages > 1 => return false,
            Some(true) => put(run, Some(self.0), Known::Held),
            None => set_aside(run.named(), Some(self.0)), // it has not forgotten anything
        }
        true
    }
}

/// Splits a run into parts, each a run of its own.
fn apart(run: Run, parts: &mut Chain) {
    if run.large {
        frames::split(run.frame, 9);
    }
    run.parts().for_each(|part| parts.push_apart(part));
}

/// The run is used again only when Linux has let go of it.
pub(in crate::mm) fn set_aside(run: Run, giver: Giver<'_>) {
    put(run, giver, Known::Unasked);
}

/// The run is in quarantine from now on.
pub(in crate::mm) fn put(run: Run, giver: Giver<'_>, known: Known) {
    if run.large {
        frames::split(run.frame, 9);
    }
    quarantine::add(Run { large: false, ..run }, giver, known);
}

/// Gives back a page whose last mapping went where nothing may be asked of Linux (inside one of
/// its faults): a last page that Linux has seen waits in quarantine. It has not been asked to
/// forget it.
pub fn page_deferred(frame: PhysAddr, giver: Giver<'_>) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(Sight::Never) => frames::free(frame, 0),
        Some(_) => quarantine::add(Run::of(frame, false).named(), giver, Known::Unasked),
    }
}

/// Gives up the frames that Linux has seen of a space which has ended. No mapping is left to zap:
/// Linux is only asked which of them it still holds, of as many as possible at once, for each
/// question is a wake-up of its thread. The few of a small process wait for those of the next ones.
pub(in crate::mm) fn give_up(
    p: Owner,
    account: &Arc<Account>,
    mut seen: Chain,
    mut passing: Passing,
) {
    passing.begin(Some(account), seen.pages());
    if seen.pages() * SMALL + quarantine::unasked()
        <= WAITING_MAX.min(frames::usage_without_stocks().1 / WAITING_SHARE)
    {
        passing.set(0);
        while let Some(run) = seen.pop() {
            set_aside(run, Some(account));
        }
        return;
    }
    if ask_of_new(p, seen, passing, Whose::gives_up(account)) {
        ask(Of::All, How::AtOnce);
    }
}

/// Frees what Linux does not hold of runs that are not in quarantine. Whether it has
/// answered in time; if not the rest waits in quarantine.
fn ask_of_new(p: Owner, mut given_up: Chain, mut passing: Passing, whose: Whose<'_>) -> bool {
    let until = cpus::deadline(AT_ONCE_NS);
    while !given_up.is_empty() {
        let batch = Batch::take(&mut given_up);
        let answer =
            services::by_thread_at_once(SERVICE_HELD, p, &[0, 0, batch.voids()], batch.extents());
        let is_answered = answer.is_some() && cpu::rdtsc() < until;
        passing.set(given_up.pages());
        batch.settle(answer, &mut given_up, whose);
        passing.set(given_up.pages());
        if !is_answered {
            passing.set(0);
            while let Some(run) = given_up.pop() {
                whose.settle(run, None);
            }
            return false;
        }
    }
    true
}

/// Way in which Linux is asked.
#[derive(Clone, Copy)]
pub enum How<'a> {
    /// The running thread, which this is, waits for the answers.
    Waiting(&'a dyn Delegates),
    /// No thread can wait: while a request of Linux' is served, or when the last thread of a space
    /// is gone.
    AtOnce,
}

/// Has Linux asked about these as long as there is something to ask and time for it. Whether
/// something came back.
pub fn ask(of: Of, how: How<'_>) -> bool {
    let before = quarantine::came_back();
    let until = cpus::deadline(match how {
        How::Waiting(_) => WAITING_NS,
        How::AtOnce => AT_ONCE_NS,
    });
    let goes_on = || match how {
        How::Waiting(me) => !me.is_killed(),
        How::AtOnce => true,
    };
    while goes_on()
        && quarantine::want(of) == Want::Ask
        && ask_once(of, how)
        && cpu::rdtsc() < until
    {}
    quarantine::came_back() != before
}

/// Has Linux asked about as much as fits in a question. False: there is nothing, or it has not
/// answered.
fn ask_once(of: Of, how: How<'_>) -> bool {
    let mut batch = Batch::none();
    let mut givers = [const { None }; EXTENTS_MAX];
    quarantine::take(of, |run, giver| {
        givers[batch.count] = giver.cloned();
        batch.add(run);
        batch.count < EXTENTS_MAX
    });
    if batch.count == 0 {
        return false;
    }
    let args = [0, 0, batch.voids()];
    let answer = match how {
        How::Waiting(me) => {
            services::by_thread(me, SERVICE_HELD, me.owner(), &args, batch.extents())
        }
        How::AtOnce => {
            services::by_thread_at_once(SERVICE_HELD, Owner::kernel(0), &args, batch.extents())
        }
    };
    if answer.is_none() {
        quarantine::begin_silence();
    }
    for (i, (&run, giver)) in batch.runs().iter().zip(&givers).enumerate() {
        let giver = giver.as_ref();
        match held(answer.as_ref(), i) {
            Some(false) => quarantine::answered(run, giver, Answer::Free),
            Some(true) if run.pages == 1 => quarantine::answered(run, giver, Answer::Held),
            None => quarantine::answered(run.named(), giver, Answer::Unclear),
            Some(true) => {
                let mut parts = Chain::default();
                apart(run, &mut parts);
                while let Some(part) = parts.pop() {
                    quarantine::answered(part, giver, Answer::Unclear);
                }
            }
        }
    }
    answer.is_some()
}

/// Has Linux asked about all of these anew, where no thread can wait: so often at most.
pub fn ask_anew(of: Of, times: u32) {
    quarantine::doubt(of);
    quarantine::end_silence();
    for _ in 0..times {
        ask(of, How::AtOnce);
        if quarantine::want(of) == Want::Settled && !quarantine::end_silence() {
            return;
        }
    }
}

/// Whether more is held of an account's user than may be, as far as Linux says in short: then the
/// user gets no more programs.
pub fn holds_too_much(account: &Account, how: How<'_>) -> bool {
    let user = account.user();
    if user.held_above().is_some() {
        ask(Of::User(user.uid()), how);
    }
    user.held_above().is_some()
}
