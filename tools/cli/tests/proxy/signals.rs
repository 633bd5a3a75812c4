//! Signals of the proxy.

use super::*;

#[test]
fn a_signal_interrupts_a_blocked_call() {
    let mut lwk = start(&["true"]);
    lwk.post(libc::SYS_read as u32, &[0, DATA, 1]);
    blocked_in(lwk.tid(), libc::SYS_read);
    lwk.kill(libc::SIGTERM);
    assert_eq!(lwk.next_signal(), libc::SIGTERM as u32);
    assert_eq!(lwk.answer(), EINTR);

    // With SA_RESTART Linux would make the call again: it is not started instead.
    assert_eq!(lwk.op(action(libc::SIGUSR1, Mirror::Forward, libc::SA_RESTART)), 0);
    lwk.post(libc::SYS_read as u32, &[0, DATA, 1]);
    blocked_in(lwk.tid(), libc::SYS_read);
    lwk.kill(libc::SIGUSR1);
    assert_eq!(lwk.outcome(), NOT_STARTED);
    assert_eq!(lwk.next_signal(), libc::SIGUSR1 as u32);
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
}

#[test]
fn a_signal_in_between_costs_one_call_at_most() {
    let mut lwk = start(&["true"]);
    lwk.wait_until_asleep();
    lwk.kill(libc::SIGINT);
    assert_eq!(lwk.next_signal(), libc::SIGINT as u32);
    let first = lwk.try_call(libc::SYS_getpid, &[]);
    assert!(first == NOT_STARTED || first == Some(lwk.child.id().into()), "{first:?}");
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
}

#[test]
fn no_signal_is_slept_over() {
    // A request that blocks and a signal at the same time, over and over: the call
    // must end, whichever of the two is first.
    let mut lwk = start(&["true"]);
    for round in 0..3000u64 {
        lwk.set_poll_us([0, 20, 200][(round % 3) as usize]);
        lwk.post(libc::SYS_read as u32, &[0, DATA, 1]);
        for _ in 0..(round * 7919) % 400 {
            std::hint::spin_loop();
        }
        lwk.kill(libc::SIGUSR2);
        let result = lwk.outcome();
        assert!(result == Some(EINTR) || result == NOT_STARTED, "{result:?}");
        assert_eq!(lwk.next_signal(), libc::SIGUSR2 as u32);
    }
    assert_eq!(lwk.signals(), 0);
}

#[test]
fn masks_and_dispositions_are_linux_own() {
    let mut lwk = start(&["true"]);
    let usr1 = 1 << (libc::SIGUSR1 - 1);
    lwk.set_sigmask(usr1);
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
    lwk.kill(libc::SIGUSR1);
    eventually("pending", || status_mask(&lwk, "ShdPnd") == usr1);
    assert_eq!(lwk.signals(), 0);
    lwk.set_sigmask(0);
    assert_eq!(lwk.try_call(libc::SYS_getpid, &[]), NOT_STARTED);
    assert_eq!(lwk.next_signal(), libc::SIGUSR1 as u32);

    assert_eq!(lwk.op(action(libc::SIGUSR1, Mirror::Ignore, 0)), 0);
    assert_eq!(lwk.op(action(libc::SIGKILL, Mirror::Ignore, 0)), -i64::from(libc::EINVAL));
    assert_eq!(lwk.op(action(65, Mirror::Ignore, 0)), -i64::from(libc::EINVAL));
    assert_eq!(status_mask(&lwk, "SigIgn") & usr1, usr1);
    lwk.kill(libc::SIGUSR1);
    assert_eq!(lwk.call(libc::SYS_getpid, &[]), lwk.child.id().into());
}

#[test]
fn a_signal_can_be_given_back() {
    let mut lwk = start(&["true"]);
    let mut info = [0u8; 128];
    info[0] = libc::SIGUSR1 as u8;
    info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
    lwk.poke(scratch(0), &info);
    lwk.set_sigmask(1 << (libc::SIGUSR1 - 1));
    assert_eq!(
        lwk.op(Control::RequeueSignal {
            signal: libc::SIGUSR1 as u32,
            for_process: false,
            is_back: true
        }),
        0
    );
    assert_eq!(status_mask(&lwk, "SigPnd"), 1 << (libc::SIGUSR1 - 1));
}

