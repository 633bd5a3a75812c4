use super::*;
use crate::lists::failing;
use crate::usermemory::Fault;
use crate::usermemory::tests::Bytes;
use proptest::prelude::*;
use std::vec::Vec;
use zerocopy::IntoBytes;

fn caught(flags: u64) -> SigAction {
    SigAction { handler: 0x40_1000, flags, restorer: 0x40_2000, mask: SigSet::of(SIGUSR1) }
}

#[test]
fn a_set_has_the_64_signals_and_no_other() {
    assert_eq!(SigSet::of(0), SigSet::EMPTY);
    assert_eq!(SigSet::of(65), SigSet::EMPTY);
    assert_eq!(SigSet::of(64).0, 1 << 63);
    assert!(!SigSet::ALL.blockable().contains(SIGKILL));
    assert!(!SigSet::ALL.blockable().contains(SIGSTOP));
    assert_eq!(SigSet::EMPTY.first(), None);
    assert_eq!(SigSet::of(SIGINT).with(SIGSEGV).first(), Some(SIGSEGV));
    assert_eq!(SigSet::of(SIGINT).with(SIGTERM).first(), Some(SIGINT));
    assert_eq!(SigSet::of(SIGINT).with(SIGTERM).without(SIGINT).first(), Some(SIGTERM));
    assert_eq!(name(SIGSEGV), Some("SIGSEGV"));
    assert_eq!(name(40), None);
}

#[test]
fn signals_without_siginfo_are_pending_once() {
    let mut pending = Pending::default();
    for signal in [0, 40, 40, SIGTERM, SIGSTOP, SIGCONT] {
        pending.add(signal, SigInfo::user(signal, 1, 2), false);
    }
    assert_eq!(pending.queue(SIGTERM, SigInfo::user(SIGTERM, 1, 2)), Ok(false));
    assert_eq!(pending.set(), SigSet::of(40).with(SIGTERM).with(SIGCONT));
    let taken: Vec<_> = core::iter::from_fn(|| pending.dequeue(SigSet::EMPTY)).collect();
    assert_eq!(taken.iter().map(|q| q.signal).collect::<Vec<_>>(), [SIGTERM, SIGCONT, 40]);
    assert!(taken.iter().all(|q| q.info == SigInfo::user(q.signal, 0, 0)));
}

#[test]
fn without_memory_only_what_came_with_a_signal_is_lost() {
    let mut pending = Pending::default();
    let queued = |signal, code| SigInfo { code, ..SigInfo::user(signal, 1, 2) };
    let mut queue = |signal, code| failing::at(0, || pending.queue(signal, queued(signal, code)));
    assert_eq!(queue(SIGTERM, SI_USER), (Ok(true), true));
    assert_eq!(queue(40, SI_USER), (Ok(true), true));
    assert_eq!(queue(SIGUSR1, SI_QUEUE), (Ok(true), true));
    assert_eq!(queue(41, SI_QUEUE), (Err(EAGAIN), true));
    assert_eq!(pending.set(), SigSet::of(40).with(SIGTERM).with(SIGUSR1));
    let taken: Vec<_> = core::iter::from_fn(|| pending.dequeue(SigSet::EMPTY)).collect();
    assert!(
        taken.iter().map(|q| q.info).eq([SIGUSR1, SIGTERM, 40].map(|s| SigInfo::user(s, 0, 0)))
    );
}

