//! Messages of calls whose arguments are copied (`route/copied.rs`): memory of the kernel's, a run
//! of addresses for each slot, which the proxy maps when its program makes such a call first. No
//! program sees it.

use super::caller::Caller;
pub use super::frames_of_message::Frames;
use super::space::Space;
use crate::base::chain::{Chain, Run};
use crate::base::{heap, lists};
use crate::link::delegate;
use crate::mm::pages::leftovers::Removed;
use crate::sched::tlb;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::control::Control;
use hanare_abi::frame::GivenPage;
use hanare_abi::layout::{
    MESSAGE_MAX, MESSAGE_STRIDE, MESSAGES_BASE, MESSAGES_END, MESSAGES_MAX, MESSAGES_PART, message,
};
use hanare_abi::request::PAGE_WRITABLE;
use hanare_core::errno::{self, Result};
use hanare_core::ledger::Subject;
use hanare_core::pagerange::PageRange;
use hanare_hal::paging::SMALL;
use hanare_hal::shared;

/// Pages of the smallest message.
const PAGES_MIN: u64 = 4;
const _: () = assert!(MESSAGE_MAX.is_multiple_of(SMALL) && MESSAGE_MAX < MESSAGE_STRIDE);

/// Arguments of calls are copied where nothing else is said.
static BY_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Takes the boot option `arguments`.
pub fn init(copies: bool) {
    BY_DEFAULT.store(copies, Ordering::Relaxed);
    shared::here().set_copies(copies);
}

/// Whether arguments of calls are copied where nothing else is said.
pub fn by_default() -> bool {
    BY_DEFAULT.load(Ordering::Relaxed)
}

/// Whether an address lies in the area of messages.
pub fn contains(addr: u64) -> bool {
    (MESSAGES_BASE..MESSAGES_END).contains(&addr)
}

/// Frames that Linux may map from `page` on, which must belong to a message. Returns how many there
/// are.
pub fn pages(p: &Space, page: u64, pages: &mut [GivenPage]) -> usize {
    let Some(offset) = page.checked_sub(MESSAGES_BASE) else { return 0 };
    let Some(frames) = p.message((offset / MESSAGE_STRIDE) as u32) else { return 0 };
    let mut at = (offset % MESSAGE_STRIDE) as usize;
    let mut count = 0;
    while let Some(entry) = pages.get_mut(count)
        && let Some((frame, _)) = frames.place(at)
    {
        *entry = frame.given(PAGE_WRITABLE);
        count += 1;
        at += SMALL as usize;
    }
    count
}

/// The message of the running thread's slot.
///
/// # Errors
/// `ENOMEM`: there is no memory for one, or no place.
pub fn of_slot(p: &Caller<'_>) -> Result<Arc<Frames>> {
    match p.memory.message(p.slot) {
        Some(frames) => Ok(frames),
        None => grow(p, 0),
    }
}

/// Makes the message of the running thread's slot larger, to so many bytes at least.
///
/// # Errors
/// `E2BIG`: more than a message can have. `ENOMEM`: see [`of_slot`].
pub fn grow(p: &Caller<'_>, bytes: u64) -> Result<Arc<Frames>> {
    if bytes > MESSAGE_MAX {
        return Err(errno::E2BIG);
    }
    if p.slot >= MESSAGES_MAX {
        return Err(errno::ENOMEM);
    }
    if !p.memory.maps_messages.load(Ordering::Acquire) {
        delegate::result_of(p.thread, Control::MapPart { number: MESSAGES_PART })
            .map_err(|_| errno::ENOMEM)?;
        p.memory.maps_messages.store(true, Ordering::Release);
    }
    grow_of(p.memory, p.slot, bytes)
}

/// Makes the message of a slot of `p` larger, like [`grow`], where the proxy has mapped messages or
/// is going to.
///
/// # Errors
/// `ENOMEM`: there is no memory.
pub fn grow_of(p: &Space, slot: u32, bytes: u64) -> Result<Arc<Frames>> {
    let mut new = p.message(slot).map_or_else(Frames::none, |frames| frames.copy());
    let (before, had) = (new.pages(), new.count());
    let wanted = bytes.div_ceil(SMALL).next_power_of_two();
    let wanted = wanted.clamp(PAGES_MIN, MESSAGE_MAX / SMALL);
    heap::room_for_arc::<Frames>()?;
    heap::room_for_entry::<u32, Arc<Frames>>()?;
    let cost = wanted.saturating_sub(before) * SMALL;
    p.account.add_kernel(cost)?;
    while new.pages() < wanted {
        tlb::serve(); // a block is cleared
        if !new.add(wanted - new.pages(), p.account.owner(Subject::Messages)) {
            while new.count() > had {
                new.pop().into_iter().for_each(Run::free); // Linux has not seen them
            }
            p.account.remove_kernel(cost);
            return Err(errno::ENOMEM);
        }
    }
    let new = lists::arc_within(new);
    p.set_message(slot, Some(new.clone()));
    Ok(new)
}

/// Gives back what the message of the running thread's slot has beyond so many bytes; 0: all of it.
/// May wait.
pub fn shrink(p: &Caller<'_>, bytes: u64) {
    if heap::room_for_arc::<Frames>().is_err() {
        return; // another time
    }
    let Some(mut left) = p.memory.message(p.slot).map(|frames| frames.copy()) else { return };
    let (mut removed, before) = (Removed::default(), left.pages());
    let start = message(p.slot);
    while left.pages() * SMALL > bytes
        && let Some(run) = left.pop()
    {
        removed.seen.push(run);
    }
    removed.range = Some(PageRange::of(start + left.pages() * SMALL, start + before * SMALL));
    let given = (before - left.pages()) * SMALL;
    p.memory.set_message(p.slot, (left.count() > 0).then(|| lists::arc_within(left)));
    removed.finish(p);
    p.memory.account.remove_kernel(given);
}

/// Takes the frames of all messages of a space whose proxy is gone.
pub fn take_all(p: &Space, to: &mut Chain) {
    for frames in p.take_messages().into_values() {
        p.account.remove_kernel(frames.pages() * SMALL);
        frames.copy().give_up(to);
    }
}
