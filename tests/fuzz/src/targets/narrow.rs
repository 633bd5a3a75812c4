//! The filter that a worker has on Linux for a filter of its program.

use hanare_core::seccomp::worker::for_worker;
use hanare_core::seccomp::{ARCH, Data, Instruction, MAX_INSTRUCTIONS, Program, action};

use super::filter::{answer, as_input, call, programs, read};
use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "narrow", check, size_max: 600, seeds };

/// One more than the numbers that a narrowed filter may allow.
const NUMBERS: u32 = 512;
const DENIED: u32 = action::ERRNO | 1;
/// Load the lower half of where the call is made.
const READS_PLACE: Instruction = Instruction { code: 0x20, jump_true: 0, jump_false: 0, k: 8 };

/// Bits of the first byte of an input.
const MENDED: u8 = 1;
/// A filter that asks where the call is made has its place taken by one of numbers.
const BY_PLACE: u8 = 2;
/// So has one that is long: every sixteenth of those whose bit is set, since that takes time.
const LONG: u8 = 4;

fn seeds() -> Vec<Vec<u8>> {
    let mut head = [0; 67];
    head[7] = 1;
    let with = |flags| {
        move |program: Vec<Instruction>| {
            let mut head = head;
            head[0] = flags;
            as_input(&head, &program)
        }
    };
    let as_they_are = programs().into_iter().map(with(0));
    as_they_are.chain(programs().into_iter().map(with(BY_PLACE))).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    let descriptor = u32::from(input.u16());
    let data = call(&mut input);
    let mut program = read(input, flags & MENDED != 0);
    if flags & BY_PLACE != 0 {
        program.insert(0, READS_PLACE);
        program.insert(1, Instruction { code: 0x00, k: 0, ..READS_PLACE });
    }
    if flags & LONG != 0 && flags >> 4 == 0 {
        program.resize(MAX_INSTRUCTIONS, end(action::KILL_THREAD));
    }
    if Program::new(program.clone()).is_err() {
        return;
    }
    let filter = |program: &[Instruction]| {
        let worker = for_worker(program, descriptor, false).expect("there is memory");
        Program::new(worker).expect("Linux takes it")
    };
    let (worker, nothing) = (filter(&program), filter(&[end(action::KILL_PROCESS)]));
    // Numbers of which something can be said, the input's, and those that the program knows.
    let numbers = [data.number, data.number % NUMBERS, NUMBERS - 1, NUMBERS, 1 << 30, u32::MAX];
    let compared = program.iter().filter(|i| i.code & 7 == 5).map(|i| i.k).take(8);
    for number in numbers.into_iter().chain(compared) {
        let call = Data { number, ..data };
        same_or_narrower(&program, &worker, &nothing, &call);
    }
}

const fn end(answer: u32) -> Instruction {
    Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: answer }
}

/// `nothing`: the filter of a worker whose program may make no call.
fn same_or_narrower(program: &[Instruction], worker: &Program, nothing: &Program, call: &Data) {
    let (wanted, is) = (answer(program, call), worker.run(call));
    let own = nothing.run(call) == action::ALLOW;
    if call.arch == ARCH && own {
        return assert_eq!(is, action::ALLOW, "what a worker does itself: {call:?}");
    }
    let place = |i: &Instruction| i.code == 0x20 && matches!(i.k, 8 | 12);
    if !program.iter().any(place) && program.len() + 256 <= MAX_INSTRUCTIONS {
        return assert_eq!(is, wanted, "{program:?} {call:?}");
    }
    // Its numbers count, if not the filter itself still found room.
    if is == wanted && !program.iter().any(place) {
        return;
    }
    let allowed = matches!(wanted & action::MASK, action::ALLOW | action::LOG);
    if call.arch != ARCH {
        assert_eq!(is, action::KILL_PROCESS);
    } else if call.number >= NUMBERS {
        assert_eq!(is, DENIED, "{call:?}");
    } else if allowed {
        assert_eq!(is, action::ALLOW, "it may be made: {program:?} {call:?}");
    } else if by_number_alone(program) {
        assert_eq!(is, DENIED, "no call of that number may be made: {program:?} {call:?}");
    } else {
        assert!(is == DENIED || is == action::ALLOW);
    }
}

/// Whether nothing but a call's number decides, and nothing goes through the index register or
/// a cell. (A place may be read, if it is forgotten at once.)
fn by_number_alone(program: &[Instruction]) -> bool {
    let forgets = |at: usize| program.get(at + 1).is_some_and(|next| next.code == 0);
    program.iter().enumerate().all(|(at, i)| match i.code {
        0x20 => i.k < 8 || forgets(at),
        0x00 | 0x80 | 0x05 | 0x06 | 0x16 => true,
        code => matches!(code & 7, 4 | 5) && code & 8 == 0,
    })
}
