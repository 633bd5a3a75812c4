//! Pooled proxies: the server of a native task's calls is the proxy of another space, whose slot
//! the calling thread has for itself meanwhile. See `docs/delegation.md`, *Packed arguments and
//! pooled proxies*.

use crate::base::{counts, log_limit};
use crate::gate::observe;
use crate::link::caller::Delegates;
use crate::link::{bells, direct};
use crate::process::members::{self, Native, NoProxy, Taken};
use crate::process::thread::Thread;
use crate::route::packed::{self, NotPacked};
use crate::route::program::Program;
use crate::sched::cpus;
use crate::signal::unhandled;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use hanare_abi::message::MESSAGE_PAGE_NONE;
use hanare_abi::pooled::{PACKED_CLEAN, PACKED_PAGES};
use hanare_abi::slot::NR_PACKED;
use hanare_core::errno::{self, Result};
use hanare_core::link::{Call, Outcome};
use hanare_core::marshal::{self, PAYLOAD_BYTES, Piece, Refusal, Short};
use hanare_core::native::{self, Kind};
use hanare_core::syscalls::{self, arguments::Argument};
use hanare_hal::shared;
use hanare_hal::usercopy::{self, UserAddr};
use hanare_ikc::{Answer, SlotRef};
use linux_raw_sys::general::{__NR_getppid, __NR_times};

/// Pieces of memory to write back, at most: of nearly all calls, and of any call.
const PIECES_FEW: usize = 4;
const PIECES_MAX: usize = 64;
/// Most data of a transfer that may be shorter than it was asked for: what fits beside a head.
const TRANSFER_MAX: u64 = (PACKED_PAGES as u64 - 1) * PAYLOAD_BYTES as u64;

/// The error with which a call of a native task is refused before a proxy serves it, if it is.
pub fn refusal(me: &Thread, number: u32, args: &[u64; 6]) -> Option<errno::Errno> {
    let task = me.process.native.get()?;
    match native::kind(number, args) {
        Kind::Local | Kind::Any => None,
        Kind::Kept if task.keeps.load(Ordering::Relaxed) => None,
        Kind::Kept => {
            say(
                me,
                number,
                "leaves something behind in the proxy that executes it: keep one first",
            );
            Some(errno::EOPNOTSUPP)
        }
        Kind::Refused => {
            say(me, number, "is not there for native tasks, whose proxies are not theirs alone");
            Some(errno::ENOSYS)
        }
    }
}

/// Says why a call is refused, by its name.
fn say(me: &Thread, number: u32, why: &str) {
    if log_limit::may_say() {
        let name = syscalls::row(number.into()).map_or("?", |row| row.name);
        crate::info!("{}: {name} {why}", unhandled::name_of(me));
    }
}

