//! Files that mappings hold, and the pages of programs and libraries that processes share. Pages
//! that one process has read of a file in the same state, the others map without asking Linux. The
//! state is a number of the module's, which no two states of files have in common (`version` in
//! `module/space/version.c`). So a content may stay when no process holds the file any more: the
//! latest ones do, up to a share of the memory ([`kept_max`]). They are charged to no user then,
//! hold no file, and go where memory is short, before a request for memory is refused.

use super::quarantine::page_deferred;
use crate::base::ledger::CONTENT_PAGES;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::{frames, heap, owners, quarantine};
use crate::link::services;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::groups::NOBODY;
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;

/// Pages kept of one file at most (16 MiB).
const PAGES_MAX: usize = 4096;
/// Contents that stay when no process maps them, at most.
const KEPT_FILES: usize = 64;
/// The share of the memory that pages of contents may take, those that are mapped included, before
/// old ones go.
const KEPT_SHARE: u64 = 16;
/// Contents stay as long as this share of the memory is free.
const FREE_SHARE: u64 = 8;

/// Device, inode, version, bytes.
type Key = (u64, u64, u64, u64);

static CONTENTS: Mutex<BTreeMap<Key, Weak<Content>>, rank::Contents> = Mutex::new(BTreeMap::new());

/// Contents that stay, the latest first.
static KEPT: Mutex<[Option<Arc<Content>>; KEPT_FILES], rank::KeptContents> =
    Mutex::new([const { None }; KEPT_FILES]);

/// Memory of the list if it is empty.
pub fn trim() {
    heap::trim_list(&CONTENTS);
}

/// Bytes of all contents, above which old ones go.
fn kept_max() -> u64 {
    frames::usage_without_stocks().1 / KEPT_SHARE
}

/// Drops the contents that no process maps. Returns whether there was any with pages, which are
/// free now or in quarantine.
pub fn give_back() -> bool {
    let mut any = false;
    while let Some(old) = take_oldest() {
        any |= Arc::strong_count(&old) == 1 && !old.pages.lock().is_empty();
    }
    any
}

/// Gives kept content back, if little memory is free.
pub fn give_back_if_short() {
    let (free, total) = frames::usage_without_stocks();
    if free < total / FREE_SHARE {
        give_back();
    }
}

/// Old contents go, as far as there are too many.
fn settle() {
    while CONTENT_PAGES.load(Ordering::Relaxed) * SMALL > kept_max() {
        if take_oldest().is_none() {
            return;
        }
    }
}

/// A page is not kept any more. Processes that still have it mapped share it.
fn keep_no_longer(frame: PhysAddr) {
    owners::set(frame, FrameOwner::kernel(Subject::Shared));
    page_deferred(frame, None);
}

fn take_oldest() -> Option<Arc<Content>> {
    KEPT.lock().iter_mut().rev().find_map(Option::take)
}

/// The pages that have been read of a file.
#[derive(Debug)]
pub struct Content {
    key: Key,
    /// The file is run, or mapped to be executed: only then its pages are kept.
    runs: AtomicBool,
    /// A page is charged to a control group.
    is_charged: AtomicBool,
    /// Frames by offset; each counts as a mapping.
    pub(in crate::mm) pages: Mutex<BTreeMap<u64, PhysAddr>, rank::ContentPages>,
}

