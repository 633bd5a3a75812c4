//! Accounts: what each user has of the instance, and how much the user may have.
//!
//! The module says which user a space has: the real user of the proxy that opens it, as Linux
//! charges processes; in a user namespace the owner of that namespace. All that a space makes the
//! kernel keep is charged to the [`Account`] of the space, in two sums. *Memory* are pages of
//! programs. *Kernel memory* is everything else: start blocks, slots, kernel stacks, page tables,
//! mappings, filters, the objects themselves. The [`User`] is charged in advance and in larger
//! pieces, so that CPUs which serve different spaces of one user rarely write to the same line.
//!
//! An account stays charged for the frames that its space has given up and Linux still holds
//! ([`GivenUp`], `quarantine`). So an account may outlive the last process of its space. If Linux
//! holds more of one user's frames than `held_max`, that user's programs get no page and no process
//! more. The user of a frame stands in the frame's word (`owners`).
//!
//! A program's pages are also charged to its control group, if that has a limit (`memory.max`),
//! each page once, however many processes share it (`core::groups`). A program's CPU time is
//! charged to the control group that limits it (`cpu.max`, `core::bandwidth`, `sched::quota`). As
//! on Linux both bind root, too.

use crate::base::frames::{self, GROUPS, NoPage};
use crate::base::given_up::{GivenUp, Held, Quarantined};
use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use hanare_abi::boot::BELL_BYTES;
use hanare_abi::request::MEMORY_GROUPS_WORDS;
use hanare_core::account::Sum;
use hanare_core::bandwidth::{self, Bandwidths, Limit};
use hanare_core::errno::{self, Result};
use hanare_core::groups::{self, NOBODY, Tag};
use hanare_core::ledger::{FrameOwner, Subject, USERS_END};
use hanare_core::nodes::{Nodes, Placement};
use hanare_core::signal::UserSignals;
use hanare_core::userlimits::{self, UserLimits};
use hanare_hal::addr::PhysAddr;
use hanare_hal::shared;
use spin::Once;

/// The user that has no limits.
const ROOT: u32 = 0;
/// Users that have spaces or observe some, by user id.
static USERS: Mutex<BTreeMap<u32, Known>, rank::Users> = Mutex::new(BTreeMap::new());
/// Bytes of the rings of all traces.
static RINGS: AtomicU64 = AtomicU64::new(0);

/// A user, which the list does not keep.
struct Known {
    user: Weak<User>,
    number: u32,
}

/// A number that none of these users has, the next one after the last one's. So the number in the
/// word of a frame that outlives its user does not soon become another user's.
fn next_number(users: &BTreeMap<u32, Known>) -> u32 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = (LAST.fetch_add(1, Ordering::Relaxed) % u64::from(USERS_END - 1)) as u32 + 1;
        if users.values().all(|known| known.number != number) {
            return number;
        }
    }
}

/// Limits of a user, as booted, in bytes.
static LIMITS: Once<Limits> = Once::new();

#[derive(Clone, Copy)]
struct Limits {
    processes: u64,
    kernel: u64,
    memory: u64,
    /// Bytes that Linux may hold of the frames that all users have given up.
    held: u64,
}

impl Limits {
    const NONE: Limits =
        Limits { processes: u64::MAX, kernel: u64::MAX, memory: u64::MAX, held: u64::MAX };
}

/// Takes the boot option, once memory is there.
pub fn init(limits: UserLimits) {
    let total = frames::usage_without_stocks().1;
    let all = Limits {
        processes: limits.processes,
        kernel: limits.kernel_memory.bytes_of(total),
        memory: limits.memory.bytes_of(total),
        held: total / userlimits::HELD_SHARE,
    };
    LIMITS.call_once(|| all);
}

/// Memory of the list if it is empty.
pub fn trim() {
    heap::trim_list(&USERS);
}

/// A user.
pub struct User {
    uid: u32,
    /// The number by which the words of frames name the user.
    number: u32,
    limits: Limits,
    processes: AtomicU64,
    /// Bells of the slots of the user's programs.
    bells: AtomicU64,
    /// Bytes of the rings of the user's traces.
    rings: AtomicU64,
    kernel: AtomicU64,
    memory: AtomicU64,
    /// Bytes that Linux holds of the frames that the user has given up.
    held: Held,
    /// The user's frames in quarantine.
    pub quarantined: Mutex<Quarantined<Account>, rank::QuarantinedAccounts>,
    /// Signals that are queued for the user's programs.
    pub signals: Arc<UserSignals>,
    /// Pages of the user's programs on the NUMA nodes that were looked at last, where those were
    /// full.
    pub on_nodes: AtomicU64,
}

