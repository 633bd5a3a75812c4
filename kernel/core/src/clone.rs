//! Requests of clone(2) and clone3(2): their arguments read, and checked against each other.

use crate::errno::{E2BIG, EFAULT, EINVAL, Result};
use crate::usermemory::UserMemory;
use hanare_abi::layout::USER_MAX;
use zerocopy::IntoBytes;

/// Clone flags (clone(2)).
#[allow(missing_docs, reason = "the names are Linux'")]
pub mod flag {
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const SIGHAND: u64 = 0x800;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const THREAD: u64 = 0x1_0000;
    pub const SYSVSEM: u64 = 0x4_0000;
    pub const SETTLS: u64 = 0x8_0000;
    pub const PARENT_SETTID: u64 = 0x10_0000;
    pub const CHILD_CLEARTID: u64 = 0x20_0000;
    pub const CHILD_SETTID: u64 = 0x100_0000;
    pub const PIDFD: u64 = 0x1000;
    pub const DETACHED: u64 = 0x40_0000;
    pub const NEWTIME: u64 = 0x80;
    pub const NEWNS: u64 = 0x2_0000;
    pub const NEWIPC: u64 = 0x800_0000;
    pub const NEWUSER: u64 = 0x1000_0000;
    pub const NEWPID: u64 = 0x2000_0000;
    pub const IO: u64 = 0x8000_0000;
    pub const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
    pub const INTO_CGROUP: u64 = 0x2_0000_0000;
    pub const NAMESPACES: u64 = 0x7e02_0080;
    /// Flags that Linux carries out for a new process, in the proxy's own clone3.
    pub const LINUX: u64 = NAMESPACES | PARENT | PIDFD | FS | IO | INTO_CGROUP;
}

/// A request for a new thread or process, by clone or clone3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// CLONE_* without the exit signal.
    pub flags: u64,
    /// Signal to the parent at the end.
    pub exit_signal: u64,
    /// New stack pointer, 0: the caller's.
    pub stack: u64,
    /// CLONE_PARENT_SETTID.
    pub parent_tid: u64,
    /// CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
    pub child_tid: u64,
    /// CLONE_SETTLS.
    pub tls: u64,
    /// CLONE_PIDFD: where the descriptor goes.
    pub pidfd: u64,
    /// Wanted process ids, an array in the caller's memory, or null.
    pub set_tid: u64,
    /// Entries of the array `set_tid`.
    pub set_tid_size: u64,
    /// CLONE_INTO_CGROUP.
    pub cgroup: u64,
}

impl Request {
    /// CLONE_PARENT_SETTID where the child, which has the parent's memory, can write it, or 0.
    #[must_use]
    pub const fn parent_tid_in_child(&self) -> u64 {
        if self.flags & (flag::PARENT_SETTID | flag::NEWPID) == flag::PARENT_SETTID {
            self.parent_tid
        } else {
            0
        }
    }

