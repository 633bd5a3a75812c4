//! execve that Linux makes, too: the process goes on in a space of its own.
//!
//! Linux' security modules, audit and tracepoints hear of a program only by an execve of Linux'
//! own. Only by that does a process leave shared memory and tables. So the worker makes that one
//! (`Control::Exec`). Linux checks it, ends the process' other threads, and settles credentials and
//! descriptors. Linux then loads the proxy once more, in new memory (`module/space/program.c`). The
//! new proxy asks for a space (`IOCTL_CHILD`) with a token, by which the plan of the program is
//! found here. From that moment on the old threads end. The new first thread waits for that and
//! then builds the program.
//!
//! Until the plan is taken an error leaves everything as it was.

use crate::base::counts::{Counted, Kind};
use crate::base::lock::{Mutex, rank};
use crate::base::{heap, lists};
use crate::gate::{fatal, ptrace};
use crate::life::begin;
use crate::life::expected::Expected;
use crate::life::image;
use crate::life::program::{self, Failed, Program, Strings};
use crate::life::target::{self, Target};
use crate::link::delegate;
use crate::mm::window::space::Space;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::process::{Process, timens};
use crate::sched::user_mode;
use crate::sched::{cpus, hold};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::control::{Control, START_FAILED_FILE, START_FAILED_MEMORY};
use hanare_abi::request::{GROUPS_WORD, LEFT_WORD};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::ENDING;
use hanare_core::signal;
use hanare_hal::traps::{self, Regs};

/// A program that is about to begin in a space of its own.
pub struct Plan {
    /// The thread that called execve.
    old: Arc<Thread>,
    /// The number by which the module knows the call, if a listener decides about it, or 0.
    call: u64,
    program: Program,
    interpreter: Option<Program>,
    /// The name of the program as it is told.
    path: Vec<u8>,
    argv: Strings,
    envp: Strings,
    /// The registers of the call, which a tracer sees until the program is there.
    regs: Regs,
    _counted: Counted,
}

/// Plans by the space that is left, and token.
static PLANS: Expected<Plan, rank::Plans> = Expected::new();
/// Plans by the new space, whose first thread takes its own.
static TAKEN: Mutex<BTreeMap<u32, Box<Plan>>, rank::TakenPlans> = Mutex::new(BTreeMap::new());

/// Memory of the lists if they are empty.
pub fn trim() {
    PLANS.trim();
    heap::trim_list(&TAKEN);
}

/// Whether every execve goes this way.
static ALL: AtomicBool = AtomicBool::new(true);

/// Boot: whether Linux' guards see every program.
pub fn init(exec_seen: bool) {
    ALL.store(exec_seen, Ordering::Relaxed);
}

/// Whether an execve of the running thread goes this way. Without `exec=seen` it does where Linux
/// has no other way. The process shares its memory or its descriptor table with others, or its time
/// namespace may change. Or the thread has descriptors or directories of its own.
pub fn is_needed(thread: &Thread) -> bool {
    let p = &thread.process;
    // The proxy of a native task has none of what its program is.
    if p.native.get().is_some() {
        return false;
    }
    if thread.seccomp.departs.load(Ordering::Relaxed) != 0 {
        return true;
    }
    // A debugger stays with the memory that it has.
    if ALL.load(Ordering::Relaxed) && !p.observed.is_debugged() {
        return true;
    }
    let is_apart =
        thread.is_apart.load(Ordering::Relaxed) && thread.port.slot_index != p.first_slot;
    let left_by_linux = p.shares_table.load(Ordering::Relaxed)
        || workers::is_leader_gone(p)
        || timens::may_change_by_exec(p);
    p.shares_with_living() || is_apart || left_by_linux
}

