//! A space: memory that the LWK and a proxy have in common, with the control window in it.
//! The processes that have it are in `process/spaces.rs`.

use super::frames_of_message::Frames;
use super::last_mapped::LastMapped;
use super::window_size::Writes;
use crate::base::accounts::Account;
use crate::base::line::Line;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::{frames, heap};
use crate::link::bells::Bell;
use crate::link::caller::Owner;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::fill::PendingFill;
use crate::mm::map::guard::MmLock;
use crate::sched::cpu_mask::CpuMask;
use crate::sched::tlb;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::layout::{
    BOX_BASE, CONTROL_BASE, CONTROL_END, PARTS_ALL, SCRATCH_BASE, SCRATCH_END, SLOT_BASE,
    SLOTS_MAX, START_BASE, START_SIZE, scratch,
};
use hanare_abi::request::{CHILD_WORDS, DENIES_WRITE_EXEC, GROUPS_WORD, USER_WORD};
use hanare_abi::requestbox::{BOXES, RequestBox};
use hanare_abi::slot::Slot;
use hanare_abi::start::StartBlock;
use hanare_core::bounce;
use hanare_core::errno::{self, Result};
use hanare_core::ledger::Subject;
use hanare_core::life::{self, SpaceWord};
use hanare_core::pagerange::PageRange;
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_ikc::{BoxRef, SlotRef};
use zerocopy::{FromBytes, IntoBytes};

/// Where the words of `REQUEST_SPACE_OPEN` say from which number tokens are counted.
const TOKENS_WORD: usize = CHILD_WORDS - 1;
/// In `Space::bounces`: arguments of calls are copied.
const COPIES: u32 = 1 << 31;
const _: () = assert!(bounce::CALLS_MAX < COPIES);
/// Kernel memory that a page of the control window takes.
pub(in crate::mm) const CONTROL_COST: u64 = 4096 + 64;

/// A space.
pub struct Space {
    /// The space's id, the same in the module.
    pub id: u32,
    /// The user whose share of the instance the space uses, as the module counts users.
    pub user: u32,
    /// Ids of the process that opened the space, as the module says them.
    pub opener: Opener,
    /// CPUs on which a program that Linux starts in it begins to run (`hanare run --cpus`).
    pub allowed: CpuMask,
    /// The next token of [`next_token`](Self::next_token).
    tokens: AtomicU64,
    /// The memory.
    pub mm: MmLock,
    /// The account that the space and its processes are charged to.
    pub account: Arc<Account>,
    /// Incremented by each invalidation of Linux (see `docs/architecture.md`).
    pub invalidations: AtomicU64,
    /// Counts addresses that a thread was busy with and that are settled now (`reserve`).
    pub settled: AtomicU32,
    /// CPUs on which threads wait for that.
    pub(in crate::mm) settling: tlb::CpuSet,
    /// Writes to memory shared with Linux that was not there.
    pub shared_writes: Writes,
    /// The file that the space's processes mapped last.
    pub last_mapped: LastMapped,
    /// Calls that may still be made by way of scratch pages, since Linux has mapped nothing of its
    /// memory yet; and [`COPIES`].
    bounces: AtomicU32,
    /// Parts of its addresses that the proxy has mapped, see `parts`.
    pub(super) parts: AtomicU32,
    /// Linux may pin pages of some range (`AddressSpace::pinnable`).
    pub has_pinnable: AtomicBool,
    /// Calls under way that may have Linux pin pages. What is pinnable stays so for them.
    pub pinning: AtomicU32,
    /// A thread has had a NUMA policy of its own, where there is a choice of nodes.
    pub has_policies: AtomicBool,
    /// Counts when Linux may have lost pages that it had, see `offer`.
    pub losses: Line<AtomicU32>,
    /// Pages being read in for a fault of the proxy.
    pub fills: Mutex<Vec<PendingFill>, rank::Fills>,
    /// Frames of the control window, by page address.
    control: Mutex<BTreeMap<u64, PhysAddr>, rank::ControlPages>,
    /// Messages of calls whose arguments are copied, by slot.
    messages: Mutex<BTreeMap<u32, Arc<Frames>>, rank::Messages>,
    /// The proxy has mapped the messages.
    pub(super) maps_messages: AtomicBool,
    /// Slots that were ever given out: the lowest ones.
    slots_made: AtomicU32,
    /// The bells of these slots, where they were used.
    bells: Mutex<BTreeMap<u32, Bell>, rank::SpaceBells>,
    /// Free slots among those that were given out: their process is gone.
    slots_free: Mutex<Vec<u32>, rank::FreeSlots>,
    /// The space has a request box.
    has_box: AtomicBool,
    /// The space's state, and how many processes have it, as [`SpaceWord`].
    life: AtomicU32,
}

