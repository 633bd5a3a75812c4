//! Requests of Linux beside threads: [`hanare_core::turns`] for each CPU.

use crate::base::lock::{Mutex, rank};
use crate::base::time::{self, NEVER};
use crate::sched::requests;
use hanare_core::turns::Turns;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu};

/// The longest time that requests take at once of a CPU whose thread could run.
const BURST_NS: u64 = 200_000;

static TURNS: [Mutex<Turns, rank::SchedulerTurns>; CPUS_MAX] =
    [const { Mutex::new(Turns::new()) }; CPUS_MAX];

fn of_this_cpu() -> &'static Mutex<Turns, rank::SchedulerTurns> {
    &TURNS[percpu::index()]
}

/// Serves what Linux asks for while a thread waits to go on: as far as it is its turn.
pub fn serve() {
    let from = cpu::rdtsc();
    if !requests::is_asked() || of_this_cpu().lock().rests(from) {
        return;
    }
    let burst = time::ns_to_cycles(BURST_NS);
    let mut now = from;
    while now - from < burst && requests::serve_one() {
        now = cpu::rdtsc();
    }
    of_this_cpu().lock().served(from, now, burst);
}

/// Whether requests rest on this CPU, so that threads have their turn.
pub fn rests() -> bool {
    of_this_cpu().lock().rests(cpu::rdtsc())
}

/// When the timer has to fire, TSC value, or [`NEVER`].
pub fn rest_end() -> u64 {
    of_this_cpu().lock().rest_end()
}

/// Ends the pause in serving Linux' requests. True if one was active.
pub fn end_rest() -> bool {
    of_this_cpu().lock().end_rest()
}

const _: () = assert!(Turns::NONE == NEVER);
