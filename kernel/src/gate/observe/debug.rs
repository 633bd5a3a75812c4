//! Debuggers: stopping all threads of a process, their registers, breakpoints, steps.
//!
//! A thread stops on its way to user mode ([`before_user`]); one that waits in the
//! kernel counts as stopped where it is ([`in_kernel`]) and stops for good when it
//! comes out. A stop is complete when every thread has left a [`Snapshot`].

use crate::base::counts::{Counted, Kind};
use crate::base::lock::Mutex;
use crate::base::{heap, lists};
use crate::mm::patch;
use crate::parts::observed::{DEBUGGED, Debugger, HELD, Stop, Watches, tell};
use crate::parts::registers::Snapshot;
use crate::process::Process;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::observe::*;
use hanare_abi::request::PAGES_MAX;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::USER_REGS;
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_hal::traps::{Regs, vector};
use hanare_ikc::RequestRef;
use zerocopy::IntoBytes;

/// `int3`.
const INT3: u8 = 0xcc;
/// RFLAGS.TF.
const TRAP_FLAG: u64 = 0x100;
/// Most breakpoints of a debugger.
const BREAKPOINTS_MAX: usize = 4096;
/// Bytes of FXSAVE.
const FXSAVE: usize = 512;

impl Debugger<Process> {
    /// Takes hold of a process.
    pub fn new(session: u32, p: &Arc<Process>) -> Result<Arc<Debugger<Process>>> {
        let mut own = p.observed.debugger.lock();
        if own.is_some() {
            return Err(errno::EBUSY);
        }
        let d = heap::arc(Debugger {
            session,
            process: Arc::downgrade(p),
            state: Mutex::new(Stop::default()),
            watches: Watches::default(),
            _counted: Counted::new(Kind::Debugger),
        })?;
        *own = Some(d.clone());
        p.observed.set(DEBUGGED, true);
        Ok(d)
    }

    /// Where `int3` stands, and for what.
    pub fn breakpoints(&self) -> Result<Vec<(u64, u8)>> {
        lists::collected(self.state.lock().breakpoints.iter().map(|(a, b)| (*a, *b)))
    }

    fn process(&self) -> Result<Arc<Process>> {
        self.process.upgrade().filter(|p| !p.is_killed()).ok_or(errno::ESRCH)
    }

    fn thread(&self, tid: u64) -> Result<Arc<Thread>> {
        self.process()?.threads().find(|t| u64::from(t.slot.tid()) == tid).ok_or(errno::ESRCH)
    }

    /// One request of the debugger.
    pub fn request(&self, op: u32, a: u64, b: u64, r: &RequestRef<'_>) -> Result<()> {
        match op {
            OBSERVE_STATUS => {
                self.status(r);
                Ok(())
            }
            OBSERVE_STOP => {
                let p = self.process()?;
                self.stop(&p, OBSERVED_STOPPED, 0, 0, 0);
                self.look_whether_complete(&p);
                Ok(())
            }
            OBSERVE_THREADS => {
                let (mut tids, mut count) = ([0; PAGES_MAX], 0);
                self.process()?.with_threads(|all| {
                    for (t, to) in all.iter().skip(a as usize).zip(&mut tids) {
                        (*to, count) = (u64::from(t.slot.tid()), count + 1);
                    }
                });
                r.set_pages(&tids[..count]);
                Ok(())
            }
            OBSERVE_GET_REGISTERS | OBSERVE_SET_REGISTERS | OBSERVE_GET_FPU | OBSERVE_SET_FPU => {
                self.registers(op, a, r)
            }
            OBSERVE_WRITE => {
                let words = r.words();
                let bytes = words.as_bytes();
                let n = usize::try_from(b)
                    .ok()
                    .filter(|n| (1..=bytes.len()).contains(n))
                    .ok_or(errno::EINVAL)?;
                patch::write(&*self.process()?, a, &bytes[..n])
            }
            OBSERVE_BREAK => self.set_breakpoint(a, b != 0),
            OBSERVE_WATCH => self.watches.set(&*self.process()?, a, b, &r.words()),
            OBSERVE_ACTION => {
                self.thread(a)?.observe.debug.action.store(b + 1, Ordering::Relaxed);
                Ok(())
            }
            OBSERVE_RESUME => self.resume(a),
            OBSERVE_TEXT => self.text(a, b, r),
            _ => Err(errno::EINVAL),
        }
    }

