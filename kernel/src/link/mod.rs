//! How a call reaches who executes it; services; what Linux asks.

pub mod bells;
pub mod caller;
pub mod delegate;
pub mod direct;
pub mod inbound;
pub mod pool;
pub mod services;
