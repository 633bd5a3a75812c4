use super::*;
use crate::seccomp::{Data, Program};
use alloc::vec;

const CONTROL: u32 = 4095;
const NOWHERE: u64 = 0x1234;

fn with(program: &[Instruction]) -> Program {
    Program::new(for_worker(program, CONTROL, false).unwrap()).unwrap()
}

fn ask(program: &Program, number: u32, args: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    program.run(&Data { number, arch: ARCH, instruction: NOWHERE, args: all })
}

/// Whether a worker may make the call where its program may make none.
fn own(number: u32, args: &[u64]) -> bool {
    ask(&with(&[end(action::KILL_PROCESS)]), number, args) == action::ALLOW
}

#[test]
fn what_a_forged_slot_reaches_has_its_line() {
    assert_eq!(reach::differences(), (0, 0), "missing, and of what is not reached");
    let lines = |number| reach::OF_CALLS.iter().filter(|line| line.number == number).count();
    // Arguments that are asked for somewhere, in every place.
    let bound = BOUND.iter().flat_map(|(_, asks)| asks.iter());
    let mut values: Vec<u64> = bound
        .flat_map(|ask| match *ask {
            Ask::Is(_, value) | Ask::Has(_, _, value) => vec![u64::from(value)],
            Ask::IsControl(_) => vec![u64::from(CONTROL)],
            Ask::OneOf(_, values) => values.iter().map(|&value| u64::from(value)).collect(),
            Ask::IsNull(_) | Ask::HasNone(..) => vec![0],
        })
        .collect();
    values.sort_unstable();
    values.dedup();
    let program = with(&[end(action::KILL_PROCESS)]);
    for number in 0..NR_END {
        let passes = values.iter().any(|&a| {
            [[a; 6], [0, a, 0, 0, 0, 0], [u64::from(CONTROL), a, 0, 0, 0, 0]]
                .iter()
                .any(|args| ask(&program, number, args) == action::ALLOW)
        });
        assert!(!passes || lines(number) == 1, "{number} passes and has no line");
    }
}

#[test]
fn what_a_worker_does_for_the_lwk_passes_every_filter() {
    for number in FREE {
        assert!(own(number, &[u64::MAX; 6]), "{number}");
    }
    let ioctl = u64::from(hanare_abi::ioctl::IOCTL_WAIT);
    let passes: [(u32, &[u64]); 22] = [
        (__NR_ioctl, &[4095, ioctl]),
        (__NR_mmap, &[0, 4096, 3, 0x22, u64::MAX]),
        (__NR_mmap, &[0x1_0000, 4096, 3, 0x4011, 4095]),
        (__NR_mprotect, &[0, 4096, 3]),
        (__NR_clone, &[0x3d_0f00]),
        (__NR_clone, &[17]),
        (__NR_fcntl, &[3, 1]),
        (__NR_fcntl, &[3, 2, 1]),
        (__NR_shmctl, &[1, 2]),
        (__NR_tgkill, &[1, 2, 0]),
        (__NR_openat, &[0, 1, 0o12_000_000]),
        (__NR_prctl, &[3]),
        (__NR_prctl, &[4, 1]),
        (__NR_prctl, &[15, 1]),
        (__NR_prctl, &[39]),
        (__NR_personality, &[0xffff_ffff]),
        (__NR_prlimit64, &[77, 7, 0, 1]),
        (__NR_prlimit64, &[0, 0, 1]),
        (__NR_prlimit64, &[0, 9, 1]),
        (__NR_seccomp, &[1, 1]),
        (__NR_sched_setattr, &[0, 1]),
        (__NR_ioprio_set, &[1, 0]),
    ];
    for (number, args) in passes {
        assert!(own(number, args), "{number} {args:x?}");
    }
}

