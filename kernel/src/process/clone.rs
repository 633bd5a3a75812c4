//! clone, clone3, fork, vfork: new threads and new processes.

use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::calls::seccomp;
use crate::gate::{observe, ptrace};
use crate::link::{delegate, services};
use crate::mm::{AddressSpace, FileHandle, FileRef, limits};
use crate::parts::signals::{ProcessSignals, ThreadSignals};
use crate::process::thread::{self, Birth, Thread};
use crate::process::vfork;
use crate::process::vfork::Vfork;
use crate::process::workers;
use crate::process::{Identity, Ids, Process, futex, share, timens};
use crate::sched::cpu_mask::CpuMask;
use crate::sched::{balance, cpus, hold, user_mode};
use crate::signal::dispositions;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::service::SERVICE_WATCH;
use hanare_abi::slot::{OP_FORK, OP_NOP, OP_REMAP};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::ptrace::event;
use hanare_core::signal::{Actions, Mirrored};
use hanare_core::vma::Backing;
use hanare_hal::traps::Regs;
use hanare_hal::{cpu, fpu, percpu, usercopy};
use spin::Mutex;

/// Clone flags (clone(2)).
#[allow(missing_docs)]
pub mod flag {
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const SIGHAND: u64 = 0x800;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const THREAD: u64 = 0x1_0000;
    pub const SYSVSEM: u64 = 0x4_0000;
    pub const SETTLS: u64 = 0x8_0000;
    pub const PARENT_SETTID: u64 = 0x10_0000;
    pub const CHILD_CLEARTID: u64 = 0x20_0000;
    pub const CHILD_SETTID: u64 = 0x100_0000;
    pub const PIDFD: u64 = 0x1000;
    pub const DETACHED: u64 = 0x40_0000;
    pub const NEWTIME: u64 = 0x80;
    pub const NEWNS: u64 = 0x2_0000;
    pub const NEWIPC: u64 = 0x800_0000;
    pub const NEWUSER: u64 = 0x1000_0000;
    pub const NEWPID: u64 = 0x2000_0000;
    pub const IO: u64 = 0x8000_0000;
    pub const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
    pub const INTO_CGROUP: u64 = 0x2_0000_0000;
    pub const NAMESPACES: u64 = 0x7e02_0080;
    /// What Linux does for a new process, by the proxy's own clone3.
    pub const LINUX: u64 = NAMESPACES | PARENT | PIDFD | FS | IO | INTO_CGROUP;
}

/// What clone and clone3 ask for.
#[derive(Default)]
pub struct Request {
    /// CLONE_* without the exit signal.
    pub flags: u64,
    /// Signal to the parent at the end.
    pub exit_signal: u64,
    /// New stack pointer, 0: the caller's.
    pub stack: u64,
    /// CLONE_PARENT_SETTID.
    pub parent_tid: u64,
    /// CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
    pub child_tid: u64,
    /// CLONE_SETTLS.
    pub tls: u64,
    /// CLONE_PIDFD: where the descriptor goes.
    pub pidfd: u64,
    /// Wanted process ids, an array in the caller's memory, or null.
    pub set_tid: u64,
    /// Its length.
    pub set_tid_size: u64,
    /// CLONE_INTO_CGROUP.
    pub cgroup: u64,
}

impl Request {
    /// CLONE_PARENT_SETTID where the child, which has the parent's memory, can write it, or 0.
    pub fn parent_tid_in_child(&self) -> u64 {
        if self.flags & (flag::PARENT_SETTID | flag::NEWPID) == flag::PARENT_SETTID {
            self.parent_tid
        } else {
            0
        }
    }
}