#[test]
fn defaults_are_those_of_linux() {
    let mut actions = Actions::with_ignored(SigSet::of(SIGINT).with(SIGKILL));
    assert_eq!(decide(SIGINT, &actions), Disposition::Ignore);
    assert_eq!(decide(SIGKILL, &actions), Disposition::Terminate { core: false });
    assert_eq!(decide(SIGSEGV, &actions), Disposition::Terminate { core: true });
    assert_eq!(decide(SIGCHLD, &actions), Disposition::Ignore);
    assert_eq!(decide(SIGTSTP, &actions), Disposition::Stop);
    assert_eq!(decide(SIGCONT, &actions), Disposition::Continue);
    assert_eq!(decide(40, &actions), Disposition::Terminate { core: false });
    actions.is_init = true;
    assert_eq!(decide(SIGSEGV, &actions), Disposition::Ignore);
    assert_eq!(
        decide_forced(SIGSEGV, &actions, SigSet::EMPTY),
        Disposition::Terminate { core: true }
    );
    assert!(!actions.ignores(SIGSEGV) && actions.ignores(SIGINT) && actions.ignores(SIGCHLD));
    actions.is_init = false;
    for bad in [0, 65, SIGKILL, SIGSTOP] {
        assert_eq!(actions.set(bad, caught(0)), Err(EINVAL));
    }
    assert_eq!(actions.set(SIGINT, caught(SA_RESETHAND)).map(|old| old.handler), Ok(SIG_IGN));
    assert_eq!(decide(SIGINT, &actions), Disposition::Handle(caught(SA_RESETHAND)));
    actions.on_handled(SIGINT);
    assert_eq!(decide(SIGINT, &actions), Disposition::Terminate { core: false });
    actions.on_handled(0);

    // a fault cannot be ignored or blocked
    actions.set(SIGSEGV, SigAction { handler: SIG_IGN, ..SigAction::DEFAULT }).unwrap();
    let core = Disposition::Terminate { core: true };
    assert_eq!(decide_forced(SIGSEGV, &actions, SigSet::EMPTY), core);
    actions.set(SIGSEGV, caught(0)).unwrap();
    assert_eq!(decide_forced(SIGSEGV, &actions, SigSet::of(SIGSEGV)), core);
    assert_eq!(decide_forced(SIGSEGV, &actions, SigSet::EMPTY), Disposition::Handle(caught(0)));

    actions
        .set(SIGHUP, SigAction { handler: SIG_IGN, flags: SA_RESTART, ..SigAction::DEFAULT })
        .unwrap();
    actions.on_exec();
    assert_eq!(actions.get(SIGSEGV), SigAction::DEFAULT);
    assert_eq!(actions.get(SIGHUP), SigAction { handler: SIG_IGN, ..SigAction::DEFAULT });
}

#[test]
fn a_handler_blocks_its_mask_and_its_own_signal() {
    let mask = SigSet::of(SIGTERM);
    assert_eq!(caught(0).mask_in_handler(SIGINT, mask), mask.with(SIGUSR1).with(SIGINT));
    assert_eq!(caught(SA_NODEFER).mask_in_handler(SIGINT, mask), mask.with(SIGUSR1));
    assert!(caught(SA_RESTART).restarts() && !caught(0).restarts());
}

#[test]
fn what_linux_is_told_of_a_disposition() {
    let ignored = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };
    for (signal, default, ignore, catch) in [
        (SIGTERM, Mirror::Forward, Mirror::Ignore, Mirror::Forward),
        (SIGSEGV, Mirror::Forward, Mirror::Ignore, Mirror::Forward),
        (SIGCHLD, Mirror::Default, Mirror::Ignore, Mirror::Forward),
        (SIGTSTP, Mirror::Default, Mirror::Ignore, Mirror::Forward),
        (SIGCONT, Mirror::Default, Mirror::Ignore, Mirror::Forward),
        (SIGKILL, Mirror::Default, Mirror::Default, Mirror::Default),
        (SIGSTOP, Mirror::Default, Mirror::Default, Mirror::Default),
        (40, Mirror::Forward, Mirror::Ignore, Mirror::Forward),
    ] {
        assert_eq!(mirror(signal, &SigAction::DEFAULT), default, "{signal}");
        assert_eq!(mirror(signal, &ignored), ignore, "{signal}");
        assert_eq!(mirror(signal, &caught(0)), catch, "{signal}");
    }
}

