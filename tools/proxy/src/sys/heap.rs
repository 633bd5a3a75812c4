//! No heap. Libraries that can use one are linked for what needs none; what asks for memory gets
//! none, and ends the proxy.

use core::alloc::{GlobalAlloc, Layout};

struct NoHeap;

// SAFETY: null means that there is no memory; none is ever given, so none comes back.
unsafe impl GlobalAlloc for NoHeap {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static NO_HEAP: NoHeap = NoHeap;