    fn status(&self, r: &RequestRef<'_>) {
        let s = self.state.lock();
        let why = match (s.ended, s.why) {
            (Some(_), _) => OBSERVED_ENDED,
            (None, OBSERVED_RUNS) => OBSERVED_RUNS,
            (None, _) if !s.complete => OBSERVED_STOPPING,
            (None, why) => why,
        };
        r.set_arg(0, u64::from(s.ended.is_none()));
        r.set_arg(1, why | u64::from(s.signal) << 8 | u64::from(s.tid) << 32);
        r.set_arg(2, u64::from(s.ended.unwrap_or(0)));
        r.set_arg(3, s.address);
    }

    fn text(&self, which: u64, from: u64, r: &RequestRef<'_>) -> Result<()> {
        let p = self.process()?;
        let all = match which {
            TEXT_PROGRAM => heap::copied(&p.exe.lock())?,
            TEXT_AUXV => heap::copied(&p.observed.auxv.lock())?,
            _ => return Err(errno::EINVAL),
        };
        let rest = all.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let part = &rest[..rest.len().min(FXSAVE)];
        r.set_pages(&words(part)?);
        r.set_arg(0, part.len() as u64);
        Ok(())
    }

    /// Begins a stop for a reason; false: another one has begun already.
    fn stop(&self, p: &Process, why: u64, tid: u32, signal: u32, address: u64) -> bool {
        {
            let mut s = self.state.lock();
            if s.closing || s.why != OBSERVED_RUNS {
                return false;
            }
            (s.why, s.complete, s.tid, s.signal, s.address) = (why, false, tid, signal, address);
            p.observed.set(HELD, true); // locked: who resumes or closes does so before or after
        }
        kick(p);
        true
    }

    /// Tells the debugger when the last thread has stopped.
    fn look_whether_complete(&self, p: &Process) {
        {
            // Locked all the time: what is seen is about this stop.
            let mut s = self.state.lock();
            if s.complete || s.why == OBSERVED_RUNS {
                return;
            }
            let Some(first) = p.threads().last() else { return };
            if p.threads().any(|t| t.observe.debug.snapshot.lock().is_none()) {
                return;
            }
            s.complete = true;
            if s.tid == 0 {
                s.tid = first.slot.tid();
            }
        }
        tell(self.session);
    }

    fn resume(&self, default: u64) -> Result<()> {
        let p = self.process()?;
        // Held until all may run: the first of them that meets something stops all again.
        let mut s = self.state.lock();
        if !s.complete {
            return Err(errno::EBUSY);
        }
        (s.why, s.complete, s.tid, s.signal, s.address) = (OBSERVED_RUNS, false, 0, 0, 0);
        for t in p.threads() {
            let d = &t.observe.debug;
            let action = d.action.swap(0, Ordering::Relaxed).checked_sub(1).unwrap_or(default);
            d.chosen.store(action >> 8, Ordering::Relaxed);
            d.stays.store(action & 0xff == ACTION_STAY, Ordering::Relaxed);
            d.steps.store(action & 0xff == ACTION_STEP, Ordering::Relaxed);
            d.stepped.store(false, Ordering::Relaxed);
        }
        let_run(&p);
        drop(s);
        kick(&p);
        Ok(())
    }

