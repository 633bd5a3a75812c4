//! Answers to `REQUEST_INFO` (`abi::info`): what Linux shows in `/proc` of LWK processes, as LWK
//! programs see it, and in `hanare ps`.

use crate::base::frames;
use crate::base::quarantine;
use crate::base::time::cycles_to_ns;
use crate::mm::change::refs::{Clear, is_own};
use crate::mm::map::cursor::Pages;
use crate::mm::map::limits::is_accounted;
use crate::mm::pages::entry::is_owned;
use crate::mm::window::policy::node_of;
use crate::mm::{AddressSpace, FileRef};
use crate::process::Process;
use crate::process::thread::Thread;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::info::*;
use hanare_abi::request::PAGES_MAX;
use hanare_abi::requestbox::{BOX_SLOTS, BOXES};
use hanare_abi::slot::SLOT_REQUESTED;
use hanare_core::errno::{self, Result};
use hanare_core::gate::TRAP_FLAG;
use hanare_core::life::ThreadState;
use hanare_core::nodes::Nodes;
use hanare_core::pagemap::Runs;
use hanare_core::pagerange::PageRange;
use hanare_core::signal::{SIGNAL_MAX, SigAction};
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL};
use hanare_hal::pte::{self, Entry};
use hanare_hal::traps::NO_CALL;
use hanare_ikc::{RequestCall, RequestRef};

/// Words of the structures of the answer.
const THREAD_WORDS: usize = size_of::<ThreadInfo>() / 8;
const PROCESS_WORDS: usize = size_of::<ProcessInfo>() / 8;
const VMA_WORDS: usize = size_of::<VmaInfo>() / 8;
const _: () = assert!(PROCESS_WORDS <= PAGES_MAX);
// What `of_process` puts together.
const _: () = assert!(PROCESS_WORDS == THREAD_WORDS + 21 + hanare_abi::cpus::CPU_SET_WORDS + 4);

/// The id by which a `REQUEST_INFO` means a process among those that share a space, or a thread of
/// it; 0: the first one.
pub fn about(call: &RequestCall) -> u32 {
    match call.args[0] {
        INFO_PROCESS | INFO_CALL => call.args[1] as u32,
        INFO_THREADS => call.args[2] as u32,
        _ => 0,
    }
}

/// `REQUEST_INFO` about a process.
pub fn of_process(p: &Process, r: &RequestRef<'_>, call: &RequestCall) -> Result<()> {
    match call.args[0] {
        INFO_PROCESS => process(p, r, call.args[1] as u32),
        INFO_THREADS => {
            threads(p, r, call.args[1] as usize);
            Ok(())
        }
        INFO_VMAS => {
            vmas(p, r, call.args[1], call.args[2] != 0);
            Ok(())
        }
        INFO_NUMA => numa(p, r, call.args[1]),
        INFO_PAGEMAP => {
            pagemap(p, r, call.args[1], call.args[2]);
            Ok(())
        }
        INFO_CLEAR_REFS => clear_refs(p, r, call.args[1]),
        INFO_WRITTEN_BY_LINUX => {
            written_by_linux(p, r, call.args[1]);
            Ok(())
        }
        INFO_CALL => call_of(p, r, call.args[1] as u32),
        INFO_SOFT_DIRTY => p.memory().mm.lock().keep_soft_dirty(call.args[1]),
        _ => Err(errno::EINVAL),
    }
}

/// `REQUEST_INFO` about the machine.
pub fn memory(r: &RequestRef<'_>, node: u64) {
    let (free, total) = if node == NODE_ANY {
        frames::usage()
    } else {
        let mut only = Nodes::default();
        only.insert(node as u32);
        frames::usage_of(&only)
    };
    for (i, v) in [total, free, quarantine::bytes()].into_iter().enumerate() {
        r.set_arg(i + 1, v);
    }
}

/// Whether its call is with a server of the request box, which has taken it.
fn is_served(t: &Thread) -> bool {
    let pool = &t.process.pool;
    let waits_in =
        |number| pool.request_box(number).is_some_and(|calls| calls.waits(t.port.slot_index));
    t.port.slot.is_boxed() && !(t.port.slot_index < BOX_SLOTS && (0..BOXES).any(waits_in))
}

