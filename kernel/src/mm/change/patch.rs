//! Writing into a process's memory from outside, whatever its protection: breakpoints.

use super::reserve::resume;
use crate::link::services;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::address_space::is_shared;
use crate::mm::map::populate::Gained;
use crate::mm::pages::entry::{is_owned, pages_of, sight};
use crate::mm::pages::quarantine::page_deferred;
use crate::mm::window::space::Space;
use crate::sched::{cpus, tlb};
use core::sync::atomic::Ordering;
use hanare_abi::service::SERVICE_ZAP;
use hanare_core::coherence::{Change, Sight};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, SpecialKind, VmaFlags};
use hanare_hal::cpu;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;
use hanare_hal::pte;

/// How often a page is prepared for its copy, which a thread that touches it meanwhile makes void.
const TRIES: u32 = 16;
/// How long each time for a fork that is about to copy the page, ns.
const FORK_NS: u64 = 1_000_000;

/// Writes `bytes`, for this process only: a page that it shares is copied first. No thread waits,
/// so that any context will do. EFAULT: a page is not there (read it first), or is Linux' own,
/// where other processes would see the change. EAGAIN: Linux has not answered at once, or threads
/// of the process touch the page all the time.
pub fn write(p: &Space, addr: u64, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let at = addr.checked_add(done as u64).ok_or(errno::EFAULT)?;
        let n = (bytes.len() - done).min((SMALL - at % SMALL) as usize);
        write_within(p, at, &bytes[done..done + n])?;
        done += n;
    }
    Ok(())
}

fn write_within(p: &Space, addr: u64, bytes: &[u8]) -> Result<()> {
    let page = addr & !(SMALL - 1);
    let end = page.checked_add(SMALL).ok_or(errno::EFAULT)?; // the last page of all has no end
    let mut change = Change::new(PageRange::of(page, end));
    let (mut is_forgotten, mut tries) = (true, 0..TRIES);
    loop {
        let mut mm = p.mm.lock();
        resume(p, &mut mm, &mut change, is_forgotten);
        if !is_forgotten || tries.next().is_none() {
            return Err(errno::EAGAIN);
        }
        let written = mm.write_page(addr, bytes, &mut change)?;
        let settled = p.settled.load(Ordering::Relaxed);
        drop(mm);
        match written {
            Gained::Done => return Ok(()),
            Gained::Copied(old) => page_deferred(old, Some(&p.account)),
            Gained::Waits { ask: false } => {}
            Gained::Forks => {
                let until = cpus::deadline(FORK_NS);
                while p.settled.load(Ordering::Relaxed) == settled && cpu::rdtsc() < until {
                    tlb::serve(); // the fork waits for this CPU, too
                    cpu::pause();
                }
            }
            Gained::Waits { ask: true } => {
                is_forgotten = p.is_closed()
                    || services::by_thread_at_once(SERVICE_ZAP, p.owner(), &[page, end], &[])
                        .is_some();
            }
        }
    }
}

impl AddressSpace {
    /// Writes within a page that the process has for itself, or makes it so.
    fn write_page(&mut self, addr: u64, bytes: &[u8], change: &mut Change) -> Result<Gained> {
        let (prot, whole) =
            self.mappings().find(addr).map(|v| (v.prot, v.range())).ok_or(errno::EFAULT)?;
        self.cursor(whole).set_flags(VmaFlags::empty(), VmaFlags::UNWRITTEN)?;
        let leaf = self.leaf(addr).ok_or(errno::EFAULT)?;
        if !is_owned(leaf.entry) {
            return Err(errno::EFAULT);
        }
        if is_shared(&leaf) {
            let leaf = self.find_small(addr & !(SMALL - 1))?.ok_or(errno::EFAULT)?;
            return self.unshare(&leaf, prot, change).map_err(|()| errno::ENOMEM);
        }
        // What Linux has for reading is a copy there, which would stay as it is.
        if self.may_have_copies(PageRange::page(addr & !(SMALL - 1))) {
            let leaf = self.find_small(addr & !(SMALL - 1))?.ok_or(errno::EFAULT)?;
            let page = pages_of(&leaf);
            if change.sight(page, sight(leaf.entry)) == Sight::Read {
                self.reserve(change, page)?;
                return Ok(Gained::Waits { ask: true });
            }
        }
        memory::write(leaf.frame() + (addr - leaf.addr), bytes);
        self.change_pages(pages_of(&leaf), &mut |l| l.entry & !pte::SOFT_CLEAN | pte::DIRTY);
        Ok(Gained::Done)
    }
}

/// Whether the page of `addr` is there; one of plain memory that was not used yet is made.
pub fn touch(p: &Space, addr: u64) -> bool {
    let mut mm = p.mm.lock();
    if mm.leaf(addr).is_some() {
        return true;
    }
    let vma = mm.mappings().find(addr).filter(|v| v.backing == Backing::Anonymous).cloned();
    vma.is_some_and(|v| mm.populate_anonymous(&v, addr, false).is_ok())
}

/// Reads what is there now: fewer bytes than asked for where a page is missing.
pub fn read(p: &Space, addr: u64, to: &mut [u8]) -> usize {
    let mm = p.mm.lock();
    let mut done = 0;
    while done < to.len() {
        let at = addr.wrapping_add(done as u64);
        let n = (to.len() - done).min((SMALL - at % SMALL) as usize);
        let vdso =
            || mm.mappings().find(at).filter(|v| v.backing == Backing::Special(SpecialKind::Vdso));
        let place = match mm.leaf(at).filter(|l| is_owned(l.entry)) {
            Some(leaf) => leaf.frame() + (at - leaf.addr),
            // One for all, and there whether the process has used it or not.
            None => match vdso().and_then(|v| crate::mm::map::vdso::frame(at - v.start)) {
                Some(frame) => frame + at % SMALL,
                None => break,
            },
        };
        memory::read(place, &mut to[done..done + n]);
        done += n;
    }
    done
}
