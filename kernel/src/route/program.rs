//! The memory of the running thread's program, as messages are made of it and brought back to it
//! (`hanare_core::marshal`).

use crate::mm::Caller;
use crate::sched::tlb;
use core::cell::Cell;
use hanare_abi::layout::{MESSAGE_MAX, scratch};
use hanare_core::marshal::Buffer;
use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::{self, UserAddr};

/// Bytes of a page that are read at a time, where the next page may not be there.
const PART_BYTES: usize = 512;

/// Bytes that are copied at a time.
const STEP_BYTES: usize = 256 << 10;

/// Addresses of the bytes of a message.
pub trait Places {
    /// Number of bytes.
    fn size(&self) -> usize;
    /// Where the byte at an offset lies, and how many lie together from there on, itself among
    /// them.
    fn place(&self, at: usize) -> Option<(PhysAddr, usize)>;
}

/// A message in frames that another side may write to, too.
pub struct InFrames<P> {
    /// Which.
    pub places: P,
    /// Bytes that were written to the message.
    pub loaded: u64,
    /// Bytes that were taken out of it to the program.
    pub stored: Cell<u64>,
}

impl<P: Places> InFrames<P> {
    /// A message there.
    pub const fn new(places: P) -> Self {
        Self { places, loaded: 0, stored: Cell::new(0) }
    }

    /// Calls `each` with the frames of `count` bytes from `at` on, one run after the other, and how
    /// many bytes lie before it. False: it has been false, or there are not as many.
    fn runs(
        &self,
        at: usize,
        count: usize,
        mut each: impl FnMut(usize, PhysAddr, usize) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < count {
            let Some((frame, run)) = self.places.place(at.saturating_add(done)) else {
                return false;
            };
            let here = run.min(count - done).min(STEP_BYTES);
            tlb::serve(); // other CPUs do not wait for all of it
            if !each(done, frame, here) {
                return false;
            }
            done += here;
        }
        true
    }
}

impl<P: Places> Buffer for InFrames<P> {
    fn size(&self) -> usize {
        self.places.size()
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        let count = to.len();
        let mut got = 0;
        self.runs(at, count, |done, frame, here| {
            memory::read(frame, &mut to[done..done + here]);
            got = done + here;
            true
        });
        to[got..].fill(0);
    }

    fn write(&mut self, at: usize, from: &[u8]) {
        self.runs(at, from.len(), |done, frame, here| {
            memory::write(frame, &from[done..done + here]);
            true
        });
        self.loaded += from.len() as u64;
    }

    // Straight from the program, which is what `memory` is: the running one.
    fn load(&mut self, at: usize, count: usize, memory: &impl CallerMemory, addr: u64) -> usize {
        let mut loaded = 0;
        self.runs(at, count, |done, frame, here| {
            let read = read_to(memory, addr.saturating_add(done as u64), frame, here);
            loaded = done + read;
            read == here
        });
        self.loaded += loaded as u64;
        loaded
    }

    fn store(
        &self,
        at: usize,
        count: usize,
        _: &mut impl CallerMemory,
        addr: u64,
    ) -> Result<(), Fault> {
        let is_stored = self.runs(at, count, |done, frame, here| {
            let stored = usercopy::write_from(UserAddr::behind(addr, done as u64), frame, here);
            self.stored.set(self.stored.get() + here as u64);
            stored.is_ok()
        });
        if is_stored { Ok(()) } else { Err(Fault) }
    }
}

/// Reads as much as can be read, up to the first page that cannot: all at once; where that fails,
/// in parts of pages.
fn read_to(memory: &impl CallerMemory, addr: u64, to: PhysAddr, bytes: usize) -> usize {
    if usercopy::read_to(UserAddr::of(addr), to, bytes).is_ok() {
        return bytes;
    }
    let mut part = [0; PART_BYTES];
    let mut done = 0;
    while done < bytes {
        let addr = addr.saturating_add(done as u64);
        let here = (PART_BYTES - addr as usize % PART_BYTES).min(bytes - done);
        if memory.read(addr, &mut part[..here]).is_err() {
            break;
        }
        memory::write(to + done as u64, &part[..here]);
        done += here;
    }
    done
}

/// The memory of the running thread's program.
pub struct Program<'a>(pub &'a Caller<'a>);

impl Program<'_> {
    /// Whether something lies in the scratch page of the thread, where the kernel has put an
    /// argument.
    fn is_in_scratch(&self, addr: u64, bytes: usize) -> bool {
        let page = scratch(self.0.slot);
        addr >= page && addr.saturating_add(bytes as u64) <= page + SMALL
    }
}

impl UserMemory for Program<'_> {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        if self.is_in_scratch(addr, to.len()) {
            self.0.memory.read_control(addr, to);
            return Ok(());
        }
        usercopy::read(UserAddr::of(addr), to).map_err(|_| Fault)
    }

    fn read_string<'a>(&self, addr: u64, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        usercopy::read_string(UserAddr::of(addr), buffer).map_err(|_| Fault)
    }
}

impl CallerMemory for Program<'_> {
    fn writable(&self, addr: u64, bytes: u64) -> u64 {
        if bytes > MESSAGE_MAX {
            return bytes; // no message is as large: nothing is brought in for it
        }
        let end = addr.saturating_add(bytes);
        let mut at = addr;
        while at < end {
            tlb::serve();
            // Memory that comes when it is written to is not made before Linux has something for
            // it.
            let comes =
                |v: &&Vma<_>| v.backing == Backing::Anonymous && v.prot.contains(Prot::WRITE);
            let next = self.0.memory.mm.lock().mappings().find(at).filter(comes).map(|vma| vma.end);
            at = match next {
                Some(end) => end,
                None if can_write(at) => (at & !(SMALL - 1)).saturating_add(SMALL),
                None => break,
            };
        }
        at.min(end) - addr
    }

    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        usercopy::write(UserAddr::of(addr), from).map_err(|_| Fault)
    }
}

/// Brings in a page that is to be written to. False: it cannot be.
fn can_write(addr: u64) -> bool {
    let word = UserAddr::of(addr & !3);
    // A write that changes nothing, also of what others have written meanwhile.
    usercopy::read_u32(word)
        .and_then(|value| usercopy::compare_exchange_u32(word, value, value))
        .is_ok()
}
