//! Pages of files in an address space that are known already, from this process or another one.

use super::content::{FileHandle, FileRef};
use super::quarantine::page_deferred;
use super::{AddressSpace, pte_bits};
use crate::base::frames;
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;

impl AddressSpace {
    /// Maps a page that was read of `file`, and keeps it for others. False: the frame is
    /// still the caller's.
    pub(super) fn map_filled(
        &mut self,
        file: &FileHandle,
        offset: u64,
        at: u64,
        frame: PhysAddr,
        prot: Prot,
    ) -> bool {
        let kept = file.content.as_ref().is_some_and(|content| content.keep(offset, frame, prot));
        let rights = if kept { prot - Prot::WRITE } else { prot };
        let mapped =
            self.table.map_small(at, frame | pte_bits(rights), &mut frames::UserTables).is_ok();
        if mapped {
            self.add_resident(1);
        } else if kept {
            let _ = frames::drop_mapping(frame); // ours; the content has its own
        }
        mapped || kept
    }

    /// What is mapped in `start..end` is to be read anew.
    pub fn forget_known(&mut self, start: u64, end: u64) {
        for v in self.vmas.range(start, end) {
            let Backing::PrivateFile { file, .. } = &v.backing else { continue };
            let (Some(content), Some(low)) = (&file.content, v.file_offset(v.start.max(start)))
            else {
                continue;
            };
            let high = low + (v.end.min(end) - v.start.max(start));
            let mut pages = content.pages.lock();
            while let Some((&offset, &frame)) = pages.range(low..high).next() {
                pages.remove(&offset);
                page_deferred(frame);
            }
        }
    }

    /// Maps what is known of a private file mapping in `low..high`, if the page `addr` is
    /// among it.
    pub(super) fn map_known(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        (low, high): (u64, u64),
    ) -> bool {
        let Backing::PrivateFile { file, .. } = &vma.backing else { return false };
        let Some(content) = &file.content else { return false };
        let pages = content.pages.lock();
        let known = |at: u64| vma.file_offset(at).and_then(|offset| pages.get(&offset)).copied();
        if known(addr & !(SMALL - 1)).is_none() {
            return false;
        }
        for at in (low..high).step_by(SMALL as usize) {
            let Some(frame) = known(at).filter(|_| self.table.find(at).is_none()) else { continue };
            if self
                .table
                .map_small(at, frame | pte_bits(vma.prot - Prot::WRITE), &mut frames::UserTables)
                .is_err()
            {
                return self.table.find(addr).is_some();
            }
            frames::share(frame);
            self.add_resident(1);
        }
        true
    }
}