/// Whether the thread waits; for a server that has taken its call, too. Not for a worker that
/// sleeps, which has not seen the thread's call yet or has answered it, nor in the request box for
/// a server to take its call: that is as good as running.
fn waits(t: &Thread) -> bool {
    let by_other =
        || if t.port.slot.is_boxed() { is_served(t) } else { t.port.slot.worker_is_awake() };
    t.task().counts.waits.load(Ordering::Relaxed) && (t.port.slot.is_idle() || by_other())
}

/// Whether the thread is in a call that its worker makes, also in the short time in which it polls
/// for the answer before it waits.
fn polls(t: &Thread) -> bool {
    t.port.slot.state() == SLOT_REQUESTED && t.port.slot.worker_is_awake()
}

/// `THREAD_*` state of a thread, by its life.
fn state(t: &Thread) -> u32 {
    match t.state() {
        ThreadState::Creates => THREAD_CREATES,
        ThreadState::Vforks => THREAD_VFORKS,
        ThreadState::Replaces => THREAD_REPLACES,
        ThreadState::Departs => THREAD_DEPARTS,
        ThreadState::Arrives => THREAD_ARRIVES,
        ThreadState::Dumps => THREAD_DUMPS,
        ThreadState::Parked => THREAD_PARKED,
        ThreadState::Exits => THREAD_EXITED,
        ThreadState::Last => THREAD_LAST,
        ThreadState::New
        | ThreadState::Runs
        | ThreadState::Replaced
        | ThreadState::Leaves
        | ThreadState::Gone => {
            if waits(t) {
                THREAD_WAITS
            } else {
                THREAD_RUNS
            }
        }
    }
}

/// State of a thread's slot, with `LINK_*` flags.
fn link(t: &Thread) -> u32 {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    t.port.slot.state()
        | flag(t.task().counts.waits.load(Ordering::Relaxed), LINK_WAITS)
        | flag(!t.port.slot.lwk_is_awake(), LINK_SLEEPS)
        | flag(!t.port.slot.worker_is_awake(), LINK_WORKER_SLEEPS)
}

fn thread_words(t: &Thread) -> [u64; THREAD_WORDS] {
    let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
    let (user, system) = t.task().cycles();
    [
        u64::from(t.tid()) | u64::from(state(t)) << 32,
        t.task().whereabouts.cpu() as u64 | u64::from(t.seccomp.told()) << 32,
        cycles_to_ns(user),
        cycles_to_ns(system),
        get(&t.task().counts.delegated),
        get(&t.task().counts.voluntary),
        get(&t.task().counts.involuntary),
        get(&t.task().counts.faults),
        u64::from(t.port.slot.number()) | u64::from(link(t)) << 32,
        if is_served(t) { t.port.slot.server().into() } else { 0 },
    ]
}

/// The call in which a thread waits; nothing of one that runs, or has gone on meanwhile.
fn call_of(p: &Process, r: &RequestRef<'_>, tid: u32) -> Result<()> {
    let thread = p.threads().find(|t| t.tid() == tid).ok_or(errno::ESRCH)?;
    // Its CPU may halt on its stack: what counts is that it waits.
    let looks = || {
        let counts = [&thread.task().counts.voluntary, &thread.task().counts.delegated];
        let counts = counts.map(|count| count.load(Ordering::SeqCst));
        (state(&thread) != THREAD_RUNS || polls(&thread)).then_some(counts)
    };
    let before = looks();
    let regs = thread.task().registers_on_stack().filter(|_| before.is_some() && looks() == before);
    let mut words = [0; 9];
    let Some(regs) = regs else {
        r.set_words(&[]);
        return Ok(());
    };
    let number = if regs.is_call(TRAP_FLAG) { regs.orig_rax } else { NO_CALL };
    words[0] = number;
    words[1..7].copy_from_slice(&regs.arguments());
    words[7..].copy_from_slice(&[regs.rsp, regs.rip]);
    r.set_words(&words);
    Ok(())
}

/// Threads from the newest to the oldest: one that ends between two questions moves only those to
/// lower places that have been told of. `from`: one more than how many of the list are left to be
/// told of; 0: all.
fn threads(p: &Process, r: &RequestRef<'_>, from: usize) {
    let mut words = [0; PAGES_MAX];
    let mut told = 0;
    let left = p.with_threads(|all| {
        let left = from.checked_sub(1).map_or(all.len(), |left| left.min(all.len()));
        let some = all.iter().take(left).rev();
        for (t, to) in some.zip(words.chunks_exact_mut(THREAD_WORDS)) {
            to.copy_from_slice(&thread_words(t));
            told += 1;
        }
        left - told
    });
    r.set_arg(1, left as u64 + 1);
    r.set_words(&words[..told * THREAD_WORDS]);
}

