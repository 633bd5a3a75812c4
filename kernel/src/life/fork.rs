//! fork(2): a child with memory of its own, between the call and its proxy's coming up.

use crate::base::accounts::Charge;
use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::base::lists;
use crate::base::lock::rank;
use crate::gate::ptrace;
use crate::life::child::{Inherited, Request, child_event, first_step, flag};
use crate::life::comes::{await_child, is_watched};
use crate::life::expected::Expected;
use crate::life::newborn::Bearing;
use crate::link::{delegate, services};
use crate::mm::change::fork::fork;
use crate::mm::pages::content;
use crate::mm::pages::quarantine::{How, holds_too_much};
use crate::mm::{AddressSpace, FileHandle, FileRef};
use crate::process::states;
use crate::process::thread::{self, ParentWaits, Thread};
use crate::process::workers;
use crate::process::{Process, timens};
use crate::sched::{cpus, hold};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use hanare_abi::control::Control;
use hanare_abi::layout::{PARTS_ALL, USER_MAX, USER_MIN};
use hanare_abi::service::SERVICE_WATCH;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Vma};
use hanare_hal::traps::Regs;
use hanare_hal::usercopy;
use hanare_hal::usercopy::UserAddr;

/// A child between fork and its proxy's coming up.
pub struct Embryo {
    /// The child's memory.
    pub mm: AddressSpace,
    /// The child begins only when its parent's tracer has taken hold of it.
    pub traced: bool,
    /// State that the child has from its parent beside memory.
    pub inherited: Inherited,
    /// The parent, if it waits for its exec or end (vfork).
    pub waits: Option<ParentWaits>,
    /// Thread to be woken when the child has come up.
    pub parent: Arc<Thread>,
    _charge: Charge,
    _counted: Counted,
}

/// Children that wait for their proxies, by their parent's space.
static EMBRYOS: Expected<Embryo, rank::Embryos> = Expected::new();

/// Memory of the list if it is empty.
pub fn trim() {
    EMBRYOS.trim();
}

/// The child that the proxy of a new space stands for. Its parent waits until it has [`come`]: a
/// child whose id fork gave is there for any process that uses the id (ptrace, kill).
pub fn claim(parent: u32, token: u64) -> Option<Box<Embryo>> {
    EMBRYOS.claim((parent, token))
}

/// The child is there, or is not going to be: `parent`, a thread of the space, may go on.
pub fn come(space: u32, token: u64, parent: &Arc<Thread>) {
    EMBRYOS.settle((space, token));
    cpus::kick(parent.task());
}

/// A child whose maker has gone on, or is about to, has ended on Linux.
pub fn end(parent: u32, token: u64) {
    let Some(embryo) = EMBRYOS.end((parent, token)) else { return };
    let maker = embryo.parent.clone();
    drop(embryo);
    cpus::kick(maker.task());
}

/// A process has ended: children that never came up are given up, but for those whose ends Linux
/// tells.
pub fn forget(parent: u32) {
    EMBRYOS.forget(parent);
}

/// Room for a child of `p` until its proxy comes up, which may be long.
fn room_for_embryo(p: &Process) -> Result<Charge> {
    let bytes = size_of::<Embryo>() + Inherited::bytes();
    let charge = p.memory().account.charge(bytes as u64)?;
    EMBRYOS.room()?;
    heap::room(bytes)?;
    Ok(charge)
}

/// fork(2), or vfork(2): a new process with a copy of the running one's memory. Its process id.
pub fn process(me: &Thread, r: &Request, regs: &mut Regs) -> Result<u64> {
    let p = &me.process;
    let key = (p.memory().id, p.memory().next_token());
    let charge = room_for_embryo(p)?;
    content::give_back_if_short();
    if holds_too_much(&p.memory().account, How::Waiting(me)) {
        return Err(errno::EAGAIN);
    }
    let memory = fork(&me.caller())?;
    let parent = me.arc();
    let vforks = r.flags & flag::VFORK != 0;
    if vforks {
        ptrace::on_vfork(me);
    }
    let inherited = Inherited::of(me, r, regs, false)?;
    let traced = ptrace::before_child(me, None, child_event(r));
    let embryo = lists::boxed_within(Embryo {
        mm: memory,
        traced: traced.is_some(),
        inherited,
        waits: vforks.then(|| ParentWaits::new(parent.clone())),
        parent,
        _charge: charge,
        _counted: Counted::new(Kind::Child),
    });
    p.create(me, vforks)?;
    let bearing = Bearing::by(me);
    EMBRYOS.insert(key, embryo);
    hold::at("fork-embryo");
    let request = Control::Fork {
        token: key.1,
        flags: r.exit_signal | r.flags & (flag::LINUX | flag::FILES),
        pidfd: r.pidfd,
        set_tid: r.set_tid,
        set_tid_size: r.set_tid_size,
        cgroup: r.cgroup,
    };
    let pid = workers::make_process(me, request);
    hold::at("fork-answered");
    if let Ok(pid) = pid {
        // Of a thread that another one's execve ends, too, the child is there on Linux.
        let has_come = || p.is_killed() || !EMBRYOS.is_there(key);
        // A tracer is to take hold of the child, which has to be there.
        let entrust = || traced.is_none() && is_watched(me, pid, 0, key.1) && EMBRYOS.entrust(key);
        await_child(me, pid, has_come, |late| cpus::until(has_come, late), entrust);
    }
    drop(EMBRYOS.give_up(key)); // the proxy could not fork, or died at once
    drop(bearing);
    if !vforks {
        p.resume(me);
    }
    if vforks && pid.is_err() {
        wait_for_child(me); // of a proxy that says so of a child that is there
    }
    let pid = pid?;
    if r.flags & flag::PARENT_SETTID != 0 {
        let _ = usercopy::write(UserAddr::of(r.parent_tid), &(pid as u32).to_le_bytes());
    }
    hold::at("fork-done");
    ptrace::on_child(me, regs, traced, pid as u32);
    if vforks && wait_for_child(me) {
        ptrace::on_vfork_done(me, regs, pid as u32);
    }
    Ok(pid)
}

