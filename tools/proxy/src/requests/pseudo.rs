//! Files of procfs and sysfs: what the application opens there shows the LWK's
//! machine (`docs/pseudo-files.md`). The module knows which they are.

use core::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::control::EXECED_WORDS;
use hanare_abi::ioctl::{
    Execed, IOCTL_EXECED, IOCTL_LISTED, IOCTL_OPENED, Listed, OPENED_NOTHING, OPENED_OURS, Opened,
};
use hanare_ikc::Answer;
use linux_raw_sys::errno::{EINVAL, EMFILE, ENODEV, ENOENT, ESRCH};
use linux_raw_sys::general::*;

use crate::process::Process;
use crate::sys::arch::delegated_call;
use crate::sys::{self, Errno, MemoryMap};

/// Calls of which [`after`] makes something.
pub const CALLS: [u32; 6] = hanare_core::syscalls::SHOWN;

/// The answer to call `nr`, which Linux has answered so.
pub fn after(process: &Process, nr: u32, args: &[u64; 6], answer: Answer) -> Answer {
    let Answer::Done(result) = answer else { return answer };
    if result >= 0 && [__NR_open, __NR_openat, __NR_openat2, __NR_creat].contains(&nr) {
        Answer::Done(opened(process, result))
    } else if result > 0 && [__NR_getdents, __NR_getdents64].contains(&nr) {
        listed(process, nr, args, result)
    } else {
        answer
    }
}

/// A descriptor was opened: the one that the application gets. Where ours cannot
/// be had, Linux' file is better than none.
fn opened(process: &Process, fd: i64) -> i64 {
    let mut question = Opened { fd: fd as i32, replace: 0, close_on_exec: 0, shows: 0 };
    let asked = sys::ioctl(process.space.fd, IOCTL_OPENED, &mut question);
    match question.shows {
        OPENED_OURS if asked.is_ok() => {}
        OPENED_NOTHING => {
            sys::close(fd as u32);
            return -i64::from(ENODEV);
        }
        _ => return fd,
    }
    let flags = sys::fcntl(fd as u32, F_GETFD, 0).unwrap_or(0);
    question.close_on_exec = u32::from(flags & u64::from(FD_CLOEXEC) != 0);
    question.replace = 1;
    match sys::ioctl(process.space.fd, IOCTL_OPENED, &mut question) {
        Ok(()) => i64::from(question.fd),
        // Closed already: the limit is lower by now, or the LWK's machine has no such file, or not
        // of that thread.
        Err(Errno(e @ (EMFILE | ENOENT | ESRCH | EINVAL))) => -i64::from(e),
        Err(_) => fd,
    }
}

/// Directory entries were read: without those that are Linux' business. Where none
/// is left of a piece, the next piece is read: none at all would mean the end.
fn listed(process: &Process, nr: u32, args: &[u64; 6], mut bytes: i64) -> Answer {
    while bytes > 0 {
        let mut entries = Listed {
            fd: args[0] as i32,
            old: u32::from(nr == __NR_getdents),
            buffer: args[1],
            bytes: bytes as u64,
        };
        match sys::ioctl(process.space.fd, IOCTL_LISTED, &mut entries) {
            Ok(()) if entries.bytes == 0 => match delegated_call(nr, args) {
                Answer::Done(more) => bytes = more,
                Answer::NotStarted => return Answer::NotStarted,
            },
            Ok(()) => return Answer::Done(entries.bytes as i64),
            Err(_) => break,
        }
    }
    Answer::Done(bytes)
}

/// Where the last program's arguments and environment were copied to.
static COPY: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// execve has succeeded: tells Linux what `/proc/PID/exe`, `cmdline`, `environ` and
/// `auxv` are to show, to everybody. Linux may refuse; then they show the proxy. What is
/// close-on-exec is closed. `at` and `strings`: where they lie in the control window.
pub fn execed(process: &Process, file: u64, at: u64, strings: u64) {
    const ARG_START: usize = 7;
    let mut words: [u64; EXECED_WORDS] = process.space.window.read_words(at);
    let [arg_start, arg_end, env_start, env_end] = core::array::from_fn(|i| words[ARG_START + i]);
    let mut told = Execed { file, arg_start, arg_end, env_start, env_end };
    // Linux shows others only what lies in memory of its own (FOLL_ANON): a copy.
    let (start, end) = (arg_start.min(env_start), arg_end.max(env_end));
    let from = if strings == 0 { start } else { strings };
    if let Ok(copy) = sys::copy_of(process.space.fd, from, end.saturating_sub(start)) {
        for word in &mut words[ARG_START..ARG_START + 4] {
            *word = *word - start + copy;
        }
        if sys::set_memory_map(&MemoryMap::new(&words)).is_ok() {
            let old =
                (COPY.0.swap(copy, Ordering::Relaxed), COPY.1.swap(end - start, Ordering::Relaxed));
            sys::forget_copy(old.0, old.1);
        } else {
            sys::forget_copy(copy, end - start);
        }
    }
    let _ = sys::ioctl(process.space.fd, IOCTL_EXECED, &mut told);
}
