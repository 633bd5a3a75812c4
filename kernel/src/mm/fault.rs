//! Page faults: finding out what belongs at an address, and putting it there.

use super::{AddressSpace, FileRef, pte_bits, shared};
use crate::base::counts;
use crate::base::{frames, heap};
use crate::link::services::{self, Extents};
use crate::mm::space::Space;
use crate::process::Process;
use crate::process::thread;
use alloc::vec::Vec;
use core::ops::Range;
use hanare_abi::service::{EXTENTS_MAX, SERVICE_FILL};
use hanare_core::errno;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL};
use hanare_hal::{memory, shared as region};

/// Error code bits of a page fault (SDM volume 3, 4.7): the access was a write.
pub const WRITE: u64 = 2;
/// The access came from user mode.
pub const USER: u64 = 4;
/// The access was an instruction fetch.
pub const FETCH: u64 = 16;

/// Pages of an anonymous mapping brought in around a small fault.
const AROUND: u64 = 16;
/// Like [`AROUND`], where the program wants no large pages (stacks of threads): ten thousand of
/// these use a page or two each.
const AROUND_SPARSE: u64 = 4;
/// Pages of a file read at once (128 KiB).
const FILE_WINDOW: u64 = 32;

/// What the application gets for an access that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGSEGV, SEGV_MAPERR: nothing is mapped there.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR: not with these rights.
    NotAllowed,
    /// SIGBUS, BUS_ADRERR: behind the end of the file.
    Bus,
    /// Out of memory: the process is killed.
    NoMemory,
    /// SIGBUS, BUS_MCEERR_AR: the memory was bad, what was in it is lost.
    BadMemory,
}

/// Pages of a private file mapping on their way in.
pub struct Fill {
    /// First address, and the file's byte offset there.
    start: u64,
    offset: u64,
    file: FileRef,
    /// Runs of frames: (address, pages).
    runs: Vec<(u64, u32)>,
}

/// A [`Fill`] that a faulting Linux task runs (see `STATUS_SERVE_FIRST`).
pub struct PendingFill {
    /// The service.
    pub entry: services::Entry,
    /// The pages.
    pub fill: Fill,
    /// TSC value when the task was told of it.
    pub since: u64,
}

impl PendingFill {
    /// How long a task may take to begin what it was told of, ns.
    const PATIENCE_NS: u64 = 1_000_000_000;

    /// Whether it was run, or is not run any more: then it is withdrawn.
    pub fn is_over(&self) -> bool {
        let is_late = || {
            hanare_hal::cpu::rdtsc().wrapping_sub(self.since)
                > crate::base::time::ns_to_cycles(Self::PATIENCE_NS)
        };
        self.entry.is_done() || is_late() && self.entry.withdraw()
    }
}

/// What was done to a page that is to be written.
pub(super) enum Gained {
    /// It can be.
    Done,
    /// It can be, and is a copy now; the old frame is the caller's to give up.
    Copied(u64),
    /// Nothing: it has to be copied, and Linux has to forget it first.
    Seen,
}

/// What is to be done about a fault, decided under the lock.
enum Plan {
    Done,
    Fail(Signal),
    Fill(Fill),
    Resolve {
        watch_seen: u64,
    },
    /// A copy took the place of a shared page, which is given up.
    Copied {
        old: u64,
    },
    /// A page is to be copied that Linux may have: it forgets the page first.
    Forget,
}

/// A fault of the running thread in a user copy, or before one. May wait.
pub fn user(addr: u64, error: u64) -> Result<(), Signal> {
    serve(addr, error, false)
}

/// A fault of the running thread in user mode. May wait; not when a signal has come: it faults
/// again after that.
pub fn in_user_mode(addr: u64, error: u64) -> Result<(), Signal> {
    serve(addr, error, true)
}

