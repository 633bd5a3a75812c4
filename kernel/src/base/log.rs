//! The kernel log: text lines into the ring that `hanare log` reads.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use hanare_hal::{percpu, shared};
use spin::Mutex;

/// Most bytes of one line; longer ones are cut.
const LINE_MAX: usize = 1024;

static WRITER: Mutex<Option<hanare_ikc::LogWriter<'static>>> = Mutex::new(None);
static DEBUG: AtomicBool = AtomicBool::new(false);
static BROKEN: AtomicU8 = AtomicU8::new(0);

/// Finds the ring.
pub fn init() {
    *WRITER.lock() = Some(shared::log());
}

/// Whether debug lines are shown, too.
pub fn set_debug(debug: bool) {
    DEBUG.store(debug, Ordering::Relaxed);
}

/// Whether debug lines are wanted.
pub fn debug_enabled() -> bool {
    DEBUG.load(Ordering::Relaxed)
}

/// A panicking CPU writes without waiting for the holder of the lock.
pub fn break_lock() {
    BROKEN.store(1, Ordering::Relaxed);
}

struct Line {
    bytes: [u8; LINE_MAX],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(LINE_MAX - 1 - self.used);
        self.bytes[self.used..self.used + n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        Ok(())
    }
}

/// Writes one line with its time and CPU.
pub fn line(args: core::fmt::Arguments<'_>) {
    let mut l = Line { bytes: [0; LINE_MAX], used: 0 };
    let us = crate::base::time::since_boot_ns() / 1000;
    let _ =
        write!(l, "[{:5}.{:06}] cpu{}: {args}", us / 1_000_000, us % 1_000_000, percpu::index());
    l.bytes[l.used] = b'\n';
    let text = &l.bytes[..=l.used];
    loop {
        if let Some(mut writer) = WRITER.try_lock() {
            if let Some(w) = writer.as_mut() {
                w.write(text);
            }
            return;
        }
        if BROKEN.load(Ordering::Relaxed) != 0 {
            // Beside the holder of the lock, which is being stopped: a torn line is the worst.
            return shared::log().write(text);
        }
        hanare_hal::cpu::pause();
    }
}

/// Writes a line to the kernel log.
#[macro_export]
macro_rules! info {
    ($($a:tt)*) => { $crate::base::log::line(format_args!($($a)*)) };
}

/// Writes a line if `log=debug` was given at boot.
#[macro_export]
macro_rules! debug {
    ($($a:tt)*) => { if $crate::base::log::debug_enabled() { $crate::base::log::line(format_args!($($a)*)) } };
}
