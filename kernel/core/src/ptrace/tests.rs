use super::*;

#[test]
fn a_stop_is_told_as_linux_tells_it() {
    assert_eq!(Stop::Entry.status(false), 5);
    assert_eq!(Stop::Exit.status(true), 0x85);
    assert_eq!(Stop::Event(event::EXEC, 7).status(true), 0x405);
    assert_eq!(Stop::Event(event::EXEC, 7).message(), 7);
    assert_eq!(stopped(0x057f), Some(Stopped { signal: 5, event: 0 }));
    assert_eq!(stopped(0x0080_057f), Some(Stopped { signal: 5, event: 0x80 }));
    assert_eq!(stopped(0x0b), None);
    assert_eq!(stopped(0x0300), None);
}

#[test]
fn privileges_are_not_to_be_had() {
    let mut regs = [0; USER_REGS];
    regs[index::EFLAGS] = 0x202;
    set_word(&mut regs, index::EFLAGS, !0).unwrap();
    // Neither IOPL nor the interrupt flag.
    assert_eq!(regs[index::EFLAGS] & 0x3000, 0);
    assert_eq!(regs[index::EFLAGS] & 0x202, 0x202);
    set_word(&mut regs, index::EFLAGS, 0).unwrap();
    assert_eq!(regs[index::EFLAGS], 0x202);
    assert_eq!(set_word(&mut regs, index::CS, 0x10), Err(EIO));
    assert_eq!(set_word(&mut regs, index::SS, 0), Err(EIO));
    assert_eq!(set_word(&mut regs, index::DS, 0x1_002b), Ok(()));
    // A selector has 16 bits. What no CPU takes is seen when it is about to.
    for (cs, enters) in [(0x1_0033, true), (0x23, false), (0x2b, false), (0xffff, false)] {
        assert_eq!(set_word(&mut regs, index::CS, cs), Ok(()));
        assert_eq!(regs[index::CS], cs & 0xffff);
        assert_eq!(enters_user_mode(regs[index::CS], 0x2b), enters);
        assert!(!enters_user_mode(0x33, 0x33));
    }
    assert_eq!(set_word(&mut regs, index::FS_BASE, 1 << 47), Err(EIO));
    assert_eq!(set_word(&mut regs, index::GS_BASE, 0x1000), Ok(()));
    assert_eq!(set_word(&mut regs, USER_REGS, 0), Err(EIO));
    assert_eq!(user_offset(4), Err(EIO));
    assert_eq!(user_offset(USER_BYTES), Err(EIO));
    assert_eq!(user_offset(USER_BYTES - 8), Ok(USER_BYTES - 8));
}

#[test]
fn states_that_the_cpu_refuses() {
    let mut state = [0; 1024];
    assert_eq!(check_xsave(&state, 7), Ok(()));
    state[FXSAVE] = 8;
    assert_eq!(check_xsave(&state, 7), Err(EINVAL));
    state[FXSAVE] = 7;
    state[FXSAVE + 8] = 1;
    assert_eq!(check_xsave(&state, 7), Err(EINVAL));
    state[FXSAVE + 8] = 0;
    state[27] = 1;
    assert_eq!(check_xsave(&state, 7), Err(EINVAL));
    assert_eq!(check_fxsave(&state[..512]), Err(EINVAL));
    assert_eq!(check_fxsave(&state[..20]), Err(EINVAL));
}

#[test]
fn what_a_call_is() {
    let mut regs = [0; USER_REGS];
    (regs[index::ORIG_RAX], regs[14], regs[8], regs[index::RAX]) = (39, 1, 6, -38i64 as u64);
    let (bytes, size) = syscall_info(Stop::Entry, true, &regs);
    assert_eq!((bytes[0], size, bytes[24], bytes[32], bytes[72]), (1, 80, 39, 1, 6));
    let (bytes, size) = syscall_info(Stop::Exit, true, &regs);
    assert_eq!((bytes[0], size, bytes[32]), (2, 33, 1));
    assert_eq!(syscall_info(Stop::Exit, false, &regs).1, 24);
    let (bytes, size) = syscall_info(Stop::Event(event::SECCOMP, 0x1234), false, &regs);
    assert_eq!(
        (bytes[0], size, bytes[24], bytes[72], &bytes[80..84]),
        (3, 84, 39, 6, &[0x34, 0x12, 0, 0][..])
    );
    assert_eq!(syscall_info(Stop::Event(event::EXIT, 0), true, &regs).1, 24);
}

