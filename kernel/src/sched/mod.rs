//! The scheduler: threads of each CPU, waiting and waking, of Linux, too; TLB shootdown; panic.

pub mod alone;
pub mod attention;
pub mod balance;
pub mod cpu_mask;
mod cpu_state;
pub mod cpus;
pub mod doorbell;
pub mod hold;
pub mod kick;
pub mod machinecheck;
pub mod panic;
pub mod park;
pub mod queue;
pub mod quota;
pub mod requests;
mod takeover;
pub mod task;
pub mod tlb;
pub mod turns;
pub mod user_mode;
pub mod wait;
