//! How a call reaches who executes it; services; what Linux asks.

pub mod bells;
pub mod boxed;
pub mod caller;
pub mod delegate;
pub mod direct;
pub mod inbound;
pub mod interface;
pub mod packed;
pub mod pool;
pub mod services;