    /// The request in the arguments of clone(2): the exit signal lies in the low byte of the flags,
    /// and the child's descriptor goes where its thread id would.
    ///
    /// # Errors
    /// `EINVAL`: both are wanted.
    pub fn of_clone(a: &[u64; 6]) -> Result<Self> {
        let flags = a[0] & 0xffff_ff00;
        if flags & flag::PIDFD != 0 && flags & flag::PARENT_SETTID != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            flags,
            // A signal that does not exist is never sent.
            exit_signal: Some(a[0] & 0xff).filter(|&signal| signal <= 64).unwrap_or(0),
            stack: a[1],
            parent_tid: a[2],
            child_tid: a[3],
            tls: a[4],
            pidfd: if flags & flag::PIDFD != 0 { a[2] } else { 0 },
            ..Self::default()
        })
    }

    /// The request in the structure of clone3(2): `size` bytes at `at`.
    ///
    /// # Errors
    /// `EINVAL`: values that Linux does not take. `E2BIG`: something that is not known here.
    /// `EFAULT`.
    pub fn of_clone3(memory: &impl UserMemory, at: u64, size: u64) -> Result<Self> {
        const FIRST: u64 = 64;
        const LATEST: usize = 88;
        const PIECE: usize = 64;
        if size < FIRST {
            return Err(EINVAL);
        }
        if size > 4096 {
            return Err(E2BIG);
        }
        let mut words = [0u64; LATEST / 8];
        let known = LATEST.min(size as usize);
        memory.read(at, &mut words.as_mut_bytes()[..known]).map_err(|_| EFAULT)?;
        for from in (LATEST as u64..size).step_by(PIECE) {
            let (mut piece, left) = ([0; PIECE], (size - from) as usize);
            let piece = &mut piece[..left.min(PIECE)];
            memory.read(at.wrapping_add(from), piece).map_err(|_| EFAULT)?;
            if piece.iter().any(|&b| b != 0) {
                return Err(E2BIG);
            }
        }
        let [
            flags,
            pidfd,
            child_tid,
            parent_tid,
            exit_signal,
            stack,
            stack_size,
            tls,
            set_tid,
            set_tid_size,
            cgroup,
        ] = words;
        let bad_ids = set_tid_size > 32 || (set_tid == 0) != (set_tid_size == 0);
        let bad_group =
            flags & flag::INTO_CGROUP != 0 && (cgroup > i32::MAX as u64 || size < LATEST as u64);
        // The low byte was the exit signal; of it only CLONE_NEWTIME is a flag here.
        let unknown =
            flags & !(0xffff_ff00 | flag::NEWTIME | flag::CLEAR_SIGHAND | flag::INTO_CGROUP) != 0
                || flags & flag::DETACHED != 0;
        let both = flag::SIGHAND | flag::CLEAR_SIGHAND;
        let both_told = flags & (flag::PIDFD | flag::PARENT_SETTID)
            == flag::PIDFD | flag::PARENT_SETTID
            && pidfd == parent_tid;
        let no_signal = flags & (flag::THREAD | flag::PARENT) != 0 && exit_signal != 0;
        if bad_ids
            || bad_group
            || unknown
            || both_told
            || no_signal
            || flags & both == both
            || exit_signal > 64
            || (stack == 0) != (stack_size == 0)
        {
            return Err(EINVAL);
        }
        let top = stack.checked_add(stack_size).filter(|&top| top <= USER_MAX).ok_or(EINVAL)?;
        Ok(Self {
            flags,
            exit_signal,
            stack: top,
            parent_tid,
            child_tid,
            tls,
            pidfd,
            set_tid,
            set_tid_size,
            cgroup,
        })
    }

    /// As copy_process of Linux checks them.
    ///
    /// # Errors
    /// `EINVAL`: flags that do not go together.
    pub const fn check(&self) -> Result<()> {
        let semaphores = self.has(flag::NEWIPC | flag::SYSVSEM);
        let file_system = self.has(flag::FS) && self.flags & (flag::NEWNS | flag::NEWUSER) != 0;
        let threaded = self.has(flag::THREAD)
            && (!self.has(flag::SIGHAND)
                || self.flags & (flag::NEWUSER | flag::NEWPID | flag::PIDFD) != 0);
        let shares = self.has(flag::SIGHAND | flag::VFORK) && !self.has(flag::THREAD);
        if semaphores
            || file_system
            || threaded
            || shares
            || self.has(flag::SIGHAND) && !self.has(flag::VM)
            || self.has(flag::PIDFD | flag::DETACHED)
        {
            return Err(EINVAL);
        }
        Ok(())
    }

    const fn has(&self, bits: u64) -> bool {
        self.flags & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usermemory::tests::Bytes;
    use std::vec;

    fn clone3(words: &[u64], size: u64) -> Result<Request> {
        let mut bytes = vec![0; size as usize];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Request::of_clone3(&Bytes(bytes), 0, size)
    }

    #[test]
    fn a_structure_of_a_later_linux_may_have_zeros_behind() {
        let known = clone3(&[0x1000, 1, 2, 3, 17], 88);
        let expected = Request {
            flags: 0x1000,
            pidfd: 1,
            child_tid: 2,
            parent_tid: 3,
            exit_signal: 17,
            ..Request::default()
        };
        assert_eq!(known, Ok(expected));
        assert_eq!(clone3(&[0x1000, 1, 2, 3, 17], 64), known);
        assert_eq!(clone3(&[0x1000, 1, 2, 3, 17], 4096), known);
        for at in [11, 18, 19, 511] {
            let mut words = [0; 512];
            words[at] = 1;
            assert_eq!(clone3(&words, 4096), Err(E2BIG), "{at}");
        }
        assert_eq!(clone3(&[], 63), Err(EINVAL));
        assert_eq!(clone3(&[], 4097), Err(E2BIG));
        assert_eq!(Request::of_clone3(&Bytes(vec![0; 90]), 0, 91), Err(EFAULT));
    }

    #[test]
    fn what_linux_does_not_take_is_refused() {
        let (top, stack) = (USER_MAX - 4096, 4096);
        assert_eq!(clone3(&[0, 0, 0, 0, 0, top, stack], 64).map(|r| r.stack), Ok(USER_MAX));
        for words in [
            &[1][..], // an exit signal among the flags
            &[flag::DETACHED],
            &[0, 0, 0, 0, 65],
            &[flag::THREAD, 0, 0, 0, 17],
            &[0, 0, 0, 0, 0, 4096], // a stack without a size
            &[0, 0, 0, 0, 0, top, stack + 1],
            &[0, 0, 0, 0, 0, u64::MAX, 4096],
            &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0, 1, 33],
            &[flag::INTO_CGROUP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 << 31],
            &[flag::PIDFD | flag::PARENT_SETTID, 8, 0, 8],
            &[flag::SIGHAND | flag::CLEAR_SIGHAND],
        ] {
            assert_eq!(clone3(words, 88), Err(EINVAL), "{words:x?}");
        }
        assert_eq!(clone3(&[flag::INTO_CGROUP], 80), Err(EINVAL));
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        let check = |flags| Request { flags, ..Request::default() }.check();
        let thread = flag::THREAD | flag::SIGHAND | flag::VM;
        for good in [0, thread, thread | flag::VFORK, flag::VM | flag::VFORK, flag::NEWNS] {
            assert_eq!(check(good), Ok(()), "{good:#x}");
        }
        for bad in [
            flag::THREAD,
            flag::SIGHAND,
            thread | flag::NEWUSER,
            thread | flag::PIDFD,
            flag::SIGHAND | flag::VM | flag::VFORK,
            flag::FS | flag::NEWNS,
            flag::NEWIPC | flag::SYSVSEM,
            flag::PIDFD | flag::DETACHED,
        ] {
            assert_eq!(check(bad), Err(EINVAL), "{bad:#x}");
        }
    }

    #[test]
    fn the_exit_signal_of_clone_lies_in_its_flags() {
        let of = |flags| Request::of_clone(&[flags, 1, 2, 3, 4, 5]);
        let asked = of(flag::PIDFD | 17).unwrap();
        assert_eq!((asked.flags, asked.exit_signal, asked.pidfd), (flag::PIDFD, 17, 2));
        assert_eq!(of(65).map(|r| r.exit_signal), Ok(0));
        assert_eq!(of(flag::PIDFD | flag::PARENT_SETTID), Err(EINVAL));
    }
}