#[test]
fn what_a_worker_does_not_need_is_left_to_the_filter() {
    let ioctl = u64::from(hanare_abi::ioctl::IOCTL_WAIT);
    let stays: [(u32, &[u64]); 19] = [
        (__NR_ioctl, &[3, ioctl]),
        (__NR_ioctl, &[4095, 0x5412]), // TIOCSTI
        (__NR_mmap, &[0, 4096, 7, 0x22, u64::MAX]),
        (__NR_mmap, &[0, 4096, 1, 2, 3]),
        (__NR_mmap, &[0, 4096, 5, 1, 4095]),
        (__NR_mprotect, &[0, 4096, 4]),
        (__NR_clone, &[0x1000_0000 | 17]),
        (__NR_clone, &[0x8000]),
        (__NR_fcntl, &[3, 0]),
        (__NR_tgkill, &[1, 2, 9]),
        (__NR_openat, &[0, 1, 0]),
        (__NR_openat, &[0, 1, 0o12_000_001]),
        (__NR_prctl, &[22, 2]),
        (__NR_personality, &[0]),
        (__NR_prlimit64, &[0, 7, 1]),
        (__NR_prlimit64, &[5, 9, 1]),
        (__NR_prlimit64, &[5, 9, 1 << 32]),
        (__NR_seccomp, &[1, 8]),
        (__NR_sched_setattr, &[7, 1]),
    ];
    for (number, args) in stays {
        assert!(!own(number, args), "{number} {args:x?}");
    }
    let named: Vec<u32> = FREE.into_iter().chain(BOUND.map(|(number, _)| number)).collect();
    for number in (0..2 * NR_END).filter(|n| !named.contains(n)) {
        assert!(!own(number, &[0; 6]), "{number}");
        assert!(!own(number | 1 << 30, &[0; 6]), "{number} of x32");
    }
    let other = Data { number: __NR_getpid, arch: 0x4000_0003, instruction: 0, args: [0; 6] };
    assert_eq!(with(&[end(action::KILL_PROCESS)]).run(&other), action::KILL_PROCESS);
}

/// The filter lets the commands of a worker pass, on the device's descriptor, and no other number.
#[test]
fn only_a_workers_commands_reach_the_module() {
    let worker = with(&[end(action::KILL_PROCESS)]);
    let mut passed = Vec::new();
    for low in 0..1u64 << 16 {
        for (direction, size) in [(0, 0)].into_iter().chain((0..1 << 10).map(|size| (3, size))) {
            // Whatever its type the number of a command is never another's.
            if low >> 8 != u64::from(IOCTL_TYPE) && size % 64 != 0 {
                continue;
            }
            let command = direction << 30 | size << 16 | low;
            if ask(&worker, __NR_ioctl, &[CONTROL.into(), command, 7]) == action::ALLOW {
                passed.push(command as u32);
            }
        }
    }
    passed.sort_unstable();
    let mut expected = COMMANDS;
    expected.sort_unstable();
    assert_eq!(passed, expected);
    for manages in [
        IOCTL_DEBUG,
        IOCTL_SHUTDOWN,
        IOCTL_PROCESS,
        IOCTL_THREADS,
        IOCTL_END,
        IOCTL_LOG,
        IOCTL_OBSERVE,
    ] {
        assert!(!expected.contains(&manages));
    }
}

#[test]
fn a_programs_call_gets_its_filters_answer() {
    let by_argument = [
        load(NUMBER_AT),
        jump(code::JEQ, 257, 0, 3),
        load(argument_at(2)),
        jump(code::JEQ, 5, 0, 1),
        end(action::ALLOW),
        end(action::ERRNO | 7),
    ];
    let registers = [jump(code::JEQ, 0, 0, 1), end(action::ERRNO | 1), end(action::ERRNO | 2)];
    let index = [
        op(code::MISC | code::TXA, 0),
        jump(code::JEQ, 0, 0, 1),
        end(action::ERRNO | 3),
        end(action::ERRNO | 4),
    ];
    for filter in [&by_argument[..], &registers, &index] {
        let (alone, worker) = (Program::new(filter.to_vec()).unwrap(), with(filter));
        for number in [0, 2, 59, 257, 500] {
            for third in [0, 5, 6] {
                let args = [1, 2, third];
                assert_eq!(
                    ask(&worker, number, &args),
                    ask(&alone, number, &args),
                    "{number} {third}"
                );
            }
        }
    }
}

