//! `hanare run` and the proxy against a stand-in for the device: start, layout,
//! delegated calls, sleep and wake-up, signals, ends.
//!
//! Needs the proxy: $HANARE_PROXY, build/bin/hanare-proxy, or as built by
//! `cargo build --release --target x86_64-unknown-none --manifest-path tools/proxy/Cargo.toml`.

mod fake;
#[path = "proxy/forks.rs"]
mod forks;
#[path = "proxy/messages.rs"]
mod messages;
#[path = "proxy/signals.rs"]
mod signals;

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fake::{CHILD_SPACE, Lwk, blocked_in, eventually};
use hanare_abi::control::*;
use hanare_abi::layout::*;
use hanare_abi::slot::*;
use hanare_abi::start::START_STATS;
use hanare_abi::{MAGIC, VERSION};

const EINTR: i64 = -(libc::EINTR as i64);
/// The outcome of a call that a signal came before.
const NOT_STARTED: Option<i64> = None;

/// Where the tests put the application's data.
const DATA: u64 = 0x40_0000;

fn proxy() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = "tools/proxy/target/x86_64-unknown-none/release/hanare-proxy";
    let candidates = [
        std::env::var_os("HANARE_PROXY").map(PathBuf::from),
        Some(repository.join(built)),
        Some(repository.join("build/bin/hanare-proxy")),
    ];
    let found = candidates.into_iter().flatten().find(|path| path.is_file());
    found.expect("hanare-proxy is not built; see the top of this file")
}

