//! execve(2), execveat(2): path and strings are read.

use crate::base::user::{self, UserAddr};
use crate::base::{heap, lists};
use crate::calls::context::{Context, Family, Served};
use crate::gate::ptrace;
use crate::life::target::{self, Target};
use crate::life::{exec, program};
use alloc::vec::Vec;
use hanare_core::errno::{self, Result};
use hanare_core::limits::{MAX_ARG_STRLEN, PATH_MAX};
use hanare_hal::usercopy;
use linux_raw_sys::general::{__NR_execve, __NR_execveat};

/// The handlers of this file.
pub const CALLS: Family = &[
    (__NR_execve, |call| {
        let [path, argv, envp, ..] = call.args;
        execve(call, None, path, argv, envp)
    }),
    (__NR_execveat, |call| {
        let [dir, path, argv, envp, flags, _] = call.args;
        execve(call, Some((dir, flags)), path, argv, envp)
    }),
];

/// execve, or execveat with `at`: directory and flags.
fn execve(
    call: &mut Context<'_>,
    at: Option<(u64, u64)>,
    path: u64,
    argv: u64,
    envp: u64,
) -> Served {
    let (me, regs) = (call.thread, &mut *call.regs);
    let result = (|| {
        let mut buffer = heap::zeroed(PATH_MAX)?;
        let path = string(path, &mut buffer, errno::ENAMETOOLONG)?;
        if path.is_empty() && at.is_none_or(|(_, flags)| flags & target::AT_EMPTY_PATH == 0) {
            return Err(errno::ENOENT);
        }
        let (argv, envp) = (strings(argv)?, strings(envp)?);
        let target = match at {
            None => Target::path(path)?,
            Some((dir, flags)) => Target::at(call.thread, dir, path, flags)?,
        };
        exec::execve(me, &target, argv, envp, regs)
    })();
    if let Err(e) = result {
        return Served::Answered(Err(e));
    }
    exec::take_first_slot(me, regs);
    ptrace::on_exec(me, regs);
    Served::Replaced
}

fn string(addr: u64, buffer: &mut [u8], too_long: errno::Errno) -> Result<Vec<u8>> {
    match usercopy::read_string(UserAddr::of(addr), buffer) {
        Ok(Some(s)) => heap::copied(s),
        Ok(None) => Err(too_long),
        Err(_) => Err(errno::EFAULT),
    }
}

/// Room for most strings.
const SHORT_STRLEN: usize = 4096;

/// A zero-terminated array of strings; a null array is an empty one.
fn strings(mut addr: u64) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    // Most are short.
    let mut buffer = heap::zeroed(SHORT_STRLEN)?;
    while addr != 0 {
        let pointer = user::get::<u64>(UserAddr::of(addr))?;
        if pointer == 0 {
            break;
        }
        let string = match string(pointer, &mut buffer, errno::E2BIG) {
            Err(errno::E2BIG) if buffer.len() < MAX_ARG_STRLEN => {
                buffer = heap::zeroed(MAX_ARG_STRLEN)?;
                string(pointer, &mut buffer, errno::E2BIG)
            }
            read => read,
        }?;
        bytes += string.len() as u64 + 1;
        program::check_strings(bytes, all.len() as u64 + 1)?;
        lists::push(&mut all, string)?;
        addr += 8;
    }
    Ok(all)
}
