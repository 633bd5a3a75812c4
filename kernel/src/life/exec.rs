//! execve: from a path to a program in memory.
//!
//! The program's files are opened and checked first (`program`), mappings are private file mappings
//! like any other (`image`). Until [`load`] nothing of the old program is touched, so an error
//! leaves it as it was.

use crate::base::heap;
use crate::base::lists;
use crate::gate::{fatal, observe, ptrace};
use crate::life::begin;
use crate::life::exit;
use crate::life::image;
use crate::life::program::{
    BROKEN, Failed, Program, SHARED, Strings, check_strings, is_hidden, open, open_program, parse,
    read_file, slices,
};
use crate::life::rights;
use crate::life::target::{AT_FDCWD, Target};
use crate::life::{depart, share};
use crate::link::{delegate, services};
use crate::mm::change::unmap;
use crate::mm::map::address_space::Heap;
use crate::process::thread;
use crate::process::thread::{Birth, Thread};
use crate::process::workers;
use crate::process::{Process, cputimers, limits, robust, servers};
use crate::sched::user_mode;
use crate::sched::{cpus, hold};
use crate::signal::dispositions;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::control::{
    Control, START_FAILED_FILE, START_FAILED_FORMAT, START_FAILED_INTERPRETER, START_FAILED_MEMORY,
};
use hanare_abi::layout::START_BASE;
use hanare_core::elf::interpreter_path;
use hanare_core::errno::{self, Result};
use hanare_core::link::Last;
use hanare_core::stack::check_limits;
use hanare_hal::traps::Regs;
use linux_raw_sys::general::{__NR_execve, __NR_execveat};

/// `REQUEST_SPACE_START`: a first thread that begins with exec.
pub fn start(p: &Arc<Process>) -> Result<()> {
    begin::program(p, first_step)
}

extern "C" fn first_step() -> ! {
    cpus::reap();
    let thread = thread::current();
    let mut regs = Regs::default();
    observe::debug::loads(thread, true);
    match start_block_strings(&thread.process).map_err(|e| Failed(e, START_FAILED_FILE)).and_then(
        |(path, argv, envp)| {
            let target = Target::path(path).map_err(|e| Failed(e, START_FAILED_MEMORY))?;
            run(thread, &target, argv, envp, &mut regs)
        },
    ) {
        Ok(()) => observe::debug::loads(thread, false),
        Err(Failed(e, cause)) => exit::by_last_call(
            thread,
            Last::Request(Control::StartFailed {
                errno: e.0.unsigned_abs(),
                cause: if cause == BROKEN { START_FAILED_FORMAT } else { cause },
            }),
        ),
    }
    user_mode::enter(&mut regs)
}

fn start_block_strings(p: &Process) -> Result<(Vec<u8>, Strings, Strings)> {
    let block = p.memory().start_block()?;
    let size = hanare_core::start::strings_size(&block)?;
    check_strings(size, u64::from(block.argc) + u64::from(block.envc))?;
    let mut bytes = heap::zeroed(size as usize)?;
    p.memory().read_control(START_BASE + u64::from(block.strings_offset), &mut bytes);
    let mut strings = hanare_core::start::Strings::new(&bytes);
    let mut next = || strings.take().and_then(heap::copied);
    let path = next()?;
    let mut take = |n: u32| -> Result<Strings> {
        let mut all = heap::with_room(n as usize)?;
        for _ in 0..n {
            lists::push_within(&mut all, next()?);
        }
        Ok(all)
    };
    Ok((path, take(block.argc)?, take(block.envc)?))
}

/// execve of the running thread: on success `regs` are the new program's.
pub fn execve(
    thread: &Thread,
    target: &Target,
    argv: Strings,
    envp: Strings,
    regs: &mut Regs,
) -> Result<()> {
    let heap_start = || thread.process.memory().mm.lock().heap().start;
    let before = heap_start();
    // Of what it could not run it leaves nothing open when it says so.
    let result = services::put_together(|| run(thread, target, argv, envp, regs));
    result.inspect(|()| observe::debug::on_exec(thread)).map_err(|Failed(e, kind)| {
        if kind == BROKEN || heap_start() != before {
            fatal::die(thread, hanare_core::signal::SIGSEGV); // the old program is gone
        }
        e
    })
}

/// The process' other threads end: the program is about to be replaced. Those in a
/// call of Linux' are interrupted there; their workers end.
fn end_others(p: &Process, me: &Thread) -> Result<()> {
    p.doom_others(me)?;
    if !p.is_alone() {
        hold::at("exec-dooms");
        p.kick_all();
        for other in p.threads().filter(|t| !core::ptr::eq(&**t, me)) {
            let _ = delegate::ask(me, Control::Interrupt { tid: other.tid() });
        }
        cpus::until(|| p.is_alone() || me.must_end(), cpus::NEVER);
    }
    p.replaced(me)
}

