//! Operations of futex(2): the command, its clock, and the operands of FUTEX_WAKE_OP.

use crate::errno::{ENOSYS, Result};

/// An operation without its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// FUTEX_WAIT: with a time from now on.
    Wait,
    /// FUTEX_WAKE.
    Wake,
    /// FUTEX_REQUEUE.
    Requeue,
    /// FUTEX_CMP_REQUEUE.
    CmpRequeue,
    /// FUTEX_WAKE_OP.
    WakeOp,
    /// FUTEX_LOCK_PI: with a time of the clock that can be set.
    LockPi,
    /// FUTEX_UNLOCK_PI.
    UnlockPi,
    /// FUTEX_TRYLOCK_PI.
    TrylockPi,
    /// FUTEX_WAIT_BITSET.
    WaitBitset,
    /// FUTEX_WAKE_BITSET.
    WakeBitset,
    /// FUTEX_WAIT_REQUEUE_PI.
    WaitRequeuePi,
    /// FUTEX_CMP_REQUEUE_PI.
    CmpRequeuePi,
    /// FUTEX_LOCK_PI2.
    LockPi2,
}

impl Command {
    /// By number, without numbers that Linux has given up.
    const ALL: [Option<Self>; 14] = [
        Some(Self::Wait),
        Some(Self::Wake),
        None,
        Some(Self::Requeue),
        Some(Self::CmpRequeue),
        Some(Self::WakeOp),
        Some(Self::LockPi),
        Some(Self::UnlockPi),
        Some(Self::TrylockPi),
        Some(Self::WaitBitset),
        Some(Self::WakeBitset),
        Some(Self::WaitRequeuePi),
        Some(Self::CmpRequeuePi),
        Some(Self::LockPi2),
    ];

    const fn may_name_a_clock(self) -> bool {
        matches!(self, Self::WaitBitset | Self::WaitRequeuePi | Self::LockPi2)
    }
}

/// The second argument of futex(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    number: u32,
    /// FUTEX_PRIVATE_FLAG.
    pub is_private: bool,
    names_realtime: bool,
}

/// Clock and start of an operation's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The operation has no timeout: the argument may be a number.
    No,
    /// The timeout counts from now on.
    FromNow,
    /// The timeout is a time of CLOCK_MONOTONIC.
    Monotonic,
    /// The timeout is a time of CLOCK_REALTIME.
    Realtime,
}

impl Operation {
    /// FUTEX_PRIVATE_FLAG.
    pub const PRIVATE: u32 = 128;
    /// FUTEX_CLOCK_REALTIME.
    pub const CLOCK_REALTIME: u32 = 256;

    /// The operation in an argument.
    #[must_use]
    pub const fn of(op: u32) -> Self {
        Self {
            number: op & !(Self::PRIVATE | Self::CLOCK_REALTIME),
            is_private: op & Self::PRIVATE != 0,
            names_realtime: op & Self::CLOCK_REALTIME != 0,
        }
    }

    fn known(self) -> Option<Command> {
        Command::ALL.get(self.number as usize).copied().flatten()
    }

    /// The command without flags.
    ///
    /// # Errors
    /// `ENOSYS`: nothing that there is, or a clock named where none is.
    pub fn command(self) -> Result<Command> {
        let command = self.known().ok_or(ENOSYS)?;
        if self.names_realtime && !command.may_name_a_clock() { Err(ENOSYS) } else { Ok(command) }
    }

    /// Clock and start of the timeout, which Linux reads before it looks at any other argument.
    #[must_use]
    pub fn timed(self) -> Timed {
        match self.known() {
            Some(Command::Wait) => Timed::FromNow,
            Some(Command::LockPi) => Timed::Realtime,
            Some(Command::WaitBitset | Command::WaitRequeuePi | Command::LockPi2) => {
                if self.names_realtime { Timed::Realtime } else { Timed::Monotonic }
            }
            _ => Timed::No,
        }
    }
}

/// The sixth argument of FUTEX_WAKE_OP: what is done to the second word, and of which former values
/// its waiters are woken.
#[derive(Clone, Copy, Debug)]
pub struct WakeOp(u32);

impl WakeOp {
    /// The operands in an argument.
    #[must_use]
    pub const fn of(code: u32) -> Self {
        Self(code)
    }

    const fn signed(value: u32) -> u32 {
        ((value << 20) as i32 >> 20) as u32
    }

