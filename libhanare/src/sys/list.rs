//! The list of a process' queues.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::mapped::Mapped;
use crate::engine::lock::{Held, Lock};

/// A list of queues, and its lock, which can be held over a fork. A queue that is in it is not
/// given back.
#[derive(Debug)]
pub struct List<T> {
    first: AtomicPtr<Mapped<T>>,
    lock: Lock,
    /// Not zero: the lock was left held over a fork.
    is_left: AtomicU32,
}

/// A list whose lock is held.
#[derive(Debug)]
pub struct Holder<'a, T> {
    list: &'a List<T>,
    _held: Held<'a>,
}

impl<T> List<T> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        let first = AtomicPtr::new(null_mut());
        Self { first, lock: Lock::new(), is_left: AtomicU32::new(0) }
    }

    /// Takes the lock.
    #[must_use]
    pub fn hold(&self) -> Holder<'_, T> {
        Holder { list: self, _held: self.lock.hold() }
    }

    /// Takes the lock, and leaves it held until [`List::reclaim`].
    pub fn hold_over_fork(&self) {
        std::mem::forget(self.lock.hold());
        self.is_left.store(1, Ordering::Release);
    }

    /// The lock that was left held, if it was: behind a fork, in the parent or in the child.
    #[must_use]
    pub fn reclaim(&self) -> Option<Holder<'_, T>> {
        let was_left = self.is_left.swap(0, Ordering::AcqRel) != 0;
        was_left.then(|| Holder { list: self, _held: self.lock.reclaim() })
    }
}

impl<T> Holder<'_, T> {
    /// Puts a queue into the list, which it is not in yet.
    pub fn enter(&self, queue: &Mapped<T>) {
        queue.enter();
        queue.next.store(self.list.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.list.first.store((&raw const *queue).cast_mut(), Ordering::Release);
    }

    /// Takes a queue out of the list.
    pub fn leave(&self, queue: &Mapped<T>) {
        let mut place = &self.list.first;
        loop {
            let next = place.load(Ordering::Relaxed);
            // SAFETY: `enter` has counted what is in the list as used, so that its owner does not
            // give it back. The lock is held: no thread takes it out.
            let Some(here) = (unsafe { next.as_ref() }) else { return };
            if std::ptr::eq(here, queue) {
                place.store(here.next.load(Ordering::Relaxed), Ordering::Relaxed);
                queue.leave();
                return;
            }
            place = &here.next;
        }
    }

    /// The queues of the list.
    pub fn iter(&self) -> impl Iterator<Item = &Mapped<T>> {
        let mut next = &self.list.first;
        std::iter::from_fn(move || {
            // SAFETY: as in `leave`.
            let queue = unsafe { next.load(Ordering::Acquire).as_ref() }?;
            next = &queue.next;
            Some(queue)
        })
    }
}