/// clone(2): what was the exit signal is part of the flags, and a descriptor of the
/// child goes where its thread id would.
pub fn clone2(a: &[u64; 6], regs: &mut Regs) -> Result<u64> {
    let flags = a[0] & 0xffff_ff00;
    if flags & flag::PIDFD != 0 && flags & flag::PARENT_SETTID != 0 {
        return Err(errno::EINVAL);
    }
    let pidfd = if flags & flag::PIDFD != 0 { a[2] } else { 0 };
    // Of a signal that there is not, nobody hears.
    let exit_signal = Some(a[0] & 0xff).filter(|&signal| signal <= 64).unwrap_or(0);
    clone(
        &Request {
            flags,
            exit_signal,
            stack: a[1],
            parent_tid: a[2],
            child_tid: a[3],
            tls: a[4],
            pidfd,
            ..Request::default()
        },
        regs,
    )
}

/// clone3(2).
pub fn clone3(args: u64, size: u64, regs: &mut Regs) -> Result<u64> {
    const FIRST: u64 = 64;
    const LATEST: usize = 88;
    if size < FIRST {
        return Err(errno::EINVAL);
    }
    if size > 4096 {
        return Err(errno::E2BIG);
    }
    let mut bytes = heap::zeroed((size as usize).max(LATEST))?;
    usercopy::read(args, &mut bytes[..size as usize]).map_err(|_| errno::EFAULT)?;
    if bytes[LATEST..].iter().any(|&b| b != 0) {
        return Err(errno::E2BIG);
    }
    let mut words = [0u64; LATEST / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    let [
        flags,
        pidfd,
        child_tid,
        parent_tid,
        exit_signal,
        stack,
        stack_size,
        tls,
        set_tid,
        set_tid_size,
        cgroup,
    ] = words;
    let bad_ids = set_tid_size > 32 || (set_tid == 0) != (set_tid_size == 0);
    let bad_group =
        flags & flag::INTO_CGROUP != 0 && (cgroup > i32::MAX as u64 || size < LATEST as u64);
    // The low byte was the exit signal; of it only CLONE_NEWTIME is a flag here.
    let unknown = flags & !(0xffff_ff00 | flag::NEWTIME | flag::CLEAR_SIGHAND | flag::INTO_CGROUP)
        != 0
        || flags & flag::DETACHED != 0;
    let both = flag::SIGHAND | flag::CLEAR_SIGHAND;
    let both_told = flags & (flag::PIDFD | flag::PARENT_SETTID)
        == flag::PIDFD | flag::PARENT_SETTID
        && pidfd == parent_tid;
    let no_signal = flags & (flag::THREAD | flag::PARENT) != 0 && exit_signal != 0;
    if bad_ids
        || bad_group
        || unknown
        || both_told
        || no_signal
        || flags & both == both
        || exit_signal > 64
        || (stack == 0) != (stack_size == 0)
    {
        return Err(errno::EINVAL);
    }
    let top = stack.checked_add(stack_size).filter(|&top| top <= USER_MAX).ok_or(errno::EINVAL)?;
    clone(
        &Request {
            flags,
            exit_signal,
            stack: top,
            parent_tid,
            child_tid,
            tls,
            pidfd,
            set_tid,
            set_tid_size,
            cgroup,
        },
        regs,
    )
}

/// A new thread or a new process.
pub fn clone(r: &Request, regs: &mut Regs) -> Result<u64> {
    // As copy_process of Linux checks them.
    let has = |bits| r.flags & bits == bits;
    let semaphores = has(flag::NEWIPC | flag::SYSVSEM);
    let file_system = has(flag::FS) && r.flags & (flag::NEWNS | flag::NEWUSER) != 0;
    let threaded = has(flag::THREAD)
        && (!has(flag::SIGHAND) || r.flags & (flag::NEWUSER | flag::NEWPID | flag::PIDFD) != 0);
    let shares = has(flag::SIGHAND | flag::VFORK) && !has(flag::THREAD);
    if semaphores
        || file_system
        || threaded
        || shares
        || has(flag::SIGHAND) && !has(flag::VM)
        || has(flag::PIDFD | flag::DETACHED)
    {
        return Err(errno::EINVAL);
    }
    if !limits::room_for_tasks() {
        return Err(if r.flags & flag::THREAD != 0 { errno::EAGAIN } else { errno::ENOMEM });
    }
    if r.flags & flag::SETTLS != 0 && r.tls >= (1 << 47) - 4096 {
        return Err(errno::EPERM);
    }
    if r.flags & flag::THREAD != 0 {
        if r.flags & flag::NAMESPACES != 0 {
            return Err(errno::EINVAL);
        }
        return thread(r, regs);
    }
    if has(flag::FILES) {
        thread::current().process.shares_table.store(true, Ordering::Relaxed);
    }
    if has(flag::VM) { share::process(r, regs) } else { process(r, regs) }
}

/// Of what a clone asks for.
pub fn birth(r: &Request, regs: &Regs) -> Birth {
    let mut b = Birth::of_current(regs);
    if r.stack != 0 {
        b.regs.rsp = r.stack;
    }
    if r.flags & flag::SETTLS != 0 {
        b.fs_base = r.tls;
    }
    if r.flags & flag::CHILD_SETTID != 0 {
        b.set_tid = r.child_tid;
    }
    if r.flags & flag::CHILD_CLEARTID != 0 {
        b.clear_tid = r.child_tid;
    }
    b.clear_handlers = r.flags & flag::CLEAR_SIGHAND != 0;
    b
}

fn thread(r: &Request, regs: &mut Regs) -> Result<u64> {
    let me = thread::current();
    let p = &me.process;
    let own = !r.flags & (flag::FS | flag::FILES);
    let taken = workers::take(p, own)?;
    hold::at("thread-has-worker");
    let tid = taken.slot.tid();
    let give_up = |e| {
        workers::return_taken(p, &taken, me);
        e
    };
    let new = Thread::new(p.clone(), taken.index, taken.slot, first_step)
        .ok_or_else(|| give_up(errno::ENOMEM))?;
    *new.signals.lock() = me.signals.lock().inherit(false, true);
    *new.birth.lock() = Some(Birth { name: taken.name, ..birth(r, regs) });
    *new.name.lock() = *me.name.lock();
    new.attributes.store(me.attributes.load(Ordering::Relaxed), Ordering::Relaxed);
    *new.ids.lock() = *me.ids.lock();
    if own != 0 {
        workers::attributes_changed(&new); // descriptors or a working directory of its own
    }
    new.is_apart.store(own != 0 || me.is_apart.load(Ordering::Relaxed), Ordering::Relaxed);
    if r.flags & flag::PARENT_SETTID != 0 {
        let _ = usercopy::write(r.parent_tid, &tid.to_le_bytes());
    }
    *new.affinity.lock() = *me.affinity.lock();
    let traced = ptrace::before_child(me, Some(&new), event::CLONE);
    p.add_thread(&new, me).map_err(give_up)?;
    let cpu = balance::place(&new);
    cpus::enqueue(new, cpu);
    ptrace::on_child(me, regs, traced, tid);
    Ok(u64::from(tid))
}

/// Where a cloned thread, or the first thread of a forked process, begins.
pub extern "C" fn first_step(argument: usize) -> ! {
    cpus::reap();
    let thread = Thread::from_argument(argument);
    hold::at("thread-begins");
    let b = thread.birth.lock().take().expect("a cloned thread");
    b.load();
    for at in [b.set_tid, b.parent_tid].into_iter().filter(|&at| at != 0) {
        let _ = usercopy::write(at, &thread.slot.tid().to_le_bytes());
    }
    thread.clear_tid.store(b.clear_tid, Ordering::Relaxed);
    thread.rseq.set(b.rseq);
    *thread.policy.lock() = b.policy;
    thread.forbid_tsc(b.no_tsc);
    if b.clear_handlers {
        dispositions::clear_handlers();
    }
    if let Some(name) = b.name {
        name_worker(thread, &name);
    }
    let keeps_back = thread.signals.lock().keeps_back();
    if keeps_back {
        let _ = delegate::call(OP_NOP, [0; 6]);
    }
    let mut regs = b.regs;
    regs.orig_rax = hanare_hal::traps::NO_CALL;
    if b.is_program {
        ptrace::on_exec(thread, &mut regs);
        ptrace::leave(thread, &mut regs);
    }
    drop(b.fpu);
    user_mode::enter(&mut regs)
}

/// CLONE_CHILD_CLEARTID of the running thread, which ends.
pub fn clear_tid(thread: &Thread) {
    let word = thread.clear_tid.swap(0, Ordering::Relaxed);
    if word != 0 && usercopy::write(word, &[0; 4]).is_ok() {
        futex::wake_anywhere(thread, word);
    }
}

/// PR_SET_NAME of a worker that served another thread before.
fn name_worker(thread: &Thread, name: &[u8; 16]) {
    const PRCTL: u32 = 157;
    const SET_NAME: u64 = 15;
    if let Ok(at) = thread.process.write_scratch(thread.slot_index, name) {
        let _ = delegate::linux(PRCTL, [SET_NAME, at, 0, 0, 0, 0]);
    }
}

/// What a child has from its parent, apart from memory.
pub struct Inherited {
    /// Tracers and debuggers.
    observed: observe::Inherited,
    /// The program it runs.
    exe: Vec<u8>,
    affinity: CpuMask,
    /// What the thread is called.
    name: Option<[u8; 16]>,
    /// Filters of system calls.
    seccomp: seccomp::Inherited,
    /// Dispositions.
    signals: ProcessSignals,
    /// The mask.
    thread_signals: ThreadSignals,
    /// Limit of CPU time, seconds.
    cpu_limit: (u64, u64),
    /// Id and limits.
    pub identity: Identity,
    shares_table: bool,
    /// Users and groups.
    pub ids: Ids,
    /// Where it begins.
    pub birth: Birth,
}

impl Inherited {
    /// From the running thread. `shares`: the child has its memory, not a copy.
    pub fn of_current(r: &Request, regs: &Regs, shares: bool) -> Inherited {
        let me = thread::current();
        let p = &me.process;
        let mut identity = *p.identity.lock();
        identity.time.children |= r.flags & flag::NEWTIME != 0;
        let signals = p.signals.lock().inherit(); // not locked together with the thread's
        Inherited {
            observed: if shares {
                observe::Inherited::of_sharer(p)
            } else {
                observe::Inherited::of(p)
            },
            exe: p.exe.lock().clone(),
            affinity: *me.affinity.lock(),
            name: *me.name.lock(),
            seccomp: me.seccomp.inherited(),
            signals,
            thread_signals: me
                .signals
                .lock()
                .inherit(r.flags & (flag::VM | flag::VFORK) != flag::VM, shares),
            cpu_limit: p.cpu_timers.limit(),
            identity,
            shares_table: r.flags & flag::FILES != 0,
            ids: *me.ids.lock(),
            birth: Birth {
                rseq: me.rseq.area().filter(|_| r.flags & flag::VM == 0),
                ..birth(r, regs)
            },
        }
    }

    /// To the child and its first thread, which has not run.
    pub fn give(self, p: &Process, first: &Thread) {
        *p.exe.lock() = self.exe;
        *p.identity.lock() = self.identity;
        p.shares_table.store(self.shares_table, Ordering::Relaxed);
        p.owes.store(!self.signals.mirrored.owed().is_empty(), Ordering::Relaxed);
        *p.signals.lock() = self.signals;
        p.cpu_timers.set_limit(self.cpu_limit.0, self.cpu_limit.1);
        *first.affinity.lock() = self.affinity;
        *first.ids.lock() = self.ids;
        *first.name.lock() = self.name;
        first.seccomp.inherit(self.seccomp);
        *first.signals.lock() = self.thread_signals;
        *first.birth.lock() = Some(self.birth);
        self.observed.give(p);
    }
}

/// A child between fork and its proxy's coming up.
pub struct Embryo {
    /// Its memory.
    pub mm: AddressSpace,
    /// It begins when its parent's tracer has taken hold of it.
    pub traced: bool,
    /// What else it has from its parent.
    pub inherited: Inherited,
    /// The parent waits for its exec or end (vfork).
    pub vfork: Option<Arc<Vfork>>,
    /// Thread to be woken when the child has come up.
    pub parent: Arc<Thread>,
    _counted: Counted,
}

/// A parent's space and the token of its child.
type ParentAndToken = (u32, u64);

/// Children that wait for their proxies; `None` while one is becoming a process. Boxed: they are
/// large, and a tree moves its values through the kernel stack.
static EMBRYOS: Mutex<BTreeMap<ParentAndToken, Option<Box<Embryo>>>> = Mutex::new(BTreeMap::new());

/// Memory of the list if it is empty.
pub fn trim() {
    heap::trim_list(&EMBRYOS);
}

/// The child that the proxy of a new space stands for. Its parent waits until it has
/// [`come`]: a child that fork gave the id of is there for whoever asks (ptrace, kill).
pub fn claim(parent: u32, token: u64) -> Option<Box<Embryo>> {
    EMBRYOS.lock().get_mut(&(parent, token))?.take()
}

/// The child is there, or is not going to be: `parent`, a thread of the space, may go on.
pub fn come(space: u32, token: u64, parent: &Arc<Thread>) {
    EMBRYOS.lock().remove(&(space, token));
    cpus::kick(parent);
}

/// A process has ended: children that never came up are given up.
pub fn forget(parent: u32) {
    loop {
        let key = EMBRYOS.lock().range((parent, 0)..=(parent, u64::MAX)).next().map(|(k, _)| *k);
        let Some(key) = key else { break };
        let embryo = EMBRYOS.lock().remove(&key);
        drop(embryo);
    }
}

struct Claimed<'a> {
    thread: &'a Thread,
    key: (u32, u64),
    deadline: u64,
}

