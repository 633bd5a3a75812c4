//! A process: what its threads share, and its life from Linux' point of view.

use crate::mm::{AddressSpace, MmLock};
use crate::thread::Thread;
use crate::futex::{self, Futexes};
use crate::slots::Slots;
use crate::vfork::Vfork;
use crate::{balance, clone, cpus, cputime, delegate, frames, inbound, mm, observe, ptrace, signals, slots, time, usage};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::layout::{CONTROL_BASE, CONTROL_END, SCRATCH_BASE, SLOT_BASE, SLOT_SIZE, START_BASE, START_SIZE};
use hanare_abi::slot::Slot;
use hanare_abi::start::StartBlock;
use hanare_core::errno::{self, Result};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{memory, paging, percpu, shared};
use hanare_ikc::SlotRef;
use spin::Mutex;

const NO_REQUEST: u32 = u32::MAX;

/// Processes by the CPU that serves their requests, then by space.
static PROCESSES: [Mutex<BTreeMap<u32, Arc<Process>>>; CPUS_MAX] = [const { Mutex::new(BTreeMap::new()) }; CPUS_MAX];

/// The process of a space whose home is `cpu`.
pub fn find(cpu: usize, space: u32) -> Option<Arc<Process>> {
    PROCESSES[cpu].lock().get(&space).cloned()
}

/// The thread with Linux thread id `tid` of whatever process.
pub fn find_thread(tid: u32) -> Option<Arc<Thread>> {
    PROCESSES.iter().find_map(|of_cpu| {
        let processes: Vec<_> = of_cpu.lock().values().cloned().collect();
        processes.iter().find_map(|p| p.threads().into_iter().find(|t| t.slot.tid() == tid))
    })
}

/// Does something with every thread there is.
pub fn each_thread_of_all(mut f: impl FnMut(&Arc<Thread>)) {
    for of_cpu in &PROCESSES {
        let processes: Vec<_> = of_cpu.lock().values().cloned().collect();
        processes.iter().for_each(|p| p.threads().iter().for_each(&mut f));
    }
}

/// How many processes have their home at `cpu`.
pub fn count(cpu: usize) -> usize {
    PROCESSES[cpu].lock().len()
}

/// Memory of lists that are empty.
pub fn trim() {
    for of_cpu in &PROCESSES {
        let mut of_cpu = of_cpu.lock();
        if of_cpu.is_empty() {
            *of_cpu = BTreeMap::new();
        }
    }
}

/// Identity and limits that Linux told us.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    pub pid: u32,
    pub uid: u32,
    pub euid: u32,
    pub gid: u32,
    pub egid: u32,
    pub secure: bool,
    pub control_fd: u32,
    pub stack_soft: u64,
    pub data_soft: u64,
    pub as_soft: u64,
    /// Hard limit of the address space, once it was set.
    pub as_hard: Option<u64>,
    pub hwcap: u64,
    pub hwcap2: u64,
    pub clktck: u64,
    pub random: [u8; 32],
    pub no_random: bool,
    pub time: crate::timens::Offsets,
    /// What was registered with membarrier(2).
    pub membarrier: u64,
}

/// A process.
pub struct Process {
    /// Space id, the same in the module.
    pub space: u32,
    /// Space of the process that forked it, 0: `hanare run` of Linux started it.
    pub parent: u32,
    /// What its ended children used.
    pub children: Mutex<usage::Children>,
    /// CPU that serves its requests of Linux.
    pub home: usize,
    /// Its memory.
    pub mm: MmLock,
    /// Dispositions and process-directed pending signals.
    pub signals: Mutex<signals::ProcessSignals>,
    /// Linux has to be told of dispositions (`Mirrored::owed`).
    pub owes: AtomicBool,
    /// See [`Identity`].
    pub identity: Mutex<Identity>,
    /// Absolute path of the running program (`/proc/self/exe`).
    pub exe: Mutex<Vec<u8>>,
    /// Incremented by each invalidation of Linux (see `docs/architecture.md`).
    pub invalidations: AtomicU64,
    /// Writes to memory shared with Linux that was not there.
    pub shared_writes: mm::shared::Writes,
    /// Pages being read in for a fault of the proxy.
    pub fills: Mutex<Vec<mm::fault::PendingFill>>,
    /// Frames of the control window, by page address.
    control: Mutex<BTreeMap<u64, u64>>,
    killed: AtomicBool,
    /// Linux has stopped the proxy.
    paused: AtomicBool,
    started: AtomicBool,
    /// It has, or had, tracees.
    pub traces: AtomicBool,
    threads: Mutex<Vec<Arc<Thread>>>,
    /// Slots and the workers behind them.
    pub slots: Mutex<Slots>,
    /// A thread of it is replacing the program and ends the others.
    replacing: AtomicBool,
    /// A thread makes a core dump; see `coredump`.
    pub dumping: AtomicBool,
    /// Threads that are ready for it.
    pub posed: AtomicU32,
    /// Timers that count CPU time.
    pub cpu_timers: cputime::CpuTimers,
    /// Numbers of timer_create.
    pub timers: Mutex<Vec<u32>>,
    /// Waiters on futexes in private memory.
    pub futexes: Mutex<Futexes>,
    /// A forked child until its first thread starts.
    embryo: Mutex<Option<Box<clone::Embryo>>>,
    vfork: Mutex<Option<Arc<Vfork>>>,
    reaped: AtomicBool,
    /// Tracers and debuggers.
    pub observed: observe::OfProcess,
    close_request: AtomicU32,
    start_mask: AtomicU64,
    /// CPU cycles of threads that ended: user, system.
    pub ended_cycles: (AtomicU64, AtomicU64),
    /// Delegated calls of threads that ended.
    pub ended_calls: AtomicU64,
}

