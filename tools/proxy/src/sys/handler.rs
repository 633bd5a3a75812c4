//! The thread pointer in signal handlers that have interrupted a utility thread's code, where it is
//! the program's.

use core::arch::asm;
use core::sync::atomic::Ordering;

use hanare_abi::utility::{AREA_STACK, AREA_WORKER};
use linux_raw_sys::general::__NR_arch_prctl;

use super::call::{plain, raw_call};
use super::worker::Worker;

const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;

/// At the beginning of a handler where there is an alternate stack, which begins at `stack`. If it
/// has interrupted the thread's code, this thread is its worker again, which is the result.
pub fn enter_handler(stack: u64) -> Option<&'static Worker> {
    const CHECKS_ALIGNMENT: u64 = 1 << 18; // of the flags, which are the program's
    // SAFETY: only in such code is there an alternate stack, in its area, where the worker's
    // address is. A program that writes another one there harms itself.
    let worker = unsafe {
        asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !CHECKS_ALIGNMENT as i32);
        &**((stack - AREA_STACK + AREA_WORKER) as *const *const Worker)
    };
    if worker.utility.in_call.load(Ordering::Relaxed) {
        return None;
    }
    let mut fs = 0u64;
    // SAFETY: Linux writes one word; then the thread pointer is what it is outside of that code.
    unsafe {
        raw_call(__NR_arch_prctl, [ARCH_GET_FS, &raw mut fs as u64, 0, 0, 0, 0]);
        raw_call(__NR_arch_prctl, [ARCH_SET_FS, core::ptr::from_ref(worker) as u64, 0, 0, 0, 0]);
    }
    worker.utility.fs.store(fs, Ordering::Relaxed);
    Some(worker)
}

/// Ends the handler that was entered: the code goes on.
pub fn leave_handler(worker: &Worker) {
    let fs = worker.utility.fs.load(Ordering::Relaxed);
    let _ = plain(__NR_arch_prctl, [ARCH_SET_FS, fs, 0, 0, 0, 0]);
}
