//! Debuggers: stopping all threads of a process, their registers, breakpoints, steps.
//!
//! How a thread stops is told in [`park`](crate::gate::park). A stop is complete when every
//! thread's registers are there ([`Stop`]).

use crate::base::accounts::Account;
use crate::base::counts::{Counted, Kind};
use crate::base::lock::Mutex;
use crate::base::{heap, lists};
use crate::gate::park::{self, debugger_of};
use crate::mm::change::patch;
use crate::parts::observed::{Breakpoints, DEBUGGED, Debuggee, Debugger, HELD, Watches, tell};
use crate::process::thread::Thread;
use crate::process::{Process, outside};
use crate::sched::cpus;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::observe::*;
use hanare_abi::request::PAGES_MAX;
use hanare_core::errno::{self, Result};
use hanare_core::gate::{Parking, Stop, Who};
use hanare_core::ptrace::{FXSAVE, USER_REGS};
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_hal::traps::Regs;
use hanare_ikc::RequestRef;
use zerocopy::IntoBytes;

/// `int3`.
const INT3: u8 = 0xcc;
/// Most breakpoints of a debugger.
const BREAKPOINTS_MAX: usize = 4096;
impl Debugger<Process> {
    /// Takes hold of a process.
    pub fn new(
        session: u32,
        p: &Arc<Process>,
        account: Arc<Account>,
    ) -> Result<Arc<Debugger<Process>>> {
        let mut own = p.observed.debugger.lock();
        if own.is_some() {
            return Err(errno::EBUSY);
        }
        let d = heap::arc(Debugger {
            session,
            process: Arc::downgrade(p),
            _charge: account.charge(size_of::<Debugger<Process>>() as u64)?,
            state: Mutex::new(Debuggee {
                stop: Stop::default(),
                breakpoints: Breakpoints::new(account),
            }),
            watches: Watches::default(),
            _counted: Counted::new(Kind::Debugger),
        })?;
        *own = Some(d.clone());
        p.observed.set(DEBUGGED, true);
        Ok(d)
    }

    /// Addresses where `int3` stands, and the byte that it replaces.
    pub fn breakpoints(&self) -> Result<Vec<(u64, u8)>> {
        lists::collected(self.state.lock().breakpoints.all().iter().map(|(a, b)| (*a, *b)))
    }

    fn process(&self) -> Result<Arc<Process>> {
        self.process.upgrade().filter(|p| !p.is_killed()).ok_or(errno::ESRCH)
    }

    fn thread(&self, tid: u64) -> Result<Arc<Thread>> {
        self.process()?.threads().find(|t| u64::from(t.tid()) == tid).ok_or(errno::ESRCH)
    }

