//! Signals of a process that its workers take and tell the LWK of (`ioctl::IOCTL_SIGNAL`).

/// The first real-time signal: of these, any number is pending at a time.
const FIRST_REAL_TIME: u32 = 32;

/// `si_code` of a timer's signal.
const SI_TIMER: i32 = -2;

/// Whether a worker that has taken `signal` blocks it until its next request. Linux starts a
/// timer anew when its signal is taken, so a short one would keep the worker in its handler
/// for ever. And of many real-time signals one is taken at a time: those behind it would come
/// to the LWK only to be given back while the application's handler blocks them, once for
/// each that is handled.
pub const fn stays_blocked(signal: u32, code: i32) -> bool {
    code == SI_TIMER || signal >= FIRST_REAL_TIME
}
