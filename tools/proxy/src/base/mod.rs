//! What every other file may use: options, messages, short times.

pub mod argument;
pub mod clock;
pub mod message;
pub mod options;
