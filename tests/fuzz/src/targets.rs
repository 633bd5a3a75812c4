//! The targets, a file each.

mod arguments;
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

/// A parser, or several that read the same thing.
pub struct Target {
    /// How it is called.
    pub name: &'static str,
    /// Reads an input; panics where a property does not hold.
    pub check: fn(&[u8]),
    /// Bytes of an input at most: what it takes to meet all there is, soon.
    pub size_max: usize,
    /// Inputs to begin with, made from real data.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    elf::TARGET,
    script::TARGET,
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

/// The first bytes of files of this machine, of those that are there.
fn heads(paths: &[&str], most: usize) -> Vec<Vec<u8>> {
    let head = |path: &&str| {
        let mut bytes = std::fs::read(path).ok()?;
        bytes.truncate(most);
        Some(bytes)
    };
    paths.iter().filter_map(head).collect()
}