#[test]
fn any_worker_gives_a_signal_back_as_it_came() {
    let mut lwk = start(&["true"]);
    let usr1: u64 = 1 << (libc::SIGUSR1 - 1);
    lwk.set_sigmask(usr1);
    thread(&mut lwk, 1);
    let mut info = [0u8; 128]; // SI_USER, of process 4321
    info[0] = libc::SIGUSR1 as u8;
    info[16..20].copy_from_slice(&4321u32.to_ne_bytes());
    lwk.poke(scratch(1), &info);
    lwk.slot(1).set_sigmask(usr1);
    assert_eq!(
        lwk.op(Control::RequeueSignal {
            signal: libc::SIGUSR1 as u32,
            for_process: true,
            is_back: true
        }),
        0
    );
    lwk.slot(0).poke(scratch(0), &usr1.to_ne_bytes());
    let taken = lwk.call(libc::SYS_rt_sigtimedwait, &[scratch(0), scratch(0) + 128, 0, 8]);
    assert_eq!(taken, libc::SIGUSR1.into());
    let [sent] = lwk.sent()[..] else { panic!("{:?}", lwk.sent()) };
    assert_eq!(
        (sent.signal, sent.tid, sent.info[1], sent.info[2]),
        (libc::SIGUSR1 as u32, 0, 0, 4321)
    );
}

#[test]
fn a_refused_signal_is_blocked_and_waits() {
    let mut lwk = start(&["true"]);
    let usr1 = 1 << (libc::SIGUSR1 - 1);
    lwk.refuse_signals(true);
    lwk.kill(libc::SIGUSR1);
    assert_eq!(lwk.next_signal(), libc::SIGUSR1 as u32);
    eventually("pending", || status_mask(&lwk, "ShdPnd") == usr1);
    assert_eq!(lwk.signals(), 0);
    // With the next request it is taken again, if the thread does not block it.
    lwk.refuse_signals(false);
    assert_eq!(lwk.try_call(libc::SYS_getpid, &[]), NOT_STARTED);
    assert_eq!(lwk.next_signal(), libc::SIGUSR1 as u32);
    // A call in progress is not interrupted, but made again.
    assert_eq!(lwk.op(action(libc::SIGUSR1, Mirror::Forward, libc::SA_RESTART)), 0);
    lwk.refuse_signals(true);
    lwk.post(libc::SYS_read as u32, &[0, DATA, 1]);
    blocked_in(lwk.tid(), libc::SYS_read);
    lwk.kill(libc::SIGUSR1);
    assert_eq!(lwk.next_signal(), libc::SIGUSR1 as u32);
    blocked_in(lwk.tid(), libc::SYS_read);
    lwk.kill(libc::SIGTERM);
    assert_eq!(lwk.next_signal(), libc::SIGTERM as u32);
    assert_eq!(lwk.answer(), EINTR);
}

#[test]
fn no_result_is_an_interruption() {
    // Of memory every offset is one: lseek returns it.
    let mut lwk = start(&["true"]);
    lwk.poke(DATA, b"/proc/self/mem\0");
    let fd = lwk.call(libc::SYS_open, &[DATA, libc::O_RDONLY as u64]);
    assert!(fd >= 0, "{fd}");
    for offset in -520..-510i64 {
        let args = [fd as u64, offset as u64, libc::SEEK_SET as u64];
        assert_eq!(lwk.try_call(libc::SYS_lseek, &args), Some(offset));
    }
}

#[test]
fn a_stop_signal_stops_the_process_until_sigcont() {
    // In a group of its own: Linux does not stop an orphaned one.
    let mut command = run(&["true"]);
    command.process_group(0);
    let mut lwk = Lwk::start(command);
    for signal in [libc::SIGSTOP, libc::SIGTTOU] {
        lwk.ask(Control::StopSignal { signal: signal as u32 });
        eventually("stopped", || lwk.process_state() == 'T');
        lwk.kill(libc::SIGCONT);
        assert_eq!(lwk.answer(), 0);
    }
    assert_eq!(
        lwk.op(Control::StopSignal { signal: libc::SIGTERM as u32 }),
        -i64::from(libc::EINVAL)
    );
}

#[test]
fn a_stop_in_a_timed_call_is_not_seen() {
    // Linux goes on with restart_syscall; a signal then ends the call.
    let mut lwk = start(&["true"]);
    let mut second = [0u8; 16];
    second[0] = 250;
    lwk.poke(DATA, &second);
    lwk.post(libc::SYS_nanosleep as u32, &[DATA, 0]);
    blocked_in(lwk.tid(), libc::SYS_nanosleep);
    lwk.kill(libc::SIGSTOP);
    eventually("stopped", || lwk.process_state() == 'T');
    lwk.kill(libc::SIGCONT);
    eventually("running", || lwk.process_state() == 'S');
    lwk.kill(libc::SIGINT);
    assert_eq!(lwk.answer(), EINTR);
}
