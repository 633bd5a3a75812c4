//! Requests of Linux for a process' memory: pages for the proxy, and pages that it wants back.

use super::thread::finish;
use crate::base::frames;
use crate::base::{heap, lists};
use crate::link::services::{By, Entry};
use crate::mm::change::reserve::resume;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::address_space::is_shared;
use crate::mm::map::fill::{PendingFill, file_window};
use crate::mm::map::limits::Growth;
use crate::mm::map::populate::Gained;
use crate::mm::map::vdso;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_lost, is_owned, kind, pages_of, sight, sight_bits};
use crate::mm::pages::quarantine;
use crate::mm::window::messages;
use crate::mm::window::space::Space;
use core::sync::atomic::Ordering;
use hanare_abi::frame::GivenPage;
use hanare_abi::request::{
    FAULT_OR_COPY, FAULT_WRITE, PAGE_EXECUTABLE, PAGE_WRITABLE, PAGES_MAX, STATUS_SERVE_FIRST,
};
use hanare_abi::service::SERVICE_FILL;
use hanare_core::coherence::{Change, Sight};
use hanare_core::errno;
use hanare_core::framekind::FrameKind;
use hanare_core::mempolicy::Policy;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::cpu;
use hanare_hal::paging::{LARGE, Leaf, SMALL};
use hanare_hal::pte;
use hanare_hal::shared as region;
use hanare_ikc::{RequestCall, RequestRef};

/// Resources whose lack kept a fault of the proxy from being served.
pub enum Lack {
    /// Memory.
    Memory,
    /// An entry for a service.
    Entry,
}

/// How often one request prepares a page to be copied, which other threads' calls may each time
/// make vain.
const ROUNDS_MAX: u32 = 3;

/// Pages that a fault of Linux' asks for.
#[derive(Clone, Copy)]
struct Wanted {
    addr: u64,
    write: bool,
    /// A page that may not be written will do for reading.
    or_copy: bool,
    /// Most pages.
    most: usize,
}

impl Wanted {
    fn of(call: &RequestCall) -> Wanted {
        Wanted {
            addr: call.args[0] & !(SMALL - 1),
            write: call.args[1] & FAULT_WRITE != 0,
            or_copy: call.args[1] & FAULT_OR_COPY != 0,
            most: (call.args[2] as u32 as usize).clamp(1, PAGES_MAX),
        }
    }

    /// The wish, as far as a mapping allows it. `None`: it does not.
    fn of_mapping(self, vma: &Vma<FileRef>) -> Option<Wanted> {
        let writable = vma.prot.contains(Prot::WRITE);
        let write = self.write && (writable || !self.or_copy);
        let is_allowed = if write { writable } else { !vma.prot.is_empty() };
        let is_linuxs = matches!(vma.backing, Backing::SharedLinux { .. });
        (is_allowed && !is_linuxs).then_some(Wanted { write, ..self })
    }
}

/// How far a page is prepared for Linux.
enum Ready {
    /// The page can be given. If a copy has taken the place of a frame, its mapping is to be given
    /// up.
    Yes(Option<PhysAddr>),
    /// The request is answered with this status.
    Answered(i32),
    /// Other CPUs have to see something first, as they have when the lock was given back.
    Later,
}

