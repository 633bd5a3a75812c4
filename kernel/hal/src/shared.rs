//! Typed access to the shared region (see `abi::boot`). The protocols on top of
//! it are in the `ikc` crate; this module only turns offsets into references.

use crate::addr::PhysAddr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};
use hanare_abi::boot::{BootParams, CpuShared, DoorbellShared, MemoryChunk, TRANSPORT_LOCAL};
use hanare_abi::grant::{GRANT_REGIONS, GRANTS_MAX, Grant, GrantQueue, GrantRegion, QUEUE_ENTRIES};
use hanare_abi::offer::{OFFERS, Offer};
use hanare_abi::request::Request;
use hanare_abi::service::Service;
use hanare_ikc::{
    BellRef, BellWord, ClockReader, CpuRef, DoorbellRef, GrantRef, LogWriter, OfferRef, PairRef,
    RequestRef, ServiceRef,
};

static PARAMS: AtomicPtr<BootParams> = AtomicPtr::new(core::ptr::null_mut());

/// Remembers where the block is.
///
/// # Safety
/// `params` must be mapped for the life of the kernel and filled in by the module.
pub unsafe fn init(params: *const BootParams) {
    PARAMS.store(params.cast_mut(), Ordering::Release);
}

/// Tells the module what is done about the CPU's leaks, `MEASURE_*`.
pub fn set_measures(measures: u32) {
    // SAFETY: as `params`; the field is written here only, and read by the module.
    unsafe { (&raw mut (*PARAMS.load(Ordering::Acquire)).measures).write_volatile(measures) };
}

/// Tells the module whether workers or servers execute delegated calls (`DISPATCH_*`), the most
/// servers of a process, and which kinds of calls have boxes of their own.
pub fn set_dispatch(dispatch: u32, servers: u32, boxes: u32) {
    let params = PARAMS.load(Ordering::Acquire);
    // SAFETY: as `params`; the fields are written here only, and read by the module.
    unsafe {
        (&raw mut (*params).dispatch).write_volatile(dispatch);
        (&raw mut (*params).servers).write_volatile(servers);
        (&raw mut (*params).boxes).write_volatile(boxes);
    }
}

/// The boot parameter block. Constant after boot, but for `panicked` and what is told the module.
pub fn params() -> &'static BootParams {
    // SAFETY: `init` ran first on CPU 0, before any other CPU was started; the
    // module does not change the block after that.
    unsafe { &*PARAMS.load(Ordering::Acquire) }
}

fn at<T>(offset: u32, index: u32, count: u32) -> *mut T {
    assert!(index < count, "index {index} of {count}");
    let base = PARAMS.load(Ordering::Acquire).cast::<u8>();
    // The offset lies within the shared region: checked by `check`.
    base.wrapping_add(offset as usize).cast::<T>().wrapping_add(index as usize)
}

/// Verifies magic, version and transport, and that every array lies within the shared region. Bells
/// and doorbells are there after that.
pub fn check() -> Result<(), &'static str> {
    let p = params();
    if p.magic != hanare_abi::MAGIC {
        return Err("the boot parameters have no magic");
    }
    if p.version != hanare_abi::VERSION || p.params_size as usize != size_of::<BootParams>() {
        return Err("the module has another version of the ABI");
    }
    if p.transport != TRANSPORT_LOCAL {
        return Err("the module has a transport that the LWK does not know");
    }
    let fits = |offset: u32, bytes: usize| offset as usize + bytes <= p.shared_size as usize;
    let ok = fits(p.chunks_offset, p.chunk_count as usize * size_of::<MemoryChunk>())
        && fits(p.cpus_offset, p.cpu_count as usize * size_of::<CpuShared>())
        && fits(p.requests_offset, p.request_count as usize * size_of::<Request>())
        && fits(p.services_offset, p.service_count as usize * size_of::<Service>())
        && fits(p.log_offset, hanare_abi::log::LOG_TEXT_OFFSET as usize + p.log_size as usize)
        && fits(p.clock_offset, 4096)
        && fits(p.bells_offset, p.bell_count as usize * size_of::<BellWord>())
        && fits(p.doorbells_offset, p.doorbell_count as usize * size_of::<DoorbellShared>())
        && p.doorbell_count > 0
        && fits(p.offers_offset, OFFERS as usize * size_of::<Offer>())
        && fits(p.grants_offset, p.grant_count as usize * size_of::<Grant>())
        && p.grant_count as usize <= GRANTS_MAX
        && fits(p.dma_offset, p.grant_count as usize * p.dma_pieces as usize * size_of::<u64>())
        && p.log_size.is_power_of_two()
        && (0..p.grant_count).all(|index| {
            let queues = grant_description(index).queues;
            queues.offset == 0
                || fits(queues.offset, p.cpu_count as usize * size_of::<GrantQueue>())
                    && fits(queues.pages_offset, p.cpu_count as usize * 2 * 4096)
        })
        && (1..=crate::percpu::CPUS_MAX).contains(&(p.cpu_count as usize));
    if !ok {
        return Err("the boot parameters name something outside the shared region");
    }
    PLACES.fill(p);
    Ok(())
}

