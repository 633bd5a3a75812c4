//! Control requests of the LWK, a file each, and how the process starts its program.

pub mod dump;
pub mod exec;
pub mod fork;
pub mod program;
pub mod pseudo;
pub mod start;