fn serve(addr: u64, error: u64, may_come_again: bool) -> Result<(), Signal> {
    let thread = thread::current();
    let p = &thread.process;
    let wanted = if error & FETCH != 0 {
        Prot::EXEC
    } else if error & WRITE != 0 {
        Prot::WRITE
    } else {
        Prot::READ
    };
    counts::count(&thread.counts.faults);
    let mut forgotten = false;
    loop {
        if p.is_killed() {
            if forgotten {
                p.mm.lock().given_again(addr & !(SMALL - 1)); // others may have the memory, too
            }
            return Ok(());
        }
        let plan = plan(p, addr, wanted, forgotten);
        match plan {
            Plan::Done => return Ok(()),
            Plan::Fail(Signal::NoMemory) if super::release::make_room() => {}
            Plan::Fail(Signal::NoMemory) if super::oom::wait_for_room(p) => {}
            Plan::Fail(s) => return Err(s),
            Plan::Copied { old } => {
                super::release::page(p, old);
                return Ok(());
            }
            Plan::Forget => {
                let page = addr & !(SMALL - 1);
                forgotten = super::release::zap(p, page, page + SMALL);
                if !forgotten {
                    p.mm.lock().given_again(page); // it is asked for again
                }
                continue;
            }
            Plan::Resolve { watch_seen } => {
                shared::resolve(p, addr, wanted.contains(Prot::WRITE), watch_seen, may_come_again)?
            }
            Plan::Fill(fill) => {
                let ask = if may_come_again {
                    services::by_worker_unless_signalled
                } else {
                    services::by_worker
                };
                let answer = ask(SERVICE_FILL, &fill.args(), &fill.extents());
                if may_come_again && matches!(answer, Err(errno::EINTR)) && thread.has_signal() {
                    return Ok(());
                }
                finish(p, fill, answer.map(|a| a.status), addr)?;
            }
        }
        forgotten = false;
        if may_come_again && thread.has_signal() {
            return Ok(());
        }
    }
}

/// `forgotten`: Linux was asked to forget the page.
fn plan(p: &Process, addr: u64, wanted: Prot, forgotten: bool) -> Plan {
    let watch_seen = p.invalidations.load(core::sync::atomic::Ordering::Acquire);
    let mut mm = p.mm.lock();
    if forgotten {
        mm.given_again(addr & !(SMALL - 1));
    }
    let Some(vma) = mm.find_or_grow(p, addr) else { return Plan::Fail(Signal::NotMapped) };
    if !allows(vma.prot, wanted) {
        return Plan::Fail(Signal::NotAllowed);
    }
    match mm.table.find(addr) {
        Some(leaf) if super::bad::is_lost(&leaf) => Plan::Fail(Signal::BadMemory),
        Some(leaf)
            if leaf.entry & pte_bits(wanted) & hanare_hal::paging::pte::WRITE
                == pte_bits(wanted) & hanare_hal::paging::pte::WRITE
                && leaf.entry & hanare_hal::paging::pte::PRESENT != 0 =>
        {
            // Somebody else resolved it, or only the TLB was stale.
            hanare_hal::cpu::flush_page(addr & !(SMALL - 1));
            Plan::Done
        }
        Some(_) if matches!(vma.backing, Backing::SharedLinux { .. }) => {
            Plan::Resolve { watch_seen }
        }
        _ if mm.is_full() => Plan::Fail(Signal::NoMemory),
        Some(_) => mm.gain(&vma, addr & !(SMALL - 1), forgotten),
        None => mm.plan_missing(&vma, addr, watch_seen),
    }
}

/// What is brought in with the page `addr` of a file.
pub(super) fn file_window(vma: &Vma<FileRef>, addr: u64) -> (u64, u64) {
    let window = addr & !(FILE_WINDOW * SMALL - 1);
    (window.max(vma.start), (window + FILE_WINDOW * SMALL).min(vma.end))
}

/// x86 pages that can be written or executed can be read.
fn allows(prot: Prot, wanted: Prot) -> bool {
    if wanted == Prot::READ { !prot.is_empty() } else { prot.contains(wanted) }
}

