//! Transfers between a device and memory of the running program, without a copy.
//!
//! While one is under way its pages stay where they are: whoever is about to unmap, move or share
//! them waits, as for a change of another thread's (`change/reserve.rs`). So a thread ends a
//! transfer only when the device does no more with the memory, whatever becomes of the thread.

use super::thread::{self, Faulting};
use crate::mm::change::pinnable::is_privately_written;
use crate::mm::change::reserve::{tell_settled, wait_until_settled};
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::access::WRITE;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_owned, pages_of};
use crate::mm::window::space::Space;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use hanare_abi::layout::USER_MAX;
use hanare_core::addr::page_down;
use hanare_core::errno;
use hanare_core::pagerange::PageRange;
use hanare_core::transfers::{Addresses, Wanted};
use hanare_core::vma::Vma;
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::{Leaf, SMALL};
use hanare_hal::pte;
use hanare_hal::usercopy::UserAddr;

/// Looks for pages beyond those that faults bring in: others may take some away meanwhile.
const LOOKS: u64 = 8;

/// Transfer under way.
pub struct Transfer<'a> {
    space: &'a Space,
    pages: PageRange,
}

impl<'a> Transfer<'a> {
    /// Begins one of `bytes` bytes from `start` on, for the running thread. `page` is told of each
    /// page, with its number; from number 0 on again if it has to be looked for again. Its answer
    /// is whether it has room for more. `None`: not all of it is private memory that the program
    /// may write, or there is no room. May wait.
    ///
    /// Pages that are only read are to be such, too: others may have them as well, and give them
    /// up.
    pub fn begin(
        thread: &'a impl Faulting,
        start: u64,
        bytes: u64,
        is_written: bool,
        page: impl FnMut(usize, PhysAddr) -> bool,
    ) -> Option<Transfer<'a>> {
        Self::by_looking(thread, pages_from(start, bytes)?, is_written, page, |_| {})
    }

    /// As [`begin`](Self::begin), where all pages are there: it does not wait for any.
    pub fn begin_there(
        thread: &'a impl Faulting,
        start: u64,
        bytes: u64,
        is_written: bool,
        mut page: impl FnMut(usize, PhysAddr) -> bool,
    ) -> Option<Transfer<'a>> {
        let pages = pages_from(start, bytes)?;
        let space = thread.caller().memory;
        let mut mm = space.mm.lock();
        match mm.look_for(pages, is_written, &mut page) {
            Look::Found => mm.transfers.begin(pages).ok()?,
            Look::Missing(_) | Look::Refused => return None,
        }
        Some(Transfer { space, pages })
    }

    /// As [`begin`](Self::begin), of a page or two of memory for the device with a number. Comes
    /// with the addresses that the device has for them, which `address` says. As long as nobody may
    /// have changed the space they are not looked for again.
    #[inline(always)]
    pub fn of_few(
        thread: &'a impl Faulting,
        start: u64,
        bytes: u64,
        (device, is_written): (u32, bool),
        address: impl Fn(PhysAddr) -> u64,
    ) -> Option<(Transfer<'a>, Addresses)> {
        let pages = few_pages_from(start, bytes)?;
        let space = thread.caller().memory;
        let wanted = Wanted::new(pages, is_written, device);
        let again = space.mm.transfers().begin_again(wanted, pages);
        let addresses = match again {
            Some(addresses) => addresses,
            None => Self::few_by_looking(thread, pages, is_written, wanted, address)?,
        };
        Some((Transfer { space, pages }, addresses))
    }

    /// The transfer has begun then; the caller ends it.
    #[inline(never)]
    fn few_by_looking(
        thread: &'a impl Faulting,
        pages: PageRange,
        is_written: bool,
        wanted: Wanted,
        address: impl Fn(PhysAddr) -> u64,
    ) -> Option<Addresses> {
        let addresses = Cell::new([0; 2]);
        let page = |number: usize, page| {
            let [first, _] = addresses.get();
            match number {
                0 => addresses.set([address(page), 0]),
                1 => addresses.set([first, address(page)]),
                _ => return false,
            }
            true
        };
        let remember = |mm: &mut AddressSpace| mm.transfers.remember(wanted, addresses.get());
        let transfer = Self::by_looking(thread, pages, is_written, page, remember)?;
        core::mem::forget(transfer);
        Some(addresses.get())
    }

    /// `begun` is called with the lock under which the transfer has begun.
    fn by_looking(
        thread: &'a impl Faulting,
        pages: PageRange,
        is_written: bool,
        mut page: impl FnMut(usize, PhysAddr) -> bool,
        begun: impl FnOnce(&mut AddressSpace),
    ) -> Option<Transfer<'a>> {
        let caller = thread.caller();
        let space = caller.memory;
        let mut from = pages.start();
        for _ in 0..pages.pages() + LOOKS {
            let outcome = {
                let mut mm = space.mm.lock();
                let rest = PageRange::of(from, pages.end());
                match mm.look_for(rest, is_written, &mut page) {
                    // What was found before may have gone.
                    Look::Found if from != pages.start() => {
                        from = pages.start();
                        continue;
                    }
                    Look::Found => match mm.transfers.begin(pages) {
                        Ok(()) => {
                            begun(&mut mm);
                            return Some(Transfer { space, pages });
                        }
                        // Linux is not to have them now, either: who changes them would have to
                        // ask it again.
                        Err(errno::EBUSY) => Err(space.settled.load(Ordering::Relaxed)),
                        Err(_) => return None,
                    },
                    Look::Refused => return None,
                    Look::Missing(addr) => Ok(addr),
                }
            };
            match outcome {
                Ok(missing) => {
                    thread::user(thread, UserAddr::of(missing), WRITE).ok()?;
                    from = missing;
                }
                Err(seen) => wait_until_settled(&caller, seen).ok()?,
            }
        }
        None
    }
}

