//! A space: memory that the LWK and a proxy have in common, with the control window in it.
//! Of most, one process has it; processes made with CLONE_VM and not as threads share one.

use crate::balance::CpuMask;
use crate::futex::Futexes;
use crate::mm::{self, AddressSpace, MmLock};
use crate::process::Process;
use crate::thread::Thread;
use crate::{clone, frames, heap, inbound, share};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::layout::{CONTROL_BASE, CONTROL_END, SCRATCH_BASE, SLOTS_MAX, SLOT_BASE, SLOT_SIZE, START_BASE, START_SIZE};
use hanare_abi::slot::Slot;
use hanare_abi::start::StartBlock;
use hanare_core::errno::{self, Result};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{memory, percpu, shared};
use hanare_ikc::SlotRef;
use spin::Mutex;

const NO_REQUEST: u32 = u32::MAX;

/// Spaces by the CPU that serves their requests, then by id.
static SPACES: [Mutex<BTreeMap<u32, Arc<Space>>>; CPUS_MAX] = [const { Mutex::new(BTreeMap::new()) }; CPUS_MAX];

/// The space with an id, whose home is `cpu`.
pub fn find(cpu: usize, space: u32) -> Option<Arc<Space>> {
    SPACES[cpu].lock().get(&space).cloned()
}

/// The spaces whose home is `cpu`.
pub fn at(cpu: usize) -> Vec<Arc<Space>> {
    SPACES[cpu].lock().values().cloned().collect()
}

/// The thread that `asker` knows by Linux' thread id `tid`, of whatever process in the same
/// process id namespace.
pub fn find_thread(asker: &Process, tid: u32) -> Option<Arc<Thread>> {
    let namespace = asker.pid_namespace();
    SPACES.iter().find_map(|of_cpu| {
        let spaces: Vec<_> = of_cpu.lock().values().cloned().collect();
        let known = |p: &Arc<Process>| p.pid_namespace() == namespace;
        spaces.iter().flat_map(|s| s.processes()).filter(known).find_map(|p| p.threads().into_iter().find(|t| t.slot.tid() == tid))
    })
}

/// Whether `tid` is that of a worker without a thread, which has ended.
pub fn is_worker(tid: u32) -> bool {
    SPACES.iter().any(|of_cpu| {
        let spaces: Vec<_> = of_cpu.lock().values().cloned().collect();
        spaces.iter().flat_map(|s| s.processes()).any(|p| p.had_thread(tid) || p.identity.lock().pid == tid)
    })
}

