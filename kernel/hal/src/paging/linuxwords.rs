//! Words of Linux' memory that the module has named, for reading. Their pages are mapped in the
//! kernel's half for good: what Linux does with one later does not matter, since nobody reads it
//! then.

use super::{
    HAS_NO_EXECUTE, KERNEL_ROOT, NoMemory, PageTable, SMALL, TableSource, index, root, set, shared,
    walk_create,
};
use crate::addr::PhysAddr;
use crate::mmio::{LINUX_PAGES, place_of_linuxs};
use crate::pte::{self, Bits};
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// Pages that are mapped, in their order.
static MAPPED: Mutex<[Option<PhysAddr>; LINUX_PAGES]> = Mutex::new([None; LINUX_PAGES]);

/// Makes room in the kernel's half (first CPU, before other tables exist).
///
/// # Errors
/// [`NoMemory`]
pub fn init(source: &mut dyn TableSource) -> Result<(), NoMemory> {
    walk_create(root(&KERNEL_ROOT), place_of_linuxs(0), 0, source).map(drop)
}

/// Maps a page. No CPU has anything about a place where nothing was mapped.
fn map(number: usize, page: PhysAddr) -> Option<()> {
    let kernel = PageTable { root: root(&KERNEL_ROOT), ..PageTable::empty() };
    let at = place_of_linuxs(number);
    let table = kernel.table(at, 0)?; // made at boot, if there are devices
    let no_execute =
        if HAS_NO_EXECUTE.load(Ordering::Relaxed) { pte::NO_EXECUTE } else { Bits::NONE };
    set(table, index(at, 0), page | shared() | no_execute);
    Some(())
}

/// A word of Linux', or some bits of one.
#[derive(Debug)]
pub struct LinuxWord {
    word: &'static AtomicU64,
    mask: u64,
}

impl LinuxWord {
    /// The bits of `mask` of the word at a physical address. `None`: it is not aligned, or there
    /// are words of too many pages.
    #[must_use]
    pub fn at(word: PhysAddr, mask: u64) -> Option<LinuxWord> {
        if !word.0.is_multiple_of(8) {
            return None;
        }
        let page = PhysAddr(word.0 & !(SMALL - 1));
        let mut mapped = MAPPED.lock();
        let known = mapped.iter().position(|&other| other == Some(page));
        let number = known.or_else(|| mapped.iter().position(Option::is_none))?;
        if known.is_none() {
            map(number, page)?;
            mapped[number] = Some(page);
        }
        let at = (place_of_linuxs(number) + (word.0 - page.0)) as *const AtomicU64;
        // SAFETY: aligned, and mapped for good above, for reading; nothing but loads is done with
        // it. Linux writes it at any time, by whole words or parts of them.
        Some(LinuxWord { word: unsafe { &*at }, mask })
    }

    /// The value just now; bits of no interest are 0.
    #[must_use]
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & self.mask
    }
}
