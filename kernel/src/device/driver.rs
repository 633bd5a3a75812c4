//! Interface between a driver of the LWK's own and the rest of the kernel.

use super::granted::Granted;
use crate::link::direct;
use crate::parts::claims::Claim;
use crate::process::thread::Thread;
use crate::sched::{cpus, requests, tlb, wait};
use hanare_hal::usercopy::UserAddr;
use hanare_hal::{cpu, shared};

/// A read or a write of a claimed descriptor.
pub struct Access<'a> {
    /// The running thread, which makes the call.
    pub thread: &'a Thread,
    /// Claim of the descriptor.
    pub claim: &'a Claim,
    /// The program's buffer, which may be anywhere.
    pub buffer: UserAddr,
    /// Length of the buffer, bytes: any number.
    pub bytes: u64,
    /// Byte of the device from which on; `None`: where the file's position is.
    pub offset: Option<u64>,
    /// Flags of preadv2(2) and pwritev2(2): of `RWF_HIPRI`, `RWF_DSYNC` and `RWF_SYNC`.
    pub flags: u32,
}

/// Result of a call.
pub enum Answer {
    /// The driver has executed it: what the call is to the program, a number of bytes or a negative
    /// errno.
    Done(i64),
    /// The driver has done nothing: Linux executes it.
    Linux,
}

/// A driver. Its functions run on any CPU, several at a time, and may wait ([`poll`]). They touch
/// the device in a [`Use`](super::granted::Use) alone, of which there is none any more when Linux'
/// driver has let go.
///
/// Whatever a function leaves out is Linux'. Calls come only of descriptors that the driver has
/// claimed.
pub trait Driver: Sync {
    /// Name in the option `--device`.
    fn name(&self) -> &'static str;

    /// Takes the part of a device that it is given: once, before there is a program.
    ///
    /// # Errors
    /// The reason why it cannot work with this device, which is Linux' alone then.
    fn begin(&self, granted: &'static Granted) -> Result<(), &'static str>;

    /// Whether it claims a descriptor of its device that was opened just now.
    fn claims(&self, _claim: &Claim) -> bool {
        true
    }

    /// Whether it serves a part of a call, as far as is known before the first part is served.
    fn serves(&self, _access: &Access<'_>) -> bool {
        true
    }

    /// read(2), pread64(2), and preadv(2) by its parts, of a descriptor that is open for reading.
    fn read(&self, _access: &Access<'_>) -> Answer {
        Answer::Linux
    }

    /// write(2), pwrite64(2), and pwritev(2) by its parts, of a descriptor that is open for
    /// writing.
    fn write(&self, _access: &Access<'_>) -> Answer {
        Answer::Linux
    }

    /// fsync(2), fdatasync(2): what was written lasts. `thread`: the running one.
    fn sync(&self, _thread: &Thread, _claim: &Claim) -> Answer {
        Answer::Linux
    }
}

/// Time from one look to the next while other threads have the CPU, ns, at first.
const LOOKS_NS: u64 = 50_000;
/// The longest such time, ns.
const LONGEST_PAUSE_NS: u64 = 1_000_000;

/// Waits until a device is `ready`, which has no other effect: it may be asked again when it was.
/// False: it was not after `most` ns. Signals do not end the wait.
pub fn poll(ready: impl Fn() -> bool + Send + Sync, most: u64) -> bool {
    let (mut looks, end) = (Looks::new(), cpus::deadline(most));
    while cpu::rdtsc() < end {
        if ready() {
            return true;
        }
        if !looks.again() {
            return doze(ready, end);
        }
    }
    ready()
}

/// Looks for an answer, as many as there is time for: as long as the boot option `spin_us` says;
/// for more than 50 us only while no other thread could run. Requests of Linux are served between
/// them.
pub struct Looks {
    /// TSC of the first one that has failed; 0: none has.
    since: u64,
}

impl Looks {
    /// Before the first one.
    pub const fn new() -> Looks {
        Looks { since: 0 }
    }

    /// Whether there is time for another one, after one that has failed.
    #[inline(always)]
    pub fn again(&mut self) -> bool {
        let now = cpu::rdtsc();
        if self.since == 0 {
            self.since = now;
        }
        requests::drain();
        tlb::serve();
        cpu::pause();
        let spent = now - self.since;
        let is_short = spent < u64::from(shared::params().tsc_khz) / (1_000_000 / LOOKS_NS);
        spent < direct::spin_cycles() && (is_short || !cpus::others_runnable())
    }
}

/// As [`poll`], where a short wait was not enough: others have the CPU between the looks, which are
/// less and less frequent, and after the wait. `end`: TSC at which it ends.
pub fn doze(ready: impl Fn() -> bool + Send + Sync, end: u64) -> bool {
    let mut pause = LOOKS_NS;
    let mut is_ready = ready();
    while !is_ready && cpu::rdtsc() < end {
        wait::until(&ready, cpus::deadline(pause).min(end));
        pause = LONGEST_PAUSE_NS.min(2 * pause);
        is_ready = ready();
    }
    cpus::end_turn();
    is_ready
}
