//! Frames that were unmapped here while Linux still held a reference (I/O in flight), or may have
//! done so. `mm::quarantine` asks Linux about them; what is known of each,
//! `hanare_core::quarantine` says.
//!
//! The account that gave the frames up is charged for them until they are free. The accounts of a
//! user with such frames form lists, which are threaded through the accounts and keep them. So
//! frames on their way back need no memory. The kernel itself gives up pages of programs and
//! libraries that were kept for later runs (`mm::content`).

use crate::base::accounts::{self, Account, User};
use crate::base::chain::{Chain, Run};
use crate::base::given_up::{GivenUp, Quarantined};
use crate::base::lock::{Mutex, rank};
use crate::base::owners;
use crate::base::time;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::quarantine::{Answer, Inquiry, Known, Round, SILENCE_NS, Want};
use hanare_hal::paging::SMALL;

/// The account that gave a frame up; `None`: the kernel itself.
pub type Giver<'a> = Option<&'a Arc<Account>>;

/// The owners of the frames that a question is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The user's with this id.
    User(u32),
    /// All users', and the kernel's own.
    All,
}

/// The frames that the kernel itself gave up, and the round of questions about all frames.
struct OfKernel {
    known: Inquiry,
    frames: [Chain; 2],
    round: Round,
}

static OF_KERNEL: Mutex<OfKernel, rank::QuarantinedAccounts> = Mutex::new(OfKernel {
    known: Inquiry::NOTHING,
    frames: [const { Chain::new() }; 2],
    round: Round::NONE,
});
/// Bytes of the kernel's own.
static BYTES_OF_KERNEL: AtomicU64 = AtomicU64::new(0);
/// Bytes in quarantine.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Bytes that have come back so far.
static CAME_BACK: AtomicU64 = AtomicU64::new(0);
/// Linux has not answered, and is left alone until then, ns since boot.
static SILENT_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The id of the user whose frames Linux is asked about next: a user with many frames there does
/// not delay the others'.
static NEXT_USER: AtomicU64 = AtomicU64::new(0);

fn bytes_of(run: Run) -> u64 {
    u64::from(run.pages) * SMALL
}

/// Puts a run of single pages into quarantine. It stays a run of its own: a page that Linux holds
/// holds all of its run.
pub fn add(run: Run, giver: Giver<'_>, known: Known) {
    let owner = match giver {
        Some(account) => account.owner(Subject::Quarantine),
        None => FrameOwner::kernel(Subject::Quarantine),
    };
    owners::set_run(run.frame, run.pages.into(), owner);
    BYTES.fetch_add(bytes_of(run), Ordering::Relaxed);
    charge(giver, 0, bytes_of(run));
    enlist(run, giver, |inquiry| Some(inquiry.add(run.pages.into(), known)));
}

/// Charges the giver of frames for more or fewer of them.
fn charge(giver: Giver<'_>, before: u64, now: u64) {
    let Some(account) = giver else {
        BYTES_OF_KERNEL.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        return;
    };
    // Under the lock: of two changes of one user the last one says whether it is above the bound.
    let _one = account.user().quarantined.lock();
    account.move_held(before, now);
}

/// Puts a run into the list that `place` says. False: into none.
fn enlist(run: Run, giver: Giver<'_>, place: impl FnOnce(&mut Inquiry) -> Option<usize>) -> bool {
    let Some(account) = giver else {
        let mut of_kernel = OF_KERNEL.lock();
        let Some(list) = place(&mut of_kernel.known) else { return false };
        of_kernel.frames[list].push_apart(run);
        return true;
    };
    let mut quarantined = account.user().quarantined.lock();
    let Some(list) = place(&mut quarantined.known) else { return false };
    let given_up = &mut account.given_up.lock()[list];
    given_up.frames.push_apart(run);
    if !given_up.is_listed {
        given_up.is_listed = true;
        given_up.next = quarantined.first[list].replace(account.clone());
    }
    true
}

/// Linux has answered for a run, or a part of one, that was [taken](take) to be asked about.
pub fn answered(run: Run, giver: Giver<'_>, answer: Answer) {
    if enlist(run, giver, |inquiry| inquiry.answered(run.pages.into(), answer)) {
        return;
    }
    run.free();
    charge(giver, bytes_of(run), 0);
    BYTES.fetch_sub(bytes_of(run), Ordering::Relaxed);
    CAME_BACK.fetch_add(bytes_of(run), Ordering::Relaxed);
}

/// Linux does not answer: it is left alone for a while.
pub fn begin_silence() {
    SILENT_UNTIL.store(time::since_boot_ns().saturating_add(SILENCE_NS), Ordering::Relaxed);
}

/// Linux is to be asked all the same. Whether it was left alone.
pub fn end_silence() -> bool {
    SILENT_UNTIL.swap(0, Ordering::Relaxed) > time::since_boot_ns()
}

