//! `MAP_HUGETLB`: large pages or nothing, out of the instance's own memory.
//!
//! Linux serves these from a pool that its administrator has reserved; the LWK's
//! memory is reserved as a whole, so whatever of it is free in large blocks is the
//! pool. Pages of 1 GiB have the sizes and alignments of such; they are made of
//! 2 MiB ones.

use super::AddressSpace;
use super::caller::Caller;
use super::content::{self, FileRef};
use super::populate::Why;
use super::removed::Removed;
use crate::link::delegate;
use crate::sched::cpus;
use hanare_core::addr::align_up;
use hanare_core::coherence::Change;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Vma, VmaFlags};
use hanare_hal::paging::LARGE;
use linux_raw_sys::general::__NR_fstatfs;

/// `MAP_HUGETLB`.
pub const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_HUGE_SHIFT: u64 = 26;
const GIANT: u64 = 1 << 30;

/// Page size that `flags` of `mmap` ask for, and the flags of such a mapping.
///
/// # Errors
/// `EINVAL`: no such pages.
pub fn page_size(flags: u64) -> Result<(u64, VmaFlags)> {
    match flags >> MAP_HUGE_SHIFT & 0x3f {
        0 | 21 => Ok((LARGE, VmaFlags::HUGETLB)),
        30 => Ok((GIANT, VmaFlags::HUGETLB | VmaFlags::HUGETLB_1G)),
        _ => Err(errno::EINVAL),
    }
}

/// `flags` of `mmap` that ask for pages of that size.
pub fn with_size(flags: u64, size: u64) -> u64 {
    flags & !(0x3f << MAP_HUGE_SHIFT)
        | MAP_HUGETLB
        | u64::from(size.trailing_zeros()) << MAP_HUGE_SHIFT
}

/// As [`page_size`], where a descriptor stands for a file of such pages (`MFD_HUGETLB`, or of
/// hugetlbfs): whatever length is asked for, Linux maps whole ones, which must fit here.
pub fn page_size_of_file(p: &Caller<'_>, fd: u64) -> Option<(u64, VmaFlags)> {
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    let to = p.write_scratch(p.slot, &[]).ok()?;
    delegate::linux(__NR_fstatfs, [fd, to, 0, 0, 0, 0]).ok()?;
    let [f_type, f_bsize]: [u64; 2] = p.control(to);
    if f_type == HUGETLBFS_MAGIC { page_size(with_size(0, f_bsize)).ok() } else { None }
}

/// Length of a mapping, in whole pages of that size.
pub fn round(len: u64, size: u64) -> Result<u64> {
    align_up(len, size).ok_or(errno::EINVAL)
}

/// Size of the pages of a mapping, where it has only large ones.
pub fn size_of(flags: VmaFlags) -> Option<u64> {
    flags.contains(VmaFlags::HUGETLB).then_some(if flags.contains(VmaFlags::HUGETLB_1G) {
        GIANT
    } else {
        LARGE
    })
}

/// Makes all pages of a mapping to come, whose addresses are reserved, so that no later access can
/// fail.
///
/// # Errors
/// `ENOMEM`: not so many large blocks are free. No page is there.
pub fn reserve(p: &Caller<'_>, vma: &Vma<FileRef>) -> Result<()> {
    content::give_back_if_short();
    p.mm.lock().policies.clear(vma.start, vma.end);
    for at in (vma.start..vma.end).step_by(LARGE as usize) {
        cpus::serve_all(); // what is asked of this CPU does not wait for all the pages
        let mut mm = p.mm.lock();
        mm.wish = p.policy.wish();
        if !mm.populate_large(vma, at, Why::Ahead) {
            let (whole, mut removed) = ((vma.start, at), Removed::default());
            mm.unmap_pages(whole, &Change::new(whole), false, &mut removed);
            drop(mm);
            removed.finish(p);
            return Err(errno::ENOMEM);
        }
    }
    Ok(())
}

impl AddressSpace {
    /// Whether mappings may be cut at `start` and `end`.
    ///
    /// # Errors
    /// `EINVAL`: inside a large page of a mapping that has only such.
    pub fn may_cut(&self, start: u64, end: u64) -> Result<()> {
        let cuts = |at: u64| {
            self.vmas.find(at).is_some_and(|v| {
                v.start < at && size_of(v.flags).is_some_and(|s| !at.is_multiple_of(s))
            })
        };
        if cuts(start) || cuts(end) { Err(errno::EINVAL) } else { Ok(()) }
    }
}
