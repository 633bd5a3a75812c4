//! The targets, a file each.

mod arguments;
mod binfmt;
mod clone;
mod command;
mod elf;
mod filter;
mod frame;
mod gdb;
mod message;
mod narrow;
mod options;
mod policy;
mod registers;
mod requestbox;
mod script;
mod slot;
mod start;
mod texts;
mod trace;

use crate::target::Target;

/// All of them.
pub const TARGETS: &[Target] = &[
    elf::TARGET,
    script::TARGET,
    binfmt::TARGET,
    filter::TARGET,
    narrow::TARGET,
    options::TARGET,
    arguments::TARGET,
    trace::TARGET,
    message::TARGET,
    start::TARGET,
    slot::TARGET,
    requestbox::TARGET,
    clone::TARGET,
    policy::TARGET,
    frame::TARGET,
    registers::TARGET,
    gdb::TARGET,
    command::TARGET,
    texts::TARGET,
];
