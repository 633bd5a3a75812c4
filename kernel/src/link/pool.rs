//! The request boxes of a process and their servers, as the link knows them.

use crate::base::lock::{Mutex, rank};
use crate::sched::doorbell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SLOT;
use hanare_abi::requestbox::{ALL_SERVERS, BOX_OTHER, BOX_SERVERS, BOXES, SERVERS_MAX};
use hanare_core::link::kinds::Boxes;
use hanare_core::link::pool::{self, Load, Way, is_crowded};
use hanare_core::options::Dispatch;
use hanare_hal::shared;
use hanare_ikc::{BoxRef, SlotRef};
use spin::Once;

/// Calls go by the box where they may.
const OPEN: u8 = 1;
/// Linux has to be told of dispositions.
const OWES: u8 = 2;
/// [`OPEN`] is set and taken away as threads come and go.
const FOLLOWS: u8 = 4;
/// Calls are packed, and pooled proxies execute them.
const PACKED: u8 = 8;
/// Drivers of the LWK have claimed descriptors.
const CLAIMS: u8 = 16;

static OPTIONS: Once<Dispatch> = Once::new();
/// [`Dispatch::boxes`]: each boxed call asks.
static KINDS: AtomicU32 = AtomicU32::new(0);

/// Takes the boot options.
pub fn init(options: Dispatch) {
    OPTIONS.call_once(|| options);
    KINDS.store(options.boxes.0, Ordering::Relaxed);
    shared::set_dispatch(options.way.dispatch(), most(BOX_OTHER as usize), options.boxes.0);
}

/// Number of the box for a call.
pub fn box_of(call: u32) -> usize {
    Boxes(KINDS.load(Ordering::Relaxed)).of_call(call)
}

/// The boot options.
pub fn options() -> &'static Dispatch {
    OPTIONS.call_once(Dispatch::default)
}

/// Most servers of a box.
fn most(number: usize) -> u32 {
    let (p, asked) = (shared::params(), OPTIONS.get().and_then(|options| options.servers[number]));
    pool::most(asked, p.linux_cpu_ids.saturating_sub(p.cpu_count), SERVERS_MAX)
}

/// Place for a server: its slot and its thread.
#[derive(Default)]
pub struct Place {
    /// The server's own slot, which a later server with this number has, too.
    pub slot: Option<(u32, SlotRef<'static>)>,
    /// The server was started, and has not been told to end.
    pub is_used: bool,
    /// The server's thread, which may have ended. 0: there was none.
    pub tid: u32,
}

/// The places of a process' servers, by their numbers.
pub type Places = [Place; ALL_SERVERS];

/// The state of one of a process' request boxes and of its servers.
#[derive(Default)]
pub struct State {
    /// Servers that take calls, a bit each.
    pub present: AtomicU64,
    /// The servers' slots, by which one is rung.
    slots: [AtomicU32; BOX_SERVERS],
    /// TSC value until which no further server is asked for.
    pub refused: AtomicU64,
    /// Calls in the box or with a server.
    pub calls: AtomicU32,
    /// Calls that servers have ended.
    pub ended: AtomicU32,
    /// Most of `calls` at once, since the TSC value `since`.
    pub needed: AtomicU32,
    /// TSC value since when `needed` counts.
    pub since: AtomicU64,
}

impl State {
    /// Whether server `number` is there, and has not been told to end.
    pub fn has(&self, number: u32) -> bool {
        self.present.load(Ordering::Relaxed) >> (number % SERVERS_MAX) & 1 != 0
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.present.load(Ordering::Relaxed).count_ones()
    }

    /// Rings a server of `space`, which sleeps next to the doorbell `near`.
    pub fn ring(&self, space: u32, server: u32, near: u32) {
        let slot = self.slots[(server % SERVERS_MAX) as usize].load(Ordering::Relaxed);
        doorbell::ring(near, EVENT_SLOT, u64::from(space) << 24 | u64::from(slot));
    }
}

/// A process' request boxes and their servers.
#[derive(Default)]
pub struct Pool {
    /// Ways of calls other than directly, at once ([`OPEN`], [`OWES`], [`PACKED`], [`CLAIMS`]), and
    /// whether [`OPEN`] changes ([`FOLLOWS`]).
    ways: AtomicU8,
    /// The way of its next program, whose own calls go directly: it has another process' memory. As
    /// [`Way::dispatch`].
    later: AtomicU32,
    /// The proxy's handler of SIGBUS is without SA_RESTART, whatever the program's is: there are
    /// servers, or its parent had some.
    has_interruptions: AtomicBool,
    /// The boxes, once a server was made.
    page: Once<[BoxRef<'static>; BOXES]>,
    /// The states of the boxes.
    states: [State; BOXES],
    /// One thread at a time makes or ends servers.
    pub places: Mutex<Places, rank::Servers>,
    /// A thread is asking for a server, of whichever box: what servers have of their makers is the
    /// same for all.
    pub grows: AtomicBool,
    /// The attributes that the servers have from the worker that made them (`workers`).
    pub attributes: AtomicU64,
}

impl Pool {
    fn set(&self, way: u8, is_set: bool) {
        if is_set {
            self.ways.fetch_or(way, Ordering::Relaxed);
        } else {
            self.ways.fetch_and(!way, Ordering::Relaxed);
        }
    }

    /// The way of the calls of a process that has no thread yet.
    pub fn begin(&self, way: Way) {
        self.close();
        match way {
            Way::Direct => {}
            Way::Box => self.set(OPEN, true),
            Way::Auto => self.set(FOLLOWS, true),
        }
    }

    /// Calls go directly from now on, for ever.
    pub fn close(&self) {
        self.later.store(Way::Direct.dispatch(), Ordering::Relaxed);
        self.set(OPEN | FOLLOWS, false);
    }

