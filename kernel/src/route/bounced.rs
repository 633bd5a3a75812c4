//! Bounced arguments: small ones lie in the scratch page of the thread's slot, so that Linux need
//! not map the program's memory (`hanare_core::bounce`).

use crate::link::direct;
use crate::process::Process;
use crate::process::thread::Thread;
use hanare_abi::layout::scratch;
use hanare_core::bounce::{self, Piece, Plan, TEXT_MAX, What};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::{Call, Outcome};
use hanare_core::syscalls::Row;
use hanare_core::vma::Prot;
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::{self, UserAddr};

/// Bytes that are copied at a time.
const CHUNK: usize = 512;

/// Has Linux execute the call with its memory in the scratch page; returns the outcome, after what
/// was written was brought to the program. `None`: that cannot be, or a result was cut short: the
/// call is to be made another way.
#[cold]
#[inline(never)]
pub fn call(me: &Thread, row: &Row, args: &[u64; 6]) -> Option<Outcome> {
    let p = &me.process;
    // Another thread could take the memory away, or look into it, meanwhile. A filter that judges
    // the call may look at where its arguments lie.
    if me.port.slot_index != 0
        || p.thread_count() > 1
        || p.memory().is_shared()
        || me.seccomp.mode() != 0
    {
        return None;
    }
    let plan = bounce::plan(row, args)?;
    p.memory().count_bounce();
    let page = scratch(me.port.slot_index);
    let frame = p.memory().control_page(page).ok()?;
    let mut made = *args;
    for piece in plan.pieces() {
        put_in(p, piece, args[piece.argument], frame)?;
        made[piece.argument] = page + piece.at;
    }
    if let Some(bytes) = plan.shortened {
        made[2] = bytes;
    }
    match direct::call(me, Call::new(row.number.into(), made)) {
        Outcome::Done(value) if Errno::from_return(value).is_none() => {
            let value = value as u64;
            if plan.shortened.is_some_and(|bytes| value >= bytes) {
                return None;
            }
            let taken = take_out(&plan, args, frame, value).map(|()| value as i64);
            Some(Outcome::Done(taken.unwrap_or_else(Errno::as_return)))
        }
        outcome => Some(outcome),
    }
}

/// Before the call: what it reads. `None`: some of it is not there; the call is Linux' to refuse.
fn put_in(p: &Process, piece: &Piece, pointer: u64, frame: PhysAddr) -> Option<()> {
    let to = frame + piece.at;
    match piece.what {
        What::Text => {
            let mut text = [0; TEXT_MAX];
            let length = usercopy::read_string(UserAddr::of(pointer), &mut text).ok()??.len();
            text[length] = 0;
            memory::write(to, &text[..=length]);
        }
        What::In => {
            let mut chunk = [0; CHUNK];
            for at in (0..piece.bytes).step_by(CHUNK) {
                let part = &mut chunk[..CHUNK.min((piece.bytes - at) as usize)];
                usercopy::read(UserAddr::behind(pointer, at), part).ok()?;
                memory::write(to + at, part);
            }
        }
        What::Out { .. } => {
            return (is_writable(p, pointer, piece.bytes) && brings_in(pointer, piece.bytes))
                .then_some(());
        }
    }
    Some(())
}

/// Brings in the pages to which the call is going to write. False: one cannot be (a file that has
/// become shorter).
fn brings_in(start: u64, bytes: u64) -> bool {
    let end = start + bytes; // `is_writable`
    let pages = (start & !(SMALL - 1)..end).step_by(SMALL as usize);
    pages.map(|page| UserAddr::of(page.max(start) & !3)).all(|word| {
        // A write that changes nothing, also of what others have written meanwhile.
        usercopy::read_u32(word)
            .and_then(|value| usercopy::compare_exchange_u32(word, value, value))
            .is_ok()
    })
}

/// After it: what it has written.
fn take_out(plan: &Plan, args: &[u64; 6], frame: PhysAddr, value: u64) -> Result<()> {
    for piece in plan.pieces() {
        let What::Out { whole } = piece.what else { continue };
        let bytes = if whole { piece.bytes } else { value.min(piece.bytes) };
        let mut chunk = [0; CHUNK];
        for at in (0..bytes).step_by(CHUNK) {
            let part = &mut chunk[..CHUNK.min((bytes - at) as usize)];
            memory::read(frame + (piece.at + at), part);
            usercopy::write(UserAddr::behind(args[piece.argument], at), part)
                .map_err(|_| errno::EFAULT)?;
        }
    }
    Ok(())
}

/// Whether the program could write to all of it: what Linux reads for it must not be lost.
fn is_writable(p: &Process, start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes) else { return false };
    let mm = p.memory().mm.lock();
    let mut at = start;
    while at < end {
        match mm.mappings().find(at) {
            Some(vma) if vma.prot.contains(Prot::WRITE) => at = vma.end,
            _ => return false,
        }
    }
    true
}
