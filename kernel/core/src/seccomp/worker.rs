//! The filter that a worker has on Linux for a filter of its program.
//!
//! The LWK judges a program's calls itself. A program can have Linux write to what its proxy
//! consists of, though, and so have a worker make a call that no filter has judged: therefore Linux
//! has the filter too. In front of it stand the calls that a worker makes for the LWK, and that
//! give nothing to a program that may already use the CPU. By them a worker asks the module, maps
//! and unmaps memory that cannot be executed, makes threads and processes like itself, has signals
//! blocked and handled, asks for its identity, and ends.
//!
//! A filter with a listener (SECCOMP_RET_USER_NOTIF) notifies it on Linux, too, of what a worker
//! makes for its program as it is. Of what never comes to Linux, or stands in front of the filter,
//! the listener is told by a call that stands for it (`NR_NOTIFY`).

pub mod reach;

use alloc::vec::Vec;

use super::{ARCH, Instruction, MAX_INSTRUCTIONS, action, code};
use crate::errno::Result;
use crate::lists;
use hanare_abi::ioctl::*;
use hanare_abi::slot::NR_NOTIFY;
use linux_raw_sys::general::*;
use linux_raw_sys::prctl::*;

/// One more than any number that there is, with room for those to come.
const NR_END: u32 = 512;

/// Calls that may have any arguments.
const FREE: [u32; 38] = [
    __NR_futex,
    __NR_sched_yield,
    __NR_clock_gettime,
    __NR_nanosleep,
    __NR_restart_syscall,
    __NR_getpid,
    __NR_getppid,
    __NR_gettid,
    __NR_getuid,
    __NR_getgid,
    __NR_geteuid,
    __NR_getegid,
    __NR_capget,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_rt_sigreturn,
    __NR_rt_sigpending,
    __NR_rt_sigtimedwait,
    __NR_munmap,
    __NR_mremap,
    __NR_msync,
    __NR_mincore,
    __NR_madvise,
    __NR_exit,
    __NR_exit_group,
    __NR_arch_prctl,
    __NR_set_tid_address,
    __NR_set_robust_list,
    __NR_close,
    __NR_close_range,
    __NR_fstat,
    __NR_fstatfs,
    __NR_getrandom,
    __NR_io_destroy,
    __NR_timer_settime,
    __NR_timer_delete,
    __NR_sched_getattr,
    __NR_ioprio_get,
];

/// CLONE_PARENT and new namespaces.
const CLONE_ELSEWHERE: u32 = 0x7e02_8000;
const IPC_STAT: u32 = 2;
const O_PATH_CLOEXEC: u32 = 0o12_000_000;
const O_NOFOLLOW: u32 = 0o400_000;
const PERSONALITY_ASKED: u32 = u32::MAX;
const SET_MODE_FILTER: u32 = 1;
const NEW_LISTENER: u32 = 8;
/// The module's commands that a worker needs, all about its own process.
const COMMANDS: [u32; 22] = [
    IOCTL_WAIT,
    IOCTL_RING,
    IOCTL_WORKER,
    IOCTL_SERVE,
    IOCTL_SIGNAL,
    IOCTL_USAGE,
    IOCTL_START,
    IOCTL_DUMP,
    IOCTL_DUMP_THREAD,
    IOCTL_CHILD,
    IOCTL_OPENED,
    IOCTL_LISTED,
    IOCTL_EXECED,
    IOCTL_RIGHTS,
    IOCTL_SUCCEED,
    IOCTL_SHARE,
    IOCTL_LAST,
    IOCTL_SEND,
    IOCTL_COPY,
    IOCTL_FORWARD,
    IOCTL_EXECUTE,
    IOCTL_EVENTFD,
];
/// The options of prctl(2) that a worker needs, all about its own thread and process.
const PRCTLS: [u32; 7] = [
    PR_GET_DUMPABLE,
    PR_SET_DUMPABLE,
    PR_SET_NAME,
    PR_GET_SECCOMP,
    PR_SET_MM,
    PR_SET_NO_NEW_PRIVS,
    PR_GET_NO_NEW_PRIVS,
];