    fn registers(&self, op: u32, tid: u64, r: &RequestRef<'_>) -> Result<()> {
        let t = self.thread(tid)?;
        let mut own = t.observe.debug.snapshot.lock();
        let s = own.as_mut().ok_or(errno::EBUSY)?;
        match op {
            OBSERVE_GET_REGISTERS => {
                r.set_pages(&s.words());
                r.set_arg(0, u64::from(s.in_kernel));
            }
            OBSERVE_GET_FPU => r.set_pages(&words(&s.fpu.bytes()[..FXSAVE])?),
            _ if s.in_kernel => return Err(errno::EBUSY),
            OBSERVE_SET_REGISTERS => s.set_words(
                r.words().get(..USER_REGS).and_then(|w| w.try_into().ok()).ok_or(errno::EINVAL)?,
            )?,
            _ => {
                let mut bytes = heap::copied(s.fpu.bytes())?;
                for (to, w) in bytes[..FXSAVE].chunks_exact_mut(8).zip(r.words()) {
                    to.copy_from_slice(&w.to_le_bytes());
                }
                if bytes.len() > FXSAVE {
                    bytes[FXSAVE] |= 3; // x87 and SSE state is there
                }
                s.fpu.set_bytes(&bytes);
                s.changed = true;
            }
        }
        Ok(())
    }

    fn set_breakpoint(&self, addr: u64, on: bool) -> Result<()> {
        let p = self.process()?;
        let known = self.state.lock().breakpoints.get(&addr).copied();
        match (on, known) {
            (true, None) => {
                let mut byte = [0];
                if patch::read(&p, addr, &mut byte) != 1 {
                    return Err(errno::EFAULT);
                }
                // Known before it is there, so that no thread meets one that nobody set.
                let mut s = self.state.lock();
                if s.breakpoints.len() >= BREAKPOINTS_MAX {
                    return Err(errno::ENOSPC);
                }
                lists::insert(&mut s.breakpoints, addr, byte[0])?;
                drop(s);
                patch::write(&p, addr, &[INT3]).inspect_err(|_| {
                    self.state.lock().breakpoints.remove(&addr);
                })
            }
            (false, Some(byte)) => {
                self.restore(&p, addr, byte);
                self.state.lock().breakpoints.remove(&addr);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Puts an instruction back, unless the program has put something else there.
    fn restore(&self, p: &Process, addr: u64, byte: u8) {
        let mut now = [0];
        if patch::read(p, addr, &mut now) == 1 && now[0] == INT3 {
            let _ = patch::write(p, addr, &[byte]);
        }
    }

    /// The debugger is gone: the process goes on as if it never had been there.
    pub fn close(&self) {
        let Ok(p) = self.process() else { return };
        self.state.lock().closing = true;
        let next = |from| self.state.lock().breakpoints.range(from..).next().map(|(a, b)| (*a, *b));
        let mut from = 0;
        while let Some((addr, byte)) = next(from) {
            self.restore(&p, addr, byte);
            from = addr + 1;
        }
        self.watches.clear(Some(&p));
        // A thread that has met an `int3` meanwhile knows by the table that it was ours.
        for t in p.threads() {
            let d = &t.observe.debug;
            d.stays.store(false, Ordering::Relaxed);
            d.steps.store(false, Ordering::Relaxed);
        }
        let_run(&p);
        *p.observed.debugger.lock() = None;
        p.observed.set(DEBUGGED, false);
        kick(&p);
    }

    /// The process has ended.
    pub fn ended(&self, status: u32) {
        self.state.lock().ended = Some(status);
        tell(self.session);
    }
}

/// Threads may run, but for those that stay. Those that wait in the kernel do not count as
/// stopped any more: not before they may run, or they would count again.
fn let_run(p: &Process) {
    p.observed.set(HELD, false);
    for t in p.threads() {
        let d = &t.observe.debug;
        let mut snapshot = d.snapshot.lock();
        if !d.stays.load(Ordering::Relaxed) && snapshot.as_ref().is_some_and(|s| s.in_kernel) {
            *snapshot = None;
        }
    }
}

/// The CPUs of all threads look what these may do.
fn kick(p: &Process) {
    p.threads().for_each(|t| cpus::kick(&t));
}

fn words(bytes: &[u8]) -> Result<Vec<u64>> {
    lists::collected(bytes.chunks(8).map(|c| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(word)
    }))
}

pub(super) fn debugger_of(thread: &Thread) -> Option<Arc<Debugger<Process>>> {
    let o = &thread.process.observed;
    if o.has(DEBUGGED) { o.debugger.lock().clone() } else { None }
}

/// The first thread of a process gets its first program, or has it now.
pub fn loads(thread: &Thread, is_loading: bool) {
    thread.observe.debug.loads.store(is_loading, Ordering::Relaxed);
}

/// Whether a debugger waits for this thread, which may be waiting in the kernel.
pub fn is_awaited(thread: &Thread) -> bool {
    let own = &thread.observe.debug;
    thread.process.observed.holds()
        && !own.loads.load(Ordering::Relaxed)
        && own.snapshot.lock().is_none()
}

/// A thread of a process whose threads are to stop waits in the kernel: it counts as
/// stopped there.
pub fn in_kernel(thread: &Thread) {
    {
        let mut own = thread.observe.debug.snapshot.lock();
        if own.is_some() || !thread.process.observed.holds() {
            return; // looked at under the lock, see [`let_run`]
        }
        *own = Some(Snapshot::of_waiting(thread));
    }
    if let Some(d) = debugger_of(thread) {
        d.look_whether_complete(&thread.process);
    }
}

/// On the way to user mode: the thread stops if it is to. True: it did, so that what
/// else is to be done before user mode is looked at again, and every register counts.
pub fn before_user(thread: &Thread, regs: &mut Regs) -> bool {
    let own = &thread.observe.debug;
    if !thread.process.observed.is_on() && !own.steps.load(Ordering::Relaxed) {
        return false;
    }
    let mut stopped = false;
    if own.stepped.swap(false, Ordering::Relaxed) && own.steps.load(Ordering::Relaxed) {
        stopped |= report(thread, regs, OBSERVED_STEP, 5, 0);
    }
    while thread.process.observed.holds() || own.stays.load(Ordering::Relaxed) {
        if thread.must_end() {
            return stopped;
        }
        park(thread, regs);
        stopped = true;
    }
    let steps = own.steps.load(Ordering::Relaxed);
    if steps && regs.rflags & TRAP_FLAG == 0 {
        regs.rflags |= TRAP_FLAG;
        stopped = true;
    }
    stopped
}

struct Parked<'a>(&'a Thread);

impl cpus::Wait for Parked<'_> {
    fn ready(&self) -> bool {
        let held =
            self.0.process.observed.holds() || self.0.observe.debug.stays.load(Ordering::Relaxed);
        !held || self.0.must_end()
    }
    fn announce(&self, _: bool) {}
}

