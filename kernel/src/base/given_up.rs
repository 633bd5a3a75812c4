//! Frames that accounts and users have given up while Linux holds them, or may do so
//! (`quarantine`).

use crate::base::chain::Chain;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_core::quarantine::{Inquiry, Round};
use hanare_core::userlimits;

/// Bytes that all users gave up and Linux holds, or may hold.
static ALL: AtomicU64 = AtomicU64::new(0);

/// A user's frames in quarantine. The user's accounts are `A`.
pub struct Quarantined<A> {
    /// The number of these frames, by whether Linux has been asked about them.
    pub known: Inquiry,
    /// The last round of questions about this user's frames alone.
    pub round: Round,
    /// Accounts with such frames, by the lists of [`Inquiry`]: each keeps the next one.
    pub first: [Option<Arc<A>>; 2],
}

impl<A> Quarantined<A> {
    /// A user without frames in quarantine.
    pub const NOTHING: Self =
        Quarantined { known: Inquiry::NOTHING, round: Round::NONE, first: [const { None }; 2] };
}

/// Frames that an account has given up, of one of the lists of [`Inquiry`].
pub struct GivenUp<A> {
    /// The frames.
    pub frames: Chain,
    /// The next account with such frames.
    pub next: Option<Arc<A>>,
    /// The account is in the list of accounts.
    pub is_listed: bool,
}

impl<A> GivenUp<A> {
    /// An account without frames in quarantine.
    pub const NOTHING: Self = GivenUp { frames: Chain::new(), next: None, is_listed: false };
}

/// How much Linux holds of a user's, and how much it may.
pub struct Held {
    bytes: AtomicU64,
    /// Bytes that Linux may hold of all users' frames.
    share: u64,
    /// Linux holds more of this user's frames than the other users leave of the share.
    is_over: AtomicBool,
}

impl Held {
    /// Nothing yet, of a share of so many bytes for all users.
    pub const fn of(share: u64) -> Held {
        Held { bytes: AtomicU64::new(0), share, is_over: AtomicBool::new(false) }
    }

    /// Whether Linux holds more than it may: how much, and how much it may.
    pub fn above(&self) -> Option<[u64; 2]> {
        if !self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let [has, may_have] = self.now();
        (has > may_have).then_some([has, may_have])
    }

    /// Bytes that Linux holds of this user's frames, and bytes that it may hold beside those of
    /// other users.
    fn now(&self) -> [u64; 2] {
        let own = self.bytes.load(Ordering::Relaxed);
        let others = ALL.load(Ordering::Relaxed).saturating_sub(own);
        [own, userlimits::held_max(self.share, others)]
    }

    /// Notes that what is held has grown or shrunk.
    pub fn change(&self, before: u64, now: u64) {
        ALL.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        self.bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        let [own, max] = self.now();
        let was = self.is_over.load(Ordering::Relaxed);
        let is_over = userlimits::is_over(was, now > before, own, max);
        if is_over != was {
            self.is_over.store(is_over, Ordering::Relaxed);
        }
    }
}
