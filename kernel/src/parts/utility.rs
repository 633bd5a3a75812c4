//! The part of a thread that asked for its user-mode code to execute on Linux
//! (`hanare_abi::utility`).

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Area and wishes of a utility thread. Written by the thread itself.
#[derive(Default)]
pub struct OfThread {
    /// Address of the thread's area; 0: it has none.
    area: AtomicU64,
    bytes: AtomicU64,
    cpu: AtomicU64,
    /// The thread executes on Linux, or is about to: an observer that has to see what it does has
    /// it come back.
    is_out: AtomicBool,
    /// A [`Bell`].
    bell: AtomicU8,
}

/// Way in which threads of the process ring the thread on Linux.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bell {
    /// No thread rings this one.
    None,
    /// Linux has an eventfd of the thread.
    Eventfd,
    /// The thread is rung as its worker is.
    Worker,
}

/// The request of a thread to execute on Linux.
#[derive(Clone, Copy)]
pub struct Wish {
    /// Address of the thread's area.
    pub area: u64,
    /// The area's bytes.
    pub bytes: u64,
    /// A CPU of Linux', or all bits for any.
    pub cpu: u64,
}

impl OfThread {
    /// Whether the thread asked to execute on Linux.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.area.load(Ordering::Relaxed) != 0
    }

    /// The thread's request, if it has made one.
    pub fn wish(&self) -> Option<Wish> {
        let area = self.area.load(Ordering::Relaxed);
        let (bytes, cpu) = (self.bytes.load(Ordering::Relaxed), self.cpu.load(Ordering::Relaxed));
        (area != 0).then_some(Wish { area, bytes, cpu })
    }

    /// Notes the request of the thread.
    pub fn set(&self, wish: Wish) {
        self.bytes.store(wish.bytes, Ordering::Relaxed);
        self.cpu.store(wish.cpu, Ordering::Relaxed);
        self.area.store(wish.area, Ordering::Relaxed);
    }

    /// Whether the thread executes on Linux, or is about to.
    pub fn is_out(&self) -> bool {
        self.is_out.load(Ordering::SeqCst)
    }

    /// Notes that the thread is, or is not, on Linux. The thread does so before it looks whether it
    /// may leave. A thread that forbids it notes that first, and looks here then.
    pub fn set_out(&self, is_out: bool) {
        self.is_out.store(is_out, Ordering::SeqCst);
    }

    /// Way in which the thread is rung.
    pub fn bell(&self) -> Bell {
        match self.bell.load(Ordering::Relaxed) {
            0 => Bell::None,
            1 => Bell::Eventfd,
            _ => Bell::Worker,
        }
    }

    /// The thread is rung so from now on.
    pub fn set_bell(&self, bell: Bell) {
        self.bell.store(bell as u8, Ordering::Relaxed);
    }

    /// Ends the request: the thread is to execute on the LWK.
    pub fn clear(&self) {
        self.area.store(0, Ordering::Relaxed);
    }
}