#[test]
fn signals_are_taken_in_the_order_of_linux() {
    let mut pending = Pending::default();
    for signal in [40, SIGTERM, SIGSEGV, 34, SIGINT, 40] {
        assert_eq!(pending.queue(signal, SigInfo::kernel(signal)), Ok(true));
    }
    assert_eq!(pending.queue(SIGTERM, SigInfo::kernel(SIGTERM)), Ok(false));
    let blocked = SigSet::of(34);
    assert!(pending.is_deliverable(blocked));
    let taken: Vec<u32> =
        core::iter::from_fn(|| pending.dequeue(blocked)).map(|q| q.signal).collect();
    assert_eq!(taken, [SIGSEGV, SIGINT, SIGTERM, 40, 40]);
    assert!(!pending.is_deliverable(blocked));
    assert_eq!(pending.set(), SigSet::of(34));
    pending.clear();
    assert_eq!(pending.dequeue(SigSet::EMPTY), None);
}

#[test]
fn signals_are_given_back_in_the_opposite_order_of_that_in_which_they_came() {
    let mut pending = Pending::default();
    for (pid, signal) in [40, SIGTERM, 40, SIGINT].into_iter().enumerate() {
        pending.queue(signal, SigInfo::user(signal, pid as u32, 0)).unwrap();
    }
    pending.add(SIGUSR1, SigInfo::default(), false); // without information
    let queued: Vec<_> = pending.queued().map(|q| q.info.fields[0]).collect();
    assert_eq!(queued, [0, 1, 2, 3]);
    let mut last = |blocked| pending.dequeue_last(blocked).map(|q| (q.signal, q.info.fields[0]));
    assert_eq!(last(SigSet::of(SIGINT)), Some((40, 2)));
    assert_eq!(last(SigSet::EMPTY), Some((SIGINT, 3)));
    assert_eq!(last(SigSet::EMPTY), Some((SIGTERM, 1)));
    assert_eq!(last(SigSet::EMPTY), Some((40, 0)));
    assert_eq!(last(SigSet::EMPTY), Some((SIGUSR1, 0)));
    assert_eq!(last(SigSet::EMPTY), None);
    assert!(pending.set().is_empty());
}

#[test]
fn stop_and_continue_cancel_each_other() {
    let mut pending = Pending::default();
    pending.queue(SIGTSTP, SigInfo::kernel(SIGTSTP)).unwrap();
    pending.queue(SIGCONT, SigInfo::kernel(SIGCONT)).unwrap();
    assert_eq!(pending.set(), SigSet::of(SIGCONT));
    pending.queue(SIGTTIN, SigInfo::kernel(SIGTTIN)).unwrap();
    assert_eq!(pending.set(), SigSet::of(SIGTTIN));
}

#[test]
fn a_full_queue_refuses_and_keeps_what_was_accepted() {
    let mut pending = Pending::new(2);
    let mut info = SigInfo::kernel(40);
    info.code = SI_QUEUE;
    assert_eq!(pending.queue(40, info), Ok(true));
    assert_eq!(pending.queue(40, info), Ok(true));
    assert_eq!(pending.queue(40, info), Err(EAGAIN));
    pending.add(41, info, true); // its sender has been told that it is queued
    assert_eq!(pending.queue(SIGINT, SigInfo { code: SI_TKILL, ..info }), Ok(true));
    assert_eq!(pending.queue(0, info), Err(EINVAL));
    let first = pending.dequeue(SigSet::EMPTY).unwrap();
    assert_eq!((first.signal, first.info), (SIGINT, SigInfo::user(SIGINT, 0, 0)));
    assert_eq!(pending.dequeue(SigSet::EMPTY).unwrap().info, info);
    assert_eq!(pending.dequeue(SigSet::EMPTY).unwrap().info, info);
    let added = pending.dequeue(SigSet::EMPTY).unwrap();
    assert_eq!((added.signal, added.info), (41, SigInfo::user(41, 0, 0)));
    assert_eq!(pending.dequeue(SigSet::EMPTY), None);
    pending.add(40, info, true);
    assert_eq!(pending.dequeue(SigSet::EMPTY).unwrap().info, info);
}

