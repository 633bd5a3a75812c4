//! The ledger of frames: the owner of each frame of an instance, by a word that is kept for each.
//!
//! The word of a frame is written when the frame is handed out, and when its owner changes; nothing
//! is counted then. The frames are counted on demand, by a look at all of them. So no frame is
//! counted twice or forgotten: one that is handed out without an owner is [`Subject::None`]'s.

use crate::buddy::BlockState;
use hanare_abi::request::{
    LEDGER_FREE, LEDGER_KERNEL, LEDGER_RESERVED, LEDGER_SUBJECTS, LEDGER_TOTAL, LEDGER_USER,
    LEDGER_USERS, LEDGER_WORDS,
};

/// Purpose of a frame. The numbers are those of the answer to `DEBUG_LEDGER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Subject {
    /// The frame is unaccounted: no owner was set.
    None = 0,
    /// Free pages that CPUs have in stock.
    Stock,
    /// Page tables: the kernel's own, or those of a user's programs.
    Tables,
    /// Kernel stacks: of CPUs, or of a user's threads.
    Stacks,
    /// The kernel's heap, whose blocks are charged by the byte.
    Heap,
    /// Memory that programs share and that is kept for no later one: the vDSO, and pages of program
    /// files that are [`Self::Contents`] no longer.
    Shared,
    /// Pages of programs and libraries that are kept for the next process that runs them.
    Contents,
    /// Bad memory, which is not used again.
    Bad,
    /// Pages of programs.
    Pages,
    /// Control windows: slots, scratch pages, start blocks.
    Control,
    /// Messages of calls whose arguments are copied.
    Messages,
    /// Rings of traces.
    Rings,
    /// Pages that Linux fills for the kernel, until the end of the call.
    Answers,
    /// Memory of drivers, to which devices have access.
    Drivers,
    /// Given up while Linux holds it, or may do so.
    Quarantine,
}

/// Subjects that there are.
pub const SUBJECTS: usize = Subject::Quarantine as usize + 1;
const _: () = assert!(SUBJECTS == LEDGER_SUBJECTS);

/// The number of no user: the kernel's own.
pub const KERNEL: u32 = 0;
/// Numbers of users are below.
pub const USERS_END: u32 = 1 << 24;

/// User and purpose that a frame is accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameOwner(u32);

impl FrameOwner {
    /// The owner of unaccounted frames.
    pub const NOBODY: Self = Self::kernel(Subject::None);

    /// The kernel itself.
    #[must_use]
    pub const fn kernel(subject: Subject) -> Self {
        Self((subject as u32) << 24 | KERNEL)
    }

    /// The user with this number.
    #[must_use]
    pub const fn user(number: u32, subject: Subject) -> Self {
        Self((subject as u32) << 24 | (number & (USERS_END - 1)))
    }

    /// Owner of the same user with another subject.
    #[must_use]
    pub const fn with(self, subject: Subject) -> Self {
        Self::user(self.number(), subject)
    }

    /// The owner as the word that is kept for a frame.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Owner that a frame's word names.
    #[must_use]
    pub const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// The user's number, or [`KERNEL`].
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 & (USERS_END - 1)
    }

    /// The number of the subject.
    const fn subject(self) -> usize {
        (self.0 >> 24) as usize
    }
}

/// Frames by subject.
pub type BySubject = [u64; SUBJECTS];

/// Frames of an instance, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// All frames.
    pub total: u64,
    /// Never handed out: the image, the shared region, the lists of frames.
    pub reserved: u64,
    /// Free.
    pub free: u64,
    /// The kernel's own.
    pub kernel: BySubject,
    /// Frames of all users.
    pub users: BySubject,
    /// Frames of the user that is asked for, by subject.
    pub one: BySubject,
}

impl Ledger {
    /// Counts a block of so many frames. `one`: the number of the user that is asked for.
    pub fn count(&mut self, state: BlockState, pages: u64, owner: FrameOwner, one: u32) {
        self.total += pages;
        match state {
            BlockState::Reserved => self.reserved += pages,
            BlockState::Free => self.free += pages,
            BlockState::Allocated => {
                let subject = owner.subject().min(SUBJECTS - 1);
                let of_user =
                    if owner.number() == KERNEL { &mut self.kernel } else { &mut self.users };
                of_user[subject] += pages;
                if owner.number() == one && one != KERNEL {
                    self.one[subject] += pages;
                }
            }
        }
    }

