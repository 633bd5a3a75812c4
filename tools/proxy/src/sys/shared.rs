//! Memory that Linux or the LWK gave to the proxy: the initial stack and the control window.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use hanare_abi::cpus::LinuxCpuSet;
use hanare_abi::layout::{
    BOX_BASE, CONTROL_BASE, CONTROL_END, MESSAGE_MAX, MESSAGES_MAX, SCRATCH_BASE, SCRATCH_END,
    SLOT_BASE, START_BASE, START_SIZE, message,
};
use hanare_abi::requestbox::{BOXES, RequestBox};
use hanare_abi::slot::Slot;
use hanare_abi::start::StartBlock;
use hanare_ikc::{BoxRef, SlotRef};
use linux_raw_sys::auxvec::AT_NULL;

/// Initial stack of the process: arguments, environment, auxiliary vector.
#[derive(Clone, Copy)]
pub struct Initial {
    /// Number of arguments.
    pub argc: usize,
    /// Number of environment strings.
    pub envc: usize,
    stack: *const u64,
}

impl Initial {
    /// # Safety
    /// `stack` must be the stack pointer with which the kernel started us.
    pub unsafe fn new(stack: *const u64) -> Self {
        // SAFETY: argc words and a null, then the environment and a null.
        unsafe {
            let argc = *stack as usize;
            let mut envc = 0;
            while *stack.add(argc + 2 + envc) != 0 {
                envc += 1;
            }
            Self { argc, envc, stack }
        }
    }

    fn string(&self, word: usize) -> &'static CStr {
        // SAFETY: a pointer to a string that lives as long as the process.
        unsafe { CStr::from_ptr(*self.stack.add(word) as *const _) }
    }

    /// Argument `index`, which must exist.
    pub fn argument(&self, index: usize) -> &'static CStr {
        assert!(index < self.argc);
        self.string(1 + index)
    }

    /// Environment string `index`, which must exist.
    pub fn environment(&self, index: usize) -> &'static CStr {
        assert!(index < self.envc);
        self.string(self.argc + 2 + index)
    }

    /// A value of the auxiliary vector, 0 if it is not there.
    pub fn auxiliary(&self, kind: u32) -> u64 {
        let mut word = self.argc + self.envc + 3;
        loop {
            // SAFETY: pairs of words up to AT_NULL.
            let (key, value) = unsafe { (*self.stack.add(word), *self.stack.add(word + 1)) };
            if key == u64::from(kind) {
                return value;
            }
            if key == u64::from(AT_NULL) {
                return 0;
            }
            word += 2;
        }
    }

    /// Makes `ps` show the application's arguments: moves those from `first` on
    /// to the start of the area. The arguments must not be used afterwards.
    pub fn show_arguments_from(self, first: usize) {
        let from = self.argument(first);
        let area = self.argument(0).as_ptr().cast_mut();
        let last = self.argument(self.argc - 1);
        // SAFETY: the kernel lays the argument strings out one behind the other,
        // in order, on the stack, which is writable; no reference is used later.
        unsafe {
            let end = last.as_ptr().add(last.count_bytes() + 1);
            let kept = end.offset_from(from.as_ptr()) as usize;
            let all = end.offset_from(area) as usize;
            core::ptr::copy(from.as_ptr(), area, kept);
            core::ptr::write_bytes(area.add(kept), 0, all - kept);
        }
    }
}

/// The control window is mapped.
///
/// Made once, by the code that mapped it; everything that touches the window
/// asks for it.
#[derive(Clone, Copy)]
pub struct Window(());

impl Window {
    /// # Safety
    /// The device must be mapped over the control window for good.
    pub unsafe fn mapped() -> Self {
        Self(())
    }