/// prctl(`PR_HANARE_PROXY`, what): see [`native::PR_HANARE_PROXY`].
///
/// # Errors
/// `EINVAL`: the program is no native task, or there is no such `what`.
pub fn proxy(me: &Thread, what: u64) -> Result<u64> {
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

/// Gives back the proxy that the task keeps, for any task of the pool, without what was opened
/// there. One that does not answer is gone.
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

/// Has a pooled proxy execute a call of the running thread `me`.
pub fn call(me: &Thread, number: u32, args: &[u64; 6]) -> Outcome {
    if let Some(error) = refusal(me, number, args) {
        return Outcome::Done(error.as_return());
    }
    let Some(task) = me.process.native.get() else {
        return Outcome::Done(errno::ENOSYS.as_return());
    };
    if matches!(number, __NR_getppid | __NR_times) {
        // The proxy's parent is the task's own process. Ticks are the same for all; times of the
        // task are the LWK's to tell.
        return direct::call(me, Call::new(number, [0; 6]));
    }
    if names_self(number, args) {
        say(me, number, "names what /proc has of the proxy that executes it");
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

/// The end of a call that was sent.
enum Sent {
    /// The result, or why the call was not sent.
    Done(i64),
    /// The thread does not wait for the proxy any longer.
    Abandoned,
    /// The proxy has died; `is_lost`: it had begun, or kept something for the task. Otherwise
    /// another one may have the call.
    Died { is_lost: bool },
}

fn send(me: &Thread, task: &Native, taken: &Taken, number: u32, args: &[u64; 6]) -> Sent {
    match send_with(me, task, taken, number, args, &mut [Piece::NONE; PIECES_FEW]) {
        Err(Refusal::ListFull) => send_large(me, task, taken, number, args),
        Err(refusal) => Sent::Done(refused(me, number, refusal)),
        Ok(sent) => sent,
    }
}

#[cold]
#[inline(never)] // its list would cost each call as much as all the rest
fn send_large(me: &Thread, task: &Native, taken: &Taken, number: u32, args: &[u64; 6]) -> Sent {
    send_with(me, task, taken, number, args, &mut [Piece::NONE; PIECES_MAX])
        .unwrap_or_else(|refusal| Sent::Done(refused(me, number, refusal)))
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

/// The result of a call that cannot be packed.
fn refused(me: &Thread, number: u32, refusal: Refusal) -> i64 {
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
    say(me, number, why);
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
    let (pages, encoded) = match packed::pack(&program, taken, number, args, pieces) {
        Ok(packed) => packed,
        Err(NotPacked::Refused(refusal)) => return Err(refusal),
        Err(NotPacked::NoMemory) => return Ok(Sent::Done(errno::ENOMEM.as_return())),
    };
    let id = task.calls.load(Ordering::Relaxed);
    pages.places.seal(id, encoded.size);
    taken.prepare();
    observe::asks(me, true);
    let answer = ask(me, taken, &Call::new(NR_PACKED, [0, id, 0, me.port.space.into(), 0, 0]));
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
    let peer =
        Peer { space: taken.member.space.memory.id, slot: taken.member.slot, gives_up: &gives_up };
    exchange(me, &peer, call)
}

/// The other side.
pub struct Peer<'a> {
    /// The proxy's space.
    pub space: u32,
    /// The proxy's slot, the first one.
    pub slot: SlotRef<'static>,
    /// Whether there is no point in waiting on. The side that makes it so kicks the thread.
    pub gives_up: &'a (dyn Fn() -> bool + Sync),
}

/// Waits for the other side's answer to the running thread's call.
struct Answered<'a, C: ?Sized> {
    caller: &'a C,
    peer: &'a Peer<'a>,
    answer: Cell<Option<Answer>>,
}

impl<C: Delegates + ?Sized> cpus::Wait for Answered<'_, C> {
    fn ready(&self) -> bool {
        if self.answer.get().is_none() {
            self.answer.set(self.peer.slot.lwk_poll());
        }
        self.answer.get().is_some() || (self.peer.gives_up)()
    }
    fn near(&self) -> bool {
        self.peer.slot.worker_is_awake()
    }
    fn is_told(&self) -> bool {
        true // by its bell, or by a kick
    }
    fn announce(&self, asleep: bool) {
        let (slot, port) = (&self.peer.slot, self.caller.port());
        if asleep {
            // Its own bell, which the other space may ring for once.
            bells::expect_ring_of_pooled(self.peer.space, slot, port.task.bell);
        } else {
            slot.lwk_awake();
        }
    }
}

/// Has `peer` execute a call of the running thread `caller`. `None`: it is given up, and may be
/// executed or not.
pub fn exchange(
    caller: &(impl Delegates + ?Sized),
    peer: &Peer<'_>,
    call: &Call,
) -> Option<Answer> {
    shared::here().count_delegated_call();
    counts::count(&caller.port().task.counts.delegated);
    let asleep = peer.slot.lwk_post(call.nr, call.args);
    if asleep {
        direct::ring_worker(peer.space, 0, &peer.slot);
    }
    let mut answered = Answered { caller, peer, answer: Cell::new(None) };
    direct::wait_for(caller, &mut answered, asleep);
    answered.answer.get()
}