impl User {
    /// The user with an id.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn of(uid: u32) -> Result<Arc<User>> {
        let mut users = USERS.lock();
        if let Some(known) = users.get(&uid).and_then(|known| known.user.upgrade()) {
            return Ok(known);
        }
        heap::room_for_entry::<u32, Known>()?;
        let limits =
            if uid == ROOT { Limits::NONE } else { LIMITS.get().copied().unwrap_or(Limits::NONE) };
        let signals = heap::arc(UserSignals::new())?;
        heap::room_for_arc::<User>()?; // made and dropped, a user wants the lock
        let number = next_number(&users);
        let new = lists::arc_within(User {
            uid,
            number,
            limits,
            processes: AtomicU64::new(0),
            bells: AtomicU64::new(0),
            rings: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            held: Held::of(limits.held),
            quarantined: Mutex::new(Quarantined::NOTHING),
            signals,
            on_nodes: AtomicU64::new(0),
        });
        lists::insert_within(&mut users, uid, Known { user: Arc::downgrade(&new), number });
        Ok(new)
    }

    /// The user's id.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The number by which the words of frames name the user.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The charges of the user: kernel memory and memory, bytes; processes.
    pub fn charged(&self) -> [u64; 3] {
        [&self.kernel, &self.memory, &self.processes].map(|sum| sum.load(Ordering::Relaxed))
    }

    /// All memory that is charged to the user, bytes.
    pub fn bytes(&self) -> u64 {
        self.kernel.load(Ordering::Relaxed) + self.memory.load(Ordering::Relaxed)
    }

    /// Whether the user's programs may have no more pages before one of them has ended: what the
    /// user has, and what the user may have. Kernel memory is charged in advance, and is refused
    /// before it comes to this. It may be a little more: page tables and mappings are counted
    /// afterwards.
    pub fn excess(&self) -> Option<[u64; 2]> {
        let memory = [self.memory.load(Ordering::Relaxed), self.limits.memory];
        let kernel = [
            self.kernel.load(Ordering::Relaxed),
            self.limits.kernel.saturating_add(self.limits.kernel / 8),
        ];
        let over = [memory, kernel].into_iter().find(|[has, may_have]| has > may_have);
        over.or_else(|| self.held_above())
    }

    /// Whether Linux holds more of the user's memory than it may: how much, and how much it may.
    pub fn held_above(&self) -> Option<[u64; 2]> {
        self.held.above()
    }
}

/// The first user whose id is `from` or more. No lock is held when the caller looks at the user,
/// since the caller may drop the last reference.
pub fn first_from(from: u32) -> Option<Arc<User>> {
    let mut from = Some(from);
    loop {
        let next =
            USERS.lock().range(from?..).next().map(|(&uid, known)| (uid, known.user.upgrade()));
        let (uid, user) = next?;
        if user.is_some() {
            return user;
        }
        from = uid.checked_add(1); // the user is going
    }
}

/// Bytes of the rings of all traces.
pub fn rings() -> u64 {
    RINGS.load(Ordering::Relaxed)
}

impl Drop for User {
    fn drop(&mut self) {
        let mut users = USERS.lock();
        // Another `User` may have the id by now.
        if users.get(&self.uid).is_some_and(|known| core::ptr::eq(known.user.as_ptr(), self)) {
            users.remove(&self.uid);
        }
    }
}

/// The reason why a page was refused, apart from the instance's want of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The limit of a control group.
    Group(Tag),
    /// The nodes that it has to come from have none.
    Nodes(Nodes),
}

/// The charges of a space, of a fork that is to become one, or of a session that observes some.
pub struct Account {
    user: Arc<User>,
    kernel: Sum,
    memory: Sum,
    /// The control group. Pages are charged under the lock, so none is charged to a group that was
    /// left.
    group: Mutex<Tag, rank::ControlGroup>,
    /// Why it was refused a page, where it was not the instance's lack.
    refused_by: Mutex<Option<Refusal>, rank::Refusal>,
    /// The control group that its CPU time is charged to.
    cpu_group: AtomicU16,
    /// A hash of the words by which its control groups and their limits were told last.
    told: AtomicU64,
    /// Frames that the space has given up and Linux may hold, by the lists of `Inquiry`.
    pub given_up: Mutex<[GivenUp<Account>; 2], rank::Quarantine>,
}

