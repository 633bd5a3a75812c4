//! Parts of pools of proxies, of pooled proxies and of native tasks (`process/members.rs`). `S`:
//! the space of a process.

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

/// A pool of proxies. A process that has its descriptor joins only with the rights of the pool's
/// maker: the module sees to that.
pub struct ProxyPool<S> {
    /// Most proxies.
    pub limit: usize,
    /// The proxies of the pool, and those to come.
    pub members: Mutex<Members<S>, rank::PooledProxies>,
    /// Threads that wait for a proxy.
    pub waiting: Mutex<Vec<Arc<dyn Runs>>, rank::PoolWaiters>,
    /// Counts when a proxy came, went, or was given back, or was not to be had.
    pub changes: AtomicU32,
}

/// The proxies of a pool.
pub struct Members<S> {
    /// The proxies that there are.
    pub all: Vec<Arc<Member<S>>>,
    /// Tasks that have asked for one more, which has not come yet.
    asked: usize,
    /// Number of proxies that have come.
    came: u32,
    /// Number of proxies that have gone.
    left: u32,
}

impl<S> Members<S> {
    /// The proxies as a search for a free one sees them, in a pool with this `limit`.
    pub const fn seen(&self, limit: usize) -> Seen {
        Seen { proxies: self.all.len(), asked: self.asked, limit, came: self.came, left: self.left }
    }

    /// Adds a pooled proxy that has come.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn add(&mut self, member: Arc<Member<S>>) -> Result<()> {
        lists::push(&mut self.all, member)?;
        self.came = self.came.wrapping_add(1);
        Ok(())
    }

    /// Removes a pooled proxy that has gone, if it is still there.
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
    /// The proxy's pool.
    pub pool: Arc<ProxyPool<S>>,
    /// The proxy's space, in which no program runs.
    pub space: Arc<S>,
    /// The first slot.
    pub slot: SlotRef<'static>,
    /// The page that says which task has the proxy. Read and written while the space is visited or
    /// the proxy is in the pool's list.
    pub page: MemberRef<'static>,
    /// Linux has closed the proxy's space.
    pub is_gone: AtomicBool,
    /// A task has the proxy. Changed with the pool's list locked, or by the task that has the
    /// proxy. The page says so, too, but the proxy may write there.
    pub is_taken: AtomicBool,
    /// The thread that has the proxy.
    pub user: Mutex<Option<Arc<dyn Runs>>, rank::TaskProxy>,
}

/// A native task's link to the pooled proxies that execute its calls.
pub struct Native<S> {
    /// The task's pool.
    pub pool: Arc<ProxyPool<S>>,
    /// The task keeps the proxy that executes its calls.
    pub keeps: AtomicBool,
    /// The proxy that the task keeps, or one that is just executing a call.
    pub has: Mutex<Option<Arc<Member<S>>>, rank::TaskProxy>,
    /// The task did not wait for the answer of that proxy, which may be in the call still.
    pub has_abandoned: AtomicBool,
    /// Packed calls.
    pub calls: AtomicU64,
}

impl<S> Native<S> {
    /// Whether the task has kept a pooled proxy that is still there.
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
    /// Makes the link of a task of a pool, without a proxy yet.
    pub const fn new(pool: Arc<ProxyPool<S>>) -> Self {
        let (keeps, has_abandoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { pool, keeps, has: Mutex::new(None), has_abandoned, calls: AtomicU64::new(0) }
    }
}

impl<S> ProxyPool<S> {
    /// A pool without proxies.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(limit: usize) -> Result<Arc<Self>> {
        let members = Mutex::new(Members { all: Vec::new(), asked: 0, came: 0, left: 0 });
        let waiting = Mutex::new(Vec::new());
        heap::arc(Self { limit, members, waiting, changes: AtomicU32::new(0) })
    }

    /// Has the threads that wait look again.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.waiting.lock().iter().for_each(|thread| cpus::kick(thread.task()));
    }

    /// Next step of a task that has found no proxy, and what the task saw. If the step is to ask,
    /// the task counts from then on as one that has asked (see [`answered`](Self::answered)).
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
