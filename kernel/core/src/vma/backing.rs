//! Backings of mappings: the sources of their pages.

use crate::coherence::Kept;

/// Contents of a special mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// The vDSO's code.
    Vdso,
    /// The clock page and other data of the vDSO.
    Vvar,
    /// An empty vvar area, for a process whose clocks are not the machine's: the vDSO's code makes
    /// the system call then.
    VvarEmpty,
    /// Physical memory of the instance that is no application memory: address of the first byte.
    Physical(u64),
    /// Nothing: addresses that are kept for the time of a call, or longer; by which thread.
    Kept(Kept, u32),
}

/// Backing of a mapping. `F` is a handle to a file (an `Arc`, in the kernel).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing<F> {
    /// Zeros at first.
    Anonymous,
    /// Pages of a file, copied when written. `offset`: bytes in the file of the first page.
    PrivateFile {
        /// The file.
        file: F,
        /// Bytes, multiple of 4096.
        offset: u64,
    },
    /// A Linux mapping in the proxy, same frames.
    SharedLinux {
        /// Id of the watch (`SERVICE_WATCH`); 0: none.
        watch: u32,
        /// The file, if it is one (for `/proc/self/maps`).
        file: Option<F>,
        /// Bytes, multiple of 4096.
        offset: u64,
    },
    /// Kernel-provided pages.
    Special(SpecialKind),
}

impl<F: Clone + PartialEq> Backing<F> {
    /// The backing `bytes` further on.
    #[must_use]
    pub fn advanced(&self, bytes: u64) -> Self {
        let mut backing = self.clone();
        match &mut backing {
            Self::PrivateFile { offset, .. } | Self::SharedLinux { offset, .. } => {
                *offset = offset.wrapping_add(bytes);
            }
            Self::Special(SpecialKind::Physical(address)) => *address += bytes,
            Self::Anonymous | Self::Special(_) => {}
        }
        backing
    }

    /// Whether `next` continues this backing after `bytes`.
    pub(super) fn continued_by(&self, next: &Self, bytes: u64) -> bool {
        match (self, next) {
            (Self::Anonymous, Self::Anonymous) => true,
            (
                Self::PrivateFile { file: a, offset: from },
                Self::PrivateFile { file: b, offset: to },
            ) => a == b && from.checked_add(bytes) == Some(*to),
            (
                Self::SharedLinux { watch: x, file: a, offset: from },
                Self::SharedLinux { watch: y, file: b, offset: to },
            ) => x == y && a == b && from.checked_add(bytes) == Some(*to),
            _ => false,
        }
    }
}
