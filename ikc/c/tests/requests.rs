//! The module's table of requests beside a reference that has no queues: a list of all that wait,
//! in the order in which they came.

// Has the C code.
use hanare_ikc_c as _;
use proptest::prelude::*;

#[repr(C)]
struct Table([u8; 0]);
#[repr(C)]
struct Asker([u8; 0]);

unsafe extern "C" {
    fn hanare_c_shares_new() -> *mut Table;
    fn hanare_c_shares_free(table: *mut Table);
    fn hanare_c_ask(table: *mut Table, share: u8, urgency: u8) -> *mut Asker;
    fn hanare_c_entry_of(asker: *const Asker) -> i32;
    fn hanare_c_forgo(table: *mut Table, asker: *mut Asker) -> bool;
    fn hanare_c_return(table: *mut Table, entry: u32);
    fn hanare_c_hand_on(table: *mut Table) -> *mut Asker;
}

/// As in `module/link/shares.h`.
const ENTRIES: usize = 256;
const OF_ENDS: u8 = 64;
const OF_LINUX: u8 = 128;
const ENDS_AT_A_TIME: usize = 8;
const LEFT_TO_OTHERS: [usize; 4] = [0, 8, 16, 32];
const ASKS_LAST: u8 = 3;
const ASKS_END: u8 = 2;

/// A task that asked: its share, its urgency, and its entry once it has one.
#[derive(Clone, Copy)]
struct Asked {
    asker: *mut Asker,
    share: u8,
    urgency: u8,
    entry: Option<u32>,
}

/// The module's table, and all that asked it and have not gone, in the order in which they came.
struct Both {
    table: *mut Table,
    asked: Vec<Asked>,
}

impl Both {
    fn new() -> Self {
        // SAFETY: has no conditions.
        let table = unsafe { hanare_c_shares_new() };
        assert!(!table.is_null(), "memory");
        Self { table, asked: Vec::new() }
    }

    fn used(&self, share: Option<u8>) -> usize {
        self.asked
            .iter()
            .filter(|asked| asked.entry.is_some() && share.is_none_or(|share| share == asked.share))
            .count()
    }

    fn may_have(&self, share: u8, urgency: u8) -> bool {
        let taken = LEFT_TO_OTHERS[usize::from(urgency)] + self.used(None);
        let Some(left) = ENTRIES.checked_sub(taken).filter(|&left| left > 0) else { return false };
        match share {
            OF_LINUX => true,
            OF_ENDS.. => self.used(Some(share)) < ENDS_AT_A_TIME,
            _ => left > 2 * self.used(Some(share)),
        }
    }

    fn look(asker: *const Asker) -> Option<u32> {
        // SAFETY: it is in `asked`, or just made: not freed.
        u32::try_from(unsafe { hanare_c_entry_of(asker) }).ok()
    }

    fn ask(&mut self, share: u8, urgency: u8) {
        let may = self.may_have(share, urgency);
        // SAFETY: the table is there until `self` is dropped.
        let asker = unsafe { hanare_c_ask(self.table, share, urgency) };
        assert!(!asker.is_null(), "memory");
        let entry = Self::look(asker);
        assert_eq!(entry.is_some(), may, "share {share}, urgency {urgency}");
        self.hold(entry);
        self.asked.push(Asked { asker, share, urgency, entry });
    }

    /// No other asker has that entry.
    fn hold(&self, entry: Option<u32>) {
        if let Some(entry) = entry {
            assert!((entry as usize) < ENTRIES, "entry {entry}");
            assert!(
                self.asked.iter().all(|asked| asked.entry != Some(entry)),
                "entry {entry} twice"
            );
        }
    }

    /// One goes: with its entry, which is returned, or from its queue.
    fn go(&mut self, at: usize) {
        let gone = self.asked.remove(at);
        // SAFETY: it was in `asked`, from which it has been removed: no code uses it after this.
        let forgone = unsafe { hanare_c_forgo(self.table, gone.asker) };
        assert_eq!(forgone, gone.entry.is_none());
        let Some(entry) = gone.entry else { return };
        // SAFETY: the entry is in use, by that asker alone.
        unsafe { hanare_c_return(self.table, entry) };
        // SAFETY: as above.
        while let Some(given) = std::ptr::NonNull::new(unsafe { hanare_c_hand_on(self.table) }) {
            self.given(given.as_ptr());
        }
        self.nobody_waits_in_vain();
    }

