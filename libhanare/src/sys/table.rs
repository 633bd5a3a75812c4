//! Which calls the short way of posting takes.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::calls::{CLASSES, Classes, NONE};

/// One of two tables: of all calls that may be posted, or of none.
#[derive(Debug)]
pub struct Table(AtomicPtr<Classes>);

impl Table {
    /// The table of no call.
    #[must_use]
    pub const fn none() -> Self {
        Self(AtomicPtr::new((&raw const NONE).cast_mut()))
    }

    /// Takes the table of all calls (`true`), or that of none.
    pub fn set(&self, has_calls: bool) {
        let table = if has_calls { &raw const CLASSES } else { &raw const NONE };
        self.0.store(table.cast_mut(), Ordering::Release);
    }

    /// The table of classes.
    #[must_use]
    #[inline(always)]
    pub fn get(&self) -> &'static Classes {
        // SAFETY: `none` and `set` enter two statics, and nothing else does.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}