/// `REQUEST_FAULT`: the status to answer with. `wish`: the NUMA policy of the thread for which the
/// proxy faults.
pub fn fault(
    p: &Space,
    growth: impl FnOnce() -> Growth,
    wish: Option<Policy>,
    r: &RequestRef<'_>,
    call: &RequestCall,
) -> Result<i32, Lack> {
    let mut growth = Some(growth);
    let wanted = Wanted::of(call);
    let addr = wanted.addr;
    if Space::is_control(addr) {
        return give_control(p, r, addr);
    }
    if messages::contains(addr) {
        let mut pages = [GivenPage::NONE; PAGES_MAX];
        let n = messages::pages(p, addr, &mut pages[..wanted.most]);
        return Ok(if n == 0 { -errno::EFAULT.0 } else { answer(r, addr, &pages[..n]) });
    }
    let run = (call.args[3] as u32).checked_sub(1);
    if !finish_fills(p, run, addr) {
        return Ok(-errno::EFAULT.0);
    }
    // The module has removed what it had mapped there before it asked.
    let mut change = Change::of_forgotten(PageRange::page(addr));
    let mut rounds = 0;
    loop {
        let mut mm = p.mm.lock();
        mm.set_wish(wish);
        if change.is_waiting() {
            resume(p, &mut mm, &mut change, true);
        }
        rounds += 1;
        if rounds > ROUNDS_MAX {
            return Ok(-errno::EAGAIN.0); // it faults again; other requests come first
        }
        let vma = match growth.take() {
            Some(growth) => mm.find_or_grow(addr, growth),
            None => mm.mappings().find(addr).cloned(),
        };
        if mm.must_settle(addr, vma.as_ref()) {
            return Ok(-errno::EAGAIN.0); // it faults again
        }
        let Some(vma) = vma else { return Ok(-errno::EFAULT.0) };
        if mm.leaf(addr).is_some_and(|l| sight(l.entry).is_seen()) {
            p.losses.fetch_add(1, Ordering::Relaxed);
        }
        let Some(wanted) = wanted.of_mapping(&vma) else { return Ok(-errno::EFAULT.0) };
        let given_up = match prepare(p, &mut mm, &vma, wanted, &mut change, r)? {
            Ready::Yes(given_up) => given_up,
            Ready::Answered(status) => return Ok(status),
            Ready::Later => continue,
        };
        let mut pages = [GivenPage::NONE; PAGES_MAX];
        let n = mm.collect(&vma, addr, wanted.write, &mut pages[..wanted.most]);
        drop(mm);
        p.end_bounces();
        // None: a page beside it in a large one is being forgotten. It faults again.
        let status = if n == 0 { -errno::EAGAIN.0 } else { answer(r, addr, &pages[..n]) };
        if let Some(old) = given_up {
            quarantine::page_deferred(old, Some(&p.account));
        }
        return Ok(status);
    }
}

/// Answers with a page of the control window.
fn give_control(p: &Space, r: &RequestRef<'_>, addr: u64) -> Result<i32, Lack> {
    match p.control_page(addr) {
        Ok(frame) => Ok(answer(r, addr, &[frame.given(PAGE_WRITABLE)])),
        // No process' end helps a user at the limit.
        Err(_) if p.account.may_have(2 * SMALL).is_err() => Ok(-errno::EFAULT.0),
        Err(errno::ENOMEM) => Err(Lack::Memory),
        Err(e) => Ok(-e.0),
    }
}

/// Brings the page of a fault in, and makes it the process' own where it is to be written.
fn prepare(
    p: &Space,
    mm: &mut AddressSpace,
    vma: &Vma<FileRef>,
    wanted: Wanted,
    change: &mut Change,
    r: &RequestRef<'_>,
) -> Result<Ready, Lack> {
    let Wanted { addr, write, .. } = wanted;
    let is_kernels = mm.leaf(addr).is_none_or(|leaf| !is_owned(leaf.entry));
    if let Backing::Special(kind) = vma.backing
        && is_kernels
    {
        let given = if write { None } else { mm.give_special(vma, kind, addr)? };
        let status = given.map_or(-errno::EFAULT.0, |page| answer(r, addr, &[page]));
        return Ok(Ready::Answered(status));
    }
    if mm.is_reserved(PageRange::page(addr)) {
        return Ok(Ready::Answered(-errno::EAGAIN.0)); // it faults again
    }
    if mm.leaf(addr).is_none() {
        if mm.is_full() {
            return Err(Lack::Memory);
        }
        match vma.backing {
            Backing::Anonymous => {
                mm.populate_anonymous(vma, addr, write).map_err(|_| Lack::Memory)?;
            }
            Backing::PrivateFile { .. } if mm.map_known(vma, addr, file_window(vma, addr)) => {}
            Backing::PrivateFile { .. } => {
                return serve_first(p, mm, vma, addr, r).map(Ready::Answered);
            }
            _ => return Ok(Ready::Answered(-errno::EFAULT.0)),
        }
    }
    if mm.leaf(addr).is_some_and(|l| is_lost(&l)) {
        return Ok(Ready::Answered(-errno::EFAULT.0));
    }
    if !write || mm.leaf(addr).is_none_or(|l| l.entry.has(pte::WRITE)) {
        return Ok(Ready::Yes(None));
    }
    match mm.make_writable(vma, addr, change) {
        Ok(Gained::Copied(old)) => Ok(Ready::Yes(Some(old))),
        Ok(Gained::Done) => Ok(Ready::Yes(None)),
        Ok(Gained::Waits { .. }) => Ok(Ready::Later),
        Ok(Gained::Forks) => Ok(Ready::Answered(-errno::EAGAIN.0)), // it faults again
        Err(()) => Err(Lack::Memory),
    }
}

