//! The slots of a process: those with a thread's worker, with one that waits for a thread, and
//! without one. What is done with workers stands in [`workers`](crate::process::workers).

use crate::base::{heap, lists};
use crate::mm::window::space::Space;
use alloc::vec::Vec;
use hanare_core::errno::Result;
use hanare_ikc::{BellRef, SlotRef};

/// Ids of ended threads that are remembered.
const GONE_MAX: usize = 64;

/// A worker without a thread; it may be on its way (`workers::settle`).
pub struct Spare {
    /// Number of the slot.
    pub index: u32,
    /// The shared slot with that number.
    pub slot: SlotRef<'static>,
    /// The slot's bell, by which the worker is known.
    pub bell: BellRef<'static>,
    /// Attributes of the thread that left the worker behind.
    pub attributes: u64,
    /// Name of the worker on Linux.
    pub name: Option<[u8; 16]>,
}

/// Slots of a process.
pub struct Slots {
    /// All slots that were ever taken for the process.
    taken: Vec<u32>,
    /// Workers that wait for threads.
    pub spare: Vec<Spare>,
    /// Slots that have no worker.
    dropped: Vec<u32>,
    /// Slots whose workers were told to end.
    ending: Vec<(u32, SlotRef<'static>)>,
    /// The first thread has ended, and its worker, with these attributes, is free.
    pub leader: Option<u64>,
    /// The first thread has ended, and so has its worker.
    pub leader_gone: bool,
    /// Ids of threads that ended last, whose workers may not have ended yet.
    pub gone: Vec<u32>,
}

/// A slot with its worker, for a new thread.
pub struct Taken {
    /// Index.
    pub index: u32,
    /// The slot.
    pub slot: SlotRef<'static>,
    /// Id of the worker.
    pub tid: u32,
}

impl Slots {
    /// The slots of a new process: that of its first thread is taken. `ENOMEM`.
    pub fn first(slot: u32) -> Result<Slots> {
        let mut slots = Slots {
            taken: Vec::new(),
            spare: Vec::new(),
            dropped: Vec::new(),
            ending: Vec::new(),
            leader: None,
            leader_gone: false,
            gone: heap::with_room(GONE_MAX)?,
        };
        slots.make_room()?;
        lists::push_within(&mut slots.taken, slot);
        Ok(slots)
    }

    /// Makes room for one slot more in each list. Moving a taken slot to another list then needs no
    /// memory.
    fn make_room(&mut self) -> Result<()> {
        let slots = self.taken.len() + 1;
        let (spare, dropped, ending) = (self.spare.len(), self.dropped.len(), self.ending.len());
        heap::more_room(&mut self.spare, slots - spare)?;
        heap::more_room(&mut self.dropped, slots - dropped)?;
        heap::more_room(&mut self.ending, slots - ending)?;
        heap::more_room(&mut self.taken, 1)
    }

    /// A slot without a worker is free.
    pub fn add_dropped(&mut self, slot: u32) {
        lists::push_within(&mut self.dropped, slot);
    }

    /// The worker of a slot was told to end.
    pub fn add_ending(&mut self, index: u32, slot: SlotRef<'static>) {
        lists::push_within(&mut self.ending, (index, slot));
    }

    /// A worker waits for a thread.
    pub fn add_spare(&mut self, spare: Spare) {
        lists::push_within(&mut self.spare, spare);
    }

    /// All of them, which the process does not need any more.
    pub fn all(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.taken)
    }

    /// A worker that fits, if possible one that is there, else the one that comes first.
    pub fn take_spare(&mut self, attributes: u64) -> Option<Spare> {
        let fits = |s: &Spare| s.attributes == attributes;
        let there = |s: &Spare| fits(s) && (s.slot.is_idle() || s.slot.lwk_poll().is_some());
        let i = self.spare.iter().position(there).or_else(|| self.spare.iter().position(fits))?;
        Some(self.spare.remove(i))
    }

    /// Whether `tid` is that of a worker that waits for a thread of the process `first_slot` of
    /// `space`. False for a worker that ends and
    /// leaves another one behind, which has not come.
    pub fn is_spare(&self, tid: u32, space: u32, first_slot: u32) -> bool {
        self.spare.iter().any(|s| s.bell.worker(space, first_slot) == Some(tid))
    }

    /// The thread `tid` has ended, or a worker without one has been told to.
    pub fn forget(&mut self, tid: u32) {
        if self.gone.len() == GONE_MAX {
            self.gone.remove(0);
        }
        lists::push_within(&mut self.gone, tid);
    }

    /// A slot without a worker.
    pub fn take_empty(&mut self, p: &Space) -> Option<u32> {
        if let Some(at) = self.ending.iter().position(|(_, slot)| !slot.has_worker()) {
            return Some(self.ending.swap_remove(at).0);
        }
        if let Some(i) = self.dropped.pop() {
            return Some(i);
        }
        self.make_room().ok()?;
        p.take_slot().inspect(|&slot| lists::push_within(&mut self.taken, slot))
    }
}
