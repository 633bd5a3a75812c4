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
const BUFFER_BYTES: u64 = 4096;
/// Longest that the device takes, ns; an emulator is slow.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The driver.
pub struct Edu {
    parts: Once<Parts>,
    /// A thread uses the device, which does one thing at a time.
    is_busy: AtomicBool,
}

struct Parts {
    registers: Registers,
    page: DmaPage,
}

impl Edu {
    /// Without a device.
    pub const fn new() -> Edu {
        Edu { parts: Once::new(), is_busy: AtomicBool::new(false) }
    }

    /// Does something with the device, alone. What takes too long is Linux'.
    fn alone(&self, does: impl FnOnce(&Parts) -> Option<i64>) -> Answer {
        let free = || !self.is_busy.load(Ordering::Relaxed);
        let take = || !self.is_busy.swap(true, Ordering::Acquire);
        let Some(parts) = self.parts.get().filter(|_| poll(free, PATIENCE_NS) && take()) else {
            return Answer::Linux;
        };
        let done = does(parts);
        self.is_busy.store(false, Ordering::Release);
        done.map_or(Answer::Linux, Answer::Done)
    }

    fn transfer(&self, access: &Access, offset: u64, is_read: bool) -> Answer {
        let bytes = access.bytes.min(BUFFER_BYTES.saturating_sub(offset)) as usize;
        let (mut copy, place) = ([0; BUFFER_BYTES as usize], BUFFER + offset);
        if bytes == 0 {
            return Answer::Done(0);
        }
        if !is_read && usercopy::read(access.buffer, &mut copy[..bytes]).is_err() {
            return Answer::Done(errno::EFAULT.as_return());
        }
        self.alone(|Parts { registers, page }| {
            page.write(&copy[..bytes]);
            let (from, to) = if is_read { (place, page.address) } else { (page.address, place) };
            registers.write64(DMA_FROM, from);
            registers.write64(DMA_TO, to);
            registers.write64(DMA_BYTES, bytes as u64);
            registers.write64(DMA_COMMAND, DMA_START | if is_read { DMA_TO_MEMORY } else { 0 });
            if !poll(|| registers.read64(DMA_COMMAND) & DMA_START == 0, PATIENCE_NS) {
                return None;
            }
            page.read(&mut copy[..bytes]);
            let put = is_read && usercopy::write(access.buffer, &copy[..bytes]).is_err();
            Some(if put { errno::EFAULT.as_return() } else { bytes as i64 })
        })
    }
}

impl Driver for Edu {
    fn name(&self) -> &'static str {
        "edu"
    }

    fn begin(&self, granted: &'static Granted) -> Result<(), &'static str> {
        let registers = granted.registers(0).ok_or("it has no registers")?;
        if registers.size() <= DMA_COMMAND || registers.read32(IDENTITY) & 0xffff != 0xed {
            return Err("it is no teaching device of QEMU's");
        }
        let page = DmaPage::new(granted).ok_or("there is no memory")?;
        self.parts.call_once(|| Parts { registers, page });
        Ok(())
    }

    fn write(&self, access: &Access) -> Answer {
        if let Some(offset) = access.offset {
            return self.transfer(access, offset, false);
        }
        let mut number = [0; 4];
        if access.bytes != 4 {
            return Answer::Linux;
        }
        if usercopy::read(access.buffer, &mut number).is_err() {
            return Answer::Done(errno::EFAULT.as_return());
        }
        self.alone(|Parts { registers, .. }| {
            registers.write32(FACTORIAL, u32::from_le_bytes(number));
            poll(|| registers.read32(STATUS) & COMPUTES == 0, PATIENCE_NS).then_some(4)
        })
    }

    fn read(&self, access: &Access) -> Answer {
        if let Some(offset) = access.offset {
            return self.transfer(access, offset, true);
        }
        if access.bytes != 4 {
            return Answer::Linux;
        }
        self.alone(|Parts { registers, .. }| {
            let result = registers.read32(FACTORIAL).to_le_bytes();
            let put = usercopy::write(access.buffer, &result);
            Some(put.map_or(errno::EFAULT.as_return(), |()| 4))
        })
    }
}
