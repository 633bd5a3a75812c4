//! Page faults: finding out what belongs at an address, and putting it there.

use crate::link::services;
use crate::mm::change::reserve::{must_wait, resume, wait_until_settled};
use crate::mm::change::shared;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::fill::{Fill, file_window};
use crate::mm::map::kept::kept_for;
use crate::mm::map::limits::Growth;
use crate::mm::map::populate::Gained;
use crate::mm::map::vdso;
use crate::mm::pages::access::{FaultInfo, Signal};
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_lost, pages_of};
use crate::mm::window::caller::Caller;
use crate::mm::window::release;
use crate::mm::window::space::Space;
use core::sync::atomic::Ordering;
use hanare_abi::layout::USER_MAX;
use hanare_abi::service::SERVICE_FILL;
use hanare_core::addr::page_down;
use hanare_core::coherence::Change;
use hanare_core::errno;
use hanare_core::link::Failure;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;
use hanare_hal::pte::{self, Bits};
use hanare_hal::usercopy::UserAddr;
use hanare_hal::{cpu, shared as region};

/// The thread that faults. Only threads are: they stand above the memory, which calls up for
/// limits and free memory.
pub trait Faulting {
    /// The view that memory operations have of the thread.
    fn caller(&self) -> Caller<'_>;
    /// Counts the fault.
    fn count_fault(&self);
    /// How far its mappings may grow; `None`: Linux has to be asked first
    /// ([`Faulting::look_at_limits`]).
    fn growth(&self) -> Option<Growth>;
    /// Asks Linux for its limits.
    fn look_at_limits(&self);
    /// Waits until memory is free. False: there will be none.
    fn wait_for_memory(&self) -> bool;
}

/// The step that serves a fault, decided under the lock.
enum Plan {
    Done,
    Fail(Signal),
    Fill(Fill),
    Resolve {
        watch_seen: u64,
        settled: u32,
    },
    /// A copy took the place of a shared page, which is given up.
    Copied {
        old: PhysAddr,
    },
    /// A thread is moving it, or about to take it away.
    Settle(u32),
    /// A page is to be copied: CPUs drop it first, and Linux forgets it if `ask`.
    Wait {
        ask: bool,
    },
}

/// A fault of the running thread in a user copy, or before one. May wait.
pub fn user(thread: &impl Faulting, addr: UserAddr, error: u64) -> Result<(), Signal> {
    serve(thread, FaultInfo::of(addr, error, false))
}

/// A fault of the running thread in user mode. May wait; not when a signal has come: it faults
/// again after that.
pub fn in_user_mode(thread: &impl Faulting, addr: UserAddr, error: u64) -> Result<(), Signal> {
    serve(thread, FaultInfo::of(addr, error, true))
}

fn serve(thread: &impl Faulting, fault: FaultInfo) -> Result<(), Signal> {
    let p = &thread.caller();
    let (page, may_come_again) = (fault.page(), fault.may_come_again);
    thread.count_fault();
    // The last page of all has no end, and is no program's.
    let end = page.checked_add(SMALL).ok_or(Signal::NotMapped)?;
    let pages = PageRange::of(page, end);
    let mut change = Change::new(pages);
    let mut is_forgotten = false;
    loop {
        if p.is_killed() {
            if change.is_waiting() {
                resume(p.memory, &mut p.memory.mm.lock(), &mut change, is_forgotten); // others may have the memory, too
            }
            return Ok(());
        }
        let mut is_unknown = false;
        let plan = plan(p, &fault, &mut change, is_forgotten, || {
            let growth = thread.growth();
            is_unknown = growth.is_none();
            growth.unwrap_or(Growth { space: 0, stack: 0 })
        });
        match plan {
            Plan::Done => return Ok(()),
            Plan::Fail(Signal::NotMapped) if is_unknown => thread.look_at_limits(),
            Plan::Fail(Signal::NoMemory) if thread.wait_for_memory() => {}
            Plan::Fail(s) => return Err(s),
            Plan::Copied { old } => {
                release::page(p, old);
                return Ok(());
            }
            Plan::Wait { ask } => {
                is_forgotten = !ask || release::zap(p, pages);
                continue;
            }
            // As of a resolution: a thread that has to end would ask for ever.
            Plan::Settle(busy) => wait_until_settled(p, busy).map_err(|_| Signal::Bus)?,
            Plan::Resolve { watch_seen, settled } => {
                let resolved = shared::resolve(p, &fault, watch_seen);
                if let Err(s) = resolved
                    && !may_have_moved(p, page, settled)
                {
                    return Err(s);
                }
            }
            Plan::Fill(fill) => {
                if !bring_in(p, fill, &fault)? {
                    return Ok(()); // it faults again
                }
            }
        }
        if may_come_again && p.thread.has_signal() {
            return Ok(());
        }
    }
}

