//! `MAP_HUGETLB`: large pages or nothing, out of the instance's own memory.
//!
//! Linux serves these from a pool that its administrator has reserved; the LWK's
//! memory is reserved as a whole, so whatever of it is free in large blocks is the
//! pool. Pages of 1 GiB have the sizes and alignments of such; they are made of
//! 2 MiB ones.

use crate::link::delegate;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::populate::Why;
use crate::mm::pages::content::{self, FileRef};
use crate::mm::pages::leftovers::Removed;
use crate::mm::window::caller::Caller;
use crate::sched::cpus;
use hanare_core::coherence::Change;
use hanare_core::errno::{self, Result};
use hanare_core::mmap::{PageSize, page_size, size_of, with_size};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Vma;
use hanare_hal::paging::LARGE;
use linux_raw_sys::general::__NR_fstatfs;

/// As [`page_size`], where a descriptor stands for a file of such pages (`MFD_HUGETLB`, or of
/// hugetlbfs): whatever length is asked for, Linux maps whole ones, which must fit here.
pub fn page_size_of_file(p: &Caller<'_>, fd: u64) -> Option<PageSize> {
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    let to = p.memory.write_scratch(p.slot, &[]).ok()?;
    delegate::linux(p.thread, __NR_fstatfs, [fd, to, 0, 0, 0, 0]).ok()?;
    let [f_type, f_bsize]: [u64; 2] = p.memory.control(to);
    if f_type == HUGETLBFS_MAGIC { page_size(with_size(0, f_bsize)).ok() } else { None }
}

/// Makes all pages of a mapping to come, whose addresses are reserved, so that no later access can
/// fail.
///
/// # Errors
/// `ENOMEM`: not so many large blocks are free. No page is there.
pub fn reserve(p: &Caller<'_>, vma: &Vma<FileRef>) -> Result<()> {
    content::give_back_if_short();
    p.memory.mm.lock().cursor(vma.range()).clear_policy();
    for at in (vma.start..vma.end).step_by(LARGE as usize) {
        cpus::serve_all(); // what is asked of this CPU does not wait for all the pages
        let mut mm = p.memory.mm.lock();
        mm.set_wish(p.policy.wish());
        if !mm.populate_large(vma, at, Why::Ahead) {
            let (whole, mut removed) = (PageRange::of(vma.start, at), Removed::default());
            mm.unmap_pages(whole, &Change::new(whole), false, &mut removed);
            drop(mm);
            removed.finish(p);
            return Err(errno::ENOMEM);
        }
    }
    Ok(())
}

impl AddressSpace {
    /// Whether mappings may be cut at the edges of a range.
    ///
    /// # Errors
    /// `EINVAL`: inside a large page of a mapping that has only such.
    pub fn may_cut(&self, range: PageRange) -> Result<()> {
        let cuts = |at: u64| {
            self.mappings().find(at).is_some_and(|v| {
                v.start < at && size_of(v.flags).is_some_and(|s| !at.is_multiple_of(s))
            })
        };
        if cuts(range.start()) || cuts(range.end()) { Err(errno::EINVAL) } else { Ok(()) }
    }
}
