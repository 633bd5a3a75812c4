//! QEMU's teaching device (its docs/specs/edu.rst): an example of a driver. A write of four bytes
//! has the device compute a factorial, which a read of four bytes gives. pwrite and pread copy into
//! the device's buffer and out of it, by DMA.

use super::driver::{Access, Answer, Driver, poll};
use super::granted::{DmaPage, Granted};
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::errno;
use hanare_hal::mmio::Registers;
use hanare_hal::usercopy;
use spin::Once;

/// Registers.
const IDENTITY: u64 = 0x00;
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const DMA_FROM: u64 = 0x80;
const DMA_TO: u64 = 0x88;
const DMA_BYTES: u64 = 0x90;
const DMA_COMMAND: u64 = 0x98;

const COMPUTES: u32 = 1;
const DMA_START: u64 = 1;
const DMA_TO_MEMORY: u64 = 2;
/// The device's buffer: its address for DMA, and bytes.
const BUFFER: u64 = 0x4_0000;
const BUFFER_BYTES: usize = 4096;
/// Addresses for DMA below are in reach, unless QEMU was told otherwise.
const REACH: u64 = 1 << 28;
/// Longest that the device takes, ns (a copy takes 100 ms): less than Linux' driver waits.
const PATIENCE_NS: u64 = 400_000_000;
/// How long a call waits for others, ns, before Linux has it.
const OTHERS_NS: u64 = 5_000_000_000;

/// The driver.
pub struct Edu {
    parts: Once<(&'static Granted, DmaPage)>,
    /// A thread uses the device, which does one thing at a time; or it has not finished, and is
    /// never used again.
    is_busy: AtomicBool,
}

impl Edu {
    /// Without a device.
    pub const fn new() -> Edu {
        Edu { parts: Once::new(), is_busy: AtomicBool::new(false) }
    }

    /// Has the device do something for one thread at a time. `None`: it did not finish.
    fn alone(&self, does: impl FnOnce(Registers<'_>, &DmaPage) -> Option<i64>) -> Answer {
        let Some((granted, page)) = self.parts.get() else { return Answer::Linux };
        while self.is_busy.swap(true, Ordering::Acquire) {
            if !poll(|| !self.is_busy.load(Ordering::Relaxed), OTHERS_NS) {
                return Answer::Linux;
            }
        }
        let used = granted.begin_use();
        let registers = used.as_ref().and_then(|used| used.registers(0));
        let done = registers.map(|registers| does(registers, page));
        drop(used);
        if done != Some(None) {
            self.is_busy.store(false, Ordering::Release);
        }
        done.map_or(Answer::Linux, |done| Answer::Done(done.unwrap_or(errno::EIO.as_return())))
    }

    /// Copies between a buffer and the device's, from `offset` on.
    fn transfer(&self, copy: &mut [u8], offset: u64, is_read: bool) -> Answer {
        self.alone(|registers, page| {
            page.write(copy); // what is read, too: no other call's is left there
            let (here, there) = (page.address, BUFFER + offset);
            let (from, to) = if is_read { (there, here) } else { (here, there) };
            registers.write64(DMA_FROM, from);
            registers.write64(DMA_TO, to);
            registers.write64(DMA_BYTES, copy.len() as u64);
            registers.write64(DMA_COMMAND, DMA_START | if is_read { DMA_TO_MEMORY } else { 0 });
            if !poll(|| registers.read64(DMA_COMMAND) & DMA_START == 0, PATIENCE_NS) {
                return None;
            }
            page.read(copy);
            Some(copy.len() as i64)
        })
    }
}

impl Driver for Edu {
    fn name(&self) -> &'static str {
        "edu"
    }

    fn begin(&self, granted: &'static Granted) -> Result<(), &'static str> {
        let used = granted.begin_use().ok_or("Linux' driver has let go of it")?;
        let registers = used.registers(0).ok_or("it has no registers")?;
        if registers.size() <= DMA_COMMAND || registers.read32(IDENTITY) & 0xffff != 0xed {
            return Err("it is no teaching device of QEMU's");
        }
        let page = DmaPage::new(granted).ok_or("there is no memory")?;
        if !page.is_translated() && page.address >= REACH {
            return Err("without an IOMMU it may not reach the memory");
        }
        self.parts.call_once(|| (granted, page));
        Ok(())
    }

    fn write(&self, access: &Access<'_>) -> Answer {
        let offset = access.offset.unwrap_or(0).min(BUFFER_BYTES as u64);
        let room = if access.offset.is_none() { 4 } else { BUFFER_BYTES as u64 - offset };
        let mut copy = [0; BUFFER_BYTES];
        let copy = &mut copy[..access.bytes.min(room) as usize];
        if usercopy::read(access.buffer, copy).is_err() {
            return Answer::Done(errno::EFAULT.as_return());
        }
        match (access.offset, &*copy) {
            (Some(_), []) => Answer::Done(0),
            (Some(_), _) => self.transfer(copy, offset, false),
            (None, &[a, b, c, d]) if access.bytes == 4 => self.alone(|registers, _| {
                registers.write32(FACTORIAL, u32::from_le_bytes([a, b, c, d]));
                poll(|| registers.read32(STATUS) & COMPUTES == 0, PATIENCE_NS).then_some(4)
            }),
            _ => Answer::Linux,
        }
    }

    fn read(&self, access: &Access<'_>) -> Answer {
        let mut copy = [0; BUFFER_BYTES];
        let (answer, copy) = match access.offset {
            Some(offset) => {
                let room = (BUFFER_BYTES as u64).saturating_sub(offset);
                let copy = &mut copy[..access.bytes.min(room) as usize];
                let is_some = !copy.is_empty();
                (if is_some { self.transfer(copy, offset, true) } else { Answer::Done(0) }, copy)
            }
            None if access.bytes == 4 => {
                let copy = &mut copy[..4];
                let answer = self.alone(|registers, _| {
                    copy.copy_from_slice(&registers.read32(FACTORIAL).to_le_bytes());
                    Some(4)
                });
                (answer, copy)
            }
            None => return Answer::Linux,
        };
        match answer {
            Answer::Done(1..) if usercopy::write(access.buffer, copy).is_err() => {
                Answer::Done(errno::EFAULT.as_return())
            }
            answer => answer,
        }
    }
}
