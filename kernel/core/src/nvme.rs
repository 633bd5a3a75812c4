//! Commands of NVMe, and the states of a pair of queues (NVM Express Base Specification 2.0,
//! sections 3.3.1 and 4; NVM Command Set Specification 1.0, section 3).

/// Entries of a queue, the same for commands and answers.
pub const ENTRIES: u16 = hanare_abi::grant::QUEUE_ENTRIES as u16;
/// Answers that the controller is told of at once: it learns late which of its places are free.
const TOLD_AFTER: u16 = 16;
/// Most commands under way: the controller has a place for each answer.
pub const UNDER_WAY: u16 = ENTRIES - 1 - TOLD_AFTER;
/// Numbers of commands that are for users who have few: of these each user has one at a time.
const SPARE: usize = 12;
const PLENTY: u16 = UNDER_WAY - SPARE as u16;
/// Entries of a list of pages: one page of them.
pub const LIST_ENTRIES: usize = 512;
/// Bytes of a page of the controller's.
pub const PAGE: u64 = 4096;

const FLUSH: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;
/// Bit of command word 12 of a write: it has reached the medium when it is answered (FUA).
const UNIT_ACCESS: u32 = 1 << 30;
/// Most blocks of a command.
const BLOCKS_MAX: u64 = 1 << 16;

/// Command, as a queue has it: 64 bytes, by pairs of its words. The number by which it is answered
/// is the queue's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(pub [u64; 8]);

/// Access to blocks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of the namespace.
    pub namespace: u32,
    /// First block.
    pub first: u64,
    /// Number of blocks: 1 to 65536.
    pub count: u64,
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// From the medium to memory.
    Read,
    /// From memory to the medium; `is_lasting`: it is not in a cache of the controller's alone when
    /// it is answered.
    Write {
        /// FUA.
        is_lasting: bool,
    },
}

impl Command {
    /// Has the controller write what it has in its cache of a namespace.
    #[must_use]
    pub const fn flush(namespace: u32) -> Self {
        Self([pair(FLUSH, namespace), 0, 0, 0, 0, 0, 0, 0])
    }

    /// Reads or writes blocks. `data`: both words that say where the memory is ([`Data`]).
    ///
    /// # Panics
    /// If these are no blocks of one command.
    #[must_use]
    #[inline(always)]
    pub const fn access(access: Access, blocks: Blocks, data: [u64; 2]) -> Self {
        assert!(blocks.count - 1 < BLOCKS_MAX, "blocks of one command");
        let (code, flags) = match access {
            Access::Read => (READ, 0),
            Access::Write { is_lasting } => (WRITE, if is_lasting { UNIT_ACCESS } else { 0 }),
        };
        let (what, count) = (pair(code, blocks.namespace), (blocks.count - 1) as u32 | flags);
        Self([what, 0, 0, data[0], data[1], blocks.first, count as u64, 0])
    }

    /// Command with the number by which it is answered.
    #[must_use]
    #[inline(always)]
    pub const fn numbered(mut self, number: u16) -> Self {
        self.0[0] |= (number as u64) << 16;
        self
    }
}

/// Two words of 32 bits, the lower one first.
const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Where the memory of a command is. Addresses are those of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    first: u64,
    second: u64,
    count: usize,
}

impl Data {
    /// Pages that a command names by itself.
    pub const WITHOUT_LIST: u64 = 2;
    /// No memory.
    pub const NONE: Self = Self { first: 0, second: 0, count: 0 };

    /// Adds the first byte, or the next page. More than two are kept in a list: `put` sets an entry
    /// of it. False: there are too many.
    pub fn add(&mut self, page: u64, mut put: impl FnMut(usize, u64)) -> bool {
        match self.count {
            0 => self.first = page,
            1 => self.second = page,
            count if count > LIST_ENTRIES => return false,
            count => {
                if count == 2 {
                    put(0, self.second);
                }
                put(count - 1, page);
            }
        }
        self.count += 1;
        true
    }

    /// Both words of a command. `list`: the address of the list.
    #[must_use]
    pub const fn words(&self, list: u64) -> [u64; 2] {
        [self.first, if self.count > 2 { list } else { self.second }]
    }
}

/// Answer of the controller: its last word, which says all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said(pub u32);

impl Said {
    /// Changes whenever the queue has begun anew.
    const fn phase(self) -> bool {
        self.0 >> 16 & 1 != 0
    }

    const fn number(self) -> u16 {
        self.0 as u16
    }

