//! Pages, and frames behind them: those that processes share, those that Linux may hold, and what a
//! change leaves to be done for other CPUs.

pub mod access;
pub mod content;
pub mod entry;
pub mod leftovers;
pub mod quarantine;
pub mod tlb_stale;
