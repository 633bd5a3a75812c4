//! execve: from a path to a program in memory.
//!
//! The file is opened, checked and read through the worker; mappings are private
//! file mappings like any other. Until [`Image::load`] nothing of the old program
//! is touched, so an error leaves it as it was.

use crate::base::heap;
use crate::base::pages::Pages;
use crate::gate::{observe, ptrace};
use crate::link::{delegate, services};
use crate::mm::content::Content;
use crate::mm::space::Space;
use crate::mm::{self, AddressSpace, FileHandle, FileRef, unmap, vdso};
use crate::process::begin;
use crate::process::exit;
use crate::process::target::{AT_FDCWD, Target, write_path};
use crate::process::thread;
use crate::process::thread::{Birth, Thread};
use crate::process::workers;
use crate::process::{Identity, Ids, Process, cputime, depart, futex, rights, share};
use crate::sched::user_mode;
use crate::sched::{cpus, hold};
use crate::signal::{dispositions, signals};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::layout::{START_BASE, USER_MAX};
use hanare_abi::service::{FILE_UNREADABLE, SERVICE_FILL, SERVICE_PROGRAM_GET};
use hanare_abi::slot::{
    EXECED_WORDS, OP_EXECED, OP_INTERRUPT, OP_START_FAILED, START_FAILED_FILE, START_FAILED_FORMAT,
    START_FAILED_INTERPRETER, START_FAILED_MEMORY,
};
use hanare_core::addr::{page_down, page_up};
use hanare_core::elf::{ElfHeader, ElfPlan, interpreter_path};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::limits::{ARG_MAX_TOTAL, COMM_SIZE, MAX_INTERPRETERS, PATH_MAX, STACK_EXPAND};
use hanare_core::script::Script;
use hanare_core::stack::{StackImage, at, check_limits};
use hanare_core::vma::{Backing, Prot, Search, Vma, VmaFlags};
use hanare_hal::traps::Regs;
use hanare_hal::{gdt, usercopy};

/// Call numbers.
mod linux {
    pub const EXECVE: u64 = 59;
    pub const EXECVEAT: u64 = 322;
}

/// Where position-independent programs go (Linux' ELF_ET_DYN_BASE).
const PIE_BASE: u64 = 0x5555_5555_4000;
/// Room is left for a stack of unlimited size as if it were this large.
const STACK_MAX: u64 = 1 << 40;
/// Least distance between stack top and mappings (Linux' MIN_GAP).
const STACK_GAP: u64 = 128 << 20;

/// An open program file.
pub struct Program {
    file: FileRef,
    head: Vec<u8>,
    /// The program's user may not read its file.
    hidden: bool,
    plan: ElfPlan,
}

impl Program {
    /// The id by which the module knows the program's file.
    pub fn file_id(&self) -> u64 {
        self.file.id
    }

    /// The module moves the file to the space `to`.
    pub fn move_to(&mut self, to: &Space) {
        if let Some(file) = Arc::get_mut(&mut self.file) {
            (file.space, file.home) = (to.space, to.home);
        }
    }
}

/// Why a program does not start; the kind is for the proxy's message.
pub struct Failed(pub Errno, pub u64);

/// `Failed` kind of an error behind the point of no return, where the file's
/// content does not hold what its headers say. A new process says so; execve(2)
/// ends by SIGSEGV, as on Linux.
const BROKEN: u64 = START_FAILED_FORMAT;
/// `Failed` kind of memory, or a descriptor table, that others share: it is left, not replaced.
const SHARED: u64 = u64::MAX;

/// `REQUEST_SPACE_START`: a first thread that begins with exec.
pub fn start(p: &Arc<Process>) -> Result<()> {
    begin::program(p, first_step)
}

