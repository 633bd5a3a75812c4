//! Which processes have which space, and how spaces begin and end. Of most, one process has it;
//! processes made with CLONE_VM and not as threads share one.

use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::link::inbound;
use crate::mm::change::end;
use crate::mm::fault::linux;
use crate::process::memory::{self, NO_REQUEST};
use crate::process::thread::Thread;
use crate::process::{self, Process};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::life::{self, Kept, Refused, SpaceEffect, SpaceEvent, Used};
use hanare_hal::shared;

/// Spaces by id.
type Spaces = Mutex<BTreeMap<u32, Arc<ProcessSpace>>, rank::Spaces>;

/// The spaces, in parts: any CPU serves requests of any of them.
static SPACES: [Spaces; PARTS] = [const { Mutex::new(BTreeMap::new()) }; PARTS];
const PARTS: usize = 64;

/// The part of [`SPACES`] where a space is.
fn part_of(space: u32) -> &'static Spaces {
    &SPACES[space as usize % PARTS]
}

/// The space with an id.
pub fn find(space: u32) -> Option<Arc<ProcessSpace>> {
    part_of(space).lock().get(&space).cloned()
}

/// The use of spaces that Linux has been told of before their ends, by id: each from the first such
/// answer to the one that says that nothing is left.
static ENDS: Mutex<BTreeMap<u32, Kept>, rank::Ends> = Mutex::new(BTreeMap::new());

/// The space with an id, whose end answers `request` from now on. Found and noted under one lock,
/// which the end of the space takes before it looks for the request: so none is noted at a space
/// that has ended.
///
/// # Errors
/// The space has ended: its use, if that is kept still.
pub fn find_to_answer(
    space: u32,
    request: u32,
) -> core::result::Result<Arc<ProcessSpace>, Option<Used>> {
    let spaces = part_of(space).lock();
    let Some(found) = spaces.get(&space) else {
        return Err(ENDS.lock().get(&space).and_then(|kept| kept.used()));
    };
    found.close_request.store(request, Ordering::Release);
    Ok(found.clone())
}

/// The space with an id, whose use is kept from now on until [`take_used`] gives it.
pub fn find_to_keep(space: u32) -> Option<Arc<ProcessSpace>> {
    // Without memory for it the use is lost, and the end is none the later.
    let has_room = heap::room_for_entry::<u32, Kept>().is_ok();
    let spaces = part_of(space).lock();
    let found = spaces.get(&space)?;
    let mut ends = ENDS.lock();
    if has_room && !ends.contains_key(&space) {
        lists::insert_within(&mut ends, space, Kept::default());
    }
    Some(found.clone())
}

/// The use of a space that has ended, if it was kept; it is no longer. `None`: it has not ended.
pub fn take_used(space: u32) -> Option<Option<Used>> {
    let spaces = part_of(space).lock();
    let has_ended = !spaces.contains_key(&space);
    has_ended.then(|| ENDS.lock().remove(&space).and_then(Kept::used))
}

/// Notes the use of a space, which is found no more from now on. Gives the request that its end
/// answers, or [`NO_REQUEST`].
fn remove(space: &ProcessSpace, used: Used) -> u32 {
    let mut spaces = part_of(space.memory.id).lock();
    spaces.remove(&space.memory.id);
    if let Some(kept) = ENDS.lock().get_mut(&space.memory.id) {
        kept.ended(used);
    }
    space.close_request.swap(NO_REQUEST, Ordering::AcqRel)
}

/// The spaces of a part, by id. Nothing is locked between two of them.
fn all_of(part: &'static Spaces) -> impl Iterator<Item = Arc<ProcessSpace>> {
    let mut last = 0; // no space has this id
    core::iter::from_fn(move || {
        let next = part.lock().range(last + 1..).next().map(|(_, space)| space.clone())?;
        last = next.memory.id;
        Some(next)
    })
}

/// Every space.
pub fn all() -> impl Iterator<Item = Arc<ProcessSpace>> {
    SPACES.iter().flat_map(all_of)
}

/// The thread that `asker` knows by Linux' thread id `tid`, of whatever process in the same
/// process id namespace.
pub fn find_thread(asker: &Process, tid: u32) -> Option<Arc<Thread>> {
    let namespace = asker.pid_namespace();
    let found = all().find_map(|space| {
        let mut known = space.processes().filter(|p| p.pid_namespace() == namespace);
        known.find_map(|p| p.threads().find(|t| t.tid() == tid))
    })?;
    Some(successor(&found, tid).unwrap_or(found))
}

/// The thread that has the id `tid` from now on, which `thread` had. A program goes on as that one
/// in memory of its own (execve). Not asked of the thread: its slot may be gone with its process.
pub fn successor(thread: &Thread, tid: u32) -> Option<Arc<Thread>> {
    let mut last = None;
    let mut process = thread.process.clone();
    while process.pid() == tid
        && let Some(next) = process.successor()
    {
        process = next.process.clone();
        last = Some(next);
    }
    last
}

/// Does something with every thread there is.
pub fn each_thread(mut f: impl FnMut(&Arc<Thread>)) {
    all().for_each(|space| space.processes().for_each(|p| p.threads().for_each(|t| f(&t))));
}

/// Memory of lists that are empty.
pub fn trim() {
    SPACES.iter().for_each(heap::trim_list);
    heap::trim_list(&ENDS);
}

/// Frees service entries that no thread waits for any more.
pub fn sweep() {
    for p in all() {
        linux::finish_fills(&p.memory, None, 0);
    }
}

/// A space and the processes that have it.
pub type ProcessSpace = memory::ProcessSpace<Process, Thread>;

