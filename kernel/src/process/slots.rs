//! The slots of a process: those with a thread's worker, with one that waits for a thread, and
//! without one. What is done with workers stands in [`workers`](crate::process::workers).

use crate::mm::space::Space;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use hanare_ikc::SlotRef;

/// Ids of ended threads that are remembered.
const GONE_MAX: usize = 64;

/// A worker without a thread; it may be on its way (`workers::settle`).
pub struct Spare {
    /// Its slot.
    pub index: u32,
    /// The same.
    pub slot: SlotRef<'static>,
    /// Of the thread that left it behind.
    pub attributes: u64,
    /// What it is called.
    pub name: Option<[u8; 16]>,
}

/// Slots of a process.
pub struct Slots {
    /// All that were ever taken for it.
    taken: Vec<u32>,
    /// Workers that wait for threads.
    pub spare: Vec<Spare>,
    /// Without a worker.
    pub dropped: Vec<u32>,
    /// Their workers were told to end.
    pub ending: Vec<(u32, SlotRef<'static>)>,
    /// The first thread has ended, and its worker, with these attributes, is free.
    pub leader: Option<u64>,
    /// The first thread has ended, and so has its worker.
    pub leader_gone: bool,
    /// Ids of threads that ended last, whose workers may not have ended yet.
    pub gone: VecDeque<u32>,
}

/// A slot with its worker, for a new thread.
pub struct Taken {
    /// Index.
    pub index: u32,
    /// The slot.
    pub slot: SlotRef<'static>,
    /// What the worker's thread has to be called.
    pub name: Option<[u8; 16]>,
}

impl Slots {
    /// Of a new process: the first thread's.
    pub fn first(slot: u32) -> Slots {
        Slots {
            taken: vec![slot],
            spare: Vec::new(),
            dropped: Vec::new(),
            ending: Vec::new(),
            leader: None,
            leader_gone: false,
            gone: VecDeque::new(),
        }
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

    /// The thread `tid` has ended.
    pub fn forget(&mut self, tid: u32) {
        if self.gone.len() == GONE_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back(tid);
    }

    /// A slot without a worker.
    pub fn take_empty(&mut self, p: &Space) -> Option<u32> {
        if let Some(at) = self.ending.iter().position(|(_, slot)| slot.tid() == 0) {
            return Some(self.ending.swap_remove(at).0);
        }
        if let Some(i) = self.dropped.pop() {
            return Some(i);
        }
        p.take_slot().inspect(|&slot| self.taken.push(slot))
    }
}
