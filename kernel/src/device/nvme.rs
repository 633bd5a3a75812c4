//! NVMe: reads and writes of namespaces with O_DIRECT, by queues of the LWK's own on the controller
//! that Linux' driver goes on using (`docs/nvme.md`).
//!
//! Each CPU has a pair of queues. A command is given to that of the CPU on which the call is made,
//! and its answer is taken in by whoever looks. A command without an answer is over when the module
//! has had the queues deleted. Its call waits for that, and so do the pages that it names.

use super::driver::{Access, Answer, Driver, Looks, doze};
use super::granted::{DmaPage, Granted};
use crate::base::lock::{Mutex, MutexGuard, rank};
use crate::base::{heap, lists};
use crate::mm::fault::transfer::Transfer;
use crate::parts::claims::{Claim, Part};
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_core::nvme::{self, Blocks, Command, Data, End, Pair, Said, Ticket};
use hanare_hal::shared::Queue;
use hanare_hal::{cpu, percpu, shared};
use linux_raw_sys::general::{O_DIRECT, O_DSYNC, RWF_DSYNC, RWF_SYNC};
use spin::Once;

/// First doorbell in the registers.
const DOORBELLS: u64 = 0x1000;
/// Bytes to which memory has to be aligned.
const ALIGNMENT: u64 = 4;
/// Logarithm of the bytes of a sector, as Linux counts them.
const SECTOR_SHIFT: u32 = 9;
/// Most bytes of a command, whatever the controller takes: a list of pages is one page.
const BYTES_MAX: u64 = nvme::LIST_ENTRIES as u64 * nvme::PAGE;
/// Most bytes of a call, as Linux has it.
const CALL_MAX: u64 = 0x7fff_f000;
/// How long a command may take, ns, before the module is asked to delete its queue.
const PATIENCE_NS: u64 = 500_000_000;
/// How often a command is tried whose pages have to be brought in first: they may go again.
const LOOKS: u32 = 4;
/// Time from one question to the module to the next, ns.
const PAUSE_NS: u64 = 400_000_000;

/// The driver.
pub struct Nvme(Once<Controller>);

struct Controller {
    granted: &'static Granted,
    /// Bytes from one doorbell to the next.
    stride: u64,
    /// Most bytes of a command.
    bytes_max: u64,
    /// Most bytes of a command that has no list of pages, if it begins with a page.
    bytes_few: u64,
    /// Queues of each CPU.
    queues: Vec<OfCpu>,
}

/// The queues of a CPU.
struct OfCpu {
    cpu: usize,
    queue: Queue,
    state: Mutex<State, rank::DeviceQueue>,
    /// A page for each number of a command: addresses of its memory.
    lists: Vec<DmaPage>,
    /// TSC from which on the module may be asked for new queues.
    may_ask: AtomicU64,
}

struct State {
    pair: Pair,
    /// Number by which the controller knows it. 0: there is none, or the module was asked to delete
    /// it, and nobody touches it until there is another one.
    id: u32,
}

/// Access by one command.
#[derive(Clone, Copy)]
struct Piece {
    /// First byte of memory.
    start: u64,
    bytes: u64,
    kind: nvme::Access,
    blocks: Blocks,
}

/// The lock of a CPU's queues.
type Locked<'a> = MutexGuard<'a, State, rank::DeviceQueue>;

impl Nvme {
    /// Without a controller.
    pub const fn new() -> Nvme {
        Nvme(Once::new())
    }
}

