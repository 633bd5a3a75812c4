//! Every limit of the LWK, in one place.

pub use hanare_abi::layout::{USER_MAX, USER_MIN};

/// Mappings of one address space that are not cut any more, and one less than the most there
/// are (Linux' default `vm.max_map_count`).
pub const MAX_VMAS: usize = 65_530;
/// Bytes kept free below a mapping that grows down (Linux' `stack_guard_gap`).
pub const STACK_GUARD_GAP: u64 = 1 << 20;
/// The initial stack grows in steps of so many bytes, as much as a fault brings in.
pub const STACK_STEP: u64 = 64 << 10;
/// Bytes of the initial stack below its first contents (Linux' `stack_expand`).
pub const STACK_EXPAND: u64 = 128 << 10;
/// End (exclusive) of the addresses that Linux' checks of ranges let a program have
/// (`TASK_SIZE_MAX`).
pub const TASK_SIZE: u64 = (1 << 47) - 4096;
/// Largest buddy order: 2^18 pages, 1 GiB.
pub const MAX_ORDER: u32 = 18;
/// Number of buddy orders.
pub const ORDERS: usize = MAX_ORDER as usize + 1;
/// Bytes of one argument or environment string with its zero (Linux' `MAX_ARG_STRLEN`).
pub const MAX_ARG_STRLEN: usize = 32 * 4096;
/// Most argument and environment strings (Linux' `MAX_ARG_STRINGS`).
pub const MAX_ARG_STRINGS: usize = 0x7fff_ffff;
/// Bytes of arguments and environment that always fit (Linux' `ARG_MAX`).
pub const ARG_MIN_TOTAL: u64 = 128 << 10;
/// Bytes of arguments and environment that never fit: 3/4 of 8 MiB.
pub const ARG_MAX_TOTAL: u64 = 6 << 20;
/// Bytes of a path with its zero.
pub const PATH_MAX: usize = 4096;
/// Bytes at the start of a file that decide how it is executed (`BINPRM_BUF_SIZE`).
pub const EXEC_HEAD: usize = 256;
/// Most interpreters one after the other (`#!` of a `#!`): Linux' `exec_binprm`.
pub const MAX_INTERPRETERS: u32 = 5;
/// Most bytes of program headers (Linux' `load_elf_phdrs`).
pub const MAX_PHDR_BYTES: usize = 65_536;
/// Signals queued to one process or thread (Linux: RLIMIT_SIGPENDING).
pub const MAX_QUEUED_SIGNALS: usize = 16_384;
/// Bytes of a thread's name with its zero (`TASK_COMM_LEN`).
pub const COMM_SIZE: usize = 16;
/// Smallest signal stack without extended state (`MINSIGSTKSZ`).
pub const MIN_SIGNAL_STACK: u64 = 2048;
