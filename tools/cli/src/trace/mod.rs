//! `hanare trace`: from records to lines.

pub mod format;
pub mod launch;
mod names;
pub mod printer;
mod quote;
mod record;
mod structures;
mod summary;