extern "C" fn first_step(argument: usize) -> ! {
    cpus::reap();
    let thread = Thread::from_argument(argument);
    let mut regs = Regs::default();
    observe::debug::loads(thread, true);
    match start_block_strings(&thread.process)
        .map_err(|e| Failed(e, START_FAILED_FILE))
        .and_then(|(path, argv, envp)| run(&Target::path(path), argv, &envp, &mut regs))
    {
        Ok(()) => observe::debug::loads(thread, false),
        Err(Failed(e, kind)) => exit::by_last_call(OP_START_FAILED, [e.0 as u64, kind, 0, 0, 0, 0]),
    }
    user_mode::enter(&mut regs)
}

pub type Strings = Vec<Vec<u8>>;

/// A copy of strings. `ENOMEM`.
pub fn copied(strings: &[Vec<u8>]) -> Result<Strings> {
    let mut all = heap::with_room(strings.len())?;
    for string in strings {
        all.push(heap::copied(string)?);
    }
    Ok(all)
}

/// Bounds arguments and environment before the kernel copies them: as much as a
/// stack could take, and no more than memory allows.
pub fn check_strings(bytes: u64, count: u64) -> Result<()> {
    /// A vector and a heap block for each string, and the copies on the way.
    const EACH: u64 = 160;
    if bytes.saturating_add(count.saturating_mul(8)) > ARG_MAX_TOTAL {
        return Err(errno::E2BIG);
    }
    if (bytes * 4 + count * EACH) * 2 > crate::base::frames::usage().0 {
        Err(errno::ENOMEM)
    } else {
        Ok(())
    }
}

fn start_block_strings(p: &Process) -> Result<(Vec<u8>, Strings, Strings)> {
    let block = p.start_block()?;
    let size = hanare_core::start::strings_size(&block)?;
    check_strings(size, u64::from(block.argc) + u64::from(block.envc))?;
    let mut bytes = heap::zeroed(size as usize)?;
    p.read_control(START_BASE + u64::from(block.strings_offset), &mut bytes);
    let mut strings = hanare_core::start::Strings::new(&bytes);
    let mut next = || strings.take().and_then(heap::copied);
    let path = next()?;
    let mut take = |n: u32| -> Result<Strings> {
        let mut all = heap::with_room(n as usize)?;
        for _ in 0..n {
            all.push(next()?);
        }
        Ok(all)
    };
    Ok((path, take(block.argc)?, take(block.envc)?))
}

/// execve of the running thread: on success `regs` are the new program's.
pub fn execve(target: &Target, argv: Strings, envp: &[Vec<u8>], regs: &mut Regs) -> Result<()> {
    let before = thread::current().process.mm.lock().brk_start;
    // Of what it could not run it leaves nothing open when it says so.
    let result = services::put_together(|| run(target, argv, envp, regs));
    result.inspect(|()| observe::debug::on_exec(thread::current())).map_err(|Failed(e, _)| {
        if thread::current().process.mm.lock().brk_start != before {
            signals::die(hanare_core::signal::SIGSEGV); // the old program is gone
        }
        e
    })
}

/// The process' other threads end: the program is about to be replaced. Those in a
/// call of Linux' are interrupted there; their workers end.
fn end_others(p: &Process, me: &Thread) -> Result<()> {
    struct Alone<'a>(&'a Process, &'a Thread);
    impl cpus::Wait for Alone<'_> {
        fn ready(&self) -> bool {
            self.0.thread_count() == 1 || self.1.must_end()
        }
        fn announce(&self, _: bool) {}
    }
    p.doom_others(me)?;
    if p.thread_count() > 1 {
        hold::at("exec-dooms");
        p.kick_all();
        for other in p.threads().filter(|t| !core::ptr::eq(&**t, me)) {
            let _ = delegate::call(OP_INTERRUPT, [u64::from(other.slot.tid()), 0, 0, 0, 0, 0]);
        }
        cpus::wait(&Alone(p, me), 0);
    }
    if me.must_end() {
        return Err(errno::EINTR);
    }
    p.replaced();
    Ok(())
}

