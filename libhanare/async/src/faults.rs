//! Signals that a thread's own instructions raise.

/// A set of signals, as the kernel has it.
pub type Mask = u64;

/// Their numbers.
pub const SIGNALS: [i32; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The signals that faults raise.
pub const FAULTS: Mask = {
    let mut mask = 0;
    let mut at = 0;
    while at < SIGNALS.len() {
        mask |= 1 << (SIGNALS[at] - 1);
        at += 1;
    }
    mask
};
