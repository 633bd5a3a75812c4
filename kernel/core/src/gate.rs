//! The gate before user mode: why a thread stops there, in order ([`Reason`]), and what a request
//! of a tracer or a debugger makes of a thread that is stopped ([`Parking`]) and of its process
//! ([`Stop`]). `docs/gate.md` says why; `gate/tests.rs` explores every order of what threads,
//! tracers and debuggers do.

mod parking;
mod stop;
#[cfg(test)]
mod tests;

pub use parking::{Parking, TRAP_FLAG, Trap, Who};
pub use stop::Stop;

/// Defines the reasons, in the order in which they are seen to.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Why a thread does not enter user mode yet, in the order in which it is seen to.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            /// All reasons, in their order.
            pub const ALL: [Reason; [$(stringify!($name)),+].len()] = [$(Reason::$name),+];
        }

        impl Pass {
            /// The first new reason that stands: no loop, so that of each only its own part of
            /// `stands` is left.
            #[inline(always)]
            fn first(self, stands: impl Fn(Reason) -> bool) -> Option<Reason> {
                $(
                    if self.is_new(Reason::$name) && stands(Reason::$name) {
                        return Some(Reason::$name);
                    }
                )+
                None
            }
        }
    };
}

reasons! {
    /// The thread has to end.
    End,
    /// Another thread makes a core dump.
    Dump,
    /// Linux has stopped the process.
    Pause,
    /// CPU time may be used up that a timer or a limit waits for.
    Time,
    /// A step of its debugger's is over.
    DebuggerStep,
    /// A tracer or a debugger holds it.
    Hold,
    /// Registers may have been set that the thread left where it waited in the kernel.
    Registers,
    /// The tracer has given the thread selectors with which no CPU enters user mode.
    Selectors,
    /// The thread has begun a new program, of which its tracer is to hear.
    Exec,
    /// A step of its tracer's is over.
    TracerStep,
    /// A signal may wait for delivery.
    Signal,
}

impl Reason {
    /// Whether the reason may still stand after its step is done: [`Pass::next`] then skips it.
    const fn remains(self) -> bool {
        matches!(self, Reason::Dump | Reason::Time)
    }
}

/// A thread's way through the gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Reasons that remain and were seen to; a bit each.
    seen_to: u16,
}

impl Pass {
    /// The first reason that stands. One that remains comes once, and once more after each other
    /// reason, since that may have taken time.
    #[inline(always)]
    pub fn next(&mut self, stands: impl Fn(Reason) -> bool) -> Option<Reason> {
        let next = self.first(stands)?;
        self.seen_to = if next.remains() { self.seen_to | 1 << next as u16 } else { 0 };
        Some(next)
    }

    const fn is_new(self, reason: Reason) -> bool {
        self.seen_to >> reason as u16 & 1 == 0
    }
}
