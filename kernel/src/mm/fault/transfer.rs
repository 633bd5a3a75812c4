//! Transfers between a device and memory of the running program, without a copy.
//!
//! While one is under way its pages stay where they are: whoever is about to unmap, move or share
//! them waits, as for a change of another thread's (`change/reserve.rs`). So a thread ends a
//! transfer only when the device does no more with the memory, whatever becomes of the thread.

use super::thread::{self, Faulting};
use crate::mm::change::pinnable::is_privately_written;
use crate::mm::change::reserve::tell_settled;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::access::WRITE;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_owned, pages_of};
use crate::mm::window::space::Space;
use hanare_abi::layout::USER_MAX;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Vma;
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::Leaf;
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
        mut page: impl FnMut(usize, PhysAddr) -> bool,
    ) -> Option<Transfer<'a>> {
        let end = start.checked_add(bytes).filter(|&end| end <= USER_MAX)?;
        let pages = PageRange::around(start, end)?;
        let space = thread.caller().memory;
        let mut from = pages.start();
        for _ in 0..pages.pages() + LOOKS {
            let missing = {
                let mut mm = space.mm.lock();
                let rest = PageRange::of(from, pages.end());
                match mm.look_for(rest, is_written, &mut page) {
                    // What was found before may have gone.
                    Look::Found if from != pages.start() => {
                        from = pages.start();
                        continue;
                    }
                    Look::Found => {
                        mm.transfers.begin(pages).ok()?;
                        return Some(Transfer { space, pages });
                    }
                    Look::Refused => return None,
                    Look::Missing(addr) => addr,
                }
            };
            thread::user(thread, UserAddr::of(missing), WRITE).ok()?;
            from = missing;
        }
        None
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let is_awaited = self.space.mm.lock().transfers.end(self.pages);
        if is_awaited {
            tell_settled(self.space);
        }
    }
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
        if !is_meant {
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
