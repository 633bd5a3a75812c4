//! Lists of robust futexes (set_robust_list(2)): what a thread leaves behind that ends with locks.

use crate::process::futex::{exchange, is_common, wake_anywhere};
use crate::process::pi;
use crate::process::thread::Thread;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Errno};
use hanare_core::futex::{OWNER, OWNER_DIED, WAITERS};
use hanare_hal::usercopy::{self, UserAddr};

/// In the pointer to an entry of a robust list: the futex is one with priority
/// inheritance, whose waiters Linux wakes when the worker ends.
const PI: u64 = 1;

/// A thread ends or replaces its program: its robust list (set_robust_list(2)) is walked, owners'
/// words get FUTEX_OWNER_DIED and a waiter is woken. Its locks with priority inheritance go to
/// those that wait. Where the whole process ends, Linux does so with the workers' lists, which are
/// these. A thread of another process with this memory, which waits here, is woken here.
pub fn release(thread: &Thread) {
    walk(thread);
    pi::release(thread);
}

fn walk(thread: &Thread) {
    const LIMIT: usize = 2048;
    let head = thread.set_robust_list(0);
    if head == 0 {
        return;
    }
    let (Ok(mut entry), Ok(offset), Ok(pending)) = (
        usercopy::read_u64(UserAddr::of(head)),
        usercopy::read_u64(UserAddr::behind(head, 8)),
        usercopy::read_u64(UserAddr::behind(head, 16)),
    ) else {
        return;
    };
    let tid = thread.tid();
    let die = |entry: u64, is_pending: bool| {
        let word = (entry & !PI).wrapping_add(offset);
        if word % 4 != 0 {
            return false;
        }
        let (word, pi) = (UserAddr::of(word), entry & PI != 0);
        let change = |value: u32| {
            if value & OWNER == tid {
                Ok(value & WAITERS | OWNER_DIED)
            } else {
                Err(Errno(value as i32))
            }
        };
        match exchange(word, change) {
            Ok(value) if !pi && value & WAITERS != 0 => wake_anywhere(thread, word),
            // A thread that waits here is given the lock afterwards.
            Ok(value) if pi && value & WAITERS != 0 && is_common(&thread.process, word) => {
                thread.has_waiters_on_linux.store(true, Ordering::Relaxed);
            }
            // It ended between giving the word back and waking the next one.
            Err(Errno(0)) if is_pending && !pi => wake_anywhere(thread, word),
            // Linux has given it back.
            Err(Errno(value))
                if !pi && value as u32 & (OWNER | OWNER_DIED | WAITERS) == OWNER_DIED | WAITERS =>
            {
                wake_anywhere(thread, word)
            }
            Err(errno::EFAULT) => return usercopy::read_u32(word).is_ok(),
            _ => {}
        }
        true
    };
    for _ in 0..LIMIT {
        if entry & !PI == head {
            break;
        }
        let next = usercopy::read_u64(UserAddr::of(entry & !PI));
        if entry & !PI != pending & !PI && !die(entry, false) {
            return;
        }
        let Ok(next) = next else { return };
        entry = next;
    }
    if pending & !PI != 0 {
        die(pending, true);
    }
}

/// The process ends by the thread's next call: if nothing is on its robust list, Linux
/// need not look there.
pub fn forget_empty(thread: &Thread) {
    let head = thread.robust_list.load(Ordering::Relaxed);
    let is_empty = || {
        Some(
            usercopy::read_u64(UserAddr::of(head)).ok()? & !PI == head
                && usercopy::read_u64(UserAddr::behind(head, 16)).ok()? & !PI == 0,
        )
    };
    if head != 0 && is_empty() == Some(true) {
        thread.set_robust_list(0);
    }
}