/// Questions are answered alike by `is_own` and by the filter.
#[test]
fn what_is_a_workers_own_is_what_passes_its_filter() {
    let worker = with(&[end(action::KILL_PROCESS)]);
    let ioctl = u64::from(IOCTL_WAIT);
    let words = [0, 1, 2, 3, 8, 0x22, 16, 38, ioctl, 0x5401, 0o12_000_000, 4095, 1 << 32, u64::MAX];
    for number in 0..NR_END {
        for (at, &word) in words.iter().enumerate() {
            for &other in &words[at..] {
                for place in 0..6 {
                    let mut args = [word; 6];
                    args[place] = other;
                    let passes = ask(&worker, number, &args) == action::ALLOW;
                    assert_eq!(is_own(number, &args, CONTROL), passes, "{number} {args:x?}");
                }
            }
        }
    }
}

#[test]
fn a_listener_is_told_by_a_call_that_does_not_exist() {
    let refuses = [end(action::KILL_PROCESS)];
    assert_eq!(ask(&with(&refuses), NR_NOTIFY, &[7]), action::ALLOW, "as Linux answers: ENOSYS");
    let listens = Program::new(for_worker(&refuses, CONTROL, true).unwrap()).unwrap();
    assert_eq!(ask(&listens, NR_NOTIFY, &[7]), action::USER_NOTIF);
    assert_eq!(ask(&listens, __NR_mkdir, &[7]), action::KILL_PROCESS);
    assert_eq!(ask(&listens, __NR_futex, &[7]), action::ALLOW);
    for number in (0..2 * NR_END).chain([u32::MAX]) {
        assert!(number != NR_NOTIFY);
    }
}

#[test]
fn of_a_filter_that_asks_where_a_listener_is_told_of_numbers() {
    // dup with some arguments, mkdir from one place; write is allowed.
    let filter = [
        load(NUMBER_AT),
        jump(code::JEQ, 1, 6, 0),
        jump(code::JEQ, 32, 3, 0),
        jump(code::JEQ, 83, 0, 5),
        load(POINTER_AT[0]),
        jump(code::JEQ, 0xbeef, 1, 3),
        load(argument_at(0)),
        end(action::USER_NOTIF),
        end(action::ALLOW),
        end(action::ERRNO | 5),
    ];
    let worker = |listens| Program::new(for_worker(&filter, CONTROL, listens).unwrap()).unwrap();
    for (number, told, untold) in [
        (1, action::ALLOW, action::ALLOW),
        (32, action::USER_NOTIF, DENIED),
        (83, action::USER_NOTIF, DENIED),
        (2, DENIED, DENIED),
    ] {
        assert_eq!(ask(&worker(true), number, &[]), told, "{number}");
        assert_eq!(ask(&worker(false), number, &[]), untold, "{number}");
    }
}

#[test]
fn what_depends_on_arguments_is_not_always_notified() {
    let filter = [
        load(NUMBER_AT),
        jump(code::JEQ, 59, 4, 0),
        jump(code::JEQ, 2, 0, 4),
        load(argument_at(5)),
        jump(code::JEQ, 7, 1, 2),
        end(action::KILL_PROCESS),
        end(action::USER_NOTIF),
        end(action::ALLOW),
    ];
    for (number, always) in [(59, true), (2, false), (3, false)] {
        assert_eq!(always_notifies(&filter, number), Ok(always), "{number}");
    }
}

#[test]
fn strict_mode_knows_four_calls() {
    let strict = Program::new(STRICT.to_vec()).unwrap();
    let allowed: Vec<u32> =
        (0..NR_END).filter(|n| ask(&strict, *n, &[]) == action::ALLOW).collect();
    assert_eq!(allowed, [0, 1, __NR_rt_sigreturn, __NR_exit]);
    assert_eq!(ask(&strict, 2, &[]), action::KILL_THREAD);
}