/// Has Linux read pages of a file, and installs them. False: a signal came first.
fn bring_in(p: &Caller<'_>, fill: Fill, fault: &FaultInfo) -> Result<bool, Signal> {
    let ask = if fault.may_come_again {
        services::by_worker_unless_signalled
    } else {
        services::by_worker
    };
    let answer = ask(p.thread, SERVICE_FILL, &fill.args(), &fill.extents());
    let came_first = match answer {
        Err(Failure::NotStarted) => true,
        Err(Failure::Refused(errno::EINTR)) => fault.may_come_again && p.thread.has_signal(),
        _ => false,
    };
    if !came_first {
        finish(p.memory, fill, answer.ok().map(|a| a.status), fault.addr.get())?;
    }
    Ok(!came_first)
}

/// Whether Linux may have had no page at `page` only because another thread was moving the mapping.
/// `settled`: as it was before Linux was asked. A thread that has to end does not ask again.
fn may_have_moved(p: &Caller<'_>, page: u64, settled: u32) -> bool {
    let mm = p.memory.mm.lock();
    let is_busy = must_wait(p.memory, &mm, PageRange::page(page)).is_some();
    (is_busy || p.memory.settled.load(Ordering::Relaxed) != settled) && !p.must_end()
}

/// `is_forgotten`: Linux has forgotten what `change` has reserved.
fn plan(
    p: &Caller<'_>,
    fault: &FaultInfo,
    change: &mut Change,
    is_forgotten: bool,
    growth: impl FnOnce() -> Growth,
) -> Plan {
    let (addr, page) = (fault.addr.get(), fault.page());
    let watch_seen = p.memory.invalidations.load(Ordering::Acquire);
    let mut mm = p.memory.mm.lock();
    mm.set_wish(p.policy.wish());
    resume(p.memory, &mut mm, change, is_forgotten);
    let found = mm.find_or_grow(addr, growth);
    if mm.must_settle(addr, found.as_ref()) {
        return Plan::Settle(p.memory.settled.load(Ordering::Relaxed));
    }
    let Some(vma) = found else { return Plan::Fail(Signal::NotMapped) };
    if !fault.is_allowed(vma.prot) {
        return Plan::Fail(Signal::NotAllowed);
    }
    let needed = if fault.writes() { pte::WRITE } else { Bits::NONE };
    match mm.leaf(addr) {
        Some(leaf) if is_lost(&leaf) => Plan::Fail(Signal::BadMemory),
        Some(leaf) if leaf.entry.only(needed) == needed && leaf.entry.has(pte::PRESENT) => {
            // Another thread resolved it, or only the TLB was stale; or it was there ahead, and is
            // populated now.
            if !leaf.entry.has(pte::ACCESSED) {
                mm.change_pages(pages_of(&leaf), &mut |l| l.entry | pte::ACCESSED);
            }
            cpu::flush_page(page);
            Plan::Done
        }
        Some(_) if matches!(vma.backing, Backing::SharedLinux { .. }) => {
            Plan::Resolve { watch_seen, settled: p.memory.settled.load(Ordering::Relaxed) }
        }
        // Hidden for a change under way. Made visible here it would have to be hidden, and Linux
        // asked, again, for as long as a thread reads it. One that can be written is copied for the
        // reader instead.
        Some(leaf)
            if !leaf.entry.has(pte::PRESENT)
                && !vma.prot.contains(Prot::WRITE)
                && mm.is_reserved(pages_of(&leaf)) =>
        {
            Plan::Settle(p.memory.settled.load(Ordering::Relaxed))
        }
        _ if mm.is_full() => Plan::Fail(Signal::NoMemory),
        Some(_) => mm.gain(p.memory, &vma, page, change),
        None => {
            let settled = p.memory.settled.load(Ordering::Relaxed);
            let plan = mm.plan_missing(&vma, fault, Plan::Resolve { watch_seen, settled });
            // There as if it had been read: the write is to be seen.
            let is_watched = fault.writes() && vma.flags.contains(VmaFlags::SOFT_CLEAN);
            match plan {
                Plan::Done if is_watched => mm.gain(p.memory, &vma, page, change),
                plan => plan,
            }
        }
    }
}

