//! Pages of files in an address space that are known already, from this process or another one.

use super::address_space::AddressSpace;
use crate::mm::pages::content::{FileHandle, FileRef};
use crate::mm::pages::entry::new_page_bits;
use hanare_core::pagerange::PageRange;
use hanare_core::rss::Counted;
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;

/// Whether a page that was read of `file` into `frame` is kept for others, too: then it must not be
/// written to.
pub(in crate::mm) fn is_kept(file: &FileHandle, offset: u64, frame: PhysAddr) -> bool {
    file.content.as_ref().is_some_and(|content| content.keep(offset, frame))
}

impl AddressSpace {
    /// Forgets what is known of the files mapped in a range, which are to be read anew.
    pub fn forget_known(&mut self, range: PageRange) {
        for (v, part) in self.vmas.parts(range) {
            let Backing::PrivateFile { file, .. } = &v.backing else { continue };
            let (Some(content), Some(low)) = (&file.content, v.file_offset(part.start())) else {
                continue;
            };
            content.forget(low, low + part.len());
        }
    }

    /// Maps what is known of a private file mapping in a range, if the page `addr` is among it.
    pub(in crate::mm) fn map_known(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        range: PageRange,
    ) -> bool {
        let (low, high) = (range.start(), range.end());
        let Backing::PrivateFile { file, .. } = &vma.backing else { return false };
        let Some(content) = &file.content else { return false };
        let Some(first) = vma.file_offset(low) else { return false };
        let pages = content.pages.lock();
        if !pages.contains_key(&(first + ((addr & !(SMALL - 1)) - low))) {
            return false;
        }
        let mut known = pages.range(first..first + (high - low)).peekable();
        let bits = new_page_bits(vma, vma.prot - Prot::WRITE);
        let (mut shared, mut mapped) = (crate::base::mappings::Sharing::default(), 0);
        // Without memory for a table nothing is mapped: the window is within one.
        let _ = self.table.map_missing(range.addresses(), &mut self.tables, &mut |at| {
            let offset = first + (at - low);
            while known.next_if(|&(&of, _)| of < offset).is_some() {}
            let (_, &frame) = known.next_if(|&(&of, _)| of == offset)?;
            shared.add(frame);
            mapped += 1;
            Some(frame | bits)
        });
        shared.finish();
        self.count_mapped(mapped, Counted::Own);
        self.table.find(addr).is_some()
    }
}