impl OfCpu {
    fn new(granted: &'static Granted, cpu: usize) -> Result<OfCpu, &'static str> {
        let mut pages =
            heap::with_room(nvme::UNDER_WAY.into()).map_err(|_| "there is no memory")?;
        for _ in 0..nvme::UNDER_WAY {
            let page = DmaPage::new(granted).ok_or("there is no memory")?;
            lists::push_within(&mut pages, page);
        }
        let queue = granted.queue(cpu);
        let state = State { pair: Pair::new(queue.state.round()), id: queue.state.id() };
        Ok(OfCpu { cpu, queue, state: Mutex::new(state), lists: pages, may_ask: AtomicU64::new(0) })
    }
}

impl Controller {
    fn new(granted: &'static Granted) -> Result<Controller, &'static str> {
        let said = granted.queues().ok_or("it has no queues for the LWK")?;
        let count = shared::params().cpu_count as usize;
        let mut queues = heap::with_room(count).map_err(|_| "there is no memory")?;
        let stride = u64::from(said.doorbell_stride);
        let used = granted.begin_use().ok_or("Linux' driver has let go of it")?;
        let registers = used.registers(0).ok_or("it has no registers")?;
        for cpu in 0..count {
            let of_cpu = OfCpu::new(granted, cpu)?;
            let last = 2 * u64::from(of_cpu.queue.state.id()) + 1;
            if DOORBELLS + (last + 1) * stride > registers.size() {
                return Err("its registers are too few");
            }
            lists::push_within(&mut queues, of_cpu);
        }
        let most = u64::from(said.transfer_max);
        let bytes_max = if most == 0 { BYTES_MAX } else { most.min(BYTES_MAX) };
        let bytes_few = bytes_max.min(Data::WITHOUT_LIST * nvme::PAGE);
        Ok(Controller { granted, stride, bytes_max, bytes_few, queues })
    }

    /// Tells the controller where a queue goes on. `is_answers`: that of the answers.
    /// If the device is gone nobody is told: all commands are over.
    #[inline(always)]
    fn tell(&self, id: u32, is_answers: bool, place: u16) {
        let Some(used) = self.granted.begin_use() else { return };
        let number = 2 * u64::from(id) + u64::from(is_answers);
        if let Some(registers) = used.registers(0) {
            registers.write32(DOORBELLS + number * self.stride, place.into());
        }
        used.end();
    }

    /// Goes on with new queues, if the module has made some.
    #[inline(always)]
    fn follow(of_cpu: &OfCpu, state: &mut State) {
        let round = of_cpu.queue.state.round();
        if round != state.pair.round() {
            state.pair.follow(round);
            state.id = of_cpu.queue.state.id();
        }
    }

    /// The queues of the calling CPU, where a command can be given to them.
    #[inline(always)]
    fn open<'a>(&'a self, me: &Thread) -> Option<(&'a OfCpu, Locked<'a>)> {
        let of_cpu = &self.queues[percpu::index()];
        let mut state = of_cpu.state.lock();
        Self::follow(of_cpu, &mut state);
        if state.id == 0 {
            let round = state.pair.round();
            drop(state);
            self.ask_for_queues(me, of_cpu, round);
            return None;
        }
        Some((of_cpu, state))
    }

    /// A number for a command of the running thread `me`. `None`: its user has enough commands
    /// under way on this CPU.
    #[inline(always)]
    fn number(me: &Thread, state: &mut State) -> Option<Ticket> {
        state.pair.take().or_else(|| Self::spare_number(me, state))
    }

    #[cold]
    fn spare_number(me: &Thread, state: &mut State) -> Option<Ticket> {
        state.pair.take_spare(me.process.memory().user)
    }

    /// Takes a number for a command. `None`: it cannot be given one now.
    fn take(&self, me: &Thread) -> Option<(&OfCpu, Ticket)> {
        let (of_cpu, mut state) = self.open(me)?;
        let ticket = Self::number(me, &mut state)?;
        drop(state);
        Some((of_cpu, ticket))
    }

    /// Gives a command with a number to the controller. False: it has not got it.
    fn give(&self, of_cpu: &OfCpu, ticket: Ticket, command: Command) -> bool {
        let mut state = of_cpu.state.lock();
        Self::follow(of_cpu, &mut state);
        if state.id == 0 || state.pair.has_ended(ticket) {
            state.pair.give_back(ticket);
            return false; // the queues are going, or gone
        }
        self.put(of_cpu, &mut state, ticket, command);
        true
    }

    #[inline(always)]
    fn put(&self, of_cpu: &OfCpu, state: &mut State, ticket: Ticket, command: Command) {
        of_cpu.queue.put(state.pair.place(), command.numbered(ticket.number).0);
        let place = state.pair.begin();
        self.tell(state.id, false, place);
    }

