//! Bytes as text.

/// Bytes as a C string, `most` of them.
pub fn quoted(bytes: &[u8], most: usize) -> String {
    let shown = &bytes[..bytes.len().min(most)];
    let mut text = String::from("\"");
    for (index, &byte) in shown.iter().enumerate() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            b'\n' => text += "\\n",
            b'\t' => text += "\\t",
            b'\r' => text += "\\r",
            11 => text += "\\v",
            12 => text += "\\f",
            b' '..=b'~' => text.push(byte as char),
            // As few digits as can be told from what follows.
            _ if shown.get(index + 1).is_some_and(u8::is_ascii_digit) => {
                text += &format!("\\{byte:03o}")
            }
            _ => text += &format!("\\{byte:o}"),
        }
    }
    text.push('"');
    if bytes.len() > most {
        text += "...";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_in_c() {
        assert_eq!(quoted(b"a\"b\n\0c\x001", 99), "\"a\\\"b\\n\\0c\\0001\"");
        assert_eq!(quoted(b"abcdef", 3), "\"abc\"...");
    }
}
