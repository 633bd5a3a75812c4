//! Free pages that each CPU has taken from its node in advance. Without them CPUs whose programs
//! touch memory at once would contend for the lock of the node's zone at each page; with them, at
//! each [`PAGES`] pages.

use crate::base::line::Line;
use crate::base::lock::{Mutex, rank};
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_core::addr::Pfn;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::percpu;

/// A stock is a block of this order, of single pages.
pub const ORDER: u32 = 5;
/// Pages of a full stock.
pub const PAGES: u32 = 1 << ORDER;

/// Pages that lie one behind the other, and the zone that they are of.
struct Run {
    next: Pfn,
    zone: usize,
}

struct Stock {
    run: Mutex<Run, rank::FrameStock>,
    /// Pages of the run: changed under its lock, and read without the lock to count free pages.
    left: AtomicU32,
}

static STOCKS: [Line<Stock>; CPUS_MAX] = [const {
    Line(Stock { run: Mutex::new(Run { next: Pfn(0), zone: 0 }), left: AtomicU32::new(0) })
}; CPUS_MAX];

/// A page of the calling CPU's stock, which `fill` gets anew if it is empty. `None`: it has none of
/// this zone.
pub fn take(zone: usize, fill: impl FnOnce() -> Option<Pfn>) -> Option<Pfn> {
    let stock = &STOCKS[percpu::index()];
    let mut run = stock.run.lock();
    let left = match stock.left.load(Ordering::Relaxed) {
        0 => {
            *run = Run { next: fill()?, zone };
            PAGES
        }
        _ if run.zone != zone => return None,
        left => left,
    };
    stock.left.store(left - 1, Ordering::Relaxed);
    let page = run.next;
    run.next = Pfn(page.0 + 1);
    Some(page)
}

/// Takes the stocks of all CPUs when no other page is free: calls `give` with each zone, first page
/// and number. Returns whether there was any.
pub fn empty(mut give: impl FnMut(usize, Pfn, u32)) -> bool {
    let mut any = false;
    for stock in STOCKS.iter().filter(|stock| stock.left.load(Ordering::Relaxed) != 0) {
        let run = stock.run.lock();
        match stock.left.swap(0, Ordering::Relaxed) {
            0 => {}
            left => {
                give(run.zone, run.next, left);
                any = true;
            }
        }
    }
    any
}

/// Pages in stock of a zone, about: others take some meanwhile.
pub fn pages(zone: usize) -> u64 {
    let of_zone = |stock: &&Line<Stock>| {
        stock.left.load(Ordering::Relaxed) != 0 && stock.run.lock().zone == zone
    };
    STOCKS.iter().filter(of_zone).map(|stock| u64::from(stock.left.load(Ordering::Relaxed))).sum()
}
