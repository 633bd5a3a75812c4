//! Requests of Linux to the LWK: one function for each kind.

use crate::base::counts::{Kind, there_are};
use crate::base::quarantine::{self, Of};
use crate::base::{failing, frames, heap, ledger};
use crate::gate::observe;
use crate::life::{exec, fork, open as open_space, share};
use crate::link::inbound::complete;
use crate::mm::fault::linux;
use crate::mm::fault::linux::Lack;
use crate::mm::pages::content;
use crate::mm::pages::quarantine::ask_anew;
use crate::process::thread::Thread;
use crate::process::{Process, info, members, oom, spaces, until};
use crate::sched::cpu_mask::CpuMask;
use crate::sched::{machinecheck, park};
use crate::signal::signals;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::frame::GivenPage;
use hanare_abi::layout::{SLOT_BASE, USER_MAX, scratch};
use hanare_abi::request as abi;
use hanare_core::errno;
use hanare_core::mempolicy::Policy;
use hanare_core::pagerange::PageRange;
use hanare_hal::{cpu, shared};
use hanare_ikc::{RequestCall, RequestRef};

/// Serves request `index`, which the module has posted to the calling CPU.
pub fn serve(index: u32) {
    let r = shared::request(index);
    let Some(call) = r.read() else {
        crate::info!("request {index} is not posted; ignored");
        return;
    };
    let space = call.space;
    let status = match call.kind {
        abi::REQUEST_PING => {
            machinecheck::look();
            Ok(())
        }
        abi::REQUEST_SPACE_OPEN => open(&r, &call),
        abi::REQUEST_STOP => {
            complete(index, 0);
            park::park()
        }
        abi::REQUEST_INFO if space == 0 => {
            info::memory(&r, call.args[1]);
            Ok(())
        }
        abi::REQUEST_CLOCK_SET => {
            until::on_set();
            Ok(())
        }
        abi::REQUEST_DEBUG => debug(&r, &call),
        abi::REQUEST_OBSERVE => observe::request(&r, &call),
        abi::REQUEST_SPACE_CLOSE if call.args[0] == abi::CLOSE_TOLD => {
            return told_close(index, space);
        }
        abi::REQUEST_SPACE_CLOSE => return close(index, space),
        abi::REQUEST_CHILD_END => {
            fork::end(space, call.args[0]);
            Ok(())
        }
        kind => match process_of(&call) {
            None => Err(errno::ESRCH),
            Some(p) => match kind {
                abi::REQUEST_SPACE_START if call.args[0] != 0 => {
                    share::begin(&p, call.args[1], call.args[2] as u32)
                }
                abi::REQUEST_SPACE_START => exec::start(&p),
                abi::REQUEST_PROCESS_END => {
                    p.kill();
                    Ok(())
                }
                abi::REQUEST_FAULT => return complete(index, fault(&p, &r, &call)),
                abi::REQUEST_INVALIDATE => {
                    // All, where it is no range: an answer says that these pages are given back.
                    let range = PageRange::around(call.args[0], call.args[1]);
                    linux::invalidate(p.memory(), range.unwrap_or(PageRange::of(0, USER_MAX)));
                    Ok(())
                }
                abi::REQUEST_SIGNAL => {
                    signals::from_linux(&p, call.args[0] as u32, call.args[1] as u32, &r.siginfo())
                }
                abi::REQUEST_SPACE_PAUSE => {
                    p.pause(call.args[0] != 0);
                    Ok(())
                }
                abi::REQUEST_SPACE_LIMITS => {
                    if let Some(words) = r.words().first_chunk() {
                        p.take_limits(call.args[0], words);
                    }
                    Ok(())
                }
                abi::REQUEST_SPACE_GROUPS => p.space.enter_groups(&r.words()[..abi::GROUPS_WORDS]),
                abi::REQUEST_INFO => info::of_process(&p, &r, &call),
                abi::REQUEST_USAGE => {
                    usage(&p, &r);
                    Ok(())
                }
                _ => Err(errno::EINVAL),
            },
        },
    };
    complete(index, status.map_or_else(|e| -e.0, |()| 0));
}

/// The process of its space that a request means.
fn process_of(call: &RequestCall) -> Option<Arc<Process>> {
    let space = spaces::find(call.space)?;
    match call.kind {
        abi::REQUEST_SPACE_START | abi::REQUEST_PROCESS_END => space.process(call.args[0] as u32),
        abi::REQUEST_SPACE_PAUSE => space.process(call.args[1] as u32),
        abi::REQUEST_SIGNAL => space.process_of(call.args[1] as u32),
        abi::REQUEST_INFO => space.process_with(info::about(call)),
        _ => space.first(),
    }
}

/// The NUMA policy of the thread that has a worker, of whichever process with this space.
fn policy_of(space: u32, tid: u32) -> Option<Policy> {
    let space = spaces::find(space)?;
    let of = |all: &[Arc<Thread>]| Some(all.iter().find(|t| t.tid() == tid)?.policy.wish());
    space.processes().find_map(|p| p.with_threads(of)).flatten()
}

