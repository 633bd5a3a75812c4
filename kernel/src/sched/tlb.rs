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
use hanare_core::pagerange::PageRange;
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
    /// Questions that the CPU has answered.
    done: Line<AtomicU64>,
}

struct Asked {
    range: Mutex<Option<PageRange>, rank::Shootdown>,
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
pub fn join(a: Option<PageRange>, b: PageRange) -> PageRange {
    a.map_or(b, |a| a.join(b))
}

/// Drops translations of a range from the calling CPU.
pub fn flush_here(range: PageRange) {
    if range.len() <= PAGES_ONE_BY_ONE * SMALL {
        (range.start()..range.end()).step_by(SMALL as usize).for_each(cpu::flush_page);
    } else {
        cpu::flush_all();
    }
}

/// Has every other active CPU drop a range (an empty one: only pass through
/// the kernel, as membarrier(2) wants), and waits until all have.
pub fn shoot(active: &CpuSet, range: PageRange) {
    post_flush(active, range);
    wait_for_flush(active);
}

/// Asks every other active CPU to drop a range.
pub fn post_flush(active: &CpuSet, stale: PageRange) {
    for target in active.after_change().others(percpu::index()) {
        let m = &MAILBOXES[target].asked;
        {
            let mut range = m.range.lock();
            *range = Some(join(*range, stale));
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
    if let Some(range) = range {
        flush_here(range);
    }
    m.done.store(posted, Ordering::Release);
}
