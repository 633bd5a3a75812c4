//! Listener of seccomp that answers the proxy's ioctls in the module's place.

use std::os::fd::{AsRawFd, RawFd};
use std::{io, mem};

use hanare_abi::ioctl::*;
use hanare_abi::layout::PARTS_ALL;
use hanare_abi::{MAGIC, VERSION};

use super::memory::{copy_in, copy_out, read_string};
use super::{CHILD_SPACE, DEADLINE, Device, SPACE, State, WHOLE, check};

/// As the module does, but without what the signal tells: Linux takes that from a process itself
/// only.
fn send_signal(worker: u32, send: &Send) {
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let process = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))
        .unwrap()
        .trim()
        .parse::<i32>()
        .unwrap();
    match send.tid {
        // SAFETY: only a system call.
        0 => unsafe { libc::syscall(libc::SYS_kill, process, send.signal) },
        // SAFETY: only a system call.
        tid => unsafe { libc::syscall(libc::SYS_tgkill, process, tid, send.signal) },
    };
}

/// In the child: openat and ioctls of type `H` are answered by the listener.
pub fn install_filter() -> io::Result<RawFd> {
    let statement =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let filter = [
        statement(load, 0, 0, 0),
        statement(equal, libc::SYS_openat as u32, 5, 0),
        statement(equal, libc::SYS_ioctl as u32, 0, 5),
        statement(load, 24, 0, 0),
        statement(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 8, 0, 0),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xff, 0, 0),
        statement(equal, IOCTL_TYPE, 0, 1),
        statement(libc::BPF_RET, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: a filter as the kernel wants it.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        Ok(check(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program))?
            as RawFd)
    }
}

// linux/seccomp.h
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;
const NOTIF_ADDFD: libc::c_ulong = 0x4018_2103;
const CONTINUE: u32 = 1;
const ADDFD_SETFD: u32 = 1;
const ADDFD_SEND: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    nr: i32,
    arch: u32,
    ip: u64,
    args: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

