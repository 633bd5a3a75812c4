//! hanare-proxy: the process on Linux that stands for one application process.
//!
//! `hanare run` exec()s it, so its pid, descriptors, working directory,
//! credentials, terminal and process group are the caller's. It is linked at
//! `PROXY_BASE`, above all addresses of the application, attaches to an LWK
//! instance, maps the application's addresses, writes the start block, and then
//! makes the application's delegated system calls with their very arguments.
//!
//! No std and no C library: both would put a heap among the application's
//! addresses, and the proxy needs neither.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

#[cfg(not(all(target_arch = "x86_64", target_os = "none")))]
compile_error!("build hanare-proxy with --target x86_64-unknown-none");

mod base;
mod process;
mod requests;
mod sys;
mod worker;

use core::sync::atomic::Ordering;

use hanare_abi::ioctl::IOCTL_START;
use hanare_abi::pooled::ATTACH_MEMBER;
use linux_raw_sys::errno::EIO;

use base::clock::Clock;
use base::message::{EXIT_CANNOT_RUN, EXIT_HANARE, die};
use base::options::{self, Options};
use process::stderr::Stderr;
use process::{Process, attach, pooled, signals};
use requests::exec::{self, Resumption};
use requests::program;
use requests::start::{self, Inherited};
use sys::shared::Initial;
use sys::signal;
use sys::worker::{Block, Role, Worker};

sys::entries::entry_points! { start: run, thread: worker::begin, signal: worker::taken }

/// The first thread's worker; it serves slot 0.
static FIRST_WORKER: Worker = Worker::new(0, Role::First, Block::NONE);

fn run(initial: Initial) -> ! {
    let clock = Clock::start();
    if let Some(resumption) = exec::resumption(&initial) {
        resume(&resumption, &initial, clock);
    }
    let options = options::parse(&initial)
        .unwrap_or_else(|problem| die(EXIT_HANARE, format_args!("hanare-proxy: {problem}")));
    if options.kind == ATTACH_MEMBER {
        serve_pool(&options, clock);
    }
    let inherited = Inherited::look(&options);
    let space = attach::attach(&options);
    start::write(&space, &initial, &options, &inherited);
    program::set_path(options.path);
    initial.show_arguments_from(options.first_argument);
    inherited.restore_stack_limit();
    if let Some(socket) = options.hold {
        hold(socket);
    }
    let stderr = options.stats.then(Stderr::keep).flatten();
    let process = process::set(Process::new(space, clock, options.stats, stderr));

    // From here to START no thread could be told of a signal.
    signal::set_mask(!0);
    become_first_worker();
    for _ in 0..options.members {
        if let Err(error) = pooled::start(&process.space) {
            die(EXIT_HANARE, format_args!("cannot start pooled proxies: {error}"));
        }
    }
    signals::forward_fatal();
    if let Err(error) = sys::ioctl_plain(process.space.fd, IOCTL_START) {
        if error.0 == EIO {
            process::lwk_died();
        }
        die(EXIT_CANNOT_RUN, format_args!("cannot start the program: {error}"));
    }
    let mask = signals::applied(inherited.sigmask);
    signal::set_mask(mask);
    worker::serve(&FIRST_WORKER, mask)
}

/// Goes on after an execve, with all signals blocked: the LWK has the program already.
fn resume(from: &Resumption, initial: &Initial, clock: Clock) -> ! {
    process::set(exec::resume(from, initial, clock));
    become_first_worker();
    signals::forward_fatal();
    worker::serve(&FIRST_WORKER, !0)
}

/// Is a pooled proxy, until it has had nothing to do for a while or is killed: all signals are
/// blocked.
fn serve_pool(options: &Options, clock: Clock) -> ! {
    signal::set_mask(!0);
    let space = pooled::enter(options);
    process::set(Process::new(space, clock, false, None));
    become_first_worker();
    worker::serve(&FIRST_WORKER, !0)
}

/// Makes this thread the worker of slot 0; the process is attached.
fn become_first_worker() {
    worker::become_worker(&FIRST_WORKER);
    // What Linux has settled when it started us is true of the program.
    FIRST_WORKER.gained.store(!sys::is_dumpable(), Ordering::Relaxed);
}

/// Tells the tracer or debugger at the other end that there is a process now, and
/// waits until it has taken hold of it, or is gone.
fn hold(socket: u32) {
    let _ = sys::write(socket, b"!");
    let _ = sys::read(socket, &mut [0]);
    sys::close(socket);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    die(EXIT_HANARE, format_args!("hanare-proxy failed: {}; please report this", info.message()))
}