/// execve of the running thread, called with `regs`. `told`: where its arguments are for Linux and
/// for those that observe the call there, or 0. Comes back with an error only.
pub fn exec(
    thread: &Thread,
    target: &Target,
    program: Program,
    interpreter: Option<Program>,
    argv: Strings,
    envp: Strings,
    told: u64,
    regs: &Regs,
) -> Failed {
    let me = thread.arc();
    let p = &me.process;
    // Of `TAKEN`, where nothing may fail any more.
    let room = heap::room_for_entry::<u32, Box<Plan>>()
        .and_then(|()| heap::room(size_of::<Plan>()))
        .and_then(|()| heap::copied(&target.name));
    let Ok(path) = room else { return Failed(errno::ENOMEM, START_FAILED_MEMORY) };
    let file = |program: &Program| program.file_id() as u32;
    let files = (file(&program), interpreter.as_ref().map_or(0, file));
    let open = program.interprets.open.as_ref().map_or(0, |file| file.id as u32);
    let key = (p.memory().id, p.memory().next_token());
    let plan = Plan {
        old: me.clone(),
        call: me.seccomp.departs.load(Ordering::Relaxed),
        program,
        interpreter,
        path,
        argv,
        envp,
        regs: *regs,
        _counted: Counted::new(Kind::Program),
    };
    let scratch = match target::write_path(&me, &target.open) {
        Ok(scratch) => scratch,
        Err(e) => return Failed(e, START_FAILED_FILE),
    };
    if let Err(e) = PLANS.room().and_then(|()| p.depart(&me)) {
        return Failed(e, START_FAILED_MEMORY);
    }
    PLANS.insert(key, lists::boxed_within(plan));
    hold::at("exec-departs");
    let outcome = delegate::ask(
        &*me,
        Control::Exec {
            token: key.1,
            directory: target.dir,
            path: scratch,
            flags: (target.flags as u32, open),
            files,
            arguments: told,
        },
    );
    // Where it has been taken, this thread ends before it enters user mode again.
    drop(PLANS.give_up(key));
    p.resume(&me);
    Failed(outcome.result().map_or_else(Errno::from, |_| errno::EIO), START_FAILED_FILE)
}

/// The plan for the proxy of a new space, if that comes from an execve; `words` as of
/// `REQUEST_SPACE_OPEN`. `EPERM`: the proxy has the token of another process, or of a call about
/// which a listener has not decided, or not so.
pub fn claim(parent: u32, token: u64, words: &[u64]) -> Result<Option<Box<Plan>>> {
    let left = words.get(LEFT_WORD..GROUPS_WORD).unwrap_or_default();
    let is_of = |plan: &Plan| left == [u64::from(plan.old.process.first_slot), plan.call];
    match PLANS.look((parent, token), is_of) {
        Some(false) => Err(errno::EPERM),
        Some(true) => Ok(PLANS.claim((parent, token))),
        None => Ok(None),
    }
}

impl Plan {
    /// Has the program begin in `space`, as the process `new` there; `words` as of
    /// `REQUEST_SPACE_OPEN`.
    pub fn begin(
        mut self: Box<Self>,
        space: &Space,
        new: &Arc<Process>,
        words: &[u64],
    ) -> Result<()> {
        let old = self.old.clone();
        heap::room_for_entry::<u32, Box<Plan>>()?; // from here on its files are the new space's
        self.move_to(space);
        lists::insert_within(&mut TAKEN.lock(), space.id, self);
        let begun = begin::program_of(new, &old, words, first_step);
        if begun.is_err() {
            let plan = TAKEN.lock().remove(&space.id);
            // The files are not moved: it is the old space that lets go of them.
            plan.into_iter().for_each(|mut plan| plan.move_to(old.process.memory()));
            old.process.kill();
        }
        begun
    }

    /// Whether arguments of the process' calls are copied.
    pub fn copies(&self) -> bool {
        self.old.process.memory().copies()
    }

    fn move_to(&mut self, space: &Space) {
        core::iter::once(&mut self.program)
            .chain(&mut self.interpreter)
            .for_each(|program| program.move_to(space));
    }
}

/// The first step of a program in a space of its own.
pub extern "C" fn first_step() -> ! {
    cpus::reap();
    let thread = thread::current();
    let mut regs = Regs::default();
    match begin(thread, &mut regs) {
        Ok(()) => {
            ptrace::on_exec(thread, &mut regs);
            ptrace::leave(thread, &mut regs);
        }
        Err(_) => fatal::die(thread, signal::SIGSEGV), // the old program is gone
    }
    user_mode::enter(&mut regs)
}

fn begin(thread: &Thread, regs: &mut Regs) -> core::result::Result<(), Failed> {
    let p = &thread.process;
    let ended = Failed(ENDING, START_FAILED_MEMORY);
    let plan = TAKEN.lock().remove(&p.memory().id).ok_or(ended)?;
    // Before the first wait, where a tracer may look at the thread.
    traps::save_registers(&plan.regs);
    p.arrive(thread);
    // The threads of the old program leave its memory.
    cpus::until(|| plan.old.process.is_deserted() || thread.must_end(), cpus::NEVER);
    p.resume(thread);
    let Plan { old, program, interpreter, path, argv, envp, .. } = *plan;
    drop(old);
    hold::at("exec-departed");
    timens::begin(thread);
    thread.forbid_tsc(thread.no_tsc.load(Ordering::Relaxed));
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let (argv, envp) =
        (program::slices(&argv).map_err(memory)?, program::slices(&envp).map_err(memory)?);
    image::build(thread, &program, interpreter.as_ref(), &path, &argv, &envp, regs)
}
