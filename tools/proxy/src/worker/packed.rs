//! Packed calls, in a pooled proxy: their pages are copied to memory of its own, where no other
//! process changes them, and what Linux has written is copied back.

use core::sync::atomic::Ordering;

use hanare_abi::ioctl::IOCTL_SERVES;
use hanare_abi::message::MESSAGE_PAGE_NONE;
use hanare_abi::pooled::{PACKED_CLEAN, PACKED_PAGES};
use hanare_core::marshal::{
    Buffer, Decoded, Malformed, PAYLOAD_BYTES, Packed, Place, asks_for_guard, decode, finish,
    gather, page_head,
};
use hanare_ikc::Answer;
use linux_raw_sys::errno::{EBADMSG, ENOMEM, EPERM};

use crate::process::{Process, pooled};
use crate::sys;
use crate::sys::pooled::with_buffer;
use crate::sys::worker::Worker;

/// Makes the call whose pages begin with number `args[0]`, for the task with space `args[3]`, if
/// that may do what this process may. Its result goes there; the answer is 0, or an error where
/// nothing was executed.
pub fn call(process: &Process, worker: &Worker, args: &[u64; 6]) -> Answer {
    let refused = |errno: u32| Answer::Done(-i64::from(errno));
    let (first, id, flags) = (args[0] as u32, args[1], args[2]);
    if first == MESSAGE_PAGE_NONE && flags == PACKED_CLEAN {
        pooled::clean(&process.space);
        return Answer::Done(0);
    }
    if sys::ioctl_number(process.space.fd, IOCTL_SERVES, args[3]).is_err() {
        return refused(EPERM);
    }
    let mut chain = [0; PACKED_PAGES as usize];
    let taken = match take(process, worker, (first, id), &mut chain) {
        Err(Malformed::NoRoom) if worker.make_lists() => {
            take(process, worker, (first, id), &mut chain)
        }
        taken => taken,
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(Malformed::NoRoom) => return refused(ENOMEM),
        Err(_) => return refused(EBADMSG),
    };
    worker.call.store(taken.call.number, Ordering::Relaxed);
    let made = || pooled::execute(&process.space, taken.call.number, &taken.call.args);
    let Answer::Done(result) = process.space.window.member().begin(made) else {
        return Answer::NotStarted;
    };
    give(process, worker, &taken, &chain, result);
    Answer::Done(0)
}

/// A call in memory of this process' own.
struct Taken {
    call: Decoded,
    /// Number of pages of the call's message.
    pages: usize,
    has_guard: bool,
}

fn take(
    process: &Process,
    worker: &Worker,
    (first, id): (u32, u64),
    chain: &mut [u32],
) -> Result<Taken, Malformed> {
    process.space.window.with_pages(|pool| {
        let count = page_head(pool, first).ok_or(Malformed::Head)?.count as usize;
        if count > chain.len() {
            return Err(Malformed::Head);
        }
        let has_guard = asks_for_guard(pool, first);
        let copy = |message, to: &mut [u8]| {
            let pages = gather(pool, first, id, to, chain).ok_or(Malformed::Head)?;
            let place = |own| Place { message, own, has_guard };
            let call = worker.with_lists(|own, lists| decode(&*to, place(own), lists))?;
            Ok(Taken { call, pages, has_guard })
        };
        with_buffer(count * PAYLOAD_BYTES, has_guard, copy).unwrap_or(Err(Malformed::NoRoom))
    })
}

/// Writes the result and what Linux has written into the call's pages.
fn give(process: &Process, worker: &Worker, taken: &Taken, chain: &[u32], result: i64) {
    let Taken { call, pages, has_guard } = taken;
    process.space.window.with_pages(|pool| {
        let Some(mut packed) = Packed::new(pool, &chain[..*pages]) else { return };
        with_buffer(pages * PAYLOAD_BYTES, *has_guard, |_, from| {
            let written = call.written.from..call.written.to;
            if let Some(bytes) = from.get(written.clone()) {
                packed.write(written.start, bytes);
            }
            worker.with_lists(|_, lists| finish(&mut packed, call, lists, result));
        });
    });
}