/// Does something with every thread there is.
pub fn each_thread(mut f: impl FnMut(&Arc<Thread>)) {
    for of_cpu in &SPACES {
        let spaces: Vec<_> = of_cpu.lock().values().cloned().collect();
        let processes = spaces.iter().flat_map(|s| s.processes());
        processes.for_each(|p| p.threads().iter().for_each(&mut f));
    }
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
    /// CPU that serves its requests of Linux.
    pub home: usize,
    /// CPUs on which a program that Linux starts in it begins to run (`hanare run --cpus`).
    pub allowed: CpuMask,
    /// The memory.
    pub mm: MmLock,
    /// Incremented by each invalidation of Linux (see `docs/architecture.md`).
    pub invalidations: AtomicU64,
    /// Writes to memory shared with Linux that was not there.
    pub shared_writes: mm::shared::Writes,
    /// See [`mm::files::LastMapped`].
    pub last_mapped: mm::files::LastMapped,
    /// File references to be dropped together, while that is wanted.
    pub puts: Mutex<Option<Vec<u64>>>,
    /// Pages being read in for a fault of the proxy.
    pub fills: Mutex<Vec<mm::fault::PendingFill>>,
    /// Waiters on futexes in private memory.
    pub futexes: Mutex<Futexes>,
    /// Frames of the control window, by page address.
    control: Mutex<BTreeMap<u64, u64>>,
    /// Slots that were ever given out: the lowest ones.
    slots_made: AtomicU32,
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
        let embryo = clone::claim(parent, args[3]).ok_or(errno::ESRCH)?;
        let waits = embryo.parent.clone();
        let made = Self::make(space, args[0], Some(embryo), words);
        clone::come(parent, args[3], &waits);
        made
    }

    fn make(space: u32, cpus: u64, embryo: Option<Box<clone::Embryo>>, words: &[u64]) -> Result<(Arc<Space>, bool)> {
        let (mm, embryo) = match embryo {
            None => (AddressSpace::new().ok_or(errno::ENOMEM)?, None),
            Some(mut e) => {
                let mut mm = core::mem::replace(&mut e.mm, AddressSpace::nothing());
                clone::adopt_files(&mut mm, space);
                (mm, Some(e))
            }
        };
        let whole = clone::shared_with_linux(&mm).next().is_none();
        let new = Arc::new(Space {
            space,
            home: percpu::index(),
            allowed: CpuMask::of_word(cpus),
            mm: MmLock::new(mm),
            invalidations: AtomicU64::new(0),
            shared_writes: mm::shared::Writes::default(),
            last_mapped: mm::files::LastMapped::default(),
            puts: Mutex::new(None),
            fills: Mutex::new(Vec::new()),
            futexes: Mutex::new(Futexes::default()),
            control: Mutex::new(BTreeMap::new()),
            slots_made: AtomicU32::new(1),
            slots_free: Mutex::new(Vec::new()),
            started: AtomicBool::new(false),
            processes: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            reaped: AtomicBool::new(false),
            close_request: AtomicU32::new(NO_REQUEST),
        });
        let parent = embryo.as_ref().map_or(Weak::new(), |e| Arc::downgrade(&e.parent.process));
        let first = Process::new(new.clone(), 0, parent);
        first.set_pid_namespace(words.get(5).copied().unwrap_or(0));
        new.enter(first.clone());
        if SPACES[percpu::index()].lock().insert(space, new.clone()).is_some() {
            return Err(errno::EEXIST);
        }
        if let Some(e) = embryo {
            first.start_child(e, words)?;
        }
        Ok((new, whole))
    }

    /// One more process has it.
    pub fn enter(&self, process: Arc<Process>) {
        self.processes.lock().push(process);
    }

    /// The processes that have it.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.lock().clone()
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

    /// Whether several processes have it.
    pub fn is_shared(&self) -> bool {
        self.processes.lock().len() > 1
    }

    /// A slot that nobody has.
    pub fn take_slot(&self) -> Option<u32> {
        if let Some(slot) = self.slots_free.lock().pop() {
            return Some(slot);
        }
        self.slots_made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < SLOTS_MAX).then_some(n + 1)).ok()
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
        self.processes().iter().for_each(share::ended);
        self.reap_if_empty();
    }

    /// Frees everything where no thread is left.
    fn reap_if_empty(&self) {
        let processes = self.processes();
        if !processes.iter().all(|p| p.is_deserted()) || self.reaped.swap(true, Ordering::AcqRel) {
            return; // a thread is left, or it is done by another one, or by Linux' request
        }
        processes.iter().for_each(Process::finish);
        clone::forget(self.space);
        // None is run: whoever runs one has the proxy's memory map, and Linux has ended that.
        self.fills.lock().clear();
        let control = core::mem::take(&mut *self.control.lock());
        mm::release::all(self, control.into_values());
        SPACES[self.home].lock().remove(&self.space);
        self.processes.lock().clear();
        heap::trim();
        let request = self.close_request.swap(NO_REQUEST, Ordering::AcqRel);
        if request != NO_REQUEST {
            let r = shared::request(request);
            let (user, system) = processes.last().map_or((0, 0), |p| p.times_ns());
            for (i, v) in [user, system, self.memory_use().1].into_iter().enumerate() {
                r.set_arg(i, v);
            }
            inbound::complete(request, 0);
        }
    }

    /// Resident and peak bytes.
    pub fn memory_use(&self) -> (u64, u64) {
        let mm = self.mm.lock();
        (mm.resident * 4096, mm.peak * 4096)
    }

    /// The slot of a thread.
    #[allow(unsafe_code)]
    pub fn slot(&self, index: u32) -> Option<SlotRef<'static>> {
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
        let frame = if of_proxy { frames::alloc_user_zeroed() } else { frames::alloc_zeroed() }.ok_or(errno::ENOMEM)?;
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
