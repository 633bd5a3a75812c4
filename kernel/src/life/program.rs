//! A program's file: opened, read and checked through the worker, before anything of the old
//! program is touched.

use crate::base::frames;
use crate::base::heap;
use crate::base::lists;
use crate::base::pages::Pages;
use crate::life::binfmt::{self, Taker};
use crate::life::target::{AT_FDCWD, Target, write_path};
use crate::link::services;
use crate::mm::pages::content::{self, Content};
use crate::mm::window::space::Space;
use crate::mm::{FileHandle, FileRef};
use crate::process::thread::Thread;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::control::{
    START_FAILED_FILE, START_FAILED_FORMAT, START_FAILED_INTERPRETER, START_FAILED_MEMORY,
};
use hanare_abi::service::{FILE_BINFMT, FILE_UNREADABLE, SERVICE_FILL, SERVICE_PROGRAM_GET};
use hanare_core::elf::{ElfHeader, ElfPlan};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_core::limits::{ARG_MAX_TOTAL, MAX_INTERPRETERS, PATH_MAX};
use hanare_core::script::Script;

/// An open program file.
pub struct Program {
    pub file: FileRef,
    pub head: Vec<u8>,
    /// The program's user may not read its file, or that which it gets open.
    pub hidden: bool,
    pub plan: ElfPlan,
    pub interprets: Interprets,
}

/// State of a program that binfmt_misc has interpret another file.
#[derive(Default)]
pub struct Interprets {
    /// The arguments have the other file's own first one, too (AT_FLAGS).
    pub keeps_name: bool,
    /// The interpreted file, which the program gets open (AT_EXECFD).
    pub open: Option<FileRef>,
    /// The user may not read the file that the program gets open.
    hidden: bool,
}

impl Program {
    /// The id by which the module knows the program's file.
    pub fn file_id(&self) -> u64 {
        self.file.id
    }

    /// The module moves the file to the space `to`.
    pub fn move_to(&mut self, to: &Space) {
        for file in core::iter::once(&mut self.file).chain(&mut self.interprets.open) {
            if let Some(file) = Arc::get_mut(file) {
                file.space = to.id;
            }
        }
    }
}

/// Why a program does not start; the kind is for the proxy's message.
pub struct Failed(pub Errno, pub u64);

/// `Failed` kind of an error behind the point of no return, where the file's
/// content does not hold what its headers say. A new process says so; execve(2)
/// ends by SIGSEGV, as on Linux.
pub const BROKEN: u64 = u64::MAX - 1;
/// `Failed` kind of memory, or a descriptor table, that others share: it is left, not replaced.
pub const SHARED: u64 = u64::MAX;

pub type Strings = Vec<Vec<u8>>;

/// A copy of strings. `ENOMEM`.
fn copied_all<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Result<Strings> {
    let mut all = Vec::new();
    for string in strings {
        lists::push(&mut all, heap::copied(string)?)?;
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
    // The exact number of free pages has a line of each CPU: it is read only where it may matter.
    let wanted = (bytes * 4 + count * EACH) * 2;
    if wanted > frames::usage_without_stocks().0 && wanted > frames::usage().0 {
        return Err(errno::ENOMEM);
    }
    Ok(())
}

/// References to all strings. `ENOMEM`.
pub fn slices(strings: &[Vec<u8>]) -> Result<Vec<&[u8]>> {
    lists::collected(strings.iter().map(Vec::as_slice))
}

/// A file that may be executed, before it is known to be a program.
pub struct Opened {
    pub file: FileRef,
    pub head: Vec<u8>,
    pub hidden: bool,
    /// Entries of binfmt_misc may take the file.
    pub has_binfmt: bool,
}

/// Opens a program, following entries of binfmt_misc and `#!` lines; `argv` is rewritten as Linux
/// does.
pub fn open_program(
    thread: &Thread,
    target: &Target,
    argv: &mut Strings,
) -> core::result::Result<Program, Failed> {
    let memory = |e| Failed(e, START_FAILED_MEMORY);
    let mut name = heap::copied(&target.name).map_err(memory)?;
    let (mut interprets, mut is_fixed) = (Interprets::default(), false);
    for depth in 0..=MAX_INTERPRETERS {
        let kind = if depth == 0 { START_FAILED_FILE } else { START_FAILED_INTERPRETER };
        let opened = match depth {
            0 => open(thread, target.dir, &target.open, target.flags),
            _ => open(thread, AT_FDCWD, &name, 0),
        };
        // Linux has it open; by its path it is not to be found here.
        let opened = opened.map_err(|e| Failed(if is_fixed { errno::ENOEXEC } else { e }, kind))?;
        let taker =
            if opened.has_binfmt { binfmt::taker(thread, &name, &opened.head) } else { Ok(None) };
        let taker = taker.map_err(|e| Failed(e, kind))?;
        let script = match &taker {
            None => Script::parse(&opened.head).map_err(|e| Failed(e, START_FAILED_FORMAT))?,
            Some(_) => None,
        };
        is_fixed = taker.as_ref().is_some_and(|taker| taker.is_fixed);
        let next = match (taker, script) {
            (None, None) => {
                let program =
                    parse(thread, opened).map_err(|e| Failed(e.errno(), START_FAILED_FORMAT))?;
                let hidden = program.hidden || interprets.hidden;
                return Ok(Program { hidden, interprets, ..program });
            }
            _ if target.closes => return Err(Failed(errno::ENOENT, kind)),
            // What is to be open for an interpreter is for that one alone.
            _ if interprets.open.is_some() => return Err(Failed(errno::ENOEXEC, kind)),
            (Some(taker), _) => {
                interpreted(argv, &taker, &name).map_err(memory)?;
                interprets.keeps_name |= taker.keeps_name;
                if taker.opens {
                    interprets.open = Some(opened.file);
                    interprets.hidden = opened.hidden;
                } else {
                    services::put_together(|| drop(opened));
                }
                taker.interpreter
            }
            (None, Some(script)) => {
                let next = rewrite(argv, &script, &name).map_err(memory)?;
                services::put_together(|| drop(opened));
                next
            }
        };
        name = next;
    }
    Err(Failed(errno::ELOOP, START_FAILED_INTERPRETER))
}

/// Arguments of the interpreter of a `#!` line in place of the script's first one; the
/// interpreter's name.
fn rewrite(argv: &mut Strings, script: &Script<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let new = [Some(script.interpreter), script.argument, Some(name)];
    replace_first(argv, 1, new.into_iter().flatten())?;
    heap::copied(script.interpreter)
}

/// Arguments of an interpreter of binfmt_misc in place of the program's first one, or before it.
fn interpreted(argv: &mut Strings, taker: &Taker, name: &[u8]) -> Result<()> {
    if argv.is_empty() {
        lists::push(argv, Vec::new())?; // Linux gives every program one
    }
    let count = usize::from(!taker.keeps_name);
    replace_first(argv, count, [&taker.interpreter[..], name].into_iter())
}

/// Strings in place of the first `count` of `argv`.
fn replace_first<'a>(
    argv: &mut Strings,
    count: usize,
    new: impl Iterator<Item = &'a [u8]>,
) -> Result<()> {
    let new = copied_all(new)?;
    heap::more_room(argv, new.len())?;
    argv.splice(..argv.len().min(count), new);
    Ok(())
}