/// Question about a call's argument, which is counted from 0. Numbers and flags are compared by
/// their lower halves, as Linux takes them.
#[derive(Clone, Copy)]
enum Ask {
    Is(u32, u32),
    /// The descriptor of the device.
    IsControl(u32),
    /// All 64 bits of the argument are zero.
    IsNull(u32),
    /// The bits of the mask are those.
    Has(u32, u32, u32),
    /// No bit of the mask is set.
    HasNone(u32, u32),
    /// The argument is one of those: an instruction for each.
    OneOf(u32, &'static [u32]),
}
use Ask::{Has, HasNone, Is, IsControl, IsNull, OneOf};

/// Calls that may have such arguments as answer all questions of a line.
const BOUND: [(u32, &[Ask]); 21] = [
    (__NR_ioctl, &[IsControl(0), OneOf(1, &COMMANDS)]),
    // Anonymous memory, and the module's.
    (__NR_mmap, &[HasNone(2, PROT_EXEC), Has(3, MAP_ANONYMOUS, MAP_ANONYMOUS)]),
    (__NR_mmap, &[HasNone(2, PROT_EXEC), IsControl(4)]),
    (__NR_mprotect, &[HasNone(2, PROT_EXEC)]),
    // Threads and processes in the same namespaces.
    (__NR_clone, &[HasNone(0, CLONE_ELSEWHERE)]),
    (__NR_fcntl, &[Is(1, F_GETFD)]),
    (__NR_fcntl, &[Is(1, F_SETFD)]),
    (__NR_shmctl, &[Is(1, IPC_STAT)]),
    // Whether there is such a thread, or a file of that name.
    (__NR_tgkill, &[Is(2, 0)]),
    (__NR_tkill, &[Is(1, 0)]),
    // Whether a child is still there, for which another thread waits.
    (__NR_waitid, &[Has(3, WNOHANG | WNOWAIT, WNOHANG | WNOWAIT)]),
    (__NR_openat, &[OneOf(2, &[O_PATH_CLOEXEC, O_PATH_CLOEXEC | O_NOFOLLOW])]),
    (__NR_prctl, &[OneOf(0, &PRCTLS)]),
    (__NR_personality, &[Is(0, PERSONALITY_ASKED)]),
    // Limits are asked; three of one's own are set.
    (__NR_prlimit64, &[IsNull(2)]),
    (__NR_prlimit64, &[Is(0, 0), Is(1, RLIMIT_CPU)]),
    (__NR_prlimit64, &[Is(0, 0), Is(1, RLIMIT_STACK)]),
    (__NR_prlimit64, &[Is(0, 0), Is(1, RLIMIT_AS)]),
    // More filters.
    (__NR_seccomp, &[Is(0, SET_MODE_FILTER), HasNone(1, NEW_LISTENER)]),
    // Of the calling thread, as far as its user may.
    (__NR_sched_setattr, &[Is(0, 0)]),
    (__NR_ioprio_set, &[Is(1, 0)]),
];

const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const POINTER_AT: [u32; 2] = [8, 12];
/// Where the lower half of an argument lies in `struct seccomp_data`.
const fn argument_at(index: u32) -> u32 {
    16 + 8 * index
}

const fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, k }
}

const fn load(at: u32) -> Instruction {
    op(code::LD | code::ABS, at)
}

const fn jump(what: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code: code::JMP | what, jump_true, jump_false, k }
}

const fn end(answer: u32) -> Instruction {
    op(code::RET, answer)
}

/// Strict mode as a filter (seccomp(2)). Linux' own strict mode would forbid the worker's calls for
/// the LWK.
pub const STRICT: [Instruction; 10] = [
    load(ARCH_AT),
    jump(code::JEQ, ARCH, 1, 0),
    end(action::KILL_THREAD), // the numbers are others there
    load(NUMBER_AT),
    jump(code::JEQ, __NR_read, 3, 0),
    jump(code::JEQ, __NR_write, 2, 0),
    jump(code::JEQ, __NR_rt_sigreturn, 1, 0),
    jump(code::JEQ, __NR_exit, 0, 1),
    end(action::ALLOW),
    end(action::KILL_THREAD),
];

/// Where a wrong answer jumps to, until the end of its line is known.
const WRONG: u8 = u8::MAX;

/// Asks one question: a wrong answer jumps to [`WRONG`], a right one behind the question.
fn push_question(all: &mut Vec<Instruction>, question: Ask, control_fd: u32) {
    let is = |argument, value| [load(argument_at(argument)), jump(code::JEQ, value, 0, WRONG)];
    match question {
        Is(argument, value) => lists::extend_within(all, &is(argument, value)),
        IsControl(argument) => lists::extend_within(all, &is(argument, control_fd)),
        IsNull(argument) => {
            let [low, test] = is(argument, 0);
            lists::extend_within(all, &[low, test, load(argument_at(argument) + 4), test]);
        }
        Has(argument, mask, value) => lists::extend_within(
            all,
            &[
                load(argument_at(argument)),
                op(code::ALU | code::AND, mask),
                jump(code::JEQ, value, 0, WRONG),
            ],
        ),
        HasNone(argument, mask) => lists::extend_within(
            all,
            &[load(argument_at(argument)), jump(code::JSET, mask, WRONG, 0)],
        ),
        OneOf(argument, values) => {
            lists::push_within(all, load(argument_at(argument)));
            for (at, value) in values.iter().enumerate() {
                let behind = (values.len() - 1 - at) as u8;
                let otherwise = if behind == 0 { WRONG } else { 0 };
                lists::push_within(all, jump(code::JEQ, *value, behind, otherwise));
            }
        }
    }
}

