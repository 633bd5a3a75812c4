//! Calls of native tasks: their arguments are packed into pages that a pooled proxy takes them from (`abi/src/pooled.rs`).
//! See `docs/delegation.md`, *Packed arguments and pooled proxies*.
//!
//! The pages are the proxy's memory and the LWK's; nothing of the task's is in them but what its call refers to. Which pages a
//! message has, and what may be written back, the LWK knows itself: it reads no head of a page again.

use crate::base::log_limit;
use crate::calls::program::{InFrames, Places, Program};
use crate::gate::observe;
use crate::link::delegate;
use crate::link::packed::{self, Peer};
use crate::mm::messages::{self, Frames};
use crate::process::members::{self, Native, NoProxy, Taken};
use crate::process::thread::{self, Thread};
use crate::signal::unhandled;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::message::{MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE, MessagePage};
use hanare_abi::pooled::{PACKED_CLEAN, PACKED_PAGES};
use hanare_abi::slot::NR_PACKED;
use hanare_core::errno::{self, Result};
use hanare_core::link::{Call, Outcome};
use hanare_core::marshal::{
    self, Buffer, Encoded, PAGE_HEAD_BYTES, PAYLOAD_BYTES, Piece, Refusal, Short, page_bytes,
};
use hanare_core::native::{self, Kind};
use hanare_core::syscalls::{self, arguments::Argument};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::{self, UserAddr};
use hanare_hal::{memory, shared};
use hanare_ikc::Answer;
use linux_raw_sys::general::{__NR_getppid, __NR_times};

/// What may be written back of most calls, and of any.
const PIECES_FEW: usize = 4;
const PIECES_MAX: usize = 64;
/// Most data of a transfer that may be shorter than it was asked for: what fits beside a head.
const TRANSFER_MAX: u64 = (PACKED_PAGES as u64 - 1) * PAYLOAD_BYTES as u64;

/// Whether a call of a native task is to be refused, before anybody serves it: the error.
pub fn refusal(number: u32, args: &[u64; 6]) -> Option<errno::Errno> {
    let task = thread::current().process.native.get()?;
    match native::kind(number, args) {
        Kind::Local | Kind::Any => None,
        Kind::Kept if task.keeps.load(Ordering::Relaxed) => None,
        Kind::Kept => {
            say(number, "leaves something behind in the proxy that executes it: keep one first");
            Some(errno::EOPNOTSUPP)
        }
        Kind::Refused => {
            say(number, "is not there for native tasks, whose proxies are not theirs alone");
            Some(errno::ENOSYS)
        }
    }
}

/// Says why a call is refused, by its name.
fn say(number: u32, why: &str) {
    if log_limit::may_say() {
        let name = syscalls::row(number.into()).map_or("?", |row| row.name);
        crate::info!("{}: {name} {why}", unhandled::name_of(thread::current()));
    }
}

/// prctl(`PR_HANARE_PROXY`, what): see [`native::PR_HANARE_PROXY`].
///
/// # Errors
/// `EINVAL`: the program is no native task, or there is no such `what`.
pub fn proxy(what: u64) -> Result<u64> {
    let me = thread::current();
    let task = me.process.native.get().ok_or(errno::EINVAL)?;
    match what {
        native::KEEP => task.keeps.store(true, Ordering::Relaxed),
        native::GIVE_BACK => {
            task.keeps.store(false, Ordering::Relaxed);
            give_back(me, task);
        }
        native::ASK => return Ok(task.keeps.load(Ordering::Relaxed).into()),
        _ => return Err(errno::EINVAL),
    }
    Ok(0)
}

/// The proxy that the task keeps becomes anybody's, without what was opened there. One that does not answer is gone.
fn give_back(me: &Thread, task: &Native) {
    if !task.has_kept() {
        return;
    }
    if let Ok(taken) = members::take(me, task) {
        taken.prepare();
        let clean = Call::new(NR_PACKED, [MESSAGE_PAGE_NONE.into(), 0, PACKED_CLEAN, 0, 0, 0]);
        match ask(me, &taken, &clean) {
            Some(Answer::Done(0)) => taken.give_back(task),
            _ if taken.is_gone() => taken.give_back(task),
            _ => taken.abandon(task), // the task ends, and the proxy with it
        }
    }
}