#[test]
fn where_a_call_is_made_is_left_open() {
    // write from one place, read and write from anywhere, dup with some argument.
    let filter = [
        load(NUMBER_AT),
        jump(code::JEQ, 0, 7, 0),
        jump(code::JEQ, 32, 4, 0),
        jump(code::JEQ, 1, 1, 0),
        end(action::KILL_PROCESS),
        load(POINTER_AT[0]),
        jump(code::JEQ, 0xbeef, 0, 3),
        load(argument_at(0)),
        jump(code::JEQ, 7, 0, 1),
        end(action::ALLOW),
        end(action::ERRNO | 5),
    ];
    assert_eq!(ask(&Program::new(filter.to_vec()).unwrap(), 1, &[7]), action::ERRNO | 5);
    let worker = with(&filter);
    for (number, answer) in [
        (0, action::ALLOW),
        (1, action::ALLOW),
        (32, action::ALLOW),
        (2, DENIED),
        (59, DENIED),
        (600, DENIED),
    ] {
        assert_eq!(ask(&worker, number, &[]), answer, "{number}");
    }
}

#[test]
fn of_a_filter_that_leaves_no_room_the_numbers_count() {
    let room = MAX_INSTRUCTIONS - for_worker(&[], CONTROL, false).unwrap().len();
    let filter = [
        load(argument_at(0)),
        jump(code::JEQ, 5, 0, 3),
        load(NUMBER_AT),
        jump(code::JEQ, 2, 0, 1),
        end(action::ALLOW),
    ];
    for (length, other_argument) in [(room, action::KILL_PROCESS), (room + 1, action::ALLOW)] {
        let mut long = filter.to_vec();
        long.resize(length, end(action::KILL_PROCESS));
        let worker = with(&long);
        assert_eq!(ask(&worker, 2, &[5]), action::ALLOW);
        assert_eq!(ask(&worker, 2, &[6]), other_argument);
        assert_ne!(ask(&worker, 59, &[5]), action::ALLOW);
    }
    assert!(with(&vec![end(action::ALLOW); MAX_INSTRUCTIONS]).len() <= MAX_INSTRUCTIONS);
    assert!(MAX_INSTRUCTIONS - room < OWN_MAX, "{}", MAX_INSTRUCTIONS - room);
}

#[test]
fn what_is_not_known_is_allowed() {
    // By way of the index register, a cell, and a sum: each allows call 2 alone.
    let compare = [jump(code::JEQ, 2, 0, 1), end(action::ALLOW), end(action::KILL_PROCESS)];
    let first = [load(POINTER_AT[0]), load(NUMBER_AT)];
    let by_index = [op(code::MISC, 0), op(code::LD | code::IMM, 9), op(code::MISC | code::TXA, 0)];
    let by_cell = [op(code::ST, 3), op(code::LD | code::IMM, 9), op(code::LD | code::MEM, 3)];
    let by_sum = [op(code::ALU | code::ADD, 1), op(code::ALU | code::SUB, 1)];
    for (way, others) in
        [(&by_index[..], action::ALLOW), (&by_cell, action::ALLOW), (&by_sum, DENIED)]
    {
        let filter: Vec<Instruction> = first.iter().chain(way).chain(&compare).copied().collect();
        let worker = with(&filter);
        assert_eq!(ask(&worker, 2, &[]), action::ALLOW);
        assert_eq!(ask(&worker, 59, &[]), others);
    }
}

#[test]
fn without_memory_there_is_no_filter() {
    let asks_where = [load(POINTER_AT[0]), end(action::ALLOW)];
    for program in [&asks_where[..], &STRICT] {
        let count = crate::lists::failing::each(|| {
            let filter = for_worker(program, CONTROL, false)?;
            Program::new(filter).map(drop)
        });
        assert!(count >= 2);
    }
}
