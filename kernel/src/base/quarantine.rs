//! Frames that were unmapped here while Linux still held a reference (I/O in flight). They are
//! asked for again by `mm::quarantine::retry_quarantine`.
//!
//! Who gave them up is charged for them until they are free (`accounts::GivenUp`): who has Linux hold more than there is
//! pays for it. The accounts that have such frames are a list, which is threaded through them and keeps them: what is on
//! the way back needs no memory. The kernel itself gives up pages of programs and libraries that were kept for whoever
//! runs them next (`mm::content`).

use crate::base::accounts::Account;
use crate::base::chain::{Chain, Run};
use crate::base::lock::{Mutex, rank};
use crate::base::owners;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::paging::SMALL;

/// Who gave a frame up; `None`: the kernel itself.
pub type Giver<'a> = Option<&'a Arc<Account>>;

/// The first account that has some.
static FIRST: Mutex<Option<Arc<Account>>, rank::QuarantinedAccounts> = Mutex::new(None);
/// What the kernel itself gave up.
static OF_KERNEL: Mutex<Chain, rank::Quarantine> = Mutex::new(Chain::new());
/// Bytes of that.
static BYTES_OF_KERNEL: AtomicU64 = AtomicU64::new(0);
/// Bytes of all of it.
static BYTES: AtomicU64 = AtomicU64::new(0);

fn bytes_of(run: Run) -> u64 {
    u64::from(run.pages) * SMALL
}

/// Puts a run of single pages into quarantine. It stays a run of its own: a page that Linux holds
/// holds all of its run.
pub fn add(run: Run, giver: Giver) {
    let owner = match giver {
        Some(account) => account.owner(Subject::Quarantine),
        None => FrameOwner::kernel(Subject::Quarantine),
    };
    owners::set_run(run.frame, run.pages.into(), owner);
    if let Some(account) = giver {
        account.move_held(0, bytes_of(run));
    }
    keep(run, giver);
}

/// Puts a run back that was [taken](take_each) out, or a part of it.
pub fn keep(run: Run, giver: Giver) {
    BYTES.fetch_add(bytes_of(run), Ordering::Relaxed);
    let Some(account) = giver else {
        BYTES_OF_KERNEL.fetch_add(bytes_of(run), Ordering::Relaxed);
        return OF_KERNEL.lock().push_apart(run);
    };
    let mut given_up = account.given_up.lock();
    given_up.frames.push_apart(run);
    if !given_up.is_listed {
        given_up.is_listed = true;
        given_up.next = FIRST.lock().replace(account.clone());
    }
}

/// Linux does not hold a run any more that was [taken](take_each) out: it is free, and charged to nobody.
pub fn free(run: Run, giver: Giver) {
    run.free();
    if let Some(account) = giver {
        account.move_held(bytes_of(run), 0);
    }
}

/// Bytes in quarantine.
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// Bytes that the kernel itself gave up.
pub fn bytes_of_kernel() -> u64 {
    BYTES_OF_KERNEL.load(Ordering::Relaxed)
}

/// Takes everything out of quarantine, to be looked at again: what each has given up.
pub fn take_each(mut look: impl FnMut(Giver, Chain)) {
    let mut look = |giver: Giver, frames: Chain| {
        BYTES.fetch_sub(frames.pages() * SMALL, Ordering::Relaxed);
        look(giver, frames);
    };
    let mut next = FIRST.lock().take();
    let of_kernel = core::mem::take(&mut *OF_KERNEL.lock());
    BYTES_OF_KERNEL.fetch_sub(of_kernel.pages() * SMALL, Ordering::Relaxed);
    look(None, of_kernel);
    while let Some(account) = next {
        let mut given_up = account.given_up.lock();
        next = given_up.next.take();
        given_up.is_listed = false;
        let frames = core::mem::take(&mut given_up.frames);
        drop(given_up);
        look(Some(&account), frames);
    }
}
