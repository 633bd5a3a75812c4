//! How threads and processes begin, take another program, and end.

pub mod begin;
mod binfmt;
pub mod child;
pub mod clone;
mod comes;
pub mod depart;
pub mod exec;
pub mod exit;
mod expected;
pub mod fork;
pub mod image;
pub mod newborn;
pub mod open;
pub mod program;
pub mod rights;
mod running;
pub mod share;
pub mod target;
