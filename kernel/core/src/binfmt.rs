//! Entries of Linux' `binfmt_misc`, as their files below `/proc/sys/fs/binfmt_misc` say them, and
//! which one takes a program, as `fs/binfmt_misc.c` decides it.

use crate::errno::{ENOEXEC, Result};
use crate::limits::EXEC_HEAD;

/// Entry of binfmt_misc: the interpreter of a kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The entry is enabled; a disabled one takes no file.
    pub is_enabled: bool,
    /// Path of the interpreter, as it was registered.
    pub interpreter: &'a [u8],
    /// `P`: the program's own first argument stays, behind its path.
    pub keeps_name: bool,
    /// `O` (and `C`): the interpreter gets the program as an open descriptor (`AT_EXECFD`).
    pub opens: bool,
    /// `C`: credentials would be those of the program's file.
    pub has_credentials: bool,
    /// `F`: the interpreter was opened when the entry was registered.
    pub is_fixed: bool,
    /// Files that the entry takes.
    pub kind: Kind<'a>,
}

/// Rule by which an entry knows its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// By what stands behind the last dot of the path.
    Extension(&'a [u8]),
    /// By bytes of the file's beginning.
    Magic {
        /// Offset of the bytes in the file.
        offset: usize,
        /// The bytes, in hexadecimal.
        magic: &'a [u8],
        /// Bits of the bytes that count, in hexadecimal; `None`: all.
        mask: Option<&'a [u8]>,
    },
}

/// The byte of two hexadecimal digits, as Linux' `bin2hex` writes them.
fn byte_of(pair: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// Number of bytes that the digits are.
fn bytes_of(hex: &[u8]) -> Result<usize> {
    let is_hex = hex.len().is_multiple_of(2) && hex.iter().all(u8::is_ascii_hexdigit);
    if is_hex { Ok(hex.len() / 2) } else { Err(ENOEXEC) }
}

/// Splits a line that begins with `key`: its rest, and the text behind the line.
fn line<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let rest = text.strip_prefix(key)?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    Some((&rest[..end], &rest[end + 1..]))
}

impl<'a> Entry<'a> {
    /// Reads the text of an entry's file.
    ///
    /// # Errors
    /// `ENOEXEC`: that is no entry.
    pub fn parse(text: &'a [u8]) -> Result<Self> {
        Self::read(text).ok_or(ENOEXEC)
    }

    fn read(text: &'a [u8]) -> Option<Self> {
        let (state, rest) = line(text, b"")?;
        let is_enabled = match state {
            b"enabled" => true,
            b"disabled" => false,
            _ => return None,
        };
        let (interpreter, rest) = line(rest, b"interpreter ")?;
        let (flags, rest) = line(rest, b"flags: ")?;
        let kind = match line(rest, b"extension .") {
            Some((extension, b"")) => Kind::Extension(extension),
            Some(_) => return None,
            None => Kind::read(rest)?,
        };
        let has = |flag| flags.contains(&flag);
        Some(Self {
            is_enabled,
            interpreter,
            keeps_name: has(b'P'),
            opens: has(b'O') || has(b'C'),
            has_credentials: has(b'C'),
            is_fixed: has(b'F'),
            kind,
        })
    }

    /// Whether the entry takes the program that is called `name` and begins with `head`; a shorter
    /// file reads as if zeros followed.
    #[must_use]
    pub fn takes(&self, name: &[u8], head: &[u8]) -> bool {
        self.is_enabled && self.kind.fits(name, head)
    }
}

impl<'a> Kind<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let (offset, rest) = line(text, b"offset ")?;
        let (magic, rest) = line(rest, b"magic ")?;
        let (mask, rest) = match line(rest, b"mask ") {
            Some((mask, rest)) => (Some(mask), rest),
            None => (None, rest),
        };
        let offset: usize = core::str::from_utf8(offset).ok()?.parse().ok()?;
        let length = bytes_of(magic).ok()?;
        let is_whole = mask.is_none_or(|mask| bytes_of(mask) == Ok(length));
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= EXEC_HEAD);
        (rest.is_empty() && is_whole && is_inside).then_some(Self::Magic { offset, magic, mask })
    }

    fn fits(&self, name: &[u8], head: &[u8]) -> bool {
        match *self {
            Self::Extension(extension) => {
                let dot = name.iter().rposition(|&byte| byte == b'.');
                dot.is_some_and(|dot| &name[dot + 1..] == extension)
            }
            Self::Magic { offset, magic, mask } => {
                let mut masks = mask.map(|mask| mask.chunks_exact(2));
                magic.chunks_exact(2).enumerate().all(|(i, pair)| {
                    let bits = masks.as_mut().map_or(Some(0xff), |m| m.next().and_then(byte_of));
                    let found = head.get(offset + i).copied().unwrap_or(0);
                    let wanted = byte_of(pair);
                    wanted.zip(bits).is_some_and(|(wanted, bits)| (found ^ wanted) & bits == 0)
                })
            }
        }
    }
}

/// Texts of the files of binfmt_misc, one after the other, each with a zero behind it.
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    /// Takes the bytes that `SERVICE_BINFMT` has written.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(text)
    }
}

