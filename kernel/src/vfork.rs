//! vfork: the child runs on a copy of the parent's memory, and the parent waits. What
//! the child wrote there until its exec or end is the parent's when that goes on, as if
//! they had shared it: posix_spawn tells its errors this way. So is anonymous memory that
//! it mapped (malloc does), unmapped or protected. Other threads of the parent, which
//! run on, see nothing of it until then.

use crate::mm::patch::{self, is_private};
use crate::mm::{AddressSpace, FileRef, calls};
use crate::process::Process;
use crate::thread::Thread;
use crate::{cpus, frames};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::vma::{Backing, Change, Vma, Was};
use hanare_hal::paging::pte;
use hanare_hal::memory;
use spin::Mutex;

/// No more pages than this are handed over, and never more than an eighth of what is free: a
/// child that does more before its exec keeps the rest to itself.
const PAGES_MAX: u64 = 16384;

/// The map of the memory that both have in the beginning (CLONE_VM).
pub struct Common {
    mappings: Vec<Was>,
    brk: u64,
}

impl Common {
    /// As it is in the child's copy.
    pub fn of(mm: &AddressSpace) -> Common {
        Common { mappings: mm.vmas.outline(is_private), brk: mm.brk }
    }
}

/// What the child did to it.
struct Done {
    /// Address and content of pages that it wrote.
    pages: Vec<(u64, Vec<u8>)>,
    /// In the map.
    changes: Vec<Change<FileRef>>,
    brk: u64,
}

/// A parent that waits for its child's exec or end.
pub struct Vfork {
    done: AtomicBool,
    /// `None`: they share nothing.
    common: Option<Common>,
    /// Who waits.
    parent: Arc<Thread>,
    /// Known when the child is about to lose that memory.
    child: Mutex<Option<Done>>,
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
    pub fn new(parent: Arc<Thread>, common: Option<Common>) -> Arc<Vfork> {
        Arc::new(Vfork { done: AtomicBool::new(false), common, parent, child: Mutex::new(None) })
    }

    /// Whether parent and child share memory.
    pub fn shares(&self) -> bool {
        self.common.is_some()
    }

    /// The child is about to lose the memory it had from its parent. Only the first
    /// call counts.
    pub fn keep(&self, mm: &mut AddressSpace) {
        let mut child = self.child.lock();
        if let Some(common) = &self.common
            && child.is_none()
        {
            let changes = mm.vmas.changes(&common.mappings, is_anonymous);
            *child = Some(Done { pages: written_pages(mm), changes, brk: mm.brk });
        }
    }

    /// The child has its own program, or is gone.
    pub fn release(&self) {
        self.done.store(true, Ordering::Release);
        cpus::kick(&self.parent);
    }

    /// The parent, which runs, waits for that and takes over what the child did.
    pub fn wait(&self) {
        let thread = cpus::current();
        cpus::wait(&Released { thread, vfork: self }, 0);
        if thread.must_end() {
            return;
        }
        let done = self.child.lock().take();
        if let (Some(done), Some(common)) = (done, &self.common) {
            take_over(&thread.process, done, common);
        }
    }
}

/// What the child did is done to the parent's memory: as far as it has room for it, and
/// other threads have not put something else there.
fn take_over(p: &Process, done: Done, common: &Common) {
    // Of the child's pages these are the parent's, too. At other addresses another thread may
    // have a mapping of its own by now: both sides look for room from the same map.
    let mut shared: Vec<(u64, u64)> = common.mappings.iter().map(|w| (w.start, w.end)).collect();
    for change in done.changes {
        match change {
            Change::Unmapped(start, end) => drop(calls::unmap_range(p, start, end)),
            Change::Mapped(mapping) => {
                let range = (mapping.start, mapping.end);
                if p.mm.lock().vmas.insert(mapping).is_ok() {
                    shared.push(range);
                }
            }
            Change::Protected(start, end, prot) => drop(calls::mprotect(start, end - start, u64::from(prot.bits()))),
        }
    }
    shared.sort_unstable();
    let is_shared = |at| shared.get(shared.partition_point(|r| r.1 <= at)).is_some_and(|r| r.0 <= at);
    {
        let mut mm = p.mm.lock();
        if mm.brk == common.brk && (done.brk <= common.brk || is_shared(done.brk - 1)) {
            mm.brk = done.brk;
        }
    }
    // Where nobody else runs, what the parent has written since is what the call itself
    // wrote for it (CLONE_PIDFD, CLONE_PARENT_SETTID), which is written again.
    let alone = p.thread_count() == 1;
    for (page, bytes) in done.pages.into_iter().filter(|(page, _)| is_shared(*page)) {
        let _ = patch::hand_over(p, page, &bytes, alone);
    }
}

fn is_anonymous(v: &Vma<FileRef>) -> bool {
    is_private(v) && v.backing == Backing::Anonymous
}

/// Private pages that were written since the fork, which left none writable.
fn written_pages(mm: &mut AddressSpace) -> Vec<(u64, Vec<u8>)> {
    let most = PAGES_MAX.min(frames::usage().0 / 4096 / 8) as usize;
    let mut pages = Vec::new();
    for v in mm.vmas.iter().filter(|v| is_private(v)) {
        if pages.len() >= most {
            break;
        }
        mm.table.update(v.start, v.end, &mut |leaf| {
            let own = leaf.entry & pte::WRITE != 0 && leaf.entry & pte::FOREIGN == 0;
            for offset in (0..leaf.size).step_by(4096).filter(|_| own) {
                if pages.len() >= most {
                    break;
                }
                let mut bytes = vec![0; 4096];
                memory::read(leaf.frame() + offset, &mut bytes);
                // Most of a large page that was not there before is untouched.
                if leaf.size == 4096 || bytes.iter().any(|&b| b != 0) {
                    pages.push((leaf.addr + offset, bytes));
                }
            }
            leaf.entry
        });
    }
    pages
}
