//! The LWK: a kernel that runs unmodified Linux programs on CPUs and memory
//! taken from a running Linux, and delegates what it does not serve itself.
//!
//! Start at [`start`]; a system call enters at [`calls::dispatch::entry`]; what Linux
//! asks of us arrives at [`requests::serve`].
#![no_std]
#![no_main]
#![deny(unsafe_code)]
#![allow(non_upper_case_globals)] // of linux-raw-sys: `__NR_read`

extern crate alloc;

mod base;
mod calls;
mod device;
mod entry;
mod gate;
mod life;
mod link;
mod mm;
mod parts;
mod process;
mod requests;
mod route;
mod sched;
mod signal;

use base::tables::Tables;
use base::{accounts, frames, heap, log, stacks, time};
use gate::observe;
use life::{depart, exit, fork};
use link::{caller, direct, inbound, pool, services};
use mm::map::vdso;
use mm::pages::content;
use mm::window::messages;
use process::{oom, spaces, thread};
use sched::{attention, cpus, hold, machinecheck, user_mode};

use hanare_abi::boot::{CPU_ONLINE, MEASURE_ISOLATION};
use hanare_core::mitigations::{self, Policy, Processor};
use hanare_core::options::Options;
use hanare_core::pat::Pat;
use hanare_core::transport;
use hanare_hal::cpu::LeakWords;
use hanare_hal::{
    apic, cpu, devices, fpu, gdt, hardened, isolation, paging, percpu, shared, speculation, traps,
};

hanare_hal::entry!(start);

/// Every CPU arrives here, the first one alone.
fn start(cpu: usize) -> ! {
    if cpu == 0 {
        first_cpu();
    } else {
        this_cpu(cpu);
    }
    shared::cpu(cpu).set_state(CPU_ONLINE);
    info!("cpu {cpu}: online (Linux CPU {}, APIC {})", shared::cpu(cpu).linux_cpu(), apic::id());
    cpus::idle()
}

/// Boots what is made once: memory, page tables, the other CPUs' stacks.
fn first_cpu() {
    percpu::init(0);
    shared::init_cpu(0);
    let checked = shared::check();
    log::init();
    if let Err(why) = checked {
        panic!("{why}");
    }
    let p = shared::params();
    if let Err(missing) = transport::check(p.transport_flags) {
        panic!("{missing}");
    }
    let options = match Options::parse(text(&p.cmdline)) {
        Ok(options) => options,
        Err(refused) => panic!("{refused}"),
    };
    log::set_debug(options.log_debug);
    info!(
        "Hanare LWK {} (ABI {}), instance {}",
        env!("CARGO_PKG_VERSION"),
        p.version,
        text(&p.name)
    );
    traps::build_idt();
    traps::install(&entry::HANDLERS);
    traps::init_cpu();
    frames::init();
    heap::init();
    heap::init_lists(&LISTS);
    let features = cpu::Features::detect();
    info!("cpu features: {features:?}");
    machinecheck::init();
    mitigate(options.mitigations);
    paging::build_kernel(&mut Tables::kernel(), features.nx)
        .expect("memory for the kernel's page tables");
    devices::map(&mut Tables::kernel()).expect("memory for tables of devices");
    stacks::init();
    isolation::build(&mut Tables::kernel()).expect("memory for user mode's page tables");
    cpus::init();
    caller::init(|| thread::try_current().map(|thread| thread as _));
    services::init(&MEMORY);
    process::init_ends(&ENDS);
    inbound::init(requests::serve);
    user_mode::init(entry::prepare);
    this_cpu(0);
    apic::calibrate_timer(u64::from(p.tsc_khz) * 2); // 2 ms
    time::init();
    vdso::init();
    direct::init(options.spin_us);
    hold::init(options.hold_ms);
    accounts::init(options.user_limits);
    depart::init(options.exec_seen);
    messages::init(options.copies);
    pool::init(options.dispatch);
    device::init();
}

/// Functions that end threads, processes and spaces.
static ENDS: process::Ends = process::Ends {
    thread: exit::thread,
    by_last_call: exit::by_last_call,
    process: exit::process_gone,
    space: fork::forget,
};

/// Functions by which services learn of spaces.
static MEMORY: services::Memory = services::Memory {
    sweep: spaces::sweep,
    owner: |id| Some(spaces::find(id).filter(|space| !space.memory.is_closed())?.memory.owner()),
};

/// Functions that give the memory of long lists back when these are empty.
static LISTS: [fn(); 8] = [
    spaces::trim,
    fork::trim,
    depart::trim,
    cpus::trim,
    oom::trim,
    accounts::trim,
    content::trim,
    observe::trim,
];

/// Decides what is done about the CPU's leaks, and prepares it. Before the first page table.
fn mitigate(policy: Policy) {
    let leaks = shared::params().leaks;
    let read = LeakWords::read();
    let cpu = Processor {
        leaf7_edx: read.leaf7_edx,
        leaf7_2_edx: read.leaf7_2_edx,
        leaf8000_0008_ebx: read.leaf8000_0008_ebx,
        leaf8000_0021_eax: read.leaf8000_0021_eax,
        arch_capabilities: read.arch_capabilities,
    };
    let measures = mitigations::choose(policy, leaks, &cpu);
    info!("leaks of the CPU: {leaks:#x}, measures: {measures:#x}");
    if measures & MEASURE_ISOLATION != 0 {
        isolation::turn_on();
    }
    hardened::apply(measures);
    speculation::choose(measures);
    shared::set_measures(measures);
}

/// Prepares the calling CPU, as each CPU does at boot.
fn this_cpu(cpu: usize) {
    percpu::init(cpu);
    shared::init_cpu(cpu);
    paging::use_kernel();
    // As Linux tells it to rdtscp, rdpid and lsl in user mode.
    let number = shared::cpu(cpu).node() << 12 | shared::cpu(cpu).linux_cpu();
    gdt::init(cpu, stacks::of_cpu(cpu).interrupts, number);
    percpu::init(cpu); // loading the selectors cleared the GS base
    percpu::set_attention(attention::mine());
    isolation::add_cpu(cpu, stacks::of_cpu(cpu).interrupts, &mut Tables::kernel())
        .expect("memory for user mode's page tables");
    traps::init_cpu();
    let features = cpu::Features::detect();
    cpu::init_control(&features);
    cpu::set_pat(Pat::of(shared::params().pat).word());
    speculation::init_cpu();
    fpu::init(&features);
    apic::init();
    cpu::set_tsc_aux(number, &features);
}

/// A zero-terminated string of the boot parameters.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}