impl Process {
    /// `REQUEST_SPACE_OPEN`.
    /// args: [0] = CPUs it may use, [2], [3] = parent space and token of a fork. Gives
    /// whether the proxy may map all of its addresses at once.
    pub fn open(space: u32, args: &[u64; 4]) -> Result<bool> {
        let embryo = match args[2] as u32 {
            0 => None,
            parent => Some(clone::claim(parent, args[3]).ok_or(errno::ESRCH)?),
        };
        let (mm, embryo) = match embryo {
            None => (AddressSpace::new().ok_or(errno::ENOMEM)?, None),
            Some(mut e) => {
                let mut mm = core::mem::replace(&mut e.mm, AddressSpace::nothing());
                clone::adopt_files(&mut mm, space);
                (mm, Some(e))
            }
        };
        let whole = clone::shared_with_linux(&mm).next().is_none();
        let process = Arc::new(Process {
            space,
            parent: args[2] as u32,
            children: Mutex::new(usage::Children::default()),
            home: percpu::index(),
            mm: MmLock::new(mm),
            signals: Mutex::new(signals::ProcessSignals::default()),
            owes: AtomicBool::new(false),
            identity: Mutex::new(Identity::default()),
            exe: Mutex::new(Vec::new()),
            invalidations: AtomicU64::new(0),
            shared_writes: mm::shared::Writes::default(),
            fills: Mutex::new(Vec::new()),
            control: Mutex::new(BTreeMap::new()),
            killed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            started: AtomicBool::new(false),
            traces: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            slots: Mutex::new(Slots::first()),
            replacing: AtomicBool::new(false),
            futexes: Mutex::new(Futexes::default()),
            dumping: AtomicBool::new(false),
            posed: AtomicU32::new(0),
            cpu_timers: cputime::CpuTimers::default(),
            timers: Mutex::new(Vec::new()),
            vfork: Mutex::new(None),
            embryo: Mutex::new(embryo),
            reaped: AtomicBool::new(false),
            observed: observe::OfProcess::default(),
            close_request: AtomicU32::new(NO_REQUEST),
            start_mask: AtomicU64::new(0),
            ended_cycles: (AtomicU64::new(0), AtomicU64::new(0)),
            ended_calls: AtomicU64::new(0),
        });
        let entered = process.clone();
        match PROCESSES[percpu::index()].lock().insert(space, process) {
            None => {
                mm::oom::enter(&entered);
                Ok(whole)
            }
            Some(_) => Err(errno::EEXIST),
        }
    }