#[test]
fn queues_of_all_processes_of_a_user_have_one_limit() {
    let user = Arc::new(UserSignals::new());
    let (mut first, mut other) = (Pending::of_user(user.clone()), Pending::of_user(user.clone()));
    let mut info = SigInfo::kernel(40);
    info.code = SI_QUEUE;
    for queue in [&mut first, &mut other] {
        (0..MAX_QUEUED_SIGNALS / 2).for_each(|_| assert_eq!(queue.queue(40, info), Ok(true)));
    }
    assert_eq!(first.queue(41, info), Err(EAGAIN));
    assert_eq!(other.like().queue(41, info), Err(EAGAIN), "nor a third one");
    assert_eq!(Pending::of_user(Arc::default()).queue(41, info), Ok(true), "another user's");
    assert!(other.dequeue(SigSet::EMPTY).is_some() && first.queue(41, info) == Ok(true));
    first.discard(SigSet::of(40));
    assert_eq!(user.count(), MAX_QUEUED_SIGNALS / 2, "one of 41 in place of one of 40");
    drop(other);
    assert_eq!((user.count(), first.dequeue_last(SigSet::EMPTY).is_some()), (1, true));
    assert_eq!(user.count(), 0);
}

#[test]
fn standard_signals_keep_their_siginfo_without_room() {
    let user = Arc::new(UserSignals::new());
    let (mut full, mut other) = (Pending::of_user(user.clone()), Pending::of_user(user.clone()));
    let sent = |code| SigInfo { code, ..SigInfo::user(SIGUSR2, 7, 8) };
    for _ in 0..MAX_QUEUED_SIGNALS {
        assert_eq!(full.queue(40, sent(SI_QUEUE)), Ok(true));
    }
    for code in [SI_USER, SI_KERNEL, SI_TIMER] {
        for queue in [&mut full, &mut other] {
            assert_eq!(queue.queue(SIGUSR2, sent(code)), Ok(true));
            assert_eq!(queue.queue(SIGUSR2, sent(code)), Ok(false), "one of each");
        }
        assert_eq!(user.count(), MAX_QUEUED_SIGNALS + 2);
        for queue in [&mut full, &mut other] {
            assert_eq!(queue.dequeue(SigSet::EMPTY).map(|q| q.info), Some(sent(code)));
        }
    }
    assert_eq!(other.queue(40, sent(SI_USER)), Ok(true), "real-time: without its siginfo");
    for code in [SI_QUEUE, SI_TKILL] {
        assert_eq!(other.queue(SIGUSR2, sent(code)), Ok(true));
        let bare = SigInfo::user(SIGUSR2, 0, 0);
        assert_eq!(other.dequeue(SigSet::EMPTY).map(|q| q.info), Some(bare));
    }
    drop(full);
    assert_eq!(user.count(), 0);
}

#[test]
fn a_threads_own_signals_come_before_those_of_the_process() {
    let (mut own, mut shared) = (Pending::default(), Pending::default());
    shared.queue(SIGINT, SigInfo::kernel(SIGINT)).unwrap();
    own.queue(SIGTERM, SigInfo::kernel(SIGTERM)).unwrap();
    let mut next = || dequeue_thread(&mut own, &mut shared, SigSet::EMPTY).map(|q| q.signal);
    assert_eq!((next(), next(), next()), (Some(SIGTERM), Some(SIGINT), None));
}

