//! Pages of programs and libraries that processes share: what one has read of a file in
//! the same state, the others map without asking Linux. A content lives as long as a
//! process holds the file, which so cannot become another one under the same number.

use super::{AddressSpace, FileHandle, FileRef, pte_bits};
use crate::base::{frames, heap};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::paging::SMALL;
use spin::Mutex;

/// Pages kept of one file at most (16 MiB): they stay while anybody maps any of it.
const PAGES_MAX: usize = 4096;

/// Device, inode, version, bytes.
type Key = (u64, u64, u64, u64);

static CONTENTS: Mutex<BTreeMap<Key, Weak<Content>>> = Mutex::new(BTreeMap::new());

/// What has been read of a file.
#[derive(Debug)]
pub struct Content {
    key: Key,
    /// It is run, or mapped to be executed: only then pages are kept.
    runs: AtomicBool,
    /// Frames by offset; each counts as a mapping.
    pages: Mutex<BTreeMap<u64, u64>>,
}

impl Content {
    /// Of the file that a service has just taken; `version` 0: it may change unseen.
    pub fn of(device: u64, inode: u64, version: u64, bytes: u64) -> Option<Arc<Content>> {
        if version == 0 {
            return None;
        }
        let key = (device, inode, version, bytes);
        let mut all = CONTENTS.lock();
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            return Some(known);
        }
        heap::room_for_entry::<Key, Weak<Content>>().ok()?;
        heap::room_for_arc::<Content>().ok()?; // made and dropped it would want the lock
        let new = Arc::new(Content {
            key,
            runs: AtomicBool::new(false),
            pages: Mutex::new(BTreeMap::new()),
        });
        all.insert(key, Arc::downgrade(&new));
        Some(new)
    }

    /// The frame of a page that is to be mapped at `prot` is to be kept, if that is worth
    /// it: then it counts one mapping more, and must not be written to.
    pub fn keep(self: &Arc<Self>, offset: u64, frame: u64, prot: Prot) -> bool {
        // What will be written to is copied then: for others, if there are any.
        let wanted = self.runs.load(Ordering::Relaxed)
            && (!prot.contains(Prot::WRITE) || Arc::strong_count(self) > 1);
        let mut pages = self.pages.lock();
        let fits = || heap::room_for_entry::<u64, u64>().is_ok();
        let keeps = wanted && pages.len() < PAGES_MAX && !pages.contains_key(&offset) && fits();
        if keeps {
            frames::share(frame);
            pages.insert(offset, frame);
        }
        keeps
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let mut all = CONTENTS.lock();
        if all.get(&self.key).is_some_and(|weak| core::ptr::eq(weak.as_ptr(), self)) {
            all.remove(&self.key);
        }
        drop(all);
        core::mem::take(self.pages.get_mut()).into_values().for_each(super::release::page_deferred);
    }
}

impl FileHandle {
    /// It is going to be executed.
    pub fn set_runs(&self) {
        if let Some(content) = &self.content {
            content.runs.store(true, Ordering::Relaxed);
        }
    }
}

impl AddressSpace {
    /// Maps a page that was read of `file`, and keeps it for others. False: the frame is
    /// still the caller's.
    pub(super) fn map_filled(
        &mut self,
        file: &FileHandle,
        offset: u64,
        at: u64,
        frame: u64,
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
    pub(super) fn forget_known(&mut self, start: u64, end: u64) {
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
                super::release::page_deferred(frame);
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
