//! Utility threads: a thread whose user-mode code executes on a Linux CPU, in its proxy, at the
//! same addresses (`hanare_abi::utility`, `docs/utility-threads.md`).
//!
//! Instead of returning to user mode such a thread posts one call to its worker, [`NR_UTILITY`],
//! and waits for it as for any call that blocks. It comes back for a system call that is not
//! Linux', a signal, or an exception. An exception is not translated: the thread executes the
//! instruction here, where it raises the same, or where it does not since only Linux' view of the
//! memory is another. With its next system call it goes to Linux again. Only what an instruction
//! raises that is over (a step, a breakpoint) is raised here as it was there.

use crate::base::line::Line;
use crate::gate::{observe, raise, rseq};
use crate::link::{delegate, direct};
use crate::parts::utility::{Bell, Wish};
use crate::process::thread::Thread;
use crate::process::workers;
use crate::sched::{cpus, doorbell};
use crate::signal::sigframe;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::{EVENT_EVENTFD, EVENT_SLOT};
use hanare_abi::control::Control;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::utility::{
    AREA_FPU, AREA_FRAME, AREA_FS_BASE, AREA_GS_BASE, AREA_MAX, AREA_MIN, AREA_STACK, LEFT_CALL,
    LEFT_FAULT, LEFT_MASK, LEFT_TRAP, NO_EVENTFD, NR_UTILITY, RUN_ON_ASK, RUN_ON_EVENTFD,
    RUN_ON_LINUX, RUN_ON_LWK, RUN_ON_RING, RUN_ON_SLEEP, RUNG_ASLEEP,
};
use hanare_core::errno::{self, Result};
use hanare_core::link::{Call, Outcome};
use hanare_core::ratelimit::Pace;
use hanare_core::signal::AltStack;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::traps::{NO_CALL, Regs, vector};
use hanare_hal::usercopy::{self, UserAddr};
use hanare_hal::{cpu, fpu, percpu, shared};

/// `prctl(PR_HANARE_RUN_ON)`.
pub fn run_on(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    match a[1] {
        RUN_ON_LWK => me.utility.clear(),
        RUN_ON_LINUX => return begin(me, Wish { area: a[2], bytes: a[3], cpu: a[4] }),
        RUN_ON_ASK => return Ok(u64::from(me.utility.is_wanted() && may_leave(me))),
        RUN_ON_EVENTFD => return be_rung_by(me, a[2] as u32),
        RUN_ON_RING => return ring(me, a[2] as u32),
        RUN_ON_SLEEP => return Err(errno::EAGAIN), // the proxy makes it for threads that are there
        _ => return Err(errno::EINVAL),
    }
    me.calls_here();
    Ok(0)
}

/// An eventfd is the descriptor table's of its worker, which gives it to Linux.
fn be_rung_by(me: &Thread, descriptor: u32) -> Result<u64> {
    if me.process.pool.is_packed() {
        return Err(errno::EOPNOTSUPP); // another proxy has its descriptors
    }
    // No thread rings while Linux has the one before, or none. A ring that is under way may reach
    // either.
    me.utility.set_bell(Bell::None);
    let eventfd = if descriptor == RUNG_ASLEEP { NO_EVENTFD } else { descriptor };
    delegate::result_of(me, Control::Eventfd { descriptor: eventfd })?;
    me.utility.set_bell(match descriptor {
        NO_EVENTFD => Bell::None,
        RUNG_ASLEEP => Bell::Worker,
        _ => Bell::Eventfd,
    });
    Ok(0)
}

/// Rings of a CPU for which no thread on Linux has to be awake, so that nothing else bounds them:
/// each is an interrupt there. The rate is that at which threads woken for calls come back for
/// more; the burst allows for a program that wakes several.
const RINGS_APART_US: u64 = 10;
const RINGS_AT_ONCE: u64 = 32;
static RINGS: [Line<AtomicU64>; CPUS_MAX] = [const { Line(AtomicU64::new(0)) }; CPUS_MAX];

fn ring(me: &Thread, tid: u32) -> Result<u64> {
    // First: a thread that rings too often looks at no list of threads either.
    let interval = u64::from(shared::params().tsc_khz) * RINGS_APART_US / 1000;
    let (pace, used) = (Pace { interval, burst: RINGS_AT_ONCE }, &RINGS[percpu::index()]);
    let after = pace.take(used.load(Ordering::Relaxed), cpu::rdtsc()).ok_or(errno::EAGAIN)?;
    let found = me.process.with_threads(|all| {
        let thread = all.iter().find(|thread| tid != 0 && thread.tid() == tid)?;
        Some((thread.port.slot, thread.port.slot_index, thread.utility.bell()))
    });
    let (slot, index, bell) = found.ok_or(errno::ESRCH)?;
    let event = match bell {
        Bell::None => return Err(errno::ENXIO),
        Bell::Eventfd => EVENT_EVENTFD,
        Bell::Worker => EVENT_SLOT,
    };
    used.store(after, Ordering::Relaxed);
    doorbell::ring(slot.doorbell(), event, u64::from(me.port.space) << 24 | u64::from(index));
    Ok(0)
}

