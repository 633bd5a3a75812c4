//! Lists of CPU numbers: `0,2-5`.

use std::fmt;
use std::str::FromStr;

/// Most CPUs a machine can have.
const CPUS_MAX: u32 = hanare_abi::cpus::LINUX_CPU_SET_CPUS as u32;

/// CPU numbers, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// The numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = range(part)?;
            numbers.extend(first..=last);
        }
        Ok(numbers.into_iter().collect())
    }
}

fn range(part: &str) -> Result<(u32, u32), String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first, part)?, number(last, part)?);
    if first > last {
        return Err(format!("in '{part}' the first CPU is above the last; write {last}-{first}"));
    }
    Ok((first, last))
}

fn number(text: &str, part: &str) -> Result<u32, String> {
    let accepted = "expected numbers and ranges like 2,4-6";
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{part}' is not a CPU number or range; {accepted}"));
    }
    match text.parse() {
        Ok(number) if number < CPUS_MAX => Ok(number),
        _ => Err(format!("there is no CPU {text}: numbers go up to {}", CPUS_MAX - 1)),
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let mut text = String::new();
        for run in self.0.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let comma = if text.is_empty() { "" } else { "," };
            text += &match last - first {
                0 => format!("{comma}{first}"),
                _ => format!("{comma}{first}-{last}"),
            };
        }
        formatter.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_shown_as_ranges() {
        for (text, numbers, shown) in [
            ("3", &[3][..], "3"),
            ("0,2-5", &[0, 2, 3, 4, 5], "0,2-5"),
            ("5,1,2,2-3", &[1, 2, 3, 5], "1-3,5"),
            ("2-2\n", &[2], "2"),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.numbers(), numbers);
            assert_eq!(list.to_string(), shown);
        }
    }

    #[test]
    fn errors_name_what_was_wrong() {
        for (text, part) in [
            ("", "''"),
            ("a", "'a' is not a CPU number or range; expected numbers and ranges like 2,4-6"),
            ("1,,2", "''"),
            ("1-", "'1-'"),
            ("-1", "'-1'"),
            ("+1", "'+1'"),
            ("1-2-3", "'1-2-3'"),
            ("5-2", "write 2-5"),
            ("4096", "no CPU 4096: numbers go up to 4095"),
            ("99999999999", "no CPU 99999999999"),
        ] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