/// The thread that replaced the program is the process' first one from now on: it has the process'
/// own id, so the worker that has it serves it. May not come back: the caller owns nothing.
pub fn take_first_slot(regs: &Regs) {
    let me = thread::current();
    let p = &me.process;
    if me.slot_index == p.first_slot {
        return;
    }
    // All there is to it first: what is taken cannot be given back.
    let Some(slot) = p.slot(p.first_slot) else { return };
    let Some(new) = Thread::new(p.clone(), p.first_slot, slot, crate::process::clone::first_step)
    else {
        return;
    };
    if !workers::take_first(p, slot) {
        return;
    }
    *new.signals.lock() = me.signals.lock().hand_over();
    *new.birth.lock() = Some(Birth { name: *me.name.lock(), ..Birth::of_program(regs) });
    *new.name.lock() = *me.name.lock();
    new.attributes.store(me.attributes.load(Ordering::Relaxed), Ordering::Relaxed);
    *new.ids.lock() = *me.ids.lock();
    *new.affinity.lock() = *me.affinity.lock();
    new.seccomp.inherit(me.seccomp.inherited());
    ptrace::succeed(me, &new);
    p.succeed(&new);
    me.dying.store(true, Ordering::Relaxed); // its worker need leave none behind
    cpus::enqueue(new, hanare_hal::percpu::index());
    exit::thread(p, me)
}

/// Replaces the program of the running process, in its memory, or in new memory where others
/// share that.
fn run(
    target: &Target,
    mut argv: Strings,
    envp: &[Vec<u8>],
    regs: &mut Regs,
) -> core::result::Result<(), Failed> {
    let path = &target.name[..];
    let check = |argv: &Strings| {
        let limit = thread::current().process.identity.lock().stack_soft;
        check_limits(argv, envp, path, limit).map_err(|e| Failed(e, START_FAILED_MEMORY))
    };
    check(&argv)?;
    let program = open_program(target, &mut argv)?;
    check(&argv)?; // a script's interpreter gets more of them
    let interpreter = match program.plan.interpreter {
        None => None,
        Some((offset, len)) => {
            let failed = |e| Failed(e, START_FAILED_INTERPRETER);
            let name = read_file(&program, offset, len).map_err(failed)?;
            let name = interpreter_path(&name).map_err(|e| failed(e.errno()))?;
            let opened = open(AT_FDCWD, name, 0).map_err(failed)?;
            Some(parse(opened).map_err(|e| failed(e.interpreter_errno()))?)
        }
    };
    if !depart::is_needed(thread::current()) {
        match load(&program, interpreter.as_ref(), path, &argv, envp, regs) {
            Err(Failed(_, SHARED)) => {} // another thread has made a process that shares them, meanwhile
            result => return result,
        }
    }
    if is_hidden(&program, interpreter.as_ref()) && thread::current().process.observed.is_on() {
        return Err(Failed(errno::EACCES, START_FAILED_FILE)); // see `rights::hide`
    }
    Err(depart::exec(target, program, interpreter, argv, envp, arguments_of(regs)))
}

/// Where the arguments of the execve or execveat lie that is under way; 0: it is neither.
fn arguments_of(regs: &Regs) -> u64 {
    match regs.orig_rax {
        linux::EXECVE => regs.rsi,
        linux::EXECVEAT => regs.rdx,
        _ => 0,
    }
}

/// A file that may be executed, before it is known to be a program.
struct Opened {
    file: FileRef,
    head: Vec<u8>,
    hidden: bool,
}