/// `Err`: there was no memory.
fn done(result: Result<(), ()>) -> Plan {
    result.map_or(Plan::Fail(Signal::NoMemory), |()| Plan::Done)
}

impl AddressSpace {
    /// Whether an access to `addr` waits for another thread: what is mapped there, as `found`, is
    /// being replaced, or what is above it, which may then grow down to there.
    pub(super) fn must_settle(&self, addr: u64, found: Option<&Vma<FileRef>>) -> bool {
        // Most mappings have neither flag.
        let marks = VmaFlags::FIXED_KERNEL | VmaFlags::MOVING;
        match found {
            Some(vma) if !vma.flags.intersects(marks) => false,
            Some(vma) => kept_for(vma).is_some() && self.is_settling_above(addr),
            None => self.is_settling_above(addr),
        }
    }

    #[cold]
    fn is_settling_above(&self, addr: u64) -> bool {
        let mut is_busy = false;
        for vma in self.mappings().range(PageRange::of_user(page_down(addr), USER_MAX)) {
            match kept_for(vma) {
                Some(kept) if kept.holds_accesses() => return true,
                // A thread unmaps there: when it has, the mapping above may grow.
                Some(kept) if kept.keeps_waiting() => is_busy = true,
                Some(_) => return false,
                None => return is_busy && vma.flags.contains(VmaFlags::GROWSDOWN),
            }
        }
        false
    }

    fn plan_missing(&mut self, vma: &Vma<FileRef>, fault: &FaultInfo, resolve: Plan) -> Plan {
        let addr = fault.addr.get();
        match &vma.backing {
            Backing::Anonymous => done(self.populate_anonymous(vma, addr, fault.writes())),
            Backing::PrivateFile { .. } if self.map_known(vma, addr, file_window(vma, addr)) => {
                Plan::Done
            }
            Backing::PrivateFile { .. } => match self.plan_fill(vma, addr) {
                Some(fill) => Plan::Fill(fill),
                None => Plan::Fail(Signal::NoMemory),
            },
            Backing::SharedLinux { .. } => resolve,
            Backing::Special(SpecialKind::Vvar) => {
                done(self.map_fixed(vma, addr, region::clock_paddr()))
            }
            Backing::Special(SpecialKind::VvarEmpty) => match vdso::empty() {
                Some(frame) => done(self.map_fixed(vma, addr, frame)),
                None => Plan::Fail(Signal::Bus),
            },
            Backing::Special(SpecialKind::Vdso) => {
                match vdso::frame((addr - vma.start) & !(SMALL - 1)) {
                    Some(frame) => done(self.map_fixed(vma, addr, frame)),
                    None => Plan::Fail(Signal::Bus),
                }
            }
            Backing::Special(_) => Plan::Fail(Signal::Bus),
        }
    }

    /// The frame is there with fewer rights than the mapping has: the mapping
    /// gained some since, or the page is shared after a fork and is copied now.
    fn gain(&mut self, p: &Space, vma: &Vma<FileRef>, page: u64, change: &mut Change) -> Plan {
        if self.join_large(vma, page) {
            return Plan::Done;
        }
        match self.make_writable(vma, page, change) {
            Ok(Gained::Done) => Plan::Done,
            Ok(Gained::Copied(old)) => Plan::Copied { old },
            Ok(Gained::Waits { ask }) => Plan::Wait { ask },
            Ok(Gained::Forks) => Plan::Settle(p.settled.load(Ordering::Relaxed)),
            Err(()) => Plan::Fail(Signal::NoMemory),
        }
    }
}

/// Installs what was read. `addr` is the address that has to be there now.
pub fn finish(p: &Space, mut fill: Fill, read: Option<u64>, addr: u64) -> Result<(), Signal> {
    let Some(bytes) = read else { return Err(Signal::Bus) };
    let mut mm = p.mm.lock();
    let page = addr & !(SMALL - 1);
    let is_wanted = mm.mappings().find(page).is_some_and(|v| fill.brings(v, page));
    let came = bytes > page - fill.start;
    let mut at = fill.start;
    for (frame, pages) in fill.take_runs() {
        let run = PageRange::of(at, at + u64::from(pages) * SMALL);
        mm.install(&fill, frame, run, bytes);
        at = run.end();
    }
    // Too little memory for the whole window is no error if the page itself came.
    let is_reached = at > addr;
    if came || !is_wanted || !is_reached { Ok(()) } else { Err(Signal::Bus) }
}