/// The parent of a vfork waits until its child has left its memory. False: it has to end, or to
/// park.
fn wait_for_child(me: &Thread) -> bool {
    let released = states::wait_for_release(me, cpus::NEVER);
    me.process.resume(me);
    released
}

/// The files of a child are the module's copies of its parent's, by the same ids.
pub fn adopt_files(mm: &mut AddressSpace, space: u32) -> Result<()> {
    let mut known: BTreeMap<u64, FileRef> = BTreeMap::new();
    let mut at = 0;
    let of_file = |v: &Vma<FileRef>| match &v.backing {
        Backing::PrivateFile { file, .. } => Some((v.start, v.end, file.clone())),
        _ => None,
    };
    loop {
        let next = mm.mappings().iter_from(at).find_map(of_file);
        let Some((start, end, file)) = next else { return Ok(()) };
        if !known.contains_key(&file.id) {
            heap::room_for_entry::<u64, FileRef>()?;
            heap::room(size_of::<FileHandle>() + heap::SMALL_PARTS)?;
            let own = FileHandle {
                space,
                id: file.id,
                inode: file.inode,
                device: file.device,
                bytes: file.bytes,
                name: lists::text(format_args!("{}", file.name))?,
                content: file.content.clone(),
            };
            lists::insert_within(&mut known, file.id, lists::arc_within(own));
        }
        // The whole of a mapping: nothing is cut.
        mm.cursor(PageRange::of(start, end)).update(|v| {
            if let Backing::PrivateFile { file: to, .. } = &mut v.backing
                && let Some(own) = known.get(&file.id)
            {
                *to = own.clone();
            }
            Ok(())
        })?;
        at = end;
    }
}

/// The mappings that are Linux' own.
pub fn shared_with_linux(mm: &AddressSpace) -> impl Iterator<Item = (u64, u64)> {
    mm.mappings().iter().filter(|v| is_shared(v)).map(|v| (v.start, v.end))
}

fn is_shared(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::SharedLinux { .. })
}

/// The child's first words with its proxy, which has mapped the device over everything
/// if nothing is shared with Linux; else it does so around shared mappings that Linux
/// has copied, which are watched from now on.
pub fn settle(me: &Thread) {
    let p = &me.process;
    // One at a time: a list might be refused.
    let next = |from: u64| {
        let mm = p.memory().mm.lock();
        mm.mappings().iter_from(from).find(|v| is_shared(v)).map(|v| (v.start, v.end))
    };
    if next(0).is_none() {
        return;
    }
    let mut at = USER_MIN;
    while at < USER_MAX {
        let (start, end) = next(at).unwrap_or((USER_MAX, USER_MAX));
        if start > at {
            let _ = delegate::ask(me, Control::Remap { start: at, end: start });
        }
        at = end;
    }
    p.memory().set_parts(PARTS_ALL);
    at = 0;
    while let Some((start, end)) = next(at) {
        at = end;
        let Ok(answer) = services::by_worker(me, SERVICE_WATCH, &[start, end], &[]) else {
            continue;
        };
        let mut mm = p.memory().mm.lock();
        let _ = mm.cursor(PageRange::of(start, end)).update(|v| {
            if let Backing::SharedLinux { watch, .. } = &mut v.backing {
                *watch = answer.status as u32;
            }
            Ok(())
        });
    }
}

/// The first step of a forked process.
pub extern "C" fn first_step_of_child() -> ! {
    cpus::reap();
    hold::at("child-begins");
    let me = thread::current();
    settle(me);
    timens::begin(me);
    hold::at("child-settled");
    first_step()
}
