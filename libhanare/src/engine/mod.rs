//! The library itself, of which the functions of C and the types of Rust are two faces.

pub mod attributes;
pub mod batch;
pub mod bells;
pub mod cancel;
pub mod cpus;

pub mod fork;
pub mod keeper;
pub mod lock;
pub mod queue;
pub mod results;
pub mod signal;
pub mod submit;
pub mod time;
pub mod wakers;
pub mod what;
pub mod worker;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub i32);

/// Returns this error number as an `Err`.
///
/// # Errors
/// Always.
pub const fn error<T>(number: i32) -> Result<T, Error> {
    Err(Error(number))
}

/// Set in the word of a credit's ticket while its result is for `hanare_next`.
pub const IS_NEXT: u64 = 1 << 3;