fn begin(me: &Thread, wish: Wish) -> Result<u64> {
    let Wish { area, bytes, cpu } = wish;
    let is_area =
        area.is_multiple_of(4096) && area >= USER_MIN && (AREA_MIN..=AREA_MAX).contains(&bytes);
    let is_cpu = cpu == u64::MAX || u32::try_from(cpu).is_ok();
    if !is_area || !is_cpu || area.checked_add(bytes).is_none_or(|end| end > USER_MAX) {
        return Err(errno::EINVAL);
    }
    let has_room = fpu::size() as u64 + 64 <= AREA_STACK - AREA_FPU;
    if !has_room || !may_leave(me) || me.process.pool.is_packed() {
        return Err(errno::EOPNOTSUPP);
    }
    me.process.has_utility_threads.store(true, Ordering::Relaxed);
    me.process.descriptors_change_unseen(); // it closes some, and says so to Linux only
    // Its worker gets a filter, which no other thread is to inherit.
    workers::attributes_changed(me);
    me.utility.set(wish);
    me.calls_here(); // from now on each call looks where the thread is to go on
    cpus::request_attention(); // and this one
    Ok(0)
}

/// Whether no observer has to see each call and each step of a thread: a tracer, a debugger or a
/// filter sees those on the LWK.
fn may_leave(me: &Thread) -> bool {
    me.seccomp.mode() == 0
        && !me.process.observed.is_on()
        && !me.ptrace.is_on()
        && !me.no_tsc.load(Ordering::Relaxed)
        && cpu::user_gs_base() < USER_MAX // as Linux takes it
}

/// Serves a system call of the running thread.
type Serve = fn(&'static Thread, &mut Regs);

/// Has the running thread, which is about to enter user mode with `regs`, execute on Linux instead.
/// True: it has come back and is to do the same again, after all that comes before user mode;
/// false: it enters user mode here.
pub fn execute(me: &'static Thread, regs: &mut Regs, serve: Serve) -> bool {
    me.utility.set_out(true);
    let is_to_leave_again = leave(me, regs, serve);
    me.utility.set_out(false);
    is_to_leave_again
}

fn leave(me: &'static Thread, regs: &mut Regs, serve: Serve) -> bool {
    let Some(wish) = me.utility.wish().filter(|_| may_leave(me)) else { return false };
    if me.must_end() {
        return true;
    }
    let Ok(args) = prepare(me, &wish, regs) else {
        me.utility.clear();
        raise::exception(me, regs, vector::PROTECTION); // its area is not there
        return true;
    };
    let outcome = direct::call(me, Call::new(NR_UTILITY, args));
    me.utility.set_out(false);
    me.rseq.disturb();
    match outcome {
        Outcome::Done(value) if value >= 0 => come_back(me, &wish, regs, value as u64, serve),
        Outcome::Done(_) => {
            me.utility.clear();
            false
        }
        Outcome::NotStarted => {
            cpus::yield_now(); // a proxy may say so for ever
            true
        }
        Outcome::ThreadEnding | Outcome::PeerGone => true,
    }
}

/// Puts the registers where Linux takes them from; the arguments for the worker.
fn prepare(me: &Thread, wish: &Wish, regs: &mut Regs) -> Result<[u64; 6]> {
    rseq::before_linux(me, regs)?;
    let Wish { area, bytes, cpu: wanted } = *wish;
    let stack = AltStack { sp: area + AREA_STACK, flags: 0, reserved: 0, size: bytes - AREA_STACK };
    sigframe::put_context(regs, UserAddr::of(area + AREA_FRAME), area + AREA_FPU, stack)?;
    let control_fd = u64::from(me.process.identity.lock().control_fd);
    Ok([area, bytes, cpu::fs_base(), wanted, control_fd, cpu::user_gs_base()])
}

/// The thread has left its code on Linux: takes its registers over, and serves the call for which
/// it did.
fn come_back(me: &'static Thread, wish: &Wish, regs: &mut Regs, left: u64, serve: Serve) -> bool {
    const DEBUG: u64 = LEFT_TRAP + vector::DEBUG as u64;
    const BREAKPOINT: u64 = LEFT_TRAP + vector::BREAKPOINT as u64;
    const OVERFLOW: u64 = LEFT_TRAP + vector::OVERFLOW as u64;
    let fs_base = usercopy::read_u64(UserAddr::of(wish.area + AREA_FS_BASE));
    let gs_base = usercopy::read_u64(UserAddr::of(wish.area + AREA_GS_BASE));
    let taken = sigframe::take_context(regs, UserAddr::of(left & !LEFT_MASK));
    let (Ok(fs_base), Ok(gs_base), Ok(())) = (fs_base, gs_base, taken) else {
        me.utility.clear();
        raise::exception(me, regs, vector::PROTECTION);
        return true;
    };
    if fs_base < USER_MAX && fs_base != cpu::fs_base() {
        cpu::set_fs_base(fs_base);
    }
    if gs_base < USER_MAX && gs_base != cpu::user_gs_base() {
        cpu::set_user_gs_base(gs_base);
    }
    match left & LEFT_MASK {
        LEFT_CALL => {
            regs.orig_rax = u64::from(regs.rax as u32);
            regs.rax = errno::ENOSYS.as_return() as u64;
            serve(me, regs);
            true
        }
        LEFT_FAULT => false,
        DEBUG => {
            raise::debug(me, regs, true);
            true
        }
        BREAKPOINT => {
            if !observe::debug::breakpoint(me, regs) {
                raise::exception(me, regs, vector::BREAKPOINT);
            }
            true
        }
        OVERFLOW => {
            regs.orig_rax = 0; // no error code
            raise::exception(me, regs, vector::OVERFLOW);
            regs.orig_rax = NO_CALL;
            true
        }
        _ => true,
    }
}