/// Ids of a process, as they are seen in its own namespaces.
#[derive(Clone, Copy)]
pub struct Opener {
    /// Process id.
    pub pid: u32,
    /// User, effective user, group, effective group.
    pub ids: [u32; 4],
}

impl Opener {
    /// The opener in the words of `REQUEST_SPACE_OPEN`.
    fn of(words: &[u64]) -> Opener {
        let word = |i: usize| words.get(i).map_or(0, |word| *word as u32);
        Opener { pid: word(0), ids: core::array::from_fn(|i| word(i + 1)) }
    }
}

impl Space {
    /// The account that the words of `REQUEST_SPACE_OPEN` name.
    pub fn account_of(words: &[u64]) -> Result<Arc<Account>> {
        let user = words.get(USER_WORD).copied().ok_or(errno::EINVAL)?;
        Account::of(user as u32, words.get(GROUPS_WORD..USER_WORD).unwrap_or_default())
    }

    /// A space with the memory `mm`, which may run on `cpus`. `words` as of `REQUEST_SPACE_OPEN`.
    pub fn new(
        id: u32,
        cpus: CpuMask,
        mut mm: AddressSpace,
        account: Arc<Account>,
        words: &[u64],
    ) -> Space {
        if words.get(USER_WORD).is_some_and(|user| user & DENIES_WRITE_EXEC != 0) {
            mm.deny_write_exec();
        }
        Space {
            id,
            user: words.get(USER_WORD).map_or(0, |user| *user as u32),
            opener: Opener::of(words),
            allowed: cpus,
            tokens: AtomicU64::new(words.get(TOKENS_WORD).copied().unwrap_or(0)),
            mm: MmLock::new(mm),
            account,
            invalidations: AtomicU64::new(0),
            settled: AtomicU32::new(0),
            losses: Line(AtomicU32::new(0)),
            settling: tlb::CpuSet::new(),
            shared_writes: Writes::default(),
            last_mapped: LastMapped::default(),
            parts: AtomicU32::new(PARTS_ALL),
            bounces: AtomicU32::new(bounce::CALLS_MAX),
            has_pinnable: AtomicBool::new(false),
            pinning: AtomicU32::new(0),
            has_policies: AtomicBool::new(false),
            fills: Mutex::new(Vec::new()),
            control: Mutex::new(BTreeMap::new()),
            messages: Mutex::new(BTreeMap::new()),
            maps_messages: AtomicBool::new(false),
            slots_made: AtomicU32::new(1),
            bells: Mutex::new(BTreeMap::new()),
            has_box: AtomicBool::new(false),
            slots_free: Mutex::new(Vec::new()),
            life: AtomicU32::new(life::Space::NEW.word().bits()),
        }
    }

    /// Itself and its user, as the link has shares for them.
    pub fn owner(&self) -> Owner {
        Owner { user: self.user, space: self.id }
    }

