//! Rights and properties of a mapping.

#![expect(
    clippy::disallowed_methods,
    reason = "bitflags implements Extend, which allocates nothing here"
)]

use bitflags::bitflags;

bitflags! {
    /// Access rights; the bits are those of `PROT_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Prot: u32 {
        /// `PROT_READ`.
        const READ = 1;
        /// `PROT_WRITE`.
        const WRITE = 2;
        /// `PROT_EXEC`.
        const EXEC = 4;
    }

    /// Properties of a mapping.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct VmaFlags: u32 {
        /// `MAP_SHARED`: after fork both see each other's writes.
        const SHARED = 1 << 0;
        /// `MAP_GROWSDOWN`: extends downwards when touched below; has a guard gap.
        const GROWSDOWN = 1 << 1;
        /// `MAP_NORESERVE`.
        const NORESERVE = 1 << 2;
        /// The initial stack.
        const STACK = 1 << 3;
        /// The `brk` heap.
        const HEAP = 1 << 4;
        /// `mlock`ed.
        const LOCKED = 1 << 5;
        /// `MADV_DONTFORK`.
        const DONTFORK = 1 << 6;
        /// `MADV_WIPEONFORK`.
        const WIPEONFORK = 1 << 7;
        /// `MADV_HUGEPAGE`.
        const HUGE = 1 << 8;
        /// `MADV_NOHUGEPAGE`.
        const NOHUGE = 1 << 9;
        /// The vDSO or its data.
        const VDSO = 1 << 10;
        /// Put there by the kernel: may not be changed by the application.
        const FIXED_KERNEL = 1 << 11;
        /// `MADV_DONTDUMP`.
        const DONTDUMP = 1 << 12;
        /// `MLOCK_ONFAULT`.
        const LOCK_ON_FAULT = 1 << 13;
        /// `MAP_HUGETLB`: large pages or nothing.
        const HUGETLB = 1 << 14;
        /// The mapping is one of a file and was never writable: its pages are what the file holds.
        const UNWRITTEN = 1 << 15;
        /// `MADV_RANDOM`.
        const RANDOM = 1 << 16;
        /// `MADV_SEQUENTIAL`.
        const SEQUENTIAL = 1 << 17;
        /// `MAP_HUGETLB` with pages of 1 GiB.
        const HUGETLB_1G = 1 << 18;
        /// A System V segment (`shmat`): `shmdt` removes it.
        const SYSV = 1 << 19;
        /// Shared memory without a file.
        const ANONYMOUS_SHARED = 1 << 20;
        /// A thread has Linux move it: others wait.
        const MOVING = 1 << 21;
        /// The mapping was there when `clear_refs` cleared soft-dirty bits last: without Linux'
        /// `VM_SOFTDIRTY`.
        const SOFT_CLEAN = 1 << 22;
    }
}
