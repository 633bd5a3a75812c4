//! Sizes of memory: `512M`, `2G@1`, `256M@0,256M@1`; and how they are shown.

use std::fmt;
use std::str::FromStr;

use hanare_abi::LARGE_PAGE_SIZE;

/// Memory wanted: bytes, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes, a multiple of 2 MiB.
    pub bytes: u64,
    /// NUMA node; `None`: near the CPUs.
    pub node: Option<u32>,
}

/// All memory wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory(pub Vec<Piece>);

impl Memory {
    /// Sum of all pieces.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.bytes).sum()
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pieces = text.split(',').map(piece).collect::<Result<Vec<_>, _>>()?;
        let sum = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.bytes));
        sum.ok_or_else(|| format!("'{text}' is more memory than any machine has"))?;
        Ok(Self(pieces))
    }
}

fn piece(text: &str) -> Result<Piece, String> {
    let (size, node) = match text.split_once('@') {
        None => (text, None),
        Some((size, node)) => {
            let number =
                node.parse().ok().filter(|_| node.bytes().all(|byte| byte.is_ascii_digit()));
            let number = number.ok_or_else(|| {
                format!("in '{text}' the NUMA node '{node}' is not a number; expected e.g. 512M@1")
            })?;
            (size, Some(number))
        }
    };
    let bytes = bytes(size)?;
    if bytes == 0 || bytes % LARGE_PAGE_SIZE != 0 {
        let up = bytes.div_ceil(LARGE_PAGE_SIZE).max(1) * LARGE_PAGE_SIZE;
        return Err(format!(
            "memory is reserved in pieces of 2M: '{size}' is none; use {}M",
            up >> 20
        ));
    }
    Ok(Piece { bytes, node })
}

fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => 0u64,
    };
    if unit == 0 || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "'{text}' is not a size; expected a whole number with M, G or T, e.g. 512M or 2G@1"
        ));
    }
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number
        .filter(|&bytes| bytes < 1 << 52)
        .ok_or_else(|| format!("'{text}' is more memory than any machine has"))
}

/// Bytes for people: `512 MiB`, `1.5 GiB`.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        while unit + 1 < units.len() && self.0 >> (10 * (unit + 1)) != 0 {
            unit += 1;
        }
        let scale = 1u64 << (10 * unit);
        let text = match self.0 % scale {
            0 => format!("{} {}", self.0 / scale, units[unit]),
            _ => format!("{:.1} {}", self.0 as f64 / scale as f64, units[unit]),
        };
        formatter.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_amount_and_node() {
        let memory: Memory = "512M".parse().unwrap();
        assert_eq!(memory.0, [Piece { bytes: 512 << 20, node: None }]);
        let memory: Memory = "2g@1,256MiB@0".parse().unwrap();
        assert_eq!(memory.0[0], Piece { bytes: 2 << 30, node: Some(1) });
        assert_eq!(memory.0[1], Piece { bytes: 256 << 20, node: Some(0) });
        assert_eq!(memory.bytes(), (2 << 30) + (256 << 20));
    }

    #[test]
    fn errors_name_what_was_wrong() {
        for (text, part) in [
            ("", "'' is not a size"),
            ("512", "'512' is not a size; expected a whole number with M, G or T"),
            ("M", "'M'"),
            ("1.5G", "'1.5G'"),
            ("-2G", "'-2G'"),
            ("2G,", "''"),
            ("512K", "'512K'"),
            ("3M", "pieces of 2M: '3M' is none; use 4M"),
            ("0M", "use 2M"),
            ("2G@", "node ''"),
            ("2G@x", "node 'x'"),
            ("2G@-1", "node '-1'"),
            ("2G@+1", "node '+1'"),
            ("99999999999999999999G", "more memory"),
            ("5000T", "more memory"),
        ] {
            let error = text.parse::<Memory>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(512 << 20).to_string(), "512 MiB");
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
    }
}