#[test]
fn siginfo_lies_as_linux_lays_it() {
    let info = SigInfo::user(SIGINT, 0x1234, 1000);
    assert_eq!(SigInfo::from_words(&info.to_words()), info);
    let bytes = info.as_bytes();
    assert_eq!(bytes.len(), 128);
    assert_eq!(bytes[..4], 2i32.to_le_bytes());
    assert_eq!(bytes[16..20], 0x1234u32.to_le_bytes());
    assert_eq!(bytes[20..24], 1000u32.to_le_bytes());
    assert_eq!(SigInfo::fault(SIGSEGV, SEGV_MAPERR, 5).fields[0], 5);
}

#[test]
fn a_state_may_be_extended_if_all_marks_agree() {
    let marks = FpSwBytes::new(7, 832);
    assert_eq!(marks.extended_size, 836);
    assert!(marks.may_be_extended(832));
    assert!(!marks.may_be_extended(800));
    assert!(!FpSwBytes { magic1: 0, ..marks }.may_be_extended(832));
    assert!(!FpSwBytes { xstate_size: 575, ..marks }.may_be_extended(832));
    assert!(!FpSwBytes { extended_size: 831, ..marks }.may_be_extended(832));
}

#[test]
fn an_extended_state_needs_its_second_mark_to_be_readable() {
    let state = |marks: FpSwBytes, bytes: usize, magic2: u32| {
        let mut state = std::vec![0; bytes];
        state[SW_BYTES_OFFSET..SW_BYTES_OFFSET + 48].copy_from_slice(marks.as_bytes());
        if let Some(at) = state.get_mut(832..836) {
            at.copy_from_slice(&magic2.to_le_bytes());
        }
        state
    };
    let format = |state: &[u8], has_xsave| fpu_format(&Bytes(state.to_vec()), 0, has_xsave, 832);
    let (marks, some) = (FpSwBytes::new(7, 832), FpSwBytes::new(1, 832));
    let right = state(marks, 836, FP_XSTATE_MAGIC2);
    assert_eq!(format(&right, true), Ok(FpuFormat::Extended(7)));
    assert_eq!(format(&right, false), Ok(FpuFormat::Legacy));
    let some = state(some, 836, FP_XSTATE_MAGIC2);
    assert_eq!(format(&some, true), Ok(FpuFormat::Extended(1)));
    assert_eq!(format(&state(marks, 836, 0), true), Ok(FpuFormat::Legacy));
    assert_eq!(format(&state(marks, 832, 0), true), Err(Fault));
    assert_eq!(format(&state(FpSwBytes::default(), 512, 0), true), Ok(FpuFormat::Legacy));
    assert_eq!(format(&[0; 511], true), Err(Fault));
    assert_eq!(fpu_format(&Bytes(right), u64::MAX - 100, true, 832), Err(Fault));
}

#[test]
fn a_float_exception_is_told_by_its_first_unmasked_bit() {
    let mut state = [0u8; 64];
    assert_eq!(float_code(&state, true), None);
    (state[0], state[2]) = (0x7f, 0x04);
    assert_eq!(float_code(&state, true), None); // masked
    state[0] = 0x7b;
    assert_eq!(float_code(&state, true), Some(FPE_FLTDIV));
    state[24..26].copy_from_slice(&(0x1f80u16 & !(0x10 << 7) | 0x30).to_le_bytes());
    assert_eq!(float_code(&state, false), Some(FPE_FLTUND));
    assert_eq!(float_code(&[], false), None);
}

