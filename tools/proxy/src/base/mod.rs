//! Base of all other files: options, messages, short times.

pub mod argument;
pub mod clock;
pub mod message;
pub mod options;
