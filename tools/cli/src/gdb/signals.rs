//! Linux' signal numbers and GDB's.

use gdbstub::common::Signal;

/// Pairs of those below the real-time signals that differ, Linux' first.
const DIFFERENT: [(u32, u8); 18] = [
    (7, 10),
    (10, 30),
    (12, 31),
    (16, 143),
    (17, 20),
    (18, 19),
    (19, 17),
    (20, 18),
    (23, 16),
    (29, 23),
    (30, 32),
    (31, 12),
    (32, 77),
    (64, 78),
    (33, 45),
    (34, 46),
    (63, 75),
    (21, 21),
];

/// GDB's number of a signal.
pub fn to_gdb(linux: u32) -> Signal {
    if let Some((_, gdb)) = DIFFERENT.iter().find(|(known, _)| *known == linux) {
        return Signal(*gdb);
    }
    match linux {
        33..=63 => Signal((linux - 33 + 45) as u8),
        other => Signal(other as u8),
    }
}

/// Linux' number of a signal; 0: it has none.
pub fn from_gdb(gdb: Signal) -> u32 {
    (1..=64).find(|&linux| to_gdb(linux) == gdb).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_comes_back() {
        for linux in 1..=64 {
            assert_eq!(from_gdb(to_gdb(linux)), linux);
        }
        assert_eq!(to_gdb(11), Signal::SIGSEGV);
        assert_eq!(to_gdb(10), Signal::SIGUSR1);
        assert_eq!(to_gdb(17), Signal::SIGCHLD);
        assert_eq!(to_gdb(2), Signal::SIGINT);
    }
}
