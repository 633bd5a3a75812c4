//! The ledger of frames of an instance: the owner of each.

use hanare_abi::request::{
    DEBUG_LEDGER, LEDGER_CONTENTS_COUNTED, LEDGER_FREE, LEDGER_FREE_COUNTED, LEDGER_HEAP_COUNTED,
    LEDGER_IMAGE, LEDGER_KERNEL, LEDGER_QUARANTINE_COUNTED, LEDGER_RESERVED, LEDGER_RINGS_COUNTED,
    LEDGER_SUBJECTS, LEDGER_TOTAL, LEDGER_USER, LEDGER_USERS, LEDGER_WORDS,
};

use crate::{Device, Result};

/// Names of the subjects, as `kernel/core/src/ledger.rs` has them.
pub const SUBJECTS: [&str; LEDGER_SUBJECTS] = [
    "unaccounted",
    "stock",
    "page-tables",
    "stacks",
    "heap",
    "shared",
    "contents",
    "bad",
    "pages",
    "control",
    "messages",
    "rings",
    "answers",
    "drivers",
    "quarantine",
];
/// Subjects of which others keep a count of their own, and the words where it is.
const COUNTED: [(usize, usize); 4] = [
    (4, LEDGER_HEAP_COUNTED),
    (6, LEDGER_CONTENTS_COUNTED),
    (11, LEDGER_RINGS_COUNTED),
    (14, LEDGER_QUARANTINE_COUNTED),
];

/// Frames by subject, those that are none left out.
pub type Frames = Vec<(&'static str, u64)>;

/// Frames and charges of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's id, in Linux' first user namespace.
    pub uid: u32,
    /// Kernel memory that the user is charged for, bytes.
    pub kernel_bytes: u64,
    /// Memory that the user is charged for, bytes: pages of each process, those in quarantine.
    pub memory_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// Frames.
    pub frames: Frames,
}

/// Owners of all frames of an instance, as counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// All frames of the instance.
    pub total: u64,
    /// Frames of the image with the shared region, which are never handed out.
    pub image: u64,
    /// Frames of the lists of frames, which are never handed out.
    pub lists: u64,
    /// Free.
    pub free: u64,
    /// The kernel's own.
    pub kernel: Frames,
    /// Frames of all users.
    pub users_frames: Frames,
    /// The users, by id.
    pub users: Vec<User>,
    /// Contradictions in the ledger: sums that differ, frames without an owner.
    pub faults: Vec<String>,
}

fn frames(words: &[u64]) -> Frames {
    SUBJECTS.into_iter().zip(words.iter().copied()).filter(|(_, count)| *count != 0).collect()
}

fn sum(words: &[u64]) -> u64 {
    words.iter().sum()
}

impl Ledger {
    fn of(words: &[u64; LEDGER_WORDS]) -> Self {
        let kernel = &words[LEDGER_KERNEL..LEDGER_KERNEL + LEDGER_SUBJECTS];
        let users = &words[LEDGER_USERS..LEDGER_USERS + LEDGER_SUBJECTS];
        let mut faults = Vec::new();
        let mut same = |what: &str, one: u64, other: u64| {
            if one != other {
                faults.push(format!("{what}: {one} frames, and not {other}"));
            }
        };
        let accounted = words[LEDGER_RESERVED] + words[LEDGER_FREE] + sum(kernel) + sum(users);
        same("the sum of all", accounted, words[LEDGER_TOTAL]);
        same("free, as the allocator counts them", words[LEDGER_FREE_COUNTED], words[LEDGER_FREE]);
        same("without an owner", kernel[0] + users[0], 0);
        for (subject, counted) in COUNTED {
            let has = kernel[subject] + users[subject];
            same(&format!("{}, as they are counted apart", SUBJECTS[subject]), words[counted], has);
        }
        Ledger {
            total: words[LEDGER_TOTAL],
            image: words[LEDGER_IMAGE],
            lists: words[LEDGER_RESERVED].saturating_sub(words[LEDGER_IMAGE]),
            free: words[LEDGER_FREE],
            kernel: frames(kernel),
            users_frames: frames(users),
            users: Vec::new(),
            faults,
        }
    }
}

impl Device {
    /// The ledger of an instance, asked for at the CPU with index `cpu`. It is exact where nothing
    /// begins or ends meanwhile.
    ///
    /// # Errors
    /// The instance does not answer.
    pub fn ledger(&self, name: &str, cpu: u32) -> Result<Ledger> {
        let ask = |from: u64| self.ask_debug(name, cpu, DEBUG_LEDGER, [from, 0, 0, 0]);
        let mut ledger = Ledger::of(&ask(0)?.words);
        let mut from = 1;
        loop {
            let answer = ask(from)?;
            let [found, kernel_bytes, memory_bytes, processes] = answer.args;
            let Some(uid) = found.checked_sub(1).and_then(|uid| u32::try_from(uid).ok()) else {
                break;
            };
            let frames = frames(&answer.words[LEDGER_USER..LEDGER_USER + LEDGER_SUBJECTS]);
            ledger.users.push(User { uid, kernel_bytes, memory_bytes, processes, frames });
            from = found + 1;
        }
        let of_users: u64 = ledger.users.iter().flat_map(|user| &user.frames).map(|f| f.1).sum();
        let all: u64 = ledger.users_frames.iter().map(|f| f.1).sum();
        if of_users != all {
            ledger
                .faults
                .push(format!("of users: {of_users} frames, of all users that were: {all}"));
        }
        Ok(ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [u64; LEDGER_WORDS] {
        let mut words = [0; LEDGER_WORDS];
        (words[LEDGER_TOTAL], words[LEDGER_RESERVED], words[LEDGER_IMAGE]) = (100, 20, 15);
        (words[LEDGER_FREE], words[LEDGER_FREE_COUNTED]) = (60, 60);
        (words[LEDGER_KERNEL + 4], words[LEDGER_HEAP_COUNTED]) = (10, 10);
        (words[LEDGER_USERS + 11], words[LEDGER_RINGS_COUNTED]) = (8, 8);
        words[LEDGER_USERS + 8] = 2;
        words
    }

    #[test]
    fn a_ledger_that_fits_has_no_faults() {
        let ledger = Ledger::of(&words());
        assert_eq!(ledger.faults, Vec::<String>::new());
        assert_eq!((ledger.lists, ledger.kernel), (5, vec![("heap", 10)]));
        assert_eq!(ledger.users_frames, [("pages", 2), ("rings", 8)]);
    }

    #[test]
    fn each_sum_that_differs_is_a_fault() {
        for (word, more, what) in [
            (LEDGER_TOTAL, 1, "sum of all"),
            (LEDGER_FREE_COUNTED, 1, "free"),
            (LEDGER_RINGS_COUNTED, 1, "rings"),
            (LEDGER_QUARANTINE_COUNTED, 1, "quarantine"),
            (LEDGER_HEAP_COUNTED, 1, "heap"),
            (LEDGER_CONTENTS_COUNTED, 1, "contents"),
        ] {
            let mut words = words();
            words[word] += more;
            let faults = Ledger::of(&words).faults;
            assert!(faults.len() == 1 && faults[0].contains(what), "{faults:?}");
        }
        let mut words = words();
        (words[LEDGER_KERNEL], words[LEDGER_FREE], words[LEDGER_FREE_COUNTED]) = (3, 57, 57);
        assert!(Ledger::of(&words).faults[0].contains("without an owner"));
    }
}
