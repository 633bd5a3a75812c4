//! `Control::Exec`: the proxy calls execve itself, and Linux loads it once more in place of the
//! program (`module/space/program.c`). The new image finds in its environment what it goes on with.

use core::fmt::Write;
use core::sync::atomic::Ordering;

use hanare_abi::ioctl::NAME_SIZE;
use hanare_abi::service::STACK_LIMIT_OF_PROXY;
use linux_raw_sys::errno::{EIO, ESRCH, ETIMEDOUT};
use linux_raw_sys::general::{F_SETFD, RLIMIT_STACK, rlimit64};

use crate::base::argument::Argument;
use crate::base::clock::Clock;
use crate::base::message::{EXIT_HANARE, die, text};
use crate::process::stderr::Stderr;
use crate::process::{Process, attach};
use crate::sys::shared::Initial;
use crate::sys::{self, Errno, Execution, signal};

/// By its first variable, `HANARE_RESUME=`, an image knows that it goes on for another one. Behind
/// it are `TOKEN:FD:SPACE:PROGRAM:INTERPRETER:OPEN:SOFT:HARD:STATS:CALLS:SLEEPS:COPY:DEVICE:INODE`,
/// all decimal. PROGRAM to OPEN are ids of files, SOFT and HARD the limits of RLIMIT_STACK. STATS
/// says whether figures are told at the end, CALLS and SLEEPS are what they are so far. COPY to
/// INODE are the stderr that they are told on. The second variable is the name of the instance. The
/// arguments are the program's, for logs such as that of audit.
const OPTION: &[u8] = b"HANARE_RESUME=";
const INSTANCE: &[u8] = b"HANARE_INSTANCE=";
/// Fourteen numbers of at most twenty digits fit.
const OPTION_MAX: usize = 309;
/// State that the old image hands to the new one.
pub struct Resumption {
    token: u64,
    /// The descriptor that served the space that is left, and the id of that.
    fd: u32,
    left: u32,
    /// File ids of the program, of its ELF interpreter, and of what it gets open (AT_EXECFD).
    files: [u64; 3],
    /// RLIMIT_STACK of the program.
    stack: rlimit64,
    /// Whether figures are told at the end, and those of calls and sleeps.
    stats: bool,
    counted: [u64; 2],
    stderr: [u64; 3],
    instance: [u8; NAME_SIZE],
}

/// `Control::Exec`. Comes back with an error only.
pub fn exec(
    process: &Process,
    token: u64,
    [program, interpreter, open]: [u32; 3],
    how: &Execution,
) -> i64 {
    let (fd, left) = (process.space.fd, process.space.id.load(Ordering::Relaxed));
    let Ok(stack) = sys::get_limit(RLIMIT_STACK) else { return -i64::from(EIO) };
    let [copy, device, inode] = Stderr::numbers(process.stderr.as_ref());
    let mut option = Argument::<OPTION_MAX>::new();
    let prefix = core::str::from_utf8(OPTION).unwrap_or_default();
    let (soft, hard) = (stack.rlim_cur, stack.rlim_max);
    let (stats, [calls, sleeps]) = (u8::from(process.is_reporting()), process.counted());
    let _ = write!(
        option,
        "{prefix}{token}:{fd}:{left}:{program}:{interpreter}:{open}:{soft}:{hard}:{stats}:{calls}:{sleeps}:{copy}:{device}:{inode}"
    );
    let mut instance = Argument::<OPTION_MAX>::new();
    let _ = write!(
        instance,
        "{}{}",
        core::str::from_utf8(INSTANCE).unwrap_or_default(),
        text(&process.space.instance)
    );
    // No thread could be told of a signal; the new image opens the mask again.
    let mask = signal::set_mask(!0);
    let own = own_limit(&stack);
    if let Some(own) = own {
        let _ = sys::set_limit(RLIMIT_STACK, &own);
    }
    let _ = sys::fcntl(fd, F_SETFD, 0);
    let error = sys::exec(how, [&option, &instance].map(|one| text(one.bytes()).0));
    // The descriptor stays as it is: another process with the same table may be about to exec.
    if let Some(own) = own {
        attach::put_back(RLIMIT_STACK, stack, own);
    }
    signal::set_mask(mask);
    -i64::from(error.0)
}

/// The limit of the stack with which an image of the proxy is loaded; `None`: the program's.
fn own_limit(of_program: &rlimit64) -> Option<rlimit64> {
    let (soft, hard) = (of_program.rlim_cur, of_program.rlim_max);
    (soft > STACK_LIMIT_OF_PROXY)
        .then_some(rlimit64 { rlim_cur: STACK_LIMIT_OF_PROXY, rlim_max: hard })
}

/// The arguments of this image, if it was loaded by [`exec`].
pub fn resumption(initial: &Initial) -> Option<Resumption> {
    if initial.envc != 2 {
        return None;
    }
    let numbers = initial.environment(0).to_bytes().strip_prefix(OPTION)?;
    let mut numbers =
        core::str::from_utf8(numbers).ok()?.split(':').map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let (token, fd, left) = (next()?, u32::try_from(next()?).ok()?, u32::try_from(next()?).ok()?);
    let files = [next()?, next()?, next()?];
    let stack = rlimit64 { rlim_cur: next()?, rlim_max: next()? };
    let (stats, counted) = (next()? != 0, [next()?, next()?]);
    let stderr = [next()?, next()?, next()?];
    let mut instance = [0; NAME_SIZE];
    let name = initial.environment(1).to_bytes().strip_prefix(INSTANCE)?;
    instance[..NAME_SIZE - 1].get_mut(..name.len())?.copy_from_slice(name);
    Some(Resumption { token, fd, left, files, stack, stats, counted, stderr, instance })
}

/// Takes the program's new space: the process is to go on with it. All signals are blocked.
pub fn resume(from: &Resumption, initial: &Initial, clock: Clock) -> Process {
    // Linux tells a tracer of execve by it, and a tracer hears of execve from the LWK.
    signal::discard_pending(signal::bit(linux_raw_sys::general::SIGTRAP));
    if let Some(own) = own_limit(&from.stack) {
        attach::put_back(RLIMIT_STACK, from.stack, own);
    }
    let secure = initial.auxiliary(linux_raw_sys::auxvec::AT_SECURE) != 0;
    let space = attach::program(from.fd, from.left, from.instance, from.token, from.files, secure);
    let space = space.unwrap_or_else(|error| give_up(error, &from.instance));
    Process::new(space, clock, from.stats, Stderr::resumed(from.stderr))
        .having_counted(from.counted)
}

fn give_up(error: Errno, instance: &[u8]) -> ! {
    let name = text(instance);
    match error.0 {
        EIO => die(
            EXIT_HANARE,
            format_args!("the LWK '{name}' stopped working; see: hanare log {name}"),
        ),
        ESRCH => die(EXIT_HANARE, format_args!("exec: the process ended before its program began")),
        ETIMEDOUT => {
            die(EXIT_HANARE, format_args!("exec: the LWK does not answer; see: hanare status"))
        }
        _ => die(EXIT_HANARE, format_args!("exec: the program cannot be started: {error}")),
    }
}
