//! Threads of the library.

use std::any::TypeId;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Child;
use super::mapped::Mapped;

/// Id of the calling thread.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: it returns a number.
    unsafe { libc::gettid() }
}

thread_local! {
    /// The memory that the calling thread was started for, and the type of its words.
    static SELF: Cell<(*const (), Option<TypeId>)> = const { Cell::new((null(), None)) };
}

/// Whether the calling thread was started for this memory.
#[must_use]
pub fn is_thread_of<T>(memory: &Mapped<T>) -> bool {
    std::ptr::eq(SELF.get().0, (&raw const *memory).cast())
}

/// Calls a function with the memory that the calling thread was started for. `None`: for none of
/// this type.
pub fn with_own<T: 'static, R>(function: impl FnOnce(&Mapped<T>) -> R) -> Option<R> {
    let (memory, words) = SELF.get();
    // SAFETY: `begin` has entered it with its type. It is there while the thread is counted.
    (words == Some(TypeId::of::<T>())).then(|| function(unsafe { &*memory.cast::<Mapped<T>>() }))
}

impl<T> Mapped<T> {
    /// In the child of a fork, where it is in a list: of the threads that use it the calling one
    /// may be there, and no other.
    pub fn forget_threads(&self, _: &Child) {
        self.set_users(1 + u32::from(is_thread_of(self)));
    }
}

/// Place for one thread that uses the memory of a queue.
#[derive(Debug)]
pub struct Thread(AtomicU64);

/// Argument of a thread.
struct Start<T> {
    memory: *const Mapped<T>,
    index: u32,
    main: fn(&Mapped<T>, u32),
}

impl Thread {
    /// A place for a thread, without one yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts a thread in this place, where there is none: `main` is given the memory, which stays
    /// until it has returned, and the number. All signals are blocked there.
    ///
    /// # Errors
    /// The error of pthread_create(3), a negative number.
    pub fn start<T: Sync + 'static>(
        &self,
        memory: &Mapped<T>,
        index: u32,
        main: fn(&Mapped<T>, u32),
    ) -> Result<(), i32> {
        memory.enter();
        let start = Box::into_raw(Box::new(Start { memory, index, main }));
        // SAFETY: `begin` may be called with what was made for it: the memory is counted as used,
        // and any thread may have references of it.
        match unsafe { start_thread(begin::<T>, start.cast()) } {
            Ok(thread) => {
                self.0.store(thread, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                // SAFETY: no thread was given it.
                drop(unsafe { Box::from_raw(start) });
                memory.leave();
                Err(error)
            }
        }
    }

    /// Waits for the end of the thread, if there is one.
    pub fn join(&self) {
        let thread = self.0.swap(0, Ordering::AcqRel);
        if thread != 0 {
            // SAFETY: `start` has entered it, and it is taken out once.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
    }

    /// Whether there is a thread.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// In the child of a fork: it is not there.
    pub fn forget(&self, _: &Child) {
        self.0.store(0, Ordering::Relaxed);
    }
}

extern "C" fn begin<T: 'static>(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has made it for this thread, and has counted the memory as used.
    let (memory, index, main) = unsafe {
        let Start { memory, index, main } = *Box::from_raw(start.cast::<Start<T>>());
        (&*memory, index, main)
    };
    SELF.set(((&raw const *memory).cast(), Some(TypeId::of::<T>())));
    main(memory, index);
    SELF.set((null(), None));
    memory.leave();
    null_mut()
}

/// Executes a function in a thread of its own, in which all signals are blocked, and waits for it.
///
/// # Errors
/// The error of pthread_create(3), a negative number.
///
/// # Panics
/// If the function ends its thread.
pub fn beside<R: Send>(function: impl FnOnce() -> R + Send) -> Result<R, i32> {
    extern "C" fn run<F: FnOnce() -> R, R>(both: *mut c_void) -> *mut c_void {
        // SAFETY: the thread that has started this one waits for it, and does not use them.
        let (function, result) = unsafe { &mut *both.cast::<(Option<F>, Option<R>)>() };
        *result = function.take().map(|function| function());
        null_mut()
    }
    const fn run_of<F: FnOnce() -> R, R>(_: &(Option<F>, Option<R>)) -> Main {
        run::<F, R>
    }
    let mut both = (Some(function), None);
    let run = run_of(&both);
    // SAFETY: both may be used by another thread, and stay until it has been joined.
    unsafe {
        let thread = start_thread(run, (&raw mut both).cast())?;
        if libc::pthread_join(thread, null_mut()) != 0 {
            std::process::abort();
        }
    }
    Ok(both.1.expect("the function has returned"))
}

type Main = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a thread in which all signals are blocked. An error is a negative number.
///
/// # Safety
/// `main` may be called with `argument` in another thread.
unsafe fn start_thread(main: Main, argument: *mut c_void) -> Result<libc::pthread_t, i32> {
    // SAFETY: sets and the thread's name are written before they are used; the rest is the
    // caller's.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = 0;
        let error = libc::pthread_create(&raw mut thread, std::ptr::null(), main, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if error == 0 { Ok(thread) } else { Err(-error) }
    }
}
