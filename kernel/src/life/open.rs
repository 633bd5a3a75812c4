//! `REQUEST_SPACE_OPEN`: a space for a program of `hanare run`, for the child of a fork, or for a
//! program that leaves other memory by execve.

use crate::base::accounts::Account;
use crate::life::fork;
use crate::life::{begin, depart};
use crate::mm::AddressSpace;
use crate::mm::pages::quarantine::{How, holds_too_much};
use crate::mm::window::address_parts;
use crate::mm::window::messages;
use crate::mm::window::space::Space;
use crate::process::members;
use crate::process::spaces::ProcessSpace;
use crate::sched::cpu_mask::CpuMask;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use hanare_abi::layout::{PARTS_ALL, PARTS_USUAL};
use hanare_core::errno::{self, Result};
use hanare_core::life::Process;

/// Opens a space (`REQUEST_SPACE_OPEN`).
///
/// Threads of the space may run on `cpus`. args: [2], [3] = parent space and token of a fork, whose
/// child, described by `words`, begins to run. Without a parent [3] is what the space is to a pool
/// of proxies. Gives which parts of its addresses the proxy is to map at once.
pub fn space(
    space: u32,
    cpus: CpuMask,
    args: &[u64; 4],
    words: &[u64],
) -> Result<(Arc<ProcessSpace>, u32)> {
    let parent = args[2] as u32;
    if parent == 0 {
        return make(space, cpus, None, args[3], words);
    }
    if let Some(plan) = depart::claim(parent, args[3], words)? {
        return for_program(space, cpus, plan, words);
    }
    let embryo = fork::claim(parent, args[3]).ok_or(errno::ESRCH)?;
    let maker = embryo.parent.clone();
    let made = make(space, cpus, Some(embryo), 0, words);
    fork::come(parent, args[3], &maker);
    made
}

fn make(
    space: u32,
    cpus: CpuMask,
    embryo: Option<Box<fork::Embryo>>,
    to_pool: u64,
    words: &[u64],
) -> Result<(Arc<ProcessSpace>, u32)> {
    let account = account_of(words)?;
    let (mm, embryo) = match embryo {
        None => (AddressSpace::new(account.clone()).ok_or(errno::ENOMEM)?, None),
        Some(mut e) => {
            fork::adopt_files(&mut e.mm, space)?;
            e.mm.charge_to(account.clone());
            (core::mem::replace(&mut e.mm, AddressSpace::nothing()), Some(e))
        }
    };
    let parts = match &embryo {
        None => PARTS_ALL,
        Some(_) if fork::shared_with_linux(&mm).next().is_some() => 0,
        Some(_) => address_parts::of_mappings(&mm),
    };
    let new = ProcessSpace::new(Space::new(space, cpus, mm, account, words))?;
    new.memory.set_parts(parts);
    new.memory.set_copies(
        embryo.as_ref().map_or_else(messages::by_default, |e| e.parent.process.memory().copies()),
    );
    let life = if embryo.is_some() { Process::CLAIMED } else { Process::EXPECTED };
    let parent = embryo.as_ref().map_or(Weak::new(), |e| Arc::downgrade(&e.parent.process));
    let first = new.enter_first(parent, life, words)?;
    if let Some(e) = embryo {
        begin::child(&first, e).inspect_err(|_| first.fail())?;
    }
    let parts = members::join(&new, &first, to_pool, parts)?;
    Ok((new, parts))
}

/// The account of a new space.
///
/// # Errors
/// `EAGAIN`: Linux holds too much of its user's.
fn account_of(words: &[u64]) -> Result<Arc<Account>> {
    let account = Space::account_of(words)?;
    if holds_too_much(&account, How::AtOnce) { Err(errno::EAGAIN) } else { Ok(account) }
}

/// The space of a process that leaves other memory by execve.
fn for_program(
    space: u32,
    cpus: CpuMask,
    plan: Box<depart::Plan>,
    words: &[u64],
) -> Result<(Arc<ProcessSpace>, u32)> {
    let account = account_of(words)?;
    let mm = AddressSpace::new(account.clone()).ok_or(errno::ENOMEM)?;
    let new = ProcessSpace::new(Space::new(space, cpus, mm, account, words))?;
    new.memory.set_parts(PARTS_USUAL);
    new.memory.set_copies(plan.copies());
    // It has no parent to tell its end to until it goes on as the old process.
    let first = new.enter_first(Weak::new(), Process::CLAIMED, words)?;
    plan.begin(&new.memory, &first, words).inspect_err(|_| first.fail())?;
    Ok((new, PARTS_USUAL))
}