/// Memory chunks of the instance.
pub fn chunks() -> &'static [MemoryChunk] {
    let p = params();
    let base = PARAMS.load(Ordering::Acquire).cast::<u8>().wrapping_add(p.chunks_offset as usize);
    // SAFETY: within the shared region (`check`), written before boot, constant since.
    unsafe { core::slice::from_raw_parts(base.cast(), p.chunk_count as usize) }
}

/// State of granted device `index`: whether it is there still.
pub fn grant(index: u32) -> GrantRef<'static> {
    let p = params();
    // SAFETY: as in `request`.
    unsafe { GrantRef::from_raw(at(p.grants_offset, index, p.grant_count)) }
}

/// Description of granted device `index` by the module; its state is another one by now.
pub fn grant_description(index: u32) -> Grant {
    let p = params();
    // SAFETY: within the shared region (`check`), written before boot, constant since but for a
    // word that is not looked at.
    unsafe { at::<Grant>(p.grants_offset, index, p.grant_count).read_volatile() }
}

/// Bytes of a region of registers of granted device `index`; 0: it has none.
///
/// # Panics
/// If there is no region with that number.
pub fn grant_region_bytes(index: u32, region: usize) -> u64 {
    let p = params();
    let grant = at::<Grant>(p.grants_offset, index, p.grant_count);
    assert!(region < GRANT_REGIONS, "region {region}");
    // SAFETY: as above; a word of it.
    unsafe { (&raw const (*grant).regions).cast::<GrantRegion>().add(region).read_volatile().size }
}

/// Addresses for DMA by granted device `index`: of each piece of the instance's memory.
pub fn dma_addresses(index: u32) -> &'static [u64] {
    let p = params();
    let first = at::<u64>(p.dma_offset, index * p.dma_pieces, p.grant_count * p.dma_pieces);
    // SAFETY: within the shared region (`check`), written before boot, constant since.
    unsafe { core::slice::from_raw_parts(first, p.dma_pieces as usize) }
}

/// Queues of granted device `index` for a CPU.
///
/// # Panics
/// If the device has no queues, or there is no such CPU.
pub fn queue(index: u32, cpu: usize) -> Queue {
    let p = params();
    let queues = grant_description(index).queues;
    assert!(queues.offset != 0, "device {index} has no queues");
    // SAFETY: within the shared region (`check`), for good.
    let state = unsafe { PairRef::from_raw(at(queues.offset, cpu as u32, p.cpu_count)) };
    let pages = at::<[[u32; 1024]; 2]>(queues.pages_offset, cpu as u32, p.cpu_count);
    Queue {
        state,
        commands: pages.cast(),
        answers: pages.cast::<[u32; 1024]>().wrapping_add(1).cast(),
    }
}

/// A pair of queues of a controller, in the shared region.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Which pair it is.
    pub state: PairRef<'static>,
    commands: *mut [u64; 8],
    answers: *mut [u32; 4],
}

// SAFETY: memory of the shared region, for good; it is read and written as volatile words, whose
// other side is a device.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Puts a command in its place, before the controller is told of it.
    #[inline(always)]
    pub fn put(&self, place: u16, command: [u64; 8]) {
        assert!(u32::from(place) < QUEUE_ENTRIES);
        let at = self.commands.wrapping_add(place.into()).cast::<u64>();
        for (number, word) in command.into_iter().enumerate() {
            // SAFETY: words of a place of the page of commands.
            unsafe { at.wrapping_add(number).write_volatile(word) };
        }
        compiler_fence(Ordering::SeqCst); // the register that tells is written later
    }

    /// Last word of the answer in a place, or of what was there before. It says whether it is a new
    /// one: the controller writes it last, or all at once.
    #[inline(always)]
    pub fn answer(&self, place: u16) -> u32 {
        assert!(u32::from(place) < QUEUE_ENTRIES);
        let at = self.answers.wrapping_add(place.into()).cast::<u32>();
        // SAFETY: a word of a place of the page of answers.
        let last = unsafe { at.wrapping_add(3).read_volatile() };
        compiler_fence(Ordering::SeqCst); // memory of the command is looked at later
        last
    }
}

/// Request `index` of the pool.
pub fn request(index: u32) -> RequestRef<'static> {
    // SAFETY: in the shared region for good (`at` checks the index).
    unsafe { RequestRef::from_raw(at(params().requests_offset, index, params().request_count)) }
}

/// Service `index` of the pool.
pub fn service(index: u32) -> ServiceRef<'static> {
    // SAFETY: as in `request`.
    unsafe { ServiceRef::from_raw(at(params().services_offset, index, params().service_count)) }
}

