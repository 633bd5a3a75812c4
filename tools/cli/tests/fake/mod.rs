//! A stand-in for `/dev/hanare` and for the LWK, without a module or a VM.
//!
//! The program under test runs with a seccomp filter whose listener is here:
//! `openat("/dev/hanare")` gives it a memory file, and ioctls of type `H` are
//! answered by a thread of ours. The test plays the LWK: it writes requests into
//! the slot, which is the same memory as the proxy's.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hanare_abi::control::{Control, Mirror};
use hanare_abi::ioctl::*;
use hanare_abi::layout::{SLOT_BASE, SPACE_SHIFT, START_BASE, START_SIZE, scratch};
use hanare_abi::slot::*;
use hanare_abi::start::StartBlock;
use hanare_abi::wake::{WAIT_ASLEEP, WAIT_AWAKE};

mod device;
mod memory;
use device::install_filter;

/// The space that the proxy is given.
const SPACE: u64 = 1;
/// The space that the first child of a fork is given; the next one has one more.
pub const CHILD_SPACE: u64 = 2;
pub const WHOLE: u64 = 1 << 63; // in the token of a fork: everything is mapped at once
/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(200);

/// State of the device: what it has seen, and how it is to answer.
#[derive(Default)]
struct State {
    started: bool,
    dead: bool,
    /// Workers that sleep: thread id, notification.
    waiting: HashMap<u32, u64>,
    /// How often a worker was rung, and how much of that each worker has seen. Here a ring wakes
    /// all workers, which the protocol allows.
    rung: u64,
    seen: HashMap<u32, u64>,
    rings: u32,
    served: Vec<u32>,
    /// Number and slot.
    signals: VecDeque<(u32, u32)>,
    /// Signals that the proxy had sent to itself (`IOCTL_SEND`).
    sent: Vec<Send>,
    /// Tokens of forks, in order; the n-th child is space CHILD_SPACE + n.
    children: Vec<u64>,
    /// Error of `IOCTL_CHILD`; `None`: it succeeds.
    no_children: Option<i32>,
    refuses_signals: bool,
    /// Signals that the proxy wants to take.
    forwards: u64,
    attached_to: Vec<u8>,
}

struct Device {
    listener: OwnedFd,
    memory: File,
    state: Mutex<State>,
    changed: Condvar,
}

/// A proxy under test, and the LWK's side of its space.
pub struct Lwk {
    /// The process.
    pub child: Child,
    device: Arc<Device>,
    /// The slot that calls go to, and the control windows of its space and others.
    space: u64,
    slot: u32,
    control: *mut u8,
    controls: HashMap<u64, *mut u8>,
    memory: File,
    polled: u32,
}

/// First address of the control window that is mapped here: the scratch page of this slot.
const MAPPED_FROM: u64 = scratch(63);
/// Bytes of the control window that are mapped here.
const MAPPED: usize = (START_BASE + START_SIZE - MAPPED_FROM) as usize;

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn map(memory: &File, space: u64, address: u64, size: usize) -> *mut u8 {
    let (protection, offset) =
        (libc::PROT_READ | libc::PROT_WRITE, (space << SPACE_SHIFT | address) as i64);
    // SAFETY: a new mapping where the kernel likes it.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            protection,
            libc::MAP_SHARED,
            memory.as_raw_fd(),
            offset,
        )
    };
    assert!(at != libc::MAP_FAILED, "{}", io::Error::last_os_error());
    at.cast()
}