impl cpus::Wait for Claimed<'_> {
    fn ready(&self) -> bool {
        // Of a thread that another one's execve ends, too, the child is there on Linux.
        self.thread.process.is_killed()
            || !EMBRYOS.lock().contains_key(&self.key)
            || cpu::rdtsc() > self.deadline
    }
    fn announce(&self, _: bool) {}
    fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// Whether there is memory for a child until its proxy comes up.
fn room_for_embryo() -> Result<()> {
    heap::room_for_entry::<(u32, u64), Option<Box<Embryo>>>()?;
    heap::room(
        size_of::<Embryo>()
            + size_of::<Actions>()
            + size_of::<Mirrored>()
            + fpu::size()
            + size_of::<Vfork>()
            + heap::SMALL_PARTS,
    )
}

fn process(r: &Request, regs: &mut Regs) -> Result<u64> {
    let me = thread::current();
    let p = &me.process;
    let key = (p.space, p.next_token());
    room_for_embryo()?;
    let forked = p.mm.lock().fork()?;
    hold::at("fork-copied");
    forked.zap(&me.caller());
    let parent = thread::current_arc();
    let vfork = (r.flags & flag::VFORK != 0).then(|| Vfork::new(parent.clone()));
    let traced = ptrace::before_child(me, None, child_event(r));
    let inherited = Inherited::of_current(r, regs, false);
    let embryo = Box::new(Embryo {
        mm: forked.mm,
        traced: traced.is_some(),
        inherited,
        vfork: vfork.clone(),
        parent,
        _counted: Counted::new(Kind::Child),
    });
    EMBRYOS.lock().insert(key, Some(embryo));
    hold::at("fork-embryo");
    let pid = loop {
        match delegate::certainly(
            OP_FORK,
            [
                key.1,
                r.exit_signal | r.flags & (flag::LINUX | flag::FILES),
                r.pidfd,
                r.set_tid,
                r.set_tid_size,
                r.cgroup,
            ],
        ) {
            // There may be no more processes and threads: RLIMIT_NPROC, a cgroup's limit.
            pid if pid == errno::EAGAIN.as_return() && workers::dismiss(p) => {}
            pid => break pid,
        }
    };
    hold::at("fork-answered");
    if pid >= 0 {
        cpus::wait(&Claimed { thread: me, key, deadline: cpus::deadline(vfork::COMES_NS) }, 0);
    }
    let left = EMBRYOS.lock().remove(&key);
    if let Some(Some(e)) = left {
        drop(e); // the proxy could not fork, or died at once
        if let Some(vfork) = &vfork {
            vfork.release(); // nobody else will
        }
    }
    if let Some(e) = Errno::from_return(pid) {
        return Err(e);
    }
    if r.flags & flag::PARENT_SETTID != 0 {
        let _ = usercopy::write(r.parent_tid, &(pid as u32).to_le_bytes());
    }
    hold::at("fork-done");
    ptrace::on_child(me, regs, traced, pid as u32);
    if let Some(vfork) = &vfork {
        vfork.wait();
        ptrace::on_vfork_done(me, regs, pid as u32);
    }
    Ok(pid as u64)
}

