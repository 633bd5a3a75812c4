//! A packed call in a page that both sides have: written as the LWK writes it, read as a pooled
//! proxy reads it, with its result written back, behind a slot that both poll.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::message::{MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE, MessagePage};
use hanare_abi::slot::NR_PACKED;
use hanare_core::marshal::{
    Buffer, PAGE_HEAD_BYTES, PAYLOAD_BYTES, Piece, Place, complete, decode, encode, finish,
    page_bytes,
};
use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};
use hanare_ikc::{Answer, SlotRef, SlotWords};
use nix::libc::SYS_getppid;

use super::pair::Exchange;
use super::polled::poll;

/// Words of a page, and of its head.
const WORDS: usize = 512;
const HEAD_WORDS: usize = PAGE_HEAD_BYTES / 8;

/// The slot, and the page.
pub struct Packed {
    slot: SlotWords,
    page: [AtomicU64; WORDS],
}

impl Packed {
    pub fn new() -> Self {
        Self { slot: SlotWords::new(), page: array::from_fn(|_| AtomicU64::new(0)) }
    }

    fn payload(&self) -> Payload<'_> {
        Payload(&self.page[HEAD_WORDS..])
    }

    fn seal(&self, call: u64) {
        let (magic, next) = (MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE);
        let head = MessagePage { magic, next, index: 0, count: 1, call, reserved: 0 };
        Payload(&self.page).write(0, &page_bytes(&head));
    }

    /// Whether the head is that of the only page of this call.
    fn is_sealed(&self, call: u64) -> bool {
        let mut head = [0; PAGE_HEAD_BYTES];
        Payload(&self.page).read(0, &mut head);
        let (magic, next) = (MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE);
        head == page_bytes(&MessagePage { magic, next, index: 0, count: 1, call, reserved: 0 })
    }
}

/// The bytes of a page, a word at a time: all that a call without data has lies at multiples of
/// words.
struct Payload<'a>(&'a [AtomicU64]);

impl Buffer for Payload<'_> {
    fn size(&self) -> usize {
        PAYLOAD_BYTES
    }
    fn read(&self, at: usize, to: &mut [u8]) {
        for (word, to) in self.0[at / 8..].iter().zip(to.chunks_mut(8)) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..to.len()]);
        }
    }
    fn write(&mut self, at: usize, from: &[u8]) {
        for (word, from) in self.0[at / 8..].iter().zip(from.as_chunks().0) {
            word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }
    fn load(&mut self, _: usize, _: usize, _: &impl CallerMemory, _: u64) -> usize {
        0
    }
    fn store(&self, _: usize, _: usize, _: &mut impl CallerMemory, _: u64) -> Result<(), Fault> {
        Err(Fault)
    }
}

/// The memory of a caller whose call refers to none.
struct Nothing;

impl UserMemory for Nothing {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault)
    }
    fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        Err(Fault)
    }
}

impl CallerMemory for Nothing {
    fn writable(&self, _: u64, _: u64) -> u64 {
        0
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault)
    }
}

impl Exchange for Packed {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let slot: SlotRef = SlotRef::new(&self.slot);
        let mut pieces = [Piece::NONE; 4];
        for call in 0..count.into() {
            let mut page = self.payload();
            let encoded = encode(&Nothing, SYS_getppid as u32, &[0; 6], &mut page, &mut pieces);
            let encoded = encoded.expect("it refers to nothing");
            self.seal(call);
            let _awake = slot.lwk_post(NR_PACKED, [0, call, 0, 0, 0, 0]);
            poll(|| slot.lwk_poll());
            let result = complete(&page, &pieces[..encoded.pieces], &mut Nothing);
            assert_eq!(result, call.cast_signed(), "the result of another call");
        }
    }

    fn answer(&self, count: u32) {
        let slot: SlotRef = SlotRef::new(&self.slot);
        for _ in 0..count {
            let call = slot.worker_takes(poll(|| slot.worker_poll())).args[1];
            assert!(self.is_sealed(call), "the page of another call");
            let mut page = self.payload();
            let place = Place { message: 0x10_0000, own: 0, has_guard: false };
            let decoded = decode(&page, place, &mut []).expect("a message");
            finish(&mut page, &decoded, &[], call.cast_signed());
            let _awake = slot.worker_complete(Answer::Done(0));
        }
    }
}
