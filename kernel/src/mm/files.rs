//! The files behind private mappings: what a descriptor stands for.

use super::content::Content;
use super::{FileHandle, FileRef};
use crate::base::heap;
use crate::link::services;
use crate::process::thread;
use crate::process::thread::Thread;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::service::{FILE_NOEXEC, FILE_REGULAR, SERVICE_FILE_GET};
use hanare_abi::slot::OP_SERVE;
use hanare_core::errno::{self, Result};
use hanare_core::vma::Prot;
use spin::Mutex;

/// What a private mapping of a descriptor is.
pub enum Private {
    /// Of a file that is read; the mapping may gain these rights.
    Regular {
        /// The file.
        file: FileRef,
        /// The rights.
        max_prot: Prot,
    },
    /// Of something that is mapped by Linux: a device, a file of huge pages.
    Device,
}

/// The file that a space's processes mapped last: a library is mapped in several pieces,
/// one call behind the other. Good for the same thread, which may have descriptors of its
/// own, until any of them asks Linux for anything, which may give the descriptor another
/// meaning.
#[derive(Default)]
pub struct LastMapped {
    /// [`NOTHING`], [`NEVER`], or the number of the question whose answer still holds.
    holds: AtomicU64,
    answer: Mutex<Answer>,
}

#[derive(Default)]
struct Answer {
    question: u64,
    slot: u32,
    fd: u64,
    bits: u64,
    file: Weak<FileHandle>,
}

const NOTHING: u64 = 0;
/// Linux' own threads act for the process (`io_uring`), unseen by us.
const NEVER: u64 = 1;

impl LastMapped {
    /// The process asks its worker for `nr`; said before and after.
    pub fn asked(&self, nr: u32) {
        const IO_URING_SETUP: u32 = 425;
        let holds = self.holds.load(Ordering::Relaxed);
        if nr == IO_URING_SETUP {
            self.holds.store(NEVER, Ordering::Relaxed);
        } else if holds > NEVER && nr != OP_SERVE {
            let _ =
                self.holds.compare_exchange(holds, NOTHING, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn get(&self, slot: u32, fd: u64) -> Option<(FileRef, u64)> {
        let answer = self.answer.lock();
        let holds =
            self.holds.load(Ordering::Relaxed) == answer.question && answer.question > NEVER;
        if holds && (answer.slot, answer.fd) == (slot, fd) {
            Some((answer.file.upgrade()?, answer.bits))
        } else {
            None
        }
    }

    /// A question is about to be asked: its number.
    fn begin(&self) -> u64 {
        static NUMBER: AtomicU64 = AtomicU64::new(NEVER + 1);
        let question = NUMBER.fetch_add(1, Ordering::Relaxed);
        let change = |holds| (holds != NEVER).then_some(question);
        let _ = self.holds.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change);
        question
    }

    fn end(&self, question: u64, (slot, fd): (u32, u64), bits: u64, file: &FileRef) {
        *self.answer.lock() = Answer { question, slot, fd, bits, file: Arc::downgrade(file) };
    }
}

/// What descriptor `fd` of the running process stands for, to be mapped with `prot`.
pub fn private(fd: u64, prot: Prot) -> Result<Private> {
    let thread = thread::current();
    let fd = fd & 0xffff_ffff;
    let (file, bits) = match thread.process.last_mapped.get(thread.slot_index, fd) {
        Some(known) => known,
        None => ask(thread, fd)?,
    };
    let max_prot = if bits & FILE_NOEXEC == 0 { Prot::all() } else { Prot::READ | Prot::WRITE };
    if !max_prot.contains(prot) {
        return Err(errno::EPERM);
    }
    if prot.contains(Prot::EXEC) {
        file.set_runs();
    }
    Ok(if bits & FILE_REGULAR == 0 { Private::Device } else { Private::Regular { file, max_prot } })
}

fn ask(thread: &Thread, fd: u64) -> Result<(FileRef, u64)> {
    let p = &thread.process;
    let question = p.last_mapped.begin();
    let answer = services::by_worker(SERVICE_FILE_GET, &[fd], &[])?;
    let [_, inode, bytes, bits, device] = answer.args;
    let content = Content::of(device, inode, answer.held, bytes);
    heap::room_for_arc::<FileHandle>()
        .inspect_err(|_| services::put_file(p.space, p.home, answer.status))?;
    let file = Arc::new(FileHandle {
        space: p.space,
        home: p.home,
        id: answer.status,
        inode,
        device,
        name: String::new(),
        content,
    });
    p.last_mapped.end(question, (thread.slot_index, fd), bits, &file);
    Ok((file, bits))
}
