//! A sum that many change and whose owner's total is changed rarely: it is charged in advance.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Least memory that a space is charged in advance, bytes.
const AHEAD_MIN: u64 = 4 << 10;
/// Most memory that a space is charged in advance, bytes; in between an eighth of what is used.
const AHEAD_MAX: u64 = 4 << 20;

/// A sum, and how much of it its owner has been charged. CPUs that change different sums of one
/// owner write to the owner's total only now and then.
#[derive(Debug, Default)]
pub struct Sum {
    used: AtomicU64,
    charged: AtomicU64,
    /// A thread makes the two fit.
    busy: AtomicBool,
}

impl Sum {
    /// Memory that the space uses.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Memory that its owner has been charged.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// A part of it has grown or shrunk; `total` is the owner's.
    pub fn change(&self, before: u64, now: u64, total: &AtomicU64) {
        self.used.fetch_add(now.wrapping_sub(before), Ordering::SeqCst);
        while !self.settle(total) {}
    }

    /// Charges the owner more, or less, where the use is more or much less than the charge. False:
    /// the use has changed meanwhile, and no other thread sees to it.
    fn settle(&self, total: &AtomicU64) -> bool {
        if self.fits() || self.busy.swap(true, Ordering::SeqCst) {
            return true; // the busy CPU looks again
        }
        let used = self.used.load(Ordering::SeqCst);
        let wanted = if used == 0 { 0 } else { used + ahead(used) };
        let charged = self.charged.swap(wanted, Ordering::SeqCst);
        total.fetch_add(wanted.wrapping_sub(charged), Ordering::Relaxed);
        // Before the look: a thread that came meanwhile has left it to this one.
        self.busy.store(false, Ordering::SeqCst);
        self.fits()
    }

    fn fits(&self) -> bool {
        let used = self.used.load(Ordering::SeqCst);
        let charged = self.charged.load(Ordering::SeqCst);
        match used {
            0 => charged == 0,
            _ => used <= charged && charged - used <= 2 * ahead(used),
        }
    }
}

fn ahead(used: u64) -> u64 {
    (used / 8).clamp(AHEAD_MIN, AHEAD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn small_changes_leave_the_total_alone() {
        let (sum, total) = (Sum::default(), AtomicU64::new(0));
        sum.change(0, 64 << 20, &total);
        let charged = total.load(Ordering::Relaxed);
        assert!((64 << 20..72 << 20).contains(&charged));
        for _ in 0..500 {
            sum.change(0, 8192, &total);
        }
        assert_eq!(total.load(Ordering::Relaxed), charged);
        sum.change(64 << 20, 0, &total);
        assert!(total.load(Ordering::Relaxed) < 5 << 20);
        sum.change(500 * 8192, 0, &total);
        assert_eq!((sum.used(), sum.charged(), total.load(Ordering::Relaxed)), (0, 0, 0));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (sums, total) = ([Sum::default(), Sum::default()], AtomicU64::new(0));
        thread::scope(|scope| {
            for n in 0..4 {
                let (sum, total) = (&sums[n % 2], &total);
                scope.spawn(move || {
                    for i in 0..20_000u64 {
                        let bytes = i % 97 * 4096;
                        sum.change(0, bytes, total);
                        assert!(sum.used() <= 4 * 97 * 4096);
                        sum.change(bytes, 0, total);
                    }
                });
            }
        });
        assert_eq!(
            (sums[0].charged(), sums[1].charged(), total.load(Ordering::Relaxed)),
            (0, 0, 0)
        );
    }
}