/// Control groups that are charged for CPU time, in cycles of the TSC.
pub static BANDWIDTHS: Bandwidths = Bandwidths::new();

/// One that enters or changes its control groups at a time.
static ENTERING: Mutex<(), rank::EnteringGroups> = Mutex::new(());

/// FNV-1a, of words.
fn hash(words: &[u64]) -> u64 {
    words
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}

impl Account {
    /// Makes the account of a new space of a user, in these control groups (see
    /// [`change_groups`](Self::change_groups)).
    ///
    /// # Errors
    /// `ENOMEM`. `EAGAIN`: there are too many control groups.
    pub fn of(uid: u32, groups: &[u64]) -> Result<Arc<Account>> {
        let (group, refused_by, cpu_group) =
            (Mutex::new(NOBODY), Mutex::new(None), AtomicU16::new(NOBODY));
        let new = heap::arc(Account {
            user: User::of(uid)?,
            kernel: Sum::default(),
            memory: Sum::default(),
            group,
            refused_by,
            cpu_group,
            told: AtomicU64::new(0),
            given_up: Mutex::new([const { GivenUp::NOTHING }; 2]),
        })?;
        new.enter(groups, false)?;
        Ok(new)
    }

    /// Moves the account into these control groups, given as a request's words (`GROUPS_WORD`);
    /// where there are too many, into the outer ones of them. What was charged stays where it is.
    /// Returns whether the groups or a limit are new. The module repeats the words as long as there
    /// was no room for all groups.
    ///
    /// # Errors
    /// `EAGAIN`: there are too many; the account stays in the groups that it was in.
    pub fn change_groups(&self, words: &[u64]) -> Result<bool> {
        self.enter(words, true)
    }

    fn enter(&self, words: &[u64], is_in_some: bool) -> Result<bool> {
        let (memory, cpu) = words.split_at_checked(MEMORY_GROUPS_WORDS).ok_or(errno::EINVAL)?;
        let limits = bandwidth::from_words(cpu)
            .map(|(id, limit)| if binds(limit) { (id, in_cycles(limit)) } else { (0, limit) });
        // Held to the end: the groups may be told a second time, and served by another CPU, before
        // the first has ended.
        let _one = ENTERING.lock();
        let (user, memory) = (self.user.uid, groups::from_words(memory));
        let (entered, cpu_entered) = if is_in_some {
            (GROUPS.change(user, &memory), BANDWIDTHS.change(user, &limits))
        } else {
            (GROUPS.enter(user, &memory), BANDWIDTHS.enter(user, &limits))
        };
        let (entered, cpu_entered) = match (entered, cpu_entered) {
            (Some(entered), Some(cpu_entered)) => (entered, cpu_entered),
            (entered, cpu_entered) => {
                GROUPS.leave(entered.unwrap_or(NOBODY));
                BANDWIDTHS.leave(cpu_entered.unwrap_or(NOBODY));
                return Err(errno::EAGAIN);
            }
        };
        let left = core::mem::replace(&mut *self.group.lock(), entered);
        GROUPS.leave(left);
        let cpu_left = self.cpu_group.swap(cpu_entered, Ordering::Relaxed);
        BANDWIDTHS.leave(cpu_left);
        let told = hash(words);
        let is_new = self.told.swap(told, Ordering::Relaxed) != told;
        Ok(is_new || (left, cpu_left) != (entered, cpu_entered))
    }

    /// The control group that its CPU time is charged to.
    pub fn cpu_group(&self) -> Tag {
        self.cpu_group.load(Ordering::Relaxed)
    }

    /// Whether the account's pages are charged to this control group.
    pub fn is_in(&self, group: Tag) -> bool {
        GROUPS.is_within(*self.group.lock(), group)
    }

    /// Whether the account's pages are charged to any control group.
    pub fn has_group(&self) -> bool {
        *self.group.lock() != NOBODY
    }