/// One line of [`BOUND`], which is shorter than a jump can be long.
fn push_line(all: &mut Vec<Instruction>, number: u32, questions: &[Ask], control_fd: u32) {
    let start = all.len();
    lists::extend_within(all, &[load(NUMBER_AT), jump(code::JEQ, number, 0, WRONG)]);
    for question in questions {
        push_question(all, *question, control_fd);
    }
    lists::push_within(all, end(action::ALLOW));
    // A wrong answer leads behind the line.
    let length = all.len() - start;
    for (at, i) in all[start..].iter_mut().enumerate() {
        let over = (length - 1 - at) as u8;
        if i.code & code::CLASS == code::JMP {
            for to in [&mut i.jump_true, &mut i.jump_false] {
                if *to == WRONG {
                    *to = over;
                }
            }
        }
    }
}

/// Adds the instructions in front of a program's filter: fewer than [`OWN_MAX`].
fn push_own_calls(all: &mut Vec<Instruction>, control_fd: u32, listens: bool) {
    let notified = if listens { action::USER_NOTIF } else { action::ALLOW };
    lists::extend_within(all, &[load(NUMBER_AT), jump(code::JEQ, NR_NOTIFY, 0, 1), end(notified)]);
    for (at, number) in FREE.iter().enumerate() {
        lists::push_within(all, jump(code::JEQ, *number, (FREE.len() - at) as u8, 0));
    }
    lists::extend_within(all, &[op(code::JMP | code::JA, 1), end(action::ALLOW)]);
    for (number, questions) in BOUND {
        push_line(all, number, questions, control_fd);
    }
}

const OWN_MAX: usize = 256;

/// Whether a worker may make a call whatever its program's filter says, where the device has
/// descriptor `control_fd`.
#[must_use]
pub fn is_own(number: u32, args: &[u64; 6], control_fd: u32) -> bool {
    let low = |argument: u32| args[argument as usize] as u32;
    let holds = |question: &Ask| match *question {
        Is(argument, value) => low(argument) == value,
        IsControl(argument) => low(argument) == control_fd,
        IsNull(argument) => args[argument as usize] == 0,
        Has(argument, mask, value) => low(argument) & mask == value,
        HasNone(argument, mask) => low(argument) & mask == 0,
        OneOf(argument, values) => values.contains(&low(argument)),
    };
    FREE.contains(&number)
        || BOUND.iter().any(|(bound, all)| *bound == number && all.iter().all(holds))
}

/// The filter that a worker has for `program`, where the device has descriptor `control_fd`.
/// `listens`: it has a listener.
///
/// # Errors
/// `ENOMEM`.
pub fn for_worker(
    program: &[Instruction],
    control_fd: u32,
    listens: bool,
) -> Result<Vec<Instruction>> {
    let mut all = lists::with_room(OWN_MAX + program.len().max(BY_NUMBER_MAX))?;
    // Calls of another architecture are the program's filter's; it begins with empty registers.
    lists::extend_within(
        &mut all,
        &[load(ARCH_AT), jump(code::JEQ, ARCH, 1, 0), op(code::JMP | code::JA, 0)],
    );
    push_own_calls(&mut all, control_fd, listens);
    all[2].k = all.len() as u32 - 3;
    lists::extend_within(&mut all, &[op(code::LD | code::IMM, 0), op(code::MISC, 0)]);
    if program.iter().any(reads_pointer) || all.len() + program.len() > MAX_INSTRUCTIONS {
        push_by_number(&mut all, program, listens)?;
    } else {
        lists::extend_within(&mut all, program);
    }
    Ok(all)
}

const fn reads_pointer(i: &Instruction) -> bool {
    i.code == code::LD | code::ABS && (i.k == POINTER_AT[0] || i.k == POINTER_AT[1])
}