/// Has a pooled proxy execute a call of the running thread.
pub fn call(number: u32, args: &[u64; 6]) -> Outcome {
    if let Some(error) = refusal(number, args) {
        return Outcome::Done(error.as_return());
    }
    let me = thread::current();
    let Some(task) = me.process.native.get() else {
        return Outcome::Done(errno::ENOSYS.as_return());
    };
    if matches!(number, __NR_getppid | __NR_times) {
        // The proxy's parent is the task's own process. Ticks are the same for all; times of the task are the LWK's to tell.
        return delegate::call_worker(me, Call::new(number, [0; 6]));
    }
    if names_self(number, args) {
        say(number, "names what /proc has of the proxy that executes it");
        return Outcome::Done(errno::ENOENT.as_return());
    }
    let (short, less) = marshal::shorter(number, args, TRANSFER_MAX);
    let args = if short == Short::Never { args } else { &less };
    loop {
        let taken = match members::take(me, task) {
            Ok(taken) => taken,
            Err(NoProxy::Interrupted(outcome)) => return outcome,
            Err(NoProxy::Lost) => return Outcome::Done(errno::EOWNERDEAD.as_return()),
            Err(NoProxy::None(error)) => return Outcome::Done(error.as_return()),
        };
        task.calls.fetch_add(1, Ordering::Relaxed);
        match send(me, task, &taken, number, args) {
            Sent::Done(value) => {
                done_with(taken, task);
                return Outcome::Done(value);
            }
            // The thread is on its way out, and so is the proxy, which may execute the call still.
            Sent::Abandoned => {
                taken.abandon(task);
                return Outcome::Done(errno::EINTR.as_return());
            }
            Sent::Died { is_lost } => {
                taken.give_back(task);
                if is_lost {
                    return Outcome::Done(errno::EOWNERDEAD.as_return());
                }
            }
        }
    }
}

fn done_with(taken: Taken, task: &Native) {
    if task.keeps.load(Ordering::Relaxed) {
        taken.keep();
    } else {
        taken.give_back(task);
    }
}

/// What has become of a call that was sent.
enum Sent {
    /// This is its result, or why it was not sent.
    Done(i64),
    /// The thread does not wait for it any longer.
    Abandoned,
    /// The proxy has died; `is_lost`: it had begun, or kept something for the task. Otherwise another one may have the call.
    Died { is_lost: bool },
}

fn send(me: &Thread, task: &Native, taken: &Taken, number: u32, args: &[u64; 6]) -> Sent {
    match send_with(me, task, taken, number, args, &mut [Piece::NONE; PIECES_FEW]) {
        Err(Refusal::ListFull) => send_large(me, task, taken, number, args),
        Err(refusal) => Sent::Done(refused(number, refusal)),
        Ok(sent) => sent,
    }
}

#[cold]
#[inline(never)] // its list would cost each call as much as all the rest
fn send_large(me: &Thread, task: &Native, taken: &Taken, number: u32, args: &[u64; 6]) -> Sent {
    send_with(me, task, taken, number, args, &mut [Piece::NONE; PIECES_MAX])
        .unwrap_or_else(|refusal| Sent::Done(refused(number, refusal)))
}

/// Whether a path of the call means something of the calling process: the proxy is not the task.
fn names_self(number: u32, args: &[u64; 6]) -> bool {
    let is_path = |argument: &Argument| matches!(argument, Argument::Text);
    syscalls::arguments(number.into()).iter().zip(args).any(|(argument, &at)| {
        is_path(argument) && {
            let (at, mut bytes) = (UserAddr::of(at), [0; native::LOOKED_AT]);
            // What ends before memory does is read as a string.
            if usercopy::read(at, &mut bytes).is_ok() {
                native::names_self(&bytes)
            } else {
                usercopy::read_string(at, &mut bytes)
                    .is_ok_and(|text| text.is_some_and(native::names_self))
            }
        }
    })
}

/// What a call returns that cannot be packed.
fn refused(number: u32, refusal: Refusal) -> i64 {
    let (error, why) = match refusal {
        Refusal::Undescribed(why) => (errno::ENOSYS, why),
        Refusal::DoesNotFit { .. } => {
            (errno::E2BIG, "refers to more than a packed call can have, 1 MiB")
        }
        Refusal::ListFull | Refusal::SeveralFaults => {
            (errno::E2BIG, "has more pieces than a packed call can have")
        }
        Refusal::Unmapped => return errno::EFAULT.as_return(),
    };
    say(number, why);
    error.as_return()
}