    /// Whether its user and its control group may have some more pages, so that it need not be
    /// careful with a few.
    pub fn has_room(&self, pages: u64) -> bool {
        let left = self.user.limits.memory.saturating_sub(self.user.memory.load(Ordering::Relaxed));
        GROUPS.room(*self.group.lock()) >= pages && left / 4096 >= pages
    }

    /// A block of `1 << order` pages of a program; `is_own`: charged to its control group.
    pub fn alloc(&self, order: u32, place: &Placement, is_own: bool) -> Option<PhysAddr> {
        let group = self.group.lock();
        let charged = if is_own { *group } else { NOBODY };
        let block = frames::alloc_charged(order, charged, place, self.owner(Subject::Pages));
        // For a larger one smaller ones may do.
        self.note(block.err().filter(|_| order == 0), place);
        block.ok()
    }

    /// Charges a single page that becomes a program's own, if no group has been charged for it.
    /// False: the account may not have it.
    pub fn take(&self, paddr: PhysAddr) -> bool {
        let group = self.group.lock();
        let taken = frames::charge(paddr, *group);
        self.note(taken.err(), &Placement::NEAR);
        taken.is_ok()
    }

    fn note(&self, refusal: Option<NoPage>, place: &Placement) {
        let refusal = match (refusal, place.among) {
            (None, _) => return,
            (Some(NoPage::Group(group)), _) => Some(Refusal::Group(group)),
            (Some(NoPage::Memory), Some(nodes)) if place.is_strict => Some(Refusal::Nodes(nodes)),
            (Some(NoPage::Memory), _) => None,
        };
        *self.refused_by.lock() = refusal;
    }

    /// Why it was refused a page the last time, where it was not the instance's lack. All its
    /// threads that were refused one ask, so it stays until another reason takes its place.
    pub fn refusal(&self) -> Option<Refusal> {
        *self.refused_by.lock()
    }

    /// The account's user, as an owner in the words of frames, with a subject.
    pub fn owner(&self, subject: Subject) -> FrameOwner {
        FrameOwner::user(self.user.number, subject)
    }

    /// Pages that it has given up are held by Linux, or not any more.
    pub fn move_held(&self, before: u64, now: u64) {
        self.memory.change(before, now, &self.user.memory);
        self.user.held.change(before, now);
    }

    /// Whether Linux may hold frames that it has given up.
    pub fn has_held(&self) -> bool {
        self.given_up.lock().iter().any(|given_up| !given_up.frames.is_empty())
    }

    /// The user that the account charges.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// All that is charged to the account, bytes.
    pub fn bytes(&self) -> u64 {
        self.kernel.used() + self.memory.used()
    }

    /// Whether the user may have `more` bytes of pages.
    pub fn has_room_for(&self, more: u64) -> bool {
        let has = self.user.memory.load(Ordering::Relaxed);
        more == 0 || has.saturating_add(more) <= self.user.limits.memory
    }

    /// Whether the account's user may have no more pages before one of the user's programs has
    /// ended.
    pub fn is_full(&self) -> bool {
        self.user.excess().is_some()
    }

    /// Whether the user may have `more` bytes of kernel memory.
    ///
    /// # Errors
    /// `ENOMEM`: they are beyond the user's limit.
    pub fn may_have(&self, more: u64) -> Result<()> {
        let has = self.user.kernel.load(Ordering::Relaxed);
        if has.saturating_add(more) > self.user.limits.kernel { Err(errno::ENOMEM) } else { Ok(()) }
    }