/// Whether the text is that of the file `status`, and says that no entry counts.
#[must_use]
pub fn is_off(text: &[u8]) -> bool {
    text == b"disabled\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const QEMU: &[u8] = b"enabled\ninterpreter /usr/bin/qemu-arm\nflags: OCF\noffset 0\n\
        magic 7f454c460101\nmask ffffffff00ff\n";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn an_entry_is_read_as_linux_writes_it() {
        let entry = Entry::parse(QEMU).unwrap();
        assert_eq!(entry.interpreter, b"/usr/bin/qemu-arm");
        assert!(entry.is_enabled && entry.opens && entry.has_credentials && entry.is_fixed);
        assert!(!entry.keeps_name);
        assert!(entry.takes(b"x", b"\x7fELF\x55\x01") && !entry.takes(b"x", b"\x7fELF\x55\x02"));
        let entry = Entry::parse(b"disabled\ninterpreter /b\nflags: P\nextension .jar\n").unwrap();
        assert!(!entry.is_enabled && entry.keeps_name && !entry.opens);
        assert_eq!(entry.kind, Kind::Extension(b"jar"));
        assert!(!entry.takes(b"a.jar", b""));
    }

    #[test]
    fn an_extension_stands_behind_the_last_dot() {
        let entry = Entry {
            is_enabled: true,
            ..Entry::parse(b"disabled\ninterpreter /b\nflags: \nextension .jar\n").unwrap()
        };
        assert!(
            entry.takes(b"/a/b.jar", b"")
                && entry.takes(b".jar", b"")
                && entry.takes(b"x.y.jar", b"")
        );
        for other in [&b"jar"[..], b"/a.jar/b", b"a.jar.x", b"a.Jar", b"", b"a.jarr"] {
            assert!(!entry.takes(other, b""), "{other:?}");
        }
    }

    #[test]
    fn zeros_follow_a_short_file() {
        let entry = Entry::parse(b"enabled\ninterpreter /b\nflags: \noffset 3\nmagic 4100\n");
        let entry = entry.unwrap();
        assert!(entry.takes(b"", b"xyzA") && entry.takes(b"", b"xyzA\0"));
        assert!(!entry.takes(b"", b"xyz") && !entry.takes(b"", b"xyzAB"));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for bad in [
            &b""[..],
            b"enabled\n",
            b"disabled\n",
            b"enabled\ninterpreter /b\n",
            b"enabled\ninterpreter /b\nflags: \n",
            b"enabled\ninterpreter /b\nflags: \noffset 0\nmagic 4\n",
            b"enabled\ninterpreter /b\nflags: \noffset 0\nmagic 4g\n",
            b"enabled\ninterpreter /b\nflags: \noffset 256\nmagic 41\n",
            b"enabled\ninterpreter /b\nflags: \noffset 18446744073709551615\nmagic 41\n",
            b"enabled\ninterpreter /b\nflags: \noffset 0\nmagic 41\nmask ffff\n",
            b"enabled\ninterpreter /b\nflags: \noffset 0\nmagic 41",
            b"enabled\ninterpreter /b\nflags: \nextension .a\nextension .b\n",
        ] {
            assert_eq!(Entry::parse(bad), Err(ENOEXEC), "{bad:?}");
        }
        assert!(is_off(b"disabled\n") && !is_off(b"enabled\n") && !is_off(QEMU));
    }

    #[test]
    fn texts_end_with_a_zero() {
        let all: Vec<_> = Texts::new(b"one\0\0two\0cut").collect();
        assert_eq!(all, [&b"one"[..], b"", b"two"]);
    }

    proptest! {
        #[test]
        fn a_written_entry_is_read_as_the_same(
            is_enabled in any::<bool>(), flags in 0u8..16,
            interpreter in "[ -~]{1,40}", extension in "[!-.0-~]{1,10}",
            magic in proptest::option::of((0usize..200, proptest::collection::vec(any::<u8>(), 1..56))),
            mask in proptest::option::of(any::<u8>()),
            head in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut text = format!("{}\ninterpreter {interpreter}\nflags: ",
                if is_enabled { "enabled" } else { "disabled" });
            for (bit, flag) in ["P", "O", "C", "F"].iter().enumerate() {
                if flags & 1 << bit != 0 {
                    text += flag;
                }
            }
            match &magic {
                None => text += &format!("\nextension .{extension}\n"),
                Some((offset, bytes)) => {
                    text += &format!("\noffset {offset}\nmagic {}\n", hex(bytes));
                    if let Some(bits) = mask {
                        text += &format!("mask {}\n", hex(&[bits].repeat(bytes.len())));
                    }
                }
            }
            let entry = Entry::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(entry.is_enabled, is_enabled);
            prop_assert_eq!(entry.interpreter, interpreter.as_bytes());
            prop_assert_eq!(entry.keeps_name, flags & 1 != 0);
            prop_assert_eq!(entry.opens, flags & 6 != 0);
            prop_assert_eq!(entry.has_credentials, flags & 4 != 0);
            prop_assert_eq!(entry.is_fixed, flags & 8 != 0);
            let Some((offset, bytes)) = magic else {
                prop_assert_eq!(entry.kind, Kind::Extension(extension.as_bytes()));
                return Ok(());
            };
            let bits = mask.unwrap_or(0xff);
            let fits = bytes.iter().enumerate().all(|(i, byte)| {
                (head.get(offset + i).copied().unwrap_or(0) ^ byte) & bits == 0
            });
            prop_assert_eq!(entry.takes(b"", &head), fits && is_enabled);
            // The file that it was made for.
            let made = [&[7].repeat(offset)[..], &bytes].concat();
            prop_assert_eq!(entry.takes(b"", &made), is_enabled);
        }

        #[test]
        fn any_bytes_are_refused_or_an_entry(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(entry) = Entry::parse(&text) {
                let _ = entry.takes(b"a.b", &text);
            }
        }
    }
}
