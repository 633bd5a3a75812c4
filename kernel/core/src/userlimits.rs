//! Limits of a user in an instance: `hanare boot --user-limits`.

/// A number of bytes, or a part of the instance's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// As much as there is.
    Unlimited,
    /// A number of bytes.
    Bytes(u64),
    /// Hundredths of the total.
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

    /// The amount in bytes, if there are `total` in all.
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

/// Rings of traces have one part of so many of the memory.
pub const RINGS_SHARE: u64 = 8;

/// The largest of these orders of pages that the ring of one more trace may have, all of them
/// having a `share` of so many bytes: all users' rings have `all` bytes, this one's `own`. `None`:
/// the user may have none. A user has as much as this leaves to the others. A ring takes half at
/// most of what is left for its user, unless it is a smallest one.
#[must_use]
pub fn ring_order(
    mut orders: core::ops::RangeInclusive<u32>,
    share: u64,
    all: u64,
    own: u64,
) -> Option<u32> {
    let others = all.saturating_sub(own);
    let left = (share.saturating_sub(others) / 2).saturating_sub(own);
    let least = *orders.start();
    orders.rfind(|&order| 4096 << order <= if order == least { left } else { left / 2 })
}

/// Divisor of the memory: Linux may hold this part of it, of all that users gave up.
pub const HELD_SHARE: u64 = 2;

/// Most bytes that Linux may hold of one user's memory before that user's programs get no more. All
/// users together have a `share` of so many bytes; the others' memory has `others` of it. The user
/// may have as much as is left to the others then.
#[must_use]
pub const fn held_max(share: u64, others: u64) -> u64 {
    share.saturating_sub(others) / 2
}

/// Whether a user's programs get no more because of the memory that Linux holds of that user's: by
/// a change of that user's, not because more is held of other users'. `was`: before the change, by
/// which it `grew` or shrank to `own` bytes of [`held_max`].
#[must_use]
pub const fn is_over(was: bool, grew: bool, own: u64, max: u64) -> bool {
    own > max && (was || grew)
}

/// The limits of each user but root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    /// Processes.
    pub processes: u64,
    /// Memory that the kernel keeps for the user's programs, apart from their pages.
    pub kernel_memory: Amount,
    /// Pages of the user's programs.
    pub memory: Amount,
}

impl Default for UserLimits {
    fn default() -> Self {
        Self { processes: 4096, kernel_memory: Amount::Percent(25), memory: Amount::Unlimited }
    }
}

/// Help text: how the limits are written.
pub const HELP: &str = "processes=N,kernel-memory=AMOUNT,memory=AMOUNT: any of them, an AMOUNT as 512M, 25% or unlimited; \
or none; default processes=4096,kernel-memory=25%,memory=unlimited";

impl UserLimits {
    /// No user is limited.
    pub const NONE: Self =
        Self { processes: u64::MAX, kernel_memory: Amount::Unlimited, memory: Amount::Unlimited };

    /// Reads `key=value` words with commas between them; what is not named has its default. `None`:
    /// the text is not of that form.
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
    fn a_user_leaves_others_as_much_for_rings() {
        let share = 8 << 20;
        let take_all = |others: u64| {
            let (mut own, mut count) = (0, 0);
            while let Some(order) = ring_order(4..=8, share, others + own, own) {
                own += 4096 << order;
                count += 1;
            }
            (own, count)
        };
        assert_eq!(take_all(0), (4 << 20, 8)); // 3 of 1 MiB, then smaller ones
        assert_eq!(take_all(4 << 20), (2 << 20, 6));
        assert_eq!(take_all(share), (0, 0));
        assert_eq!(ring_order(4..=8, share, 0, 0), Some(8));
        assert_eq!(ring_order(4..=8, 0, 0, 0), None);
    }

    #[test]
    fn a_user_leaves_others_as_much_to_have_held() {
        let share = 32 << 20;
        assert_eq!(held_max(share, 0), 16 << 20);
        let all = (0..20).fold(0, |all, _| all + held_max(share, all));
        assert!(all < share && held_max(share, all) > 0);
        assert_eq!(held_max(share, share + 1), 0);
    }

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
