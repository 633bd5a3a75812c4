//! vfork: the child runs on a copy of the parent's memory, and the parent waits. What
//! the child wrote there until its exec or end is the parent's when that goes on, as if
//! they had shared it: posix_spawn tells its errors this way.

use crate::mm::{AddressSpace, patch};
use crate::thread::Thread;
use crate::cpus;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::vma::{Backing, VmaFlags};
use hanare_hal::paging::pte;
use hanare_hal::memory;
use spin::Mutex;

/// No more pages than this are handed over: a child that does more before its exec
/// than posix_spawn does keeps the rest to itself.
const PAGES_MAX: usize = 2048;

/// A parent that waits for its child's exec or end.
pub struct Vfork {
    done: AtomicBool,
    /// They share memory (CLONE_VM).
    shares: bool,
    /// Who waits.
    parent: Arc<Thread>,
    /// What the child wrote: address and content of pages, once it is known.
    written: Mutex<Option<Vec<(u64, Vec<u8>)>>>,
}

struct Released<'a> {
    thread: &'a Thread,
    vfork: &'a Vfork,
}

impl cpus::Wait for Released<'_> {
    fn ready(&self) -> bool {
        self.thread.must_end() || self.vfork.done.load(Ordering::Acquire)
    }
    fn announce(&self, _: bool) {}
}

impl Vfork {
    /// For a child that `parent` makes.
    pub fn new(parent: Arc<Thread>, shares: bool) -> Arc<Vfork> {
        Arc::new(Vfork { done: AtomicBool::new(false), shares, parent, written: Mutex::new(None) })
    }

    /// The child is about to lose the memory it had from its parent. Only the first
    /// call counts.
    pub fn keep(&self, mm: &mut AddressSpace) {
        let mut written = self.written.lock();
        if self.shares && written.is_none() {
            *written = Some(written_pages(mm));
        }
    }

    /// The child has its own program, or is gone.
    pub fn release(&self) {
        self.done.store(true, Ordering::Release);
        cpus::kick(&self.parent);
    }

    /// The parent, which runs, waits for that and takes over what the child wrote.
    pub fn wait(&self) {
        let thread = cpus::current();
        cpus::wait(&Released { thread, vfork: self }, 0);
        if thread.must_end() {
            return;
        }
        let written = self.written.lock().take();
        for (page, bytes) in written.into_iter().flatten() {
            let _ = patch::hand_over(&thread.process, page, &bytes); // the parent has no memory for it, or unmapped it
        }
    }
}

/// Private pages that were written since the fork, which left none writable.
fn written_pages(mm: &mut AddressSpace) -> Vec<(u64, Vec<u8>)> {
    let mut pages = Vec::new();
    for v in mm.vmas.iter().filter(|v| !v.flags.contains(VmaFlags::SHARED)) {
        if !matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. }) {
            continue;
        }
        mm.table.update(v.start, v.end, &mut |leaf| {
            let own = leaf.entry & pte::WRITE != 0 && leaf.entry & pte::FOREIGN == 0;
            for offset in (0..leaf.size).step_by(4096).filter(|_| own) {
                let mut bytes = vec![0; 4096];
                memory::read(leaf.frame() + offset, &mut bytes);
                // Most of a large page that was not there before is untouched.
                let fresh = leaf.size == 4096 || bytes.iter().any(|&b| b != 0);
                if fresh && pages.len() < PAGES_MAX {
                    pages.push((leaf.addr + offset, bytes));
                }
            }
            leaf.entry
        });
    }
    pages
}