/// Opens a program, following `#!` lines; `argv` is rewritten as Linux does.
fn open_program(target: &Target, argv: &mut Strings) -> core::result::Result<Program, Failed> {
    let mut name = target.name.clone();
    for depth in 0..=MAX_INTERPRETERS {
        let kind = if depth == 0 { START_FAILED_FILE } else { START_FAILED_INTERPRETER };
        let opened = match depth {
            0 => open(target.dir, &target.open, target.flags),
            _ => open(AT_FDCWD, &name, 0),
        };
        let opened = opened.map_err(|e| Failed(e, kind))?;
        match Script::parse(&opened.head).map_err(|e| Failed(e, START_FAILED_FORMAT))? {
            None => return parse(opened).map_err(|e| Failed(e.errno(), START_FAILED_FORMAT)),
            Some(_) if target.closes => return Err(Failed(errno::ENOENT, kind)),
            Some(script) => {
                let mut new = vec![script.interpreter.to_vec()];
                new.extend(script.argument.map(<[u8]>::to_vec));
                new.push(name.clone());
                heap::more_room(argv, new.len()).map_err(|e| Failed(e, START_FAILED_MEMORY))?;
                argv.splice(..argv.len().min(1), new);
                let next = script.interpreter.to_vec();
                services::put_together(|| drop(opened));
                name = next;
            }
        }
    }
    Err(Failed(errno::ELOOP, START_FAILED_INTERPRETER))
}

fn open(dir: u64, path: &[u8], flags: u64) -> Result<Opened> {
    if path.len() >= PATH_MAX {
        return Err(errno::ENAMETOOLONG);
    }
    let thread = thread::current();
    let scratch = write_path(thread, path)?;
    let pages = Pages::new(1)?;
    let answer =
        services::by_worker(SERVICE_PROGRAM_GET, &[dir, scratch, flags], &[pages.extent()])?;
    let name = pages.bytes(4096, (answer.args[0] >> 32) as usize);
    let file = FileHandle {
        space: thread.process.space,
        home: thread.process.home,
        id: answer.status,
        inode: answer.args[1],
        device: answer.args[4],
        content: Content::of(answer.args[4], answer.args[1], answer.held, answer.args[2]),
        name: String::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| String::from_utf8_lossy(path).into_owned()),
    };
    file.set_runs();
    Ok(Opened {
        file: Arc::new(file),
        head: pages.bytes(0, answer.args[0] as u32 as usize),
        hidden: answer.args[3] & FILE_UNREADABLE != 0,
    })
}

/// Up to one page of a file.
fn read_at(file: &FileHandle, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let page = Pages::new(0)?;
    let answer = services::by_worker(
        SERVICE_FILL,
        &[file.id, offset, bytes.min(4096) as u64],
        &[page.extent()],
    )?;
    Ok(page.bytes(0, answer.status as usize))
}

fn parse(opened: Opened) -> core::result::Result<Program, hanare_core::elf::ElfError> {
    use hanare_core::elf::ElfError;
    let header = ElfHeader::parse(&opened.head)?;
    let end = header.phoff.saturating_add(header.phdr_bytes() as u64);
    let plan = if end <= opened.head.len() as u64 {
        ElfPlan::new(&header, &opened.head[header.phoff as usize..])?
    } else {
        let mut phdrs = Vec::new();
        while phdrs.len() < header.phdr_bytes() {
            let part = read_at(
                &opened.file,
                header.phoff + phdrs.len() as u64,
                header.phdr_bytes() - phdrs.len(),
            )
            .map_err(|_| ElfError::Truncated)?;
            if part.is_empty() {
                return Err(ElfError::Truncated);
            }
            phdrs.extend(part);
        }
        ElfPlan::new(&header, &phdrs)?
    };
    // The interpreter's path is nearly always in the first page.
    let mut head = opened.head.clone();
    if let Some((offset, len)) = plan.interpreter
        && offset.saturating_add(len as u64) > head.len() as u64
    {
        head = read_at(&opened.file, offset, len).map_err(|_| ElfError::Truncated)?;
    }
    Ok(Program { file: opened.file.clone(), head, hidden: opened.hidden, plan })
}

fn read_file(program: &Program, offset: u64, len: usize) -> Result<Vec<u8>> {
    let inside = program.head.get(offset as usize..offset as usize + len);
    Ok(inside.unwrap_or(&program.head[..len.min(program.head.len())]).to_vec())
}

