//! Packed arguments: a call in pages that a pooled proxy takes it from (`abi/src/pooled.rs`).
//!
//! The pages are the proxy's memory and the LWK's; nothing of the task's is in them but what its
//! call refers to. The LWK itself knows which pages a message has, and what may be written back: it
//! reads no head of a page again.

use crate::mm::window::messages::{self, Frames};
use crate::process::members::Taken;
use crate::route::program::{InFrames, Places, Program};
use alloc::sync::Arc;
use hanare_abi::message::{MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE, MessagePage};
use hanare_abi::pooled::PACKED_PAGES;
use hanare_core::marshal::{
    self, Buffer, Encoded, PAGE_HEAD_BYTES, PAYLOAD_BYTES, Piece, Refusal, page_bytes,
};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;

/// Reason why a call is not packed.
pub enum NotPacked {
    /// The call is one that cannot be packed.
    Refused(Refusal),
    /// There is no memory for the pages.
    NoMemory,
}

/// Writes the call into the pages of the proxy, which become more where it has to be.
pub fn pack(
    program: &Program<'_>,
    taken: &Taken,
    number: u32,
    args: &[u64; 6],
    pieces: &mut [Piece],
) -> core::result::Result<(InFrames<Pages>, Encoded), NotPacked> {
    let space = &taken.member.space;
    let mut frames = space.memory.message(0).ok_or(NotPacked::NoMemory)?;
    loop {
        let mut to = InFrames::new(Pages { frames });
        match marshal::encode(program, number, args, &mut to, pieces) {
            Ok(encoded) => return Ok((to, encoded)),
            Err(Refusal::DoesNotFit { needed })
                if needed > to.size() as u64 && to.places.count() < PACKED_PAGES as usize =>
            {
                let pages = needed.div_ceil(PAYLOAD_BYTES as u64).min(PACKED_PAGES.into());
                let bytes = (pages + 1) * SMALL;
                frames =
                    messages::grow_of(&space.memory, 0, bytes).map_err(|_| NotPacked::NoMemory)?;
            }
            Err(refusal) => return Err(NotPacked::Refused(refusal)),
        }
    }
}

/// The pages of a pooled proxy's calls, behind its own page; a message has the first ones, in their
/// order. The proxy, which may be forged, can write to them at any time.
pub struct Pages {
    frames: Arc<Frames>,
}

impl Places for Pages {
    fn size(&self) -> usize {
        self.count() * PAYLOAD_BYTES
    }

    fn place(&self, at: usize) -> Option<(PhysAddr, usize)> {
        let (page, inside) = (at / PAYLOAD_BYTES, at % PAYLOAD_BYTES);
        if page >= self.count() {
            return None;
        }
        let offset = (page + 1) * SMALL as usize + PAGE_HEAD_BYTES + inside;
        self.frames.place(offset).map(|(frame, _)| (frame, PAYLOAD_BYTES - inside))
    }
}

impl Pages {
    /// Number of pages that a message may have.
    fn count(&self) -> usize {
        (self.frames.pages() as usize - 1).min(PACKED_PAGES as usize)
    }

    /// Writes the heads of the pages of a message of so many bytes.
    pub fn seal(&self, call: u64, bytes: usize) {
        let count = bytes.div_ceil(PAYLOAD_BYTES).min(self.count()) as u32;
        for index in 0..count {
            let next = if index + 1 == count { MESSAGE_PAGE_NONE } else { index + 1 };
            let head =
                MessagePage { magic: MESSAGE_PAGE_MAGIC, next, index, count, call, reserved: 0 };
            if let Some((frame, _)) = self.place(index as usize * PAYLOAD_BYTES) {
                memory::write(frame.page_down(), &page_bytes(&head));
            }
        }
    }
}
