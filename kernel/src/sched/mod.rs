//! What each CPU runs; waiting and waking, of Linux, too; TLB shootdown; panic.

pub mod balance;
pub mod cpus;
pub mod doorbell;
pub mod hold;
pub mod kick;
pub mod panic;
pub mod post;
pub mod quota;
pub mod tlb;
pub mod turns;
pub mod wait;