/// What a tracer calls it.
pub fn child_event(r: &Request) -> u32 {
    match r.exit_signal {
        _ if r.flags & flag::VFORK != 0 => event::VFORK,
        17 => event::FORK,
        _ => event::CLONE,
    }
}

/// The files of a child are the module's copies of its parent's, by the same ids.
pub fn adopt_files(mm: &mut AddressSpace, space: u32) -> Result<()> {
    let mut known: BTreeMap<u64, FileRef> = BTreeMap::new();
    let mut at = 0;
    while let Some((start, end)) = mm.vmas.find_next(at).map(|v| (v.start, v.end)) {
        let file = mm.vmas.find(start).and_then(|v| {
            if let Backing::PrivateFile { file, .. } = &v.backing {
                Some(file.clone())
            } else {
                None
            }
        });
        if let Some(file) = file {
            if let Entry::Vacant(place) = known.entry(file.id) {
                heap::room_for_entry::<u64, FileRef>()?;
                heap::room(size_of::<FileHandle>() + file.name.len() + heap::SMALL_PARTS)?;
                place.insert(Arc::new(FileHandle {
                    space,
                    home: percpu::index(),
                    id: file.id,
                    inode: file.inode,
                    device: file.device,
                    name: file.name.clone(),
                    content: file.content.clone(),
                }));
            }
            // The whole of a mapping: nothing is cut.
            mm.vmas.update(start, end, |v| {
                if let Backing::PrivateFile { file: to, .. } = &mut v.backing
                    && let Some(own) = known.get(&file.id)
                {
                    *to = own.clone();
                }
                Ok(())
            })?;
        }
        at = end;
    }
    Ok(())
}