impl AddressSpace {
    fn plan_missing(&mut self, vma: &Vma<FileRef>, addr: u64, watch_seen: u64) -> Plan {
        match &vma.backing {
            Backing::Anonymous => match self.populate_anonymous(vma, addr) {
                Ok(()) => Plan::Done,
                Err(()) => Plan::Fail(Signal::NoMemory),
            },
            Backing::PrivateFile { .. } if self.map_known(vma, addr, file_window(vma, addr)) => {
                Plan::Done
            }
            Backing::PrivateFile { .. } => match self.plan_fill(vma, addr) {
                Some(fill) => Plan::Fill(fill),
                None => Plan::Fail(Signal::NoMemory),
            },
            Backing::SharedLinux { .. } => Plan::Resolve { watch_seen },
            Backing::Special(SpecialKind::Vvar) => self.map_fixed(vma, addr, region::clock_paddr()),
            Backing::Special(SpecialKind::VvarEmpty) => match crate::mm::vdso::empty() {
                Some(frame) => self.map_fixed(vma, addr, frame),
                None => Plan::Fail(Signal::Bus),
            },
            Backing::Special(SpecialKind::Vdso) => {
                match crate::mm::vdso::frame((addr - vma.start) & !(SMALL - 1)) {
                    Some(frame) => self.map_fixed(vma, addr, frame),
                    None => Plan::Fail(Signal::Bus),
                }
            }
            Backing::Special(_) => Plan::Fail(Signal::Bus),
        }
    }

    fn map_fixed(&mut self, vma: &Vma<FileRef>, addr: u64, frame: u64) -> Plan {
        let entry = frame | pte_bits(vma.prot) | hanare_hal::paging::pte::FOREIGN;
        match self.table.map_small(addr & !(SMALL - 1), entry, &mut frames::UserTables) {
            Ok(()) => {
                // Counted as it is when it goes, and charged to nobody.
                self.add_resident(1);
                self.foreign += 1;
                Plan::Done
            }
            Err(_) => Plan::Fail(Signal::NoMemory),
        }
    }

    /// The frame is there with fewer rights than the mapping has: the mapping
    /// gained some since, or the page is shared after a fork and is copied now.
    fn gain(&mut self, vma: &Vma<FileRef>, page: u64, forgotten: bool) -> Plan {
        if self.join_large(vma, page) {
            return Plan::Done;
        }
        match self.make_writable(vma, page, forgotten) {
            Ok(Gained::Done) => Plan::Done,
            Ok(Gained::Copied(old)) => Plan::Copied { old },
            Ok(Gained::Seen) => {
                self.forgetting.push(page);
                Plan::Forget
            }
            Err(()) => Plan::Fail(Signal::NoMemory),
        }
    }

    /// Whether Linux is being asked to forget a page of a range.
    pub(super) fn forgets(&self, start: u64, end: u64) -> bool {
        self.forgetting.iter().any(|page| (start..end).contains(page))
    }

    /// A thread's `page` has been forgotten: Linux may have it again.
    fn given_again(&mut self, page: u64) {
        if let Some(at) = self.forgetting.iter().position(|&p| p == page) {
            self.forgetting.swap_remove(at);
        }
    }

