//! Files that mappings hold, and the pages of programs and libraries that processes share: what
//! one has read of a file in the same state, the others map without asking Linux. A content lives
//! as long as a process holds the file, which so cannot become another one under the same number.

use super::quarantine::page_deferred;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::{frames, heap};
use crate::link::services;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::vma::Prot;
use hanare_hal::addr::PhysAddr;

/// Pages kept of one file at most (16 MiB): they stay while anybody maps any of it.
const PAGES_MAX: usize = 4096;

/// Device, inode, version, bytes.
type Key = (u64, u64, u64, u64);

static CONTENTS: Mutex<BTreeMap<Key, Weak<Content>>, rank::Contents> = Mutex::new(BTreeMap::new());

/// Memory of the list if it is empty.
pub fn trim() {
    heap::trim_list(&CONTENTS);
}

/// What has been read of a file.
#[derive(Debug)]
pub struct Content {
    key: Key,
    /// The file is run, or mapped to be executed: only then its pages are kept.
    runs: AtomicBool,
    /// Frames by offset; each counts as a mapping.
    pub(super) pages: Mutex<BTreeMap<u64, PhysAddr>, rank::ContentPages>,
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
        let new = lists::arc_within(Content {
            key,
            runs: AtomicBool::new(false),
            pages: Mutex::new(BTreeMap::new()),
        });
        lists::insert_within(&mut all, key, Arc::downgrade(&new));
        Some(new)
    }

    /// The frame of a page that is to be mapped at `prot` is to be kept, if that is worth
    /// it: then it counts one mapping more, and must not be written to.
    pub fn keep(self: &Arc<Self>, offset: u64, frame: PhysAddr, prot: Prot) -> bool {
        // What will be written to is copied then: for others, if there are any.
        let wanted = self.runs.load(Ordering::Relaxed)
            && (!prot.contains(Prot::WRITE) || Arc::strong_count(self) > 1);
        let mut pages = self.pages.lock();
        let fits = || heap::room_for_entry::<u64, PhysAddr>().is_ok();
        let keeps = wanted && pages.len() < PAGES_MAX && !pages.contains_key(&offset) && fits();
        if keeps {
            frames::share(frame);
            lists::insert_within(&mut pages, offset, frame);
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
        core::mem::take(self.pages.get_mut()).into_values().for_each(page_deferred);
    }
}

/// A file that mappings hold, by its id in the module.
#[derive(Debug)]
pub struct FileHandle {
    /// Space that holds it.
    pub space: u32,
    /// CPU that serves that space's requests.
    pub home: usize,
    /// Id in the module.
    pub id: u64,
    /// Inode and device, for `/proc/self/maps`.
    pub inode: u64,
    /// See `inode`.
    pub device: u64,
    /// Name, if known.
    pub name: String,
    /// What has been read of it, where that may be shared.
    pub content: Option<Arc<Content>>,
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        services::put_file(self.space, self.home, self.id);
    }
}

/// A counted reference to it.
pub type FileRef = Arc<FileHandle>;

impl FileHandle {
    /// The file is going to be executed.
    pub fn set_runs(&self) {
        if let Some(content) = &self.content {
            content.runs.store(true, Ordering::Relaxed);
        }
    }
}
