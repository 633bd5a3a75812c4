//! The program that the application process runs: its name, and why it could not be
//! started.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use hanare_abi::control::{
    RANDOM_BYTES, RIGHTS_CHANGED, RIGHTS_SECURE, START_FAILED_FORMAT, START_FAILED_INTERPRETER,
    START_FAILED_MEMORY,
};
use hanare_abi::ioctl::{IOCTL_RIGHTS, IOCTL_SUCCEED, Rights, Succeed};
use linux_raw_sys::errno::{EACCES, ENOENT, ENOEXEC};
use linux_raw_sys::general::{O_CLOEXEC, O_DIRECTORY, O_RDONLY};

use crate::base::message::{EXIT_CANNOT_RUN, EXIT_NOT_FOUND, Text, die, text};
use crate::process::{Process, signals};
use crate::sys::shared::Once;
use crate::sys::worker::Worker;
use crate::sys::{self, Errno, code};

/// Longest path kept, with its zero.
const PATH_SIZE: usize = 4096;

static PATH: Once<[u8; PATH_SIZE]> = Once::new();

/// The program that is about to be started: names the process, and keeps the
/// path for messages.
pub fn set_path(path: &CStr) {
    let mut bytes = [0; PATH_SIZE];
    let length = path.count_bytes().min(PATH_SIZE - 1);
    bytes[..length].copy_from_slice(&path.to_bytes()[..length]);
    PATH.set(bytes);
    sys::set_name(base_name(path));
}

fn base_name(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    CStr::from_bytes_with_nul(&bytes[start..]).unwrap_or(path)
}

/// `Control::Execed`: what Linux does at execve, and the LWK cannot.
pub fn execed(process: &Process, name: u64) {
    let mut buffer = [0; 256];
    let length = process.space.window.read_string(name, &mut buffer[..255]);
    buffer[length] = 0;
    if let Ok(name) = CStr::from_bytes_until_nul(&buffer) {
        sys::set_name(base_name(name));
    }
    signals::reset_caught();
}

/// The last of `Control::Execed`: a program that its user may read, the user may look into, unless
/// it gains something. Not before the old one, which may not have been, has left the memory, and
/// its files are closed. `hidden`: the user may not read it.
pub fn show(worker: &Worker, hidden: bool) {
    let ((uid, euid), (gid, egid)) = (sys::user_ids(), sys::group_ids());
    sys::set_dumpable(
        uid == euid && gid == egid && !hidden && !worker.gained.load(Ordering::Relaxed),
    );
}

/// `Control::Rights`: `random` is where random bytes go, or 0; `keeps` as of [`Rights`].
pub fn rights(process: &Process, worker: &Worker, random: u64, keeps: u32) -> i64 {
    if random != 0 {
        // Not as a delegated call, which a signal keeps from being made.
        let mut bytes = [0; RANDOM_BYTES];
        if let Err(error) = sys::random(&mut bytes) {
            return -i64::from(error.0);
        }
        process.space.window.write_scratch(random, &bytes);
    }
    // With less rights it must not be open to more users who look into the old program: see `show`.
    let before = sys::is_dumpable();
    sys::set_dumpable(false);
    let mut rights = Rights { changed: 0, secure: 0, gained: 0, keeps };
    match sys::ioctl(process.space.fd, IOCTL_RIGHTS, &mut rights) {
        Ok(()) => {
            worker.gained.store(rights.gained != 0, Ordering::Relaxed);
            let flag = |is, flag| if is != 0 { flag } else { 0 };
            flag(rights.changed, RIGHTS_CHANGED) | flag(rights.secure, RIGHTS_SECURE)
        }
        Err(error) => {
            sys::set_dumpable(before); // the old program goes on
            -i64::from(error.0)
        }
    }
}

/// `Control::Succeed`. Whether the process may be dumped has been settled by `Control::Execed`.
pub fn succeed(process: &Process, tid: u32) -> i64 {
    let dumpable = sys::is_dumpable();
    sys::schedule_as(tid);
    let result =
        code(sys::ioctl(process.space.fd, IOCTL_SUCCEED, &mut Succeed { tid, reserved: 0 }));
    sys::set_dumpable(dumpable);
    result
}

/// `Control::StartFailed`: says why as a shell would, and exits.
pub fn start_failed(errno: u32, kind: u64) -> ! {
    let path = PATH.get().map_or(c"program", |bytes| text(bytes).0);
    let error = Errno(errno);
    let status = if error.0 == ENOENT && kind != START_FAILED_INTERPRETER {
        EXIT_NOT_FOUND
    } else {
        EXIT_CANNOT_RUN
    };
    let name = Text(path);
    match kind {
        START_FAILED_INTERPRETER if error.0 == ENOENT => die(
            EXIT_NOT_FOUND,
            format_args!(
                "{name}: its interpreter is missing: {error} (see: head -c 80 {name}; ldd {name})"
            ),
        ),
        START_FAILED_INTERPRETER => die(status, format_args!("{name}: bad interpreter: {error}")),
        START_FAILED_MEMORY => die(
            status,
            format_args!(
                "{name}: {error}: the LWK has too little free memory for it (see: hanare top --once)"
            ),
        ),
        START_FAILED_FORMAT => {
            die(status, format_args!("{name}: {}{}", Errno(ENOEXEC), format_cause(path)))
        }
        _ => match error.0 {
            ENOEXEC => die(status, format_args!("{name}: {error}{}", format_cause(path))),
            EACCES => die(status, format_args!("{name}: {error}{}", access_cause(path))),
            _ => die(status, format_args!("{name}: {error}")),
        },
    }
}

fn access_cause(path: &CStr) -> &'static str {
    match sys::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) {
        Ok(_) => ": it is a directory",
        Err(_) => " (is it executable? see: ls -l)",
    }
}

/// Reason why a file is no program for this machine.
fn format_cause(path: &CStr) -> &'static str {
    const ELF_CLASS_64: u8 = 2;
    const EM_X86_64: u16 = 62;
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    let mut header = [0; 64];
    let Ok(fd) = sys::open(path, O_RDONLY | O_CLOEXEC) else {
        return "";
    };
    let Ok(length) = sys::read(fd, &mut header) else {
        return "";
    };
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if length == 0 {
        ": the file is empty"
    } else if header.starts_with(b"#!") {
        ": bad #! line"
    } else if !header.starts_with(b"\x7fELF") {
        ": neither an ELF program nor a script with a #! line"
    } else if length < header.len() {
        ": the file is cut short"
    } else if header[4] != ELF_CLASS_64 || half(18) != EM_X86_64 {
        ": not an x86-64 program"
    } else if half(16) != ET_EXEC && half(16) != ET_DYN {
        ": an object file, not a linked program"
    } else {
        ": damaged or cut short"
    }
}