/// Where things go in the new address space.
struct Layout {
    stack_top: u64,
    /// Bytes left out below the strings.
    stack_shift: usize,
    mmap_base: u64,
    pie_base: u64,
    brk_gap: u64,
}

fn layout(id: &Identity) -> Layout {
    let word = |i: usize| {
        let mut b = [0; 4];
        b.copy_from_slice(&id.random[16 + 4 * i..20 + 4 * i]);
        if id.no_random { 0 } else { u64::from(u32::from_le_bytes(b)) }
    };
    let stack_top = USER_MAX - 4096 - ((word(0) & 0x3f_ffff) << 12);
    let size = page_up(id.stack_soft.clamp(64 << 10, STACK_MAX));
    let gap = (size + (1 << 20)).max(STACK_GAP);
    Layout {
        stack_top,
        stack_shift: (word(0) >> 22 & 0x3f) as usize * 16,
        mmap_base: page_down(stack_top - gap) - ((word(1) & 0xfff_ffff) << 12),
        pie_base: PIE_BASE + ((word(2) & 0xfff_ffff) << 12),
        brk_gap: (word(3) & 0x1fff) << 12,
    }
}

/// References to all of them. `ENOMEM`.
pub fn slices(strings: &[Vec<u8>]) -> Result<Vec<&[u8]>> {
    let mut all = heap::with_room(strings.len())?;
    all.extend(strings.iter().map(Vec::as_slice));
    Ok(all)
}

/// Whether the user may not read all of the program.
fn is_hidden(program: &Program, interpreter: Option<&Program>) -> bool {
    program.hidden || interpreter.is_some_and(|i| i.hidden)
}

/// The point of no return: replaces the memory and sets the registers.
fn load(
    program: &Program,
    interpreter: Option<&Program>,
    path: &[u8],
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    regs: &mut Regs,
) -> core::result::Result<(), Failed> {
    let thread = thread::current();
    let p = &thread.process;
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let (argv, envp) = (slices(argv).map_err(memory)?, slices(envp).map_err(memory)?);
    let replaces = !p.exe.lock().is_empty();

    hold::at("exec-opened");
    let dumpable = if is_hidden(program, interpreter) {
        Some(rights::hide(p).map_err(|e| Failed(e, START_FAILED_FILE))?)
    } else {
        None
    };
    // What `hanare run` starts has what its proxy was given.
    let rights = if replaces {
        Some(rights::renew(thread).inspect_err(|_| rights::show_again(dumpable)).map_err(memory)?)
    } else {
        None
    };
    end_others(p, thread).map_err(memory)?;
    if depart::is_needed(thread) {
        return Err(Failed(errno::EAGAIN, SHARED));
    }
    rights.map(|rights| rights.take(thread));
    share::leave(thread);
    futex::release_robust(thread);
    unmap::unmap_all(&thread.caller());
    cputime::on_exec(p);
    rights::forget_read_implies_exec(p);
    dispositions::on_exec();
    hold::at("exec-cleared");
    build(thread, program, interpreter, path, &argv, &envp, regs)
}

