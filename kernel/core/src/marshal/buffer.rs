//! Where a message lies: one buffer, or pages that name one another.

use super::wire::{PAGE_BYTES, PAGE_HEAD_BYTES, PAYLOAD_BYTES, page_bytes, page_of, u32_at};
use crate::usermemory::{CallerMemory, Fault};
use core::mem::offset_of;
use hanare_abi::message::{MESSAGE_PAGE_MAGIC, MESSAGE_PAGE_NONE, MessageHead, MessagePage};

/// The bytes of a message. The other side may be able to write to them at any time, so what is read
/// twice may differ.
pub trait Buffer {
    /// Number of bytes in the buffer.
    fn size(&self) -> usize;

    /// Reads as many bytes as `to` has; zeros from the end on.
    fn read(&self, at: usize, to: &mut [u8]);

    /// Writes `from`, as far as there is room.
    fn write(&mut self, at: usize, from: &[u8]);

    /// Copies `count` bytes from a caller's memory; says how many there were, up to the first page
    /// that cannot be read.
    fn load(&mut self, at: usize, count: usize, memory: &impl CallerMemory, addr: u64) -> usize;

    /// Copies `count` bytes to a caller's memory.
    ///
    /// # Errors
    /// Some of it cannot be written to.
    fn store(
        &self,
        at: usize,
        count: usize,
        memory: &mut impl CallerMemory,
        addr: u64,
    ) -> Result<(), Fault>;
}

/// A [`Buffer`] whose bytes can be borrowed, piece by piece.
pub trait Runs {
    /// Number of bytes in the runs.
    fn bytes(&self) -> usize;

    /// The longest run of bytes from `at` on that lies together; empty behind the end.
    fn run(&self, at: usize) -> &[u8];

    /// The run that [`run`](Self::run) gives, to be written.
    fn run_mut(&mut self, at: usize) -> &mut [u8];
}

impl<T: Runs + ?Sized> Buffer for T {
    fn size(&self) -> usize {
        self.bytes()
    }

    fn read(&self, mut at: usize, mut to: &mut [u8]) {
        while !to.is_empty() {
            let run = self.run(at);
            let count = run.len().min(to.len());
            if count == 0 {
                return to.fill(0);
            }
            to[..count].copy_from_slice(&run[..count]);
            at += count;
            to = &mut to[count..];
        }
    }

    fn write(&mut self, mut at: usize, mut from: &[u8]) {
        while !from.is_empty() {
            let run = self.run_mut(at);
            let count = run.len().min(from.len());
            if count == 0 {
                return;
            }
            run[..count].copy_from_slice(&from[..count]);
            at += count;
            from = &from[count..];
        }
    }

    fn load(&mut self, at: usize, count: usize, memory: &impl CallerMemory, addr: u64) -> usize {
        let mut done = 0;
        while done < count {
            let Some(addr) = addr.checked_add(done as u64) else { break };
            let run = self.run_mut(at + done);
            let here = run.len().min(count - done);
            if here == 0 {
                break;
            }
            let loaded = load(memory, addr, &mut run[..here]);
            done += loaded;
            if loaded < here {
                break;
            }
        }
        done
    }

    fn store(
        &self,
        at: usize,
        count: usize,
        memory: &mut impl CallerMemory,
        addr: u64,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < count {
            let run = self.run(at + done);
            let here = run.len().min(count - done);
            if here == 0 {
                return Err(Fault);
            }
            memory.write(addr.checked_add(done as u64).ok_or(Fault)?, &run[..here])?;
            done += here;
        }
        Ok(())
    }
}

/// All at once; where that fails, page by page.
fn load(memory: &impl CallerMemory, addr: u64, to: &mut [u8]) -> usize {
    if memory.read(addr, to).is_ok() {
        return to.len();
    }
    let mut done = 0;
    while done < to.len() {
        let Some(addr) = addr.checked_add(done as u64) else { break };
        let in_page = usize::try_from(addr % 4096).unwrap_or(0);
        let here = (4096 - in_page).min(to.len() - done);
        if memory.read(addr, &mut to[done..done + here]).is_err() {
            break;
        }
        done += here;
    }
    done
}