/// Sizes of a process's memory by kind, bytes.
#[derive(Default)]
struct Sizes {
    data: u64,
    stack: u64,
    code: u64,
    library: u64,
    locked: u64,
    file: u64,
    shared: u64,
}

fn sizes(mm: &mut AddressSpace) -> Sizes {
    let mut s = Sizes::default();
    let mut program = None;
    let (map, _, mut pages) = mm.view();
    for v in map.iter() {
        if v.flags.contains(VmaFlags::LOCKED) {
            s.locked += v.len();
        }
        let file = match &v.backing {
            Backing::PrivateFile { file, .. } => Some(file.id),
            _ => None,
        };
        program = program.or(file);
        if v.flags.contains(VmaFlags::STACK) {
            s.stack += v.len();
        } else if v.prot.contains(Prot::EXEC) && file.is_some() && file == program {
            s.code += v.len();
        } else if v.prot.contains(Prot::EXEC) {
            s.library += v.len();
        } else if v.prot.contains(Prot::WRITE) && !v.flags.contains(VmaFlags::SHARED) {
            s.data += v.len();
        }
        if !matches!(v.backing, Backing::Anonymous) {
            let amount = if v.flags.contains(VmaFlags::ANONYMOUS_SHARED) {
                &mut s.shared
            } else {
                &mut s.file
            };
            pages.each(v.range(), |leaf| {
                if !is_anonymous(v, leaf.entry) {
                    *amount += leaf.size;
                }
            });
        }
    }
    s
}

/// Whether a page of a mapping is the process's own: not of a file, or written.
fn is_anonymous(v: &Vma<FileRef>, entry: Entry) -> bool {
    matches!(v.backing, Backing::Anonymous) || is_own(v, entry)
}

/// Number of threads as Linux counts them: the first one counts until the process ends.
fn threads_as_counted(p: &Process) -> u64 {
    let has_first = p.threads().any(|t| t.port.slot_index == p.first_slot);
    p.thread_count() as u64 + u64::from(!has_first)
}

fn process(p: &Process, r: &RequestRef<'_>, tid: u32) -> Result<()> {
    let thread = match tid {
        0 => p.threads().min_by_key(|t| t.port.slot_index),
        _ => p.threads().find(|t| t.tid() == tid),
    };
    let thread = &*thread.ok_or(errno::ESRCH)?;
    let mut words = [0; PROCESS_WORDS];
    words[..THREAD_WORDS].copy_from_slice(&thread_words(thread));
    let (user, system) = p.times_ns();
    let delegated =
        p.threads().map(|t| t.task().counts.delegated.load(Ordering::Relaxed)).sum::<u64>()
            + p.ended_calls.load(Ordering::Relaxed);
    let (mapped, mapped_peak, resident, peak, tables, s) = {
        let mut mm = p.memory().mm.lock();
        let s = sizes(&mut mm);
        let (resident, peak) = mm.resident_bytes();
        (
            mm.mappings().total_bytes(),
            mm.mappings().peak_bytes(),
            resident,
            peak,
            mm.table_bytes(),
            s,
        )
    };
    let (shared, ignored, caught) = {
        let s = p.signals.lock();
        let (ignored, caught) = dispositions(|n| s.actions.get(n));
        (s.pending.set().0, ignored, caught)
    };
    // Not with the process' locked: a thread locks its own first.
    let (pending, blocked) = {
        let s = thread.signals.lock();
        (s.pending.set().0, s.mask.0)
    };
    let space = {
        let id = p.identity.lock();
        (id.as_soft, id.as_hard.unwrap_or(0))
    };
    let before = [
        user,
        system,
        delegated,
        threads_as_counted(p),
        mapped,
        mapped_peak,
        resident,
        peak,
        s.file.min(resident),
        s.shared.min(resident - s.file.min(resident)),
        s.data,
        s.stack,
        s.code,
        s.library,
        tables,
        s.locked,
        shared,
        pending,
        blocked,
        ignored,
        caught,
    ];
    let after = [p.faults(), p.usage.lock().waited().faults, space.0, space.1];
    let allowed = thread.task().affinity.lock().as_set();
    let rest = before.iter().chain(&allowed.words).chain(&after);
    words[THREAD_WORDS..].iter_mut().zip(rest).for_each(|(to, word)| *to = *word);
    r.set_words(&words);
    Ok(())
}

