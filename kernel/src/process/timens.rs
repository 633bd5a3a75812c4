//! Time namespaces: a process in one has clocks that differ from the machine's. Linux
//! is asked by how much where that may have changed; the clocks stay local.

use crate::base::time;
use crate::link::delegate;
use crate::mm::map::vdso;
use crate::process::Process;
use crate::process::thread::Thread;
use hanare_core::errno::{self, Result};
use hanare_core::time::{Clock, namespace_offsets};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_close, __NR_openat, __NR_read, __NR_readlink};

const AT_FDCWD: u64 = -100i64 as u64;
const O_CLOEXEC: u64 = 0o2_000_000;
/// More than the name of a namespace, `time:[…]`, has.
const LINK_MAX: usize = 64;

/// Value of a clock as the process has it, ns.
pub fn now(p: &Process, clock: Clock) -> Option<u64> {
    time::now(clock).map(|ns| ns.saturating_add_signed(offset_ns(p, clock)))
}

/// Converts `ns` of a clock of the process to what the machine's clock shows then.
pub fn of_machine(p: &Process, clock: Clock, ns: u64) -> u64 {
    ns.saturating_add_signed(offset_ns(p, clock).saturating_neg())
}

fn offset_ns(p: &Process, clock: Clock) -> i64 {
    match clock {
        Clock::Monotonic | Clock::MonotonicRaw | Clock::MonotonicCoarse => {
            p.identity.lock().time.monotonic_ns
        }
        Clock::Boottime => p.identity.lock().time.boottime_ns,
        _ => 0,
    }
}

/// Whether an execve of `p` may move it to another namespace, which is for Linux to do.
pub fn may_change_by_exec(p: &Process) -> bool {
    p.identity.lock().time.children
}

/// The first words of a child with memory of its own, and of a program that Linux has begun: it
/// may be in the namespace that its creator, or the program before, had for its children.
pub fn begin(thread: &Thread) {
    let identity = &thread.process.identity;
    if identity.lock().time.children && refresh(thread) {
        identity.lock().time.children = false;
    }
}

/// Asks Linux for the offsets of the running thread's process, which may be in another namespace
/// than before. False: they are not known, or not those of its children to come.
pub fn refresh(thread: &Thread) -> bool {
    let p = &thread.process;
    // Without /proc nothing is known; then the clocks stay as they are.
    let Ok(Some((monotonic_ns, boottime_ns))) = ask(thread) else { return false };
    let differ = {
        let mut id = p.identity.lock();
        (id.time.monotonic_ns, id.time.boottime_ns) = (monotonic_ns, boottime_ns);
        id.time.differ()
    };
    vdso::set_traps(&mut p.memory().mm.lock(), differ);
    true
}

/// The offsets. Linux tells those of the children to come: `None` where these have another
/// namespace than the process itself.
fn ask(thread: &Thread) -> Result<Option<(i64, i64)>> {
    let (mut own, mut of_children) = ([0; LINK_MAX], [0; LINK_MAX]);
    read_link(thread, b"/proc/self/ns/time\0", &mut own)?;
    read_link(thread, b"/proc/self/ns/time_for_children\0", &mut of_children)?;
    if own != of_children {
        return Ok(None);
    }
    let p = &thread.process;
    let scratch = thread.write_scratch(b"/proc/self/timens_offsets\0")?;
    let fd = delegate::linux(thread, __NR_openat, [AT_FDCWD, scratch, O_CLOEXEC, 0, 0, 0])?;
    let read = delegate::linux(thread, __NR_read, [fd, scratch, SMALL / 2, 0, 0, 0]);
    let _ = delegate::linux(thread, __NR_close, [fd, 0, 0, 0, 0, 0]);
    let mut text = [0; SMALL as usize / 2];
    let text = text.get_mut(..read? as usize).ok_or(errno::EIO)?;
    p.memory().read_control(scratch, text);
    namespace_offsets(core::str::from_utf8(text).map_err(|_| errno::EIO)?)
        .ok_or(errno::EIO)
        .map(Some)
}

/// Where a link of /proc points to: the name of a namespace.
fn read_link(thread: &Thread, path: &[u8], name: &mut [u8; LINK_MAX]) -> Result<()> {
    let p = &thread.process;
    let scratch = thread.write_scratch(path)?;
    let length =
        delegate::linux(thread, __NR_readlink, [scratch, scratch, LINK_MAX as u64, 0, 0, 0])?;
    p.memory().read_control(scratch, name.get_mut(..length as usize).ok_or(errno::EIO)?);
    Ok(())
}
