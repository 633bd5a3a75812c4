//! `#!` lines, byte for byte as Linux' `fs/binfmt_script.c` reads them.

use crate::errno::{ENOEXEC, Result};
use crate::limits::EXEC_HEAD;

/// Contents of a `#!` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// Path of the interpreter, never empty.
    pub interpreter: &'a [u8],
    /// The rest of the line, as one argument. Can be empty: `#!/bin/sh ` at the
    /// very end of a file gives an empty argument on Linux too.
    pub argument: Option<&'a [u8]>,
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl<'a> Script<'a> {
    /// Parses the first bytes of a file; at most the first 256 count, and a
    /// shorter file reads as if zeros followed. `Ok(None)`: no `#!` there.
    ///
    /// # Errors
    /// `ENOEXEC`: no interpreter is named, or its path does not end within the
    /// first 256 bytes.
    pub fn parse(head: &'a [u8]) -> Result<Option<Self>> {
        let head = &head[..head.len().min(EXEC_HEAD)];
        if !head.starts_with(b"#!") {
            return Ok(None);
        }
        let at = |index: usize| head.get(index).copied().unwrap_or(0);
        let last = EXEC_HEAD - 1;
        // both search first..=last, as their namesakes in Linux
        let next_non_blank = |first: usize, last: usize| (first..=last).find(|&i| !is_blank(at(i)));
        let next_terminator =
            |first: usize, last: usize| (first..=last).find(|&i| is_blank(at(i)) || at(i) == 0);

        let newline = (0..EXEC_HEAD).take_while(|&i| at(i) != 0).find(|&i| at(i) == b'\n');
        let mut end = match newline {
            Some(newline) => newline,
            None => {
                let name = next_non_blank(2, last).ok_or(ENOEXEC)?;
                // no blank or zero later on: the path may be cut off
                next_terminator(name, last).ok_or(ENOEXEC)?;
                last
            }
        };
        while is_blank(at(end - 1)) {
            end -= 1;
        }
        let name = next_non_blank(2, end).filter(|&name| name != end).ok_or(ENOEXEC)?;
        let separator = next_terminator(name, end);
        let argument = match separator {
            Some(separator) if at(separator) != 0 => next_non_blank(separator, end),
            _ => None,
        };
        let text = |first: usize, end: usize| {
            let slice = head.get(first..end.min(head.len())).unwrap_or(&[]);
            slice.split(|&byte| byte == 0).next().unwrap_or(&[])
        };
        let interpreter = text(name, separator.unwrap_or(end));
        if interpreter.is_empty() {
            // Linux goes on to open an empty path; with the same end for a caller
            // that falls back to a shell, and a clearer one for all others.
            return Err(ENOEXEC);
        }
        Ok(Some(Self { interpreter, argument: argument.map(|first| text(first, end)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn parse(head: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        Script::parse(head)
            .ok()
            .flatten()
            .map(|s| (s.interpreter.to_vec(), s.argument.map(<[u8]>::to_vec)))
    }

    fn script(name: &str, argument: Option<&str>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        Some((name.as_bytes().to_vec(), argument.map(|a| a.as_bytes().to_vec())))
    }

    #[test]
    fn a_line_gives_interpreter_and_argument() {
        assert_eq!(parse(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(parse(b"#! \t/bin/sh \t\nx"), script("/bin/sh", None));
        assert_eq!(
            parse(b"#!/usr/bin/env python3 -u \nx"),
            script("/usr/bin/env", Some("python3 -u"))
        );
        assert_eq!(parse(b"#!/bin/sh"), script("/bin/sh", None));
        assert_eq!(parse(b"#!/bin/sh "), script("/bin/sh", Some("")));
        assert_eq!(parse(b"#!/bin/sh -e"), script("/bin/sh", Some("-e")));
        assert_eq!(parse(b"#!a\r\n"), script("a\r", None));
        assert_eq!(Script::parse(b"\x7fELF"), Ok(None));
        assert_eq!(Script::parse(b"#"), Ok(None));
        assert_eq!(Script::parse(b""), Ok(None));
        for bad in [&b"#!"[..], b"#!\n", b"#!  \t \n/bin/sh", b"#!\0/bin/sh\n"] {
            assert_eq!(Script::parse(bad), Err(ENOEXEC), "{bad:?}");
        }
    }

    #[test]
    fn a_long_path_is_refused_and_a_long_argument_cut() {
        let mut line = vec![b'a'; 300];
        line[..3].copy_from_slice(b"#!/");
        assert_eq!(Script::parse(&line), Err(ENOEXEC));
        // the path ends, the argument is cut at 255
        line[10] = b' ';
        let parsed = Script::parse(&line).unwrap().unwrap();
        assert_eq!(parsed.interpreter.len(), 8);
        assert_eq!(parsed.argument.unwrap().len(), 255 - 11);
        assert_eq!(Script::parse(&[&b"#!"[..], &[b' '; 300]].concat()), Err(ENOEXEC));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_give_a_path(mut head in proptest::collection::vec(prop_oneof![
            Just(b' '), Just(b'\t'), Just(b'\n'), Just(0u8), any::<u8>()
        ], 0..300)) {
            let _ = Script::parse(&head);
            if head.len() > 2 {
                head[..2].copy_from_slice(b"#!");
                if let Ok(script) = Script::parse(&head) {
                    let script = script.unwrap();
                    prop_assert!(!script.interpreter.is_empty());
                    prop_assert!(!script.interpreter.contains(&b'\n'));
                    prop_assert!(!script.interpreter.contains(&b' '));
                }
            }
        }
    }
}