/// `hanare run OPTIONS -- PROGRAM ARGUMENTS`, its output kept.
fn run(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hanare"));
    command.arg("run").args(arguments).env("HANARE_PROXY", proxy());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> Lwk {
    Lwk::start(run(arguments))
}

/// Waits for the end; gives exit status or minus the signal, and stderr.
fn end(mut lwk: Lwk) -> (i32, String) {
    let mut text = String::new();
    // What it says is less than a pipe holds. The wait for its end has a limit.
    eventually("the proxy ends", || lwk.child.try_wait().unwrap().is_some());
    lwk.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let status = lwk.child.wait().unwrap();
    (status.code().unwrap_or_else(|| -status.signal().unwrap()), text)
}

#[test]
fn the_start_block_is_complete() {
    let mut command = run(&["--on", "blue", "--stats", "true", "-x", "ä b", ""]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HANARE_PROXY", proxy());
    // SAFETY: only system calls.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            let unlimited =
                libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_STACK, &unlimited);
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
            Ok(())
        });
    }
    let lwk = Lwk::start(command);
    let (block, strings) = lwk.start_block();
    assert_eq!((block.magic, block.version), (MAGIC, VERSION));
    assert_eq!(lwk.tid(), lwk.child.id());
    assert_eq!(block.argc, 4);
    let path = String::from_utf8(strings[0].clone()).unwrap();
    assert!(path == "/usr/bin/true" || path == "/bin/true", "{path}");
    let text = |range: std::ops::Range<usize>| {
        strings[range].iter().map(|bytes| std::str::from_utf8(bytes).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(text(1..5), ["true", "-x", "ä b", ""]);
    assert_eq!(block.envc, 2);
    assert_eq!(strings.len(), 7);
    assert_eq!(block.sigmask, 1 << (libc::SIGUSR1 - 1));
    let known = (1 << 31) - 1;
    assert_eq!(block.sigignore & known, 1 << (libc::SIGHUP - 1) | 1 << (libc::SIGPIPE - 1));
    assert_eq!((block.stack_soft, block.stack_hard), (u64::MAX, u64::MAX));
    assert_ne!(block.random, [0; 32]);
    assert_ne!(block.hwcap, 0);
    assert_eq!(block.clktck, 100);
    assert_eq!(block.flags & START_STATS, START_STATS);
    assert!(lwk.attached_to().starts_with(b"blue\0"));
    // The caller's stack limit is back.
    assert!(
        lwk.proc("limits")
            .lines()
            .any(|line| line.starts_with("Max stack size            unlimited"))
    );
}

#[test]
fn nothing_lies_among_the_applications_addresses() {
    let lwk = start(&["sh", "-c", "true"]);
    let maps = lwk.proc("maps");
    let mut device = 0;
    for line in maps.lines() {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let parse = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (parse(start), parse(end));
        if start < CONTROL_END {
            assert!(
                [(USER_MIN, USER_MAX), (CONTROL_BASE, CONTROL_END)].contains(&(start, end)),
                "{line}"
            );
            assert!(line.contains("rw-s"), "{line}");
            device += 1;
        } else {
            assert!(start >= PROXY_BASE, "{line}");
        }
    }
    assert_eq!(device, 2);
    assert_eq!(lwk.proc("comm"), "sh\n");
    assert_eq!(lwk.proc("cmdline").trim_end_matches('\0'), "sh\0-c\0true");
    let (block, _) = lwk.start_block();
    assert_eq!(block.sigignore & 1 << (libc::SIGPIPE - 1), 0, "hanare run must not change SIGPIPE");
    assert!(block.control_fd >= 1000, "{}", block.control_fd);
    let link =
        std::fs::read_link(format!("/proc/{}/fd/{}", lwk.child.id(), block.control_fd)).unwrap();
    assert!(link.to_string_lossy().contains("hanare"), "{link:?}");
}

#[test]
fn a_limited_address_space_does_not_matter() {
    let mut command = run(&["true"]);
    // SAFETY: only a system call.
    unsafe {
        command.pre_exec(|| {
            libc::setrlimit(
                libc::RLIMIT_AS,
                &libc::rlimit { rlim_cur: 1 << 30, rlim_max: libc::RLIM_INFINITY },
            );
            Ok(())
        });
    }
    let mut lwk = Lwk::start(command);
    let (block, _) = lwk.start_block();
    assert_eq!(block.as_soft, 1 << 30);
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
}

#[test]
fn calls_are_made_with_the_applications_addresses() {
    let mut lwk = start(&["true"]);
    lwk.poke(DATA, b"hello from over there\n");
    assert_eq!(lwk.call(libc::SYS_write, &[1, DATA, 22]), 22);
    let mut text = [0; 22];
    lwk.child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello from over there\n");
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
    assert_eq!(lwk.call(libc::SYS_close, &[999]), -i64::from(libc::EBADF));
    assert_eq!(lwk.call(libc::SYS_write, &[1, 0x10, 22]), -i64::from(libc::EFAULT));
    assert_eq!(lwk.op(Control::TakeMask), 0);
    assert_eq!(lwk.op(Control::Serve { service: 17 }), 0);
    assert_eq!(lwk.served(), [17]);
    for (number, words) in [(999, [0; 6]), (CONTROL_TAKE_MASK, [1; 6])] {
        lwk.publish(SLOT_CONTROL, number, words);
        assert_eq!(lwk.answer(), -i64::from(libc::ENOSYS));
    }
    lwk.post(libc::SYS_exit_group as u32, &[7]);
    assert_eq!(end(lwk), (7, String::new()));
}

#[test]
fn calls_are_answered_by_a_polling_and_a_sleeping_worker() {
    let mut lwk = start(&["true"]);
    for poll_us in [0, 1, 50, 1000] {
        lwk.set_poll_us(poll_us);
        lwk.set_asleep(poll_us % 2 == 0);
        for _ in 0..500 {
            assert_eq!(lwk.call(libc::SYS_getppid, &[]), std::process::id().into());
        }
        lwk.wait_until_asleep();
    }
    assert_eq!(lwk.rings(), 3 * 500);
}

#[test]
fn a_range_can_be_mapped_again() {
    let mut lwk = start(&["true"]);
    lwk.poke(DATA, b"device");
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    assert_eq!(lwk.call(libc::SYS_mmap, &[DATA, 4096, 3, anonymous, u64::MAX, 0]), DATA as i64);
    assert_eq!(lwk.op(Control::Remap { start: DATA, end: DATA + 4096 }), 0);
    assert_eq!(lwk.call(libc::SYS_write, &[1, DATA, 6]), 6);
    let mut text = [0; 6];
    lwk.child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"device");
    for (start, end) in [(DATA + 4096, DATA), (0, 4096), (USER_MAX - 4096, USER_MAX + 4096)] {
        assert_eq!(lwk.op(Control::Remap { start, end }), -i64::from(libc::EINVAL));
    }
}