    /// Has the controller execute a command, for the running thread `me`. Whether it has done it.
    #[inline(always)]
    fn execute(&self, me: &Thread, command: Command) -> bool {
        let Some((of_cpu, mut state)) = self.open(me) else { return false };
        let Some(ticket) = Self::number(me, &mut state) else { return false };
        self.put(of_cpu, &mut state, ticket, command);
        drop(state);
        self.end(me, of_cpu, ticket) == End::Done
    }

    /// Takes in what the controller has answered.
    fn take_in(&self, of_cpu: &OfCpu, state: &mut State) {
        while state.pair.answer(Said(of_cpu.queue.answer(state.pair.next_answer()))) {
            self.tell_of_answers(state);
        }
    }

    #[inline(always)]
    fn tell_of_answers(&self, state: &mut State) {
        if let Some(place) = state.pair.told() {
            self.tell_late(state.id, place);
        }
    }

    #[inline(never)] // one of sixteen
    fn tell_late(&self, id: u32, place: u16) {
        self.tell(id, true, place);
    }

    /// Whether a command has ended.
    fn has_ended(&self, of_cpu: &OfCpu, ticket: Ticket) -> bool {
        let Some(mut state) = of_cpu.state.try_lock() else { return false };
        self.take_in_for(of_cpu, &mut state, ticket);
        state.pair.has_ended(ticket)
    }

    /// How a command has ended, whose number is free then. `None`: it has not, as far as is seen.
    #[inline(always)]
    fn end_seen(&self, of_cpu: &OfCpu, ticket: Ticket) -> Option<End> {
        let mut state = of_cpu.state.try_lock()?;
        Self::follow(of_cpu, &mut state);
        if state.id != 0 {
            let said = Said(of_cpu.queue.answer(state.pair.next_answer()));
            if let Some(end) = state.pair.end_by(said, ticket) {
                self.tell_of_answers(&mut state);
                return Some(end);
            }
            if !state.pair.is_new(said) && !state.pair.has_ended(ticket) {
                return None;
            }
        }
        self.take_in_for(of_cpu, &mut state, ticket);
        state.pair.end(ticket)
    }

    /// Takes in what the controller has answered, if a command has not ended.
    #[inline(never)] // answers of others, too
    fn take_in_for(&self, of_cpu: &OfCpu, state: &mut State, ticket: Ticket) {
        Self::follow(of_cpu, state);
        if state.id != 0 && !state.pair.has_ended(ticket) {
            self.take_in(of_cpu, state);
        }
    }

    /// Waits for the end of a command of the running thread `me`: whatever becomes of that, since
    /// until then the controller may touch memory.
    #[inline(always)]
    fn end(&self, me: &Thread, of_cpu: &OfCpu, ticket: Ticket) -> End {
        let mut looks = Looks::new();
        loop {
            if let Some(end) = self.end_seen(of_cpu, ticket) {
                return end;
            }
            if !looks.again() {
                return self.late_end(me, of_cpu, ticket);
            }
        }
    }

    #[cold]
    fn late_end(&self, me: &Thread, of_cpu: &OfCpu, ticket: Ticket) -> End {
        loop {
            let end = cpus::deadline(PATIENCE_NS);
            let _ = doze(|| self.has_ended(of_cpu, ticket), end);
            if let Some(end) = of_cpu.state.lock().pair.end(ticket) {
                return end;
            }
            if let Some(round) = self.close(of_cpu, ticket) {
                self.ask_for_queues(me, of_cpu, round);
            }
        }
    }

    /// Uses queues no more that have not answered a command. Which pair that was; `None`: it has
    /// ended meanwhile.
    fn close(&self, of_cpu: &OfCpu, ticket: Ticket) -> Option<u32> {
        let mut state = of_cpu.state.lock();
        self.take_in_for(of_cpu, &mut state, ticket);
        if state.pair.has_ended(ticket) {
            return None;
        }
        state.id = 0;
        Some(state.pair.round())
    }