pub fn open(thread: &Thread, dir: u64, path: &[u8], flags: u64) -> Result<Opened> {
    if path.len() >= PATH_MAX {
        return Err(errno::ENAMETOOLONG);
    }
    content::give_back_if_short();
    let scratch = write_path(thread, path)?;
    let pages = Pages::new(1, answers_of(thread))?;
    let answer = services::by_worker(
        thread,
        SERVICE_PROGRAM_GET,
        &[dir, scratch, flags],
        &[pages.extent()],
    )?;
    // From here on its reference in the module goes with it.
    let mut file = FileHandle {
        space: thread.process.memory().id,
        id: answer.status,
        inode: answer.args[1],
        device: answer.args[4],
        bytes: answer.args[2],
        content: Content::of(answer.args[4], answer.args[1], answer.held, answer.args[2]),
        name: String::new(),
    };
    let name = pages.bytes(4096, (answer.args[0] >> 32) as usize)?;
    let name = String::from_utf8(name).ok().filter(|name| !name.is_empty());
    file.name = name.map_or_else(|| lists::text_of(path), Ok)?;
    file.set_runs();
    Ok(Opened {
        file: heap::arc(file)?,
        head: pages.bytes(0, answer.args[0] as u32 as usize)?,
        hidden: answer.args[3] & FILE_UNREADABLE != 0,
        has_binfmt: answer.args[3] & FILE_BINFMT != 0,
    })
}

/// Owner of the frames into which Linux answers a thread.
fn answers_of(thread: &Thread) -> FrameOwner {
    thread.process.memory().account.owner(Subject::Answers)
}

/// Up to one page of a file.
fn read_at(thread: &Thread, file: &FileHandle, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let page = Pages::new(0, answers_of(thread))?;
    let bytes = bytes.min(4096) as u64;
    let answer = services::by_worker(
        thread,
        SERVICE_FILL,
        &[file.id, offset, bytes, bytes],
        &[page.extent()],
    )?;
    page.bytes(0, answer.status as usize)
}

pub fn parse(
    thread: &Thread,
    opened: Opened,
) -> core::result::Result<Program, hanare_core::elf::ElfError> {
    use hanare_core::elf::ElfError;
    let header = ElfHeader::parse(&opened.head)?;
    let end = header.phoff.saturating_add(header.phdr_bytes() as u64);
    let plan = if end <= opened.head.len() as u64 {
        heap::fallible(|| ElfPlan::new(&header, &opened.head[header.phoff as usize..]))?
    } else {
        let mut phdrs = Vec::new();
        while phdrs.len() < header.phdr_bytes() {
            let part = read_at(
                thread,
                &opened.file,
                header.phoff + phdrs.len() as u64,
                header.phdr_bytes() - phdrs.len(),
            )
            .map_err(|_| ElfError::BadProgramHeaders)?;
            if part.is_empty() {
                return Err(ElfError::BadProgramHeaders);
            }
            phdrs = lists::joined(&[&phdrs, &part]).map_err(|_| ElfError::NoMemory)?;
        }
        heap::fallible(|| ElfPlan::new(&header, &phdrs))?
    };
    let interprets = Interprets::default();
    Ok(Program { file: opened.file, head: opened.head, hidden: opened.hidden, plan, interprets })
}

/// Reads a part of a program's file, which is nearly always in its first page. `EIO`: the file ends
/// before the part does.
pub fn read_file(thread: &Thread, program: &Program, offset: u64, len: usize) -> Result<Vec<u8>> {
    let offset = i64::try_from(offset).map_err(|_| errno::EINVAL)? as u64;
    let end = (offset as usize).saturating_add(len);
    if let Some(inside) = program.head.get(offset as usize..end) {
        return heap::copied(inside);
    }
    let part = read_at(thread, &program.file, offset, len)?;
    if part.len() < len { Err(errno::EIO) } else { Ok(part) }
}

/// Whether the user may not read all of the program.
pub fn is_hidden(program: &Program, interpreter: Option<&Program>) -> bool {
    program.hidden || interpreter.is_some_and(|i| i.hidden)
}