/// Builds the program in the empty memory of the running thread, and sets its registers.
pub fn build(
    thread: &Thread,
    program: &Program,
    interpreter: Option<&Program>,
    path: &[u8],
    argv: &[&[u8]],
    envp: &[&[u8]],
    regs: &mut Regs,
) -> core::result::Result<(), Failed> {
    let p = &thread.process;
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let id = *p.identity.lock();
    let place = layout(&id);
    let bias = {
        let mut mm = p.mm.lock();
        (mm.mmap_base, mm.brk_start, mm.brk) = (place.mmap_base, 0, 0);
        let bias = program.plan.bias_above(place.pie_base).ok_or(memory(errno::ENOMEM))?;
        map_segments(&mut mm, program, bias).map_err(memory)?;
        let end = page_up(bias + program.plan.data_end());
        mm.brk_start = end + place.brk_gap;
        mm.brk = mm.brk_start;
        bias
    };
    clear_tails(program, bias).map_err(|_| Failed(errno::ENOEXEC, BROKEN))?;
    let mut entry = bias + program.plan.entry;
    let mut base = 0;
    if let Some(i) = interpreter {
        base = map_interpreter(p, i).map_err(memory)?;
        clear_tails(i, base).map_err(|_| Failed(errno::ENOEXEC, START_FAILED_INTERPRETER))?;
        entry = base + i.plan.entry;
    }
    let traps = p.identity.lock().time.differ();
    let vdso = vdso::map(&mut p.mm.lock(), traps);
    let auxv = auxv(&id, *thread.ids.lock(), program, bias, base, vdso);
    let mut random = [0; 16];
    random.copy_from_slice(&id.random[..16]);
    let stack = StackImage::build(
        place.stack_top,
        argv,
        envp,
        &auxv,
        path,
        random,
        id.stack_soft,
        place.stack_shift,
    )
    .map_err(memory)?;
    map_stack(&mut p.mm.lock(), place.stack_top, stack.sp, id.stack_soft, program.plan.exec_stack)
        .map_err(memory)?;
    usercopy::write(stack.sp, &stack.bytes).map_err(|_| memory(errno::ENOMEM))?;
    thread.reset_user_state();
    *p.observed.auxv.lock() = stack.bytes
        [(stack.auxv_start - stack.sp) as usize..(stack.auxv_end - stack.sp) as usize]
        .to_vec();
    *p.exe.lock() = program.file.name.as_bytes().to_vec();
    *regs = Regs {
        rip: entry,
        rsp: stack.sp,
        rflags: 0x202,
        cs: u64::from(gdt::USER_CS),
        ss: u64::from(gdt::USER_DS),
        orig_rax: hanare_hal::traps::NO_CALL,
        ..Regs::default()
    };
    // As Linux, which calls a program without a path of its own by its file's name.
    let path = if path.strip_prefix(b"/dev/fd/").is_some_and(|n| n.iter().all(u8::is_ascii_digit)) {
        program.file.name.as_bytes()
    } else {
        path
    };
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let mut comm = [0; COMM_SIZE];
    let length = name.len().min(COMM_SIZE - 1);
    comm[..length].copy_from_slice(&name[..length]);
    *thread.name.lock() = Some(comm);
    let mut told = name[..name.len().min(255)].to_vec();
    told.resize(WORDS_AT, 0);
    told.extend(
        words_for_linux(program, bias, p.mm.lock().brk_start, &stack)
            .iter()
            .flat_map(|w| w.to_le_bytes()),
    );
    let scratch = p.write_scratch(thread.slot_index, &told).map_err(memory)?;
    hold::at("exec-built");
    p.release_parent();
    let _ = delegate::call(
        OP_EXECED,
        [
            scratch,
            program.file.id,
            scratch + WORDS_AT as u64,
            is_hidden(program, interpreter).into(),
            0,
            0,
        ],
    );
    dispositions::execed();
    Ok(())
}

/// Where the words lie in the scratch page, behind the name.
const WORDS_AT: usize = 512;

/// What `/proc/PID/cmdline` and its like are made from.
fn words_for_linux(
    program: &Program,
    bias: u64,
    brk: u64,
    stack: &StackImage,
) -> [u64; EXECED_WORDS] {
    let span = |exec: bool| {
        let segments =
            || program.plan.segments.iter().filter(|s| s.prot.contains(Prot::EXEC) == exec);
        let start = segments().map(|s| bias + s.map_start()).min();
        let end = segments().map(|s| bias + s.map_end()).max();
        start.zip(end).unwrap_or((bias + program.plan.entry, bias + program.plan.entry + 1))
    };
    let (code, data) = (span(true), span(false));
    let (auxv, auxv_bytes) = (stack.auxv_start, stack.auxv_end - stack.auxv_start);
    [
        code.0,
        code.1,
        data.0,
        data.1,
        brk,
        brk,
        stack.sp,
        stack.arg_start,
        stack.arg_end,
        stack.env_start,
        stack.env_end,
        auxv,
        auxv_bytes,
    ]
}