    /// The answer to `DEBUG_LEDGER`, without what the walk does not see.
    #[must_use]
    pub fn words(&self) -> [u64; LEDGER_WORDS] {
        let mut words = [0; LEDGER_WORDS];
        words[LEDGER_TOTAL] = self.total;
        words[LEDGER_RESERVED] = self.reserved;
        words[LEDGER_FREE] = self.free;
        words[LEDGER_KERNEL..LEDGER_KERNEL + SUBJECTS].copy_from_slice(&self.kernel);
        words[LEDGER_USERS..LEDGER_USERS + SUBJECTS].copy_from_slice(&self.users);
        words[LEDGER_USER..LEDGER_USER + SUBJECTS].copy_from_slice(&self.one);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Pfn;
    use crate::buddy::{Chunk, Frame, Zone};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn words_keep_owner_and_subject() {
        let ring = FrameOwner::user(1000, Subject::Rings);
        assert_eq!((ring.number(), FrameOwner::of_word(ring.word())), (1000, ring));
        assert_eq!(ring.with(Subject::Quarantine), FrameOwner::user(1000, Subject::Quarantine));
        assert_eq!(FrameOwner::NOBODY.word(), 0);
        assert_eq!(FrameOwner::user(USERS_END, Subject::Pages).number(), KERNEL);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Alloc { order: u32, user: u32, subject: bool },
        Split(usize),
        Free(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4u32, 0..3u32, any::<bool>()).prop_map(|(order, user, subject)| Step::Alloc {
                order,
                user,
                subject
            }),
            any::<usize>().prop_map(Step::Split),
            any::<usize>().prop_map(Step::Free),
        ]
    }

    proptest! {
        /// Whatever is handed out and freed: each frame is counted once, for its owner.
        #[test]
        fn each_frame_is_counted_once(steps in prop::collection::vec(step(), 0..60), piece in 1..40usize) {
            let (mut first, mut second) = (vec![Frame::RESERVED; 61], vec![Frame::RESERVED; 40]);
            let mut chunks = [Chunk::new(Pfn(3), &mut first), Chunk::new(Pfn(100), &mut second)];
            let mut zone = Zone::new(&mut chunks);
            zone.release(Pfn(5), 59);
            zone.release(Pfn(100), 38);
            let mut owners = vec![FrameOwner::NOBODY; 140];
            let mut blocks: Vec<(Pfn, u32, FrameOwner)> = vec![];
            for step in steps {
                match step {
                    Step::Alloc { order, user, subject } => if let Some(pfn) = zone.alloc(order) {
                        let subject = if subject { Subject::Pages } else { Subject::Tables };
                        let owner = FrameOwner::user(user, subject);
                        owners[pfn.0 as usize] = owner;
                        blocks.push((pfn, order, owner));
                    },
                    Step::Split(at) if !blocks.is_empty() => {
                        let (pfn, order, owner) = blocks.swap_remove(at % blocks.len());
                        zone.split(pfn, order);
                        for i in 0..1 << order {
                            owners[pfn.0 as usize + i] = owner;
                            blocks.push((pfn + i as u64, 0, owner));
                        }
                    }
                    Step::Free(at) if !blocks.is_empty() => {
                        let (pfn, order, _) = blocks.swap_remove(at % blocks.len());
                        zone.free(pfn, order);
                    }
                    Step::Split(_) | Step::Free(_) => {}
                }
            }
            let mut ledger = Ledger::default();
            let mut from = Some(Pfn(0));
            while let Some(at) = from {
                from = zone.walk(at, piece, |pfn, pages, state| {
                    ledger.count(state, pages, owners[pfn.0 as usize], 2);
                });
            }
            let of = |number: u32, subject: Subject| -> u64 {
                let has = |o: &FrameOwner| *o == FrameOwner::user(number, subject);
                blocks.iter().filter(|(_, _, o)| has(o)).map(|(_, order, _)| 1 << order).sum()
            };
            prop_assert_eq!((ledger.total, ledger.reserved), (101, 4));
            prop_assert_eq!(ledger.free, zone.free_pages() as u64);
            for subject in [Subject::Pages, Subject::Tables] {
                prop_assert_eq!(ledger.kernel[subject as usize], of(0, subject));
                prop_assert_eq!(ledger.users[subject as usize], of(1, subject) + of(2, subject));
                prop_assert_eq!(ledger.one[subject as usize], of(2, subject));
            }
            let handed_out: u64 = ledger.kernel.iter().chain(&ledger.users).sum();
            prop_assert_eq!(ledger.reserved + ledger.free + handed_out, ledger.total);
        }
    }
}
