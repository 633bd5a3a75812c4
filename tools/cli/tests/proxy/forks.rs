//! Forks of the proxy.

use super::*;

/// The device's mapping is not inherited; the stand-in's is made so.
fn forget_at_fork(lwk: &mut Lwk) {
    for (start, end) in [(USER_MIN, USER_MAX), (CONTROL_BASE, CONTROL_END)] {
        let mapped = lwk.call(libc::SYS_madvise, &[start, end - start, libc::MADV_DONTFORK as u64]);
        assert!(mapped == 0 || mapped == -i64::from(libc::ENOMEM), "{mapped}");
    }
}

fn forking(token: u64) -> Control {
    let flags = libc::SIGCHLD as u64;
    Control::Fork { token, flags, pidfd: 0, set_tid: 0, set_tid_size: 0, cgroup: 0 }
}

/// Forks from the slot chosen and gives the child's process id; the child is `space`
/// then.
fn fork(lwk: &mut Lwk, token: u64, space: u64) -> u32 {
    forget_at_fork(lwk);
    let pid = lwk.op(forking(token));
    assert!(pid > 0, "{pid}");
    eventually("the child came", || lwk.children().last() == Some(&token));
    lwk.slot_of(space, 0);
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), pid);
    assert_eq!(lwk.call(libc::SYS_gettid, &[]), pid);
    pid as u32
}

/// Waits for a child of the process of the slot chosen; gives its status.
fn wait_for(lwk: &mut Lwk, pid: u32) -> i32 {
    assert_eq!(lwk.call(libc::SYS_wait4, &[pid.into(), scratch(0), 0, 0]), pid.into());
    i32::from_ne_bytes(lwk.peek(scratch(0)))
}

#[test]
fn a_fork_is_a_space_of_its_own() {
    let mut lwk = start(&["--stats", "true"]);
    lwk.poke(DATA, b"parent");
    let parent = lwk.child.id();
    let (parents, _) = lwk.start_block();
    let pid = fork(&mut lwk, 77, CHILD_SPACE);
    assert_eq!(lwk.children(), [77]);
    assert_eq!(lwk.call(libc::SYS_getppid, &[]), parent.into());
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{}", parents.control_fd)).unwrap();
    assert!(link.to_string_lossy().contains("hanare"), "{link:?}");
    let descriptors = |pid| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    // The line of counters is the parent's, and so is the copy of stderr that is kept for it.
    assert_eq!(descriptors(pid) + 1, descriptors(parent));

    // Only the control window is mapped, until the LWK says what else.
    let window = format!("{CONTROL_BASE:x}-{CONTROL_END:x} rw-s");
    let below = |line: &&String| {
        u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap() < PROXY_BASE
    };
    let mapped = mappings(pid);
    let mapped: Vec<_> = mapped.iter().filter(below).collect();
    assert!(mapped.len() == 1 && mapped[0].starts_with(&window), "{mapped:?}");
    assert_eq!(lwk.call(libc::SYS_write, &[1, DATA, 6]), -i64::from(libc::EFAULT));
    assert_eq!(lwk.op(Control::Remap { start: USER_MIN, end: USER_MAX }), 0);
    lwk.poke(DATA, b"child!");
    let mut text = [0; 6];
    for (space, expected) in [(CHILD_SPACE, b"child!"), (1, b"parent")] {
        assert_eq!(lwk.slot_of(space, 0).call(libc::SYS_write, &[1, DATA, 6]), 6);
        lwk.child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
        assert_eq!(&text, expected);
    }
    // Signals find it.
    lwk.slot_of(CHILD_SPACE, 0).post(libc::SYS_read as u32, &[0, DATA, 1]);
    blocked_in(pid, libc::SYS_read);
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(pid as i32, libc::SIGTERM) };
    assert_eq!(lwk.next_signal_and_slot(), (libc::SIGTERM as u32, 0));
    assert_eq!(lwk.answer(), EINTR);
    lwk.post(libc::SYS_exit_group as u32, &[7]);
    assert_eq!(wait_for(lwk.slot(0), pid), 7 << 8);
    lwk.slot(0).post(libc::SYS_exit_group as u32, &[0]);
    let (code, text) = end(lwk);
    assert_eq!((code, text.lines().count()), (0, 1), "{text}");
}

#[test]
fn a_fork_may_map_everything_at_once() {
    let mut lwk = start(&["true"]);
    let pid = fork(&mut lwk, fake::WHOLE | 5, CHILD_SPACE);
    for (start, end) in [(USER_MIN, USER_MAX), (CONTROL_BASE, CONTROL_END)] {
        let all = format!("{start:08x}-{end:x} rw-s");
        assert!(mappings(pid).iter().any(|line| line.starts_with(&all)), "{:?}", mappings(pid));
    }
}

