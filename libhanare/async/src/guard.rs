//! Faults that end the program: what it wrote before is written before it ends.
//!
//! A process that another one kills might have been killed earlier: what was outstanding may be
//! lost. A process that ends by its own fault has made all its writes first. So the library stands
//! before the dispositions of these signals, and what the program asks and sets is kept here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::faults::{FAULTS, SIGNALS};
use crate::poster;
use crate::state::{self, Reason};
use crate::sys::Mask;
use crate::sys::local::Local;
use crate::sys::lock::Locked;
use crate::sys::signals::{self, Action, action};

/// An action, as words.
struct Kept([AtomicU64; 4]);

impl Kept {
    fn get(&self) -> Action {
        let [handler, flags, restorer, mask] =
            self.0.each_ref().map(|word| word.load(Ordering::Relaxed));
        Action { handler, flags, restorer, mask }
    }

    fn set(&self, action: Action) {
        let words = [action.handler, action.flags, action.restorer, action.mask];
        self.0.iter().zip(words).for_each(|(kept, word)| kept.store(word, Ordering::Relaxed));
    }
}

/// Actions that the program has set for signals of faults.
static KEPT: [Kept; SIGNALS.len()] =
    [const { Kept([const { AtomicU64::new(0) }; 4]) }; SIGNALS.len()];
static STANDS: AtomicBool = AtomicBool::new(false);

fn place_of(signal: i32) -> Option<usize> {
    SIGNALS.iter().position(|known| *known == signal)
}

/// Begins to stand before the dispositions. `false`: they are such that nothing can be posted.
pub fn begin() -> bool {
    let all: Option<Vec<_>> = SIGNALS
        .iter()
        .map(|signal| action(*signal, None).ok().filter(|old| old.handler == 0))
        .collect();
    if all.is_none() {
        return false;
    }
    let ours = Action::on_fault(on_fault);
    STANDS.store(true, Ordering::SeqCst);
    SIGNALS.iter().all(|signal| action(*signal, Some(&ours)).is_ok())
}

/// Whether the program has a signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    action(signal, None).is_ok_and(|action| action.handler == libc::SIG_IGN as u64)
}

/// Stands there no more: what the program has set is in force.
pub fn end() {
    if STANDS.swap(false, Ordering::SeqCst) {
        // No thread changes what is kept after STANDS is false.
        for (kept, signal) in KEPT.iter().zip(SIGNALS) {
            let _ = action(signal, Some(&kept.get()));
        }
    }
}

extern "C" fn on_fault(signal: i32, info: &mut libc::siginfo_t, _: *mut libc::c_void) {
    // A process that raised it from outside has no part in what is outstanding, but waiting for it
    // is right then, too.
    poster::await_all();
    state::turn_off(Reason::Fault);
    end();
    let comes_again = info.si_code > 0 && signal != libc::SIGTRAP;
    if !comes_again {
        signals::raise_again(signal, info);
    }
}

/// `rt_sigaction` of the program; `None`: the kernel makes it.
pub fn set_action(_: &Locked, signal: i32, new: Option<Action>) -> Option<Action> {
    if !STANDS.load(Ordering::SeqCst) {
        return None;
    }
    let kept = &KEPT[place_of(signal)?];
    let old = kept.get();
    if let Some(new) = new {
        kept.set(new);
    }
    Some(old)
}

/// The mask that a thread is about to set, or has: whether it holds back signals of faults is
/// counted.
pub fn note_mask(local: &Local, mask: Mask) {
    let is_deaf = mask & FAULTS != 0;
    let was_deaf = local.is_mask_counted.replace(is_deaf);
    match (was_deaf, is_deaf) {
        (false, true) => {
            state::DEAF.fetch_add(1, Ordering::SeqCst);
            poster::await_all();
        }
        (true, false) => {
            state::DEAF.fetch_sub(1, Ordering::SeqCst);
        }
        _ => {}
    }
}