/// The thread that replaced the program is the process' first one from now on: it has the process'
/// own id, so the worker that has it serves it. May not come back: the caller owns nothing.
pub fn take_first_slot(me: &Thread, regs: &Regs) {
    let p = &me.process;
    if me.port.slot_index == p.first_slot {
        return;
    }
    // All there is to it first: what is taken cannot be given back.
    let Some(slot) = p.memory().slot(p.first_slot) else { return };
    let start = crate::life::child::first_step;
    let Some(new) = Thread::new(p.clone(), p.first_slot, slot, p.pid(), start) else { return };
    if !workers::take_first(me, slot) {
        return;
    }
    // The two threads' locks one after the other.
    let signals = me.signals.lock().hand_over();
    *new.signals.lock() = signals;
    new.be_like(me);
    let name = *me.name.lock();
    *new.birth.lock() = Some(Birth { name, ..Birth::of_program(me, regs) });
    new.seccomp.inherit(me.seccomp.inherited());
    ptrace::succeed(me, &new);
    if !p.hand_over(me, &new) {
        return; // the process ends
    }
    cpus::enqueue(new, hanare_hal::percpu::index());
    exit::thread(me)
}

/// Replaces the program of the running process, in its memory, or in new memory where others
/// share that.
fn run(
    thread: &Thread,
    target: &Target,
    mut argv: Strings,
    envp: Strings,
    regs: &mut Regs,
) -> core::result::Result<(), Failed> {
    let path = &target.name[..];
    limits::look(thread);
    let check = |argv: &Strings| {
        let limit = thread.process.identity.lock().stack_soft;
        check_limits(argv, &envp, path, limit).map_err(|e| Failed(e, START_FAILED_MEMORY))
    };
    check(&argv)?;
    let program = open_program(thread, target, &mut argv)?;
    check(&argv)?; // a script's interpreter gets more of them
    let interpreter = match program.plan.interpreter {
        None => None,
        Some((offset, len)) => {
            let failed = |e| Failed(e, START_FAILED_INTERPRETER);
            let name = read_file(thread, &program, offset, len).map_err(failed)?;
            let name = interpreter_path(&name).map_err(|e| failed(e.errno()))?;
            let opened = open(thread, AT_FDCWD, name, 0).map_err(failed)?;
            let opened = parse(thread, opened).map_err(|e| match e.interpreter_errno() {
                Some(e) => failed(e),
                None => Failed(errno::EINVAL, BROKEN),
            });
            Some(opened?)
        }
    };
    if program.plan.is_broken || interpreter.as_ref().is_some_and(|i| i.plan.is_broken) {
        return Err(Failed(errno::EINVAL, BROKEN));
    }
    if !depart::is_needed(thread) {
        match load(thread, &program, interpreter.as_ref(), path, &argv, &envp, regs) {
            Err(Failed(_, SHARED)) => {} // another thread has made a process that shares them, meanwhile
            result => return result,
        }
    }
    if is_hidden(&program, interpreter.as_ref()) && thread.process.observed.is_on() {
        return Err(Failed(errno::EACCES, START_FAILED_FILE)); // see `rights::hide`
    }
    thread.process.claims.are_over(); // its descriptors go with it
    Err(depart::exec(thread, target, program, interpreter, argv, envp, arguments_of(regs), regs))
}

/// Where the arguments of the execve or execveat lie that is under way; 0: it is neither.
fn arguments_of(regs: &Regs) -> u64 {
    match regs.orig_rax as u32 {
        __NR_execve => regs.rsi,
        __NR_execveat => regs.rdx,
        _ => 0,
    }
}

/// The point of no return: replaces the memory and sets the registers.
fn load(
    thread: &Thread,
    program: &Program,
    interpreter: Option<&Program>,
    path: &[u8],
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    regs: &mut Regs,
) -> core::result::Result<(), Failed> {
    let p = &thread.process;
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let (argv, envp) = (slices(argv).map_err(memory)?, slices(envp).map_err(memory)?);
    let replaces = !p.exe.lock().is_empty();

    hold::at("exec-opened");
    let dumpable = if is_hidden(program, interpreter) {
        Some(rights::hide(thread).map_err(|e| Failed(e, START_FAILED_FILE))?)
    } else {
        None
    };
    // What `hanare run` starts has what its proxy was given.
    let rights = if replaces {
        let renewed = rights::renew(thread).inspect_err(|_| rights::show_again(thread, dumpable));
        Some(renewed.map_err(|e| match e {
            errno::EAGAIN => Failed(e, SHARED), // Linux has to make this execve, too
            e => memory(e),
        })?)
    } else {
        None
    };
    end_others(p, thread).map_err(memory)?;
    p.claims.give_up_all();
    servers::end_all(thread);
    if depart::is_needed(thread) {
        return Err(Failed(errno::EAGAIN, SHARED));
    }
    rights.map(|rights| rights.take(thread));
    share::leave(thread);
    robust::release(thread);
    if !unmap::unmap_all(&thread.caller()) {
        p.memory().mm.lock().set_heap(Heap::default()); // nothing is left of the old program
        return Err(memory(errno::ENOMEM));
    }
    cputimers::on_exec(thread);
    rights::forget_read_implies_exec(thread);
    dispositions::on_exec(thread);
    hold::at("exec-cleared");
    image::build(thread, program, interpreter, path, &argv, &envp, regs)
}
