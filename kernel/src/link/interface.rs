//! The interface between what a thread asks for and who executes it.

use crate::link::caller::Delegates;
use hanare_abi::control::Control;
use hanare_core::link::{Call, Outcome};

/// A way from a thread to who executes its calls, and to its proxy.
pub trait Link {
    /// Has a call of the running thread `context` executed, and waits for the outcome.
    fn call(&self, context: &(impl Delegates + ?Sized), call: Call) -> Outcome;

    /// Has the proxy serve a request of the LWK's own, by a worker that is in no call: that of the
    /// running thread `context`. Never [`Outcome::NotStarted`]: it is made again at once.
    fn ask(&self, context: &(impl Delegates + ?Sized), request: Control) -> Outcome;
}
