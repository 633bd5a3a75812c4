//! Strings in fixed fields.

/// Bytes with zeros behind; they must fit with one zero at least.
pub(crate) fn field<const N: usize>(bytes: &[u8]) -> [u8; N] {
    assert!(bytes.len() < N);
    let mut field = [0; N];
    field[..bytes.len()].copy_from_slice(bytes);
    field
}

/// Text before the first zero, as one line.
pub(crate) fn from_bytes(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_zero_or_at_the_end() {
        assert_eq!(from_bytes(b"abc\0def"), "abc");
        assert_eq!(from_bytes(b"abc\n"), "abc");
        assert_eq!(from_bytes(&[0xff, 0]), "\u{fffd}");
    }
}
