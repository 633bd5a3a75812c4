//! Lines in the log about programs that end by an exception, as Linux leaves them in dmesg
//! (`show_unhandled_signals`).

use crate::base::lists;
use crate::base::log_limit;
use crate::base::pages::Pages;
use crate::link::services;
use crate::mm::FileRef;
use crate::parts::signals::Trap;
use crate::process::thread::Thread;
use alloc::string::String;
use hanare_abi::service::SERVICE_FILE_NAME;
use hanare_core::ledger::Subject;
use hanare_core::signal;
use hanare_core::vma::Backing;
use hanare_hal::traps::{Regs, vector};

/// `NAME[TID]`.
pub fn name_of(thread: &Thread) -> String {
    let name = thread.name.lock().unwrap_or_default();
    let length = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    lists::text_of(&name[..length])
        .and_then(|name| lists::text(format_args!("{}[{}]", name.escape_debug(), thread.tid())))
        .unwrap_or_default()
}

/// The running thread's process ends by `signal`, which the exception `trap` has raised.
pub fn log(thread: &Thread, signal: u32, trap: Trap, regs: &Regs) {
    if !log_limit::may_say() {
        return;
    }
    let (name, place) = (name_of(thread), place(thread, regs.rip));
    let (ip, sp, error, addr) = (regs.rip, regs.rsp, trap.error, trap.cr2);
    if trap.number == u64::from(vector::PAGE_FAULT) {
        let what = if signal == signal::SIGBUS { "bus error" } else { "segfault" };
        crate::info!("{name}: {what} at {addr:x} ip {ip:016x} sp {sp:016x} error {error:x}{place}");
    } else {
        crate::info!(
            "traps: {name} {} ip:{ip:x} sp:{sp:x} error:{error:x}{place}",
            description(trap.number as u8)
        );
    }
}

/// Linux' name of an exception.
fn description(number: u8) -> &'static str {
    match number {
        vector::DIVIDE => "trap divide error",
        vector::DEBUG => "trap debug",
        vector::BREAKPOINT => "trap int3",
        vector::INVALID_OPCODE => "trap invalid opcode",
        vector::X87 => "trap x87 floating-point exception",
        vector::SIMD => "trap SIMD floating-point exception",
        vector::ALIGNMENT => "trap alignment check",
        vector::STACK => "trap stack segment",
        vector::NOT_PRESENT => "trap segment not present",
        vector::PROTECTION => "general protection fault",
        _ => "trap exception",
    }
}

/// ` in FILE[base+size]`, the mapping with the instruction; empty if that is none of a file's.
fn place(thread: &Thread, ip: u64) -> String {
    let found = {
        let mm = thread.process.memory().mm.lock();
        mm.mappings().find(ip).and_then(|v| match &v.backing {
            Backing::PrivateFile { file, .. } => Some((file.clone(), v.start, v.end - v.start)),
            _ => None,
        })
    };
    let Some((file, base, size)) = found else { return String::new() };
    let path = path_of(thread, &file).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or("");
    lists::text(format_args!(" in {}[{base:x}+{size:x}]", name.escape_debug())).unwrap_or_default()
}

/// The LWK knows the names of programs; those of libraries Linux does.
fn path_of(thread: &Thread, file: &FileRef) -> Option<String> {
    if !file.name.is_empty() || thread.must_end() {
        return lists::text(format_args!("{}", file.name)).ok();
    }
    let page = Pages::new(0, thread.process.memory().account.owner(Subject::Answers)).ok()?;
    let answer =
        services::by_worker(thread, SERVICE_FILE_NAME, &[file.id], &[page.extent()]).ok()?;
    lists::text_of(&page.bytes(0, answer.status as usize).ok()?).ok()
}
