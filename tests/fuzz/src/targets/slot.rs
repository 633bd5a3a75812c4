//! A slot, which a proxy can write: control requests and answers, whatever lies there.

use hanare_abi::control::{CONTROL_MAP_PART, Control};
use hanare_abi::slot::{SLOT_ANSWERED, SLOT_ASKED, SLOT_CONTROL, SLOT_NOT_STARTED, Slot};
use hanare_core::errno::Errno;
use hanare_core::link::{Outcome, Returns};
use hanare_core::syscalls::Restart;
use hanare_ikc::{Answer, Asked, SlotRef};

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "slot", check, size_max: 96, seeds };

const RESTARTS: [Restart; 5] =
    [Restart::Never, Restart::Sys, Restart::NoHand, Restart::Block, Restart::Interrupted];

/// Every request with fields of zeros, of small numbers and of large ones; and each answer.
fn seeds() -> Vec<Vec<u8>> {
    let seed = |state: u32, nr: u32, word: u64, result: i64| {
        let mut seed = [state.to_le_bytes(), nr.to_le_bytes()].concat();
        (0..6).for_each(|_| seed.extend_from_slice(&word.to_le_bytes()));
        seed.extend_from_slice(&result.to_le_bytes());
        seed
    };
    let requests = (0..=CONTROL_MAP_PART)
        .flat_map(|nr| [0, 1, 1 << 32].map(|word| seed(SLOT_CONTROL, nr, word, 0)));
    let answers = [0, -4, -22, -4096, 1].map(|result| seed(4, 39, 0, result));
    requests.chain(answers).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let (state, nr) = (input.u32(), input.u32());
    let args: [u64; 6] = std::array::from_fn(|_| input.u64());
    let result = input.u64() as i64;
    request(&Asked { is_control: true, nr, args });
    let mut slot = Slot {
        state,
        nr,
        args,
        result,
        lwk_wait: input.u32(),
        bell: 0,
        poll_us: 0,
        reserved0: 0,
        sigmask: 0,
        robust_list: 0,
        reserved1: [0; 4],
        worker_wait: input.u32(),
        tid: input.u32(),
        doorbell: 0,
        interrupted: input.u32(),
        ended_by_signal: 0,
        server: 0,
        reserved3: [0; 13],
    };
    // SAFETY: the slot is there longer than this, and no other code looks at it.
    let slot = unsafe { SlotRef::from_raw(&raw mut slot) };
    match slot.worker_poll() {
        None => assert_eq!(state & SLOT_ASKED, 0),
        Some(kind) => {
            let asked = slot.worker_takes(kind);
            assert_eq!((asked.nr, asked.args, asked.is_control), (nr, args, state == SLOT_CONTROL));
            assert!(asked.is_control || asked.request().is_none());
        }
    }
    let _ = (slot.worker_is_awake(), slot.lwk_is_awake(), slot.tid(), slot.server());
    match slot.lwk_poll() {
        None => assert!(state & SLOT_ANSWERED == 0),
        Some(answer) => {
            let expected = match state {
                SLOT_NOT_STARTED => Answer::NotStarted,
                _ => Answer::Done(result),
            };
            assert_eq!(answer, expected);
            assert!(slot.is_idle() && slot.lwk_poll().is_none(), "an answer is taken once");
        }
    }
    outcome(result);
    slot.lwk_reset();
    assert!(slot.is_idle() && slot.worker_is_awake() && slot.lwk_is_awake());
}

/// Checks that a request is written as it was read, so no two words mean the same.
fn request(asked: &Asked) {
    let Some(request) = asked.request() else { return };
    assert_eq!(request.encode(), (asked.nr, asked.args), "{request:?}");
    assert_eq!(Control::decode(asked.nr, &asked.args), Some(request));
}

fn outcome(result: i64) {
    let failed = Errno::from_return(result);
    for restart in RESTARTS {
        match Outcome::Done(result).of_call(restart) {
            Returns::Value(value) => assert!(failed.is_none() && value as i64 == result),
            Returns::Error(error) => assert_eq!(Some(error), failed),
            Returns::Interrupted(_) => assert_eq!(result, -4),
            Returns::Again | Returns::Never => panic!("{result} was a result"),
        }
    }
}
