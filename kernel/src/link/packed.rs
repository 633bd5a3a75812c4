//! Packed calls: a thread has the proxy of another space execute one, whose slot it has for itself meanwhile.

use crate::base::counts;
use crate::link::bells;
use crate::link::caller::Delegates;
use crate::link::direct;
use crate::sched::cpus;
use core::cell::Cell;
use hanare_core::link::Call;
use hanare_hal::shared;
use hanare_ikc::{Answer, SlotRef};

/// The other side.
pub struct Peer<'a> {
    /// Its space.
    pub space: u32,
    /// Its slot, the first one.
    pub slot: SlotRef<'static>,
    /// Whether there is no point in waiting on. Who makes it so kicks the thread.
    pub gives_up: &'a (dyn Fn() -> bool + Sync),
}

/// Waits for the other side's answer to the running thread's call.
struct Answered<'a, C: ?Sized> {
    caller: &'a C,
    peer: &'a Peer<'a>,
    answer: Cell<Option<Answer>>,
}

impl<C: Delegates + ?Sized> cpus::Wait for Answered<'_, C> {
    fn ready(&self) -> bool {
        if self.answer.get().is_none() {
            self.answer.set(self.peer.slot.lwk_poll());
        }
        self.answer.get().is_some() || (self.peer.gives_up)()
    }
    fn near(&self) -> bool {
        self.peer.slot.worker_is_awake()
    }
    fn is_told(&self) -> bool {
        true // by its bell, or by a kick
    }
    fn announce(&self, asleep: bool) {
        let (slot, port) = (&self.peer.slot, self.caller.port());
        if asleep {
            // Its own bell, which the other space may ring for once.
            bells::expect_ring_of_pooled(self.peer.space, slot, port.bell);
        } else {
            slot.lwk_awake();
        }
    }
}

/// Has `peer` execute a call of the running thread `caller`. `None`: it is given up, and may be executed or not.
pub fn exchange(
    caller: &(impl Delegates + ?Sized),
    peer: &Peer<'_>,
    call: &Call,
) -> Option<Answer> {
    shared::here().count_delegated_call();
    counts::count(&caller.port().counts.delegated);
    let asleep = peer.slot.lwk_post(call.nr, call.args);
    if asleep {
        direct::ring_worker(peer.space, 0, &peer.slot);
    }
    let mut answered = Answered { caller, peer, answer: Cell::new(None) };
    direct::wait_for(caller, &mut answered, asleep);
    answered.answer.get()
}
