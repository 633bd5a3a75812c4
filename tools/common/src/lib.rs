//! Parts that the commands of Hanare share.
//!
//! * [`output`] prints, [`table`] in columns; [`failure`] says what went wrong, and as which exit
//!   status
//! * [`cpu_list`] and [`size`] read what users write
//! * [`machine`] and [`interrupts`] ask Linux about this machine
//! * [`instances`] and [`processes`] ask about LWKs, and what runs on them
//! * [`find`] knows where our own files are
#![deny(unsafe_code)]

pub mod cpu_list;
pub mod failure;
pub mod find;
pub mod instances;
pub mod interrupts;
pub mod machine;
pub mod output;
pub mod processes;
pub mod size;
pub mod table;
