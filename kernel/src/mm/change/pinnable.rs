//! Memory that devices may keep: Linux pins pages of a range from now on (`docs/devices.md`).

use super::shared;
use super::transaction::carry_out_with;
use crate::base::lists;
use crate::link::services;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::content::FileRef;
use crate::mm::window::caller::Caller;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::service::SERVICE_PINNABLE;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma};

/// Whether devices may come to keep pages of a mapping: others are Linux' own, or are given to it
/// for reading only.
fn can_be(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. })
        && v.prot.contains(Prot::READ | Prot::WRITE)
        && kept_for(v).is_none()
}

/// Whether an address is one of private memory: of no device's, and no file that may be slow.
pub fn is_private(p: &Caller<'_>, address: u64) -> bool {
    let mm = p.memory.mm.lock();
    mm.mappings().find(address).is_some_and(can_be)
}

/// Ranges of such mappings that are `wanted`, neighbours as one.
///
/// # Errors
/// `ENOMEM`
pub fn ranges(
    p: &Caller<'_>,
    wanted: impl Fn(&AddressSpace, PageRange) -> bool,
) -> Result<Vec<PageRange>> {
    let mm = p.memory.mm.lock();
    let mut found: Vec<PageRange> = Vec::new();
    for range in mm.mappings().iter().filter(|v| can_be(v)).map(Vma::range) {
        if !wanted(&mm, range) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end() == range.start() => *last = last.join(range),
            _ => lists::push(&mut found, range)?,
        }
    }
    Ok(found)
}

/// Has Linux map a range of such mappings so that it pins pages there. `device`: the descriptor
/// for which that is, if it has to be a device's.
///
/// # Errors
/// `EFAULT`: something else is mapped there by now. `EOPNOTSUPP`, `ENOTTY` as `SERVICE_PINNABLE`
/// says; `ENOMEM`.
pub fn make(p: &Caller<'_>, range: PageRange, device: Option<u64>) -> Result<()> {
    let device = device.map_or(0, |descriptor| descriptor.saturating_add(1));
    let mut asked: Option<Result<()>> = None;
    let made = carry_out_with(
        p,
        range,
        &mut asked,
        |mm, _, asked| match asked {
            Some(_) => Ok(None),
            None if mm.mappings().range(range).all(can_be) => {
                mm.note_pinnable(range)?; // before it is: what others change meanwhile knows
                p.memory.has_pinnable.store(true, Ordering::Relaxed);
                Ok(Some(range))
            }
            None => Err(errno::EFAULT),
        },
        |asked, _| {
            let args = [range.start(), range.end(), device];
            let answer = services::by_worker(p.thread, SERVICE_PINNABLE, &args, &[]);
            *asked = Some(answer.map(drop).map_err(Errno::from));
            matches!(asked, Some(Ok(())))
        },
        |_, _, _| Ok(()),
    );
    match asked {
        Some(Err(error)) => Err(error),
        _ => made,
    }
}

/// Has Linux map a range as ever, if it pins pages there: the program may not write to all of it
/// any more, so writes of its calls have to be `EFAULT`.
pub fn end(p: &Caller<'_>, range: PageRange) {
    if !p.memory.has_pinnable.load(Ordering::Relaxed) {
        return;
    }
    // What Linux has mapped itself stays. The range counts as pinnable on: that is safe, whoever
    // makes it so again meanwhile.
    let is_private = |v: &Vma<FileRef>| !matches!(v.backing, Backing::SharedLinux { .. });
    let is_meant = {
        let mm = p.memory.mm.lock();
        mm.may_have_copies(range) && mm.mappings().range(range).all(is_private)
    };
    if is_meant {
        shared::remap(p, range);
    }
}

impl AddressSpace {
    fn note_pinnable(&mut self, range: PageRange) -> Result<()> {
        self.pinnable.add(range)
    }

    /// Whether Linux pins all pages of a range.
    pub fn is_pinnable(&self, range: PageRange) -> bool {
        self.pinnable.covers(range)
    }

    /// Whether Linux may have copies of pages of a range: what it has for reading it has so there.
    pub(super) fn may_have_copies(&self, range: PageRange) -> bool {
        self.pinnable.meets(range)
    }
}
