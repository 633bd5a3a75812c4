//! Page faults: of threads, and of Linux in the proxy; and pages offered before Linux faults.

pub mod linux;
pub mod offer;
pub mod thread;
pub mod transfer;