fn send_with(
    me: &Thread,
    task: &Native,
    taken: &Taken,
    number: u32,
    args: &[u64; 6],
    pieces: &mut [Piece],
) -> core::result::Result<Sent, Refusal> {
    let caller = me.caller();
    let mut program = Program(&caller);
    let (pages, encoded) = match pack(&program, taken, number, args, pieces) {
        Ok(packed) => packed,
        Err(NotPacked::Refused(refusal)) => return Err(refusal),
        Err(NotPacked::NoMemory) => return Ok(Sent::Done(errno::ENOMEM.as_return())),
    };
    let id = task.calls.load(Ordering::Relaxed);
    pages.places.seal(id, encoded.size);
    taken.prepare();
    observe::asks(me, true);
    let answer = ask(me, taken, &Call::new(NR_PACKED, [0, id, 0, me.space.into(), 0, 0]));
    Ok(match answer {
        Some(Answer::Done(0)) => {
            let value = marshal::complete(&pages, &pieces[..encoded.pieces], &mut program);
            shared::here().count_packed_call();
            Sent::Done(value)
        }
        // It has not executed anything.
        Some(Answer::Done(error)) => Sent::Done(error),
        Some(Answer::NotStarted) => Sent::Done(errno::EIO.as_return()),
        None if taken.is_gone() => Sent::Died { is_lost: taken.is_kept || taken.has_begun() },
        None => Sent::Abandoned,
    })
}

fn ask(me: &Thread, taken: &Taken, call: &Call) -> Option<Answer> {
    let gives_up =
        || me.process.is_killed() || me.must_end() || taken.is_gone() || members::dies(me);
    let peer = Peer { space: taken.space.space, slot: taken.slot, gives_up: &gives_up };
    packed::exchange(me, &peer, call)
}

/// Why a call is not packed.
enum NotPacked {
    Refused(Refusal),
    NoMemory,
}

/// Writes the call into the pages of the proxy, which become more where it has to be.
fn pack(
    program: &Program<'_>,
    taken: &Taken,
    number: u32,
    args: &[u64; 6],
    pieces: &mut [Piece],
) -> core::result::Result<(InFrames<Pages>, Encoded), NotPacked> {
    let space = &taken.space;
    let mut frames = space.message(0).ok_or(NotPacked::NoMemory)?;
    loop {
        let mut to = InFrames::new(Pages { frames });
        match marshal::encode(program, number, args, &mut to, pieces) {
            Ok(encoded) => return Ok((to, encoded)),
            Err(Refusal::DoesNotFit { needed })
                if needed > to.size() as u64 && to.places.count() < PACKED_PAGES as usize =>
            {
                let pages = needed.div_ceil(PAYLOAD_BYTES as u64).min(PACKED_PAGES.into());
                let bytes = (pages + 1) * SMALL;
                frames = messages::grow_of(space, 0, bytes).map_err(|_| NotPacked::NoMemory)?;
            }
            Err(refusal) => return Err(NotPacked::Refused(refusal)),
        }
    }
}

/// The pages of a pooled proxy's calls, behind its own page; a message has the first ones, in their order. The proxy, which may be
/// forged, can write to them at any time.
struct Pages {
    frames: Arc<Frames>,
}

impl Places for Pages {
    fn size(&self) -> usize {
        self.count() * PAYLOAD_BYTES
    }

    fn place(&self, at: usize) -> Option<(PhysAddr, usize)> {
        let (page, inside) = (at / PAYLOAD_BYTES, at % PAYLOAD_BYTES);
        if page >= self.count() {
            return None;
        }
        let offset = (page + 1) * SMALL as usize + PAGE_HEAD_BYTES + inside;
        self.frames.place(offset).map(|(frame, _)| (frame, PAYLOAD_BYTES - inside))
    }
}

impl Pages {
    /// How many there are that a message may have.
    fn count(&self) -> usize {
        (self.frames.pages() as usize - 1).min(PACKED_PAGES as usize)
    }

    /// Writes the heads of the pages of a message of so many bytes.
    fn seal(&self, call: u64, bytes: usize) {
        let count = bytes.div_ceil(PAYLOAD_BYTES).min(self.count()) as u32;
        for index in 0..count {
            let next = if index + 1 == count { MESSAGE_PAGE_NONE } else { index + 1 };
            let head =
                MessagePage { magic: MESSAGE_PAGE_MAGIC, next, index, count, call, reserved: 0 };
            if let Some((frame, _)) = self.place(index as usize * PAYLOAD_BYTES) {
                memory::write(frame.page_down(), &page_bytes(&head));
            }
        }
    }
}
