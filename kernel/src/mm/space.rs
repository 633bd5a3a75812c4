//! A space: memory that the LWK and a proxy have in common, with the control window in it.
//! Of most, one process has it; processes made with CLONE_VM and not as threads share one.

use crate::base::{frames, heap};
use crate::base::accounts::{Account, Charge};
use crate::link::inbound;
use crate::link::bells::Bell;
use crate::mm::{self, AddressSpace, MmLock};
use crate::process::{Process, clone, depart, newest_first, share};
use crate::process::futex::Futexes;
use crate::process::thread::Thread;
use crate::sched::balance::CpuMask;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::layout::{CONTROL_BASE, CONTROL_END, SCRATCH_BASE, SLOTS_MAX, SLOT_BASE, SLOT_SIZE, START_BASE, START_SIZE};
use hanare_abi::request::{CHILD_WORDS, GROUPS_WORD, USER_WORD};
use hanare_abi::slot::Slot;
use hanare_abi::start::StartBlock;
use hanare_core::errno::{self, Result};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{memory, percpu, shared};
use hanare_ikc::SlotRef;
use spin::Mutex;

const NO_REQUEST: u32 = u32::MAX;
/// Where the words of `REQUEST_SPACE_OPEN` say from which number tokens are counted.
const TOKENS_WORD: usize = CHILD_WORDS - 1;
/// Kernel memory that a page of the control window takes.
const CONTROL_COST: u64 = 4096 + 64;

/// Spaces by the CPU that serves their requests, then by id.
static SPACES: [Mutex<BTreeMap<u32, Arc<Space>>>; CPUS_MAX] = [const { Mutex::new(BTreeMap::new()) }; CPUS_MAX];

/// The space with an id, whose home is `cpu`.
pub fn find(cpu: usize, space: u32) -> Option<Arc<Space>> {
    SPACES[cpu].lock().get(&space).cloned()
}

/// The spaces whose home is `cpu`, by id. Nothing is locked between two of them.
pub fn at(cpu: usize) -> impl Iterator<Item = Arc<Space>> {
    let mut last = 0; // no space has this id
    core::iter::from_fn(move || {
        let next = SPACES[cpu].lock().range(last + 1..).next().map(|(_, space)| space.clone())?;
        last = next.space;
        Some(next)
    })
}

/// Every space.
pub fn all() -> impl Iterator<Item = Arc<Space>> {
    (0..CPUS_MAX).flat_map(at)
}

/// The thread that `asker` knows by Linux' thread id `tid`, of whatever process in the same
/// process id namespace.
pub fn find_thread(asker: &Process, tid: u32) -> Option<Arc<Thread>> {
    let namespace = asker.pid_namespace();
    all().find_map(|space| {
        let mut known = space.processes().filter(|p| p.pid_namespace() == namespace);
        known.find_map(|p| p.threads().find(|t| t.slot.tid() == tid))
    })
}

/// Whether `tid` is that of a worker without a thread, which has ended.
pub fn is_worker(tid: u32) -> bool {
    all().any(|space| space.processes().any(|p| p.had_thread(tid) || p.identity.lock().pid == tid))
}

/// Does something with every thread there is.
pub fn each_thread(mut f: impl FnMut(&Arc<Thread>)) {
    all().for_each(|space| space.processes().for_each(|p| p.threads().for_each(|t| f(&t))));
}

/// How many spaces have their home at `cpu`.
pub fn count(cpu: usize) -> usize {
    SPACES[cpu].lock().len()
}

/// Memory of lists that are empty.
pub fn trim() {
    for of_cpu in &SPACES {
        let mut of_cpu = of_cpu.lock();
        if of_cpu.is_empty() {
            *of_cpu = BTreeMap::new();
        }
    }
}

