//! State that all workers of the process share.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hanare_abi::ioctl::{IOCTL_RING, IOCTL_USAGE, Usage};
use linux_raw_sys::errno::EIO;

use crate::base::clock::Clock;
use crate::base::message::{EXIT_HANARE, die, text};
use crate::sys::shared::Once;
use crate::sys::{self, Errno, signal, worker};

pub mod attach;
pub mod pooled;
pub mod servers;
pub mod signals;
pub mod stderr;

use attach::Space;
use stderr::Stderr;

/// State that all workers of the process share.
pub struct Process {
    /// Space of the process.
    pub space: Space,
    /// Clock by the time stamp counter.
    pub clock: Clock,
    /// Print a line of counters at the end.
    stats: AtomicBool,
    /// Stderr, for that line; `None`: there is none.
    pub stderr: Option<Stderr>,
    /// Calls made for the application, if they are to be told at the end, and some else.
    pub calls: AtomicU64,
    /// Number of times that a worker slept.
    pub sleeps: AtomicU64,
    /// Whether a thread is already reporting that the LWK died.
    dying: AtomicU32,
}

impl Process {
    /// A process that has just been attached.
    pub fn new(space: Space, clock: Clock, stats: bool, stderr: Option<Stderr>) -> Self {
        let zero = AtomicU64::new(0);
        let (stats, dying) = (AtomicBool::new(stats), AtomicU32::new(0));
        Self { space, clock, stats, stderr, calls: zero, sleeps: AtomicU64::new(0), dying }
    }

    /// The process after an execve, with the counts of calls and sleeps from before.
    pub fn having_counted(self, [calls, sleeps]: [u64; 2]) -> Self {
        Self { calls: AtomicU64::new(calls), sleeps: AtomicU64::new(sleeps), ..self }
    }

    /// Calls made for the application, and sleeps of its workers.
    pub fn counted(&self) -> [u64; 2] {
        [self.calls.load(Ordering::Relaxed), self.sleeps.load(Ordering::Relaxed)]
    }

    /// Whether [`Process::report`] prints counters.
    pub fn is_reporting(&self) -> bool {
        self.stats.load(Ordering::Relaxed)
    }

    /// After a fork, in the child: nothing has been counted, the line of counters
    /// is the parent's, and no other thread is here to say anything.
    pub fn begin_child(&self, shares_table: bool) {
        worker::begin_child();
        if let Some(stderr) = self.stderr.as_ref().filter(|_| !shares_table) {
            stderr.forget();
        }
        self.stats.store(false, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
        self.sleeps.store(0, Ordering::Relaxed);
        self.dying.store(0, Ordering::Relaxed);
    }

    /// At the end of the program: the line of counters, if it is wanted. Once: a signal may
    /// have the last call made again, also the one that this line brings (SIGPIPE).
    pub fn report(&self) {
        let is_wanted = self.stats.swap(false, Ordering::Relaxed);
        let Some(stderr) = self.stderr.as_ref().filter(|_| is_wanted) else { return };
        let mut usage = Usage { user_ns: 0, system_ns: 0, resident_bytes: 0, peak_bytes: 0 };
        // Without an answer the proxy's own figures are still worth a line.
        let _ = sys::ioctl(self.space.fd, IOCTL_USAGE, &mut usage);
        stderr.print(format_args!(
            "user {} ms, system {} ms, peak memory {} KiB, {} delegated calls, {} sleeps of the worker",
            usage.user_ns / 1_000_000,
            usage.system_ns / 1_000_000,
            usage.peak_bytes / 1024,
            self.calls.load(Ordering::Relaxed),
            self.sleeps.load(Ordering::Relaxed),
        ));
    }
}

/// Rings the bell of a thread that sleeps.
#[cold]
pub fn ring(process: &Process, bell: u32) {
    if sys::ioctl_number(process.space.fd, IOCTL_RING, bell.into()) == Err(Errno(EIO)) {
        lwk_died();
    }
}

static PROCESS: Once<Process> = Once::new();

/// Sets the process, once.
pub fn set(process: Process) -> &'static Process {
    PROCESS.set(process)
}

/// The process; it is set before signals are forwarded and workers run.
pub fn get() -> &'static Process {
    PROCESS.get().expect("the process is attached")
}

/// How long a worker waits for another one that says why the process ends.
const LAST_WORDS_MS: u64 = 1000;

/// The LWK does not answer any more: says so, once, and exits.
pub fn lwk_died() -> ! {
    let process = get();
    signal::set_mask(!0);
    if process.dying.swap(1, Ordering::Relaxed) != 0 {
        sys::sleep_ms(LAST_WORDS_MS);
        sys::exit(EXIT_HANARE);
    }
    let name = text(&process.space.instance);
    if name.0.is_empty() {
        die(EXIT_HANARE, format_args!("the LWK stopped working; see: hanare log"));
    }
    die(EXIT_HANARE, format_args!("the LWK '{name}' stopped working; see: hanare log {name}"))
}
