//! Pools of proxies, and native tasks, whose calls they execute (`docs/delegation.md`, *Packed
//! arguments and pooled proxies*).
//!
//! A pooled proxy is a space in which no program runs. Its first slot takes the calls of the task
//! that has the proxy at that time, and what they refer to lies in the first slot's message. A
//! task's own space has a proxy, too: the command that started it. That one executes what the LWK
//! asks for on its own account, and none of the task's calls.

#![allow(unsafe_code)] // the page of a pooled proxy is found by its frame

use crate::base::lock::{Mutex, rank};
use crate::base::{heap, lists, time};
use crate::link::{delegate, direct};
use crate::mm::window::messages;
use crate::parts::pooled;
use crate::process::Process;
use crate::process::spaces::{ProcessSpace, Visit};
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::control::Control;
use hanare_abi::layout::PARTS_ALL;
use hanare_abi::pooled::{
    ATTACH_MEMBER, ATTACH_NATIVE, Member as Page, POOLED_LIMIT_SHIFT, POOLED_POOL_SHIFT,
};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::Outcome;
use hanare_core::link::search::{Search, Step};
use hanare_core::signal::{self, Disposition};
use hanare_hal::paging::SMALL;
use hanare_hal::{memory, shared};
use hanare_ikc::MemberRef;

/// A pool of proxies.
type ProxyPool = pooled::ProxyPool<ProcessSpace>;
/// A pooled proxy.
type Member = pooled::Member<ProcessSpace>;
/// A native task's pool, and the pooled proxy that executes its calls.
pub type Native = pooled::Native<ProcessSpace>;

/// Pools and pooled proxies that there are.
struct Known {
    /// Pools, by their number.
    pools: BTreeMap<u32, Weak<ProxyPool>>,
    /// Pooled proxies, by their space.
    members: BTreeMap<u32, Arc<Member>>,
}

static KNOWN: Mutex<Known, rank::ProxyPools> =
    Mutex::new(Known { pools: BTreeMap::new(), members: BTreeMap::new() });

/// `REQUEST_SPACE_OPEN` of a space without a parent: makes it what `word` says that it is to a
/// pool. Gives the parts of its addresses that the proxy is to map.
pub fn join(space: &Arc<ProcessSpace>, first: &Process, word: u64, parts: u32) -> Result<u32> {
    let limit = (word >> POOLED_LIMIT_SHIFT) as u16;
    let pool = || pool((word >> POOLED_POOL_SHIFT) as u32, limit.into());
    match word as u8 as u32 {
        ATTACH_NATIVE => {
            let pool = pool()?;
            first.native.call_once(|| Native::new(pool));
            first.pool.pack();
            space.memory.set_copies(false);
            space.memory.end_bounces(); // nothing of its calls goes by its own proxy
            space.memory.set_parts(PARTS_ALL); // it is asked to map none
            Ok(0)
        }
        ATTACH_MEMBER => enter(space, pool()?).map(|()| 0),
        _ => Ok(parts),
    }
}

/// The pool with a number, which is there from now on.
fn pool(id: u32, limit: usize) -> Result<Arc<ProxyPool>> {
    let pools = &mut KNOWN.lock().pools;
    if let Some(pool) = pools.get(&id).and_then(Weak::upgrade) {
        return Ok(pool);
    }
    pools.retain(|_, pool| pool.strong_count() != 0);
    let pool = ProxyPool::new(limit)?;
    lists::insert(pools, id, Arc::downgrade(&pool))?;
    Ok(pool)
}

/// A pooled proxy has come.
fn enter(space: &Arc<ProcessSpace>, pool: Arc<ProxyPool>) -> Result<()> {
    let slot = space.memory.slot(0).ok_or(errno::ENOMEM)?;
    slot.set_poll_us(direct::worker_poll_us());
    slot.set_sigmask(!0); // signals are not the proxy's business
    let frames = messages::grow_of(&space.memory, 0, SMALL)?;
    let (frame, _) = frames.place(0).ok_or(errno::ENOMEM)?;
    let page = memory::direct(frame) as *mut Page;
    // SAFETY: the frame is the space's until that is freed. Before that the proxy leaves the pool's
    // list (`leave`), and a task that has it by then visits the space.
    let page = unsafe { MemberRef::from_raw(page) };
    let member = heap::arc(Member {
        pool: pool.clone(),
        space: space.clone(),
        slot,
        page,
        is_gone: AtomicBool::new(false),
        is_taken: AtomicBool::new(false),
        user: Mutex::new(None),
    })?;
    {
        let mut members = pool.members.lock();
        if members.all.len() >= pool.limit {
            return Err(errno::EAGAIN);
        }
        members.add(member.clone())?;
    }
    if let Err(e) = lists::insert(&mut KNOWN.lock().members, space.memory.id, member.clone()) {
        pool.members.lock().remove(&member);
        return Err(e);
    }
    shared::here().count_member();
    pool.changed();
    Ok(())
}

/// Linux closes a space. If it is that of a pooled proxy, no task gets that any more, and the task
/// that has it is told.
pub fn leave(space: u32) {
    let Some(member) = KNOWN.lock().members.remove(&space) else { return };
    member.is_gone.store(true, Ordering::SeqCst);
    let pool = &member.pool;
    pool.members.lock().remove(&member);
    if let Some(user) = member.user.lock().clone() {
        cpus::kick(user.task());
    }
    pool.changed();
}