/// The stack from `top` down to `least` and a little further; it grows as it is used.
fn map_stack(mm: &mut AddressSpace, top: u64, least: u64, limit: u64, exec: bool) -> Result<()> {
    let mut prot = Prot::READ | Prot::WRITE;
    prot.set(Prot::EXEC, exec);
    let lowest = page_up(top.saturating_sub(limit));
    let bottom = page_down((least - STACK_EXPAND).max(lowest).min(least));
    mm.vmas.insert(mm::anonymous(bottom, top, prot, VmaFlags::STACK | VmaFlags::GROWSDOWN))
}

fn map_segments(mm: &mut AddressSpace, program: &Program, bias: u64) -> Result<()> {
    for s in &program.plan.segments {
        let (start, middle, end) =
            (bias + s.map_start(), bias + s.file_map_end(), bias + s.map_end());
        drop(mm.vmas.remove(start, end));
        if middle > start {
            let backing =
                Backing::PrivateFile { file: program.file.clone(), offset: s.map_offset() };
            mm.vmas.insert(Vma {
                start,
                end: middle,
                prot: s.prot,
                max_prot: Prot::all(),
                flags: VmaFlags::empty(),
                backing,
            })?;
        }
        if end > middle {
            mm.vmas.insert(mm::anonymous(middle, end, s.prot, VmaFlags::empty()))?;
        }
    }
    Ok(())
}

/// Zeroes what follows the file's bytes in the last file page of each segment.
fn clear_tails(program: &Program, bias: u64) -> Result<()> {
    for s in &program.plan.segments {
        let (start, end) = s.clear_range();
        if s.prot.contains(Prot::WRITE) && end > start {
            usercopy::zero(bias + start, (end - start) as usize).map_err(|_| errno::EFAULT)?;
        }
    }
    Ok(())
}

fn map_interpreter(p: &Process, i: &Program) -> Result<u64> {
    let mut mm = p.mm.lock();
    let (min, max) = i.plan.span();
    let below = Search::TopDown(mm.mmap_base);
    let bias = if i.plan.is_pie {
        let at = mm.vmas.find_gap(max - min, i.plan.align, below).ok_or(errno::ENOMEM)?;
        at - min
    } else {
        0
    };
    map_segments(&mut mm, i, bias)?;
    Ok(bias)
}

fn auxv(
    id: &Identity,
    ids: Ids,
    program: &Program,
    bias: u64,
    base: u64,
    vdso: Option<u64>,
) -> Vec<(u64, u64)> {
    let mut v = Vec::new();
    // In the order of Linux.
    v.extend(vdso.map(|a| (at::SYSINFO_EHDR, a)));
    v.extend([
        (at::MINSIGSTKSZ, hanare_hal::fpu::size() as u64 + 1024),
        (at::HWCAP, id.hwcap),
        (at::PAGESZ, 4096),
        (at::CLKTCK, id.clktck),
        (at::PHDR, program.plan.phdr_vaddr.map_or(0, |a| bias + a)),
        (at::PHENT, 56),
        (at::PHNUM, u64::from(program.plan.phnum)),
        (at::BASE, base),
        (at::FLAGS, 0),
        (at::ENTRY, bias + program.plan.entry),
        (at::UID, u64::from(ids.uid)),
        (at::EUID, u64::from(ids.euid)),
        (at::GID, u64::from(ids.gid)),
        (at::EGID, u64::from(ids.egid)),
        (at::SECURE, u64::from(id.secure)),
        (at::RANDOM, 0), // StackImage knows
        (at::HWCAP2, id.hwcap2),
        (at::EXECFN, 0),
        (at::PLATFORM, 0),
    ]);
    v
}
