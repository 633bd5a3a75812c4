//! The file that was mapped last, which is often mapped next.

use super::content::{FileHandle, FileRef};
use crate::base::lock::{Mutex, rank};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};

/// The file that a space's processes mapped last: a library is mapped in several pieces,
/// one call behind the other. Good for the same thread, which may have descriptors of its
/// own, until any of them asks Linux for anything, which may give the descriptor another
/// meaning.
#[derive(Default)]
pub struct LastMapped {
    /// [`NOTHING`], [`NEVER`], or the number of the question whose answer still holds.
    holds: AtomicU64,
    answer: Mutex<Answer, rank::LastMapped>,
}

#[derive(Default)]
struct Answer {
    question: u64,
    slot: u32,
    fd: u64,
    bits: u64,
    file: Weak<FileHandle>,
}

const NOTHING: u64 = 0;
/// Linux' own threads act for the process (`io_uring`), unseen by us.
const NEVER: u64 = 1;

impl LastMapped {
    /// From now on no answer holds for longer than its question: before the call by which that begins.
    pub fn never_holds(&self) {
        self.holds.store(NEVER, Ordering::Relaxed);
    }

    /// The process has Linux execute a call, or the LWK asks its proxy for something; said before and after.
    #[inline]
    pub fn forget(&self) {
        let holds = self.holds.load(Ordering::Relaxed);
        if holds > NEVER {
            self.forget_answer(holds);
        }
    }

    #[cold]
    fn forget_answer(&self, holds: u64) {
        let _ = self.holds.compare_exchange(holds, NOTHING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The answer for a thread's descriptor, if it still holds.
    pub(super) fn get(&self, slot: u32, fd: u64) -> Option<(FileRef, u64)> {
        let answer = self.answer.lock();
        let holds =
            self.holds.load(Ordering::Relaxed) == answer.question && answer.question > NEVER;
        if holds && (answer.slot, answer.fd) == (slot, fd) {
            Some((answer.file.upgrade()?, answer.bits))
        } else {
            None
        }
    }

    /// A question is about to be asked: its number.
    pub(super) fn begin(&self) -> u64 {
        static NUMBER: AtomicU64 = AtomicU64::new(NEVER + 1);
        let question = NUMBER.fetch_add(1, Ordering::Relaxed);
        let change = |holds| (holds != NEVER).then_some(question);
        let _ = self.holds.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change);
        question
    }

    /// The answer to a question.
    pub(super) fn end(&self, question: u64, (slot, fd): (u32, u64), bits: u64, file: &FileRef) {
        *self.answer.lock() = Answer { question, slot, fd, bits, file: Arc::downgrade(file) };
    }
}
