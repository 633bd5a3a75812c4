//! A program's image in memory: its segments, its interpreter, its stack.

use crate::base::{heap, lists};
use crate::gate::{debugregs, park};
use crate::life::program::{BROKEN, Failed, Program, is_hidden};
use crate::link::{delegate, services};
use crate::mm::AddressSpace;
use crate::mm::map::address_space::Heap;
use crate::mm::map::vdso;
use crate::mm::window::address_parts;
use crate::mm::{self, change};
use crate::process::thread::Thread;
use crate::process::{Identity, Ids, Process};
use crate::sched::hold;
use crate::signal::dispositions;
use alloc::vec::Vec;
use hanare_abi::control::{Control, EXECED_WORDS, START_FAILED_INTERPRETER, START_FAILED_MEMORY};
use hanare_abi::layout::{USER_MAX, scratch};
use hanare_abi::service::SERVICE_EXEC_FILE;
use hanare_core::addr::{page_down, page_up};
use hanare_core::errno::{self, Result};
use hanare_core::limits::{COMM_SIZE, STACK_EXPAND};
use hanare_core::pagerange::PageRange;
use hanare_core::stack::{StackImage, at};
use hanare_core::vma::{Backing, Prot, Search, Vma, VmaFlags};
use hanare_hal::traps::Regs;
use hanare_hal::usercopy;
use hanare_hal::usercopy::UserAddr;
use zerocopy::IntoBytes;

/// Where position-independent programs go (Linux' ELF_ET_DYN_BASE).
const PIE_BASE: u64 = 0x5555_5555_4000;
/// Room is left for a stack of unlimited size as if it were this large.
const STACK_MAX: u64 = 1 << 40;
/// Least distance between stack top and mappings (Linux' MIN_GAP).
const STACK_GAP: u64 = 128 << 20;

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

/// Where an address of a program's file lies. One that is made for high addresses may be moved
/// down, and a file may name any address as its entry.
const fn moved(bias: u64, address: u64) -> u64 {
    bias.wrapping_add(address)
}

/// Where the parts of a program are.
struct Placed {
    /// Distance of the program's own file from the addresses that it names.
    bias: u64,
    /// Distance of its interpreter's file from these, or 0.
    base: u64,
    /// Address of the first instruction.
    entry: u64,
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
    let placed = map_files(p, program, interpreter, &place)?;
    let stack = build_stack(thread, program, &id, (&placed, &place), (path, argv, envp))?;
    thread.reset_user_state();
    debugregs::reset(thread);
    let auxv_at = (stack.auxv_start - stack.sp) as usize..(stack.auxv_end - stack.sp) as usize;
    *p.observed.auxv.lock() = heap::copied(&stack.bytes[auxv_at]).map_err(memory)?;
    *p.exe.lock() = heap::copied(program.file.name.as_bytes()).map_err(memory)?;
    *regs = Regs::of_user(placed.entry, stack.sp);
    park::begin(thread, regs);
    let name = file_name(program, path);
    let mut comm = [0; COMM_SIZE];
    let length = name.len().min(COMM_SIZE - 1);
    comm[..length].copy_from_slice(&name[..length]);
    *thread.name.lock() = Some(comm);
    let heap_start = p.memory().mm.lock().heap().start;
    let words = words_for_linux(program, placed.bias, heap_start, &stack);
    let (scratch, strings) = tell_linux(thread, name, words, &stack).map_err(memory)?;
    hold::at("exec-built");
    address_parts::reach_all(&thread.caller()).map_err(memory)?;
    p.release_parent();
    let _ = delegate::ask(
        thread,
        Control::Execed {
            name: scratch,
            file: program.file.id,
            memory_map: scratch + WORDS_AT as u64,
            strings,
            is_hidden: is_hidden(program, interpreter),
        },
    );
    dispositions::execed(thread);
    Ok(())
}