/// A space.
pub struct Space {
    /// Its id, the same in the module.
    pub space: u32,
    /// Whose share of the instance it uses, as the module counts users.
    pub user: u32,
    /// CPU that serves its requests of Linux.
    pub home: usize,
    /// CPUs on which a program that Linux starts in it begins to run (`hanare run --cpus`).
    pub allowed: CpuMask,
    /// The next token of [`next_token`](Self::next_token).
    tokens: AtomicU64,
    /// The memory.
    pub mm: MmLock,
    /// What it and its processes have.
    pub account: Arc<Account>,
    _charge: Charge,
    /// Incremented by each invalidation of Linux (see `docs/architecture.md`).
    pub invalidations: AtomicU64,
    /// Writes to memory shared with Linux that was not there.
    pub shared_writes: mm::shared::Writes,
    /// See [`mm::files::LastMapped`].
    pub last_mapped: mm::files::LastMapped,
    /// Pages being read in for a fault of the proxy.
    pub fills: Mutex<Vec<mm::fault::PendingFill>>,
    /// Waiters on futexes in private memory.
    pub futexes: Mutex<Futexes>,
    /// Frames of the control window, by page address.
    control: Mutex<BTreeMap<u64, u64>>,
    /// Slots that were ever given out: the lowest ones.
    slots_made: AtomicU32,
    /// TSC value until which whoever needs memory waits for its end; 0: nobody has.
    patience: AtomicU64,
    /// Their bells, where they were used.
    bells: Mutex<BTreeMap<u32, Bell>>,
    /// Of those, the ones that are free again, their process being gone.
    slots_free: Mutex<Vec<u32>>,
    /// The start block has been read.
    pub started: AtomicBool,
    /// Who has it, the first one first. Never empty once it is open.
    processes: Mutex<Vec<Arc<Process>>>,
    /// Linux has no mapping of it any more.
    closed: AtomicBool,
    reaped: AtomicBool,
    close_request: AtomicU32,
}

impl Space {
    /// `REQUEST_SPACE_OPEN`.
    /// args: [0] = CPUs it may use, [2], [3] = parent space and token of a fork, whose
    /// child, described by `words`, begins to run. Gives whether the proxy may map all of
    /// its addresses at once.
    pub fn open(space: u32, args: &[u64; 4], words: &[u64]) -> Result<(Arc<Space>, bool)> {
        let parent = args[2] as u32;
        if parent == 0 {
            return Self::make(space, args[0], None, words);
        }
        if let Some(plan) = depart::claim(parent, args[3]) {
            return Self::for_program(space, args[0], plan, words);
        }
        let embryo = clone::claim(parent, args[3]).ok_or(errno::ESRCH)?;
        let (waits, vfork) = (embryo.parent.clone(), embryo.vfork.clone());
        let made = Self::make(space, args[0], Some(embryo), words);
        if let Some(vfork) = vfork.filter(|_| made.is_err()) {
            vfork.release(); // no child is there that would
        }
        clone::come(parent, args[3], &waits);
        made
    }

    fn make(space: u32, cpus: u64, embryo: Option<Box<clone::Embryo>>, words: &[u64]) -> Result<(Arc<Space>, bool)> {
        let account = Self::account_of(words)?;
        let (mm, embryo) = match embryo {
            None => (AddressSpace::new(account.clone()).ok_or(errno::ENOMEM)?, None),
            Some(mut e) => {
                clone::adopt_files(&mut e.mm, space)?;
                e.mm.charge_to(account.clone());
                (core::mem::replace(&mut e.mm, AddressSpace::nothing()), Some(e))
            }
        };
        let whole = clone::shared_with_linux(&mm).next().is_none();
        let new = Self::new(space, cpus, mm, account, words)?;
        let parent = embryo.as_ref().map_or(Weak::new(), |e| Arc::downgrade(&e.parent.process));
        let first = new.enter_first(parent, words)?;
        if let Some(e) = embryo {
            first.start_child(e, words)?;
        }
        Ok((new, whole))
    }