    /// Asks the module for new queues in place of a pair that is used no more; now and then, since
    /// Linux may be resetting the controller. If there are others by now it makes none.
    #[cold]
    fn ask_for_queues(&self, me: &Thread, of_cpu: &OfCpu, round: u32) {
        let (now, next) = (cpu::rdtsc(), cpus::deadline(PAUSE_NS));
        let may_ask = of_cpu.may_ask.load(Ordering::Relaxed);
        let is_first = || {
            of_cpu
                .may_ask
                .compare_exchange(may_ask, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if now >= may_ask && self.granted.begin_use().is_some() && is_first() {
            self.granted.renew(me, of_cpu.cpu, round);
        }
    }

    /// Whether a command can name the memory by itself.
    #[inline(always)]
    fn is_few(&self, start: u64, bytes: u64) -> bool {
        start % nvme::PAGE + bytes <= self.bytes_few
    }

    /// Makes an access of more pages than a command names by itself, or by several commands. False:
    /// it was not done, or not all of it. Before each command the part is looked at again.
    #[inline(never)]
    fn access_many(&self, access: &Access<'_>, part: &Part, kind: nvme::Access) -> bool {
        let (me, Some(offset)) = (access.thread, access.offset) else { return false };
        let mut done = 0;
        if access.bytes > CALL_MAX {
            return false;
        }
        while done < access.bytes {
            let bytes = (access.bytes - done).min(self.bytes_max);
            let is_open = kind == nvme::Access::Read || part.may_be_written();
            let Some(blocks) = part.blocks(offset + done, bytes).filter(|_| is_open) else {
                return false;
            };
            let piece = Piece { start: access.buffer.get() + done, bytes, kind, blocks };
            let is_done = match self.is_few(piece.start, bytes) {
                true => self.access_few(me, piece),
                false => self.access_by_list(me, piece),
            };
            if !is_done {
                return false;
            }
            done += bytes;
        }
        true
    }

    /// Makes an access by one command, which names the pages by itself. False: it was not done.
    #[inline(always)]
    fn access_few(&self, me: &Thread, piece: Piece) -> bool {
        let Piece { start, bytes, .. } = piece;
        let to = (self.granted.number(), piece.kind == nvme::Access::Read);
        let address = |page| self.granted.address_of(page);
        let Some((transfer, pages)) = Transfer::of_few(me, start, bytes, to, address) else {
            return false;
        };
        let data = [pages[0] + start % nvme::PAGE, pages[1]];
        let is_done = self.execute(me, Command::access(piece.kind, piece.blocks, data));
        transfer.end();
        is_done
    }

    /// Makes an access by one command, which has a list of the pages.
    fn access_by_list(&self, me: &Thread, piece: Piece) -> bool {
        for _ in 0..LOOKS {
            let Some((of_cpu, ticket)) = self.take(me) else { return false };
            let list = &of_cpu.lists[usize::from(ticket.number)];
            let mut data = Data::NONE;
            if let Some(_transfer) = self.lend(me, piece, &mut data, list) {
                let command = Command::access(piece.kind, piece.blocks, data.words(list.address));
                return self.give(of_cpu, ticket, command)
                    && self.end(me, of_cpu, ticket) == End::Done;
            }
            of_cpu.state.lock().pair.give_back(ticket);
            // Pages are to be brought in, which may take long; numbers are few.
            let Piece { start, bytes, kind, .. } = piece;
            if Transfer::begin(me, start, bytes, kind == nvme::Access::Read, |_, _| true).is_none()
            {
                return false;
            }
        }
        false
    }

    /// Begins a transfer of memory whose pages are there. They are named by `data` and `list` then.
    fn lend<'a>(
        &self,
        me: &'a Thread,
        piece: Piece,
        data: &mut Data,
        list: &DmaPage,
    ) -> Option<Transfer<'a>> {
        let Piece { start, bytes, .. } = piece;
        let is_written = piece.kind == nvme::Access::Read;
        let put = |entry, page| list.set(entry, page);
        Transfer::begin_there(me, start, bytes, is_written, |number, page| {
            let address = self.granted.address_of(page);
            if number > 0 {
                return data.add(address, put);
            }
            *data = Data::NONE;
            data.add(address + start % nvme::PAGE, put)
        })
    }