/// Maps the program's file and its interpreter's, and sets the heap behind the first.
fn map_files(
    p: &Process,
    program: &Program,
    interpreter: Option<&Program>,
    place: &Layout,
) -> core::result::Result<Placed, Failed> {
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let bias = {
        let mut mm = p.memory().mm.lock();
        mm.set_mmap_base(place.mmap_base);
        let bias = program.plan.bias_above(place.pie_base).ok_or(memory(errno::ENOMEM))?;
        map_segments(&mut mm, program, bias).map_err(memory)?;
        let end = page_up(moved(bias, program.plan.data_end()));
        let start = end + place.brk_gap;
        mm.set_heap(Heap { start, end: start });
        bias
    };
    clear_tails(program, bias).map_err(|_| Failed(errno::ENOEXEC, BROKEN))?;
    let Some(i) = interpreter else {
        return Ok(Placed { bias, base: 0, entry: moved(bias, program.plan.entry) });
    };
    let base = map_interpreter(p, i).map_err(memory)?;
    clear_tails(i, base).map_err(|_| Failed(errno::ENOEXEC, START_FAILED_INTERPRETER))?;
    Ok(Placed { bias, base, entry: moved(base, i.plan.entry) })
}

/// Builds the stack as the program finds it, and maps it. The strings: path,
/// arguments, environment.
fn build_stack(
    thread: &Thread,
    program: &Program,
    id: &Identity,
    (placed, place): (&Placed, &Layout),
    (path, argv, envp): (&[u8], &[&[u8]], &[&[u8]]),
) -> core::result::Result<StackImage, Failed> {
    let p = &thread.process;
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let traps = p.identity.lock().time.differ();
    let vdso = vdso::map(&mut p.memory().mm.lock(), traps);
    let open = match &program.interprets.open {
        None => None,
        Some(file) => {
            let answer = services::by_worker(thread, SERVICE_EXEC_FILE, &[file.id], &[]);
            Some(answer.map_err(|e| memory(e.into()))?.status)
        }
    };
    let bases = (placed.bias, placed.base);
    let auxv = auxv(id, *thread.ids.lock(), program, bases, vdso, open).map_err(memory)?;
    let mut random = [0; 16];
    random.copy_from_slice(&id.random[..16]);
    let stack = heap::fallible(|| {
        let &Layout { stack_top, stack_shift, .. } = place;
        StackImage::build(stack_top, argv, envp, &auxv, path, random, id.stack_soft, stack_shift)
    })
    .map_err(memory)?;
    map_stack(
        &mut p.memory().mm.lock(),
        place.stack_top,
        stack.sp,
        id.stack_soft,
        program.plan.exec_stack,
    )
    .map_err(memory)?;
    usercopy::write(UserAddr::of(stack.sp), &stack.bytes).map_err(|_| memory(errno::ENOMEM))?;
    Ok(stack)
}

