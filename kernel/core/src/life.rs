//! The life of threads, processes and spaces: one state of each, and what each event makes of it.
//!
//! [`Process::step`] is the transition function of a process and its threads, which one lock
//! guards; [`Space::step`] that of the space which processes share. The thread that makes a step
//! does what the answer says ([`Effects`], [`SpaceEffect`]). `docs/life.md` has the states and the
//! transitions as tables, and the properties; `life/tests.rs` explores every order of events of
//! small configurations.

mod kept;
mod process;
mod space;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub use kept::{Kept, Used};
pub use process::{Effects, Event, Process};
pub use space::{Space, SpaceEffect, SpaceEvent};

/// State of a thread in its life cycle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ThreadState {
    /// The thread has not begun.
    #[default]
    New,
    /// The thread runs, or waits for something that is no step of its life.
    Runs,
    /// The thread waits, for a bounded time, until the child that it made has begun.
    Creates,
    /// A child has the use of its memory (vfork): it waits until the child has left that.
    Vforks,
    /// The thread replaces the program in its place and waits until the other threads have ended.
    Replaces,
    /// Linux makes its execve: the program goes on in a space of its own, or an error comes back.
    Departs,
    /// The first thread of a program from another space waits until the old threads have ended.
    Arrives,
    /// The thread makes a core dump and waits, for a bounded time, until the other threads are
    /// parked.
    Dumps,
    /// The thread is parked for a core dump. Linux ends it.
    Parked,
    /// The thread has called exit(2), and other threads go on.
    Exits,
    /// The thread has made the call by which its process ends, and waits for Linux to end the
    /// process.
    Last,
    /// The first thread goes on in its place (execve): it ends.
    Replaced,
    /// The thread no longer belongs to its process, but still uses its slot.
    Leaves,
    /// The thread has ended.
    Gone,
}

/// State of a process in its life cycle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ProcessState {
    /// The proxy is to come. Either the proxy claims the process, or the process is given up.
    #[default]
    Expected,
    /// The proxy has come, and the process is being made.
    Claimed,
    /// The threads of the process run.
    Running,
    /// A thread replaces the program: the others are to end.
    Replacing,
    /// A thread makes a core dump: the others are to park.
    Dumping,
    /// The last thread makes its last call, and touches the memory no more.
    Ending,
    /// The proxy is gone: the threads of the process are to end.
    Killed,
    /// The process goes on as another process (execve): its threads here are to end.
    Moved,
    /// All threads have left the process. Its end has not been told.
    Ended,
    /// All threads have left the process, which goes on as another process and so has no end to be
    /// told.
    Vacated,
    /// The end of the process is being told.
    Telling,
    /// The process is gone: its end is told, its memory is left.
    Gone,
}

/// State of a space in its life cycle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum SpaceState {
    /// The start block may be written.
    #[default]
    Open,
    /// A program has been started in the space.
    Started,
    /// Linux has no mapping of the space any more.
    Closed,
    /// The memory of the space is freed, or about to be, by the thread whose step returned
    /// [`SpaceEffect::Free`].
    Freed,
}

/// Reason why there is no such step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The thread has to end, or what it belongs to is no more.
    MustEnd,
    /// Another thread was first.
    Busy,
    /// The step has been made, or is not to be made yet.
    Not,
}

impl ThreadState {
    const ALL: [ThreadState; 14] = [
        ThreadState::New,
        ThreadState::Runs,
        ThreadState::Creates,
        ThreadState::Vforks,
        ThreadState::Replaces,
        ThreadState::Departs,
        ThreadState::Arrives,
        ThreadState::Dumps,
        ThreadState::Parked,
        ThreadState::Exits,
        ThreadState::Last,
        ThreadState::Replaced,
        ThreadState::Leaves,
        ThreadState::Gone,
    ];

    /// The state that was kept as a number.
    pub fn of(number: u8) -> ThreadState {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(ThreadState::Gone)
    }

    /// Whether the thread is one of the threads of its process, and has begun.
    pub fn is_alive(self) -> bool {
        (ThreadState::Runs..=ThreadState::Replaced).contains(&self)
    }
}

impl ProcessState {
    const ALL: [ProcessState; 12] = [
        ProcessState::Expected,
        ProcessState::Claimed,
        ProcessState::Running,
        ProcessState::Replacing,
        ProcessState::Dumping,
        ProcessState::Ending,
        ProcessState::Killed,
        ProcessState::Moved,
        ProcessState::Ended,
        ProcessState::Vacated,
        ProcessState::Telling,
        ProcessState::Gone,
    ];

    /// Whether the process' proxy has still to come.
    pub fn is_awaited(self) -> bool {
        self <= ProcessState::Claimed
    }

    /// Whether its proxy is gone, or is another process' by now: no worker is to be asked, and all
    /// threads are to end.
    pub fn is_killed(self) -> bool {
        self >= ProcessState::Killed
    }

    /// Whether none of its threads lives or uses its slot.
    pub fn is_deserted(self) -> bool {
        self >= ProcessState::Ended
    }

    /// Whether a thread of it may still touch its memory.
    pub fn uses_memory(self) -> bool {
        self != ProcessState::Ending && !self.is_deserted()
    }
}

/// Whether a thread has to leave whatever it waits for, and end.
#[inline]
pub fn must_end(process: Word, thread: ThreadState) -> bool {
    process.is_killed()
        || thread == ThreadState::Replaced
        || process.state() == ProcessState::Replacing && thread != ThreadState::Replaces
}

/// State of a process and whether Linux has stopped it, in the one word that threads read without a
/// lock, before user mode, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u32);

impl Word {
    const PAUSED: u32 = 0x100;
    const CALM: u32 = ProcessState::Running as u32;

    fn new(state: ProcessState, paused: bool) -> Word {
        Word(state as u32 | if paused { Self::PAUSED } else { 0 })
    }

    /// The word that was kept as `bits`.
    pub fn of(bits: u32) -> Word {
        Word(bits)
    }

    /// The word's bits, to be kept.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether nothing of the life of the process concerns its threads.
    #[inline]
    pub fn is_calm(self) -> bool {
        self.0 == Self::CALM
    }

    /// The state.
    #[inline]
    pub fn state(self) -> ProcessState {
        let number = (self.0 & 0xff) as usize;
        ProcessState::ALL.get(number).copied().unwrap_or(ProcessState::Gone)
    }

    /// Whether [`ProcessState::is_killed`] holds for the state in the word.
    #[inline]
    pub fn is_killed(self) -> bool {
        self.0 & 0xff >= ProcessState::Killed as u32
    }

    /// Whether Linux has stopped the process.
    pub fn is_paused(self) -> bool {
        self.0 & Self::PAUSED != 0
    }
}

/// State of a space and how many processes have it, in the one word that is read without a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceWord(u32);

impl SpaceWord {
    /// The word that was kept as `bits`.
    pub fn of(bits: u32) -> SpaceWord {
        SpaceWord(bits)
    }

    /// The word's bits, to be kept.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether no program has been started in the space.
    pub fn is_open(self) -> bool {
        self.0 & 0xff == SpaceState::Open as u32
    }

    /// Whether Linux has no mapping of the space any more.
    pub fn is_closed(self) -> bool {
        self.0 & 0xff >= SpaceState::Closed as u32
    }

    /// Whether several processes have the space.
    pub fn is_shared(self) -> bool {
        self.0 >> 8 > 1
    }
}