/// Bytes in quarantine.
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// Bytes that Linux is still to be asked about.
pub fn unasked() -> u64 {
    if bytes() == 0 {
        return 0;
    }
    let of_users: u64 = users(Of::All, 0).map(|user| user.quarantined.lock().known.unasked()).sum();
    (of_users + OF_KERNEL.lock().known.unasked()) * SMALL
}

/// Bytes that the kernel itself gave up.
pub fn bytes_of_kernel() -> u64 {
    BYTES_OF_KERNEL.load(Ordering::Relaxed)
}

/// Bytes that have come back out of quarantine so far.
pub fn came_back() -> u64 {
    CAME_BACK.load(Ordering::Relaxed)
}

/// The users with these frames, from one with an id on. No lock is held when one is looked at.
fn users(of: Of, from: u32) -> impl Iterator<Item = Arc<User>> {
    let mut from = Some(match of {
        Of::User(uid) => uid,
        Of::All => from,
    });
    core::iter::from_fn(move || {
        let user = accounts::first_from(from?)?;
        from = user.uid().checked_add(1).filter(|_| of == Of::All);
        Some(user).filter(|user| of == Of::All || of == Of::User(user.uid()))
    })
}

/// Does something with the round of questions about these frames. `None`: there is no such user.
fn with_round<T>(of: Of, f: impl FnOnce(&mut Round) -> T) -> Option<T> {
    match of {
        Of::All => Some(f(&mut OF_KERNEL.lock().round)),
        Of::User(_) => users(of, 0).next().map(|user| f(&mut user.quarantined.lock().round)),
    }
}

/// The step before a decision that depends on these frames: ask Linux, await an answer, or none.
pub fn want(of: Of) -> Want {
    let now = time::since_boot_ns();
    let silent = SILENT_UNTIL.load(Ordering::Relaxed);
    if bytes() == 0 || now < silent {
        return Want::Settled;
    }
    let Some(since) = with_round(of, |round| round.since(now, silent)) else {
        return Want::Settled;
    };
    let of_users = users(of, 0).map(|user| user.quarantined.lock().known.want(since, now)).max();
    let of_kernel = (of == Of::All).then(|| OF_KERNEL.lock().known.want(since, now));
    let want = of_users.max(of_kernel).unwrap_or(Want::Settled);
    with_round(of, |round| round.judge(want, now)).unwrap_or(want)
}

/// Marks all frames of `of` as to be asked about anew.
pub fn doubt(of: Of) {
    let _ = with_round(of, Round::doubt);
}

/// Takes runs that Linux has not been asked about, to ask it: gives each to `put` with the account
/// that gave it up, which says whether there is room for more.
pub fn take(of: Of, mut put: impl FnMut(Run, Giver<'_>) -> bool) {
    let from = if of == Of::All { NEXT_USER.load(Ordering::Relaxed) as u32 } else { 0 };
    for user in users(of, from) {
        NEXT_USER.store(user.uid().into(), Ordering::Relaxed);
        if !take_of(&user, &mut put) {
            return;
        }
    }
    if of != Of::All {
        return;
    }
    loop {
        let Some(run) = OF_KERNEL.lock().pop() else { break };
        if !put(run, None) {
            return;
        }
    }
    NEXT_USER.store(0, Ordering::Relaxed);
    for user in users(of, 0).take_while(|user| user.uid() < from) {
        if !take_of(&user, &mut put) {
            return;
        }
    }
}

/// Takes runs of one user for [`take`]. False: `put` has no more room.
fn take_of(user: &User, put: &mut impl FnMut(Run, Giver<'_>) -> bool) -> bool {
    loop {
        // The account may be kept by the list alone: it goes without a lock.
        let Some((run, giver)) = pop(&mut user.quarantined.lock()) else { return true };
        if !put(run, Some(&giver)) {
            return false;
        }
    }
}

impl OfKernel {
    fn pop(&mut self) -> Option<Run> {
        let run = self.frames[self.known.unasked_list()].pop()?;
        self.known.take(run.pages.into());
        Some(run)
    }
}

/// A run that Linux is asked about from now on, and the account that gave it up.
fn pop(quarantined: &mut Quarantined<Account>) -> Option<(Run, Arc<Account>)> {
    let list = quarantined.known.unasked_list();
    let account = quarantined.first[list].clone()?;
    let mut given_up = account.given_up.lock();
    let GivenUp { frames, next, is_listed } = &mut given_up[list];
    let run = frames.pop()?; // one without any is not listed
    quarantined.known.take(run.pages.into());
    if frames.is_empty() {
        *is_listed = false;
        quarantined.first[list] = next.take();
    }
    drop(given_up);
    Some((run, account))
}