    /// The space of a process that leaves other memory by execve.
    fn for_program(space: u32, cpus: u64, plan: Box<depart::Plan>, words: &[u64]) -> Result<(Arc<Space>, bool)> {
        let account = Self::account_of(words)?;
        let mm = AddressSpace::new(account.clone()).ok_or(errno::ENOMEM)?;
        let new = Self::new(space, cpus, mm, account, words)?;
        let first = new.enter_first(plan.process().parent.clone(), words)?;
        plan.begin(&new, &first, words)?;
        Ok((new, true))
    }

    fn account_of(words: &[u64]) -> Result<Arc<Account>> {
        let user = words.get(USER_WORD).copied().ok_or(errno::EINVAL)?;
        Account::of(user as u32, words.get(GROUPS_WORD..USER_WORD).unwrap_or_default())
    }

    fn new(space: u32, cpus: u64, mm: AddressSpace, account: Arc<Account>, words: &[u64]) -> Result<Arc<Space>> {
        let _charge = account.charge(size_of::<Space>() as u64)?;
        heap::arc(Space {
            space,
            user: words.get(USER_WORD).map_or(0, |user| *user as u32),
            home: percpu::index(),
            allowed: CpuMask::of_word(cpus),
            tokens: AtomicU64::new(words.get(TOKENS_WORD).copied().unwrap_or(0)),
            mm: MmLock::new(mm),
            account,
            _charge,
            invalidations: AtomicU64::new(0),
            shared_writes: mm::shared::Writes::default(),
            last_mapped: mm::files::LastMapped::default(),
            fills: Mutex::new(Vec::new()),
            futexes: Mutex::new(Futexes::default()),
            control: Mutex::new(BTreeMap::new()),
            slots_made: AtomicU32::new(1),
            patience: AtomicU64::new(0),
            bells: Mutex::new(BTreeMap::new()),
            slots_free: Mutex::new(Vec::new()),
            started: AtomicBool::new(false),
            processes: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            reaped: AtomicBool::new(false),
            close_request: AtomicU32::new(NO_REQUEST),
        })
    }

    /// The first process, of a space that is found by its id from now on.
    fn enter_first(self: &Arc<Self>, parent: Weak<Process>, words: &[u64]) -> Result<Arc<Process>> {
        heap::room_for_entry::<u32, Arc<Space>>()?;
        let first = Process::new(self.clone(), 0, parent)?;
        first.set_pid_namespace(words.get(5).copied().unwrap_or(0));
        self.enter(first.clone());
        if SPACES[percpu::index()].lock().insert(self.space, self.clone()).is_some() {
            return Err(errno::EEXIST);
        }
        Ok(first)
    }

    /// One more process has it.
    pub fn enter(&self, process: Arc<Process>) {
        self.processes.lock().push(process);
    }

