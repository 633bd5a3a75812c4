//! Requests of Linux, as the scheduler knows them: there are some, and they can be served. The
//! functions that serve them are set at boot.

use spin::Once;

/// Functions that serve the requests of Linux to the calling CPU.
pub struct Server {
    /// Whether there is something to serve.
    pub is_asked: fn() -> bool,
    /// Serves the oldest request. False: there is none.
    pub serve_one: fn() -> bool,
    /// Serves what there is, but not for ever.
    pub drain: fn(),
}

static SERVER: Once<&Server> = Once::new();

/// Said once, at boot.
pub fn init(server: &'static Server) {
    SERVER.call_once(|| server);
}

/// Whether Linux asks the calling CPU for something.
pub fn is_asked() -> bool {
    SERVER.get().is_some_and(|server| (server.is_asked)())
}

/// Serves the oldest request. False: there is none.
pub fn serve_one() -> bool {
    SERVER.get().is_some_and(|server| (server.serve_one)())
}

/// Serves what there is, but not for ever.
pub fn drain() {
    if let Some(server) = SERVER.get() {
        (server.drain)();
    }
}