impl Content {
    /// The content of the file that a service has just taken; `version` 0: it may change unseen.
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
            is_charged: AtomicBool::new(false),
            pages: Mutex::new(BTreeMap::new()),
        });
        lists::insert_within(&mut all, key, Arc::downgrade(&new));
        Some(new)
    }

    /// The frame of a page that is to be mapped is to be kept, if that is worth it: then it counts
    /// one mapping more, and must not be written to. What will be written to is copied then.
    pub fn keep(&self, offset: u64, frame: PhysAddr) -> bool {
        let mut pages = self.pages.lock();
        let fits = || heap::room_for_entry::<u64, PhysAddr>().is_ok();
        // No user is charged for frames of dropped contents that Linux holds: these are at most as
        // many as contents may have.
        let keeps = self.runs.load(Ordering::Relaxed)
            && pages.len() < PAGES_MAX
            && quarantine::bytes_of_kernel() < kept_max()
            && !pages.contains_key(&offset)
            && fits();
        if keeps {
            frames::share(frame);
            owners::set(frame, FrameOwner::kernel(Subject::Contents));
            lists::insert_within(&mut pages, offset, frame);
            CONTENT_PAGES.fetch_add(1, Ordering::Relaxed);
            self.is_charged.fetch_or(frames::group_of(frame) != NOBODY, Ordering::Relaxed);
        }
        keeps
    }

    /// Whether a frame is what is kept of a page.
    pub(in crate::mm) fn has(&self, offset: u64, frame: PhysAddr) -> bool {
        self.pages.lock().get(&offset) == Some(&frame)
    }

    /// Forgets the pages in `low..high`.
    pub(in crate::mm) fn forget(&self, low: u64, high: u64) {
        let mut pages = self.pages.lock();
        while let Some((&offset, &frame)) = pages.range(low..high).next() {
            pages.remove(&offset);
            CONTENT_PAGES.fetch_sub(1, Ordering::Relaxed);
            keep_no_longer(frame);
        }
    }

    /// The content stays when no process maps the file, as the latest one.
    fn stay(self: &Arc<Self>) {
        let mut kept = KEPT.lock();
        let is_it = |one: &Option<Arc<Content>>| one.as_ref().is_some_and(|c| Arc::ptr_eq(c, self));
        let place = kept.iter().position(is_it);
        let last = place.unwrap_or(KEPT_FILES - 1);
        let old = kept[last].take();
        kept[..=last].rotate_right(1);
        kept[0] = Some(self.clone());
        drop(kept);
        drop(old);
        settle();
    }

    /// No process maps the file any more: no control group is charged for what stays.
    fn discharge(&self) {
        if self.is_charged.swap(false, Ordering::Relaxed) {
            self.pages.lock().values().for_each(|&frame| frames::discharge(frame));
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let mut all = CONTENTS.lock();
        if all.get(&self.key).is_some_and(|weak| core::ptr::eq(weak.as_ptr(), self)) {
            all.remove(&self.key);
        }
        drop(all);
        let pages = core::mem::take(self.pages.get_mut());
        CONTENT_PAGES.fetch_sub(pages.len() as u64, Ordering::Relaxed);
        pages.into_values().for_each(keep_no_longer);
    }
}

/// A file that mappings hold, by its id in the module.
#[derive(Debug)]
pub struct FileHandle {
    /// Space that holds the file.
    pub space: u32,
    /// Id in the module.
    pub id: u64,
    /// Inode and device, for `/proc/self/maps`.
    pub inode: u64,
    /// The device of the file's inode.
    pub device: u64,
    /// Bytes of the file when it was mapped.
    pub bytes: u64,
    /// Name, if known.
    pub name: String,
    /// The pages that have been read of it, where they may be shared.
    pub content: Option<Arc<Content>>,
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        services::put_file(self.space, self.id);
        // This one's, and that of `KEPT`.
        if let Some(content) = self.content.take_if(|content| Arc::strong_count(content) <= 2) {
            content.discharge();
            drop(content);
            settle();
        }
    }
}

/// A counted reference to a file.
pub type FileRef = Arc<FileHandle>;

impl FileHandle {
    /// Whether what is read of it is kept for others.
    pub fn is_known(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.runs.load(Ordering::Relaxed))
    }

    /// The file is going to be executed.
    pub fn set_runs(&self) {
        if let Some(content) = &self.content {
            content.runs.store(true, Ordering::Relaxed);
            content.stay();
        }
    }
}