/// The last part of a program's path. As Linux, which calls a program without a path of its own by
/// its file's name.
fn file_name<'a>(program: &'a Program, path: &'a [u8]) -> &'a [u8] {
    let is_descriptor =
        path.strip_prefix(b"/dev/fd/").is_some_and(|n| n.iter().all(u8::is_ascii_digit));
    let path = if is_descriptor { program.file.name.as_bytes() } else { path };
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Where the words lie in the scratch page, behind the name; the auxiliary vector and, if they fit,
/// the strings follow.
const WORDS_AT: usize = 256;
const AUXV_AT: usize = WORDS_AT + size_of::<[u64; EXECED_WORDS]>();
const SCRATCH_BYTES: usize = 4096;

/// Writes what `Control::Execed` tells into the scratch page: its address, and that of a copy of
/// the strings there, or 0. So the proxy need not fault the stack in.
fn tell_linux(
    thread: &Thread,
    name: &[u8],
    mut words: [u64; EXECED_WORDS],
    stack: &StackImage,
) -> Result<(u64, u64)> {
    const AUXV_WORD: usize = 11;
    let part = |start: u64, end: u64| {
        &stack.bytes[(start - stack.sp) as usize..][..(end - start) as usize]
    };
    let auxv = part(stack.auxv_start, stack.auxv_end);
    let strings = part(stack.arg_start, stack.env_end);
    let scratch = scratch(thread.port.slot_index);
    words[AUXV_WORD] = scratch + AUXV_AT as u64;
    let mut shown = [0; WORDS_AT];
    let length = name.len().min(WORDS_AT - 1);
    shown[..length].copy_from_slice(&name[..length]);
    let before = AUXV_AT + auxv.len();
    let fits = before + strings.len() <= SCRATCH_BYTES;
    let strings = if fits { strings } else { &[] };
    let told = lists::joined(&[&shown, words.as_bytes(), auxv, strings])?;
    thread.write_scratch(&told)?;
    Ok((scratch, if fits { scratch + before as u64 } else { 0 }))
}

/// Addresses that the proxy tells Linux, for `/proc/PID/cmdline` and its like: code, data, heap,
/// stack, arguments, environment, auxiliary vector.
fn words_for_linux(
    program: &Program,
    bias: u64,
    brk: u64,
    stack: &StackImage,
) -> [u64; EXECED_WORDS] {
    let span = |exec: bool| {
        let segments =
            || program.plan.segments.iter().filter(|s| s.prot.contains(Prot::EXEC) == exec);
        let start = segments().map(|s| moved(bias, s.map_start())).min();
        let end = segments().map(|s| moved(bias, s.map_end())).max();
        let entry = moved(bias, program.plan.entry);
        start.zip(end).unwrap_or((entry, entry.saturating_add(1)))
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
    mm.insert(mm::anonymous(
        PageRange::of(bottom, top),
        prot,
        VmaFlags::STACK | VmaFlags::GROWSDOWN,
    ))
}

fn map_segments(mm: &mut AddressSpace, program: &Program, bias: u64) -> Result<()> {
    for s in &program.plan.segments {
        let [start, middle, end] =
            [s.map_start(), s.file_map_end(), s.map_end()].map(|at| moved(bias, at));
        if !mm.mappings().may_map(s.prot) {
            return Err(errno::EACCES);
        }
        drop(mm.cursor(PageRange::of(start, end)).remove());
        if middle > start {
            let backing =
                Backing::PrivateFile { file: program.file.clone(), offset: s.map_offset() };
            let plain = mm::anonymous(
                PageRange::of(start, middle),
                s.prot,
                change::fork::unwritten(s.prot),
            );
            mm.insert(Vma { backing, ..plain })?;
        }
        if end > middle {
            mm.insert(mm::anonymous(PageRange::of(middle, end), s.prot, VmaFlags::empty()))?;
        }
    }
    Ok(())
}

/// Zeroes what follows the file's bytes in the last file page of each segment.
fn clear_tails(program: &Program, bias: u64) -> Result<()> {
    for s in &program.plan.segments {
        let (start, end) = s.clear_range();
        if s.prot.contains(Prot::WRITE) && end > start {
            usercopy::zero(UserAddr::of(moved(bias, start)), (end - start) as usize)
                .map_err(|_| errno::EFAULT)?;
        }
    }
    Ok(())
}

fn map_interpreter(p: &Process, i: &Program) -> Result<u64> {
    let mut mm = p.memory().mm.lock();
    let (min, max) = i.plan.span();
    let below = Search::TopDown(mm.mmap_base());
    let bias = if i.plan.is_pie {
        let at = mm.find_gap(max - min, i.plan.align, below).ok_or(errno::ENOMEM)?;
        at.wrapping_sub(min)
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
    (bias, base): (u64, u64),
    vdso: Option<u64>,
    open: Option<u64>,
) -> Result<Vec<(u64, u64)>> {
    // In the order of Linux.
    let vdso = vdso.map(|a| (at::SYSINFO_EHDR, a));
    let open = open.map(|descriptor| (at::EXECFD, descriptor));
    let all = vdso.into_iter().chain([
        (at::MINSIGSTKSZ, hanare_hal::fpu::size() as u64 + 1024),
        (at::HWCAP, id.hwcap),
        (at::PAGESZ, 4096),
        (at::CLKTCK, id.clktck),
        (at::PHDR, program.plan.phdr_vaddr.map_or(0, |a| moved(bias, a))),
        (at::PHENT, 56),
        (at::PHNUM, u64::from(program.plan.phnum)),
        (at::BASE, base),
        (at::FLAGS, if program.interprets.keeps_name { at::FLAGS_PRESERVE_ARGV0 } else { 0 }),
        (at::ENTRY, moved(bias, program.plan.entry)),
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
    lists::collected(all.chain(open))
}