#[test]
fn the_proxy_ends_by_its_programs_signal() {
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE, libc::SIGRTMIN() + 3]
    {
        let mut command = run(&["true"]);
        // SAFETY: only system calls. No core files.
        unsafe {
            command.pre_exec(|| {
                libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
                Ok(())
            });
        }
        let lwk = Lwk::start(command);
        lwk.set_sigmask(!0);
        lwk.ask(Control::ExitSignal { signal: signal as u32 });
        assert_eq!(end(lwk), (-signal, String::new()));
    }
}

#[test]
fn programs_that_cannot_be_started() {
    let folder = std::env::temp_dir().join(format!("hanare-proxy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
    foreign.resize(64, 0);
    foreign[16] = 2;
    foreign[18] = 183;
    // Name, content; errno and kind from the LWK; exit status and message.
    type Case<'a> = (&'a str, &'a [u8], i32, u64, i32, &'a str);
    let cases: [Case; 5] = [
        ("gone", b"x", libc::ENOENT, START_FAILED_FILE, 127, "gone: No such file or directory"),
        (
            "arm",
            &foreign,
            libc::ENOEXEC,
            START_FAILED_FORMAT,
            126,
            "arm: Exec format error: not an x86-64 program",
        ),
        (
            "cut",
            b"\x7fELF",
            libc::ENOEXEC,
            START_FAILED_FORMAT,
            126,
            "cut: Exec format error: the file is cut short",
        ),
        (
            "text",
            b"echo",
            libc::ENOEXEC,
            START_FAILED_FORMAT,
            126,
            "text: Exec format error: neither an ELF",
        ),
        (
            "big",
            b"x",
            libc::ENOMEM,
            START_FAILED_MEMORY,
            126,
            "big: Cannot allocate memory: the LWK has too little",
        ),
    ];
    for (name, content, errno, kind, status, message) in cases {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let lwk = start(&[path.to_str().unwrap()]);
        lwk.ask(Control::StartFailed { errno: errno as u32, cause: kind });
        let (code, text) = end(lwk);
        assert_eq!(code, status, "{text}");
        assert!(
            text.starts_with("hanare: /") && text.contains(message) && text.lines().count() == 1,
            "{text}"
        );
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn status_mask(lwk: &Lwk, name: &str) -> u64 {
    let status = lwk.proc("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn execve_names_the_process_and_resets_handlers() {
    let mut lwk = start(&["true"]);
    assert_eq!(lwk.op(action(libc::SIGCHLD, Mirror::Forward, libc::SA_RESTART)), 0);
    lwk.poke(scratch(0), b"/some/where/program\0");
    assert_eq!(lwk.op(execed()), 0);
    assert_eq!(lwk.proc("comm"), "program\n");
    assert_eq!(status_mask(&lwk, "SigCgt") & (1 << (libc::SIGCHLD - 1)), 0);
    assert_ne!(status_mask(&lwk, "SigCgt") & (1 << (libc::SIGTERM - 1)), 0);
    assert_eq!(lwk.op(Control::TakeMask), 0);
}

/// A program whose name lies in the scratch page has begun.
fn execed() -> Control {
    Control::Execed { name: scratch(0), file: 0, memory_map: 0, strings: 0, is_hidden: false }
}

/// A disposition to be known by Linux.
fn action(signal: i32, mirror: Mirror, flags: i32) -> Control {
    Control::SignalAction { signal: signal as u32, mirror, flags: flags as u64, ignored: 0 }
}

/// Starts a worker for `slot` and gives its thread id.
fn thread(lwk: &mut Lwk, slot: u32) -> u32 {
    lwk.slot(slot).reset();
    let tid = lwk.slot(0).op(Control::Thread { slot, own: 0 });
    assert!(tid > 0, "{tid}");
    assert_eq!(lwk.slot(slot).tid(), tid as u32);
    tid as u32
}

/// Ends the worker of `slot`, the thread `tid`.
fn end_thread(lwk: &mut Lwk, slot: u32, tid: u32) {
    lwk.slot(slot).ask(Control::ThreadExit);
    eventually("the slot is left", || lwk.tid() == 0);
    eventually("the thread is gone", || !tasks(lwk.child.id()).contains(&tid));
}

fn tasks(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn mappings(pid: u32) -> Vec<String> {
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .unwrap()
        .lines()
        .map(String::from)
        .collect()
}

#[test]
fn each_thread_has_a_worker() {
    let mut lwk = start(&["true"]);
    let pid = lwk.child.id();
    for slot in [SLOTS_MAX, u32::MAX] {
        assert_eq!(lwk.op(Control::Thread { slot, own: 0 }), -i64::from(libc::EINVAL));
    }
    let before = mappings(pid);
    let (one, forty) = (thread(&mut lwk, 1), thread(&mut lwk, 40));
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{one}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    // All but SIGKILL and SIGSTOP.
    assert_eq!(blocked, "fffffffffffbfeff");
    for (slot, tid) in [(1, one), (40, forty), (0, pid)] {
        assert_eq!(lwk.slot(slot).call(libc::SYS_gettid, &[]), tid.into());
        assert_eq!(lwk.call(libc::SYS_getpid, &[]), pid.into());
        lwk.wait_until_asleep();
        assert_eq!(lwk.call(libc::SYS_gettid, &[]), tid.into());
    }
    for line in mappings(pid) {
        let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        assert!(start >= PROXY_BASE || [USER_MIN, CONTROL_BASE].contains(&start), "{line}");
    }
    end_thread(&mut lwk, 1, one);
    end_thread(&mut lwk, 40, forty);
    assert_eq!(tasks(pid), [pid]);
    // Their blocks, two mappings each, are kept for threads to come.
    let kept = mappings(pid);
    let added = kept.iter().filter(|line| !before.contains(line)).count();
    assert!(added <= 4 && kept.len() == before.len() + added, "{kept:?}");
    for _ in 0..200 {
        let tid = thread(&mut lwk, 1);
        assert_eq!(lwk.slot(1).call(libc::SYS_gettid, &[]), tid.into());
        end_thread(&mut lwk, 1, tid);
    }
    assert_eq!(mappings(pid), kept);
    lwk.slot(0).post(libc::SYS_exit_group as u32, &[3]);
    assert_eq!(end(lwk), (3, String::new()));
}

#[test]
fn a_signal_interrupts_the_call_of_its_thread() {
    let mut lwk = start(&["true"]);
    let (pid, tid) = (lwk.child.id(), thread(&mut lwk, 1));
    let tell = |signal: i32| {
        // SAFETY: tgkill touches no memory.
        assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) }, 0);
    };
    // Blocked until its first call says otherwise.
    tell(libc::SIGUSR1);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(lwk.signals(), 0);
    lwk.slot(1).post(libc::SYS_read as u32, &[0, DATA, 1]);
    assert_eq!(lwk.next_signal_and_slot(), (libc::SIGUSR1 as u32, 1));
    assert_eq!(lwk.outcome(), NOT_STARTED);
    for round in 0..1000u64 {
        lwk.slot(0).post(libc::SYS_getppid as u32, &[]);
        lwk.slot(1).post(libc::SYS_read as u32, &[0, DATA, 1]);
        for _ in 0..(round * 7919) % 400 {
            std::hint::spin_loop();
        }
        tell(libc::SIGUSR2);
        let result = lwk.outcome();
        assert!(result == Some(EINTR) || result == NOT_STARTED, "{result:?}");
        assert_eq!(lwk.next_signal_and_slot(), (libc::SIGUSR2 as u32, 1));
        assert_eq!(lwk.slot(0).answer(), std::process::id().into());
    }
}

#[test]
fn any_worker_ends_the_process() {
    let mut lwk = start(&["true"]);
    thread(&mut lwk, 1);
    thread(&mut lwk, 2);
    lwk.slot(0).post(libc::SYS_read as u32, &[0, DATA, 1]);
    lwk.slot(2).post(libc::SYS_exit_group as u32, &[9]);
    assert_eq!(end(lwk), (9, String::new()));

    let mut lwk = start(&["true"]);
    thread(&mut lwk, 1);
    lwk.slot(1).ask(Control::ExitSignal { signal: libc::SIGTERM as u32 });
    assert_eq!(end(lwk), (-libc::SIGTERM, String::new()));
}

#[test]
fn the_first_worker_may_end_first() {
    let mut lwk = start(&["true"]);
    let (pid, tid) = (lwk.child.id(), thread(&mut lwk, 1));
    lwk.slot(0).ask(Control::ThreadExit);
    eventually("ended", || lwk.tid() == 0 && lwk.process_state() == 'Z');
    lwk.slot(1).poke(scratch(0), b"/some/where/program\0");
    assert_eq!(lwk.op(execed()), 0);
    assert_eq!(lwk.proc("comm"), "program\n");
    assert_eq!(lwk.proc(&format!("task/{tid}/comm")), "program\n");
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), pid.into());
    lwk.post(libc::SYS_exit_group as u32, &[4]);
    assert_eq!(end(lwk), (4, String::new()));
}

