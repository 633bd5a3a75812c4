//! Pooled proxies, from both sides: the command of a native task starts them (`Control::Member`),
//! and each gets ready.

use core::ffi::CStr;
use core::fmt::{self, Write};

use hanare_abi::layout::MESSAGES_PART;
use hanare_core::syscalls::arguments;
use hanare_core::syscalls::arguments::Argument::Descriptor;
use hanare_ikc::{Answer, SlotRef};
use linux_raw_sys::errno::{EAGAIN, EBADF, EINTR};
use linux_raw_sys::general::{
    __NR_close_range, AT_EMPTY_PATH, F_DUPFD_CLOEXEC, F_SETFD, clone_args,
};

use crate::base::argument::Argument;
use crate::base::message::{EXIT_HANARE, die};
use crate::base::options::Options;
use crate::process::attach::{self, Pool, Space};
use crate::sys::arch::delegated_call;
use crate::sys::pooled::{self, Inherited};
use crate::sys::shared::Once;
use crate::sys::{self, Errno, Execution, signal};

/// State that this pooled proxy was started with.
static INHERITED: Once<Inherited> = Once::new();

/// An option with a number.
fn option(text: fmt::Arguments) -> Argument<32> {
    let mut argument = Argument::new();
    let _ = argument.write_fmt(text); // ten digits and a word fit
    argument
}

/// Starts one more proxy for the pool of this native task, and waits until it is ready. Its process
/// id.
///
/// # Errors
/// `EAGAIN`: it has ended instead, and has said why. Others: Linux could not start it.
pub fn start(space: &Space) -> sys::Result<u32> {
    let pool = space.pool.ok_or(Errno(linux_raw_sys::errno::EBADF))?;
    pooled::reap(u32::MAX, false); // one that has ended, if there is any
    let (ready, to_tell) = pooled::pipe()?;
    let mask = signal::set_mask(!0);
    let made = sys::fork(&PLAIN);
    if made == Ok(0) {
        become_member(&pool, to_tell);
    }
    signal::set_mask(mask);
    sys::close(to_tell);
    let came = made.is_ok() && is_told(ready);
    sys::close(ready);
    let pid = made?;
    if came {
        return Ok(pid);
    }
    pooled::reap(pid, true);
    Err(Errno(EAGAIN))
}

/// A child like this process; its end is not told.
const PLAIN: clone_args = clone_args {
    flags: 0,
    exit_signal: 0,
    pidfd: 0,
    set_tid: 0,
    set_tid_size: 0,
    cgroup: 0,
    child_tid: 0,
    parent_tid: 0,
    stack: 0,
    stack_size: 0,
    tls: 0,
};

/// Waits for a word of the new proxy, or for its end.
fn is_told(ready: u32) -> bool {
    loop {
        match sys::read(ready, &mut [0]) {
            Err(Errno(EINTR)) => {}
            result => return result == Ok(1),
        }
    }
}

/// In the child of a fork: loads this program anew, as a pooled proxy.
fn become_member(pool: &Pool, to_tell: u32) -> ! {
    let _ = sys::fcntl(to_tell, F_SETFD, 0);
    let program = pool.program;
    let pool = option(format_args!("--pool-fd={}", pool.fd));
    let ready = option(format_args!("--ready={to_tell}"));
    let arguments: [u64; 5] = [
        c"hanare-pooled".as_ptr() as u64,
        c"--member".as_ptr() as u64,
        pool.bytes().as_ptr() as u64,
        ready.bytes().as_ptr() as u64,
        0,
    ];
    let how = Execution {
        directory: program.into(),
        path: c"".as_ptr() as u64,
        arguments: arguments.as_ptr() as u64,
        flags: AT_EMPTY_PATH.into(),
    };
    const NOTHING: &CStr = c"HANARE=pooled";
    let error = sys::exec(&how, [NOTHING, NOTHING]);
    die(EXIT_HANARE, format_args!("cannot start a pooled proxy: {error}"))
}

/// Attaches as a pooled proxy; the one that started it may go on.
pub fn enter(options: &Options) -> Space {
    sys::set_name(c"hanare-pooled");
    let space = attach::attach(options);
    let inherited = attach::map_part(&space, MESSAGES_PART)
        .and_then(|()| pooled::make_buffer())
        .and_then(|()| Inherited::keep(|fd| attach::copy_high(fd, F_DUPFD_CLOEXEC)))
        .unwrap_or_else(|error| cannot_get_ready(error));
    let ready = options.ready.unwrap_or(u32::MAX);
    if let Err(error) = sys::write(ready, b"!") {
        cannot_get_ready(error);
    }
    // Descriptors of the pool and of the waiting parent are closed among all others.
    INHERITED.set(inherited).close_others(space.fd);
    space
}

fn cannot_get_ready(error: Errno) -> ! {
    die(EXIT_HANARE, format_args!("a pooled proxy cannot get ready: {error}"))
}

/// Makes a task's call, which does not get at the proxy's own descriptors: for the task they are
/// not open.
pub fn execute(space: &Space, number: u32, args: &[u64; 6]) -> Answer {
    let Some(inherited) = INHERITED.get() else { return Answer::Done(-i64::from(EBADF)) };
    if number == __NR_close_range && args[0] as u32 <= args[1] as u32 {
        let closed = inherited.close_range(args[0] as u32, args[1] as u32, args[2], space.fd);
        return Answer::Done(sys::code(closed.map(drop)));
    }
    let is_own = |fd: u64| inherited.is_own(fd as u32, space.fd);
    let mut all = arguments(number.into()).iter().zip(args);
    if all.any(|(kind, &value)| *kind == Descriptor && is_own(value)) {
        return Answer::Done(-i64::from(EBADF));
    }
    delegated_call(number, args)
}

/// The task has given this proxy back: it forgets what was opened. One that cannot ends.
pub fn clean(space: &Space) {
    let restored = INHERITED.get().map(|inherited| inherited.restore(space.fd));
    if !matches!(restored, Some(Ok(()))) {
        sys::exit(EXIT_HANARE);
    }
}

/// There was nothing to do for as long as the pool allows: ends, unless a task has just taken this
/// proxy.
pub fn had_nothing(space: &Space, slot: SlotRef) {
    if slot.worker_poll().is_none() && space.window.member().leave() {
        sys::exit(0);
    }
}
