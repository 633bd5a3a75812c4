//! Code that is written: stubs in memory of their own, and jumps in text of loaded objects.

use std::ptr;

use super::call::Errno;
use super::objects::Text;
use super::pages::{self, PAGE_BYTES, protect};

const READ_EXEC: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Memory for code at a place of its own.
pub struct Area {
    /// First address.
    pub start: u64,
    size: u64,
}

impl Area {
    /// Memory there; `None`: something is there.
    pub fn at(start: u64, size: u64) -> Option<Self> {
        pages::map_at(start, size).then_some(Self { start, size })
    }

    /// Writes stubs into the area, and makes it code for ever.
    pub fn write(self, bytes: &[u8]) -> Result<(), Errno> {
        assert!(bytes.len() as u64 <= self.size, "there is room for all stubs");
        // SAFETY: The area is ours, writable, and large enough.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start as *mut u8, bytes.len()) };
        // SAFETY: The area is ours, and no code writes to it from now on.
        unsafe { protect(self.start, self.size, READ_EXEC) }
    }
}

/// A jump that takes the place of instructions.
pub struct Jump {
    /// Address of the long jump, and its bytes.
    pub long: (u64, [u8; 5]),
    /// Address and bytes of a short one to it, where that stands elsewhere.
    pub short: Option<(u64, [u8; 2])>,
}

/// Replaces instructions of a text by jumps, as `rewrite::plan` has them: nothing but the
/// instructions that a jump stands for is overwritten. No thread executes these meanwhile, or
/// enters them later but at their first byte.
pub fn replace(text: &Text, jumps: &[Jump]) -> Result<(), Errno> {
    let (start, end) = (text.start & !(PAGE_BYTES - 1), text.end.next_multiple_of(PAGE_BYTES));
    // SAFETY: The text stays readable and executable.
    unsafe { protect(start, end - start, READ_EXEC | libc::PROT_WRITE) }?;
    for Jump { long: (at, bytes), short } in jumps {
        // SAFETY: The survey and the plan say that no more than these instructions stands there;
        // the text is writable.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), *at as *mut u8, bytes.len()) };
        if let Some((at, bytes)) = short {
            // SAFETY: Likewise. Two bytes in one store, after what they lead to.
            unsafe { ptr::write_unaligned(*at as *mut [u8; 2], *bytes) };
        }
    }
    // SAFETY: It is as before.
    unsafe { protect(start, end - start, READ_EXEC) }
}