    /// Accesses a part of a device. Else it was not done, or some of it, which Linux does again.
    #[inline(always)]
    fn transfer(&self, access: &Access<'_>, part: &Part, kind: nvme::Access) -> Answer {
        let (start, bytes) = (access.buffer.get(), access.bytes);
        let Some(blocks) = blocks(access, part).filter(|_| bytes > 0) else {
            return Answer::Linux;
        };
        if part.cached.get() != 0 {
            return Answer::Linux;
        }
        let is_done = if self.is_few(start, bytes) {
            self.access_few(access.thread, Piece { start, bytes, kind, blocks })
        } else {
            self.access_many(access, part, kind)
        };
        if is_done { Answer::Done(bytes as i64) } else { Answer::Linux }
    }
}

/// The blocks that an access is about. `None`: it is not of whole ones, or not all in the part, or
/// of memory that is not aligned.
fn blocks(access: &Access<'_>, part: &Part) -> Option<Blocks> {
    let is_aligned = access.buffer.get().is_multiple_of(ALIGNMENT);
    part.blocks(access.offset?, access.bytes).filter(|_| is_aligned)
}

impl Part {
    /// Whether nobody has it for himself, and it is not read-only.
    #[inline(always)]
    fn may_be_written(&self) -> bool {
        self.forbid_writes.iter().fold(0, |all, word| all | word.get()) == 0
    }

    /// The blocks of the device at an offset of the part. `None`: they are not whole ones, or not
    /// all in the part.
    fn blocks(&self, offset: u64, bytes: u64) -> Option<Blocks> {
        let end = offset.checked_add(bytes)?;
        let mask = (1 << self.block_shift) - 1;
        let first = self.first.checked_add(offset)?;
        let is_inside = end >> SECTOR_SHIFT <= self.sectors.get()
            && first.checked_add(bytes)? >> SECTOR_SHIFT <= self.unit_sectors.get()
            && (offset | bytes) & mask == 0;
        (is_inside && first & mask == 0).then(|| Blocks {
            namespace: self.unit,
            first: first >> self.block_shift,
            count: bytes >> self.block_shift,
        })
    }
}

impl Driver for Nvme {
    fn name(&self) -> &'static str {
        "nvme"
    }

    fn begin(&self, granted: &'static Granted) -> Result<(), &'static str> {
        let controller = Controller::new(granted)?;
        self.0.call_once(|| controller);
        Ok(())
    }

    fn claims(&self, claim: &Claim) -> bool {
        claim.part.is_some() && claim.flags & O_DIRECT != 0
    }

    fn serves(&self, access: &Access<'_>) -> bool {
        access.claim.part.as_ref().is_some_and(|part| blocks(access, part).is_some())
    }

    fn read(&self, access: &Access<'_>) -> Answer {
        let Some((controller, part)) = self.0.get().zip(access.claim.part.as_ref()) else {
            return Answer::Linux;
        };
        controller.transfer(access, part, nvme::Access::Read)
    }

    fn write(&self, access: &Access<'_>) -> Answer {
        let Some((controller, part)) = self.0.get().zip(access.claim.part.as_ref()) else {
            return Answer::Linux;
        };
        if !part.may_be_written() {
            return Answer::Linux;
        }
        let lasting = access.flags & (RWF_DSYNC | RWF_SYNC) | access.claim.flags & O_DSYNC;
        let is_lasting = lasting != 0;
        let answer = controller.transfer(access, part, nvme::Access::Write { is_lasting });
        // Linux may have read the blocks meanwhile, and does not look at them again: it makes the
        // write, after which it does.
        if part.cached.get() != 0 { Answer::Linux } else { answer }
    }

    fn sync(&self, thread: &Thread, claim: &Claim) -> Answer {
        let Some((controller, part)) = self.0.get().zip(claim.part.as_ref()) else {
            return Answer::Linux;
        };
        // Linux tells each descriptor once what it could not write.
        if part.cached.get() != 0 || part.error.get() != part.error_before {
            return Answer::Linux;
        }
        match controller.execute(thread, Command::flush(part.unit)) {
            true => Answer::Done(0),
            false => Answer::Linux,
        }
    }
}
