//! The memory of the running thread's program, as messages are made of it and brought back to it (`hanare_core::marshal`).

use crate::mm::Caller;
use crate::sched::tlb;
use hanare_abi::layout::{MESSAGE_MAX, scratch};
use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::{self, UserAddr};

/// Bytes of a page that are read at a time, where the next page may not be there.
const PART_BYTES: usize = 512;

/// Reads as much as can be read, up to the first page that cannot: all at once; where that fails, in parts of pages.
pub fn read_to(memory: &impl CallerMemory, addr: u64, to: PhysAddr, bytes: usize) -> usize {
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
    /// Whether something lies in the scratch page of the thread, where the kernel has put an argument.
    fn is_in_scratch(&self, addr: u64, bytes: usize) -> bool {
        let page = scratch(self.0.slot);
        addr >= page && addr.saturating_add(bytes as u64) <= page + SMALL
    }
}

impl UserMemory for Program<'_> {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        if self.is_in_scratch(addr, to.len()) {
            self.0.read_control(addr, to);
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
            // Memory that comes when it is written to is not made before Linux has something for it.
            let comes =
                |v: &&Vma<_>| v.backing == Backing::Anonymous && v.prot.contains(Prot::WRITE);
            let next = self.0.mm.lock().vmas.find(at).filter(comes).map(|vma| vma.end);
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
