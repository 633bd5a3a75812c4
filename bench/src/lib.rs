//! Figures of the LWK against those of the Linux beside it: `hanare bench` and `hanare noise`.
//!
//! * `figure` says what a figure is.
//! * `groups/` has one file per group of figures, and [`groups::ALL`] lists them.
//! * `lab` boots, runs the measured program (`bench/guest`) on either kernel and reads its samples.
//! * `samples` makes medians of them.
//! * `report` collects them in a `run`, which is what the JSON has, with what `environment` knows
//!   of the machine, and prints it.
//! * `document` makes HTML and Markdown of a run, `compare` compares two.
//! * `native` has the figures that need no LWK.
//! * `noise` shows what disturbs programs that compute, with the same laboratory and samples.
//! * `command` is the command line.
//!
//! To add a figure: a row in its group, and a `report()` of the same id in the guest.
#![deny(unsafe_code)]

mod command;
mod compare;
mod computing;
mod document;
mod environment;
mod figure;
mod groups;
mod lab;
mod native;
mod noise;
mod published;
mod report;
mod run;
mod samples;

pub use command::Bench;
pub use noise::Noise;
