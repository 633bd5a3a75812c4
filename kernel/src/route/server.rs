//! The servers of a program's process: the request box, and the calling thread's own worker.

use crate::link::direct;
use crate::process::thread::Thread;
use crate::route::boxed;
use hanare_core::link::route::Server;
use hanare_core::link::{Call, Outcome};

/// Has `server` execute `message`, which stands for the call `call` of the running thread `me`. The
/// own worker executes what no server of the request box takes.
pub fn execute(me: &Thread, server: Server, call: &Call, message: &Call) -> (Outcome, bool) {
    let boxed = match server {
        Server::Boxed => boxed::call(me, call, message),
        Server::Direct | Server::Pooled | Server::Utility | Server::Claimed => None,
    };
    boxed.unwrap_or_else(|| (direct::call(me, *message), false))
}