impl Transfer<'_> {
    /// Ends it.
    #[inline(always)]
    pub fn end(self) {
        self.over();
        core::mem::forget(self);
    }

    #[inline(always)]
    fn over(&self) {
        let is_awaited = self.space.mm.transfers().end(self.pages);
        if is_awaited {
            tell_settled(self.space);
        }
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.over();
    }
}

/// The pages of some bytes of a program's memory.
#[inline(always)]
fn pages_from(start: u64, bytes: u64) -> Option<PageRange> {
    let end = start.checked_add(bytes).filter(|&end| end <= USER_MAX)?;
    PageRange::around(start, end)
}

/// As [`pages_from`], of two pages at most. `None` also at the end of what a program may have.
#[inline(always)]
const fn few_pages_from(start: u64, bytes: u64) -> Option<PageRange> {
    const MOST: u64 = 2 * SMALL;
    if start >= USER_MAX - MOST || start % SMALL + bytes > MOST {
        return None;
    }
    Some(PageRange::of(page_down(start), page_down(start + bytes + SMALL - 1)))
}

/// Whether a mapping is private memory that the program may write, and no other thread is changing.
fn is_free(v: &Vma<FileRef>) -> bool {
    is_privately_written(v) && kept_for(v).is_none()
}

/// Outcome of a look for pages.
enum Look {
    Found,
    /// The page at this address has to be brought in, or is shared.
    Missing(u64),
    Refused,
}

impl AddressSpace {
    /// Looks for pages that are the space's alone.
    fn look_for(
        &mut self,
        pages: PageRange,
        is_written: bool,
        page: &mut impl FnMut(usize, PhysAddr) -> bool,
    ) -> Look {
        let whole = self.mappings().find(pages.start());
        let is_meant = match whole.filter(|v| v.range().covers(pages)) {
            Some(v) => is_free(v),
            None => self.mappings().is_covered(pages) && self.mappings().range(pages).all(is_free),
        };
        // Of pages that Linux is forgetting for a change, which takes them away after that, it is.
        if !is_meant || self.is_reserved(pages) {
            return Look::Refused;
        }
        let mut known: Option<Leaf> = None;
        let (mut is_noted, mut first) = (true, pages.start());
        for (number, addr) in pages.iter().enumerate() {
            let leaf = known.filter(|leaf| pages_of(leaf).contains(addr));
            let Some(leaf) = leaf.or_else(|| self.leaf(addr)) else { return Look::Missing(addr) };
            if !is_owned(leaf.entry) || !leaf.entry.has(pte::PRESENT) || !leaf.entry.has(pte::WRITE)
            {
                return Look::Missing(addr);
            }
            is_noted &= leaf.entry.has(pte::DIRTY) && leaf.entry.has(pte::ACCESSED);
            if !page(number, leaf.frame() + (addr - leaf.addr)) {
                return Look::Refused;
            }
            first = first.min(leaf.addr);
            known = Some(leaf);
        }
        if is_written && !is_noted {
            // As if the program had written it.
            let leaves = PageRange::of(first, pages.end());
            self.change_pages(leaves, &mut |leaf| leaf.entry | pte::DIRTY | pte::ACCESSED);
        }
        Look::Found
    }
}
