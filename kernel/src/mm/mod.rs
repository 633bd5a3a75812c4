//! Memory of a process: the VMA map and the page table, kept in step.
//!
//! Rule: the lock of an [`AddressSpace`] is never held while waiting for Linux. Changes are made
//! under the lock. What Linux has seen it forgets before a change, by a transaction (`change`). An
//! unmapping is made first, and its addresses stay reserved until Linux has forgotten them. Frames
//! are freed after both.
//!
//! From the lowest to the highest:
//!
//! * what an address space is made of: `access`, `stale`, `quarantine`, `content`, `removed`;
//! * the address space itself: `address_space`, its lock (`guard`), its pages (`populate`, `known`,
//!   `fill`, `join`, `leaves`), where they lie (`policy`), `limits`, `vdso`;
//! * the space, which a proxy shares: `space`, `last_mapped`, `writes`, `messages` and their frames
//!   (`frames_of_message`); the thread that changes it: `caller`;
//! * what is done to it: `release`, `bad`, `huge`, `reserve`, `free`, `shared`, `unmap`, `place`,
//!   `files`, `change`, `protect`, `fork`, `patch`;
//! * page faults, of threads (`fault`) and of proxies (`linux`), and what comes back where memory
//!   is short (`room`).

pub mod access;
pub mod address_space;
pub mod bad;
pub mod caller;
pub mod change;
pub mod content;
pub mod fault;
pub mod files;
pub mod fill;
pub mod fork;
pub mod frames_of_message;
pub mod free;
pub mod guard;
pub mod huge;
pub mod join;
pub mod known;
pub mod last_mapped;
pub mod leaves;
pub mod lent;
pub mod limits;
pub mod linux;
pub mod messages;
pub mod offer;
pub mod parts;
pub mod patch;
pub mod place;
pub mod policy;
pub mod populate;
pub mod protect;
pub mod quarantine;
pub mod refs;
pub mod release;
pub mod removed;
pub mod reserve;
pub mod shared;
pub mod space;
pub mod stale;
pub mod unmap;
pub mod vdso;
pub mod writes;

pub use address_space::{AddressSpace, anonymous, is_used, pte_bits};
pub use caller::Caller;
pub use content::{FileHandle, FileRef};
pub use guard::MmLock;