/// Signals ignored and caught, bit n-1 = signal n.
fn dispositions(action: impl Fn(u32) -> SigAction) -> (u64, u64) {
    let (mut ignored, mut caught) = (0, 0);
    for n in 1..=SIGNAL_MAX {
        match action(n).handler {
            0 => {}
            1 => ignored |= 1 << (n - 1),
            _ => caught |= 1 << (n - 1),
        }
    }
    (ignored, caught)
}

fn vma_flags(v: &Vma<FileRef>) -> u64 {
    let mut bits = u64::from(v.prot.bits());
    for (flag, bit) in [
        (VmaFlags::SHARED, VMA_SHARED),
        (VmaFlags::STACK, VMA_STACK),
        (VmaFlags::HEAP, VMA_HEAP),
        (VmaFlags::LOCKED, VMA_LOCKED),
        (VmaFlags::GROWSDOWN, VMA_GROWS_DOWN),
        (VmaFlags::DONTDUMP, VMA_DONT_DUMP),
        (VmaFlags::DONTFORK, VMA_DONT_FORK),
        (VmaFlags::WIPEONFORK, VMA_WIPE_ON_FORK),
        (VmaFlags::HUGE, VMA_HUGE),
        (VmaFlags::NOHUGE, VMA_NO_HUGE),
        (VmaFlags::SEQUENTIAL, VMA_SEQUENTIAL),
        (VmaFlags::RANDOM, VMA_RANDOM),
        (VmaFlags::LOCK_ON_FAULT, VMA_LOCK_ON_FAULT),
        (VmaFlags::NORESERVE, VMA_NO_RESERVE),
        (VmaFlags::HUGETLB, VMA_HUGETLB),
        (VmaFlags::SOFT_CLEAN, VMA_SOFT_CLEAN),
    ] {
        if v.flags.contains(flag) {
            bits |= bit;
        }
    }
    if is_accounted(v.prot, v.flags) {
        bits |= VMA_ACCOUNTED;
    }
    bits | match v.backing {
        Backing::Special(SpecialKind::Vdso) => VMA_VDSO,
        Backing::Special(SpecialKind::Vvar | SpecialKind::VvarEmpty) => VMA_VVAR,
        Backing::SharedLinux { .. } => VMA_LINUX,
        _ => 0,
    }
}