    const fn is_good(self) -> bool {
        self.0 >> 17 & 0x7ff == 0
    }
}

/// Command under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Pair of queues that it was given to.
    pub round: u32,
    /// Number of the command there.
    pub number: u16,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The controller has done it.
    Done,
    /// The controller says that it has not, or not all of it.
    Failed,
    /// Queues are gone, and with them the command: it may have been done.
    Over,
}

/// Pair of queues: which commands are under way, and where the next one and the next answer go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Which pair this is: counts those of the CPU.
    round: u32,
    tail: u16,
    head: u16,
    phase: bool,
    /// Bit i: number i is no command's.
    free: u64,
    /// Bit i: command i has been answered.
    answered: u64,
    /// Bit i: that was an error.
    failed: u64,
    /// Answers that the controller has not been told of.
    untold: u16,
    /// Users that have, or had, each of the spare numbers.
    users: [u32; SPARE],
}

impl Pair {
    /// Queues with nothing in them.
    #[must_use]
    pub const fn new(round: u32) -> Self {
        Self {
            round,
            tail: 0,
            head: 0,
            phase: true,
            free: (1 << UNDER_WAY) - 1,
            answered: 0,
            failed: 0,
            untold: 0,
            users: [0; SPARE],
        }
    }

    /// Goes on with another pair, in which nothing is yet. Commands of the one before are over;
    /// their numbers are free when each has been [ended](Self::end).
    pub const fn follow(&mut self, round: u32) {
        *self = Self { free: self.free, users: self.users, ..Self::new(round) };
    }