fn memory_file() -> File {
    // SAFETY: a new descriptor that only we have.
    let memory =
        unsafe { File::from_raw_fd(libc::memfd_create(c"hanare".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.set_len(1 << 62).unwrap();
    memory
}

impl Lwk {
    /// Starts `command` and waits until it called `IOCTL_START`.
    pub fn start(command: Command) -> Self {
        let mut lwk = Self::start_only(command);
        lwk.device.wait_until(|state| state.started);
        lwk.forward();
        lwk
    }

    /// Does what the module does at `IOCTL_FORWARD`, which no other process can: by the proxy's own
    /// means.
    fn forward(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap() & !(1 << (libc::SIGBUS - 1));
        let signals = self.device.state.lock().unwrap().forwards & !ignored;
        for signal in (1..=64).filter(|signal| signals & 1 << (signal - 1) != 0) {
            let mirror = Mirror::Forward;
            self.op(Control::SignalAction { signal, mirror, flags: 0, ignored: 0 });
        }
    }

    /// Starts `command`, which may fail before `IOCTL_START`.
    pub fn start_only(mut command: Command) -> Self {
        let memory = memory_file();
        let (control, copy) =
            (map(&memory, SPACE, MAPPED_FROM, MAPPED), memory.try_clone().unwrap());
        let (told, tell) = pipe();
        let (acknowledged, acknowledge) = pipe();
        // spawn() returns when the child has called exec, which waits for us.
        let getter = thread::spawn(move || {
            let [pid, fd] = read_words(told.as_raw_fd());
            let listener = take_descriptor(pid, fd);
            write_words(acknowledge.as_raw_fd(), &[1]);
            listener
        });
        let (tell_fd, acknowledged_fd) = (tell.as_raw_fd(), acknowledged.as_raw_fd());
        // SAFETY: only system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                let fd = install_filter()?;
                write_words(tell_fd, &[libc::getpid() as u32, fd as u32]);
                let [_] = read_words(acknowledged_fd);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let listener = getter.join().unwrap();
        let device =
            Arc::new(Device { listener, memory, state: Mutex::default(), changed: Condvar::new() });
        let server = device.clone();
        thread::spawn(move || server.serve());
        let controls = HashMap::from([(SPACE, control)]);
        Self { child, device, space: SPACE, slot: 0, control, controls, memory: copy, polled: 0 }
    }

    /// From now on everything goes to `slot` of the process first started.
    pub fn slot(&mut self, slot: u32) -> &mut Self {
        self.slot_of(SPACE, slot)
    }

    /// From now on everything goes to `slot` of `space`.
    pub fn slot_of(&mut self, space: u64, slot: u32) -> &mut Self {
        let control = self
            .controls
            .entry(space)
            .or_insert_with(|| map(&self.memory, space, MAPPED_FROM, MAPPED));
        (self.control, self.space, self.slot) = (*control, space, slot);
        self
    }

    /// Where `offset` of the slot is in what is mapped.
    fn slot_at(&self, offset: usize) -> usize {
        (SLOT_BASE - MAPPED_FROM) as usize + self.slot as usize * size_of::<Slot>() + offset
    }

    /// The word at `offset` of the slot.
    fn word(&self, offset: usize) -> &AtomicU32 {
        let at = self.slot_at(offset);
        // SAFETY: mapped for good, aligned, shared as atomics.
        unsafe { &*self.control.add(at).cast() }
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        let at = self.slot_at(offset);
        // SAFETY: as above.
        unsafe { &*self.control.add(at).cast() }
    }

    /// Makes the slot as for a new thread.
    pub fn reset(&self) {
        self.word(offset_of!(Slot, worker_wait)).store(0, Ordering::Relaxed);
        self.word(offset_of!(Slot, state)).store(SLOT_IDLE, Ordering::Release);
    }

    /// Thread id that the worker wrote.
    pub fn tid(&self) -> u32 {
        self.word(offset_of!(Slot, tid)).load(Ordering::Relaxed)
    }

    /// Sets how long the worker polls.
    pub fn set_poll_us(&self, us: u32) {
        self.word(offset_of!(Slot, poll_us)).store(us, Ordering::Relaxed);
    }

    /// Sets the mask for the next calls.
    pub fn set_sigmask(&self, mask: u64) {
        self.long(offset_of!(Slot, sigmask)).store(mask, Ordering::Relaxed);
    }

    /// Says that this side sleeps, so that the worker rings.
    pub fn set_asleep(&self, asleep: bool) {
        let value = if asleep { WAIT_ASLEEP } else { WAIT_AWAKE };
        self.word(offset_of!(Slot, lwk_wait)).store(value, Ordering::Relaxed);
    }

    /// Posts a delegated call.
    pub fn post(&self, nr: u32, args: &[u64]) {
        let mut words = [0; 6];
        words[..args.len()].copy_from_slice(args);
        self.publish(SLOT_REQUESTED, nr, words);
    }

    /// Posts a control request.
    pub fn ask(&self, request: Control) {
        let (number, words) = request.encode();
        self.publish(SLOT_CONTROL, number, words);
    }

    /// Posts what lies in a slot as words.
    pub fn publish(&self, state: u32, nr: u32, words: [u64; 6]) {
        self.word(offset_of!(Slot, nr)).store(nr, Ordering::Relaxed);
        for (index, word) in words.into_iter().enumerate() {
            self.long(offset_of!(Slot, args) + 8 * index).store(word, Ordering::Relaxed);
        }
        self.word(offset_of!(Slot, state)).store(state, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.word(offset_of!(Slot, worker_wait)).load(Ordering::Relaxed) == WAIT_ASLEEP {
            self.device.ring();
        }
    }

    /// Waits for the answer to what was posted. `None`: it was not started.
    pub fn outcome(&mut self) -> Option<i64> {
        let end = Instant::now() + DEADLINE;
        let state = loop {
            let state = self.word(offset_of!(Slot, state)).load(Ordering::Acquire);
            if state & SLOT_ANSWERED != 0 {
                break state;
            }
            assert!(Instant::now() < end, "the worker does not answer");
            self.polled += 1;
            thread::yield_now();
        };
        self.word(offset_of!(Slot, state)).store(SLOT_IDLE, Ordering::Relaxed);
        let result = self.long(offset_of!(Slot, result)).load(Ordering::Relaxed) as i64;
        (state == SLOT_DONE).then_some(result)
    }

    /// Waits for the result of a call that is certainly started.
    pub fn answer(&mut self) -> i64 {
        self.outcome().expect("it is started")
    }

    /// A delegated call.
    pub fn call(&mut self, nr: i64, args: &[u64]) -> i64 {
        self.post(nr as u32, args);
        self.answer()
    }

    /// A delegated call that a signal may come before.
    pub fn try_call(&mut self, nr: i64, args: &[u64]) -> Option<i64> {
        self.post(nr as u32, args);
        self.outcome()
    }

    /// A control request.
    pub fn op(&mut self, request: Control) -> i64 {
        self.ask(request);
        self.answer()
    }

    /// Puts bytes at an address of the application or of the control window.
    pub fn poke(&self, address: u64, bytes: &[u8]) {
        let (page, offset) = (address & !4095, (address & 4095) as usize);
        let size = (offset + bytes.len()).next_multiple_of(4096);
        let at = map(&self.memory, self.space, page, size);
        // SAFETY: just mapped, that large.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(offset), bytes.len());
            libc::munmap(at.cast(), size);
        }
    }

    /// Bytes at a page of the application or of what it shares with the LWK.
    pub fn look(&self, page: u64, count: usize) -> Vec<u8> {
        let at = map(&self.memory, self.space, page, count);
        // SAFETY: just mapped, that large; any bytes.
        unsafe {
            let bytes = std::slice::from_raw_parts(at, count).to_vec();
            libc::munmap(at.cast(), count);
            bytes
        }
    }

    /// Bytes of the first scratch page of the slot's space.
    pub fn peek<const N: usize>(&self, address: u64) -> [u8; N] {
        assert!(address >= scratch(0) && address + N as u64 <= scratch(0) + 4096);
        // SAFETY: mapped for good; bytes.
        unsafe {
            std::ptr::read_volatile(self.control.add((address - MAPPED_FROM) as usize).cast())
        }
    }

    /// The start block's header and its strings.
    pub fn start_block(&self) -> (StartBlock, Vec<Vec<u8>>) {
        let at = (START_BASE - MAPPED_FROM) as usize;
        // SAFETY: written by the proxy before START; plain words and bytes.
        let (block, strings) = unsafe {
            let block = *self.control.add(at).cast::<StartBlock>();
            let length = block.total_size as usize - block.strings_offset as usize;
            let strings = self.control.add(at + block.strings_offset as usize);
            (block, std::slice::from_raw_parts(strings, length).to_vec())
        };
        let Some(strings) = strings.strip_suffix(b"\0") else { return (block, Vec::new()) };
        (block, strings.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// Sends a signal to the proxy.
    pub fn kill(&self, signal: i32) {
        // SAFETY: kill touches no memory; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits for the next signal that the proxy tells of.
    pub fn next_signal(&self) -> u32 {
        self.next_signal_and_slot().0
    }

    /// Waits for the next signal; returns it and the slot whose worker took it.
    pub fn next_signal_and_slot(&self) -> (u32, u32) {
        self.device.wait_until(|state| !state.signals.is_empty());
        self.device.state.lock().unwrap().signals.pop_front().unwrap()
    }

    /// Signals told so far, not asked for yet.
    pub fn signals(&self) -> usize {
        self.device.state.lock().unwrap().signals.len()
    }

    /// Number of times that the proxy rang.
    pub fn rings(&self) -> u32 {
        self.device.state.lock().unwrap().rings
    }

    /// The services that were handed to the device.
    pub fn served(&self) -> Vec<u32> {
        self.device.state.lock().unwrap().served.clone()
    }

    /// The instance that was asked for.
    pub fn attached_to(&self) -> Vec<u8> {
        self.device.state.lock().unwrap().attached_to.clone()
    }

    /// Waits until the worker sleeps.
    pub fn wait_until_asleep(&self) {
        self.device.wait_until(|state| state.waiting.contains_key(&self.tid()));
    }

    /// Tokens with which children of forks came.
    pub fn children(&self) -> Vec<u64> {
        self.device.state.lock().unwrap().children.clone()
    }

    /// Signals that the proxy had sent to itself (`IOCTL_SEND`).
    pub fn sent(&self) -> Vec<Send> {
        self.device.state.lock().unwrap().sent.clone()
    }

    /// From now on the device refuses or accepts that the proxy takes signals.
    pub fn refuse_signals(&self, refuses: bool) {
        self.device.state.lock().unwrap().refuses_signals = refuses;
    }

    /// From now on no child is taken, for this reason.
    pub fn refuse_children(&self, errno: i32) {
        self.device.state.lock().unwrap().no_children = Some(errno);
    }

    /// Ends the LWK: workers that wait get EIO.
    pub fn die(&self) {
        self.device.state.lock().unwrap().dead = true;
        self.device.ring();
    }

    /// A file of /proc of the proxy.
    pub fn proc(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    /// State letter of the proxy: `S`, `T`, …
    pub fn process_state(&self) -> char {
        let stat = self.proc("stat");
        stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
    }
}

impl Drop for Lwk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until thread `tid` is blocked in call `nr` (proc(5), `/proc/PID/syscall`).
pub fn blocked_in(tid: u32, nr: i64) {
    let read = || std::fs::read_to_string(format!("/proc/{tid}/syscall")).unwrap();
    eventually("blocked in the call", || read().starts_with(&format!("{nr} ")));
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: two new descriptors that only we have.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    }
}

fn write_words(fd: RawFd, words: &[u32]) {
    // SAFETY: a slice of that many bytes.
    unsafe { libc::write(fd, words.as_ptr().cast(), size_of_val(words)) };
}

fn read_words<const N: usize>(fd: RawFd) -> [u32; N] {
    let mut words = [0; N];
    // SAFETY: an array of that many bytes.
    unsafe { libc::read(fd, words.as_mut_ptr().cast(), size_of_val(&words)) };
    words
}

fn take_descriptor(pid: u32, fd: u32) -> OwnedFd {
    // SAFETY: pidfds and a new descriptor that only we have.
    unsafe {
        let process = OwnedFd::from_raw_fd(
            check(libc::syscall(libc::SYS_pidfd_open, pid, 0)).unwrap() as RawFd,
        );
        let fd = check(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0)).unwrap();
        OwnedFd::from_raw_fd(fd as RawFd)
    }
}
