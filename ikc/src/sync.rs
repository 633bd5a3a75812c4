//! Atomics: the processor's, or loom's.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// No mutant: the code as the kernels run it.
pub const REAL: u8 = 0;
/// Mutant for the models: the full fence of the wake-up pattern is missing.
#[cfg(all(test, loom))]
pub const NO_FENCE: u8 = 1;
/// Mutant for the models: data is published without release.
pub const NO_RELEASE: u8 = 2;
/// Mutant for the models: what is one step, an exchange, is two.
pub const NO_EXCHANGE: u8 = 3;
/// Mutant for the models: what is to be counted is only marked.
pub const NO_COUNT: u8 = 4;

/// Mutant for the models: the worker forgets of a signal when its answer is out already.
pub const CLEARS_LATE: u8 = 5;
/// Mutant for the models: the handler does not move a call that has not been started.
pub const NO_REDIRECT: u8 = 6;
/// Mutant for the models: the handler moves a call that is over.
#[cfg(all(test, loom))]
pub const REDIRECTS_DONE: u8 = 7;
/// Mutant for the models: the worker never forgets of a signal.
pub const NEVER_CLEARS: u8 = 8;

/// Mutant for the models: entries of a ring look new in every lap.
pub const NO_LAP: u8 = 9;

/// Mutant for the models: what ended a halt is not looked at before user mode.
pub const LEAVES_BELLS: u8 = 10;
/// Mutant for the models: bells are taken where other threads sleep.
pub const TAKES_BELLS: u8 = 11;
/// Mutant for the models: a CPU is taken out of a set after it was woken.
pub const REMOVES_LATE: u8 = 12;
/// Mutant for the models: a server says whose call it executes when it has taken it.
pub const ANNOUNCES_LATE: u8 = 13;
/// Mutant for the models: a signal that comes before a call leaves no mark.
pub const NO_MARK: u8 = 14;
/// Mutant for the models: a server does not look whether a signal came before it took the call.
pub const NO_LOOK: u8 = 15;
/// Mutant for the models: a pooled proxy says that it has begun when it is over.
pub const BEGINS_LATE: u8 = 16;
/// Mutant for the models: a thread that sleeps on a pooled proxy's slot lets that ring no more
/// often than on its own.
pub const NO_LATE_RING: u8 = 17;
/// Mutant for the models: a handler remembers what it has seen of a doorbell when it has read the
/// rings.
pub const SEES_LATE: u8 = 18;

/// Bit of a `MUTANT` in tests: the module's steps are those of `module/protocol.h`, with the mutant
/// that the other bits say.
#[cfg(test)]
pub const IN_C: u8 = 0x80;

/// The module in C, if this mutant says so.
#[cfg(test)]
pub fn module_in_c<const MUTANT: u8>() -> Option<hanare_ikc_c::Module> {
    (MUTANT & IN_C != 0).then(|| hanare_ikc_c::Module::new(MUTANT & !IN_C))
}

/// In tests, of a `MUTANT` with `IN_C`: returns what the module's step in C gives, in place of the
/// one in Rust that follows.
macro_rules! in_c {
    ($mutant:ident, $module:ident => $step:expr) => {
        #[cfg(test)]
        if let Some($module) = crate::sync::module_in_c::<$mutant>() {
            return $step;
        }
    };
}
pub(crate) use in_c;

/// Lets another side go on while it is waited for.
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    core::hint::spin_loop();
}

/// Full fence between "I stored" and "I look at the other side" (`mfence`).
pub fn full_fence<const MUTANT: u8>() {
    if MUTANT != 1 {
        fence(Ordering::SeqCst);
    }
}

/// Ordering of a store that publishes what was stored before.
pub const fn publish<const MUTANT: u8>() -> Ordering {
    if MUTANT == 2 { Ordering::Relaxed } else { Ordering::Release }
}

/// Ordering of an exchange that publishes what was stored before, and shows what others stored
/// before theirs.
pub const fn exchanges<const MUTANT: u8>() -> Ordering {
    if MUTANT == 2 { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// After a locked exchange: a full fence, which the instruction is already on x86-64.
pub fn fence_of_exchange<const MUTANT: u8>() {
    #[cfg(loom)]
    full_fence::<MUTANT>();
}

/// The lap of a ring's entry. (Mutant 9 has only one.)
pub const fn lap<const MUTANT: u8>(is_even: bool) -> bool {
    is_even || MUTANT == NO_LAP
}

/// Counts one up, to `most` at most. (Mutant 4 marks instead of counting.)
pub const fn counts<const MUTANT: u8>(number: u64, most: u64) -> u64 {
    if MUTANT == 4 || number >= most { if MUTANT == 4 { 1 } else { most } } else { number + 1 }
}

/// Takes a state that two sides want, by one exchange. `false`: the other side was first.
pub fn takes<const MUTANT: u8>(state: &AtomicU32, from: u32, to: u32) -> bool {
    if MUTANT == 3 {
        state.store(to, Ordering::Release);
        return true;
    }
    state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