pub(super) fn park(thread: &Thread, regs: &mut Regs) {
    regs.rflags &= !TRAP_FLAG;
    *thread.observe.debug.snapshot.lock() = Some(Snapshot::take(regs, false));
    if let Some(d) = debugger_of(thread) {
        d.look_whether_complete(&thread.process);
    }
    let parked = Parked(thread);
    let snapshot = loop {
        cpus::wait(&parked, 0);
        let mut own = thread.observe.debug.snapshot.lock();
        // Held again before it was gone from here, it has counted as stopped again.
        if cpus::Wait::ready(&parked) {
            break own.take();
        }
    };
    if let Some(s) = snapshot.filter(|s| s.changed) {
        s.load(regs);
        regs.orig_rax = hanare_hal::traps::NO_CALL;
    }
}

/// Stops all threads for a reason of this one's. False: there is no debugger, or it
/// stops them for another reason already.
pub(super) fn report(
    thread: &Thread,
    regs: &mut Regs,
    why: u64,
    signal: u32,
    address: u64,
) -> bool {
    let Some(d) = debugger_of(thread) else { return false };
    thread.observe.debug.steps.store(false, Ordering::Relaxed);
    regs.rflags &= !TRAP_FLAG;
    let begun = d.stop(&thread.process, why, thread.slot.tid(), signal, address);
    if begun {
        park(thread, regs);
    }
    begun
}