    /// Creates the first thread and queues it. `start` is its first function.
    pub fn start(self: &Arc<Self>, start: extern "C" fn(usize) -> !) -> Result<()> {
        if self.started.swap(true, Ordering::Relaxed) {
            return Err(errno::EBUSY);
        }
        let block = self.start_block()?;
        self.start_mask.store(block.sigmask, Ordering::Relaxed);
        self.signals.lock().inherit_ignored(block.sigignore);
        *self.identity.lock() = Identity {
            pid: block.pid,
            uid: block.uid,
            euid: block.euid,
            gid: block.gid,
            egid: block.egid,
            secure: block.secure != 0,
            control_fd: block.control_fd,
            stack_soft: block.stack_soft,
            data_soft: block.data_soft,
            as_soft: block.as_soft,
            as_hard: None,
            hwcap: block.hwcap,
            hwcap2: block.hwcap2,
            clktck: block.clktck,
            random: block.random,
            no_random: block.flags & hanare_abi::start::START_NO_RANDOM != 0,
            time: crate::timens::Offsets::default(),
            membarrier: 0,
        };
        self.cpu_timers.set_limit(block.cpu_soft, block.cpu_hard);
        let embryo = self.embryo.lock().take();
        let slot = self.slot(0).ok_or(errno::ENOMEM)?;
        slot.set_poll_us(delegate::worker_poll_us());
        let start = if embryo.is_some() { clone::first_step_of_child } else { start };
        let thread = Thread::new(self.clone(), 0, slot, start).ok_or(errno::ENOMEM)?;
        let mut awaits = None;
        if let Some(e) = embryo {
            *self.exe.lock() = e.exe;
            if e.traced {
                thread.ptrace.begin_held();
                awaits = Some(e.parent.clone());
            }
            *thread.affinity.lock() = e.affinity;
            thread.seccomp.inherit(e.seccomp);
            self.owes.store(!e.signals.mirrored.owed().is_empty(), Ordering::Relaxed);
            *self.signals.lock() = e.signals;
            *thread.signals.lock() = e.thread_signals;
            *thread.birth.lock() = Some(e.birth);
            self.cpu_timers.set_limit(e.cpu_limit.0, e.cpu_limit.1);
            *self.vfork.lock() = e.vfork;
            e.observed.give(self);
            let mut id = self.identity.lock();
            // Identity is the child's own, what the start block leaves out the parent's.
            *id = Identity { pid: id.pid, uid: id.uid, euid: id.euid, gid: id.gid, egid: id.egid, control_fd: id.control_fd, ..e.identity };
        }
        self.threads.lock().push(thread.clone());
        if let Some(parent) = awaits {
            cpus::kick(&parent);
        }
        let cpu = if thread.affinity.lock().contains(self.home) { self.home } else { balance::place(&thread) };
        cpus::enqueue(thread, cpu);
        Ok(())
    }

    /// The parent of a vfork may go on: the child has its own program, or is gone.
    pub fn release_parent(&self) {
        self.keep_for_parent();
        let vfork = self.vfork.lock().take();
        if let Some(v) = vfork {
            v.release();
        }
    }

    /// The memory that it shares with the parent of a vfork is about to go.
    pub fn keep_for_parent(&self) {
        let vfork = self.vfork.lock().clone();
        if let Some(v) = vfork {
            v.keep(&mut self.mm.lock());
        }
    }

    /// Enters a thread made by `creator`, unless that has to end (`EINTR`).
    pub fn add_thread(&self, thread: &Arc<Thread>, creator: &Thread) -> Result<()> {
        let mut threads = self.threads.lock();
        if creator.must_end() {
            return Err(errno::EINTR);
        }
        thread.seccomp.inherit(creator.seccomp.inherited());
        threads.push(thread.clone());
        Ok(())
    }

    /// Does something with the threads. The list is locked meanwhile.
    pub fn with_threads<R>(&self, f: impl FnOnce(&[Arc<Thread>]) -> R) -> R {
        f(&self.threads.lock())
    }

    /// Does something with each thread. The list is locked meanwhile.
    pub fn each_thread(&self, mut f: impl FnMut(&Arc<Thread>)) {
        self.threads.lock().iter().for_each(&mut f);
    }

    /// exit(2) of one thread. `true`: it is the last one, so the process ends.
    pub fn leave(&self, thread: &Thread) -> bool {
        let threads = self.threads.lock();
        thread.left.store(true, Ordering::Relaxed);
        threads.iter().all(|t| t.left.load(Ordering::Relaxed))
    }

    /// Whether `tid` was a thread of this process and is none any more, though its worker
    /// may still be there on Linux.
    pub fn had_thread(&self, tid: u32) -> bool {
        let lives = |t: &Arc<Thread>| t.slot.tid() == tid && !t.left.load(Ordering::Relaxed);
        if tid == self.identity.lock().pid || self.threads.lock().iter().any(lives) {
            return false;
        }
        self.threads.lock().iter().any(|t| t.slot.tid() == tid) || self.slots.lock().is_gone(tid)
    }