    /// Gives a present page the rights of its mapping; if it is shared it is replaced by a
    /// copy, once Linux has `forgotten` it if it had seen it in this space: what it still
    /// wrote there would not be in the copy, and it would go on reading the old frame.
    pub(super) fn make_writable(
        &mut self,
        vma: &Vma<FileRef>,
        page: u64,
        forgotten: bool,
    ) -> Result<Gained, ()> {
        use hanare_hal::paging::pte;
        let Some(leaf) = self.table.find(page) else { return Ok(Gained::Done) };
        let foreign = leaf.entry & pte::FOREIGN != 0;
        if foreign
            || leaf.size == LARGE
            || !vma.prot.contains(Prot::WRITE)
            || !frames::is_shared(leaf.frame())
        {
            let is_files = leaf.size == SMALL
                && !foreign
                && vma.prot.contains(Prot::WRITE)
                && matches!(vma.backing, Backing::PrivateFile { .. });
            if is_files && !self.take(leaf.frame()) {
                return Err(());
            }
            self.refresh(page, vma.prot);
            return Ok(Gained::Done);
        }
        if leaf.entry & pte::SEEN != 0 && !forgotten {
            return Ok(Gained::Seen);
        }
        let new = self.alloc(0).ok_or(())?;
        memory::copy(new, leaf.frame(), SMALL as usize);
        if self.table.map_small(page, new | pte_bits(vma.prot), &mut frames::UserTables).is_err() {
            frames::free(new, 0);
            return Err(());
        }
        self.flush(page, page + SMALL);
        Ok(Gained::Copied(leaf.frame()))
    }

    /// Sets the rights of an existing small or large leaf from the mapping's.
    pub(super) fn refresh(&mut self, addr: u64, prot: Prot) {
        use hanare_hal::paging::pte;
        let Some(leaf) = self.table.find(addr).filter(|l| !super::bad::is_lost(l)) else { return };
        self.table.update(leaf.addr, leaf.addr + leaf.size, &mut |l| {
            let keep =
                l.entry & (pte::ADDRESS | pte::LARGE | pte::SEEN | pte::FOREIGN | pte::VALID);
            keep | pte_bits(prot)
        });
        hanare_hal::cpu::flush_page(addr);
    }

    /// Brings in zeroed memory around `addr`: a large page where the mapping
    /// covers one and nothing is there yet, else up to [`AROUND`] or [`AROUND_SPARSE`] small ones.
    pub(super) fn populate_anonymous(&mut self, vma: &Vma<FileRef>, addr: u64) -> Result<(), ()> {
        if self.populate_large(vma, addr & !(LARGE - 1)) {
            return Ok(());
        }
        let around =
            SMALL * if vma.flags.contains(VmaFlags::NOHUGE) { AROUND_SPARSE } else { AROUND };
        let window = addr & !(around - 1);
        let start = window.max(vma.start);
        let end = (window + around).min(vma.end);
        let page = addr & !(SMALL - 1);
        // The page asked for first: the others only as long as memory lasts.
        self.populate_small(vma, page)?;
        for at in (start..end).step_by(SMALL as usize) {
            if self.table.find(at).is_none() && self.populate_small(vma, at).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn populate_small(&mut self, vma: &Vma<FileRef>, page: u64) -> Result<(), ()> {
        let frame = self.alloc(0).ok_or(())?;
        memory::zero(frame, SMALL as usize);
        if self.table.map_small(page, frame | pte_bits(vma.prot), &mut frames::UserTables).is_err()
        {
            frames::free(frame, 0);
            return Err(());
        }
        self.add_resident(1);
        Ok(())
    }

    /// Brings in a zeroed large page at `large`, if the mapping covers it, nothing
    /// is there yet, and there is one.
    pub(super) fn populate_large(&mut self, vma: &Vma<FileRef>, large: u64) -> bool {
        let fits = large >= vma.start
            && large + LARGE <= vma.end
            && !vma.flags.intersects(VmaFlags::NOHUGE | VmaFlags::STACK);
        if !fits || !self.table.is_large_free(large) {
            return false;
        }
        let Some(frame) = self.alloc(9) else { return false };
        memory::zero(frame, LARGE as usize);
        let mapped = self.map_large(large, frame | pte_bits(vma.prot));
        if mapped {
            self.add_resident(512);
        } else {
            frames::free(frame, 9);
        }
        mapped
    }

    /// Frames for the missing pages around `addr` of a private file mapping.
    pub(super) fn plan_fill(&mut self, vma: &Vma<FileRef>, addr: u64) -> Option<Fill> {
        let Backing::PrivateFile { file, .. } = &vma.backing else { return None };
        let page = addr & !(SMALL - 1);
        let (low, high) = file_window(vma, addr);
        let (mut start, mut end) = (page, page + SMALL);
        while start > low && self.table.find(start - SMALL).is_none() {
            start -= SMALL;
        }
        while end < high && self.table.find(end).is_none() {
            end += SMALL;
        }
        let mut fill = Fill {
            start,
            offset: vma.file_offset(start)?,
            file: file.clone(),
            runs: heap::with_room(EXTENTS_MAX).ok()?,
        };
        // What is only read could be had again at any time, so Linux drops it before it refuses
        // anything. The LWK keeps it, and charges the user alone.
        let alloc = |order| {
            if vma.prot.contains(Prot::WRITE) {
                self.alloc_pages(order)
            } else {
                frames::alloc_pages(order)
            }
        };
        let mut left = ((end - start) / SMALL) as u32;
        while left > 0 {
            let order = 31 - left.leading_zeros();
            let run = (0..=order).rev().find_map(|o| alloc(o).map(|f| (f, 1u32 << o)));
            let Some(run) = run else {
                fill.free();
                return None;
            };
            fill.runs.push(run);
            left -= run.1;
            if fill.runs.len() == EXTENTS_MAX {
                break;
            }
        }
        Some(fill)
    }
}

impl Fill {
    /// Arguments of `SERVICE_FILL`.
    pub fn args(&self) -> [u64; 3] {
        [self.file.id, self.offset, self.bytes()]
    }

    /// Extents of `SERVICE_FILL`.
    pub fn extents(&self) -> Extents {
        Extents::of(self.runs.iter().map(|&(frame, pages)| frame | u64::from(pages - 1)))
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|&(_, n)| u64::from(n) * SMALL).sum()
    }

    /// The addresses it brings pages to.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.bytes()
    }