impl ProcessSpace {
    /// The first process, of a space that is found by its id from now on.
    pub fn enter_first(
        self: &Arc<Self>,
        parent: Weak<Process>,
        life: life::Process,
        words: &[u64],
    ) -> Result<Arc<Process>> {
        heap::room_for_entry::<u32, Arc<ProcessSpace>>()?;
        let first = Process::new(self.clone(), 0, parent, life)?;
        first.set_pid_namespace(words.get(5).copied().unwrap_or(0));
        self.enter(&first)?;
        let mut spaces = part_of(self.memory.id).lock();
        if lists::insert_within(&mut spaces, self.memory.id, self.clone()).is_some() {
            return Err(errno::EEXIST);
        }
        Ok(first)
    }

    /// The process whose first thread has, or had, this slot.
    pub fn process(&self, first_slot: u32) -> Option<Arc<Process>> {
        self.processes.lock().all.iter().find(|p| p.first_slot == first_slot).cloned()
    }

    /// The process of the thread with this slot; the first one where there is none.
    pub fn process_of(&self, slot: u32) -> Option<Arc<Process>> {
        if self.processes.lock().all.len() > 1
            && let Some(process) = self.processes().find(|p| p.thread(slot).is_some())
        {
            return Some(process);
        }
        self.first()
    }

    /// The process with this id, or with a thread that has it; the first one where there is none.
    pub fn process_with(&self, tid: u32) -> Option<Arc<Process>> {
        let has = |p: &Arc<Process>| p.pid() == tid || p.threads().any(|t| t.tid() == tid);
        if self.processes.lock().all.len() > 1
            && let Some(process) = self.processes().find(has)
        {
            return Some(process);
        }
        self.first()
    }

    /// Enters control groups, or takes over new limits of them. If anything differs, the threads
    /// look.
    ///
    /// # Errors
    /// See [`Account::enter`](crate::base::accounts::Account::change_groups).
    pub fn enter_groups(&self, words: &[u64]) -> Result<()> {
        if self.memory.account.change_groups(words)? {
            self.processes().for_each(|p| p.kick_all());
        }
        Ok(())
    }

    /// A program starts in it.
    ///
    /// # Errors
    /// `EBUSY`: one has been. `ESRCH`: Linux has closed it.
    pub fn start(&self) -> Result<()> {
        self.step(SpaceEvent::Start, |_, _| {}).map(drop).map_err(|refused| match refused {
            Refused::Busy => errno::EBUSY,
            Refused::MustEnd | Refused::Not => errno::ESRCH,
        })
    }

    /// `process` leaves it: none of its threads is left. Said once of each process.
    pub fn process_left(&self, process: &Arc<Process>) {
        let gone = |all: &mut Vec<Arc<Process>>, effect| {
            if effect == SpaceEffect::Remove {
                all.retain(|p| !Arc::ptr_eq(p, process));
            }
        };
        match self.step(SpaceEvent::Leave, gone) {
            Ok(SpaceEffect::Remove) => {
                process.finish();
                self.memory.return_slots(&mut process.slots.lock().all());
            }
            Ok(SpaceEffect::Free) => self.free(),
            Ok(SpaceEffect::None) | Err(_) => {}
        }
    }

    /// `REQUEST_SPACE_CLOSE`: ends the threads; the last of them frees everything, or this where
    /// there is none. A second time it changes nothing.
    pub fn close(&self) {
        let effect = self.step(SpaceEvent::Close, |_, _| {});
        self.processes().for_each(|p| p.kill());
        if effect == Ok(SpaceEffect::Free) {
            self.free();
        }
    }

    /// Keeps what it has, though Linux may close it, as long as the result is there. A thread of
    /// another space is at work in it, and counts as one more process. `None`: it is closed.
    pub fn visit(self: &Arc<Self>) -> Option<Visit> {
        self.step(SpaceEvent::Enter, |_, _| {}).ok()?;
        Some(Visit(self.clone()))
    }

    /// Frees everything: no thread is left. Done once.
    fn free(&self) {
        self.processes().for_each(|p| p.finish());
        process::space_gone(self.memory.id);
        end::all(&self.memory);
        let (user_ns, system_ns) = self.processes().next().map_or((0, 0), |p| p.times_ns());
        let member = self.first().and_then(|p| p.native.get()?.left_behind());
        let member = member.map_or(0, |member| member.space.memory.id);
        let used = Used { user_ns, system_ns, peak_bytes: self.memory.memory_use().1, member };
        let request = remove(self, used);
        let processes = core::mem::take(&mut self.processes.lock().all);
        drop(processes);
        heap::trim_if_large();
        if request != NO_REQUEST {
            answer_close(request, Some(used));
        }
    }
}

/// Answers a `REQUEST_SPACE_CLOSE` about a space that has ended. Without its `used` by an error, so
/// that this answer hides none that had it.
pub fn answer_close(request: u32, used: Option<Used>) {
    let Some(used) = used else {
        return inbound::complete(request, -errno::ESRCH.0);
    };
    let r = shared::request(request);
    let Used { user_ns, system_ns, peak_bytes, member } = used;
    for (i, v) in [user_ns, system_ns, peak_bytes, member.into()].into_iter().enumerate() {
        r.set_arg(i, v);
    }
    inbound::complete(request, 0);
}

/// A visit of a space, which is freed no earlier than this is dropped ([`ProcessSpace::visit`]).
pub struct Visit(Arc<ProcessSpace>);

impl Drop for Visit {
    fn drop(&mut self) {
        if self.0.step(SpaceEvent::Leave, |_, _| {}) == Ok(SpaceEffect::Free) {
            self.0.free();
        }
    }
}
