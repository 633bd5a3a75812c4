//! The transport, the way between Linux and the instance's machine: what has to hold between the
//! two machines for this LWK (`TRANSPORT_*` in `abi/src/boot.rs`).

use core::fmt;
use hanare_abi::boot::{
    TRANSPORT_ATOMICS, TRANSPORT_ONE_TSC, TRANSPORT_REACH_ALL, TRANSPORT_SAME_ISA,
};

/// Flags that the LWK relies on without asking again, and what each of them stands for. The others
/// may be missing: without `LINUX_FRAMES` the module refuses to resolve a page of a file, and
/// without `OFFERS` no offer is taken.
const NEEDED: [(u32, &str); 4] = [
    (TRANSPORT_ATOMICS, "ATOMICS (locked operations that are atomic on both sides)"),
    (TRANSPORT_ONE_TSC, "ONE_TSC (one TSC for both sides)"),
    (TRANSPORT_SAME_ISA, "SAME_ISA (CPUs that run the same code)"),
    (TRANSPORT_REACH_ALL, "REACH_ALL (all memory of the instance within Linux' reach)"),
];

/// Flags that a transport has not, at least one of those that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(u32);

impl fmt::Display for Missing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the LWK needs a transport with ")?;
        let missing = NEEDED.iter().filter(|(flag, _)| self.0 & flag != 0);
        for (number, (_, what)) in missing.enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(to, "{comma}{what}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Missing {}

/// Checks the flags of a transport; those that the LWK does not know do not matter.
pub fn check(flags: u32) -> Result<(), Missing> {
    let needed = NEEDED.iter().fold(0, |all, (flag, _)| all | flag);
    match needed & !flags {
        0 => Ok(()),
        missing => Err(Missing(missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_abi::boot::{TRANSPORT_LINUX_FRAMES, TRANSPORT_OFFERS};
    use std::string::ToString;

    const NAMES: [(u32, &str); 4] = [
        (TRANSPORT_ATOMICS, "ATOMICS"),
        (TRANSPORT_ONE_TSC, "ONE_TSC"),
        (TRANSPORT_SAME_ISA, "SAME_ISA"),
        (TRANSPORT_REACH_ALL, "REACH_ALL"),
    ];

    #[test]
    fn each_needed_flag_is_missed_by_name() {
        for (flag, name) in NAMES {
            let said = check(!flag).unwrap_err().to_string();
            let named = NAMES.iter().filter(|(_, name)| said.contains(name));
            assert!(named.eq([&(flag, name)]), "{said}");
        }
        let said = check(0).unwrap_err().to_string();
        assert!(NAMES.iter().all(|(_, name)| said.contains(name)), "{said}");
        assert!(said.contains(" sides), ONE_TSC "), "{said}");
    }

    #[test]
    fn other_flags_may_be_missing_or_unknown() {
        assert_eq!(check(u32::MAX), Ok(()));
        assert_eq!(check(!(TRANSPORT_LINUX_FRAMES | TRANSPORT_OFFERS)), Ok(()));
        assert_eq!(check(NAMES.iter().map(|(flag, _)| flag).sum()), Ok(()));
    }
}
