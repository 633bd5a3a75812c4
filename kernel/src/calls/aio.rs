//! The rings of Linux' asynchronous I/O, where the program finds them.
//!
//! `io_setup` (libaio) has Linux map a ring where it likes, which in the proxy is among the proxy's
//! own mappings. So the ring is moved to an address of the program's. Linux takes the new address
//! for the context's name, as after any `mremap`.

use crate::base::user::{self, UserAddr, put};
use crate::calls::context::handlers;
use crate::link::delegate;
use crate::mm::anonymous;
use crate::mm::change::free_ranges::choose_free;
use crate::mm::change::shared;
use crate::mm::change::unmap::unmap_range;
use crate::process::thread::Thread;
use hanare_core::addr::page_up;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use linux_raw_sys::general::{__NR_io_destroy, __NR_io_setup, __NR_mremap, __NR_process_vm_readv};
use zerocopy::IntoBytes;

handlers! { call:
    __NR_io_setup => io_setup(call.thread, call.args[0], call.address(1)),
    __NR_io_destroy => io_destroy(call.thread, call.args[0]),
}

/// Bytes of `struct aio_ring` without its events, and of one event.
const RING_HEAD: u64 = 32;
const EVENT: u64 = 32;

/// io_setup.
pub fn io_setup(me: &Thread, events: u64, context: UserAddr) -> Result<u64> {
    let p = &me.caller();
    if user::get::<u64>(context)? != 0 {
        return Err(errno::EINVAL);
    }
    let scratch = p.memory.write_scratch(p.slot, &[0; 64])?;
    delegate::linux(me, __NR_io_setup, [events, scratch, 0, 0, 0, 0])?;
    let at = place(me, scratch, p.memory.control(scratch))?;
    put(context, &at.to_le_bytes()).inspect_err(|_| {
        let _ = io_destroy(me, at);
    })
}

/// Moves the ring of a new context; its new address. On failure there is no context.
fn place(me: &Thread, scratch: u64, ring: u64) -> Result<u64> {
    let p = &me.caller();
    let moved = ring_size(me, scratch, ring).and_then(|size| {
        let at = choose_free(p, 0, size, 0, PageRange::NONE)?;
        delegate::linux(me, __NR_mremap, [ring, size, size, 3, at, 0])
            .inspect_err(|_| shared::give_up(p, PageRange::of(at, at + size), None))
            .map(|_| (at, size))
    });
    let (at, size) = moved.inspect_err(|_| {
        let _ = delegate::linux(me, __NR_io_destroy, [ring, 0, 0, 0, 0, 0]);
    })?;
    let backing = Backing::SharedLinux { watch: 0, file: None, offset: 0 };
    let ring = anonymous(PageRange::of(at, at + size), Prot::READ | Prot::WRITE, VmaFlags::SHARED);
    let vma = Vma { backing, ..ring };
    shared::adopt(p, vma, None).inspect_err(|_| {
        let _ = delegate::linux(me, __NR_io_destroy, [at, 0, 0, 0, 0, 0]);
    })?;
    Ok(at)
}

/// Linux rounds the number of events up; the ring says to what.
fn ring_size(me: &Thread, scratch: u64, ring: u64) -> Result<u64> {
    let p = &me.caller();
    let pid = u64::from(me.process.pid());
    // Two struct iovec: where to (behind them), where from.
    p.memory.write_scratch(p.slot, [scratch + 32, 8, ring, 8, 0].as_bytes())?;
    delegate::linux(me, __NR_process_vm_readv, [pid, scratch, 1, scratch + 16, 1, 0])?;
    let [_, events]: [u32; 2] = p.memory.control(scratch + 32);
    Ok(page_up(RING_HEAD + u64::from(events) * EVENT))
}

/// io_destroy: Linux unmaps the ring, which is forgotten here as well.
pub fn io_destroy(me: &Thread, context: u64) -> Result<u64> {
    let p = &me.caller();
    let ring =
        p.memory.mm.lock().mappings().find(context).filter(|v| v.start == context).map(Vma::range);
    delegate::linux(me, __NR_io_destroy, [context, 0, 0, 0, 0, 0])?;
    if let Some(ring) = ring {
        unmap_range(p, ring)?;
    }
    Ok(0)
}
