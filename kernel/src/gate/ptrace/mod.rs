//! ptrace(2), the tracee's side: what a traced thread does for its tracer.
//!
//! Linux does the tracing, of the workers: it knows the tracer of each, stops them at signals and
//! tells wait(2). A thread whose worker is stopped is *held* from the moment its tracer hears of
//! the stop ([`tracer`]). It leaves its registers in a [`Snapshot`]: where it is, if it waits in
//! the kernel, else on its way to user mode. What only the LWK knows of (faults, breakpoints,
//! system calls, execve) becomes a stop when the thread has its worker take a signal
//! (`Control::Trap`). The tracer's answer is what comes back.

mod children;
mod held;
mod memory;
mod queries;
mod registers;
mod tracee;
mod tracer;
mod waits;

pub use children::{
    before_child, hold_child, on_child, on_exit, on_vfork, on_vfork_done, thread_gone,
};
pub use memory::memory_file;
pub use tracee::{
    asks, asks_call, continue_as, enter, exec_stop, leave, on_exec, on_forced, on_rights, permit,
    permits, step_stop, succeed,
};
pub use tracer::call;
pub use waits::wait;