/// Claims a proxy of the pool that no task has; it is the running thread's `me` from now on.
fn claim(pool: &ProxyPool, me: &Thread) -> Option<(Arc<Member>, Visit)> {
    let members = pool.members.lock();
    members.all.iter().filter(|member| !member.is_taken.load(Ordering::Acquire)).find_map(
        |member| {
            let visit = member.page.claim().then(|| member.space.visit())??;
            member.is_taken.store(true, Ordering::Relaxed);
            *member.user.lock() = me.task().whole();
            Some((member.clone(), visit))
        },
    )
}

/// A pooled proxy that the running thread has, whose memory stays as long as this.
pub struct Taken {
    /// The proxy.
    pub member: Arc<Member>,
    _visit: Visit,
    /// The proxy is the one of the call before.
    pub is_kept: bool,
}

/// Reason why a call has no proxy.
pub enum NoProxy {
    /// The thread has to see to something else first.
    Interrupted(Outcome),
    /// The one that it kept is gone, and what was open there with it.
    Lost,
    /// There is none, and none can be made.
    None(Errno),
}

/// A proxy for the next call of the running thread `me`, of a native task. This is the one that the
/// task keeps, one that no task has, one that is made, or the first one that is given back.
pub fn take(me: &Thread, task: &Native) -> core::result::Result<Taken, NoProxy> {
    if task.has_abandoned.load(Ordering::Relaxed) {
        return Err(NoProxy::Lost);
    }
    let kept = task.has.lock().take();
    if let Some(member) = kept {
        let visit = member.space.visit().filter(|_| !is_gone(&member)).ok_or(NoProxy::Lost)?;
        *member.user.lock() = me.task().whole();
        *task.has.lock() = Some(member.clone());
        return Ok(Taken { member, _visit: visit, is_kept: true });
    }
    let (member, visit) = find(me, &task.pool)?;
    *task.has.lock() = Some(member.clone());
    Ok(Taken { member, _visit: visit, is_kept: false })
}

fn find(me: &Thread, pool: &ProxyPool) -> core::result::Result<(Arc<Member>, Visit), NoProxy> {
    let mut search = Search::default();
    loop {
        let seen = pool.changes.load(Ordering::SeqCst);
        if let Some(found) = claim(pool, me) {
            return Ok(found);
        }
        match pool.step(&mut search) {
            (Step::Ask, before) => {
                let made = delegate::result_of(me, Control::Member).map(drop);
                let (seen, now_ns) = (pool.answered(), time::since_boot_ns());
                search.answered(made, before, seen, now_ns).map_err(NoProxy::None)?;
                cpus::yield_now();
            }
            (Step::Wait(until_ns), _) => {
                let left_ns = until_ns.saturating_sub(time::since_boot_ns());
                let late = if until_ns == u64::MAX { cpus::NEVER } else { cpus::deadline(left_ns) };
                wait(me, pool, seen, late).map_err(NoProxy::None)?;
            }
        }
        if me.process.is_killed() {
            return Err(NoProxy::Interrupted(Outcome::PeerGone));
        }
        if me.must_end() {
            return Err(NoProxy::Interrupted(Outcome::ThreadEnding));
        }
        if me.has_signal() {
            return Err(NoProxy::Interrupted(Outcome::NotStarted));
        }
    }
}

/// Waits until the pool has changed since `seen`, the thread has to see to something else, or the
/// TSC value `late`.
fn wait(me: &Thread, pool: &ProxyPool, seen: u32, late: u64) -> Result<()> {
    let Some(whole) = me.task().whole() else { return Ok(()) };
    lists::push(&mut pool.waiting.lock(), whole)?;
    let changed = || pool.changes.load(Ordering::SeqCst) != seen;
    cpus::until_told(
        || changed() || me.process.is_killed() || me.must_end() || me.has_signal(),
        late,
    );
    pool.waiting.lock().retain(|one| !core::ptr::eq(one.task(), me.task()));
    Ok(())
}

/// Whether Linux has closed the proxy's space.
fn is_gone(member: &Member) -> bool {
    member.is_gone.load(Ordering::SeqCst)
}

impl Taken {
    /// Whether Linux has closed the proxy's space.
    pub fn is_gone(&self) -> bool {
        is_gone(&self.member)
    }

    /// A call is about to be sent: what was begun before is over.
    pub fn prepare(&self) {
        self.member.page.prepare();
    }

    /// Whether the proxy, which is gone, may have executed a part of the call.
    pub fn has_begun(&self) -> bool {
        self.member.page.has_begun()
    }

    /// Gives the proxy back to the pool.
    pub fn give_back(self, task: &Native) {
        *task.has.lock() = None;
        *self.member.user.lock() = None;
        if !is_gone(&self.member) {
            self.member.page.free();
        }
        self.member.is_taken.store(false, Ordering::Release);
        self.member.pool.changed();
    }

    /// The thread does not wait for its answer: the task has it to its end, and makes no more
    /// calls.
    pub fn abandon(self, task: &Native) {
        task.has_abandoned.store(true, Ordering::Relaxed);
        *self.member.user.lock() = None;
    }

    /// Keeps the proxy for the task, whose call is over.
    pub fn keep(self) {
        *self.member.user.lock() = None;
    }
}

/// Whether the running thread `me` ends by a signal that waits.
pub fn dies(me: &Thread) -> bool {
    if !me.has_signal() {
        return false;
    }
    let own = me.signals.lock();
    let process = me.process.signals.lock();
    let mut waiting = own.waiting().union(process.pending.set()).difference(own.mask);
    while let Some(signal) = waiting.first() {
        if matches!(signal::decide(signal, &process.actions), Disposition::Terminate { .. }) {
            return true;
        }
        waiting = waiting.without(signal);
    }
    false
}