/// The mappings that are Linux' own.
pub fn shared_with_linux(mm: &AddressSpace) -> impl Iterator<Item = (u64, u64)> {
    mm.vmas
        .iter()
        .filter(|v| matches!(v.backing, Backing::SharedLinux { .. }))
        .map(|v| (v.start, v.end))
}

/// The child's first words with its proxy, which has mapped the device over everything
/// if nothing is shared with Linux; else it does so around shared mappings that Linux
/// has copied, which are watched from now on.
pub fn settle(p: &Process) {
    let shared: Vec<(u64, u64)> = shared_with_linux(&p.mm.lock()).collect();
    if shared.is_empty() {
        return;
    }
    let mut at = USER_MIN;
    for &(start, end) in shared.iter().chain(core::iter::once(&(USER_MAX, USER_MAX))) {
        if start > at {
            let _ = delegate::call(OP_REMAP, [at, start, 0, 0, 0, 0]);
        }
        at = end;
    }
    for (start, end) in shared {
        let Ok(answer) = services::by_worker(SERVICE_WATCH, &[start, end], &[]) else { continue };
        let mut mm = p.mm.lock();
        let _ = mm.vmas.update(start, end, |v| {
            if let Backing::SharedLinux { watch, .. } = &mut v.backing {
                *watch = answer.status as u32;
            }
            Ok(())
        });
    }
}

/// The first step of a forked process.
pub extern "C" fn first_step_of_child(argument: usize) -> ! {
    cpus::reap();
    hold::at("child-begins");
    settle(&Thread::from_argument(argument).process);
    timens::begin(Thread::from_argument(argument));
    hold::at("child-settled");
    first_step(argument)
}
