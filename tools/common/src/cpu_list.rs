//! Lists of CPU numbers: `0,2-5`.

use std::fmt;
use std::str::FromStr;

use hanare_abi::cpus::LinuxCpuSet;
use hanare_core::cpulist;

/// CPU numbers, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// The numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }

    /// The numbers, out of the list.
    pub fn into_numbers(self) -> Vec<u32> {
        self.0
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
        let cpus = cpulist::parse(text.trim()).map_err(|wrong| wrong.to_string())?;
        Ok(Self::from(&cpus))
    }
}

impl From<&LinuxCpuSet> for CpuList {
    fn from(cpus: &LinuxCpuSet) -> Self {
        Self(cpus.iter().map(|cpu| cpu as u32).collect())
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