    /// One request of the debugger.
    pub fn request(&self, op: u32, a: u64, b: u64, r: &RequestRef<'_>) -> Result<()> {
        match op {
            OBSERVE_STATUS => {
                let status = self.state.lock().stop.status();
                status.into_iter().enumerate().for_each(|(i, word)| r.set_arg(i, word));
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
                        (*to, count) = (u64::from(t.tid()), count + 1);
                    }
                });
                r.set_words(&tids[..count]);
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
                patch::write(self.process()?.memory(), a, &bytes[..n])
            }
            OBSERVE_BREAK => self.set_breakpoint(a, b != 0),
            OBSERVE_WATCH => self.watches.set(&*self.process()?, a, b, &r.words()),
            OBSERVE_ACTION => {
                let action = b.checked_add(1).ok_or(errno::EINVAL)?;
                self.thread(a)?.observe.action.store(action, Ordering::Relaxed);
                Ok(())
            }
            OBSERVE_RESUME => self.resume(a),
            OBSERVE_TEXT => self.text(a, b, r),
            _ => Err(errno::EINVAL),
        }
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
        r.set_words(&words(part)?);
        r.set_arg(0, part.len() as u64);
        Ok(())
    }

    /// Begins a stop for a reason; false: another one has begun already.
    fn stop(&self, p: &Process, why: u64, tid: u32, signal: u32, address: u64) -> bool {
        {
            let mut s = self.state.lock();
            if !s.stop.begin(why, tid, signal, address) {
                return false;
            }
            p.observed.set(HELD, true); // locked: a resume or close comes before or after
        }
        kick(p);
        outside::call_back(p);
        true
    }

    fn resume(&self, default: u64) -> Result<()> {
        let p = self.process()?;
        // Held until all may run: the first of them that meets something stops all again.
        let mut s = self.state.lock();
        if !s.stop.resume() {
            return Err(errno::EBUSY);
        }
        for t in p.threads() {
            let own = &t.observe;
            let action = own.action.swap(0, Ordering::Relaxed).checked_sub(1).unwrap_or(default);
            own.chosen.store(action >> 8, Ordering::Relaxed);
            t.parking.change(|parking, _| {
                parking.hold(Who::Debugger, action & 0xff == ACTION_STAY);
                parking.step(Who::Debugger, action & 0xff == ACTION_STEP);
            });
        }
        let_run(&p);
        drop(s);
        kick(&p);
        Ok(())
    }

    fn registers(&self, op: u32, tid: u64, r: &RequestRef<'_>) -> Result<()> {
        self.thread(tid)?.parking.change(|parking, left| {
            let s = left.as_mut().ok_or(errno::EBUSY)?;
            match op {
                OBSERVE_GET_REGISTERS => {
                    r.set_words(&s.words());
                    r.set_arg(0, u64::from(parking.contains(Parking::IN_KERNEL)));
                    return Ok(());
                }
                OBSERVE_GET_FPU => {
                    r.set_words(&words(s.legacy())?);
                    return Ok(());
                }
                _ if !parking.may_set(Who::Debugger) => return Err(errno::EBUSY),
                OBSERVE_SET_REGISTERS => {
                    let wanted = r.words();
                    let wanted = wanted.get(..USER_REGS);
                    s.set_words(wanted.ok_or(errno::EINVAL)?)?;
                }
                _ => s.set_legacy(&r.words().as_bytes()[..FXSAVE])?,
            }
            parking.insert(Parking::SET);
            Ok(())
        })
    }

    fn set_breakpoint(&self, addr: u64, on: bool) -> Result<()> {
        let p = self.process()?;
        let known = self.state.lock().breakpoints.all().get(&addr).copied();
        match (on, known) {
            (true, None) => {
                let mut byte = [0];
                if patch::read(p.memory(), addr, &mut byte) != 1 {
                    return Err(errno::EFAULT);
                }
                // Known before it is there, so that no thread meets one that no debugger set.
                let mut s = self.state.lock();
                if s.breakpoints.all().len() >= BREAKPOINTS_MAX {
                    return Err(errno::ENOSPC);
                }
                s.breakpoints.insert(addr, byte[0])?;
                drop(s);
                patch::write(p.memory(), addr, &[INT3]).inspect_err(|_| {
                    self.state.lock().breakpoints.remove(addr);
                })
            }
            (false, Some(byte)) => {
                self.restore(&p, addr, byte)?;
                self.state.lock().breakpoints.remove(addr);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Puts an instruction back, unless the program has put something else there.
    fn restore(&self, p: &Process, addr: u64, byte: u8) -> Result<()> {
        let mut now = [0];
        let is_there = patch::read(p.memory(), addr, &mut now) == 1 && now[0] == INT3;
        if is_there { patch::write(p.memory(), addr, &[byte]) } else { Ok(()) }
    }

    /// The debugger is gone: the process goes on as if it never had been there.
    ///
    /// # Errors
    /// `EAGAIN`, if this is not the `last` time: a breakpoint cannot be taken out for the moment.
    /// Linux asks again. A thread that meets it meanwhile meets it again.
    pub fn close(&self, last: bool) -> Result<()> {
        let Ok(p) = self.process() else { return Ok(()) };
        self.state.lock().stop.close();
        let next =
            |from| self.state.lock().breakpoints.all().range(from..).next().map(|(a, b)| (*a, *b));
        let mut from = 0;
        while let Some((addr, byte)) = next(from) {
            if self.restore(&p, addr, byte) == Err(errno::EAGAIN) && !last {
                return Err(errno::EAGAIN);
            }
            from = addr + 1;
        }
        self.watches.clear(Some(&p));
        // A thread that has met an `int3` meanwhile knows by the table that it was ours.
        for t in p.threads() {
            t.parking.change(|parking, _| {
                parking.hold(Who::Debugger, false);
                parking.step(Who::Debugger, false);
            });
        }
        let_run(&p);
        *p.observed.debugger.lock() = None;
        p.observed.set(DEBUGGED, false);
        kick(&p);
        Ok(())
    }

    /// The process has ended: what is left is its status.
    pub fn ended(&self, status: u32) {
        let mut s = self.state.lock();
        s.stop.end(status);
        s.breakpoints.clear();
        drop(s);
        tell(self.session);
    }
}

/// Threads may run, but for those that stay. Those that wait in the kernel do not count as
/// stopped any more: not before they may run, or they would count again.
fn let_run(p: &Process) {
    p.observed.set(HELD, false);
    p.threads().for_each(|t| park::let_go_by(&t, |_| ()));
}

/// The CPUs of all threads look what these may do.
fn kick(p: &Process) {
    p.threads().for_each(|t| cpus::kick(t.task()));
}

fn words(bytes: &[u8]) -> Result<Vec<u64>> {
    lists::collected(bytes.chunks(8).map(|c| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(word)
    }))
}

/// The first thread of a process gets its first program, or has it now.
pub fn loads(thread: &Thread, is_loading: bool) {
    thread.parking.change(|parking, _| parking.set(Parking::LOADS, is_loading));
}

/// Stops all threads for a reason of this one's, which parks. False: there is no debugger, or it
/// stops them for another reason already.
pub fn report(thread: &Thread, regs: &mut Regs, why: u64, signal: u32, address: u64) -> bool {
    let Some(d) = debugger_of(thread) else { return false };
    park::disarm(thread, regs);
    let begun = d.stop(&thread.process, why, thread.tid(), signal, address);
    if begun {
        thread.parking.change(|parking, _| parking.step(Who::Debugger, false));
        park::at_gate(thread, regs);
    }
    begun
}

/// Stops all threads for a reason of this one's, which parks, if need be after they have stopped
/// for another reason. False: there is no debugger, or the thread has to end or to park for a core
/// dump.
pub(super) fn certainly_report(
    thread: &Thread,
    regs: &mut Regs,
    why: u64,
    signal: u32,
    address: u64,
) -> bool {
    let goes_on = || thread.must_end() || thread.process.is_dumping();
    while !goes_on() && debugger_of(thread).is_some() {
        if report(thread, regs, why, signal, address) {
            return true;
        }
        park::at_gate(thread, regs);
    }
    false
}

/// A step is over that the CPU does not trap after.
pub fn step_stop(thread: &Thread, regs: &mut Regs) {
    if thread.parking.change(|parking, _| parking.take_step(Who::Debugger)) {
        report(thread, regs, OBSERVED_STEP, signal::SIGTRAP, 0);
    }
}

/// `int3` of user mode. True: it is the debugger's.
pub fn breakpoint(thread: &Thread, regs: &mut Regs) -> bool {
    let addr = regs.rip.wrapping_sub(1);
    let ours =
        debugger_of(thread).is_some_and(|d| d.state.lock().breakpoints.all().contains_key(&addr));
    if !ours {
        // One that was cleared while this thread met it is no program's own; `int $3` is.
        const INT_3: [u8; 2] = [0xcd, 3];
        let byte = |at| {
            let mut byte = [0];
            (patch::read(thread.process.memory(), at, &mut byte) == 1).then_some(byte[0])
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
    if !certainly_report(thread, regs, OBSERVED_SIGNAL, queued.signal, 0) {
        return Some(queued);
    }
    cpus::request_attention();
    if thread.process.observed.debugger.lock().is_none() {
        return Some(queued); // the debugger went away meanwhile
    }
    match thread.observe.chosen.swap(0, Ordering::Relaxed) as u32 {
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
        if thread.process.observed.is_on() && d.state.lock().stop.runs() {
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