/// The frame of a page of the vDSO, `offset` bytes behind its mapping's start.
fn special_frame(kind: SpecialKind, offset: u64) -> Option<PhysAddr> {
    match kind {
        SpecialKind::Vvar => Some(region::clock_paddr()),
        SpecialKind::VvarEmpty => vdso::empty(),
        SpecialKind::Vdso => vdso::frame(offset),
        _ => None,
    }
}

fn answer(r: &RequestRef<'_>, addr: u64, pages: &[GivenPage]) -> i32 {
    r.set_arg(0, addr);
    r.set_pages(pages);
    0
}

fn serve_first(
    p: &Space,
    mm: &mut AddressSpace,
    vma: &Vma<FileRef>,
    addr: u64,
    r: &RequestRef<'_>,
) -> Result<i32, Lack> {
    let mut fills = p.fills.lock();
    // One that another task runs, or was to run, is waited for.
    if let Some(f) = fills.iter().find(|f| f.fill.brings(vma, addr)) {
        r.set_arg(3, u64::from(f.entry.index()));
        return Ok(STATUS_SERVE_FIRST);
    }
    heap::more_room(&mut fills, 1).map_err(|_| Lack::Memory)?;
    let Some(fill) = mm.plan_fill(vma, addr) else { return Err(Lack::Memory) };
    let Some(entry) = Entry::of(p.owner(), By::Fault, SERVICE_FILL, &fill.args(), &fill.extents())
    else {
        return Err(Lack::Entry);
    };
    r.set_arg(3, u64::from(entry.index()));
    lists::push_within(&mut fills, PendingFill { entry, fill, since: cpu::rdtsc() });
    Ok(STATUS_SERVE_FIRST)
}

/// Installs what was read for faults, also of other tasks: they may have been killed. `run`: the
/// service that this task says was run for `addr`. False: it brought no page there.
pub fn finish_fills(p: &Space, run: Option<u32>, addr: u64) -> bool {
    let mut ok = true;
    while let Some(f) = take_over(p) {
        let Some(answer) = f.entry.answer() else { continue }; // withdrawn
        let ours = run == Some(f.entry.index()) && f.fill.addresses().contains(&addr);
        let at = if ours { addr } else { f.fill.addresses().start };
        ok &= finish(p, f.fill, answer.ok().map(|a| a.status), at).is_ok() || !ours;
    }
    ok
}

/// A fill that was run, or whose task is gone.
fn take_over(p: &Space) -> Option<PendingFill> {
    let mut fills = p.fills.lock();
    let i = fills.iter().position(PendingFill::is_over)?;
    Some(fills.swap_remove(i))
}

impl AddressSpace {
    /// A page of the vDSO, as Linux may map it. It is marked seen: what is mapped there later must
    /// not meet it.
    fn give_special(
        &mut self,
        vma: &Vma<FileRef>,
        kind: SpecialKind,
        addr: u64,
    ) -> Result<Option<GivenPage>, Lack> {
        let Some(frame) = special_frame(kind, addr - vma.start) else { return Ok(None) };
        if self.leaf(addr).is_none() {
            if self.is_full() {
                return Err(Lack::Memory);
            }
            self.map_fixed(vma, addr, frame).map_err(|()| Lack::Memory)?;
        }
        self.change_pages(PageRange::of(addr, addr + SMALL), &mut |leaf| leaf.entry | pte::SEEN);
        let executable = if vma.prot.contains(Prot::EXEC) { PAGE_EXECUTABLE } else { 0 };
        Ok(Some(frame.given(executable)))
    }

