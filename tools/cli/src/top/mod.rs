//! `hanare top`: `look` measures, `screen` lays out what was seen, `columns` chooses what fits.

pub mod columns;
pub mod look;
pub mod screen;