impl Runs for [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn run(&self, at: usize) -> &[u8] {
        self.get(at..).unwrap_or(&[])
    }

    fn run_mut(&mut self, at: usize) -> &mut [u8] {
        self.get_mut(at..).unwrap_or(&mut [])
    }
}

/// A page of a pool.
pub type Page = [u8; PAGE_BYTES];

/// A message in pages of a pool.
pub struct Packed<'a> {
    pool: &'a mut [Page],
    chain: &'a [u32],
}

impl<'a> Packed<'a> {
    /// The pages of these numbers, which are those of a message that is to be written or that
    /// [`gather`] has found. `None`: one is not in the pool.
    #[must_use]
    pub fn new(pool: &'a mut [Page], chain: &'a [u32]) -> Option<Self> {
        chain.iter().all(|&number| is_in(pool, number)).then_some(Self { pool, chain })
    }

    /// Writes the heads of as many pages as `size` bytes take; says how many.
    pub fn seal(&mut self, call: u64, size: usize) -> u32 {
        let pages = size.div_ceil(PAYLOAD_BYTES).min(self.chain.len());
        let count = u32::try_from(pages).unwrap_or(u32::MAX);
        for (index, &number) in (0u32..).zip(&self.chain[..pages]) {
            let next = self.chain[..pages].get(index as usize + 1).copied();
            let head = MessagePage {
                magic: MESSAGE_PAGE_MAGIC,
                next: next.unwrap_or(MESSAGE_PAGE_NONE),
                index,
                count,
                call,
                reserved: 0,
            };
            self.pool[number as usize][..PAGE_HEAD_BYTES].copy_from_slice(&page_bytes(&head));
        }
        count
    }

    fn place(&self, at: usize) -> Option<(usize, usize)> {
        let number = *self.chain.get(at / PAYLOAD_BYTES)?;
        Some((number as usize, PAGE_HEAD_BYTES + at % PAYLOAD_BYTES))
    }
}

fn is_in(pool: &[Page], number: u32) -> bool {
    usize::try_from(number).is_ok_and(|number| number < pool.len())
}

impl Runs for Packed<'_> {
    fn bytes(&self) -> usize {
        self.chain.len() * PAYLOAD_BYTES
    }

    fn run(&self, at: usize) -> &[u8] {
        self.place(at).map_or(&[], |(page, from)| &self.pool[page][from..])
    }

    fn run_mut(&mut self, at: usize) -> &mut [u8] {
        self.place(at).map_or(&mut [], |(page, from)| &mut self.pool[page][from..])
    }
}

/// Whether the message that begins in this page asks for a place that ends where memory ends, as
/// its head says now; [`super::decode`] looks again.
#[must_use]
pub fn asks_for_guard(pool: &[Page], first: u32) -> bool {
    const FAULT_AT: usize = PAGE_HEAD_BYTES + offset_of!(MessageHead, fault);
    is_in(pool, first) && u32_at(&pool[first as usize], FAULT_AT) != 0
}

/// The head of a page in a pool, whatever is in it.
#[must_use]
pub fn page_head(pool: &[Page], number: u32) -> Option<MessagePage> {
    is_in(pool, number).then(|| page_of(&pool[number as usize]))
}

/// Copies the message that begins in page `first` into `to`, and notes its pages. `None`: the
/// pages do not name one another as those of one message of this call do, or it is too long. Says
/// how many pages there are; the message's bytes are as many times [`PAYLOAD_BYTES`].
pub fn gather(
    pool: &[Page],
    first: u32,
    call: u64,
    to: &mut [u8],
    chain: &mut [u32],
) -> Option<usize> {
    let mut number = first;
    let mut count = None;
    for (index, (place, found)) in to.chunks_exact_mut(PAYLOAD_BYTES).zip(chain).enumerate() {
        let head = page_head(pool, number)?;
        let pages = *count.get_or_insert(head.count);
        let is_good = head.magic == MESSAGE_PAGE_MAGIC
            && head.call == call
            && head.count == pages
            && head.reserved == 0
            && usize::try_from(head.index) == Ok(index);
        if !is_good {
            return None;
        }
        place.copy_from_slice(&pool[number as usize][PAGE_HEAD_BYTES..]);
        *found = number;
        if head.index + 1 == pages {
            return (head.next == MESSAGE_PAGE_NONE).then_some(index + 1);
        }
        number = head.next;
    }
    None
}