#[test]
fn the_death_of_the_lwk_is_told() {
    let lwk = start(&["true"]);
    lwk.wait_until_asleep();
    lwk.die();
    let expected = "hanare: the LWK 'fake' stopped working; see: hanare log fake\n";
    assert_eq!(end(lwk), (125, expected.into()));

    // Once, however many workers there are.
    let mut lwk = start(&["true"]);
    for slot in 1..20 {
        thread(&mut lwk, slot);
        lwk.wait_until_asleep();
    }
    lwk.die();
    assert_eq!(end(lwk), (125, expected.into()));

    // Also when a call blocks, at the first signal.
    let lwk = start(&["true"]);
    lwk.post(libc::SYS_read as u32, &[0, DATA, 1]);
    blocked_in(lwk.tid(), libc::SYS_read);
    lwk.die();
    lwk.kill(libc::SIGINT);
    assert_eq!(end(lwk), (125, expected.into()));
}

#[test]
fn stats_are_one_line() {
    let mut lwk = start(&["--stats", "true"]);
    lwk.call(libc::SYS_getpid, &[]);
    lwk.post(libc::SYS_exit_group as u32, &[0]);
    let (code, text) = end(lwk);
    assert_eq!(code, 0);
    assert!(
        text.starts_with("hanare: user 5 ms, system 0 ms, peak memory 1024 KiB, 2 delegated calls"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn stats_are_told_on_the_stderr_of_the_start_and_nowhere_else() {
    let path = std::env::temp_dir().join(format!("hanare-stats-{}", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    for closes_all in [false, true] {
        let mut lwk = start(&["--stats", "true"]);
        lwk.poke(DATA, name.as_bytes_with_nul());
        assert_eq!(lwk.call(libc::SYS_close, &[2]), 0);
        let flags = (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) as u64;
        assert_eq!(lwk.call(libc::SYS_open, &[DATA, flags, 0o600]), 2);
        if closes_all {
            let (block, _) = lwk.start_block();
            let device = u64::from(block.control_fd);
            lwk.call(libc::SYS_close_range, &[3, device - 1]);
            lwk.call(libc::SYS_close_range, &[device + 1, u32::MAX.into()]);
        }
        lwk.post(libc::SYS_exit_group as u32, &[0]);
        let (code, text) = end(lwk);
        assert_eq!((code, text.contains("delegated calls")), (0, !closes_all), "{text}");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn too_many_arguments_are_refused() {
    let long = "x".repeat(120_000);
    let mut command = run(&["true"]);
    command.args(vec![&long; 150]);
    // SAFETY: only a system call. Linux allows a quarter of the stack limit.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_STACK, &limit);
            Ok(())
        });
    }
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Lwk::start_only(command))) {
        // Linux itself may refuse that much.
        Err(_) => {}
        Ok(lwk) => {
            let (code, text) = end(lwk);
            assert!(code == 126 || code == 125, "{code}");
            assert!(text.contains("Argument list too long"), "{text}");
        }
    }
}
