//! What a pool of proxies, a pooled proxy and a native task keep (`process/members.rs`). `S`: the space of a process.

use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::time;
use crate::sched::cpus;
use crate::sched::task::Runs;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_core::errno::Result;
use hanare_core::link::search::{Search, Seen, Step};
use hanare_ikc::{MemberRef, SlotRef};

/// A pool of proxies. Of those who have its descriptor only those join who have the rights of who made it: the module sees
/// to that.
pub struct ProxyPool<S> {
    /// Most proxies.
    pub limit: usize,
    /// Those that there are, and are to come.
    pub members: Mutex<Members<S>, rank::PooledProxies>,
    /// Threads that wait for one.
    pub waiting: Mutex<Vec<Arc<dyn Runs>>, rank::PoolWaiters>,
    /// Counts when a proxy came, went, or was given back, or was not to be had.
    pub changes: AtomicU32,
}

/// The proxies of a pool.
pub struct Members<S> {
    /// Those that there are.
    pub all: Vec<Arc<Member<S>>>,
    /// Tasks that have asked for one more, which has not come yet.
    asked: usize,
    /// How many have come.
    came: u32,
    /// How many have gone.
    left: u32,
}

impl<S> Members<S> {
    /// As who looks for one sees them, in a pool with this `limit`.
    pub const fn seen(&self, limit: usize) -> Seen {
        Seen { proxies: self.all.len(), asked: self.asked, limit, came: self.came, left: self.left }
    }

    /// One has come.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn add(&mut self, member: Arc<Member<S>>) -> Result<()> {
        lists::push(&mut self.all, member)?;
        self.came = self.came.wrapping_add(1);
        Ok(())
    }

    /// One has gone, if it is still there.
    pub fn remove(&mut self, member: &Arc<Member<S>>) {
        let before = self.all.len();
        self.all.retain(|one| !Arc::ptr_eq(one, member));
        if self.all.len() != before {
            self.left = self.left.wrapping_add(1);
        }
    }
}

/// A pooled proxy.
pub struct Member<S> {
    /// Its pool.
    pub pool: Arc<ProxyPool<S>>,
    /// Its space, in which no program runs.
    pub space: Arc<S>,
    /// The first slot.
    pub slot: SlotRef<'static>,
    /// Whose it is. Read and written while the space is visited or the proxy is in the pool's list.
    pub page: MemberRef<'static>,
    /// Linux has closed its space.
    pub is_gone: AtomicBool,
    /// A task has it. Changed with the pool's list locked, or by whose it is: the page says so, too, but the proxy may write there.
    pub is_taken: AtomicBool,
    /// The thread that has it.
    pub user: Mutex<Option<Arc<dyn Runs>>, rank::TaskProxy>,
}

/// What a native task has in place of a proxy that executes its calls.
pub struct Native<S> {
    /// Its pool.
    pub pool: Arc<ProxyPool<S>>,
    /// It keeps the proxy that executes its calls.
    pub keeps: AtomicBool,
    /// That proxy, or one that is just executing a call.
    pub has: Mutex<Option<Arc<Member<S>>>, rank::TaskProxy>,
    /// It did not wait for the answer of that proxy, which may be in the call still.
    pub has_abandoned: AtomicBool,
    /// Packed calls.
    pub calls: AtomicU64,
}

impl<S> Native<S> {
    /// Whether it has kept one that is still there.
    pub fn has_kept(&self) -> bool {
        self.has.lock().as_ref().is_some_and(|member| !member.is_gone.load(Ordering::SeqCst))
    }

    /// The task has ended: the proxy that it has still, if that is there.
    pub fn left_behind(&self) -> Option<Arc<Member<S>>> {
        let member = self.has.lock().take()?;
        (!member.is_gone.load(Ordering::SeqCst)).then_some(member)
    }
}

impl<S> Native<S> {
    /// Of a task of a pool, without a proxy yet.
    pub const fn new(pool: Arc<ProxyPool<S>>) -> Self {
        let (keeps, has_abandoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { pool, keeps, has: Mutex::new(None), has_abandoned, calls: AtomicU64::new(0) }
    }
}

impl<S> ProxyPool<S> {
    /// Without proxies.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(limit: usize) -> Result<Arc<Self>> {
        let members = Mutex::new(Members { all: Vec::new(), asked: 0, came: 0, left: 0 });
        let waiting = Mutex::new(Vec::new());
        heap::arc(Self { limit, members, waiting, changes: AtomicU32::new(0) })
    }

    /// Whoever waits looks again.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.waiting.lock().iter().for_each(|thread| cpus::kick(thread.task()));
    }

    /// Next step of a task that has found none. It counts from then on as one that has asked, if that is it (see
    /// [`answered`](Self::answered)); also what it saw.
    pub fn step(&self, search: &mut Search) -> (Step, Seen) {
        let mut members = self.members.lock();
        let seen = members.seen(self.limit);
        let step = search.next(seen, time::since_boot_ns());
        members.asked += usize::from(step == Step::Ask);
        (step, seen)
    }

    /// A task that had asked has its answer.
    pub fn answered(&self) -> Seen {
        let seen = {
            let mut members = self.members.lock();
            members.asked -= 1;
            members.seen(self.limit)
        };
        self.changed();
        seen
    }
}