/// The policy at an address, and where the pages lie that have it.
fn numa(p: &Process, r: &RequestRef<'_>, at: u64) -> Result<()> {
    let first = p.with_threads(|all| all.first().map(|t| t.policy.get())).unwrap_or_default();
    let mut mm = p.memory().mm.lock();
    let (map, policies, mut all_pages) = mm.view();
    let v = map.find(at).ok_or(errno::EFAULT)?;
    let policy = policies.find(at).unwrap_or(&first);
    let nodes = policy.effective(frames::nodes());
    let end = policies.end_of(at, v.end);
    let mut by_node = [0; NUMA_NODES];
    let mut written = 0;
    let shared = v.flags.contains(VmaFlags::SHARED);
    let range = PageRange::around(at, end).ok_or(errno::EFAULT)?;
    all_pages.each_within(range, |leaf, pages| {
        let is_written =
            if shared { leaf.entry.has(pte::WRITE) } else { is_anonymous(v, leaf.entry) };
        written += if is_written { pages } else { 0 };
        let Some(node) = node_of(leaf).map(u64::from) else { return };
        if let Some(place) = by_node.iter_mut().find(|n| **n == 0 || **n >> NUMA_NODE_SHIFT == node)
        {
            *place = (*place).max(node << NUMA_NODE_SHIFT) + pages;
        }
    });
    by_node.sort_unstable_by_key(|&n| if n == 0 { u64::MAX } else { n });
    // A `NumaInfo`.
    let (mut words, mut at) = ([0; size_of::<NumaInfo>() / 8], 0);
    for part in [&[end, policy.mode.into()][..], &nodes.0, &[written], &by_node] {
        words[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    drop(mm);
    r.set_words(&words);
    Ok(())
}

/// The last words of a `VmaInfo`.
fn resident(v: &Vma<FileRef>, pages: &mut Pages<'_>) -> [u64; 4] {
    let (mut all, mut written, mut large, mut shared, mut shared_written, mut proportional) =
        (0, 0, 0, 0, 0, 0);
    let mut referenced = 0;
    let everybodys = v.flags.contains(VmaFlags::SHARED);
    pages.each(v.range(), |leaf| {
        let own = is_anonymous(v, leaf.entry);
        let is_written = if everybodys { leaf.entry.has(pte::WRITE) } else { own };
        let mappings = match v.backing {
            _ if !is_owned(leaf.entry) => 1,
            // What is kept of a file counts as one.
            Backing::PrivateFile { .. } if !own => (frames::mappings(leaf.frame()) - 1).max(1),
            _ => frames::mappings(leaf.frame()),
        };
        let is_shared = everybodys || mappings > 1;
        let when = |yes| if yes { leaf.size } else { 0 };
        all += leaf.size;
        referenced += when(leaf.entry.has(pte::ACCESSED));
        written += when(is_written);
        large += when(leaf.size == LARGE);
        shared += when(is_shared);
        shared_written += when(is_shared && is_written);
        proportional += leaf.size / mappings;
    });
    let pair = |low: u64, high: u64| low | high << 32;
    [
        pair(all / SMALL, written / SMALL),
        pair(large / SMALL, shared / SMALL),
        pair(shared_written / SMALL, proportional >> 10),
        pair(referenced / SMALL, 0),
    ]
}

/// Addresses that one answer is about at most: that takes a few thousand looks at the page table.
const PAGEMAP_BYTES_MAX: u64 = PAGES_MAX as u64 * PAGEMAP_RUN_MAX * SMALL;

fn pagemap(p: &Process, r: &RequestRef<'_>, from: u64, to: u64) {
    let from = from & !(SMALL - 1);
    let to = (to & !(SMALL - 1)).min(from.saturating_add(PAGEMAP_BYTES_MAX));
    let mut words = [0; PAGES_MAX];
    let mut runs = Runs::new(&mut words, from);
    if let Some(range) = PageRange::new(from, to) {
        p.memory().mm.lock().pagemap(range, &mut runs);
    }
    let (end, used) = (runs.end(), runs.len());
    r.set_arg(1, end);
    r.set_words(&words[..used]);
}

fn clear_refs(p: &Process, r: &RequestRef<'_>, number: u64) -> Result<()> {
    let what = Clear::of(number).ok_or(errno::EINVAL)?;
    let is_seen = p.memory().mm.lock().clear_refs(what);
    r.set_arg(1, is_seen.into());
    Ok(())
}

fn written_by_linux(p: &Process, r: &RequestRef<'_>, from: u64) {
    let mut words = [0; PAGES_MAX];
    let mut used = 0;
    let next = p.memory().mm.lock().each_written_by_linux(from, &mut |leaf| {
        let Some(to) = words.get_mut(used..used + 2) else { return false };
        to.copy_from_slice(&[leaf.addr, leaf.frame().0 | (leaf.size / SMALL - 1)]);
        used += 2;
        true
    });
    r.set_arg(1, next);
    r.set_words(&words[..used]);
}

fn vmas(p: &Process, r: &RequestRef<'_>, from: u64, with_resident: bool) {
    let mut words = [0; PAGES_MAX];
    let mut used = 0;
    let mut next = 0;
    let mut mm = p.memory().mm.lock();
    let (map, _, mut pages) = mm.view();
    for v in map.iter_from(from) {
        let Some(to) = words.get_mut(used..used + VMA_WORDS) else {
            next = v.start;
            break;
        };
        let amounts = if with_resident { resident(v, &mut pages) } else { [0; 4] };
        let (file, offset) = match &v.backing {
            Backing::PrivateFile { file, offset } => (file.id, *offset),
            Backing::SharedLinux { file, offset, .. } => {
                (file.as_ref().map_or(0, |f| f.id), *offset)
            }
            _ => (0, 0),
        };
        to[..5].copy_from_slice(&[v.start, v.end, vma_flags(v), offset, file]);
        to[5..].copy_from_slice(&amounts);
        used += VMA_WORDS;
    }
    drop(mm);
    r.set_arg(1, next);
    r.set_words(&words[..used]);
}
