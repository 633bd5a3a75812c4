//! `#!` lines.

use hanare_core::limits::EXEC_HEAD;
use hanare_core::script::Script;

use crate::target::{Target, heads};

pub const TARGET: Target = Target { name: "script", check, size_max: 300, seeds };

fn seeds() -> Vec<Vec<u8>> {
    const FILES: [&str; 7] = [
        "/usr/bin/ldd",
        "/usr/bin/which",
        "/usr/bin/zgrep",
        "/usr/bin/gdb-add-index",
        "/usr/sbin/adduser",
        "/usr/bin/pydoc3",
        "/bin/true",
    ];
    let made: [&[u8]; 4] = [
        b"#!/bin/sh\n",
        b"#! \t/usr/bin/env -S python3 -u \t\nprint()",
        b"#!/bin/sh ",
        &[&b"#!/"[..], &[b'a'; 300]].concat(),
    ];
    heads(&FILES, EXEC_HEAD).into_iter().chain(made.map(<[u8]>::to_vec)).collect()
}

fn check(input: &[u8]) {
    let line = Script::parse(input);
    let head = &input[..input.len().min(EXEC_HEAD)];
    assert_eq!(Script::parse(head), line, "only the head counts");
    let padded = [head, &[0; EXEC_HEAD]].concat();
    assert_eq!(Script::parse(&padded[..EXEC_HEAD]), line, "zeros follow");
    assert_eq!(line == Ok(None), !head.starts_with(b"#!"));
    let Ok(Some(Script { interpreter, argument })) = line else { return };
    assert_eq!(as_linux(&padded[..EXEC_HEAD]), Some((interpreter, argument)));

    let has = |bytes: &[u8], any: &[u8]| bytes.iter().any(|byte| any.contains(byte));
    assert!(!interpreter.is_empty() && !has(interpreter, b" \t\n\0"));
    assert!(!argument.is_some_and(|argument| has(argument, b"\n\0")));
    assert!(2 + interpreter.len() + argument.map_or(0, <[u8]>::len) < EXEC_HEAD);
    // Written as it is read, it is read as the same, but for blanks before a zero.
    let argument = argument.map(<[u8]>::trim_ascii_end).filter(|argument| !argument.is_empty());
    let written = [b"#!", interpreter, b" ", argument.unwrap_or_default(), b"\n"].concat();
    if written.len() <= EXEC_HEAD {
        assert_eq!(Script::parse(&written), Ok(Some(Script { interpreter, argument })));
    }
}

/// Linux' `load_script` of 6.1, statement by statement; `None`: `ENOEXEC`.
fn as_linux(buf: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let spacetab = |byte: u8| byte == b' ' || byte == b'\t';
    let next_non_spacetab = |first: usize, last: usize| (first..=last).find(|&i| !spacetab(buf[i]));
    let next_terminator =
        |first: usize, last: usize| (first..=last).find(|&i| spacetab(buf[i]) || buf[i] == 0);
    let text = |first: usize, end: usize| {
        let length = buf[first..end].iter().position(|&byte| byte == 0).unwrap_or(end - first);
        &buf[first..first + length]
    };
    let buf_end = EXEC_HEAD - 1;
    // strnchr() stops at a zero.
    let newline = buf.iter().position(|&byte| byte == b'\n' || byte == 0);
    let mut i_end = match newline.filter(|&at| buf[at] == b'\n') {
        Some(at) => at,
        None => {
            let i_name = next_non_spacetab(2, buf_end)?;
            next_terminator(i_name, buf_end)?;
            buf_end
        }
    };
    while spacetab(buf[i_end - 1]) {
        i_end -= 1;
    }
    let i_name = next_non_spacetab(2, i_end).filter(|&at| at != i_end)?;
    let i_sep = next_terminator(i_name, i_end);
    let i_arg = match i_sep {
        Some(at) if buf[at] != 0 => next_non_spacetab(at, i_end),
        _ => None,
    };
    // Linux writes a zero to i_end and to i_sep.
    let name = text(i_name, i_sep.unwrap_or(i_end));
    Some((name, i_arg.map(|at| text(at, i_end))))
}