    /// Frames from `addr` on, as Linux may map them; they are marked seen.
    pub(super) fn collect(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        write: bool,
        pages: &mut [GivenPage],
    ) -> usize {
        let end = vma.end.min(addr + pages.len() as u64 * SMALL);
        let executable = if vma.prot.contains(Prot::EXEC) { PAGE_EXECUTABLE } else { 0 };
        // Ahead of what was asked for only where it is going to be written, and that need not be
        // seen.
        let ahead = write
            && matches!(vma.backing, Backing::Anonymous)
            && !vma.flags.contains(VmaFlags::SOFT_CLEAN);
        let mut n = 0;
        let mut at = addr;
        while at < end {
            if self.leaf(at).is_none()
                && (!ahead || self.populate_anonymous(vma, at, true).is_err())
            {
                break;
            }
            let Some(leaf) = self.next_to_give(vma, at, addr, write) else { break };
            // Linux may write to a page that was not written yet once it asks for that.
            let writable = leaf.entry.has(pte::WRITE) && (write || leaf.entry.has(pte::DIRTY));
            self.note_given(&leaf, writable);
            let stop = end.min(leaf.addr + leaf.size);
            while at < stop {
                let rights = executable | if writable { PAGE_WRITABLE } else { 0 };
                pages[n] = (leaf.frame() + (at - leaf.addr)).given(rights);
                n += 1;
                at += SMALL;
            }
        }
        n
    }

    /// The leaf of `at`, if Linux may be given it with the page at `asked`.
    fn next_to_give(
        &mut self,
        vma: &Vma<FileRef>,
        at: u64,
        asked: u64,
        write: bool,
    ) -> Option<Leaf> {
        let mut leaf = self.leaf(at)?;
        if write
            && at != asked
            && !leaf.entry.has(pte::WRITE | pte::SOFT_CLEAN)
            && is_owned(leaf.entry)
            && !is_shared(&leaf)
        {
            // The frame is not shared any more.
            self.refresh(at, vma.prot);
            leaf = self.leaf(at).unwrap_or(leaf);
        }
        let (base, end) = (leaf.addr, leaf.addr + leaf.size);
        // One that is shared after a fork is copied when it is asked for itself, or its next write
        // is to be seen.
        let is_kept = is_lost(&leaf) || write && !leaf.entry.has(pte::WRITE);
        // Whether it is accessed is to be seen.
        let is_watched = !leaf.entry.has(pte::ACCESSED) && !(base..end).contains(&asked);
        let is_reserved = self.is_reserved(PageRange::of(base.max(at), end));
        (!is_kept && !is_watched && !is_reserved).then_some(leaf)
    }

    /// Notes that Linux is given a leaf, for writing, too, if `writable`.
    fn note_given(&mut self, leaf: &Leaf, writable: bool) {
        let before = sight(leaf.entry);
        let given = before.given(writable);
        if given == before && leaf.entry.has(pte::ACCESSED) {
            return;
        }
        if leaf.size == LARGE {
            crate::base::mappings::mark_large_seen(leaf.frame());
        } else {
            frames::mark_seen(leaf.frame());
        }
        if given == Sight::Write {
            self.count_lent(leaf.size / SMALL);
        }
        let lent = pte::LENT | pte::DIRTY | pte::ACCESSED;
        let noted = if writable { lent } else { pte::ACCESSED };
        let given = sight_bits(given) | noted;
        self.change_pages(pages_of(leaf), &mut |l| l.entry | given);
    }
}

/// `REQUEST_INVALIDATE`: Linux takes back frames of a shared mapping.
pub fn invalidate(p: &Space, range: PageRange) {
    let mut mm = p.mm.lock();
    p.invalidations.fetch_add(1, Ordering::AcqRel);
    let mut is_removed = false;
    mm.change_pages(range, &mut |leaf| match kind(leaf.entry) {
        FrameKind::Own | FrameKind::Lost => leaf.entry,
        FrameKind::PageCache | FrameKind::Kernel | FrameKind::Device(_) => {
            is_removed = true;
            pte::Entry::NONE
        }
    });
    if is_removed {
        mm.flush(range);
    }
}
