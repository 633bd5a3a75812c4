//! The base of the kernel: log, memory, accounts, locks, time.

pub mod accounts;
pub mod badmemory;
pub mod chain;
pub mod counts;
pub mod failing;
pub mod frames;
pub mod given_up;
pub mod heap;
pub mod ledger;
pub mod line;
pub mod lists;
pub mod lock;
pub mod log;
pub mod log_limit;
pub mod mappings;
pub mod owners;
pub mod pages;
pub mod quarantine;
pub mod stacks;
pub mod stocks;
pub mod tables;
pub mod time;
pub mod user;
pub mod usermemory;
