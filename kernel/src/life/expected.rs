//! Processes that wait for their proxies: the child of a fork, the program of an execve.
//!
//! The proxy claims the process, or its maker gives it up: one of both gets it. A child whose maker
//! has gone on is given up when Linux tells its end.

use crate::base::lock::{Mutex, Rank};
use crate::base::{heap, lists};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::mem;
use hanare_core::errno::Result;
use hanare_core::life::{Event, Process, ProcessState, ThreadState};

/// The space of its maker, and the token by which its proxy asks for it.
pub type Key = (u32, u64);

/// The process that it will be, before that is made, and what that is made of. Boxed: it is large,
/// and a tree moves its values through the kernel stack.
struct Entry<T> {
    life: Process,
    what: Option<Box<T>>,
}

impl<T> Entry<T> {
    fn step(&mut self, event: Event) -> Option<Box<T>> {
        self.life.step(&mut ThreadState::Gone, event).ok()?;
        self.what.take()
    }
}

/// Entries of one kind, each of which waits for its proxy.
pub struct Expected<T, R: Rank>(Mutex<BTreeMap<Key, Entry<T>>, R>);

impl<T, R: Rank> Expected<T, R> {
    /// A list without entries.
    pub const fn new() -> Self {
        Expected(Mutex::new(BTreeMap::new()))
    }

    /// Memory of the list if it is empty.
    pub fn trim(&self) {
        heap::trim_list(&self.0);
    }

    /// Whether there is memory for one more entry.
    pub fn room(&self) -> Result<()> {
        heap::room_for_entry::<Key, Entry<T>>()
    }

    /// Adds an entry, for which there is [`room`](Self::room).
    pub fn insert(&self, key: Key, what: Box<T>) {
        let entry = Entry { life: Process::EXPECTED, what: Some(what) };
        lists::insert_within(&mut self.0.lock(), key, entry);
    }

    /// Gives the result of `f` about an entry that has not been claimed.
    pub fn look<A>(&self, key: Key, f: impl FnOnce(&T) -> A) -> Option<A> {
        self.0.lock().get(&key)?.what.as_deref().map(f)
    }

    /// Gives the entry to its proxy, which has come. The key stays in the list until
    /// [`settle`](Self::settle).
    pub fn claim(&self, key: Key) -> Option<Box<T>> {
        self.0.lock().get_mut(&key)?.step(Event::Claim)
    }

    /// Removes an entry that was claimed: the process has been made, or is not going to be.
    pub fn settle(&self, key: Key) {
        self.0.lock().remove(&key);
    }

    /// The maker waits no longer, and gets it back unless the proxy has come. What is
    /// [entrusted](Self::entrust) stays.
    pub fn give_up(&self, key: Key) -> Option<Box<T>> {
        let mut all = self.0.lock();
        if all.get(&key)?.life.is_entrusted() {
            return None;
        }
        all.remove(&key)?.step(Event::GiveUp)
    }

    /// The maker goes on, and Linux tells its end. False: its proxy has come, or its end has been
    /// told.
    pub fn entrust(&self, key: Key) -> bool {
        let entrust = |e: &mut Entry<T>| e.life.step(&mut ThreadState::Gone, Event::Entrust);
        self.0.lock().get_mut(&key).map(entrust).is_some_and(|step| step.is_ok())
    }

    /// Removes an entry whose end Linux has told, unless the proxy has come. Gives what waited.
    pub fn end(&self, key: Key) -> Option<Box<T>> {
        let mut all = self.0.lock();
        if all.get(&key)?.life.state() != ProcessState::Expected {
            return None;
        }
        all.remove(&key)?.step(Event::Kill)
    }

    /// Whether the process waits for its proxy, or is being made.
    pub fn is_there(&self, key: Key) -> bool {
        self.0.lock().contains_key(&key)
    }

    /// Gives up all entries of a space that is gone, but for those that are entrusted.
    pub fn forget(&self, space: u32) {
        loop {
            let all = self.0.lock();
            let mut those = all.range((space, 0)..=(space, u64::MAX));
            let key = those.find(|(_, e)| !e.life.is_entrusted()).map(|(k, _)| *k);
            drop(all);
            let Some(key) = key else { break };
            mem::drop(self.give_up(key));
        }
    }
}