    /// Checks that it may have it, that no more urgent one may, and that it is its queue's first.
    fn given(&mut self, asker: *mut Asker) {
        let at = self.asked.iter().position(|asked| asked.asker == asker).expect("one that waits");
        let Asked { share, urgency, entry, .. } = self.asked[at];
        assert_eq!(entry, None, "it had one");
        assert!(self.may_have(share, urgency), "share {share}, urgency {urgency}");
        for (before, other) in
            self.asked.iter().enumerate().filter(|(_, other)| other.entry.is_none())
        {
            assert!(other.urgency >= urgency || !self.may_have(other.share, other.urgency));
            assert!(
                before >= at || (other.share, other.urgency) != (share, urgency),
                "not the first"
            );
        }
        let entry = Self::look(asker);
        assert!(entry.is_some());
        self.hold(entry);
        self.asked[at].entry = entry;
    }

    fn nobody_waits_in_vain(&self) {
        for waits in self.asked.iter().filter(|asked| asked.entry.is_none()) {
            assert!(!self.may_have(waits.share, waits.urgency), "share {} waits", waits.share);
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        for asked in self.asked.drain(..) {
            // SAFETY: as in `go`; the entry is never used again.
            unsafe { hanare_c_forgo(self.table, asked.asker) };
        }
        // SAFETY: made by `new`, and all that waited in it are gone.
        unsafe { hanare_c_shares_free(self.table) };
    }
}

/// Entries go to tasks that may have them, in their turn.
fn asks() -> impl Strategy<Value = (u8, u8)> {
    prop_oneof![
        4 => (0..4u8).prop_map(|user| (user, ASKS_LAST)),
        2 => (0..4u8).prop_map(|user| (user, ASKS_END)),
        2 => (0..4u8).prop_map(|user| (OF_ENDS + user, ASKS_END)),
        1 => (0..ASKS_LAST).prop_map(|urgency| (OF_LINUX, urgency)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tasks that may have an entry have one, in their turn.
    #[test]
    fn entries_go_to_whoever_may_have_them(
        steps in prop::collection::vec((asks(), any::<prop::sample::Index>(), 0..5u8), 1..1500),
    ) {
        let mut both = Both::new();
        for ((share, urgency), at, which) in steps {
            if which < 3 || both.asked.is_empty() {
                both.ask(share, urgency);
            } else {
                both.go(at.index(both.asked.len()));
            }
        }
    }
}

/// Each user that comes finds an entry, though those before took all that they could get.
#[test]
fn greedy_users_leave_some_to_the_next() {
    let mut both = Both::new();
    for user in 0..4 {
        for _ in 0..300 {
            both.ask(user, ASKS_LAST);
        }
    }
    for user in 0..4 {
        assert!(both.used(Some(user)) > 0, "user {user}");
    }
    // Ends and Linux' own requests find what is left to them.
    both.ask(OF_ENDS, ASKS_END);
    both.ask(OF_LINUX, 0);
    assert!(both.asked.iter().rev().take(2).all(|asked| asked.entry.is_some()));
}

/// Shares that wait take turns: one with many waiters does not keep back another.
#[test]
fn shares_that_wait_take_turns() {
    let mut both = Both::new();
    for _ in 0..ENTRIES {
        both.ask(OF_LINUX, 0);
    }
    let ends = [OF_ENDS, OF_ENDS + 1];
    for share in ends {
        for _ in 0..ENDS_AT_A_TIME {
            both.ask(share, ASKS_END);
        }
    }
    for _ in 0..LEFT_TO_OTHERS[usize::from(ASKS_END)] + ENDS_AT_A_TIME {
        both.go(0);
    }
    assert_eq!(ends.map(|share| both.used(Some(share))), [ENDS_AT_A_TIME / 2; 2]);
}