#[test]
fn signals_that_wait_are_asked_for_in_two_parts() {
    let args = PeekSigInfo::new([3, 1 | 5 << 32]).unwrap();
    assert_eq!(args, PeekSigInfo { first: 3, is_shared: true, count: 5 });
    assert_eq!(args.words(), [3, 1 | 5 << 32]);
    // Four wait here: one of them was asked for, the rest are Linux' from its first on.
    assert_eq!(args.of_linux(1, 4).words(), [0, 1 | 4 << 32]);
    assert_eq!(args.of_linux(0, 1).words(), [2, 1 | 5 << 32]);
    assert_eq!(PeekSigInfo::new([u64::MAX, 0]).unwrap().of_linux(0, 7).first, u64::MAX - 7);
    assert_eq!(PeekSigInfo::new([0, 2]), Err(EINVAL));
    assert_eq!(PeekSigInfo::new([0, 0xffff_ffff << 32]), Err(EINVAL));
}

/// A process whose thread `OLD` is traced and replaces the program, so that `NEW` goes on for it,
/// while its tracer lets `OLD` go. What `tracee::begin`, `tracee::end` and `Process::list` do to
/// it, section by section.
#[derive(Clone, Copy)]
struct Traced {
    is_traced: [bool; 2],
    is_listed: [bool; 2],
    flag: bool,
    /// Whether `end` has found a traced thread, between its two sections.
    found: bool,
}

const OLD: usize = 0;
const NEW: usize = 1;

type Section = fn(&mut Traced);

impl Traced {
    fn is_any(&self) -> bool {
        (0..2).any(|i| self.is_traced[i] && self.is_listed[i])
    }

    /// Every order of the sections of two threads; whether after one of them a thread is traced and
    /// the flag is off.
    fn goes_wrong(self, a: &[Section], b: &[Section]) -> bool {
        if a.is_empty() && b.is_empty() {
            return self.is_any() && !self.flag;
        }
        let first = |sections: &[Section]| {
            let mut next = self;
            sections[0](&mut next);
            next
        };
        !a.is_empty() && first(a).goes_wrong(&a[1..], b)
            || !b.is_empty() && first(b).goes_wrong(a, &b[1..])
    }
}

#[test]
fn the_flag_is_on_while_a_thread_is_traced() {
    let start =
        Traced { is_traced: [true, false], is_listed: [true, false], flag: true, found: false };
    let begin: Section = |t| (t.is_traced[NEW], t.flag) = (true, true);
    let list: Section = |t| {
        t.is_listed[NEW] = true;
        t.flag |= t.is_traced[NEW];
    };
    let end: Section = |t| {
        t.is_traced[OLD] = false;
        t.flag = t.is_any();
    };
    let leave: Section = |t| t.is_listed[OLD] = false;
    assert!(!start.goes_wrong(&[begin, list, leave], &[end]), "as the kernel does it");

    let list_only: Section = |t| t.is_listed[NEW] = true;
    assert!(start.goes_wrong(&[begin, list_only, leave], &[end]), "who lists has to look");
    // Without one lock for all: looked for, switched off, looked for again, switched on.
    let apart: [Section; 5] = [
        |t| t.is_traced[OLD] = false,
        |t| t.found = t.is_any(),
        |t| t.flag &= t.found,
        |t| t.found = t.is_any(),
        |t| t.flag |= t.found,
    ];
    assert!(start.goes_wrong(&[begin, list_only, leave], &apart), "as it was");
}

#[test]
fn signals_given_in_a_call_are_taken_in_the_order_of_linux() {
    use crate::signal::{SIGSEGV, SIGUSR1, SIGUSR2};
    for (given, taken) in [
        ([0, 0], [0, 0]),
        ([SIGUSR1, 0], [SIGUSR1, 0]),
        ([0, SIGUSR1], [0, SIGUSR1]),
        ([SIGUSR1, SIGUSR2], [SIGUSR1, SIGUSR2]),
        ([SIGUSR2, SIGUSR1], [SIGUSR1, SIGUSR2]),
        ([SIGUSR1, SIGSEGV], [SIGSEGV, SIGUSR1]),
        ([SIGUSR1, SIGUSR1], [SIGUSR1, 0]),
        ([40, 40], [40, 40]),
        ([40, 39], [39, 40]),
    ] {
        assert_eq!(in_order(given[0], given[1]), taken, "{given:?}");
    }
}
