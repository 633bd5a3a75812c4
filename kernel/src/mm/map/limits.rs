//! Limits of mappings: RLIMIT_AS, RLIMIT_DATA, and the kernel's room.

use super::address_space::AddressSpace;
use crate::base::{frames, heap};
use crate::mm::pages::content::FileRef;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Prot, Vma, VmaFlags};

/// Limits of the address space, bytes.
#[derive(Clone, Copy)]
pub struct Limits {
    /// RLIMIT_AS.
    pub space: u64,
    /// RLIMIT_DATA.
    pub data: u64,
}

impl Limits {
    /// The limits where so many bytes of the map are only reserved.
    pub fn with_reserved(self, bytes: u64) -> Limits {
        Limits { space: self.space.saturating_add(bytes), ..self }
    }

    /// Whether `more` bytes may be mapped, and the kernel has room for it; `data`: writable and
    /// private.
    pub fn allow(&self, mm: &AddressSpace, more: u64, data: bool) -> bool {
        mm.vmas.total_bytes().saturating_add(more) <= self.space
            && (!data || self.allow_data(mm, more))
            && room_for_mappings(0)
            && mm.may_have_mappings()
    }

    /// Whether `more` bytes may become writable and private.
    pub fn allow_data(&self, mm: &AddressSpace, more: u64) -> bool {
        // No sum over the map where there is no limit, as nearly always.
        self.data == u64::MAX || mm.vmas.bytes_where(is_data).saturating_add(more) <= self.data
    }
}

/// Bytes by which a mapping may grow down.
#[derive(Clone, Copy)]
pub struct Growth {
    /// RLIMIT_AS.
    pub space: u64,
    /// RLIMIT_STACK.
    pub stack: u64,
}

/// Whether a mapping counts against RLIMIT_DATA.
pub fn is_data(v: &Vma<FileRef>) -> bool {
    v.prot.contains(Prot::WRITE) && !v.flags.intersects(VmaFlags::SHARED | VmaFlags::GROWSDOWN)
}

/// Whether memory is promised to a mapping with such rights and flags when it is made.
pub fn is_accounted(prot: Prot, flags: VmaFlags) -> bool {
    prot.contains(Prot::WRITE) && !flags.intersects(VmaFlags::SHARED | VmaFlags::NORESERVE)
}

/// The memory that must be free for a new thread or process, as one part of so many.
const FREE_FOR_TASKS: u64 = 16;

/// The memory that must be free for a new mapping, as one part of so many: half of what
/// applications' pages leave to the kernel. So it is the kernel's own need that leads to a refusal,
/// not a program that uses all the memory it can.
const FREE_FOR_MAPPINGS: u64 = 2 * frames::KERNEL_SHARE as u64;

/// Whether the kernel has memory for another thread or process.
pub fn room_for_tasks() -> bool {
    is_free(0, FREE_FOR_TASKS)
}

/// Whether the kernel has `bytes` for more mappings. They cost its memory, not the process'.
pub fn room_for_mappings(bytes: u64) -> bool {
    is_free(bytes, FREE_FOR_MAPPINGS)
}

/// Whether `bytes` are free beside one of `parts` parts of the memory.
fn is_free(bytes: u64, parts: u64) -> bool {
    if heap::is_short() {
        return false;
    }
    let (free, total) = frames::usage_without_stocks();
    free >= bytes + total / parts
}

/// Linux' heuristic overcommit: `ENOMEM` for more at once than the machine has.
pub fn enough_memory(bytes: u64) -> Result<()> {
    if bytes > frames::usage_without_stocks().1 { Err(errno::ENOMEM) } else { Ok(()) }
}

impl AddressSpace {
    /// Whether mappings may be cut so that a range has its own.
    ///
    /// # Errors
    /// `ENOMEM`: the kernel has no memory for more.
    pub fn may_part(&self, range: PageRange) -> Result<()> {
        let cuts = |at: u64| self.vmas.find(at).is_some_and(|v| v.start < at);
        if (cuts(range.start()) || cuts(range.end()))
            && !(room_for_mappings(0) && self.may_have_mappings())
        {
            Err(errno::ENOMEM)
        } else {
            Ok(())
        }
    }

    /// The mapping at `addr`; one that grows down to it does so, as far as it may.
    pub fn find_or_grow(
        &mut self,
        addr: u64,
        growth: impl FnOnce() -> Growth,
    ) -> Option<Vma<FileRef>> {
        if let Some(vma) = self.vmas.find(addr) {
            return Some(vma.clone());
        }
        let grows = |v: &&Vma<FileRef>| {
            v.flags.intersection(VmaFlags::GROWSDOWN | VmaFlags::MOVING) == VmaFlags::GROWSDOWN
        };
        let above = self.vmas.find_next(addr).filter(grows)?;
        let more = above.start - (addr & !4095);
        let Growth { space, stack } = growth();
        if self.vmas.total_bytes().saturating_add(more) > space {
            return None;
        }
        self.vmas.grow_down(addr, stack).ok()?;
        self.vmas.find(addr).cloned()
    }

    /// Bytes that are locked.
    pub fn locked_bytes(&self) -> u64 {
        self.vmas.bytes_where(|v| v.flags.contains(VmaFlags::LOCKED))
    }
}
