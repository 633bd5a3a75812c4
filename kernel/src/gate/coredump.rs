//! Core dumps, which Linux writes: the proxy is made to look like the program, with
//! the program's memory mapped piece by piece, and each worker with its thread's
//! registers (`module/space/dump.c`); then the signal is Linux' to deal with.

use crate::base::lists;
use crate::gate::{fatal, ptrace};
use crate::link::delegate;
use crate::mm::map::cursor::Pages;
use crate::mm::pages::entry::is_owned;
use crate::mm::{AddressSpace, FileRef};
use crate::process::thread::Thread;
use crate::process::{self, Process, servers};
use crate::sched::cpus;
use alloc::vec::Vec;
use hanare_abi::control::{Control, DumpKind};
use hanare_abi::ioctl::DumpThread;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::errno::{self, Result};
use hanare_core::life::Refused;
use hanare_core::link::Outcome;
use hanare_core::signal::{self, QueuedSignal};
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::cpu;
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::Regs;
use zerocopy::{IntoBytes, transmute};

/// Pages of anonymous memory that were never touched are dumped where they lie between
/// others and are no more than this.
const GAP_PAGES: u64 = 16;
/// Linux' own limit of mappings (vm.max_map_count) less some.
const RANGES_MAX: usize = 60_000;
/// How long the other threads may take to come by, ns.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Offset of FPU state behind a [`DumpThread`], see `Control::DumpThread`.
const FPU_AT: usize = 512;
const FXSAVE: usize = 512;

/// The process ends by a signal whose default action is a core dump.
pub fn die(thread: &Thread, queued: &QueuedSignal, regs: &Regs) {
    let p = &thread.process;
    match p.begin_dump(thread) {
        Err(Refused::MustEnd) => process::end_thread(thread),
        Err(Refused::Busy | Refused::Not) => return dump_thread(thread, regs, None),
        Ok(()) => {}
    }
    ptrace::on_exit(thread, queued.signal | 0x80);
    if delegate::ask(thread, Control::Dump) == Outcome::Done(1) && gather(p, thread) {
        servers::end_all(thread); // a dump shows the program's threads
        let ranges = ranges(&mut p.memory().mm.lock()); // which is given back before Linux is asked
        if let Ok(ranges) = ranges {
            for (start, end, kind) in ranges {
                let _ = delegate::ask(thread, Control::DumpRange { start, end, kind });
            }
            dump_thread(thread, regs, Some(queued));
        }
    }
    fatal::die(thread, queued.signal);
}

/// Before user mode, while another thread makes a dump.
pub fn join(thread: &Thread, regs: &Regs) {
    dump_thread(thread, regs, None);
}

/// Has the other threads come by and park.
fn gather(p: &Process, me: &Thread) -> bool {
    if p.thread_count() > 1 {
        p.kick_all();
        for other in p.threads().filter(|t| !core::ptr::eq(&**t, me)) {
            let _ = delegate::ask(me, Control::Interrupt { tid: other.tid() });
        }
        cpus::until(|| p.parked().1 || me.must_end(), cpus::deadline(PATIENCE_NS));
    }
    !me.must_end()
}

/// The running thread's worker takes on its registers, to be dumped with them. Does not come
/// back, unless Linux made no dump of it.
fn dump_thread(thread: &Thread, regs: &Regs, queued: Option<&QueuedSignal>) {
    let p = &thread.process;
    let words: [u64; size_of::<Regs>() / 8] = transmute!(*regs);
    let mut fpu = FpuState::new();
    fpu.save();
    let others = if queued.is_some() { p.parked().0 } else { 0 };
    let mut page = [0; FPU_AT + FXSAVE];
    let mut end = 0;
    for part in [
        [queued.map_or(0, |q| q.signal), others].as_bytes(),
        words[..15].as_bytes(), // to rdi
        [regs.rip, regs.rflags, regs.rsp].as_bytes(),
        queued.map_or(signal::SigInfo::default(), |q| q.info).as_bytes(),
        [cpu::fs_base(), cpu::user_gs_base()].as_bytes(),
    ] {
        page[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    assert!(end == size_of::<DumpThread>() + 2 * size_of::<u64>());
    page[FPU_AT..].copy_from_slice(&fpu.bytes()[..FXSAVE]);
    let Ok(at) = thread.write_scratch(&page) else { return };
    if queued.is_none() && !p.park(thread) {
        return;
    }
    process::end_by_request(
        thread,
        Control::DumpThread { at, signal: queued.map_or(0, |q| q.signal) },
    );
}

/// Ranges that the proxy has to map for a core dump: start, end, kind. How many there are depends
/// on the program.
#[derive(Default)]
struct Ranges {
    all: Vec<(u64, u64, DumpKind)>,
    /// There was no memory for one of them.
    is_cut: bool,
}

impl Ranges {
    fn push(&mut self, range: (u64, u64, DumpKind)) {
        self.is_cut = self.is_cut || lists::push(&mut self.all, range).is_err();
    }
}

/// Lists the ranges that the proxy has to map for a core dump. `ENOMEM`: there is no dump then.
fn ranges(mm: &mut AddressSpace) -> Result<Vec<(u64, u64, DumpKind)>> {
    let mut all = Ranges::default();
    let mut at = USER_MIN;
    let (map, _, mut pages) = mm.view();
    let linux = map.iter().filter(|v| matches!(v.backing, Backing::SharedLinux { .. }));
    for v in linux {
        if v.start > at {
            all.push((at, v.start, DumpKind::Nothing));
        }
        all.push((v.start, v.end, DumpKind::Linux));
        at = v.end;
    }
    if at < USER_MAX {
        all.push((at, USER_MAX, DumpKind::Nothing));
    }
    for v in map.iter().filter(|v| !v.flags.contains(VmaFlags::DONTDUMP)) {
        let gap = match v.backing {
            Backing::SharedLinux { .. } => continue,
            Backing::Anonymous => GAP_PAGES * 4096,
            // A debugger has the code from the file.
            Backing::PrivateFile { .. } if v.prot.contains(Prot::EXEC) => continue,
            _ => 0,
        };
        add_runs(&mut pages, v, gap, &mut all);
        if all.is_cut || all.all.len() > RANGES_MAX {
            break;
        }
    }
    if all.is_cut { Err(errno::ENOMEM) } else { Ok(all.all) }
}

/// The runs of pages of `v` that are there.
fn add_runs(pages: &mut Pages<'_>, v: &Vma<FileRef>, gap: u64, all: &mut Ranges) {
    let kind = if v.prot.contains(Prot::WRITE) { DumpKind::Write } else { DumpKind::Read };
    let mut run: Option<(u64, u64)> = None;
    pages.each(v.range(), |leaf| {
        let (start, end) = (leaf.addr.max(v.start), (leaf.addr + leaf.size).min(v.end));
        run = match run {
            _ if !is_owned(leaf.entry) => run,
            Some((a, b)) if start <= b + gap => Some((a, end)),
            Some((a, b)) => {
                all.push((a, b, kind));
                Some((start, end))
            }
            None => Some((start, end)),
        };
    });
    if let Some((a, b)) = run {
        all.push((a, b, kind));
    }
}