    /// The word that was `old`.
    ///
    /// # Errors
    /// `ENOSYS`: no such operation.
    pub const fn apply(self, old: u32) -> Result<u32> {
        let operand = Self::signed(self.0 >> 12 & 0xfff);
        let operand = if self.0 >> 31 != 0 { 1u32.wrapping_shl(operand) } else { operand };
        Ok(match self.0 >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(ENOSYS),
        })
    }

    /// Whether the waiters of a word that was `old` are woken.
    ///
    /// # Errors
    /// `ENOSYS`: no such comparison.
    pub const fn also_wakes(self, old: u32) -> Result<bool> {
        let (old, compared) = (old as i32, Self::signed(self.0 & 0xfff) as i32);
        Ok(match self.0 >> 24 & 15 {
            0 => old == compared,
            1 => old != compared,
            2 => old < compared,
            3 => old <= compared,
            4 => old > compared,
            5 => old >= compared,
            _ => return Err(ENOSYS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_linux() {
        use linux_raw_sys::general as linux;
        for (op, command, timed) in [
            (linux::FUTEX_WAIT, Command::Wait, Timed::FromNow),
            (linux::FUTEX_WAKE, Command::Wake, Timed::No),
            (linux::FUTEX_REQUEUE, Command::Requeue, Timed::No),
            (linux::FUTEX_CMP_REQUEUE, Command::CmpRequeue, Timed::No),
            (linux::FUTEX_WAKE_OP, Command::WakeOp, Timed::No),
            (linux::FUTEX_LOCK_PI, Command::LockPi, Timed::Realtime),
            (linux::FUTEX_UNLOCK_PI, Command::UnlockPi, Timed::No),
            (linux::FUTEX_TRYLOCK_PI, Command::TrylockPi, Timed::No),
            (linux::FUTEX_WAIT_BITSET, Command::WaitBitset, Timed::Monotonic),
            (linux::FUTEX_WAKE_BITSET, Command::WakeBitset, Timed::No),
            (linux::FUTEX_WAIT_REQUEUE_PI, Command::WaitRequeuePi, Timed::Monotonic),
            (linux::FUTEX_CMP_REQUEUE_PI, Command::CmpRequeuePi, Timed::No),
            (linux::FUTEX_LOCK_PI2, Command::LockPi2, Timed::Monotonic),
        ] {
            for flag in [0, linux::FUTEX_PRIVATE_FLAG] {
                let operation = Operation::of(op | flag);
                assert_eq!(operation.command(), Ok(command));
                assert_eq!((operation.is_private, operation.timed()), (flag != 0, timed));
            }
            let realtime = Operation::of(op | linux::FUTEX_CLOCK_REALTIME);
            let may = timed == Timed::Monotonic;
            assert_eq!(realtime.command(), if may { Ok(command) } else { Err(ENOSYS) });
            assert_eq!(realtime.timed(), if may { Timed::Realtime } else { timed });
        }
        for op in [2, 14, 0x200, 0x1000_0000] {
            assert_eq!(Operation::of(op).command(), Err(ENOSYS));
        }
    }

    #[test]
    fn wake_op_computes_and_compares_with_signed_operands() {
        let code = |op: u32, operand: u32, compare: u32, with: u32| {
            WakeOp::of(op << 28 | compare << 24 | (operand & 0xfff) << 12 | with & 0xfff)
        };
        let minus = |n: i32| (-n) as u32;
        assert_eq!(code(0, 7, 0, 0).apply(1), Ok(7));
        assert_eq!(code(1, minus(2), 0, 0).apply(1), Ok(u32::MAX));
        assert_eq!(code(2, 6, 0, 0).apply(1), Ok(7));
        assert_eq!(code(3, 6, 0, 0).apply(7), Ok(1));
        assert_eq!(code(4, 6, 0, 0).apply(3), Ok(5));
        assert_eq!(code(5, 6, 0, 0).apply(3), Err(ENOSYS));
        assert_eq!(code(8, 40, 0, 0).apply(1), Ok(1 << 8), "a shift, by 40 modulo 32");
        for (compare, less, same, more) in [
            (0, false, true, false),
            (1, true, false, true),
            (2, true, false, false),
            (3, true, true, false),
            (4, false, false, true),
            (5, false, true, true),
        ] {
            let wakes = |old: i32| code(0, 0, compare, minus(3)).also_wakes(old as u32);
            assert_eq!((wakes(-4), wakes(-3), wakes(-2)), (Ok(less), Ok(same), Ok(more)));
        }
        assert_eq!(code(0, 0, 6, 0).also_wakes(0), Err(ENOSYS));
    }
}
