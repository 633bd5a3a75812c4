//! The command line, as `hanare run` writes it:
//!
//! `hanare-proxy [--instance=NAME] [--cpus=LIST] [--stack=SOFT:HARD] [--stats]
//! [--arguments=copied|mapped] [--dispatch=direct|box|auto] [--hold=FD] [--native --pool-fd=FD
//! [--members=N] [--keep]] -- PATH ARGV0 ARG…`
//!
//! or, of a pooled proxy, as the one of a native task writes it: `hanare-pooled --member
//! --pool-fd=FD --ready=FD`
//!
//! `LIST` is like `0,2-5` (Linux' numbers), the limits are bytes, decimal
//! (`u64::MAX`: unlimited).

use core::ffi::CStr;

use hanare_abi::cpus::LinuxCpuSet;
use hanare_abi::ioctl::NAME_SIZE;
use hanare_abi::pooled::{ATTACH_MEMBER, ATTACH_NATIVE, ATTACH_PROGRAM};
use hanare_abi::start::{START_AUTO, START_BOX, START_DIRECT};
use hanare_core::cpulist;

use crate::sys::shared::Initial;

/// Options of the command line.
pub struct Options {
    /// Instance, zero-terminated; empty: the only one.
    pub instance: [u8; NAME_SIZE],
    /// CPUs it may run on; empty: every CPU of the instance.
    pub cpus: LinuxCpuSet,
    /// The caller's RLIMIT_STACK, soft and hard, if the launcher changed it.
    pub stack: Option<(u64, u64)>,
    /// A socket: wait there for a word before the program starts (tracers, debuggers).
    pub hold: Option<u32>,
    /// Whether arguments of calls are copied; `None`: as is usual in the instance.
    pub copies: Option<bool>,
    /// Print a line of counters at the end.
    pub stats: bool,
    /// Flag of the start block that says whether workers or servers execute calls; 0: as the
    /// instance says.
    pub dispatch: u64,
    /// `ATTACH_*`.
    pub kind: u32,
    /// Descriptor of the pool of proxies, of a native task or a pooled proxy.
    pub pool: Option<u32>,
    /// The native task keeps a pooled proxy from the beginning.
    pub keeps: bool,
    /// Number of pooled proxies to start before the program.
    pub members: u32,
    /// Descriptor on which to tell that this pooled proxy is ready.
    pub ready: Option<u32>,
    /// The program to run.
    pub path: &'static CStr,
    /// Index of the program's first argument in those of the proxy.
    pub first_argument: usize,
}

/// Reads the command line; the error is a sentence.
pub fn parse(initial: &Initial) -> Result<Options, &'static str> {
    let mut options = Options {
        instance: [0; NAME_SIZE],
        cpus: LinuxCpuSet::EMPTY,
        stack: None,
        hold: None,
        copies: None,
        stats: false,
        dispatch: 0,
        kind: ATTACH_PROGRAM,
        pool: None,
        keeps: false,
        members: 0,
        ready: None,
        path: c"",
        first_argument: 0,
    };
    let mut index = 1;
    while index < initial.argc {
        let argument = initial.argument(index).to_bytes();
        index += 1;
        if argument == b"--" {
            break;
        }
        apply(&mut options, argument)?;
    }
    if options.kind == ATTACH_MEMBER {
        return Ok(options);
    }
    if index + 1 >= initial.argc {
        return Err("no program given; this program is started by: hanare run PROGRAM ARGUMENT...");
    }
    options.path = initial.argument(index);
    options.first_argument = index + 1;
    Ok(options)
}

fn apply(options: &mut Options, argument: &[u8]) -> Result<(), &'static str> {
    if argument == b"--stats" {
        options.stats = true;
    } else if argument == b"--arguments=copied" {
        options.copies = Some(true);
    } else if argument == b"--arguments=mapped" {
        options.copies = Some(false);
    } else if argument == b"--dispatch=box" {
        options.dispatch = START_BOX;
    } else if argument == b"--dispatch=auto" {
        options.dispatch = START_AUTO;
    } else if argument == b"--dispatch=direct" {
        options.dispatch = START_DIRECT;
    } else if argument == b"--native" {
        options.kind = ATTACH_NATIVE;
    } else if argument == b"--keep" {
        options.keeps = true;
    } else if argument == b"--member" {
        options.kind = ATTACH_MEMBER;
    } else if let Some(fd) = argument.strip_prefix(b"--pool-fd=") {
        let fd = number(fd).and_then(|fd| fd.try_into().ok());
        options.pool = Some(fd.ok_or("bad --pool-fd; expected a descriptor")?);
    } else if let Some(fd) = argument.strip_prefix(b"--ready=") {
        let fd = number(fd).and_then(|fd| fd.try_into().ok());
        options.ready = Some(fd.ok_or("bad --ready; expected a descriptor")?);
    } else if let Some(count) = argument.strip_prefix(b"--members=") {
        let count = number(count).and_then(|count| count.try_into().ok());
        options.members = count.ok_or("bad --members; expected a number")?;
    } else if let Some(fd) = argument.strip_prefix(b"--hold=") {
        let fd = number(fd).and_then(|fd| fd.try_into().ok());
        options.hold = Some(fd.ok_or("bad --hold; expected a descriptor")?);
    } else if let Some(name) = argument.strip_prefix(b"--instance=") {
        let room = options.instance[..NAME_SIZE - 1].get_mut(..name.len());
        room.ok_or("the instance name is too long (at most 31 bytes)")?.copy_from_slice(name);
    } else if let Some(list) = argument.strip_prefix(b"--cpus=") {
        let list = core::str::from_utf8(list).ok().and_then(|list| cpulist::parse(list).ok());
        options.cpus = list.ok_or("bad --cpus; expected a list like 2,4-6")?;
    } else if let Some(limits) = argument.strip_prefix(b"--stack=") {
        options.stack = Some(pair(limits, b':').ok_or("bad --stack; expected SOFT:HARD in bytes")?);
    } else {
        return Err("unknown option; this program is started by: hanare run PROGRAM ARGUMENT...");
    }
    Ok(())
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn pair(text: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((number(&text[..at])?, number(&text[at + 1..])?))
}
