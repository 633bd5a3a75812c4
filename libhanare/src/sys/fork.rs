//! Functions that run around a fork, and at exit.

use std::ffi::c_int;

/// Proof that the calling thread is the only one: that of a child which was just made by fork(2).
#[derive(Debug)]
pub struct Child(());

/// Work around a fork of the program.
pub trait AtFork {
    /// Work before the fork.
    fn before();
    /// Work behind the fork, in the parent.
    fn in_parent();
    /// Work behind the fork, in the child.
    fn in_child(child: &Child);
}

extern "C" fn before<F: AtFork>() {
    F::before();
}

extern "C" fn in_parent<F: AtFork>() {
    F::in_parent();
}

extern "C" fn in_child<F: AtFork>() {
    F::in_child(&Child(()));
}

/// From now on each fork does that. `false`: there is no memory.
#[must_use]
pub fn at_fork<F: AtFork>() -> bool {
    // SAFETY: the functions last as long as the program: a library that has threads is not
    // unloaded. The C library calls the last one in a child alone.
    unsafe {
        libc::pthread_atfork(Some(before::<F>), Some(in_parent::<F>), Some(in_child::<F>)) == 0
    }
}

/// exit(3) calls the function. `false`: there is no memory.
#[must_use]
pub fn at_exit(function: extern "C" fn()) -> bool {
    // SAFETY: the function lasts as long as the program.
    unsafe { libc::atexit(function) == 0 }
}

/// Ends the program as exit(3): the program's handlers run.
pub fn exit(status: c_int) -> ! {
    // SAFETY: any thread may end the program.
    unsafe { libc::exit(status) }
}