    /// Which pair it is.
    #[must_use]
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// A number for a command. `None`: there are no more than the [spare](Self::take_spare) ones.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Ticket> {
        let number = self.free.trailing_zeros() as u16;
        (number < PLENTY).then(|| self.taken(number))
    }

    /// A spare number, for a command of a user. `None`: there is none, or the user has one.
    pub fn take_spare(&mut self, user: u32) -> Option<Ticket> {
        let is_free = |number: u16| self.free >> number & 1 != 0;
        let mut spare = PLENTY..UNDER_WAY;
        if spare.clone().zip(self.users).any(|(number, other)| other == user && !is_free(number)) {
            return None;
        }
        let number = spare.find(|&number| is_free(number))?;
        self.users[usize::from(number - PLENTY)] = user;
        Some(self.taken(number))
    }

    #[inline(always)]
    const fn taken(&mut self, number: u16) -> Ticket {
        self.free &= !(1 << number);
        Ticket { round: self.round, number }
    }

    /// Gives a number back that no command has got, in whichever pair it was taken.
    pub fn give_back(&mut self, ticket: Ticket) {
        self.free |= 1 << ticket.number;
    }

    /// The place of the next command.
    #[must_use]
    pub const fn place(&self) -> u16 {
        self.tail % ENTRIES
    }

    /// The command is in its place. Gives what the controller is to be told: where the next one
    /// will be.
    #[inline(always)]
    pub const fn begin(&mut self) -> u16 {
        self.tail = (self.tail + 1) % ENTRIES;
        self.tail
    }

    /// The place of the next answer.
    #[must_use]
    pub const fn next_answer(&self) -> u16 {
        self.head % ENTRIES
    }

    /// Whether what is at that place is an answer that has not been taken in.
    #[must_use]
    #[inline(always)]
    pub const fn is_new(&self, said: Said) -> bool {
        said.phase() == self.phase
    }

    #[inline(always)]
    fn pass_answer(&mut self) {
        self.head = (self.head + 1) % ENTRIES;
        self.phase ^= self.head == 0;
        self.untold += 1;
    }

    /// Takes an answer in, which is at that place, if it is the one to a command, and the command's
    /// first one. Ends the command, as [`end`](Self::end).
    #[inline(always)]
    pub fn end_by(&mut self, said: Said, ticket: Ticket) -> Option<End> {
        let bit = 1 << ticket.number;
        let is_meant = ticket.round == self.round && said.number() == ticket.number;
        if !is_meant || !self.is_new(said) || self.answered & bit != 0 {
            return None;
        }
        self.pass_answer();
        self.free |= bit;
        Some(if said.is_good() { End::Done } else { End::Failed })
    }

    /// Takes an answer in, which is at that place. False: it is an old one. Numbers that no command
    /// under way has are passed over.
    pub fn answer(&mut self, said: Said) -> bool {
        if !self.is_new(said) {
            return false;
        }
        self.pass_answer();
        let bit = if said.number() < UNDER_WAY { 1 << said.number() } else { 0 };
        let bit = bit & !self.free;
        self.answered |= bit;
        if !said.is_good() {
            self.failed |= bit;
        }
        true
    }

    /// Place up to which answers have been taken in, if the controller is to be told now.
    #[inline(always)]
    pub const fn told(&mut self) -> Option<u16> {
        if self.untold < TOLD_AFTER {
            return None;
        }
        self.untold = 0;
        Some(self.head)
    }

    /// Whether a command has ended.
    #[must_use]
    #[inline(always)]
    pub const fn has_ended(&self, ticket: Ticket) -> bool {
        ticket.round != self.round || self.answered & 1 << ticket.number != 0
    }

    /// How a command has ended, whose number is free then. `None`: it has not.
    pub fn end(&mut self, ticket: Ticket) -> Option<End> {
        let bit = 1 << ticket.number;
        if ticket.round != self.round {
            self.free |= bit;
            return Some(End::Over);
        }
        (self.answered & bit != 0).then(|| {
            let end = if self.failed & bit == 0 { End::Done } else { End::Failed };
            self.answered &= !bit;
            self.failed &= !bit;
            self.free |= bit;
            end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn listed(pages: &[u64]) -> (Option<[u64; 2]>, Vec<u64>) {
        let (mut data, mut list) = (Data::NONE, Vec::new());
        let fits = pages.iter().all(|&page| {
            data.add(page, |entry, page| {
                assert_eq!(entry, list.len());
                list.push(page);
            })
        });
        (fits.then(|| data.words(77)), list)
    }

    #[test]
    fn memory_is_said_by_two_words_or_a_list() {
        assert_eq!(listed(&[8]), (Some([8, 0]), Vec::new()));
        assert_eq!(listed(&[8, 16]), (Some([8, 16]), Vec::new()));
        assert_eq!(listed(&[8, 16, 24]), (Some([8, 77]), [16, 24].to_vec()));
        let most: Vec<u64> = (0..=LIST_ENTRIES as u64).collect();
        assert_eq!(listed(&most), (Some([0, 77]), most[1..].to_vec()));
        let more: Vec<u64> = (0..=LIST_ENTRIES as u64 + 1).collect();
        assert_eq!(listed(&more).0, None);
    }

    #[test]
    fn commands_are_as_the_specification_has_them() {
        let blocks = Blocks { namespace: 3, first: 0x1_2345_6789, count: 8 };
        let read = Command::access(Access::Read, blocks, [0xa_0000_1000, 0xb_0000_2000]);
        let expected = [0x3_0005_0002, 0, 0, 0xa_0000_1000, 0xb_0000_2000, 0x1_2345_6789, 7, 0];
        assert_eq!(read.numbered(5).0, expected);
        let write = Command::access(Access::Write { is_lasting: true }, blocks, [0; 2]);
        assert_eq!((write.0[0], write.0[6]), (0x3_0000_0001, 0x4000_0007));
        assert_eq!(Command::flush(9).0, [9 << 32, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// A controller that answers in any order.
    struct Controller {
        pending: VecDeque<u16>,
        tail: u16,
        phase: bool,
        answers: [Said; ENTRIES as usize],
        /// Answers that it may still write.
        room: u16,
    }

    impl Controller {
        fn answer(&mut self, which: usize, status: u32) {
            if self.pending.is_empty() {
                return;
            }
            let number = self.pending.remove(which % self.pending.len()).unwrap();
            self.room = self.room.checked_sub(1).expect("no place for an answer");
            let word = u32::from(number) | u32::from(self.phase) << 16 | status << 17;
            self.answers[usize::from(self.tail)] = Said(word);
            self.tail = (self.tail + 1) % ENTRIES;
            self.phase ^= self.tail == 0;
        }
    }

    proptest! {
        /// Whatever the order of the answers, each command ends once, as it was answered, no two
        /// have the same number at a time, and no place is used twice.
        #[test]
        fn each_command_ends_once(steps in prop::collection::vec((0_u8..5, 0_usize..64, 0_u32..2), 0..800)) {
            let mut pair = Pair::new(1);
            let mut controller = Controller {
                pending: VecDeque::new(),
                tail: 0,
                phase: true,
                answers: [Said(0); ENTRIES as usize],
                room: ENTRIES - 1,
            };
            let mut open: Vec<(Ticket, Option<u32>)> = Vec::new();
            let mut told = 0;
            for (step, which, status) in steps {
                match step {
                    0 | 1 => {
                        let user = which as u32;
                        let Some(ticket) = pair.take().or_else(|| pair.take_spare(user)) else {
                            prop_assert!(open.len() >= usize::from(PLENTY));
                            continue;
                        };
                        prop_assert!(open.iter().all(|(other, _)| *other != ticket));
                        let place = pair.place();
                        prop_assert_eq!(pair.begin(), (place + 1) % ENTRIES);
                        controller.pending.push_back(ticket.number);
                        open.push((ticket, None));
                    }
                    2 => {
                        if let Some(&number) = controller.pending.get(which % controller.pending.len().max(1)) {
                            controller.answer(which, status);
                            let entry = open.iter_mut().find(|(ticket, end)| ticket.number == number && end.is_none());
                            entry.unwrap().1 = Some(status);
                        }
                    }
                    // Who waits for one takes no other one in.
                    3 => {
                        let said = controller.answers[usize::from(pair.next_answer())];
                        let Some(&(ticket, end)) = open.get(which % open.len().max(1)) else { continue };
                        if let Some(ended) = pair.end_by(said, ticket) {
                            let is_good = end.expect("it was answered") == 0;
                            prop_assert_eq!(ended, if is_good { End::Done } else { End::Failed });
                            open.retain(|(other, _)| *other != ticket);
                        }
                    }
                    _ => {
                        while pair.answer(controller.answers[usize::from(pair.next_answer())]) {}
                        if let Some(head) = pair.told() {
                            controller.room += (head + ENTRIES - told) % ENTRIES;
                            told = head;
                        }
                        open.retain(|(ticket, end)| {
                            let is_good = end.map(|status| if status == 0 { End::Done } else { End::Failed });
                            assert_eq!(pair.has_ended(*ticket), end.is_some());
                            assert_eq!(pair.end(*ticket), is_good);
                            end.is_none()
                        });
                    }
                }
            }
            // Numbers of the pair before are not given again until their commands have been ended.
            pair.follow(2);
            let mut next = Vec::new();
            let mut users = 1000..;
            let mut take = |pair: &mut Pair| pair.take().or_else(|| pair.take_spare(users.next()?));
            while let Some(ticket) = take(&mut pair) {
                prop_assert!(open.iter().all(|(other, _)| other.number != ticket.number));
                next.push(ticket);
            }
            prop_assert_eq!(next.len() + open.len(), usize::from(UNDER_WAY));
            for (ticket, _) in open {
                prop_assert!(pair.has_ended(ticket) && take(&mut pair).is_none());
                prop_assert_eq!(pair.end(ticket), Some(End::Over));
                let again = take(&mut pair).map(|again| again.number);
                prop_assert_eq!(again, Some(ticket.number));
            }
        }
    }

    #[test]
    fn a_user_that_has_many_leaves_some_to_others() {
        let mut pair = Pair::new(1);
        let many = core::iter::from_fn(|| pair.take()).count();
        assert_eq!(many, usize::from(PLENTY));
        let mine = pair.take_spare(7).unwrap();
        assert_eq!(pair.take_spare(7), None);
        let others = (8..).map_while(|user| pair.take_spare(user)).count();
        assert_eq!(others, SPARE - 1);
        pair.give_back(mine);
        assert_eq!(pair.take_spare(8), None);
        assert_eq!(pair.take_spare(7), Some(mine));
    }

    #[test]
    fn answers_that_nobody_waits_for_change_nothing() {
        let mut pair = Pair::new(1);
        assert!(pair.answer(Said(1 << 16 | 5)));
        assert!(pair.answer(Said(1 << 16 | 0xffff)));
        assert!(!pair.answer(Said(0)));
        let ticket = pair.take().unwrap();
        assert_eq!((pair.has_ended(ticket), pair.end(ticket)), (false, None));
        // Nor do those to commands of the queues before, or a second one to the same command.
        let (answer, again) = (
            Said(1 << 16 | u32::from(ticket.number)),
            Said(1 << 16 | 1 << 17 | u32::from(ticket.number)),
        );
        assert_eq!(pair.end_by(answer, Ticket { round: 7, ..ticket }), None);
        assert!(pair.answer(answer));
        assert_eq!((pair.end_by(again, ticket), pair.end(ticket)), (None, Some(End::Done)));
    }
}
