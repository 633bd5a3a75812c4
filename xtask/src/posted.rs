//! `libhanare/src/calls.rs`: which calls a program may post, out of the LWK's table.

use std::collections::BTreeMap;
use std::fmt::Write;

use hanare_core::syscalls::arguments::Argument;
use hanare_core::syscalls::{By, Hook, Row, Service, rows};

/// Above the greatest number.
const NUMBERS: usize = 512;

/// Treatment of a call that is posted.
enum Posted {
    /// A worker makes the call.
    ByWorker,
    /// The thread that posts the call makes it at once.
    AtOnce(&'static str),
    /// The call is refused.
    Refused(&'static str),
}

const THREAD: &str = "it acts on the thread that makes it, or could: who posts it makes it at once";

fn posted(row: &Row) -> Posted {
    match (row.service, row.by) {
        (Service::Local, _) => Posted::Refused(why_local(row.name)),
        (Service::Refused(_, why), _) => Posted::Refused(why),
        (Service::Delegated(_), By::Any | By::Unmasked) => Posted::ByWorker,
        // About a descriptor, and nothing that is a thread's. (The working directory may be.)
        (Service::Delegated(Hook::None | Hook::Pins), By::Own)
            if matches!(row.arguments.first(), Some(Argument::Descriptor | Argument::Folder))
                && row.name != "fchdir" =>
        {
            Posted::ByWorker
        }
        (Service::Delegated(_), By::Own) => Posted::AtOnce(THREAD),
    }
}

/// Why a call that the LWK serves is not posted. A call that none of the lists names has the last
/// reason.
fn why_local(name: &str) -> &'static str {
    match name {
        "mmap"
        | "mprotect"
        | "munmap"
        | "brk"
        | "mremap"
        | "mincore"
        | "madvise"
        | "shmat"
        | "shmdt"
        | "mlock"
        | "munlock"
        | "mlockall"
        | "munlockall"
        | "remap_file_pages"
        | "mbind"
        | "move_pages"
        | "set_mempolicy_home_node"
        | "migrate_pages"
        | "set_mempolicy"
        | "get_mempolicy"
        | "mlock2"
        | "pkey_mprotect"
        | "io_setup"
        | "io_destroy"
        | "membarrier" => "memory is served by the kernel that the program runs on: call it",
        "clone" | "fork" | "vfork" | "execve" | "exit" | "exit_group" | "execveat" | "clone3"
        | "ptrace" | "set_tid_address" | "set_robust_list" | "get_robust_list" | "rseq"
        | "arch_prctl" | "prctl" | "seccomp" | "iopl" | "ioperm" => {
            "it acts on the thread or process that makes it: call it"
        }
        "rt_sigaction" | "rt_sigprocmask" | "rt_sigreturn" | "rt_sigpending" | "rt_sigsuspend"
        | "sigaltstack" | "restart_syscall" => {
            "signals are served by the kernel that the program runs on, for the thread that calls: call it"
        }
        "gettimeofday" | "time" | "clock_gettime" | "clock_getres" | "getcpu" | "getpid"
        | "gettid" | "getuid" | "getgid" | "geteuid" | "getegid" | "getrusage" | "times" => {
            "it is answered at once by the kernel that the program runs on: call it"
        }
        "sched_yield" | "sched_setaffinity" | "sched_getaffinity" | "nanosleep"
        | "clock_nanosleep" => {
            "time and CPUs are served by the kernel that the program runs on: call it"
        }
        "futex" | "futex_waitv" => {
            "threads wait for each other on the kernel that the program runs on: call it"
        }
        _ => "it is served by the kernel that the program runs on: call it",
    }
}

/// Text of the generated file.
pub fn file() -> String {
    let mut classes = [0_u8; NUMBERS];
    let mut reasons: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for row in rows() {
        let (class, why) = match posted(row) {
            Posted::ByWorker => (1, None),
            Posted::AtOnce(why) => (2, Some(why)),
            Posted::Refused(why) => (0, Some(why)),
        };
        classes[usize::from(row.number)] = class;
        if let Some(why) = why {
            reasons.entry(why).or_default().push(row.number);
        }
    }
    let mut known: Vec<u16> = rows().iter().map(|row| row.number).collect();
    known.sort_unstable();
    let mut file = String::from(HEAD);
    for line in classes.chunks(32) {
        let words: Vec<String> = line.iter().map(u8::to_string).collect();
        writeln!(file, "    {},", words.join(", ")).expect("a string grows");
    }
    file += "];\n\n/// Why a worker does not make a call; `None`: it does.\n#[must_use]\n#[rustfmt::skip]\n";
    file += "pub const fn why(nr: i32) -> Option<&'static CStr> {\n    match nr {\n";
    for (why, numbers) in reasons {
        let numbers: Vec<String> = ranges(&numbers).collect();
        let numbers = numbers.join(" | ");
        writeln!(file, "        {numbers} => Some(c{why:?}),").expect("a string grows");
    }
    let known: Vec<String> = ranges(&known).collect();
    writeln!(file, "        {} => None,", known.join(" | ")).expect("a string grows");
    file += "        _ => Some(c\"there is no such call\"),\n    }\n}\n";
    file
}

fn ranges(numbers: &[u16]) -> impl Iterator<Item = String> + '_ {
    numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}..={}", run[0], run[run.len() - 1]),
    })
}

const HEAD: &str = "//! Which calls a program may post.
// Generated by `cargo xtask syscalls` from kernel/core/src/syscalls/table.rs; do not edit.

use std::ffi::CStr;

/// Class of each call, by number.
pub type Classes = [u8; 512];

/// Class of a call that is refused.
pub const REFUSED: u8 = 0;
/// Class of a call that a worker makes.
pub const POSTED: u8 = 1;
/// Class of a call that the posting thread makes at once.
pub const AT_ONCE: u8 = 2;

/// Class of a call.
#[must_use]
#[inline(always)]
pub fn class(nr: u64) -> u8 {
    CLASSES.get(nr as usize).copied().unwrap_or(REFUSED)
}

/// No call.
pub static NONE: Classes = [REFUSED; 512];

/// Class of each call, by number.
#[rustfmt::skip]
pub static CLASSES: Classes = [
";
