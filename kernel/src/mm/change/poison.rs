//! Bad memory in an address space: the page is taken out, and a program that touches it again gets
//! SIGBUS.

use crate::base::frames;
use crate::mm::pages::entry::{LOST, is_lost, is_owned, sight, sight_bits};
use crate::mm::window::caller::Caller;
use crate::mm::window::release;
use hanare_core::pagerange::PageRange;
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::{Leaf, SMALL};
use hanare_hal::pte::Entry;

/// Takes the bad `frame` out of the memory of the running process; the address where it was, or 0.
/// Other processes that have it, too, lose it when they use it. Linux takes care of its own frames:
/// they are asked for anew. Without memory to split a large page it stays, and tells again when it
/// is used.
pub fn forget(p: &Caller<'_>, frame: PhysAddr) -> u64 {
    let mut mm = p.memory.mm.lock();
    let whole = mm.mappings().whole();
    let mut found: Option<Leaf> = None;
    mm.pages().each(whole, |leaf| {
        if !is_lost(leaf) && (leaf.frame()..leaf.frame() + leaf.size).contains(&frame) {
            found = Some(*leaf);
        }
    });
    let Some(leaf) = found else { return 0 };
    let addr = leaf.addr + (frame - leaf.frame());
    let ours = is_owned(leaf.entry);
    let page = PageRange::of(addr, addr + SMALL);
    if mm.split_edges(page).is_err() {
        return addr;
    }
    // Linux is asked below. Where it could not be, the thread that unmaps the page asks again.
    let lost = LOST | sight_bits(sight(leaf.entry));
    mm.change_pages(page, &mut |_| if ours { lost } else { Entry::NONE });
    if ours {
        mm.forget_known(page);
    }
    mm.flush(page);
    drop(mm);
    if sight(leaf.entry).is_seen() {
        release::zap(p, page);
    }
    // The frame is not freed, also where this was its last mapping (`frames::free`).
    if ours {
        let _ = frames::drop_mapping(frame);
    }
    addr
}