    /// The process has that many threads now. They are locked.
    pub fn follow(&self, threads: usize) {
        if self.ways.load(Ordering::Relaxed) & FOLLOWS == 0 {
            return;
        }
        let is_open = is_crowded(threads, most(BOX_OTHER as usize));
        // CPU A looks at the threads, then CPU B closes the box for ever: it stays closed.
        let _ = self.ways.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ways| {
            let next = if is_open { ways | OPEN } else { ways & !OPEN };
            (ways & FOLLOWS != 0 && ways != next).then_some(next)
        });
    }

    /// Begins the pool of a process that shares the memory of the one with the pool `creator`. The
    /// calls of the process go directly, those of its next program as the creator's.
    pub fn open_later(&self, creator: &Pool) {
        self.later.store(creator.inherited().dispatch(), Ordering::Relaxed);
    }

    /// Notes whether the proxy's handlers, which are those of the proxy with the pool `creator`,
    /// interrupt calls.
    pub fn take_handlers(&self, creator: &Pool) {
        self.has_interruptions.store(creator.has_interruptions(), Ordering::Relaxed);
    }

    /// Whether the proxy's SIGBUS stands for other signals, so that Linux makes no call again after
    /// it.
    pub fn has_interruptions(&self) -> bool {
        self.has_served() || self.has_interruptions.load(Ordering::Relaxed)
    }

    /// The way of its child, or of its next program.
    pub fn inherited(&self) -> Way {
        let ways = self.ways.load(Ordering::Relaxed);
        let later = self.later.load(Ordering::Relaxed);
        match (ways & FOLLOWS != 0, ways & OPEN != 0) {
            (true, _) => Way::Auto,
            (false, true) => Way::Box,
            _ => Way::ALL.into_iter().find(|way| way.dispatch() == later).unwrap_or_default(),
        }
    }

    /// Before its next call Linux has to be told of dispositions; or not any more.
    pub fn set_owes(&self, owes: bool) {
        self.set(OWES, owes);
    }

    /// Whether Linux has to be told of dispositions.
    #[inline(always)]
    pub fn owes(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & OWES != 0
    }

    /// Whether its calls are to be looked at: each delegated call asks.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & (OPEN | OWES | PACKED | CLAIMS) != 0
    }

    /// Has all calls of the process, a native task, packed.
    pub fn pack(&self) {
        self.set(PACKED, true);
    }

    /// Whether all calls of the process are packed: it is a native task.
    pub fn is_packed(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & PACKED != 0
    }

    /// Drivers of the LWK have claimed descriptors of the process.
    pub fn set_claims(&self) {
        self.set(CLAIMS, true);
    }

    /// Whether drivers of the LWK have claimed descriptors of the process, or had. A native task's
    /// are not its own.
    #[inline(always)]
    pub fn has_claims(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & (CLAIMS | PACKED) == CLAIMS
    }

    /// Whether calls go by the box where they may.
    pub fn is_open(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Whether calls will never go by the box again.
    pub fn is_closed(&self) -> bool {
        self.ways.load(Ordering::Relaxed) & (OPEN | FOLLOWS) == 0
    }

    /// Makes the boxes, which `make` finds. False: there are none.
    pub fn make_boxes(&self, make: impl FnOnce() -> Option<[BoxRef<'static>; BOXES]>) -> bool {
        self.has_served() || make().map(|page| self.page.call_once(|| page)).is_some()
    }

    /// Box `number`, if the boxes were made.
    pub fn request_box(&self, number: usize) -> Option<BoxRef<'static>> {
        self.page.get().map(|page| page[number])
    }

    /// The state of box `number`.
    pub fn state(&self, number: usize) -> &State {
        &self.states[number]
    }

    /// Whether there are servers, or were.
    pub fn has_served(&self) -> bool {
        self.page.get().is_some()
    }

    /// Server `number`, whose slot is `slot`, takes calls from now on. The places are locked.
    pub fn enter(&self, number: usize, slot: u32) {
        let (state, number) = (&self.states[number / BOX_SERVERS], number % BOX_SERVERS);
        state.slots[number].store(slot, Ordering::Relaxed);
        state.present.fetch_or(1 << number, Ordering::Release);
        shared::here().count_server();
    }

    /// Server `number` does not take calls any more. The places are locked.
    pub fn leave(&self, number: usize) {
        let state = &self.states[number / BOX_SERVERS];
        state.present.fetch_and(!(1 << (number % BOX_SERVERS)), Ordering::Relaxed);
    }

    /// Servers are made from now on by workers with these attributes, unless calls are under way.
    pub fn change(&self, attributes: u64) -> bool {
        let before = self.attributes.swap(attributes, Ordering::SeqCst);
        let no_call = || self.states.iter().all(|state| state.calls.load(Ordering::SeqCst) == 0);
        let is_idle = before == attributes || no_call();
        if !is_idle {
            self.attributes.store(before, Ordering::SeqCst);
        }
        is_idle
    }

    /// A server of box `number` that sleeps, and that only the caller rings from now on.
    pub fn take_idle(&self, number: usize) -> Option<usize> {
        let present = self.states[number].present.load(Ordering::Acquire);
        let server = self.page.get()?[number].take_idle(present)?;
        Some(number * BOX_SERVERS + server as usize)
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.states.iter().map(State::servers).sum()
    }

    /// How many servers box `number` has, and what they have to do.
    pub fn load(&self, number: usize) -> Load {
        let state = &self.states[number];
        let calls = state.calls.load(Ordering::Relaxed);
        Load { servers: state.servers(), most: most(number), calls }
    }
}