    /// The first half of what execve does to the other threads of `me`: they are
    /// to end. `EAGAIN`: another thread was first. Gives their thread ids.
    pub fn doom_others(&self, me: &Thread) -> Result<Vec<u32>> {
        let threads = self.threads.lock();
        if me.must_end() || self.replacing.swap(true, Ordering::AcqRel) {
            return Err(errno::EAGAIN);
        }
        let others = threads.iter().filter(|t| !core::ptr::eq(&***t, me));
        Ok(others.map(|t| { t.dying.store(true, Ordering::Release); t.slot.tid() }).collect())
    }

    /// The others have ended: from now on it is as in any process of one thread.
    pub fn replaced(&self) {
        self.replacing.store(false, Ordering::Release);
    }

    /// Replaces the thread `old`, which runs and ends next, by `new`.
    pub fn succeed(&self, new: &Arc<Thread>) {
        self.threads.lock().push(new.clone());
    }

    /// The threads that live.
    pub fn threads(&self) -> Vec<Arc<Thread>> {
        self.threads.lock().clone()
    }

    /// Every thread of it looks again at what it waits for, or comes by the kernel.
    pub fn kick_all(&self) {
        self.threads().iter().for_each(cpus::kick);
    }

    /// How many threads live.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }

    /// The thread with this slot.
    pub fn thread(&self, slot: u32) -> Option<Arc<Thread>> {
        self.threads.lock().iter().find(|t| t.slot_index == slot).cloned()
    }

    /// Signal mask of the first thread.
    pub fn start_mask(&self) -> u64 {
        self.start_mask.load(Ordering::Relaxed)
    }