/// The filter by numbers, in place of one that asks where a call is made, which is elsewhere in the
/// worker, or of one that is too long to have anything in front of it. It allows the calls that the
/// program's filter may allow, whatever their arguments. A listener is notified of the calls of
/// which it may be notified. At most [`BY_NUMBER_MAX`] instructions.
fn push_by_number(
    all: &mut Vec<Instruction>,
    program: &[Instruction],
    listens: bool,
) -> Result<()> {
    let mut known = lists::filled(program.len() + 1, Known { round: 0, a: None })?;
    let mut may = |number| match listens {
        true if may_answer(program, number, is_notification, &mut known) => action::USER_NOTIF,
        _ if may_answer(program, number, is_permission, &mut known) => action::ALLOW,
        _ => DENIED,
    };
    lists::extend_within(
        all,
        &[load(ARCH_AT), jump(code::JEQ, ARCH, 1, 0), end(action::KILL_PROCESS), load(NUMBER_AT)],
    );
    let (mut answer, mut number) = (may(0), 0);
    while number < NR_END {
        let before = answer;
        while number < NR_END && answer == before {
            number += 1;
            answer = may(number);
        }
        lists::extend_within(all, &[jump(code::JGE, number, 1, 0), end(before)]);
    }
    lists::push_within(all, end(DENIED));
    Ok(())
}

const BY_NUMBER_MAX: usize = 5 + 2 * NR_END as usize;

/// `EPERM`.
const DENIED: u32 = action::ERRNO | 1;

/// Value of the accumulator on the way to an instruction, if it is known. The index register and
/// cells, which hardly any filter uses, count as unknown. So this is quick: a filter of 4,096
/// instructions is gone through 512 times.
#[derive(Clone, Copy)]
struct Known {
    /// For which number, and which answers; the instruction has not been come to for others.
    round: u32,
    /// Value of the accumulator; `None`: it depends on what is not known.
    a: Option<u32>,
}

/// Whether a filter answers call `number` by a notification, whatever its arguments and wherever it
/// is made.
///
/// # Errors
/// `ENOMEM`.
pub fn always_notifies(program: &[Instruction], number: u32) -> Result<bool> {
    let mut known = lists::filled(program.len() + 1, Known { round: 0, a: None })?;
    Ok(!may_answer(program, number, |answer| !is_notification(answer), &mut known))
}

const fn is_permission(answer: u32) -> bool {
    matches!(answer & action::MASK, action::ALLOW | action::LOG)
}

const fn is_notification(answer: u32) -> bool {
    answer & action::MASK == action::USER_NOTIF
}

/// Whether a filter gives such an answer to call `number` with some arguments, made somewhere.
/// `known` has room for what is known at each instruction and behind the last one.
fn may_answer(
    program: &[Instruction],
    number: u32,
    is_such: fn(u32) -> bool,
    known: &mut [Known],
) -> bool {
    let round = 2 * number + 1 + u32::from(is_such(action::USER_NOTIF));
    known[0] = Known { round, a: Some(0) };
    // Jumps go forwards only: what leads to an instruction has been seen before it.
    for (at, i) in program.iter().enumerate() {
        if known[at].round != round {
            continue;
        }
        let mut a = known[at].a;
        let operand = if i.code & code::X == 0 { Some(i.k) } else { None };
        let (mut next, mut other) = (Some(at + 1), None);
        match i.code & code::CLASS {
            code::LD => {
                a = match i.code & 0xe0 {
                    code::ABS if i.k == NUMBER_AT => Some(number),
                    code::ABS if i.k == ARCH_AT => Some(ARCH),
                    code::ABS | code::MEM => None,
                    code::LEN => Some(super::DATA_BYTES),
                    _ => Some(i.k),
                }
            }
            code::LDX | code::ST | code::STX => {}
            code::ALU => a = a.zip(operand).and_then(|(a, b)| super::calculate(i.code, a, b)),
            code::JMP if i.code & 0xf0 == code::JA => next = Some(at + 1 + i.k as usize),
            code::JMP => match a.zip(operand) {
                Some((a, b)) => next = Some(at + 1 + super::skipped(*i, a, b)),
                None => {
                    (next, other) =
                        (Some(at + 1 + i.jump_true as usize), Some(at + 1 + i.jump_false as usize))
                }
            },
            code::RET => {
                let answer = if i.code & code::A == 0 { Some(i.k) } else { a };
                if answer.is_none_or(is_such) {
                    return true;
                }
                continue;
            }
            _ if i.code & code::TXA == 0 => {}
            _ => a = None,
        }
        for to in [next, other].into_iter().flatten() {
            let both = if known[to].round == round && known[to].a != a { None } else { a };
            known[to] = Known { round, a: both };
        }
    }
    false
}

#[cfg(test)]
mod tests;
