//! What a user may have of an instance: `hanare boot --user-limits`.

/// A number of bytes, or a part of the instance's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// As much as there is.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths.
    Percent(u64),
}

impl Amount {
    fn parse(text: &str) -> Option<Self> {
        if text == UNLIMITED {
            return Some(Self::Unlimited);
        }
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).filter(|&p| p <= 100).map(Self::Percent);
        }
        let shift = match text.as_bytes().last()? {
            b'K' => 10,
            b'M' => 20,
            b'G' => 30,
            b'T' => 40,
            _ => 0,
        };
        let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
        number(digits)?.checked_mul(1 << shift).map(Self::Bytes)
    }

    /// Of so many bytes in all.
    #[must_use]
    pub const fn bytes_of(self, total: u64) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => total / 100 * percent,
        }
    }
}

const UNLIMITED: &str = "unlimited";

/// Digits only: `parse` takes a sign, too.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The limits of each user but root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    /// Processes.
    pub processes: u64,
    /// What the kernel keeps for his programs, apart from their pages.
    pub kernel_memory: Amount,
    /// Pages of his programs.
    pub memory: Amount,
}

impl Default for UserLimits {
    fn default() -> Self {
        Self { processes: 4096, kernel_memory: Amount::Percent(25), memory: Amount::Unlimited }
    }
}

/// How they are written.
pub const HELP: &str = "processes=N,kernel-memory=AMOUNT,memory=AMOUNT: any of them, an AMOUNT as 512M, 25% or unlimited; \
or none; default processes=4096,kernel-memory=25%,memory=unlimited";

impl UserLimits {
    /// Nobody is limited.
    pub const NONE: Self =
        Self { processes: u64::MAX, kernel_memory: Amount::Unlimited, memory: Amount::Unlimited };

    /// Reads `key=value` words with commas between them; what is not named has its default.
    /// `None`: they are not such.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let mut limits = Self::default();
        for word in text.split(',') {
            let (key, value) = word.split_once('=')?;
            match key {
                "processes" if value == UNLIMITED => limits.processes = u64::MAX,
                "processes" => limits.processes = number(value)?,
                "kernel-memory" => limits.kernel_memory = Amount::parse(value)?,
                "memory" => limits.memory = Amount::parse(value)?,
                _ => return None,
            }
        }
        Some(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_has_its_default() {
        let limits = UserLimits::parse("memory=50%,processes=100").unwrap();
        assert_eq!(
            limits,
            UserLimits { processes: 100, memory: Amount::Percent(50), ..UserLimits::default() }
        );
        let limits = UserLimits::parse("kernel-memory=16M,processes=unlimited").unwrap();
        assert_eq!(limits.kernel_memory.bytes_of(1 << 40), 16 << 20);
        assert_eq!((limits.processes, limits.memory.bytes_of(5)), (u64::MAX, u64::MAX));
        assert_eq!(Amount::Percent(25).bytes_of(4000), 1000);
        assert_eq!(UserLimits::parse("none"), Some(UserLimits::NONE));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "",
            "processes",
            "processes=",
            "processes=-1",
            "processes=+1",
            "memory=101%",
            "memory=1Q",
            "memory=M",
            "spaces=4",
            "memory=1M,",
            "memory=99999999999T",
        ] {
            assert_eq!(UserLimits::parse(wrong), None, "{wrong}");
        }
    }
}
