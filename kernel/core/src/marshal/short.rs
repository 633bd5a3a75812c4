//! Transfers that may be shorter than a call asks for, where all of it does not fit.

#![allow(non_upper_case_globals)] // of linux-raw-sys

use crate::syscalls::arguments::Argument;
use crate::syscalls::row;
use linux_raw_sys::general::*;

/// When a call may be made with fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Never: fewer bytes mean something else.
    Never,
    /// Where the descriptor is a regular file, or a stream. Not where each call is a message, nor
    /// where a write is to be seen as one by others: datagrams, O_APPEND, pipes, timers, counters.
    Stream,
    /// Always: a shorter answer says the same, and the next call goes on.
    Always,
}

/// When a call may be made with fewer bytes, and the arguments with at most `most` of them.
#[must_use]
pub fn shorter(number: u32, args: &[u64; 6], most: u64) -> (Short, [u64; 6]) {
    let short = match number {
        __NR_read | __NR_write | __NR_pread64 | __NR_pwrite64 => Short::Stream,
        __NR_getdents | __NR_getdents64 => Short::Always,
        _ => return (Short::Never, *args),
    };
    let mut shorter = *args;
    for argument in row(u64::from(number)).map_or(&[][..], |row| row.arguments) {
        if let Argument::Input(n) | Argument::Output(n) | Argument::Records(n) = argument {
            let count = &mut shorter[usize::from(*n)];
            *count = most.min(*count);
        }
    }
    (short, shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_transfers_become_shorter() {
        let args = [3, 0x1000, 1 << 20, 7, 0, 0];
        let less = [3, 0x1000, 4096, 7, 0, 0];
        assert_eq!(shorter(__NR_pread64, &args, 4096), (Short::Stream, less));
        assert_eq!(shorter(__NR_getdents64, &args, 4096), (Short::Always, less));
        assert_eq!(shorter(__NR_readv, &args, 4096), (Short::Never, args));
        assert_eq!(shorter(__NR_sendto, &args, 4096), (Short::Never, args));
        assert_eq!(shorter(__NR_read, &args, 1 << 30), (Short::Stream, args));
    }
}
