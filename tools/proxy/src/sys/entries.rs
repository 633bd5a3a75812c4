//! The entry points: functions of the layers above that are called from here, because Linux
//! begins something. `main.rs` names them, once; each is bound to its caller in `sys` by its
//! symbol when the proxy is linked.

/// Names the entry points.
///
/// * `start`: the process begins, with what Linux has put on its stack.
/// * `thread`: a thread made by [`super::thread`] begins, as its worker; all signals are blocked.
/// * `signal`: a signal that is forwarded has come, all others are blocked.
macro_rules! entry_points {
    (start: $start:path, thread: $thread:path, signal: $signal:path $(,)?) => {
        // The signatures are those with which `sys` declares these symbols.
        #[allow(unsafe_code)]
        const _: () = {
            use $crate::sys::shared::Initial;
            use $crate::sys::signal::{Frame, Info};
            use $crate::sys::worker::Worker;

            #[unsafe(no_mangle)]
            extern "Rust" fn proxy_start(initial: Initial) -> ! {
                let start: fn(Initial) -> ! = $start;
                start(initial)
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn proxy_thread(worker: &'static Worker) -> ! {
                let thread: fn(&'static Worker) -> ! = $thread;
                thread(worker)
            }
            #[unsafe(no_mangle)]
            extern "Rust" fn proxy_signal(signal: u32, info: &Info, frame: &mut Frame) {
                let taken: fn(u32, &Info, &mut Frame) = $signal;
                taken(signal, info, frame)
            }
        };
    };
}
pub(crate) use entry_points;
