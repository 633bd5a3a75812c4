//! Part of the proxy's `sys` that its reader of the command line needs.

/// The arguments with which a proxy is started.
pub mod shared {
    use std::ffi::{CStr, CString};

    /// Arguments that lie in a process' memory for as long as it lives, were it one.
    pub struct Initial {
        /// Number of arguments.
        pub argc: usize,
        arguments: Vec<CString>,
    }

    impl Initial {
        /// With these arguments.
        ///
        /// # Safety
        /// Nothing that [`Self::argument`] has given is used when this one is gone.
        pub unsafe fn new(arguments: Vec<CString>) -> Self {
            Self { argc: arguments.len(), arguments }
        }

        /// Argument `index`, which must exist.
        pub fn argument(&self, index: usize) -> &'static CStr {
            // SAFETY: the string is there, and zero-terminated, as long as `self`; it is not used
            // for longer, see `new`.
            unsafe { CStr::from_ptr(self.arguments[index].as_ptr()) }
        }
    }
}
