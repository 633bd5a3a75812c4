//! Whether anything is posted, and what for.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::faults::FAULTS;
use crate::sys::{self, local};

/// Reason why nothing is posted any more.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reason {
    None,
    NotReady,
    Instructions,
    SharedMemory,
    Segments,
    Rights,
    Threads,
    SharedDescriptors,
    Rings,
    Limits,
    Signals,
    Fault,
    Code,
    Mappings,
    Traced,
    Worker,
}

impl Reason {
    const ALL: [(Self, &str); 16] = [
        (Self::None, ""),
        (Self::NotReady, "the library has not begun"),
        (Self::Instructions, "system call instructions that cannot be replaced"),
        (Self::SharedMemory, "shared memory"),
        (Self::Segments, "attached segments of shared memory"),
        (Self::Rights, "changed rights"),
        (Self::Threads, "a thread or process of an unknown kind"),
        (Self::SharedDescriptors, "separated descriptor tables or namespaces"),
        (Self::Rings, "another interface for asynchronous calls"),
        (Self::Limits, "a limit on file sizes"),
        (Self::Signals, "a signal handler that blocks, or a disposition that ignores, faults"),
        (Self::Fault, "a fault that the program handles"),
        (Self::Code, "executable memory without a file"),
        (Self::Mappings, "too many mapped files"),
        (Self::Traced, "ptrace"),
        (Self::Worker, "no worker"),
    ];

    fn text(code: u8) -> &'static str {
        Self::ALL.iter().find(|(reason, _)| *reason as u8 == code).map_or("", |(_, text)| text)
    }
}

static OFF: AtomicU8 = AtomicU8::new(Reason::NotReady as u8);
/// vfork(2) children that run in this memory.
pub static BORROWED: AtomicU32 = AtomicU32::new(0);
/// Threads that hold back signals of faults.
pub static DEAF: AtomicU32 = AtomicU32::new(0);
/// The program has a signal handler.
pub static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);
/// Code was mapped that has not been looked at.
pub static HAS_NEW_CODE: AtomicBool = AtomicBool::new(false);
/// Threads of the program.
pub static THREADS: AtomicI32 = AtomicI32::new(1);
/// Writes are posted; reads are followed by readahead; replies are posted.
pub static KINDS: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// The program ignores SIGPIPE, which a write to a broken connection raises.
pub static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);
/// The worker waits a while before each call.
pub static IS_SLOW: AtomicBool = AtomicBool::new(false);
/// Counts are printed at the end.
pub static REPORTS: AtomicBool = AtomicBool::new(false);
/// Writes, closes, syncs, readaheads, replies posted; waits.
pub static COUNTS: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// Index into [`KINDS`].
pub const WRITES: usize = 0;
/// Index into [`KINDS`].
pub const READS: usize = 1;
/// Index into [`KINDS`].
pub const SOCKETS: usize = 2;
/// Index into [`COUNTS`].
pub const AWAITED: usize = 5;

/// The library begins.
pub fn begin() {
    OFF.store(Reason::None as u8, Ordering::Release);
}

/// Nothing is posted from now on. The caller has awaited what is outstanding, or does so.
pub fn turn_off(reason: Reason) {
    let _ = OFF.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
        (old == Reason::None as u8 || old == Reason::SharedMemory as u8).then_some(reason as u8)
    });
}

/// Whether nothing stands against posting such calls. What is stored in shared memory may well be
/// seen before a reply has arrived: no program can tell how long that is under way.
fn is_on(kind: usize) -> bool {
    let off = OFF.load(Ordering::SeqCst);
    off == Reason::None as u8 || kind == SOCKETS && off == Reason::SharedMemory as u8
}

/// Whether the program may be told that something is done which is not.
pub fn may_post(kind: usize) -> bool {
    is_on(kind)
        && KINDS[kind].load(Ordering::Relaxed)
        && BORROWED.load(Ordering::SeqCst) == 0
        && DEAF.load(Ordering::SeqCst) == 0
}

/// Whether the library has been turned off, for calls of all kinds.
pub fn is_off() -> bool {
    let has_sockets = KINDS[SOCKETS].load(Ordering::Relaxed);
    !is_on(if has_sockets { SOCKETS } else { WRITES })
}

/// Counts something.
pub fn count(what: usize) {
    COUNTS[what].fetch_add(1, Ordering::Relaxed);
}

/// Prints what was posted.
pub fn report() {
    if !REPORTS.load(Ordering::Relaxed) {
        return;
    }
    let mut line = Line::new();
    line.text("hanare async: ");
    let names =
        [" writes, ", " closes, ", " syncs, ", " readaheads, ", " replies posted; ", " waits"];
    for (count, name) in COUNTS.iter().zip(names) {
        line.number(count.load(Ordering::Relaxed));
        line.text(name);
    }
    let reason = Reason::text(OFF.load(Ordering::Relaxed));
    if !reason.is_empty() {
        line.text("; stopped by ");
        line.text(reason);
    }
    line.text("\n");
    sys::complain(line.bytes());
}

/// A line that is put together without memory of the heap.
pub struct Line {
    bytes: [u8; 640],
    used: usize,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self { bytes: [0; 640], used: 0 }
    }

    /// Adds text, or as much of it as there is room for.
    pub fn text(&mut self, text: &str) {
        self.raw(text.as_bytes());
    }

    /// Adds bytes.
    pub fn raw(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }

    /// Adds a number.
    pub fn number(&mut self, mut number: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        let digits = digits;
        self.raw(&digits[at..]);
    }

    /// Text that was added so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Stay of a thread in the library: its own calls are not looked at, and no handler of the program
/// runs.
pub struct Inside {
    mask: Option<sys::Mask>,
}

impl Inside {
    /// Enters.
    pub fn enter() -> Self {
        let mask =
            HAS_HANDLERS.load(Ordering::SeqCst).then(|| sys::set_mask(libc::SIG_BLOCK, !FAULTS));
        local::current().is_inside.set(true);
        Self { mask }
    }

    /// Whether the thread holds back signals of faults, as far as is known.
    pub fn is_deaf(&self) -> bool {
        self.mask.is_some_and(|mask| mask & FAULTS != 0)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        local::current().is_inside.set(false);
        if let Some(mask) = self.mask {
            sys::set_mask(libc::SIG_SETMASK, mask);
        }
    }
}
