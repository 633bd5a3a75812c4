//! Lists of Linux' CPUs as users write them: `0,2-5`.

use crate::userlimits;
use core::fmt;
use hanare_abi::cpus::{LINUX_CPU_SET_CPUS, LinuxCpuSet};

/// A part of a list that names no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong<'a> {
    /// The part is neither a number nor a range.
    Part(&'a str),
    /// The part is a range whose first CPU is above its last.
    Order {
        /// The part.
        part: &'a str,
        /// The larger number, which is written first.
        first: usize,
        /// The smaller one.
        last: usize,
    },
    /// The number is larger than that of any CPU of Linux.
    Number(&'a str),
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => {
                let accepted = "expected numbers and ranges like 2,4-6";
                write!(to, "'{part}' is not a CPU number or range; {accepted}")
            }
            Self::Order { part, first, last } => {
                write!(to, "in '{part}' the first CPU is above the last; write {last}-{first}")
            }
            Self::Number(number) => {
                let last = LINUX_CPU_SET_CPUS - 1;
                write!(to, "there is no CPU {number}: numbers go up to {last}")
            }
        }
    }
}

impl core::error::Error for Wrong<'_> {}

/// Reads a list, which names at least one CPU.
pub fn parse(list: &str) -> Result<LinuxCpuSet, Wrong<'_>> {
    let mut cpus = LinuxCpuSet::EMPTY;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first, part)?, number(last, part)?);
        if first > last {
            return Err(Wrong::Order { part, first, last });
        }
        (first..=last).for_each(|cpu| {
            cpus.insert(cpu);
        });
    }
    Ok(cpus)
}

fn number<'a>(text: &'a str, part: &'a str) -> Result<usize, Wrong<'a>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Wrong::Part(part));
    }
    let number = userlimits::number(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|&number| number < LINUX_CPU_SET_CPUS).ok_or(Wrong::Number(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_list_names_each_cpu_of_its_ranges() {
        for (list, cpus) in [
            ("3", &[3][..]),
            ("0,2-5", &[0, 2, 3, 4, 5]),
            ("5,1,2,2-3", &[1, 2, 3, 5]),
            ("2-2", &[2]),
            ("62-65,4095", &[62, 63, 64, 65, 4095]),
            ("007", &[7]),
        ] {
            assert_eq!(parse(list), Ok(cpus.iter().copied().collect()), "{list}");
        }
        assert!(parse("0-4095").is_ok_and(|all| all.is_full()));
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        let not = "is not a CPU number or range; expected numbers and ranges like 2,4-6";
        for (list, part) in [
            ("", ""),
            ("a", "a"),
            ("1,,2", ""),
            ("1-", "1-"),
            ("-1", "-1"),
            ("+1", "+1"),
            ("1-2-3", "1-2-3"),
            ("0, 2", " 2"),
        ] {
            let error = parse(list).unwrap_err();
            assert_eq!(error, Wrong::Part(part));
            assert_eq!(error.to_string(), std::format!("'{part}' {not}"));
        }
        let error = parse("0,5-2").unwrap_err().to_string();
        assert_eq!(error, "in '5-2' the first CPU is above the last; write 2-5");
        for number in ["4096", "99999999999", "99999999999999999999999"] {
            let error = parse(&std::format!("0,{number}")).unwrap_err().to_string();
            assert_eq!(error, std::format!("there is no CPU {number}: numbers go up to 4095"));
        }
    }
}
