//! Copied arguments: what a call refers to goes through a buffer that the LWK and the proxy share,
//! its *message* (`hanare_core::marshal`, `mm/window/messages.rs`), and Linux touches nothing of
//! the program's memory. See `docs/delegation.md`, *Copied arguments*.
//!
//! Program memory is read and written here by the running thread, as by a local call: pages come
//! in, are copied after a fork, and are written to files that are mapped, as ever. A call of which
//! there can be no message is made with its arguments mapped, and counted with the reason.

use crate::mm::Caller;
use crate::mm::window::messages::{self, Frames};
use crate::parts::seccomp::FILTER;
use crate::process::thread::Thread;
use crate::route::program::{InFrames, Places, Program};
use crate::route::{boxed, server};
use alloc::sync::Arc;
use hanare_abi::copied::{
    MAPPED_CHANGED, MAPPED_JUDGED, MAPPED_KEPT, MAPPED_NO_MEMORY, MAPPED_NOT_TAKEN, MAPPED_PIECES,
    MAPPED_TOO_LARGE, MAPPED_UNDESCRIBED,
};
use hanare_abi::layout::message;
use hanare_abi::slot::NR_MESSAGE;
use hanare_core::errno;
use hanare_core::link::route::Server;
use hanare_core::link::{Call, Outcome};
use hanare_core::marshal::{self, Buffer, Encoded, HEAD_BYTES, Piece, Refusal};
use hanare_hal::addr::PhysAddr;
use hanare_hal::shared;
use hanare_ikc::Answer;
use linux_raw_sys::general::{__NR_poll, __NR_ppoll, __NR_sendmmsg, __NR_sendmsg, __NR_sendto};

/// Pieces of memory to write back, at most, of nearly all calls.
const PIECES_FEW: usize = 4;
/// Pieces of memory to write back, at most, of any call; a call with more goes by mapping.
const PIECES_MAX: usize = 64;
/// Descriptors of a poll: each has a word of its own to write back, without another thread's turn
/// in between.
const POLLED_MAX: u64 = 1 << 16;
/// Bytes of a message that a thread keeps for its next calls.
const KEPT_BYTES: u64 = 256 << 10;
/// After so many calls that need no more than that it has no more.
const SMALL_CALLS: u32 = 64;

/// Has `server` execute the call from a message; what was written is brought to the program. Also
/// whether a server of the request box executed it, which a signal interrupted. `None`: the call is
/// to be made another way.
pub fn call(me: &Thread, server: Server, number: u32, args: &[u64; 6]) -> Option<(Outcome, bool)> {
    let sent = match send(me, server, number, args, &mut [Piece::NONE; PIECES_FEW]) {
        Err(MAPPED_PIECES) => send_large(me, server, number, args),
        sent => sent,
    };
    match sent {
        Ok(outcome) => outcome,
        Err(reason) => {
            shared::here().count_mapped(number, reason);
            None
        }
    }
}

#[cold]
#[inline(never)] // its list would cost each call as much as all the rest
fn send_large(me: &Thread, server: Server, number: u32, args: &[u64; 6]) -> Sent {
    send(me, server, number, args, &mut [Piece::NONE; PIECES_MAX])
}

/// `Ok(None)`: the call refers to nothing. `Err`: why there can be no message.
type Sent = Result<Option<(Outcome, bool)>, u32>;

/// Sends the call as a message with room for `pieces` to be written back, see [`Sent`].
fn send(me: &Thread, server: Server, number: u32, args: &[u64; 6], pieces: &mut [Piece]) -> Sent {
    if me.seccomp.mode() == FILTER {
        return Err(MAPPED_JUDGED);
    }
    if is_kept(number, args) {
        return Err(MAPPED_KEPT);
    }
    if matches!(number, __NR_poll | __NR_ppoll) && args[1] > POLLED_MAX {
        return Err(MAPPED_TOO_LARGE);
    }
    let caller = me.caller();
    let mut program = Program(&caller);
    let (mut to, encoded) = encode(&program, number, args, pieces)?;
    if encoded.size == HEAD_BYTES {
        return Ok(None);
    }
    let place = [message(me.port.slot_index), to.size() as u64, 0, 0, 0, 0];
    let (call, message) = (Call::new(number, *args), Call::new(NR_MESSAGE, place));
    let (outcome, by_signal) = server::execute(me, server, &call, &message);
    let outcome = match outcome {
        Outcome::Done(0) => {
            let value = marshal::complete(&to, &pieces[..encoded.pieces], &mut program);
            shared::here().count_copied(to.loaded, to.stored.get());
            has_sent(&caller, &mut to, encoded.size as u64);
            boxed::outcome(me, number, Answer::Done(value), by_signal)
        }
        Outcome::Done(_) => return Err(MAPPED_NOT_TAKEN),
        outcome => outcome,
    };
    Ok(Some((outcome, by_signal)))
}

/// Whether Linux may read the memory after the call.
fn is_kept(number: u32, args: &[u64; 6]) -> bool {
    const MSG_ZEROCOPY: u64 = 0x400_0000;
    let flags = match number {
        __NR_sendto | __NR_sendmmsg => args[3],
        __NR_sendmsg => args[2],
        _ => 0,
    };
    flags & MSG_ZEROCOPY != 0
}

/// Writes the call into the message of the running thread, which grows where it has to. `Err`: why
/// it cannot be.
fn encode(
    program: &Program<'_>,
    number: u32,
    args: &[u64; 6],
    pieces: &mut [Piece],
) -> Result<(Message, Encoded), u32> {
    let of_errno = |e| if e == errno::E2BIG { MAPPED_TOO_LARGE } else { MAPPED_NO_MEMORY };
    let mut frames = messages::of_slot(program.0).map_err(of_errno)?;
    loop {
        let mut to = Message::new(frames);
        match marshal::encode(program, number, args, &mut to, pieces) {
            Ok(encoded) => return Ok((to, encoded)),
            Err(Refusal::DoesNotFit { needed }) if needed > to.size() as u64 => {
                frames = messages::grow(program.0, needed).map_err(of_errno)?;
            }
            Err(Refusal::DoesNotFit { .. }) => return Err(MAPPED_TOO_LARGE),
            Err(Refusal::Undescribed(_)) => return Err(MAPPED_UNDESCRIBED),
            Err(Refusal::ListFull | Refusal::SeveralFaults) => return Err(MAPPED_PIECES),
            Err(Refusal::Unmapped) => return Err(MAPPED_CHANGED),
        }
    }
}

/// After a call whose message had so many bytes: a large one that is not needed any more becomes
/// smaller.
fn has_sent(p: &Caller<'_>, to: &mut Message, bytes: u64) {
    if to.size() as u64 <= KEPT_BYTES {
        return;
    }
    if bytes > KEPT_BYTES {
        to.places.set_unused(0);
    } else if to.places.unused() < SMALL_CALLS {
        to.places.set_unused(to.places.unused() + 1);
    } else {
        messages::shrink(p, KEPT_BYTES);
    }
}

/// The message of the running thread. Its worker, which may be forged, can write to it at any time.
type Message = InFrames<Arc<Frames>>;

impl Places for Arc<Frames> {
    fn size(&self) -> usize {
        self.bytes()
    }

    fn place(&self, at: usize) -> Option<(PhysAddr, usize)> {
        Frames::place(self, at)
    }
}
