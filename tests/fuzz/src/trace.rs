//! Printer of `hanare trace` for records: the command's own files.

#![allow(dead_code)]

#[path = "../../../tools/cli/src/trace/format.rs"]
pub mod format;
#[path = "../../../tools/cli/src/trace/names.rs"]
mod names;
#[path = "../../../tools/cli/src/trace/printer.rs"]
pub mod printer;
#[path = "../../../tools/cli/src/trace/quote.rs"]
pub mod quote;
#[path = "../../../tools/cli/src/trace/record.rs"]
pub mod record;
#[path = "../../../tools/cli/src/trace/structures.rs"]
mod structures;
#[path = "../../../tools/cli/src/trace/summary.rs"]
mod summary;
