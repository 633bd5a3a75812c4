//! The groups of figures. A new one: a file with a [`Group`], a row here.

mod boot;
mod calls;
mod delegation;
mod files;
mod memory;
mod noise;
mod posted;
mod processes;
mod servers;
mod signals;
mod start;

use super::figure::Group;

/// Groups that take longer than all others together: measured where they are named.
pub const LONG: [&str; 8] = [
    "posted",
    "posted-lengths",
    "posted-functions",
    "checkpoints",
    "servers-web",
    "servers-nginx",
    "servers-redis",
    "servers-memcached",
];

/// All, in the order in which they are measured: those that boot for themselves
/// first and last.
pub const ALL: &[Group] = &[
    boot::BOOT,
    start::START,
    calls::CALLS,
    calls::AFTER,
    files::FILES,
    delegation::TRANSFER,
    delegation::DEVICE,
    delegation::PACKED,
    posted::POSTED,
    posted::LENGTHS,
    posted::FUNCTIONS,
    posted::CHECKPOINTS,
    servers::WEB,
    servers::NGINX,
    servers::REDIS,
    servers::MEMCACHED,
    memory::MEMORY,
    signals::SIGNALS,
    processes::PROCESSES,
    noise::NOISE,
    calls::DOORBELL,
    delegation::BOX,
];
