//! The part of a thread for rseq(2).

use crate::sched::cpus;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_core::rseq::Area;

/// The area that a thread has registered. Written by the thread itself.
#[derive(Default)]
pub struct OfThread {
    /// Address of the area, 0: none.
    addr: AtomicU64,
    signature: AtomicU32,
    /// The thread was switched to, or has a signal, since it was last in user mode.
    pub disturbed: AtomicBool,
}

impl OfThread {
    /// The registered area; `None`: there is none.
    pub fn area(&self) -> Option<Area> {
        let addr = self.addr.load(Ordering::Relaxed);
        (addr != 0).then(|| Area { addr, signature: self.signature.load(Ordering::Relaxed) })
    }

    /// Takes an area over (fork), or forgets it (exec).
    pub fn set(&self, area: Option<Area>) {
        self.addr.store(area.map_or(0, |a| a.addr), Ordering::Relaxed);
        self.signature.store(area.map_or(0, |a| a.signature), Ordering::Relaxed);
        self.disturbed.store(area.is_some(), Ordering::Relaxed);
    }

    /// The thread is to leave its critical section before it goes on in user mode.
    pub fn disturb(&self) {
        if self.addr.load(Ordering::Relaxed) != 0 {
            self.disturbed.store(true, Ordering::SeqCst);
        }
    }

    /// The thread was switched to: its CPU may be another, its critical section is void.
    pub fn switched(&self) {
        if self.addr.load(Ordering::Relaxed) != 0 {
            self.disturbed.store(true, Ordering::Relaxed);
            cpus::request_attention();
        }
    }
}