    /// Whether it brings what a mapping has at `addr`.
    pub fn brings(&self, vma: &Vma<FileRef>, addr: u64) -> bool {
        let is_file =
            matches!(&vma.backing, Backing::PrivateFile { file, .. } if *file == self.file);
        is_file
            && self.addresses().contains(&addr)
            && vma.file_offset(addr) == Some(self.offset + ((addr & !(SMALL - 1)) - self.start))
    }

    fn free(&mut self) {
        for (frame, pages) in self.runs.drain(..) {
            frames::free_run(frame, pages);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.free();
    }
}

/// Installs what was read. `addr` is the address that has to be there now.
pub fn finish(
    p: &Space,
    mut fill: Fill,
    read: hanare_core::errno::Result<u64>,
    addr: u64,
) -> Result<(), Signal> {
    let Ok(bytes) = read else { return Err(Signal::Bus) };
    let mut mm = p.mm.lock();
    let mut at = fill.start;
    let mut served = false;
    for (frame, pages) in core::mem::take(&mut fill.runs) {
        for i in 0..u64::from(pages) {
            let frame = frame + i * SMALL;
            let valid = bytes.saturating_sub(at - fill.start).min(SMALL);
            let offset = fill.offset + (at - fill.start);
            let vma = mm.vmas.find(at).filter(|v| {
                v.file_offset(at) == Some(offset)
                    && matches!(&v.backing, Backing::PrivateFile { file, .. } if *file == fill.file)
            });
            let prot = vma.map(|v| v.prot);
            let taken = match prot {
                Some(prot) if valid > 0 && mm.table.find(at).is_none() => {
                    memory::zero(frame + valid, (SMALL - valid) as usize);
                    mm.map_filled(&fill.file, offset, at, frame, prot)
                }
                _ => false,
            };
            if !taken {
                frames::free(frame, 0);
            }
            served |= at == addr & !(SMALL - 1) && (valid > 0 || prot.is_none());
            at += SMALL;
        }
    }
    // Too little memory for the whole window is no error if the page itself came.
    let reached = at > addr;
    if served || !reached { Ok(()) } else { Err(Signal::Bus) }
}
