//! Parts of the addresses that the proxy maps when something is mapped there
//! (`hanare_abi::layout::part`).

use super::caller::Caller;
use super::space::Space;
use crate::link::delegate;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::pages::content::FileRef;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_abi::layout::{PARTS, PARTS_ALL, PARTS_USUAL, part};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Vma, VmaFlags};

/// The parts of a range that a set of parts has not.
fn missing(have: u32, range: PageRange) -> impl Iterator<Item = u32> {
    (0..PARTS).filter(move |&number| {
        let (low, high) = part(number);
        have & 1 << number == 0 && range.start() < high && low < range.end()
    })
}

/// Has the proxy map the parts in which a range lies. May wait.
///
/// # Errors
/// `ENOMEM`: it could not.
pub fn reach(p: &Caller<'_>, range: PageRange) -> Result<()> {
    let have = p.memory.parts();
    if have == PARTS_ALL {
        return Ok(());
    }
    for number in missing(have, range) {
        delegate::result_of(p.thread, Control::MapPart { number }).map_err(|_| errno::ENOMEM)?;
        p.memory.add_parts(1 << number);
    }
    Ok(())
}

/// Has the proxy map the parts in which anything is mapped, see [`reach`]. May wait.
///
/// # Errors
/// As [`reach`].
pub fn reach_all(p: &Caller<'_>) -> Result<()> {
    let mut at = 0;
    loop {
        let next = p.memory.mm.lock().mappings().find_next(at).map(Vma::range);
        let Some(range) = next else { return Ok(()) };
        reach(p, range)?;
        at = range.end();
    }
}

/// How far a mapping may grow down, which the limit of stacks keeps it from mostly.
pub const GROWS_BELOW: u64 = 1 << 39;

/// The parts that the proxy of a new space is to map.
pub fn of_mappings(mm: &AddressSpace) -> u32 {
    let grows = |v: &Vma<FileRef>| v.flags.contains(VmaFlags::GROWSDOWN);
    let start = |v: &Vma<FileRef>| v.start.saturating_sub(if grows(v) { GROWS_BELOW } else { 0 });
    let of =
        |v| missing(0, PageRange::of(start(v), v.end)).fold(0, |parts, number| parts | 1 << number);
    match mm.mappings().iter().map(of).fold(0, |all, parts| all | parts) {
        0 => PARTS_USUAL,
        parts => parts,
    }
}

impl Space {
    /// The proxy maps no part but these at once, or it has mapped all.
    pub fn set_parts(&self, parts: u32) {
        self.parts.store(parts, Ordering::Release);
    }

    fn parts(&self) -> u32 {
        self.parts.load(Ordering::Acquire)
    }

    fn add_parts(&self, parts: u32) {
        self.parts.fetch_or(parts, Ordering::AcqRel);
    }
}