    /// The slot of a thread.
    #[allow(unsafe_code)]
    pub fn slot(&self, index: u32) -> Option<SlotRef<'static>> {
        let addr = SLOT_BASE + u64::from(index) * size_of::<Slot>() as u64;
        let frame = self.control_page(addr & !4095)?;
        let pointer = memory::direct(frame + (addr & 4095)) as *mut Slot;
        // SAFETY: the frame is the process's until it is reaped, after its threads.
        Some(unsafe { SlotRef::from_raw(pointer) })
    }

    /// The frame of a page of the control window, created on first use.
    pub fn control_page(&self, page: u64) -> Option<u64> {
        let known = (SLOT_BASE..SLOT_BASE + SLOT_SIZE).contains(&page)
            || (START_BASE..START_BASE + START_SIZE).contains(&page) && !self.started.load(Ordering::Relaxed)
            || (SCRATCH_BASE..CONTROL_END).contains(&page);
        let mut control = self.control.lock();
        if let Some(&frame) = control.get(&page) {
            return Some(frame);
        }
        // Slots and scratch pages exist only for threads that were made.
        let made = u64::from(self.slots.lock().made());
        let in_use = if page < START_BASE {
            page < SLOT_BASE + made * size_of::<Slot>() as u64
        } else {
            page < START_BASE + START_SIZE || page < SCRATCH_BASE + made * 4096
        };
        if !known || !in_use {
            return None;
        }
        let frame = frames::alloc_zeroed()?;
        control.insert(page, frame);
        Some(frame)
    }

    /// Whether an address belongs to the control window.
    pub fn is_control(addr: u64) -> bool {
        (CONTROL_BASE..CONTROL_END).contains(&addr)
    }

    /// Copies out of the control window; pages never touched read as zero.
    pub fn read_control(&self, addr: u64, to: &mut [u8]) {
        let control = self.control.lock();
        let mut done = 0;
        while done < to.len() {
            let at = addr + done as u64;
            let n = (to.len() - done).min(4096 - (at & 4095) as usize);
            match control.get(&(at & !4095)) {
                Some(frame) => memory::read(frame + (at & 4095), &mut to[done..done + n]),
                None => to[done..done + n].fill(0),
            }
            done += n;
        }
    }

    /// Copies into the scratch page of slot `index`; its address for the worker.
    pub fn write_scratch(&self, index: u32, bytes: &[u8]) -> Result<u64> {
        let addr = SCRATCH_BASE + u64::from(index) * 4096;
        if bytes.len() > 4096 {
            return Err(errno::ENAMETOOLONG);
        }
        let frame = self.control_page(addr).ok_or(errno::ENOMEM)?;
        memory::write(frame, bytes);
        Ok(addr)
    }

    /// The start block, checked.
    pub fn start_block(&self) -> Result<StartBlock> {
        let mut bytes = [0; size_of::<StartBlock>()];
        self.read_control(START_BASE, &mut bytes);
        let block = read_start_block(&bytes);
        let ok = block.magic == hanare_abi::MAGIC
            && block.version == hanare_abi::VERSION
            && u64::from(block.strings_offset) >= bytes.len() as u64
            && u64::from(block.strings_offset) <= block.total_size
            && block.total_size <= START_SIZE;
        if ok { Ok(block) } else { Err(errno::EINVAL) }
    }

    /// The proxy is gone, or never will be again.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// `REQUEST_SPACE_PAUSE`.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.kick_all();
    }

    /// Whether Linux has stopped it.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Waits while the process is stopped.
    pub fn wait_while_paused(&self, thread: &Thread) {
        struct Paused<'a>(&'a Process, &'a Thread);
        impl cpus::Wait for Paused<'_> {
            fn ready(&self) -> bool {
                !self.0.paused.load(Ordering::Acquire) || self.1.must_end() || self.1.ptrace.is_on()
            }
            fn announce(&self, _: bool) {}
        }
        // Who is traced stops and goes on as its tracer hears of it.
        if self.paused.load(Ordering::Acquire) && !thread.ptrace.is_on() {
            cpus::wait(&Paused(self, thread), 0);
        }
    }

    /// `REQUEST_SPACE_CLOSE` number `request`: ends the threads; answered by the
    /// last of them, or now.
    pub fn close(self: &Arc<Self>, request: u32) {
        self.close_request.store(request, Ordering::Release);
        self.killed.store(true, Ordering::Release);
        let threads = self.threads.lock().clone();
        if threads.is_empty() {
            self.reap();
        }
        threads.iter().for_each(cpus::kick);
    }

    /// Ends the running thread: the process is gone, or only the thread ends.
    pub fn exit_thread(self: &Arc<Self>, thread: &Thread) -> ! {
        let (user, system) = thread.cycles();
        self.ended_cycles.0.fetch_add(user, Ordering::Relaxed);
        self.ended_cycles.1.fetch_add(system, Ordering::Relaxed);
        self.ended_calls.fetch_add(thread.counts.delegated.load(Ordering::Relaxed), Ordering::Relaxed);
        if !self.is_killed() {
            futex::release_robust(thread);
        }
        // Before the others can know that we are gone: the last one frees the table.
        paging::use_kernel();
        self.mm.left();
        let last = {
            let mut threads = self.threads.lock();
            threads.retain(|t| !core::ptr::eq(&**t, thread));
            threads.is_empty()
        };
        observe::thread_gone(self);
        ptrace::thread_gone(thread);
        if self.is_killed() {
            if last {
                self.reap();
            }
        } else {
            slots::give(self, thread); // a worker waits for the next thread
            signals::retarget(self);
            if self.replacing.load(Ordering::Acquire) || self.dumping.load(Ordering::Acquire) {
                self.kick_all(); // somebody waits for it to be gone
            }
        }
        cpus::exit_current()
    }

    /// Frees everything; Linux has no mapping of it any more.
    fn reap(self: &Arc<Self>) {
        if self.reaped.swap(true, Ordering::AcqRel) {
            return; // by the last thread and by Linux' request at the same time
        }
        self.release_parent();
        observe::gone(self);
        usage::ended(self);
        clone::forget(self.space);
        self.fills.lock().clear();
        let control = core::mem::take(&mut *self.control.lock());
        mm::release::all(self, control.into_values());
        PROCESSES[self.home].lock().remove(&self.space);
        crate::heap::trim();
        let request = self.close_request.swap(NO_REQUEST, Ordering::AcqRel);
        if request != NO_REQUEST {
            let r = shared::request(request);
            let (user, system) = self.times_ns();
            for (i, v) in [user, system, self.memory_use().1].into_iter().enumerate() {
                r.set_arg(i, v);
            }
            inbound::complete(request, 0);
        }
    }

    /// User and system time, ns.
    pub fn times_ns(&self) -> (u64, u64) {
        let (mut user, mut system) = (self.ended_cycles.0.load(Ordering::Relaxed), self.ended_cycles.1.load(Ordering::Relaxed));
        for t in self.threads.lock().iter() {
            let (u, s) = t.cycles();
            user += u;
            system += s;
        }
        (time::cycles_to_ns(user), time::cycles_to_ns(system))
    }

    /// Resident and peak bytes.
    pub fn memory_use(&self) -> (u64, u64) {
        let mm = self.mm.lock();
        (mm.resident * 4096, mm.peak * 4096)
    }
}

#[allow(unsafe_code)]
fn read_start_block(bytes: &[u8; size_of::<StartBlock>()]) -> StartBlock {
    // SAFETY: plain integers: every bit pattern is a value; read unaligned.
    unsafe { bytes.as_ptr().cast::<StartBlock>().read_unaligned() }
}