impl Device {
    pub fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap();
        let (_state, timeout) =
            self.changed.wait_timeout_while(state, DEADLINE, |state| !condition(state)).unwrap();
        assert!(!timeout.timed_out(), "the proxy did not do what was expected");
    }

    /// Answers until the proxy is gone.
    pub fn serve(&self) {
        loop {
            let mut poll =
                libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            unsafe { libc::poll(&mut poll, 1, -1) };
            if poll.revents & libc::POLLHUP != 0 {
                return;
            }
            let mut notification = Notification::default();
            // SAFETY: the kernel fills in a zeroed notification.
            if unsafe { libc::ioctl(self.listener.as_raw_fd(), NOTIF_RECV, &mut notification) } != 0
            {
                continue;
            }
            match i64::from(notification.nr) {
                libc::SYS_openat => self.open(&notification),
                _ => self.ioctl(&notification),
            }
        }
    }

    /// Whether the caller was still waiting for the answer.
    fn respond(&self, id: u64, result: i64, flags: u32) -> bool {
        let (value, error) = if result < 0 { (0, result as i32) } else { (result, 0) };
        let response = Response { id, value, error, flags };
        // SAFETY: a response; one that comes too late (a signal) is refused.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), NOTIF_SEND, &response) == 0 }
    }

    fn open(&self, notification: &Notification) {
        let path = read_string(notification.pid, notification.args[1]);
        if path.as_bytes() != b"/dev/hanare" {
            self.respond(notification.id, 0, CONTINUE);
            return;
        }
        self.give_descriptor(notification.id, ADDFD_SEND, 0);
    }

    /// Gives the caller a descriptor of the memory, or makes `target` one.
    fn give_descriptor(&self, id: u64, flags: u32, target: u32) {
        let (source, target_flags) = (self.memory.as_raw_fd() as u32, libc::O_CLOEXEC as u32);
        let add = AddDescriptor { id, flags, source, target, target_flags };
        // SAFETY: as the kernel wants it.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), NOTIF_ADDFD, &add) };
    }

    fn ioctl(&self, notification: &Notification) {
        let (id, pid, address) = (notification.id, notification.pid, notification.args[2]);
        let mut state = self.state.lock().unwrap();
        let dead = |result: i64| if state.dead { -i64::from(libc::EIO) } else { result };
        let result = match notification.args[1] as u32 {
            IOCTL_INFO => {
                copy_out(pid, address, &Info { magic: MAGIC, version: VERSION, instances: 1 });
                0
            }
            IOCTL_ATTACH => {
                let mut attach: Attach = copy_in(pid, address);
                state.attached_to = attach.name.to_vec();
                attach.name[..4].copy_from_slice(b"fake");
                attach.space = SPACE as u32;
                attach.cpu_count = 2;
                copy_out(pid, address, &attach);
                0
            }
            IOCTL_START => {
                state.started = true;
                0
            }
            IOCTL_WAIT => {
                state.rings += u32::from(address >> WAIT_RING_SHIFT != 0);
                let rung = state.rung;
                if state.seen.insert(pid, rung).unwrap_or(0) == rung && !state.dead {
                    state.waiting.insert(pid, id);
                    self.changed.notify_all();
                    return;
                }
                if state.dead { -i64::from(libc::EIO) } else { 0 }
            }
            IOCTL_RING => {
                state.rings += 1;
                0
            }
            IOCTL_WORKER => {
                assert_ne!(address >> WORKER_SHIFT, 0, "a thread id");
                0
            }
            IOCTL_SERVE => {
                state.served.push(copy_in::<Serve>(pid, address).index);
                0
            }
            IOCTL_SIGNAL => {
                let result = dead(if state.refuses_signals { -i64::from(libc::EAGAIN) } else { 0 });
                let signal: Signal = copy_in(pid, address);
                assert_eq!(signal.info[0] as u32, signal.signal, "si_signo");
                state.signals.push_back((signal.signal, signal.slot));
                result
            }
            IOCTL_SEND => {
                let send: Send = copy_in(pid, address);
                state.sent.push(send);
                // One that nothing keeps back would end the wait for this answer.
                if send.signal == libc::SIGSTOP as u32 {
                    self.respond(id, 0, 0);
                }
                send_signal(pid, &send);
                if send.signal == libc::SIGSTOP as u32 {
                    return;
                }
                0
            }
            IOCTL_CHILD => match state.no_children {
                Some(errno) => -i64::from(errno),
                None => {
                    let mut child: hanare_abi::ioctl::Child = copy_in(pid, address);
                    child.space = (CHILD_SPACE + state.children.len() as u64) as u32;
                    child.parts = if child.token & WHOLE != 0 { PARTS_ALL } else { 0 };
                    self.give_descriptor(id, ADDFD_SETFD, notification.args[0] as u32);
                    state.children.push(child.token);
                    copy_out(pid, address, &child);
                    0
                }
            },
            IOCTL_FORWARD => {
                state.forwards = copy_in::<Forward>(pid, address).signals;
                0
            }
            IOCTL_USAGE => {
                let usage = Usage {
                    user_ns: 5_000_000,
                    system_ns: 0,
                    resident_bytes: 0,
                    peak_bytes: 1 << 20,
                };
                copy_out(pid, address, &usage);
                0
            }
            _ => -i64::from(libc::ENOTTY),
        };
        self.changed.notify_all();
        drop(state);
        self.respond(id, result, 0);
    }

    pub fn ring(&self) {
        let mut state = self.state.lock().unwrap();
        let result = if state.dead { -i64::from(libc::EIO) } else { 0 };
        state.rung += 1;
        for (tid, id) in mem::take(&mut state.waiting) {
            // A signal may have ended that sleep: then the next one ends at once.
            if self.respond(id, result, 0) {
                let rung = state.rung;
                state.seen.insert(tid, rung);
            }
        }
    }
}
