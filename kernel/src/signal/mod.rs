//! Signals: pending, dispositions, delivery, frames, what becomes of interrupted calls.

pub mod dispositions;
pub mod pending;
pub mod restart;
pub mod sigframe;
pub mod signals;
pub mod unhandled;