/// A call of a process that is watched is over: the end of a step.
pub fn after_call(thread: &Thread) {
    let own = &thread.observe.debug;
    if own.steps.load(Ordering::Relaxed) {
        own.stepped.store(true, Ordering::Relaxed);
        cpus::request_attention();
    }
}

/// An exception of user mode that may be the debugger's. True: it was.
pub fn exception(regs: &mut Regs, v: u8) -> bool {
    let thread = thread::current();
    let own = &thread.observe.debug;
    match v {
        vector::DEBUG if own.steps.load(Ordering::Relaxed) => {
            cpus::request_attention();
            if !report(thread, regs, OBSERVED_STEP, signal::SIGTRAP, 0) {
                regs.rflags &= !TRAP_FLAG;
                own.steps.store(false, Ordering::Relaxed);
            }
            true
        }
        vector::BREAKPOINT => breakpoint(thread, regs),
        _ => false,
    }
}

fn breakpoint(thread: &Thread, regs: &mut Regs) -> bool {
    let addr = regs.rip.wrapping_sub(1);
    let ours = debugger_of(thread).is_some_and(|d| d.state.lock().breakpoints.contains_key(&addr));
    if !ours {
        // One that was cleared while this thread met it is no program's own; `int $3` is.
        const INT_3: [u8; 2] = [0xcd, 3];
        let byte = |at| {
            let mut byte = [0];
            (patch::read(&thread.process, at, &mut byte) == 1).then_some(byte[0])
        };
        let now = byte(addr);
        let two_bytes = now == Some(INT_3[1]) && byte(addr.wrapping_sub(1)) == Some(INT_3[0]);
        let gone = now.is_some_and(|now| now != INT3) && !two_bytes;
        if gone {
            regs.rip = addr;
        }
        return gone;
    }
    cpus::request_attention();
    regs.rip = addr;
    // If the threads stop for another reason this one does so before the breakpoint.
    report(thread, regs, OBSERVED_BREAK, signal::SIGTRAP, addr);
    true
}

/// A signal is about to be delivered: what the debugger wants delivered instead.
pub fn on_signal(thread: &Thread, queued: QueuedSignal, regs: &mut Regs) -> Option<QueuedSignal> {
    if !thread.process.observed.has(DEBUGGED) || queued.signal == signal::SIGKILL {
        return Some(queued);
    }
    loop {
        if thread.must_end() || debugger_of(thread).is_none() {
            return Some(queued);
        }
        let steps = thread.observe.debug.steps.load(Ordering::Relaxed);
        if report(thread, regs, OBSERVED_SIGNAL, queued.signal, 0) {
            break;
        }
        thread.observe.debug.steps.store(steps, Ordering::Relaxed);
        park(thread, regs);
    }
    cpus::request_attention();
    if thread.process.observed.debugger.lock().is_none() {
        return Some(queued); // the debugger went away meanwhile
    }
    if thread.observe.debug.steps.load(Ordering::Relaxed) {
        thread.observe.debug.stepped.store(true, Ordering::Relaxed);
    }
    match thread.observe.debug.chosen.swap(0, Ordering::Relaxed) as u32 {
        0 => None,
        same if same == queued.signal => Some(queued),
        other if signal::is_valid(other) => {
            Some(QueuedSignal { signal: other, info: SigInfo::kernel(other) })
        }
        _ => None,
    }
}

/// exec: the breakpoints were the old program's; the debugger hears of it as of a
/// SIGTRAP, as on Linux.
pub fn on_exec(thread: &Thread) {
    if let Some(d) = debugger_of(thread) {
        d.state.lock().breakpoints.clear();
        d.watches.clear(None);
        if thread.process.observed.is_on() && d.state.lock().why == OBSERVED_RUNS {
            let _ = thread.signals.lock().queue(signal::SIGTRAP, SigInfo::kernel(signal::SIGTRAP));
            cpus::request_attention();
        }
    }
}

/// A thread is gone: it may have been the last to be waited for.
pub fn thread_gone(p: &Process) {
    let debugger = p.observed.debugger.lock().clone();
    if let Some(d) = debugger {
        d.look_whether_complete(p);
    }
}