#[test]
fn a_frame_lies_below_the_red_zone_or_on_the_alternate_stack() {
    let alt = AltStack { sp: 0x10_0000, flags: 0, reserved: 0, size: 0x4000 };
    // on the normal stack
    let place = place_frame(0x7fff_0000, false, &alt, 832).unwrap();
    assert!(place.fpstate + 836 <= 0x7fff_0000 - RED_ZONE);
    assert_eq!((place.fpstate % 64, place.frame % 16), (0, 8));
    // onto the alternate stack
    let place = place_frame(0x7fff_0000, true, &alt, 832).unwrap();
    assert!(alt.holds(place.frame) && place.fpstate + 836 <= alt.sp + alt.size);
    // nested on the alternate stack: goes on below, until it is full
    let nested = place_frame(place.frame, true, &alt, 832).unwrap();
    assert!(nested.frame < place.frame && alt.holds(nested.frame));
    assert_eq!(place_frame(alt.sp + 1000, true, &alt, 832), None);
    let tiny = AltStack { size: 1024, ..alt };
    assert_eq!(place_frame(0x7fff_0000, true, &tiny, 832), None);
    // without one
    let place = place_frame(0x7fff_0000, true, &AltStack::DISABLED, 832).unwrap();
    assert!(place.frame > 0x7ffe_0000);
    assert_eq!(place_frame(100, false, &alt, 832), None);
    assert!(place_frame(100, true, &alt, 832).is_some());
    assert_eq!(AltStack::DISABLED.flags_at(5), SS_DISABLE);
    assert_eq!(alt.flags_at(alt.sp + 5), SS_ONSTACK);
    assert_eq!(alt.flags_at(alt.sp), 0);
    // SS_AUTODISARM: never "on" it by address
    let disarm = AltStack { flags: SS_AUTODISARM, ..alt };
    assert_eq!(disarm.flags_at(alt.sp + 5), SS_AUTODISARM);
}

proptest! {
    #[test]
    fn no_frame_lies_outside_its_stack(
        sp in any::<u64>(),
        on_alt in any::<bool>(),
        alt_sp in any::<u64>(),
        size in any::<u64>(),
        fpu in 512u64..16384,
    ) {
        let alt = AltStack { sp: alt_sp, flags: 0, reserved: 0, size };
        if let Some(place) = place_frame(sp, on_alt, &alt, fpu) {
            prop_assert_eq!((place.frame + 8) % 16, 0);
            prop_assert_eq!(place.fpstate % 64, 0);
            prop_assert!(place.frame + 440 <= place.fpstate);
        }
    }

    /// Against a plain list.
    #[test]
    fn pending_signals_are_as_a_list(ops in proptest::collection::vec((1u32..=64, any::<bool>(), any::<u64>()), 0..100)) {
        let mut pending = Pending::default();
        let mut model: Vec<QueuedSignal> = Vec::new();
        for (signal, queue, mask) in ops {
            if queue {
                let conflicts = |other: u32| (signal == SIGCONT && SigSet::STOP.contains(other))
                    || (SigSet::STOP.contains(signal) && other == SIGCONT);
                model.retain(|queued| !conflicts(queued.signal));
                let info = SigInfo::fault(signal, 1, mask);
                let fresh = signal >= SIGRTMIN || !model.iter().any(|queued| queued.signal == signal);
                if fresh {
                    model.push(QueuedSignal { signal, info });
                }
                prop_assert_eq!(pending.queue(signal, info), Ok(fresh));
            } else {
                let blocked = SigSet(mask);
                let rank = |q: &QueuedSignal| (!SigSet::SYNCHRONOUS.contains(q.signal), q.signal);
                let next = (0..model.len())
                    .filter(|&i| !blocked.contains(model[i].signal))
                    .min_by_key(|&i| (rank(&model[i]), i));
                let expected = next.map(|i| model.remove(i));
                prop_assert_eq!(pending.dequeue(blocked), expected);
            }
            let set = model.iter().fold(SigSet::EMPTY, |set, queued| set.with(queued.signal));
            prop_assert_eq!(pending.set(), set);
        }
    }
}

#[test]
fn linux_knows_what_becomes_of_children() {
    let action = SigAction { flags: SA_NOCLDWAIT | SA_RESTART, ..SigAction::DEFAULT };
    assert_eq!(mirror_flags(SIGCHLD, &action), SA_NOCLDWAIT);
    assert_eq!(mirror_flags(SIGUSR1, &action), 0);
}
