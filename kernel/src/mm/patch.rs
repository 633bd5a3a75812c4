//! Writing into a process's memory from outside, whatever its protection: breakpoints.

use super::AddressSpace;
use super::quarantine::page_deferred;
use super::space::Space;
use crate::base::frames;
use crate::link::services;
use hanare_abi::service::SERVICE_ZAP;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, SpecialKind};
use hanare_hal::memory;
use hanare_hal::paging::{LARGE, SMALL, pte};

/// Writes `bytes`, for this process only: a page that it shares is copied first. No thread
/// waits, so that any context will do. EFAULT: a page is
/// not there (read it first), or is Linux' own, where others would see the change.
pub fn write(p: &Space, addr: u64, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let at = addr.checked_add(done as u64).ok_or(errno::EFAULT)?;
        let n = (bytes.len() - done).min((SMALL - at % SMALL) as usize);
        let replaced = p.mm.lock().write_page(at, &bytes[done..done + n])?;
        give_up(p, replaced);
        done += n;
    }
    Ok(())
}

/// A frame that a copy has replaced.
struct Replaced {
    page: u64,
    frame: u64,
    seen: bool,
}

fn give_up(p: &Space, replaced: Option<Replaced>) {
    let Some(old) = replaced else { return };
    if old.seen {
        let _ =
            services::by_thread_at_once(SERVICE_ZAP, p.space, &[old.page, old.page + SMALL], &[]);
    }
    page_deferred(old.frame);
}

impl AddressSpace {
    /// Writes within a page; what [`give_up`] is to be called with, without the lock.
    fn write_page(&mut self, addr: u64, bytes: &[u8]) -> Result<Option<Replaced>> {
        let page = addr & !(SMALL - 1);
        let leaf = self
            .vmas
            .find(addr)
            .is_some()
            .then(|| self.table.find(addr))
            .flatten()
            .ok_or(errno::EFAULT)?;
        if leaf.entry & pte::FOREIGN != 0 {
            return Err(errno::EFAULT);
        }
        let mut frame = leaf.frame() + (page - leaf.addr);
        let mut replaced = None;
        if frames::is_shared(leaf.frame()) {
            if leaf.size == LARGE {
                return Err(errno::EFAULT);
            }
            let new = self.alloc(page).ok_or(errno::ENOMEM)?;
            memory::copy(new, frame, SMALL as usize);
            let keep = leaf.entry & !(pte::ADDRESS | pte::SEEN);
            if self.table.map_small(page, new | keep, &mut frames::UserTables).is_err() {
                frames::free(new, 0);
                return Err(errno::ENOMEM);
            }
            self.flush(page, page + SMALL);
            replaced = Some(Replaced { page, frame, seen: leaf.entry & pte::SEEN != 0 });
            frame = new;
        }
        memory::write(frame + (addr - page), bytes);
        Ok(replaced)
    }
}

/// Whether the page of `addr` is there; one of plain memory that nobody has used is made.
pub fn touch(p: &Space, addr: u64) -> bool {
    let mut mm = p.mm.lock();
    if mm.table.find(addr).is_some() {
        return true;
    }
    let vma = mm.vmas.find(addr).filter(|v| v.backing == Backing::Anonymous).cloned();
    vma.is_some_and(|v| mm.populate_anonymous(&v, addr).is_ok())
}

/// Reads what is there now: fewer bytes than asked for where a page is missing.
pub fn read(p: &Space, addr: u64, to: &mut [u8]) -> usize {
    let mm = p.mm.lock();
    let mut done = 0;
    while done < to.len() {
        let at = addr.wrapping_add(done as u64);
        let n = (to.len() - done).min((SMALL - at % SMALL) as usize);
        let vdso = || mm.vmas.find(at).filter(|v| v.backing == Backing::Special(SpecialKind::Vdso));
        let place = match mm.table.find(at).filter(|l| l.entry & pte::FOREIGN == 0) {
            Some(leaf) => leaf.frame() + (at - leaf.addr),
            // One for all, and there whether the process has used it or not.
            None => match vdso().and_then(|v| crate::mm::vdso::frame(at - v.start)) {
                Some(frame) => frame + at % SMALL,
                None => break,
            },
        };
        memory::read(place, &mut to[done..done + n]);
        done += n;
    }
    done
}
