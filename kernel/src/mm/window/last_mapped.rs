//! The file that was mapped last, which is often mapped next. It is held while its descriptor is
//! known to be open, so that mapping it again, after it was unmapped, asks Linux nothing.

use crate::base::lock::{Mutex, rank};
use crate::link::services;
use crate::mm::pages::content::FileRef;
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
    file: Option<FileRef>,
}

const NOTHING: u64 = 0;
/// Others change the meaning of the process' descriptors unseen by us: Linux' own threads
/// (`io_uring`), utility threads, a process with the same table.
const NEVER: u64 = 1;

impl LastMapped {
    /// From now on no answer holds for longer than its question: before the call by which that
    /// begins.
    pub fn never_holds(&self) {
        self.holds.store(NEVER, Ordering::Relaxed);
        self.drop_file();
    }

    /// Whether that is so already.
    pub fn holds_never(&self) -> bool {
        self.holds.load(Ordering::Relaxed) == NEVER
    }

    /// The space has ended, and with it the module's references.
    pub(in crate::mm) fn clear(&self) {
        let file = self.answer.lock().file.take();
        drop(file); // without the lock
    }

    /// The process has Linux execute a call, or the LWK asks its proxy for something; said before
    /// and after.
    #[inline]
    pub fn forget(&self) {
        let holds = self.holds.load(Ordering::Relaxed);
        if holds > NEVER {
            self.forget_answer(holds);
        }
    }

    /// A file that is mapped nowhere any more is dropped: what the process asks for may be about
    /// its locks, or may close its last descriptor.
    #[cold]
    fn forget_answer(&self, holds: u64) {
        let _ = self.holds.compare_exchange(holds, NOTHING, Ordering::Relaxed, Ordering::Relaxed);
        self.drop_file();
    }

    fn drop_file(&self) {
        let file = self.answer.lock().file.take();
        if file.is_some() {
            services::put_together(|| drop(file));
        }
    }

    /// The answer for a thread's descriptor, if it still holds.
    pub(super) fn get(&self, slot: u32, fd: u64) -> Option<(FileRef, u64)> {
        let answer = self.answer.lock();
        let holds =
            self.holds.load(Ordering::Relaxed) == answer.question && answer.question > NEVER;
        if holds && (answer.slot, answer.fd) == (slot, fd) {
            Some((answer.file.clone()?, answer.bits))
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
        let new = Answer { question, slot, fd, bits, file: Some(file.clone()) };
        let old = core::mem::replace(&mut *self.answer.lock(), new);
        if old.file.is_some() {
            services::put_together(|| drop(old));
        }
        if self.holds.load(Ordering::Relaxed) != question {
            self.drop_file(); // forgotten meanwhile, or never to be held
        }
    }
}