    /// A number by which a child or a program of the space's is asked for (`IOCTL_CHILD`), and
    /// which other processes do not guess.
    pub fn next_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// A slot that no thread has.
    pub fn take_slot(&self) -> Option<u32> {
        let mut free = self.slots_free.lock();
        if let Some(slot) = free.pop() {
            return Some(slot);
        }
        // Returning it then needs no memory.
        heap::more_room(&mut free, self.slots_made.load(Ordering::Relaxed) as usize + 1).ok()?;
        self.slots_made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < SLOTS_MAX).then_some(n + 1)
            })
            .ok()
    }

    /// Slots of a process that is gone.
    pub fn return_slots(&self, slots: &mut Vec<u32>) {
        let mut free = self.slots_free.lock();
        slots.drain(..).for_each(|slot| lists::push_within(&mut free, slot));
    }

    /// Returns a slot of [`take_slot`](Self::take_slot) that was not used.
    pub fn return_slot(&self, slot: u32) {
        lists::push_within(&mut self.slots_free.lock(), slot);
    }

    /// The space's state, and how many processes have it.
    pub fn life(&self) -> SpaceWord {
        SpaceWord::of(self.life.load(Ordering::Acquire))
    }

    /// Publishes both for readers without a lock. The lock of the space's processes is held.
    pub fn set_life(&self, life: &life::Space) {
        self.life.store(life.word().bits(), Ordering::SeqCst);
    }

    /// Whether several processes have the space.
    pub fn is_shared(&self) -> bool {
        self.life().is_shared()
    }

    /// Linux has no mapping of it any more, so that nothing needs to be told.
    pub fn is_closed(&self) -> bool {
        self.life().is_closed()
    }

    /// The frames of the control window, which are the caller's from now on. There are no others: a
    /// fault that Linux has given up may still be served.
    pub(in crate::mm) fn take_control(&self) -> BTreeMap<u64, PhysAddr> {
        let mut control = self.control.lock();
        self.slots_made.store(0, Ordering::Relaxed);
        core::mem::take(&mut *control)
    }

    /// Whether some calls of its threads are made in another way than with their arguments in
    /// place.
    #[inline(always)]
    pub fn is_indirect(&self) -> bool {
        self.bounces.load(Ordering::Relaxed) != 0
    }

    /// Takes one of the calls that may be made by way of scratch pages.
    pub fn count_bounce(&self) {
        let _ =
            self.bounces.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }

    /// Linux has page tables for its memory from now on.
    pub fn end_bounces(&self) {
        self.bounces.fetch_and(COPIES, Ordering::Relaxed);
    }

    /// Whether arguments of its threads' calls are copied.
    pub fn copies(&self) -> bool {
        self.bounces.load(Ordering::Relaxed) & COPIES != 0
    }

    /// Sets whether arguments are copied, before the space has a process that runs.
    pub fn set_copies(&self, copies: bool) {
        self.bounces.store(if copies { COPIES } else { bounce::CALLS_MAX }, Ordering::Relaxed);
    }

    /// The message of a slot.
    pub fn message(&self, slot: u32) -> Option<Arc<Frames>> {
        self.messages.lock().get(&slot).cloned()
    }

    /// Puts `message` in place of the slot's message before; there is room for an entry.
    pub(super) fn set_message(&self, slot: u32, message: Option<Arc<Frames>>) {
        let mut messages = self.messages.lock();
        let before = match message {
            Some(message) => lists::insert_within(&mut messages, slot, message),
            None => messages.remove(&slot),
        };
        drop(messages);
        drop(before);
    }

    /// Takes all messages out.
    pub(super) fn take_messages(&self) -> BTreeMap<u32, Arc<Frames>> {
        core::mem::take(&mut *self.messages.lock())
    }

    /// Resident and peak bytes.
    pub fn memory_use(&self) -> (u64, u64) {
        self.mm.lock().resident_bytes()
    }

    /// The bell of a slot.
    pub fn bell(&self, slot: u32) -> Option<u32> {
        let mut bells = self.bells.lock();
        if let Some(bell) = bells.get(&slot) {
            return Some(bell.number());
        }
        heap::room_for_entry::<u32, Bell>().ok()?;
        let bell = Bell::new(self.id, &self.account).ok()?;
        let number = bell.number();
        lists::insert_within(&mut bells, slot, bell);
        Some(number)
    }

    /// The slot of a thread.
    #[allow(unsafe_code)]
    pub fn slot(&self, index: u32) -> Option<SlotRef<'static>> {
        let bell = self.bell(index)?;
        let addr = SLOT_BASE + u64::from(index) * size_of::<Slot>() as u64;
        let frame = self.control_page(addr & !4095).ok()?;
        let pointer = memory::direct(frame + (addr & 4095)) as *mut Slot;
        // SAFETY: the frame is the space's until it is reaped, after its threads.
        let slot = unsafe { SlotRef::from_raw(pointer) };
        slot.set_bell(bell); // by which its worker names the slot
        Some(slot)
    }

    /// The request boxes, which are there from now on.
    #[allow(unsafe_code)]
    pub fn request_boxes(&self) -> Option<[BoxRef<'static>; BOXES]> {
        self.has_box.store(true, Ordering::Relaxed);
        let frame = self.control_page(BOX_BASE).ok()?;
        let pointer = memory::direct(frame) as *mut RequestBox;
        // SAFETY: they fit into the frame, which is the space's until it is reaped, after its
        // threads.
        Some(core::array::from_fn(|number| unsafe { BoxRef::from_raw(pointer.add(number)) }))
    }

    /// The frame of a page of the control window, created on first use.
    ///
    /// # Errors
    /// `EFAULT`: there is none. `ENOMEM`.
    pub fn control_page(&self, page: u64) -> Result<PhysAddr> {
        // Of the start block the proxy has as much as it likes.
        let of_proxy = (START_BASE..START_BASE + START_SIZE).contains(&page);
        let mut control = self.control.lock();
        if let Some(&frame) = control.get(&page) {
            return Ok(frame);
        }
        // Slots and scratch pages exist only for slots that were given out.
        let made = u64::from(self.slots_made.load(Ordering::Relaxed));
        let in_use = match page {
            SCRATCH_BASE..SCRATCH_END => page >= SCRATCH_END - made * 4096,
            SLOT_BASE..START_BASE => page < SLOT_BASE + made * size_of::<Slot>() as u64,
            BOX_BASE => made != 0 && self.has_box.load(Ordering::Relaxed),
            _ => of_proxy && self.life().is_open(),
        };
        if !in_use {
            return Err(errno::EFAULT);
        }
        heap::room_for_entry::<u64, PhysAddr>()?;
        self.account.add_kernel(CONTROL_COST)?;
        let owner = self.account.owner(Subject::Control);
        let alloc = if of_proxy { frames::alloc_user_zeroed } else { frames::alloc_zeroed };
        let frame = alloc(owner)
            .ok_or(errno::ENOMEM)
            .inspect_err(|_| self.account.remove_kernel(CONTROL_COST))?;
        lists::insert_within(&mut control, page, frame);
        Ok(frame)
    }

    /// Notes that Linux has something else in a range now, or has mapped it as ever. What cannot be
    /// noted for want of memory counts as pinnable still, which is safe.
    pub(in crate::mm) fn end_pinnable(&self, range: PageRange) {
        if self.has_pinnable.load(Ordering::Relaxed) {
            let _ = self.mm.lock().pinnable.remove(range);
        }
    }

    /// Whether an address belongs to the control window.
    pub fn is_control(addr: u64) -> bool {
        (CONTROL_BASE..CONTROL_END).contains(&addr)
    }

    /// Reads a value from the control window, as [`read_control`](Self::read_control).
    pub fn control<T: FromBytes + IntoBytes>(&self, addr: u64) -> T {
        let mut value = T::new_zeroed();
        self.read_control(addr, value.as_mut_bytes());
        value
    }

    /// Copies out of the control window; pages never touched read as zero.
    pub fn read_control(&self, addr: u64, to: &mut [u8]) {
        let control = self.control.lock();
        let mut done = 0;
        while done < to.len() {
            let at = addr + done as u64;
            let n = (to.len() - done).min(4096 - (at & 4095) as usize);
            match control.get(&(at & !4095)) {
                Some(frame) => memory::read(*frame + (at & 4095), &mut to[done..done + n]),
                None => to[done..done + n].fill(0),
            }
            done += n;
        }
    }

    /// Copies into the scratch page of slot `index`; its address for the worker.
    pub fn write_scratch(&self, index: u32, bytes: &[u8]) -> Result<u64> {
        let addr = scratch(index);
        if bytes.len() > 4096 {
            return Err(errno::ENAMETOOLONG);
        }
        let frame = self.control_page(addr)?;
        memory::write(frame, bytes);
        Ok(addr)
    }

    /// The start block, checked.
    pub fn start_block(&self) -> Result<StartBlock> {
        let mut bytes = [0; size_of::<StartBlock>()];
        self.read_control(START_BASE, &mut bytes);
        let block = hanare_core::start::header(&bytes);
        hanare_core::start::strings_size(&block).map(|_| block)
    }
}