    /// Charges kernel memory until the charge is dropped.
    ///
    /// # Errors
    /// `ENOMEM`: it is beyond the user's limit.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge> {
        self.add_kernel(bytes)?;
        Ok(Charge { account: self.clone(), bytes })
    }

    /// As [`charge`](Self::charge), until [`remove_kernel`](Self::remove_kernel).
    pub fn add_kernel(&self, bytes: u64) -> Result<()> {
        self.may_have(bytes)?;
        self.move_kernel(0, bytes);
        Ok(())
    }

    /// Gives kernel memory back.
    pub fn remove_kernel(&self, bytes: u64) {
        self.move_kernel(bytes, 0);
    }

    fn move_kernel(&self, before: u64, now: u64) {
        self.kernel.change(before, now, &self.user.kernel);
    }

    /// An address space has changed what it has: pages, and kernel memory for them.
    pub fn move_space(&self, before: Sizes, now: Sizes) {
        if before.kernel != now.kernel {
            self.move_kernel(before.kernel, now.kernel);
        }
        if before.memory != now.memory {
            self.memory.change(before.memory, now.memory, &self.user.memory);
        }
    }

    /// Counts one more process, until the place is dropped.
    ///
    /// # Errors
    /// `EAGAIN`: the user has as many as allowed, or Linux holds too many of the user's frames.
    pub fn process(self: &Arc<Self>) -> Result<Place> {
        self.may_have_process()?;
        self.user.processes.fetch_add(1, Ordering::Relaxed);
        Ok(Place(self.clone()))
    }

    /// One more bell, until the place is dropped. A user may have as large a part of the bells as
    /// of the memory for the kernel.
    ///
    /// # Errors
    /// `EAGAIN`: the user has as many as allowed.
    pub fn bell(self: &Arc<Self>) -> Result<BellPlace> {
        let place = BellPlace(self.clone());
        let others = self.user.bells.fetch_add(1, Ordering::Relaxed);
        if others < self.user.limits.kernel / BELL_BYTES { Ok(place) } else { Err(errno::EAGAIN) }
    }

    /// Room for the ring of a trace, of the largest of these orders of pages that is allowed: it is
    /// charged until the place is dropped. Rings are for Linux' tracers, which need not have a
    /// program whose end would give one back. So all rings may take only a part of the memory, and
    /// each user as much as is left to the others.
    ///
    /// # Errors
    /// `EAGAIN`: the user has as many as allowed. `ENOMEM`: it is beyond the user's limit.
    pub fn ring(self: &Arc<Self>, orders: RangeInclusive<u32>) -> Result<RingPlace> {
        let share = frames::usage_without_stocks().1 / userlimits::RINGS_SHARE;
        let own = self.user.rings.load(Ordering::Relaxed);
        let order = userlimits::ring_order(orders, share, rings(), own).ok_or(errno::EAGAIN)?;
        let charge = self.charge(4096 << order)?;
        self.user.rings.fetch_add(charge.bytes, Ordering::Relaxed);
        RINGS.fetch_add(charge.bytes, Ordering::Relaxed);
        Ok(RingPlace { charge, order })
    }

    /// Whether the user may have one more process.
    ///
    /// # Errors
    /// `EAGAIN`.
    pub fn may_have_process(&self) -> Result<()> {
        let is_there = self.user.processes.load(Ordering::Relaxed) < self.user.limits.processes;
        if is_there && self.user.held_above().is_none() { Ok(()) } else { Err(errno::EAGAIN) }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.user.kernel.fetch_sub(self.kernel.charged(), Ordering::Relaxed);
        self.user.memory.fetch_sub(self.memory.charged(), Ordering::Relaxed);
        GROUPS.leave(*self.group.get_mut());
        BANDWIDTHS.leave(self.cpu_group());
    }
}

/// Whether a limit in µs is less than all CPUs of the instance.
fn binds(limit: Limit) -> bool {
    limit.quota < limit.period.saturating_mul(shared::params().cpu_count.into())
}

fn in_cycles(limit: Limit) -> Limit {
    let cycles =
        |us: u64| hanare_core::time::ns_to_ticks(us.saturating_mul(1000), shared::params().tsc_khz);
    Limit { quota: cycles(limit.quota), period: cycles(limit.period) }
}

/// The memory of an address space, bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages.
    pub memory: u64,
    /// Page tables and mappings.
    pub kernel: u64,
}

/// Kernel memory that an object takes while it lives.
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.remove_kernel(self.bytes);
    }
}

/// One process of a user.
pub struct Place(Arc<Account>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.user.processes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One bell of a user.
pub struct BellPlace(Arc<Account>);

impl Drop for BellPlace {
    fn drop(&mut self) {
        self.0.user.bells.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The ring of a trace of a user.
pub struct RingPlace {
    charge: Charge,
    order: u32,
}

impl RingPlace {
    /// Order of the ring's pages.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// The owner that the words of the ring's frames name.
    pub fn owner(&self) -> FrameOwner {
        self.charge.account.owner(Subject::Rings)
    }
}

impl Drop for RingPlace {
    fn drop(&mut self) {
        let Charge { account, bytes } = &self.charge;
        account.user.rings.fetch_sub(*bytes, Ordering::Relaxed);
        RINGS.fetch_sub(*bytes, Ordering::Relaxed);
    }
}
