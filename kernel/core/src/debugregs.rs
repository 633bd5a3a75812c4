//! The debug registers of a thread, as a tracer sees and sets them (ptrace(2), `struct user`;
//! SDM volume 3, 18.2). What is accepted is what Linux accepts (arch/x86/kernel/ptrace.c).

use crate::errno::{self, Result};
use crate::limits::TASK_SIZE;

/// Number of addresses.
pub const ADDRESSES: usize = 4;
/// DR6: an address was met, one bit each.
pub const STATUS_HITS: u64 = 0xf;
/// DR6.BS: a single step.
pub const STATUS_STEP: u64 = 1 << 14;
/// Bits of DR6 that read as 1.
const STATUS_FIXED: u64 = 0xffff_0ff0;
/// DR7: bit 10 reads as 1.
const CONTROL_FIXED: u64 = 1 << 10;
/// Index of DR6 among the debug registers of `struct user`, of 8 bytes each.
const STATUS: usize = 6;
const CONTROL: usize = 7;

/// Kinds of access for which an address waits (R/W field of DR7).
const EXECUTE: u64 = 0;
const PORT: u64 = 2;

/// Debug registers of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugRegisters {
    addresses: [u64; ADDRESSES],
    /// Kind and length for which each address was last checked, as Linux keeps a breakpoint that is
    /// off; `None`: there was none.
    fields: [Option<Field>; ADDRESSES],
    /// DR6, bits that read as 1 left out.
    status: u64,
    control: u64,
}

/// Part of DR7 for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    kind: u64,
    /// Bytes at the address.
    len: u64,
}

impl Field {
    /// The field of an address for which DR7 says nothing.
    const FIRST: Field = Field { kind: 1, len: 1 };

    fn of(control: u64, i: usize) -> Field {
        let bits = control >> (16 + 4 * i);
        let len = [1, 2, 8, 4][(bits >> 2 & 3) as usize];
        Field { kind: bits & 3, len }
    }

    /// `EINVAL`: nothing that an address may wait for.
    fn check(self, address: u64) -> Result<()> {
        let bad = self.kind == PORT || self.kind == EXECUTE && self.len != 1;
        let end = address.checked_add(self.len).ok_or(errno::EINVAL)?;
        if bad || !address.is_multiple_of(self.len) || end > TASK_SIZE {
            return Err(errno::EINVAL);
        }
        Ok(())
    }
}

/// Whether DR7 has the CPU look for address `i`.
const fn is_on(control: u64, i: usize) -> bool {
    control >> (2 * i) & 3 != 0
}