/// Places of the boot block that each wake-up for a call needs, on one cache line.
#[repr(align(64))]
struct Places {
    bells: AtomicPtr<BellWord>,
    doorbells: AtomicPtr<DoorbellShared>,
    bell_count: AtomicU32,
    doorbell_count: AtomicU32,
}

static PLACES: Places = Places {
    bells: AtomicPtr::new(core::ptr::null_mut()),
    doorbells: AtomicPtr::new(core::ptr::null_mut()),
    bell_count: AtomicU32::new(0),
    doorbell_count: AtomicU32::new(0),
};

impl Places {
    /// Takes the places out of the block, which was checked.
    fn fill(&self, p: &BootParams) {
        self.bells.store(at(p.bells_offset, 0, 1), Ordering::Relaxed);
        self.bell_count.store(p.bell_count, Ordering::Relaxed);
        self.doorbells.store(at(p.doorbells_offset, 0, 1), Ordering::Relaxed);
        self.doorbell_count.store(p.doorbell_count, Ordering::Relaxed);
    }
}

/// Bell `index`.
#[inline(always)]
pub fn bell(index: u32) -> BellRef<'static> {
    let count = PLACES.bell_count.load(Ordering::Relaxed);
    assert!(index < count, "bell {index} of {count}");
    // SAFETY: as in `request`.
    unsafe { BellRef::from_raw(PLACES.bells.load(Ordering::Relaxed).wrapping_add(index as usize)) }
}

/// The doorbell that a CPU of Linux has said is next to it, plus 1; if there is none such, the
/// calling CPU's.
#[inline(always)]
pub fn doorbell(near: u32) -> DoorbellRef<'static> {
    let count = PLACES.doorbell_count.load(Ordering::Relaxed);
    let said = near.wrapping_sub(1);
    let index = if said < count { said } else { own_doorbell(count) };
    let doorbells = PLACES.doorbells.load(Ordering::Relaxed);
    // SAFETY: as in `request`.
    unsafe { DoorbellRef::from_raw(doorbells.wrapping_add(index as usize)) }
}

#[cold]
fn own_doorbell(count: u32) -> u32 {
    let index = here().doorbell();
    assert!(index < count, "doorbell {index} of {count}");
    index
}

/// Where the pages of a space are offered.
pub fn offer(space: u32) -> OfferRef<'static> {
    // SAFETY: as in `request`.
    unsafe { OfferRef::from_raw(at(params().offers_offset, space % OFFERS, OFFERS)) }
}

/// The log ring. One writer at a time, or lines are torn: each stores its bytes and the head as
/// atomics.
pub fn log() -> LogWriter<'static> {
    let p = params();
    // SAFETY: in the shared region, size checked by `check`; writers access it as atomics.
    unsafe { LogWriter::from_raw(at(p.log_offset, 0, 1), p.log_size as usize) }
}

/// The clock page.
pub fn clock() -> ClockReader<'static> {
    // SAFETY: in the shared region; only the module writes it.
    unsafe { ClockReader::from_raw(at(params().clock_offset, 0, 1)) }
}

/// The mailbox of CPU `index`.
pub fn cpu(index: usize) -> CpuRef<'static> {
    // SAFETY: as in `request`; page aligned.
    unsafe { CpuRef::from_raw(mailbox(index)) }
}

fn mailbox(index: usize) -> *mut CpuShared {
    at(params().cpus_offset, index as u32, params().cpu_count)
}

/// The calling CPU is `index`, and may look for its mailbox from now on.
pub fn init_cpu(index: usize) {
    crate::percpu::set_mailbox(mailbox(index) as u64);
}

/// The mailbox of the calling CPU.
#[inline(always)]
pub fn here() -> CpuRef<'static> {
    // SAFETY: as `cpu`; `init_cpu` said where it is, before anything else was done on the CPU.
    unsafe { CpuRef::from_raw(crate::percpu::mailbox() as *mut CpuShared) }
}

/// Physical address of the clock page.
pub fn clock_paddr() -> PhysAddr {
    PhysAddr(params().shared_base + u64::from(params().clock_offset))
}

/// How many processes have a first thread that has ended: what the module is told of that.
pub fn firsts_ended() -> &'static AtomicU64 {
    let p = PARAMS.load(Ordering::Acquire);
    // SAFETY: the field is a plain aligned u64 in the shared region, which stays; it is reached by
    // this alone.
    unsafe { AtomicU64::from_ptr(&raw mut (*p).firsts_ended) }
}

/// Tells the module that this kernel has died.
pub fn set_panicked() {
    let p = PARAMS.load(Ordering::Acquire);
    // SAFETY: the field is a plain aligned u32 in the shared region; written only here.
    unsafe { AtomicU32::from_ptr(&raw mut (*p).panicked) }.store(1, Ordering::Release);
}
