//! Parts of devices that drivers may touch: registers, and memory by DMA.

use crate::base::{frames, heap, lists};
use crate::link::services;
use crate::process::thread::Thread;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{Ordering, compiler_fence};
use hanare_abi::grant::{DMA_PIECE, GRANT_NAME_BYTES, GRANT_REGIONS, GrantQueues};
use hanare_abi::service::SERVICE_QUEUE;
use hanare_core::claims::Device;
use hanare_core::errno::Result;
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::addr::PhysAddr;
use hanare_hal::mmio::{Region, Registers};
use hanare_hal::paging::SMALL;
use hanare_hal::shared::Queue;
use hanare_hal::{memory, shared};
use hanare_ikc::{Begun, GrantRef};

/// Zero-terminated name of a driver.
pub type GrantName = [u8; GRANT_NAME_BYTES];

/// Part of a device, for as long as Linux' driver has it.
pub struct Granted {
    number: u32,
    /// The device's file.
    pub device: Device,
    pieces: PiecesBefore,
    dma: &'static [u64],
    state: GrantRef<'static>,
    regions: [Option<Region>; GRANT_REGIONS],
}

/// Pieces of memory in the chunks below each chunk. Chunks are in ascending order, and of whole
/// pieces.
struct PiecesBefore(Vec<usize>);

impl PiecesBefore {
    fn new() -> Result<PiecesBefore> {
        let mut before = heap::with_room(shared::chunks().len())?;
        let mut pieces = 0;
        for chunk in shared::chunks() {
            lists::push_within(&mut before, pieces);
            pieces += (chunk.size / DMA_PIECE) as usize;
        }
        Ok(PiecesBefore(before))
    }

    /// Number of the piece that has a frame.
    fn of(&self, frame: PhysAddr) -> usize {
        let chunks = shared::chunks();
        let behind = chunks.partition_point(|chunk| chunk.addresses().start <= frame.0);
        let chunk = behind.checked_sub(1).filter(|&i| chunks[i].addresses().contains(&frame.0));
        let number = chunk.expect("memory of the instance");
        self.0[number] + ((frame.0 - chunks[number].addresses().start) / DMA_PIECE) as usize
    }
}

impl Granted {
    /// The grants of this instance, each with the name of its driver.
    ///
    /// # Errors
    /// `ENOMEM`
    pub fn all() -> Result<Vec<(Granted, GrantName)>> {
        let count = shared::params().grant_count;
        let mut all = heap::with_room(count as usize)?;
        for number in 0..count {
            let said = shared::grant_description(number);
            let device = Device { number: said.device, is_block: said.is_block != 0 };
            let pieces = PiecesBefore::new()?;
            let dma = shared::dma_addresses(number);
            let state = shared::grant(number);
            let regions = core::array::from_fn(|region| Region::of(number, region));
            let granted = Granted { number, device, pieces, dma, state, regions };
            lists::push_within(&mut all, (granted, said.driver));
        }
        Ok(all)
    }

    /// The address that the device has for memory of the instance.
    ///
    /// # Panics
    /// If the memory is not the instance's.
    pub fn address_of(&self, frame: PhysAddr) -> u64 {
        self.dma[self.pieces.of(frame)] + frame.0 % DMA_PIECE
    }

    /// 1 + its number if it has queues, whose namespaces programs have; or 0.
    pub fn namespaces_of(&self) -> u64 {
        let has_queues = shared::grant_description(self.number).queues.offset != 0;
        if has_queues { 1 + u64::from(self.number) } else { 0 }
    }

    /// Description of its queues by the module. `None`: it has none.
    pub fn queues(&self) -> Option<GrantQueues> {
        let queues = shared::grant_description(self.number).queues;
        (queues.offset != 0).then_some(queues)
    }

    /// The queues of a CPU.
    ///
    /// # Panics
    /// If the device has no queues.
    pub fn queue(&self, cpu: usize) -> Queue {
        shared::queue(self.number, cpu)
    }

    /// Has the module give up the queues of a CPU, and make new ones: some time later there is
    /// another round. `round`: the ones that are meant.
    pub fn renew(&self, me: &Thread, cpu: usize, round: u32) {
        let args = [self.number.into(), cpu as u64, round.into()];
        // If there is no entry for it now it is asked for again.
        services::post(SERVICE_QUEUE, me.process.memory().owner(), &args, &[]);
    }

    /// Number of the device.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Begins a use of the device, which the end of Linux' driver waits for. `None`: it is gone.
    #[inline(always)]
    pub fn begin_use(&self) -> Option<Use<'_>> {
        let begun = self.state.begin(shared::here().uses(self.number))?;
        Some(Use(self, begun))
    }
}

/// A use of a granted device. It ends on whichever CPU it is dropped. Linux' driver waits for that
/// for a second at most: so a use waits for the device, and never for a program's memory, a lock of
/// long calls, or Linux.
pub struct Use<'a>(&'a Granted, Begun);

impl Use<'_> {
    /// Registers of the device: those of a region, as PCI numbers these. `None`: it has none there.
    #[inline(always)]
    pub fn registers(&self, region: usize) -> Option<Registers<'_>> {
        Some(self.0.regions[region]?.registers(self))
    }

    /// Ends it, as its drop, on the spot.
    #[inline(always)]
    pub fn end(self) {
        self.over();
        core::mem::forget(self);
    }

    #[inline(always)]
    fn over(&self) {
        shared::here().uses(self.0.number).end(&self.1);
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.over();
    }
}

/// A page of the kernel's for DMA, for good.
pub struct DmaPage {
    frame: PhysAddr,
    /// Address that the device has for it.
    pub address: u64,
}

impl DmaPage {
    /// A page of zeros. `None`: no memory.
    pub fn new(granted: &Granted) -> Option<DmaPage> {
        let frame = frames::alloc_zeroed(FrameOwner::kernel(Subject::Drivers))?;
        Some(DmaPage { frame, address: granted.address_of(frame) })
    }

    /// Whether the device has its own address for it, by an IOMMU.
    pub fn is_translated(&self) -> bool {
        self.address != self.frame.0
    }

    /// Writes the word with a number. The device is told of it later.
    ///
    /// # Panics
    /// Behind its end.
    pub fn set(&self, number: usize, value: u64) {
        assert!(number < SMALL as usize / 8);
        memory::write(self.frame + number as u64 * 8, &value.to_le_bytes());
    }

    /// Copies out of it, from its start on.
    pub fn read(&self, to: &mut [u8]) {
        assert!(to.len() <= SMALL as usize);
        compiler_fence(Ordering::SeqCst); // after what a register has said
        memory::read(self.frame, to);
    }

    /// Copies into it.
    pub fn write(&self, from: &[u8]) {
        assert!(from.len() <= SMALL as usize);
        memory::write(self.frame, from);
        compiler_fence(Ordering::SeqCst); // before a register is told
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grant {} of {:?}", self.number, self.device)
    }
}