/// A proxy's page fault; without memory it is tried again once there is some.
fn fault(p: &Process, r: &RequestRef<'_>, call: &RequestCall) -> i32 {
    let tid = (call.args[2] >> 32) as u32;
    let wish = if p.memory().has_policies.load(Ordering::Relaxed) {
        policy_of(call.space, tid)
    } else {
        None
    };
    match linux::fault(p.memory(), || p.growth(), wish, r, call) {
        Ok(status) => status,
        Err(Lack::Memory) if oom::relieve(p) => -errno::EAGAIN.0,
        Err(Lack::Memory) => -errno::ENOMEM.0,
        Err(Lack::Entry) => {
            spaces::sweep();
            -errno::EAGAIN.0
        }
    }
}

fn open(r: &RequestRef<'_>, call: &RequestCall) -> errno::Result<()> {
    let (p, parts) = open_space::space(call.space, CpuMask::of(&r.cpus()), &call.args, &r.words())?;
    r.set_arg(0, parts.into());
    r.set_pages(
        &[SLOT_BASE, scratch(0)].map(|page| {
            p.memory.control_page(page).map_or(GivenPage::NONE, |frame| frame.given(0))
        }),
    );
    Ok(())
}

/// `CLOSE_AWAITED`: answered with the end of the space.
fn close(index: u32, space: u32) {
    match spaces::find_to_answer(space, index) {
        Err(used) => spaces::answer_close(index, used),
        Ok(found) => {
            members::leave(space);
            found.close();
        }
    }
}

/// `CLOSE_TOLD`: answered now.
fn told_close(index: u32, space: u32) {
    if let Some(found) = spaces::find_to_keep(space) {
        members::leave(space);
        found.close();
    }
    match spaces::take_used(space) {
        None => {
            tell_left(index, space);
            complete(index, -errno::EINPROGRESS.0);
        }
        Some(used) => spaces::answer_close(index, used),
    }
}

/// Says how many threads a space has that ends, and which is the oldest.
fn tell_left(index: u32, space: u32) {
    let Some(found) = spaces::find(space) else { return };
    let r = shared::request(index);
    let left = || found.processes().flat_map(|p| p.threads().map(|t| t.tid()).last());
    let count: usize = found.processes().map(|p| p.thread_count()).sum();
    r.set_arg(0, count as u64);
    r.set_arg(1, left().last().unwrap_or(0).into());
}

fn usage(p: &Process, r: &RequestRef<'_>) {
    let (user, system) = p.times_ns();
    let (resident, peak) = p.memory().memory_use();
    for (i, v) in [user, system, resident, peak].into_iter().enumerate() {
        r.set_arg(i, v);
    }
}

/// Memory and objects that the kernel keeps for itself: the answer to `DEBUG_MEMORY`.
fn kept() -> [u64; abi::KEPT_WORDS] {
    let [heap, used, blocks, large, reserve] = heap::usage();
    let [spaces, threads, children, programs, traces, debuggers] =
        [Kind::Space, Kind::Thread, Kind::Child, Kind::Program, Kind::Trace, Kind::Debugger]
            .map(there_are);
    [heap, used, blocks, large, reserve, spaces, threads, children, programs, traces, debuggers]
}

/// Calls itself until the stack is full.
#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let filler = core::hint::black_box([depth; 32]);
    if core::hint::black_box(depth) == u64::MAX {
        return depth;
    }
    overflow(depth + size_of_val(&filler) as u64) + core::hint::black_box(filler)[31]
}

/// How often `DEBUG_MEMORY` has Linux asked about what is in quarantine.
const QUARANTINE_TRIES: u32 = 20;

fn debug(r: &RequestRef<'_>, call: &RequestCall) -> hanare_core::errno::Result<()> {
    match call.args[0] {
        abi::DEBUG_PANIC => panic!("asked for by hanare debug panic"),
        abi::DEBUG_OVERFLOW => {
            crate::info!("{} bytes deep", overflow(0));
            Ok(())
        }
        abi::DEBUG_HANG => {
            crate::info!("hanging, as asked for by hanare debug hang");
            // By Linux' ticks: the TSC of an emulated machine may run ahead for a while.
            let linux_ns = || shared::clock().read().monotonic_coarse_ns;
            let end = linux_ns().saturating_add(call.args[1].saturating_mul(1_000_000));
            while call.args[1] == 0 || linux_ns() < end {
                cpu::pause();
            }
            crate::info!("no longer hanging");
            Ok(())
        }
        abi::DEBUG_MEMORY => {
            content::give_back();
            // Linux may be slow, and the caller wants to know what is left for good.
            ask_anew(Of::All, QUARANTINE_TRIES);
            heap::trim();
            let (free, total) = frames::usage();
            let processes = there_are(Kind::Process);
            crate::info!(
                "memory: {} KiB free of {} KiB, {} KiB quarantined, {processes} processes",
                free >> 10,
                total >> 10,
                quarantine::bytes() >> 10
            );
            for (i, v) in [free, total, quarantine::bytes(), processes].into_iter().enumerate() {
                r.set_arg(i, v);
            }
            r.set_words(&kept());
            Ok(())
        }
        abi::DEBUG_LEDGER => {
            let (user, words) = ledger::report(call.args[1]);
            user.into_iter().enumerate().for_each(|(i, word)| r.set_arg(i, word));
            r.set_words(&words);
            Ok(())
        }
        abi::DEBUG_FAIL_ALLOC => {
            r.set_arg(0, failing::set(call.args[1], call.args[2]));
            Ok(())
        }
        _ => Err(errno::EINVAL),
    }
}