    /// Slot `index`.
    pub fn slot(self, index: u32) -> SlotRef<'static> {
        assert!(index < hanare_abi::layout::SLOTS_MAX);
        let address = SLOT_BASE + u64::from(index) * size_of::<Slot>() as u64;
        // SAFETY: mapped for good, aligned, and touched by nothing else here.
        unsafe { SlotRef::from_raw(address as *mut Slot) }
    }

    /// The request box with this number.
    pub fn request_box(self, number: usize) -> BoxRef<'static> {
        assert!(number < BOXES);
        // SAFETY: mapped for good, aligned, and touched by nothing else here.
        unsafe { BoxRef::from_raw((BOX_BASE as *mut RequestBox).add(number)) }
    }

    /// Address of the scratch page of slot `index`.
    pub fn scratch(self, index: u32) -> u64 {
        hanare_abi::layout::scratch(index)
    }

    /// The CPUs of Linux that the LWK has written to the scratch page of slot `index`.
    pub fn cpus(self, index: u32) -> LinuxCpuSet {
        assert!(index < hanare_abi::layout::SLOTS_MAX);
        // SAFETY: an aligned page that is mapped for good; any bits are a set, which is smaller.
        unsafe { (self.scratch(index) as *const LinuxCpuSet).read_volatile() }
    }

    /// Copies `bytes` to `address` of a scratch page; what lies outside is not written.
    pub fn write_scratch(self, address: u64, bytes: &[u8]) {
        let pages = SCRATCH_BASE..=SCRATCH_END - bytes.len() as u64;
        if pages.contains(&address) {
            // SAFETY: inside the scratch pages, which nothing here borrows.
            unsafe {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len())
            }
        }
    }

    /// Does something with the message of slot `index`, whose buffer the LWK says is at `address`
    /// and has so many bytes. The device must be mapped there (`attach::map_messages`). `None`: no
    /// message is there.
    pub fn with_message<R>(
        self,
        index: u32,
        (address, bytes): (u64, u64),
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        if index >= MESSAGES_MAX || address != message(index) || bytes > MESSAGE_MAX {
            return None;
        }
        // SAFETY: memory that the LWK has for this slot, whose only worker this is; the LWK does
        // not touch it between question and answer. System calls write to it only while nothing
        // borrows it.
        let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) };
        Some(f(bytes))
    }

    /// Copies `bytes` to `offset` of the start block.
    pub fn write_start(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= START_SIZE as usize);
        let target = (START_BASE as usize + offset) as *mut u8;
        // SAFETY: inside the start block, which the LWK does not read before START.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
    }

    /// Writes the header of the start block.
    pub fn write_start_block(self, block: &StartBlock) {
        // SAFETY: START_BASE is mapped and aligned; the LWK does not read before START.
        unsafe { core::ptr::write(START_BASE as *mut StartBlock, *block) }
    }

    /// The words at `address` of the window; 0 for what lies outside.
    pub fn read_words<const N: usize>(self, address: u64) -> [u64; N] {
        core::array::from_fn(|i| {
            let at = address.saturating_add(8 * i as u64);
            if !(CONTROL_BASE..CONTROL_END - 7).contains(&at) || !at.is_multiple_of(8) {
                return 0;
            }
            // SAFETY: inside the window, aligned; a word may have any value.
            unsafe { core::ptr::read_volatile(at as *const u64) }
        })
    }

    /// Copies the string at `address` of the window into `buffer`, cut to fit.
    pub fn read_string(self, address: u64, buffer: &mut [u8]) -> usize {
        for (offset, byte) in buffer.iter_mut().enumerate() {
            let at = address.saturating_add(offset as u64);
            if !(CONTROL_BASE..CONTROL_END).contains(&at) {
                return offset;
            }
            // SAFETY: inside the window; a byte may have any value.
            *byte = unsafe { core::ptr::read_volatile(at as *const u8) };
            if *byte == 0 {
                return offset;
            }
        }
        buffer.len()
    }
}

/// A value that is set once, before any thread looks.
pub struct Once<T> {
    ready: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: written once before `ready` is released, shared afterwards.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// A value that is not set yet.
    pub const fn new() -> Self {
        Self { ready: AtomicU32::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets it; the first thread does so, once, before it makes others.
    pub fn set(&'static self, value: T) -> &'static T {
        assert!(self.ready.load(Ordering::Relaxed) == 0);
        // SAFETY: no code has a reference: `ready` is still 0.
        let value = unsafe { (*self.value.get()).write(value) };
        self.ready.store(1, Ordering::Release);
        value
    }

    /// The value, if it is set.
    pub fn get(&'static self) -> Option<&'static T> {
        if self.ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: set, and never changed again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }
}