    /// The processes that have it, the newest one first, see [`newest_first`]. Nothing is locked
    /// between two of them.
    pub fn processes(&self) -> impl Iterator<Item = Arc<Process>> + '_ {
        newest_first(&self.processes)
    }

    /// The process that had it first, or the next one of those that are left.
    pub fn first(&self) -> Option<Arc<Process>> {
        self.processes.lock().first().cloned()
    }

    /// The process whose first thread has, or had, this slot.
    pub fn process(&self, first_slot: u32) -> Option<Arc<Process>> {
        self.processes.lock().iter().find(|p| p.first_slot == first_slot).cloned()
    }

    /// The process of the thread with this slot; the first one where there is none.
    pub fn process_of(&self, slot: u32) -> Option<Arc<Process>> {
        let processes = self.processes.lock();
        let mut all = processes.iter();
        match processes.len() {
            0 | 1 => all.next().cloned(),
            _ => all.find(|p| p.thread(slot).is_some()).or(processes.first()).cloned(),
        }
    }

    /// Its control groups are others, or have other limits: its threads look.
    ///
    /// # Errors
    /// See [`Account::enter`].
    pub fn enter_groups(&self, words: &[u64]) -> Result<()> {
        self.account.enter(words)?;
        self.processes().for_each(|p| p.kick_all());
        Ok(())
    }

    /// Whether several processes have it.
    pub fn is_shared(&self) -> bool {
        self.processes.lock().len() > 1
    }

    /// A number by which a child or a program of the space's is asked for (`IOCTL_CHILD`), and
    /// which other processes do not guess.
    pub fn next_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// A slot that nobody has.
    pub fn take_slot(&self) -> Option<u32> {
        if let Some(slot) = self.slots_free.lock().pop() {
            return Some(slot);
        }
        self.slots_made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < SLOTS_MAX).then_some(n + 1)).ok()
    }

    /// A slot of [`take_slot`](Self::take_slot) that nobody has used.
    pub fn return_slot(&self, slot: u32) {
        self.slots_free.lock().push(slot);
    }

    /// The last thread of `process` is gone (`is_deserted`), whose proxy is gone or going.
    pub fn process_ended(&self, process: &Arc<Process>) {
        if self.is_closed() {
            return self.reap_if_empty();
        }
        let left = {
            let mut processes = self.processes.lock();
            // The last one stays until Linux has closed the space.
            let left = processes.len() > 1;
            if left {
                processes.retain(|p| !Arc::ptr_eq(p, process));
            }
            left
        };
        if left {
            process.finish();
            self.slots_free.lock().append(&mut process.slots.lock().all());
        }
    }

    /// Linux has no mapping of it any more, so that nothing needs to be told.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// `REQUEST_SPACE_CLOSE` number `request`: ends the threads; answered by the
    /// last of them, or now.
    pub fn close(&self, request: u32) {
        self.close_request.store(request, Ordering::Release);
        self.closed.store(true, Ordering::Release);
        self.processes().for_each(|p| share::ended(&p));
        self.reap_if_empty();
    }

    /// Frees everything where no thread is left.
    fn reap_if_empty(&self) {
        if !self.processes().all(|p| p.is_deserted()) || self.reaped.swap(true, Ordering::AcqRel) {
            return; // a thread is left, or it is done by another one, or by Linux' request
        }
        self.processes().for_each(|p| p.finish());
        clone::forget(self.space);
        // None is run: whoever runs one has the proxy's memory map, and Linux has ended that.
        self.fills.lock().clear();
        let control = core::mem::take(&mut *self.control.lock());
        let control_pages = control.len() as u64;
        mm::release::all(self, control.into_values());
        self.account.remove_kernel(control_pages * CONTROL_COST);
        SPACES[self.home].lock().remove(&self.space);
        let times = self.processes().next().map_or((0, 0), |p| p.times_ns());
        let processes = core::mem::take(&mut *self.processes.lock());
        drop(processes);
        heap::trim();
        let request = self.close_request.swap(NO_REQUEST, Ordering::AcqRel);
        if request != NO_REQUEST {
            let r = shared::request(request);
            for (i, v) in [times.0, times.1, self.memory_use().1].into_iter().enumerate() {
                r.set_arg(i, v);
            }
            inbound::complete(request, 0);
        }
    }

    /// TSC value until which whoever needs memory waits for the end of this space, which is on its
    /// way out: who asks first says how long.
    pub fn patience(&self, first: impl FnOnce() -> u64) -> u64 {
        match self.patience.load(Ordering::Relaxed) {
            0 => {
                let until = first().max(1);
                self.patience.compare_exchange(0, until, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|known| known, |_| until)
            }
            until => until,
        }
    }

    /// Resident and peak bytes.
    pub fn memory_use(&self) -> (u64, u64) {
        let mm = self.mm.lock();
        (mm.resident * 4096, mm.peak * 4096)
    }

    /// The bell of a slot.
    pub fn bell(&self, slot: u32) -> Option<u32> {
        let mut bells = self.bells.lock();
        if let Some(bell) = bells.get(&slot) {
            return Some(bell.number());
        }
        heap::room_for_entry::<u32, Bell>().ok()?;
        let bell = Bell::new(&self.account).ok()?;
        let number = bell.number();
        bells.insert(slot, bell);
        Some(number)
    }

    /// The slot of a thread.
    #[allow(unsafe_code)]
    pub fn slot(&self, index: u32) -> Option<SlotRef<'static>> {
        self.bell(index)?;
        let addr = SLOT_BASE + u64::from(index) * size_of::<Slot>() as u64;
        let frame = self.control_page(addr & !4095).ok()?;
        let pointer = memory::direct(frame + (addr & 4095)) as *mut Slot;
        // SAFETY: the frame is the space's until it is reaped, after its threads.
        Some(unsafe { SlotRef::from_raw(pointer) })
    }

    /// The frame of a page of the control window, created on first use.
    ///
    /// # Errors
    /// `EFAULT`: there is none. `ENOMEM`.
    pub fn control_page(&self, page: u64) -> Result<u64> {
        let known = (SLOT_BASE..SLOT_BASE + SLOT_SIZE).contains(&page)
            || (START_BASE..START_BASE + START_SIZE).contains(&page) && !self.started.load(Ordering::Relaxed)
            || (SCRATCH_BASE..CONTROL_END).contains(&page);
        let mut control = self.control.lock();
        if let Some(&frame) = control.get(&page) {
            return Ok(frame);
        }
        // Slots and scratch pages exist only for slots that were given out.
        let made = u64::from(self.slots_made.load(Ordering::Relaxed));
        let in_use = if page < START_BASE {
            page < SLOT_BASE + made * size_of::<Slot>() as u64
        } else {
            page < START_BASE + START_SIZE || page < SCRATCH_BASE + made * 4096
        };
        if !known || !in_use {
            return Err(errno::EFAULT);
        }
        // Of the start block the proxy has as much as it likes.
        let of_proxy = (START_BASE..START_BASE + START_SIZE).contains(&page);
        heap::room_for_entry::<u64, u64>()?;
        self.account.add_kernel(CONTROL_COST)?;
        let frame = if of_proxy { frames::alloc_user_zeroed() } else { frames::alloc_zeroed() };
        let frame = frame.ok_or(errno::ENOMEM).inspect_err(|_| self.account.remove_kernel(CONTROL_COST))?;
        control.insert(page, frame);
        Ok(frame)
    }

    /// Whether an address belongs to the control window.
    pub fn is_control(addr: u64) -> bool {
        (CONTROL_BASE..CONTROL_END).contains(&addr)
    }

    /// Copies out of the control window; pages never touched read as zero.
    pub fn read_control(&self, addr: u64, to: &mut [u8]) {
        let control = self.control.lock();
        let mut done = 0;
        while done < to.len() {
            let at = addr + done as u64;
            let n = (to.len() - done).min(4096 - (at & 4095) as usize);
            match control.get(&(at & !4095)) {
                Some(frame) => memory::read(frame + (at & 4095), &mut to[done..done + n]),
                None => to[done..done + n].fill(0),
            }
            done += n;
        }
    }

    /// Copies into the scratch page of slot `index`; its address for the worker.
    pub fn write_scratch(&self, index: u32, bytes: &[u8]) -> Result<u64> {
        let addr = SCRATCH_BASE + u64::from(index) * 4096;
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
        let block = read_start_block(&bytes);
        let ok = block.magic == hanare_abi::MAGIC
            && block.version == hanare_abi::VERSION
            && u64::from(block.strings_offset) >= bytes.len() as u64
            && u64::from(block.strings_offset) <= block.total_size
            && block.total_size <= START_SIZE;
        if ok { Ok(block) } else { Err(errno::EINVAL) }
    }
}

#[allow(unsafe_code)]
fn read_start_block(bytes: &[u8; size_of::<StartBlock>()]) -> StartBlock {
    // SAFETY: plain integers: every bit pattern is a value; read unaligned.
    unsafe { bytes.as_ptr().cast::<StartBlock>().read_unaligned() }
}
