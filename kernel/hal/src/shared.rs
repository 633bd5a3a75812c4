//! Typed access to the shared region (see `abi::boot`). The protocols on top of
//! it are in the `ikc` crate; this module only turns offsets into references.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::{BootParams, CpuShared, MemoryChunk};
use hanare_abi::request::Request;
use hanare_abi::service::Service;

static PARAMS: AtomicPtr<BootParams> = AtomicPtr::new(core::ptr::null_mut());

/// Remembers where the block is.
///
/// # Safety
/// `params` must be mapped for the life of the kernel and filled in by the module.
pub unsafe fn init(params: *const BootParams) {
    PARAMS.store(params.cast_mut(), Ordering::Release);
}

/// The boot parameter block. Constant after boot, but for `panicked`.
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

/// Verifies magic, version, and that every array lies within the shared region.
pub fn check() -> Result<(), &'static str> {
    let p = params();
    if p.magic != hanare_abi::MAGIC {
        return Err("the boot parameters have no magic");
    }
    if p.version != hanare_abi::VERSION || p.params_size as usize != size_of::<BootParams>() {
        return Err("the module has another version of the ABI");
    }
    let fits = |offset: u32, bytes: usize| offset as usize + bytes <= p.shared_size as usize;
    let ok = fits(p.chunks_offset, p.chunk_count as usize * size_of::<MemoryChunk>())
        && fits(p.cpus_offset, p.cpu_count as usize * size_of::<CpuShared>())
        && fits(p.requests_offset, p.request_count as usize * size_of::<Request>())
        && fits(p.services_offset, p.service_count as usize * size_of::<Service>())
        && fits(p.log_offset, hanare_abi::log::LOG_TEXT_OFFSET as usize + p.log_size as usize)
        && fits(p.clock_offset, 4096)
        && p.log_size.is_power_of_two()
        && (1..=crate::boot::CPUS_MAX).contains(&(p.cpu_count as usize));
    if ok { Ok(()) } else { Err("the boot parameters name something outside the shared region") }
}

/// Memory chunks of the instance.
pub fn chunks() -> &'static [MemoryChunk] {
    let p = params();
    let base = PARAMS.load(Ordering::Acquire).cast::<u8>().wrapping_add(p.chunks_offset as usize);
    // SAFETY: within the shared region (`check`), written before boot, constant since.
    unsafe { core::slice::from_raw_parts(base.cast(), p.chunk_count as usize) }
}

/// Request `index` of the pool.
pub fn request(index: u32) -> *mut Request {
    at(params().requests_offset, index, params().request_count)
}

/// Service `index` of the pool.
pub fn service(index: u32) -> *mut Service {
    at(params().services_offset, index, params().service_count)
}

/// The log ring: header, text area, and its bytes.
pub fn log() -> (*mut hanare_abi::log::LogRing, *mut u8, usize) {
    let p = params();
    let base = PARAMS.load(Ordering::Acquire).cast::<u8>().wrapping_add(p.log_offset as usize);
    (base.cast(), base.wrapping_add(hanare_abi::log::LOG_TEXT_OFFSET as usize), p.log_size as usize)
}

/// The clock page.
pub fn clock() -> *const hanare_abi::clock::ClockPage {
    PARAMS.load(Ordering::Acquire).cast::<u8>().wrapping_add(params().clock_offset as usize).cast()
}

/// Physical address of the clock page.
pub fn clock_paddr() -> u64 {
    params().shared_base + u64::from(params().clock_offset)
}

/// Tells the module that this kernel has died.
pub fn set_panicked() {
    let p = PARAMS.load(Ordering::Acquire);
    // SAFETY: the field is a plain aligned u32 in the shared region; written only here.
    unsafe { AtomicU32::from_ptr(&raw mut (*p).panicked) }.store(1, Ordering::Release);
}

/// One CPU's shared area.
#[derive(Clone, Copy)]
pub struct Cpu(*mut CpuShared);

/// The shared area of CPU `index`.
pub fn cpu(index: usize) -> Cpu {
    Cpu(at(params().cpus_offset, index as u32, params().cpu_count))
}

macro_rules! word {
    ($self:ident, $field:ident, $atomic:ident) => {
        // SAFETY: an aligned word in the shared region, which is never unmapped;
        // both sides access it as an atomic only.
        unsafe { $atomic::from_ptr(&raw mut (*$self.0).$field) }
    };
}

impl Cpu {
    /// For the `ikc` crate.
    pub fn as_ptr(self) -> *mut CpuShared {
        self.0
    }
    /// Publishes a `CPU_*` state.
    pub fn set_state(self, state: u32) {
        word!(self, state, AtomicU32).store(state, Ordering::SeqCst);
    }
    /// Where to ring Linux: APIC id << 32 | vector; 0: nowhere now.
    pub fn doorbell(self) -> u64 {
        word!(self, doorbell, AtomicU64).load(Ordering::Acquire)
    }
    /// Vector on which Linux rings this CPU.
    pub fn ipi_vector(self) -> u8 {
        word!(self, ipi_vector, AtomicU32).load(Ordering::Relaxed) as u8
    }
    /// Physical APIC id as Linux has it.
    pub fn apic_id(self) -> u32 {
        word!(self, apic_id, AtomicU32).load(Ordering::Relaxed)
    }
    /// Linux' number of the CPU.
    pub fn linux_cpu(self) -> u32 {
        word!(self, linux_cpu, AtomicU32).load(Ordering::Relaxed)
    }
    /// NUMA node.
    pub fn node(self) -> u32 {
        word!(self, node, AtomicU32).load(Ordering::Relaxed)
    }
    /// Space running here, for `hanare ls`.
    pub fn set_space(self, space: u32) {
        word!(self, current_space, AtomicU32).store(space, Ordering::Relaxed);
    }
    /// Adds to a counter; only this CPU writes its counters, so no locked add.
    pub fn count(self, counter: Counter) {
        let w = match counter {
            Counter::Heartbeat => word!(self, heartbeat, AtomicU64),
            Counter::Interrupts => word!(self, interrupts, AtomicU64),
            Counter::Exceptions => word!(self, exceptions, AtomicU64),
            Counter::PageFaults => word!(self, page_faults, AtomicU64),
            Counter::LocalCalls => word!(self, local_calls, AtomicU64),
            Counter::DelegatedCalls => word!(self, delegated_calls, AtomicU64),
        };
        w.store(w.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Counters of a CPU's shared area.
#[derive(Clone, Copy)]
pub enum Counter {
    /// Passes of the idle loop and requests served.
    Heartbeat,
    /// Interrupts taken.
    Interrupts,
    /// Exceptions taken.
    Exceptions,
    /// Page faults.
    PageFaults,
    /// System calls served here.
    LocalCalls,
    /// System calls delegated.
    DelegatedCalls,
}