#[test]
fn a_part_of_the_addresses_is_mapped_once() {
    let mut lwk = start(&["true"]);
    let pid = fork(&mut lwk, 5, CHILD_SPACE);
    let range = |line: &String| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let parse = |text| u64::from_str_radix(text, 16).unwrap();
        (parse(start), parse(end))
    };
    // Of a plain file, as the stand-in has, Linux joins mappings.
    let covers =
        |(start, end): (u64, u64), number| start <= part(number).0 && part(number).1 <= end;
    for number in [3, 0, 3, 1, 2, 4] {
        assert_eq!(lwk.op(Control::MapPart { number }), 0);
        let mapped = mappings(pid);
        assert!(mapped.iter().any(|line| covers(range(line), number)), "{mapped:?}");
    }
    assert_eq!(lwk.op(Control::MapPart { number: PARTS }), -i64::from(libc::EINVAL));
}

#[test]
fn a_fork_has_one_thread_whichever_forked() {
    let mut lwk = start(&["true"]);
    let pid = lwk.child.id();
    let alone = mappings(pid).len();
    for slot in 1..4 {
        thread(&mut lwk, slot);
    }
    lwk.call(libc::SYS_getpid, &[]);
    let mut pids = vec![];
    // Each the child of the one before; more generations than would fit on one stack.
    for generation in 0..100 {
        let space = CHILD_SPACE + generation;
        let child = fork(&mut lwk, generation, space);
        assert_eq!(tasks(child), [child]);
        // Its stack, guard and window; the parent's other stacks are not there.
        assert!(mappings(child).len() <= alone + 2, "{:#?}", mappings(child));
        pids.push(child);
    }
    // A child can have threads, too.
    let space = CHILD_SPACE + 99;
    let tid = lwk.op(Control::Thread { slot: 5, own: 0 });
    assert_eq!(lwk.slot_of(space, 5).call(libc::SYS_gettid, &[]), tid);
    lwk.slot_of(space, 0).ask(Control::ThreadExit);
    eventually("left", || lwk.tid() == 0);
    assert_eq!(lwk.slot_of(space, 5).call(libc::SYS_getpid, &[]), pids[99].into());
    for generation in (0..100).rev() {
        let slot = if generation == 99 { 5 } else { 0 };
        lwk.slot_of(CHILD_SPACE + generation, slot).post(libc::SYS_exit_group as u32, &[1]);
        if generation > 0 {
            lwk.slot_of(CHILD_SPACE + generation - 1, 0);
        } else {
            lwk.slot(3);
        }
        assert_eq!(wait_for(&mut lwk, pids[generation as usize]), 1 << 8);
    }
}

#[test]
fn a_fork_that_fails_is_told() {
    let cases = [
        // The parent is gone, which would report it.
        (libc::ESRCH, ""),
        (libc::EIO, "hanare: the LWK 'fake' stopped working; see: hanare log fake\n"),
        (libc::ENOMEM, "hanare: fork: the child cannot be started: Cannot allocate memory\n"),
    ];
    for (errno, message) in cases {
        let mut lwk = start(&["true"]);
        lwk.refuse_children(errno);
        forget_at_fork(&mut lwk);
        let pid = lwk.op(forking(1));
        assert_eq!(wait_for(&mut lwk, pid as u32), 125 << 8);
        lwk.post(libc::SYS_exit_group as u32, &[0]);
        assert_eq!(end(lwk), (0, message.into()));
    }
    // Linux refuses.
    let mut lwk = start(&["true"]);
    let limit = [0u64; 2];
    lwk.poke(DATA, &limit.map(u64::to_ne_bytes).concat());
    let nproc = u64::from(libc::RLIMIT_NPROC);
    assert_eq!(lwk.call(libc::SYS_prlimit64, &[0, nproc, DATA, 0]), 0);
    // SAFETY: a question.
    if unsafe { libc::geteuid() } != 0 {
        assert_eq!(lwk.op(forking(1)), -i64::from(libc::EAGAIN));
    }
    assert_eq!(lwk.op(Control::TakeMask), 0);
}

#[test]
fn a_fork_finds_a_descriptor() {
    // The application has used up all it may have.
    let mut lwk = start(&["true"]);
    lwk.poke(DATA, &[3u64, 4096].map(u64::to_ne_bytes).concat());
    assert_eq!(lwk.call(libc::SYS_prlimit64, &[0, libc::RLIMIT_NOFILE.into(), DATA, 0]), 0);
    let pid = fork(&mut lwk, 1, CHILD_SPACE);
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert!(
        limits.lines().any(|line| line.starts_with("Max open files            3 ")),
        "{limits}"
    );
}
