//! The condition that a thread waits for, where others can look whether it holds.

use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Looks whether it holds.
type Look<'a> = &'a mut (dyn FnMut() -> bool + Send + 'a);

/// The place of a condition, or of none. A thread lends one while it does one thing, such as to
/// sleep. One CPU at a time looks at it, and the thread takes it back only when no CPU does.
pub struct Condition {
    /// Null: there is none. [`LOOKED_AT`]: a CPU looks. Else the address of a variable of
    /// `during`'s.
    place: AtomicPtr<Look<'static>>,
}

/// The word in the place while a CPU looks: no variable's address.
const LOOKED_AT: *mut Look<'static> = ptr::without_provenance_mut(1);

impl Condition {
    /// A place without a condition.
    pub const fn new() -> Self {
        Condition { place: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Does something while others can look at the condition.
    ///
    /// # Panics
    /// If there is one already.
    pub fn during<R>(&self, look: Look<'_>, f: impl FnOnce() -> R) -> R {
        /// Removes the condition, however `f` ends.
        struct Back<'a>(&'a Condition, *mut Look<'static>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                while !self.0.replace(self.1, ptr::null_mut()) {
                    crate::cpu::pause();
                }
            }
        }
        // SAFETY: only the lifetime changes. It is called by `holds` only, which is over before
        // `Back` is dropped, and answers with a word that has no lifetime.
        let mut look = unsafe { transmute::<Look<'_>, Look<'static>>(look) };
        let place = &raw mut look;
        assert!(self.replace(ptr::null_mut(), place), "two conditions at a time");
        let _back = Back(self, place);
        f()
    }

    /// Whether the condition holds. Unknown: there is none, or another CPU looks.
    pub fn holds(&self) -> Option<bool> {
        let place = self.place.load(Ordering::Relaxed);
        if place.is_null() || place == LOOKED_AT || !self.replace(place, LOOKED_AT) {
            return None;
        }
        // SAFETY: `during` put the address of its variable there, and does not return before it
        // finds that there again. No other code has what it refers to: its owner has lent the only
        // reference, which may go to another CPU (`Send`), and no other CPU looks.
        let holds = unsafe { (*place)() };
        self.place.store(place, Ordering::Release);
        Some(holds)
    }

    fn replace(&self, old: *mut Look<'static>, new: *mut Look<'static>) -> bool {
        self.place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
