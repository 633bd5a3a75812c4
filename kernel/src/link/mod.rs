//! The link: how a call reaches the side that executes it; services; requests of Linux.

pub mod bells;
pub mod caller;
pub mod delegate;
pub mod direct;
pub mod inbound;
pub mod pool;
pub mod services;
