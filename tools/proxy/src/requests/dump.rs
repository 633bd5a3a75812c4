//! Core dumps: Linux writes them, of a proxy that looks like its program.

use hanare_abi::control::DumpKind;
use hanare_abi::ioctl::IOCTL_DUMP;
use hanare_abi::layout::{CONTROL_BASE, CONTROL_END, USER_MAX, USER_MIN};
use linux_raw_sys::errno::EINVAL;
use linux_raw_sys::general::{O_CLOEXEC, O_RDONLY, RLIMIT_CORE};

use crate::process::{Process, attach, signals};
use crate::sys::{self, Errno, signal};

/// `Control::Dump`: whether Linux would write one; from then on it is being prepared.
pub fn begin(process: &Process) -> bool {
    let wanted = sys::is_dumpable() && (has_room() || is_piped());
    wanted && sys::ioctl_plain(process.space.fd, IOCTL_DUMP).is_ok()
}

fn has_room() -> bool {
    sys::get_limit(RLIMIT_CORE).is_ok_and(|limit| limit.rlim_cur >= hanare_abi::PAGE_SIZE)
}

/// A program takes the dumps, whatever the limit (but 1). Not of a program with a filter, which
/// need not let its worker look.
fn is_piped() -> bool {
    if sys::is_filtered() {
        return false;
    }
    let mut pattern = [0; 1];
    let Ok(fd) = sys::open(c"/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC) else {
        return false;
    };
    let read = sys::read(fd, &mut pattern);
    sys::close(fd);
    read == Ok(1) && pattern == *b"|"
}

/// `Control::DumpRange`: makes `start..end` what the dump is to show there.
pub fn range(process: &Process, start: u64, end: u64, kind: DumpKind) -> sys::Result<()> {
    let user = USER_MIN..=USER_MAX;
    if start >= end || !user.contains(&start) || !user.contains(&end) {
        return Err(Errno(EINVAL));
    }
    match kind {
        DumpKind::Nothing => sys::unmap(start, end),
        DumpKind::Read | DumpKind::Write => {
            attach::map_for_dump(&process.space, start, end, kind == DumpKind::Write)
        }
        DumpKind::Linux => sys::leave_out_of_dump(start, end),
    }
}

/// `Control::DumpThread`: this worker is dumped as its thread. It does nothing else afterwards.
pub fn thread(process: &Process, at: u64, signal: u32) -> ! {
    signal::set_mask(!0);
    let signal = signals::valid(signal).ok();
    if let Some(signal) = signal {
        let _ = signal::set_action(signal, signal::Action::Default);
    }
    if (CONTROL_BASE..CONTROL_END - hanare_abi::PAGE_SIZE).contains(&at) {
        sys::arch::dump_thread(process.space.fd, at);
    }
    match signal {
        Some(signal) => signals::end_by(signal),
        None => loop {
            sys::sleep_ms(1000);
        },
    }
}
