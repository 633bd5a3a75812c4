//! Part of the command's `output` that its printer of traces needs.

/// `1 event`, `2 events`.
pub fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