impl DebugRegisters {
    /// Register `n` of `struct user`.
    pub fn get(&self, n: usize) -> u64 {
        match n {
            0..ADDRESSES => self.addresses[n],
            STATUS => self.status ^ STATUS_FIXED,
            CONTROL => self.control,
            _ => 0,
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// `EINVAL`: an address that is not the user's, or does not fit what it waits for; input
    /// and output. `EIO`: there is no such register.
    pub fn set(&mut self, n: usize, value: u64) -> Result<()> {
        match n {
            0..ADDRESSES => {
                let field = self.fields[n].unwrap_or(Field::FIRST);
                field.check(value)?;
                (self.addresses[n], self.fields[n]) = (value, Some(field));
            }
            STATUS => self.status = value ^ STATUS_FIXED,
            CONTROL => {
                // Also those that are off, if they were ever set.
                let mut fields = self.fields;
                for (i, known) in fields.iter_mut().enumerate() {
                    if known.is_some() || is_on(value, i) {
                        let field = Field::of(value, i);
                        field.check(self.addresses[i])?;
                        *known = Some(field);
                    }
                }
                (self.control, self.fields) = (value, fields);
            }
            _ => return Err(errno::EIO),
        }
        Ok(())
    }

    /// Has register `n` wait for what happens to `bytes` bytes at `address`; none: it waits for
    /// nothing. `kind`: 1: writes, 3: writes and reads.
    ///
    /// # Errors
    /// `EINVAL`: the CPU cannot look for that.
    pub fn watch(&mut self, n: usize, address: u64, bytes: u64, kind: u64) -> Result<()> {
        if n >= ADDRESSES || !(bytes == 0 || matches!(kind, 1 | 3)) {
            return Err(errno::EINVAL);
        }
        let code = match bytes {
            0 | 1 => 0,
            2 => 1,
            8 => 2,
            4 => 3,
            _ => return Err(errno::EINVAL),
        };
        let mut new = *self;
        new.control &= !(3 << (2 * n) | 0xf << (16 + 4 * n));
        new.fields[n] = None;
        new.set(n, if bytes == 0 { 0 } else { address })?;
        if bytes != 0 {
            new.set(CONTROL, new.control | 1 << (2 * n) | (kind | code << 2) << (16 + 4 * n))?;
        }
        *self = new;
        Ok(())
    }

    /// Whether the CPU has to look for an address.
    pub fn is_on(&self) -> bool {
        (0..ADDRESSES).any(|i| is_on(self.control, i))
    }

    /// Addresses and DR7 for the CPU. In that DR7 only the enabled addresses have bits, besides
    /// those that are fixed.
    pub fn hardware(&self) -> ([u64; ADDRESSES], u64) {
        let control =
            (0..ADDRESSES).filter(|&i| is_on(self.control, i)).fold(CONTROL_FIXED, |control, i| {
                control | 1 << (2 * i) | self.control & 0xf << (16 + 4 * i)
            });
        (self.addresses, control)
    }

    /// The CPU raised a debug exception with this DR6. What of it is the thread's:
    /// [`STATUS_HITS`] of addresses that are on, and whether it came before its instruction,
    /// which then has to be let through (RFLAGS.RF).
    pub fn met(&mut self, dr6: u64) -> (u64, bool) {
        let on = (0..ADDRESSES).filter(|&i| dr6 >> i & 1 != 0 && is_on(self.control, i));
        let (hits, before) = on.fold((0, false), |(hits, before), i| {
            (hits | 1 << i, before | (Field::of(self.control, i).kind == EXECUTE))
        });
        self.status = dr6 & STATUS_STEP | hits;
        (hits, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE_8_LOCAL_0: u64 = 1 | 0b1001 << 16;

    #[test]
    fn a_watchpoint_is_what_the_cpu_gets() {
        let mut d = DebugRegisters::default();
        assert_eq!((d.get(6), d.get(7), d.is_on()), (STATUS_FIXED, 0, false));
        d.set(0, 0x1000).unwrap();
        d.set(7, WRITE_8_LOCAL_0 | 1 << 13 | 1 << 8).unwrap();
        assert!(d.is_on());
        assert_eq!(d.hardware(), ([0x1000, 0, 0, 0], CONTROL_FIXED | WRITE_8_LOCAL_0));
        assert_eq!(d.met(0xffff_0ff1), (1, false));
        assert_eq!(d.get(6), STATUS_FIXED ^ 1);
        d.set(6, 0).unwrap();
        assert_eq!(d.get(6), 0);
    }

    #[test]
    fn what_is_off_is_not_met() {
        let mut d = DebugRegisters::default();
        d.set(1, 0x2000).unwrap();
        d.set(7, 1 << 2).unwrap(); // executes
        assert_eq!(d.met(0xf), (2, true));
        assert_eq!(d.met(0xd | STATUS_STEP), (0, false));
    }

    #[test]
    fn bad_values_change_nothing() {
        let mut d = DebugRegisters::default();
        d.set(0, 0x1001).unwrap(); // one byte, as long as DR7 does not say more
        let before = d;
        assert_eq!(d.set(7, WRITE_8_LOCAL_0), Err(errno::EINVAL)); // not aligned
        assert_eq!(d.set(7, 1 | 0b0010 << 16), Err(errno::EINVAL)); // a port
        assert_eq!(d.set(7, 1 | 0b0100 << 16), Err(errno::EINVAL)); // two bytes of code
        assert_eq!(d.set(0, 0xffff_8000_0000_0000), Err(errno::EINVAL));
        assert_eq!(d.set(2, TASK_SIZE), Err(errno::EINVAL));
        assert_eq!(d.set(4, 0), Err(errno::EIO));
        assert_eq!(d, before);
        d.set(0, 0x1000).unwrap();
        d.set(7, WRITE_8_LOCAL_0).unwrap();
        assert_eq!(d.set(0, 0x1004), Err(errno::EINVAL));
    }

    #[test]
    fn the_last_bytes_of_user_memory_may_be_watched() {
        let mut d = DebugRegisters::default();
        d.set(0, TASK_SIZE - 4).unwrap(); // one byte
        assert_eq!(d.set(7, WRITE_8_LOCAL_0), Err(errno::EINVAL));
        d.set(0, TASK_SIZE - 8).unwrap();
        d.set(7, WRITE_8_LOCAL_0).unwrap();
        assert_eq!(d.set(0, TASK_SIZE), Err(errno::EINVAL));
        assert_eq!(d.set(0, u64::MAX), Err(errno::EINVAL));
    }

    #[test]
    fn an_address_that_is_off_is_checked_for_what_it_was_last() {
        let mut d = DebugRegisters::default();
        d.set(7, 0b0010 << 16).unwrap(); // there was none
        d.set(0, 0x1000).unwrap();
        for wrong in [0b0010, 0b0100, 0b0110] {
            assert_eq!(d.set(7, wrong << 16), Err(errno::EINVAL));
        }
        d.set(7, 0b1001 << 16).unwrap(); // off, of 8 bytes
        assert_eq!((d.is_on(), d.set(0, 0x1001)), (false, Err(errno::EINVAL)));
        d.set(7, 0).unwrap();
        d.set(0, 0x1001).unwrap();
    }

    #[test]
    fn a_debugger_watches() {
        let mut d = DebugRegisters::default();
        d.watch(3, 0x1008, 8, 1).unwrap();
        d.watch(0, 0x1001, 1, 3).unwrap();
        assert_eq!(
            d.hardware(),
            ([0x1001, 0, 0, 0x1008], CONTROL_FIXED | 1 | 1 << 6 | 0b1001 << 28 | 0b0011 << 16)
        );
        let before = d;
        for (n, address, bytes, kind) in [
            (4, 0, 1, 1),
            (1, 0x1001, 2, 1),
            (1, 0x1000, 3, 1),
            (1, 0x1000, 4, 2),
            (1, TASK_SIZE, 1, 1),
        ] {
            assert_eq!(d.watch(n, address, bytes, kind), Err(errno::EINVAL));
        }
        assert_eq!(d, before);
        d.watch(3, 7, 0, 0).unwrap();
        assert_eq!(d.hardware(), ([0x1001, 0, 0, 0], CONTROL_FIXED | 1 | 0b0011 << 16));
    }

    proptest::proptest! {
        /// Whatever a tracer sets: no address of the kernel and no general detect reaches the CPU.
        #[test]
        fn the_kernel_stays_out(sets in proptest::collection::vec((0usize..9, proptest::num::u64::ANY), 0..40)) {
            let mut d = DebugRegisters::default();
            for (n, v) in sets {
                let _ = d.set(n, if n < 4 { v >> (v % 3 * 17) } else { v });
                let (addresses, control) = d.hardware();
                proptest::prop_assert!(addresses.iter().all(|a| *a < TASK_SIZE));
                proptest::prop_assert_eq!(control & (1 << 13 | 0xffff_ffff << 32), 0);
                let _ = d.met(v);
            }
        }
    }
}
