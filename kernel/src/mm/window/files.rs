//! The files behind private mappings: what a descriptor stands for.

use super::caller::Caller;
use crate::base::heap;
use crate::base::lists;
use crate::link::services::{self, Answer};
use crate::mm::pages::content::Content;
use crate::mm::pages::content::{FileHandle, FileRef};
use alloc::string::String;
use alloc::sync::Arc;
use hanare_abi::service::{FILE_NOEXEC, FILE_REGULAR, SERVICE_FILE_GET};
use hanare_core::errno::{self, Result};
use hanare_core::vma::Prot;

/// The backing of a private mapping of a descriptor.
pub enum Private {
    /// A file that is read; the mapping may gain these rights.
    Regular {
        /// The file.
        file: FileRef,
        /// The rights.
        max_prot: Prot,
    },
    /// A device or a file of huge pages, which Linux maps.
    Device,
}

/// Takes the file that descriptor `fd` of the caller stands for, to be mapped with `prot`.
pub fn private(p: &Caller<'_>, fd: u64, prot: Prot) -> Result<Private> {
    let fd = fd & 0xffff_ffff;
    let (file, bits) = match p.memory.last_mapped.get(p.slot, fd) {
        Some(known) => known,
        None => ask(p, fd)?,
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

fn ask(p: &Caller<'_>, fd: u64) -> Result<(FileRef, u64)> {
    let question = p.memory.last_mapped.begin();
    let answer = services::by_worker(p.thread, SERVICE_FILE_GET, &[fd], &[])?;
    let [_, inode, bytes, bits, device] = answer.args;
    let content = Content::of(device, inode, answer.held, bytes);
    let file = held(p, &answer, content)?;
    p.memory.last_mapped.end(question, (p.slot, fd), bits, &file);
    Ok((file, bits))
}

/// The file that the module holds since it gave this answer.
///
/// # Errors
/// `ENOMEM`: it does not hold the file any more.
pub fn held(p: &Caller<'_>, answer: &Answer, content: Option<Arc<Content>>) -> Result<FileRef> {
    let [_, inode, bytes, _, device] = answer.args;
    heap::room_for_arc::<FileHandle>()
        .inspect_err(|_| services::put_file(p.memory.id, answer.status))?;
    Ok(lists::arc_within(FileHandle {
        space: p.memory.id,
        id: answer.status,
        inode,
        device,
        bytes,
        name: String::new(),
        content,
    }))
}
