//! Files of binfmt_misc.

use hanare_core::binfmt::{Entry, Kind, Texts, is_off};
use hanare_core::limits::EXEC_HEAD;

use crate::target::Target;

pub const TARGET: Target = Target { name: "binfmt", check, size_max: 1024, seeds };

fn seeds() -> Vec<Vec<u8>> {
    let made: [&[u8]; 4] = [
        b"enabled\ninterpreter /usr/bin/qemu-arm\nflags: OCF\noffset 0\nmagic 7f454c46\nmask ffffff00\n\0enabled\n\0\x7fELF",
        b"enabled\ninterpreter /usr/bin/jexec\nflags: P\nextension .jar\n\0disabled\n\0x.jar",
        b"disabled\ninterpreter /bin/cli\nflags: \noffset 128\nmagic 5045\n\0enabled\n\0MZ",
        b"enabled\n\0",
    ];
    made.map(<[u8]>::to_vec).into()
}

fn check(input: &[u8]) {
    let texts: Vec<_> = Texts::new(input).collect();
    let taken: usize = texts.iter().map(|text| text.len() + 1).sum();
    assert!(taken <= input.len() && !input[taken..].contains(&0));
    let (name, head) = (&input[taken..], &input[..input.len().min(EXEC_HEAD)]);
    for text in texts {
        let Ok(entry) = Entry::parse(text) else { continue };
        assert!(!is_off(text) && !entry.interpreter.contains(&0));
        let padded = [head, &[0; EXEC_HEAD]].concat();
        assert_eq!(entry.takes(name, head), entry.takes(name, &padded), "zeros follow");
        assert_eq!(entry.takes(name, head), entry.is_enabled && as_linux(&entry, name, &padded));
        assert!(entry.is_enabled || !entry.takes(name, head));
        // Written as Linux writes it, it is read as the same.
        assert_eq!(Entry::parse(&written(&entry)), Ok(entry));
    }
}

fn bytes(hex: &[u8]) -> Vec<u8> {
    crate::input::from_hex(std::str::from_utf8(hex).expect("digits")).expect("pairs of digits")
}

/// Linux' `search_binfmt_handler` of 6.1, for one entry.
fn as_linux(entry: &Entry<'_>, name: &[u8], buf: &[u8]) -> bool {
    match entry.kind {
        Kind::Extension(extension) => {
            name.iter().rposition(|&byte| byte == b'.').is_some_and(|dot| {
                let behind = &name[dot + 1..];
                behind == extension
            })
        }
        Kind::Magic { offset, magic, mask } => {
            let (magic, mask) = (bytes(magic), mask.map(bytes));
            (0..magic.len()).all(|j| {
                let differs = buf[offset + j] ^ magic[j];
                differs & mask.as_ref().map_or(0xff, |mask| mask[j]) == 0
            })
        }
    }
}

/// Linux' `entry_status`.
fn written(entry: &Entry<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    text.extend(if entry.is_enabled { &b"enabled"[..] } else { b"disabled" });
    text.extend(b"\ninterpreter ");
    text.extend(entry.interpreter);
    text.extend(b"\nflags: ");
    let flags = [
        (entry.keeps_name, b'P'),
        (entry.opens, b'O'),
        (entry.has_credentials, b'C'),
        (entry.is_fixed, b'F'),
    ];
    text.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag));
    match entry.kind {
        Kind::Extension(extension) => {
            text.extend(b"\nextension .");
            text.extend(extension);
        }
        Kind::Magic { offset, magic, mask } => {
            text.extend(format!("\noffset {offset}\nmagic ").bytes());
            text.extend(magic);
            if let Some(mask) = mask {
                text.extend(b"\nmask ");
                text.extend(mask);
            }
        }
    }
    text.push(b'\n');
    text
}
