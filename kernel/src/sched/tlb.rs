//! TLB shootdown: other CPUs that use a page table forget what was taken away.
//!
//! A CPU is *active* in an address space while it has its table loaded. A CPU that takes rights or
//! pages away changes the table under the lock of the space. Then it posts the range to the active
//! CPUs' mailboxes and waits until each has flushed; only then are frames freed. A CPU in user mode
//! is interrupted; one in the kernel looks whenever it waits for something ([`serve`]), so two CPUs
//! that shoot at each other both get on. While a CPU waits here it holds no lock that the other
//! side could spin on without looking: the lock of an address space is taken by looking, see
//! `mm::guard`.

use crate::base::line::Line;
use crate::base::lock::{Mutex, assert_none_held, rank};
use crate::sched::attention::{self, FLUSH, post};
use crate::sched::park;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::paging::SMALL;
use hanare_hal::{cpu, percpu};

/// More pages than this are dropped by dropping everything (as Linux'
/// `tlb_single_page_flush_ceiling`).
const PAGES_ONE_BY_ONE: u64 = 32;

/// A set of CPUs of the instance.
pub type CpuSet = hanare_ikc::CpuSet<{ CPUS_MAX / 64 }>;

/// A request to a CPU to forget translations, and its answer.
struct Mailbox {
    asked: Line<Asked>,
    /// Questions that it has answered.
    done: Line<AtomicU64>,
}

struct Asked {
    range: Mutex<Option<(u64, u64)>, rank::Shootdown>,
    /// Questions so far.
    posted: AtomicU64,
}

static MAILBOXES: [Mailbox; CPUS_MAX] = [const {
    Mailbox {
        asked: Line(Asked { range: Mutex::new(None), posted: AtomicU64::new(0) }),
        done: Line(AtomicU64::new(0)),
    }
}; CPUS_MAX];

/// The union of two ranges.
pub fn join(a: Option<(u64, u64)>, b: (u64, u64)) -> (u64, u64) {
    a.map_or(b, |a| (a.0.min(b.0), a.1.max(b.1)))
}

/// Drops translations of a range from the calling CPU.
pub fn flush_here(start: u64, end: u64) {
    if end - start <= PAGES_ONE_BY_ONE * SMALL {
        (start..end).step_by(SMALL as usize).for_each(cpu::flush_page);
    } else {
        cpu::flush_all();
    }
}

/// Has every other active CPU drop `start..end` (an empty range: only pass through
/// the kernel, as membarrier(2) wants), and waits until all have.
pub fn shoot(active: &CpuSet, start: u64, end: u64) {
    post_flush(active, start, end);
    wait_for_flush(active);
}

/// Asks every other active CPU to drop `start..end`.
pub fn post_flush(active: &CpuSet, start: u64, end: u64) {
    for target in active.after_change().others(percpu::index()) {
        let m = &MAILBOXES[target].asked;
        {
            let mut range = m.range.lock();
            *range = Some(join(*range, (start, end)));
            m.posted.fetch_add(1, Ordering::SeqCst);
        }
        post(target, FLUSH);
    }
}

/// Waits until every other active CPU has dropped what it was asked to.
pub fn wait_for_flush(active: &CpuSet) {
    for target in active.others(percpu::index()) {
        assert_none_held(); // a CPU that is shot at may wait for it
        let m = &MAILBOXES[target];
        // What was posted before now covers ours; a CPU that came since needs nothing.
        let wanted = m.asked.posted.load(Ordering::SeqCst);
        while m.done.load(Ordering::Acquire) < wanted {
            serve();
            if park::has_panicked() {
                park::park();
            }
            cpu::pause();
        }
    }
}

/// Does what other CPUs ask of this one.
pub fn serve() {
    if !attention::mine().take(FLUSH) {
        return;
    }
    let m = &MAILBOXES[percpu::index()];
    let (range, posted) = {
        let mut range = m.asked.range.lock();
        (range.take(), m.asked.posted.load(Ordering::SeqCst))
    };
    if let Some((start, end)) = range {
        flush_here(start, end);
    }
    m.done.store(posted, Ordering::Release);
}
