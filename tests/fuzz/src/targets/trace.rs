//! All that `hanare trace` prints of a ring, whatever comes out of it.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use hanare_abi::observe::*;

use super::arguments;
use crate::target::Target;
use crate::trace::printer::{Printer, Style};

pub const TARGET: Target = Target { name: "trace", check, size_max: 1024, seeds };

/// Two threads: calls that end, overlap or do not end, signals, and both kinds of end.
fn seeds() -> Vec<Vec<u8>> {
    let record = |kind, tid, number, first| {
        let head = Record {
            size: 0,
            kind,
            pid: 7,
            tid,
            number,
            served: SERVED_DELEGATED,
            time_ns: 1_500_000_000,
            duration_ns: 2_000,
            result: -4,
            args: [first, 2, 3 << 32 | 5, 4, 5, 6],
        };
        arguments::written(&head, &[])
    };
    let (enter, exit) = (RECORD_ENTER, RECORD_EXIT);
    let of = |records: &[(u32, u32, u32, u64)]| {
        let records =
            records.iter().map(|&(kind, tid, number, arg)| record(kind, tid, number, arg));
        records.flatten().collect::<Vec<u8>>()
    };
    let all = [
        of(&[(enter, 7, 39, 0), (exit, 7, 39, 0), (RECORD_SIGNAL, 7, 17, 0), (enter, 7, 231, 3)]),
        of(&[(enter, 7, 0, 3), (enter, 8, 1, 1), (exit, 7, 0, 3), (RECORD_GONE, 7, 0, 0)]),
        of(&[
            (enter, 7, 0, 3),
            (RECORD_SIGNAL, 7, 11, 0),
            (RECORD_KILLED, 7, 11, 0),
            (RECORD_GONE, 7, 0, 0),
        ]),
    ];
    all.into_iter()
        .flat_map(|ring| [0, 3, 4, 8].map(|flags| [&[flags, 9][..], &ring].concat()))
        .collect()
}

/// Text that was printed.
#[derive(Clone, Default)]
struct Out(Rc<RefCell<Vec<u8>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check(input: &[u8]) {
    let [flags, at, ring @ ..] = input else { return };
    let (first, second) = ring.split_at(ring.len().min(usize::from(*at) * 4));
    let is_idle = flags & 16 != 0;
    let text = printed(*flags, &[first, second], is_idle);
    let is_table = flags & 4 != 0;
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let shown = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\n';
    assert!(text.bytes().all(shown), "{text:?}");
    assert!(!is_table || text.lines().count() >= 4, "{text}");
    if !is_idle {
        assert_eq!(text, printed(*flags, &[ring], false), "in one piece");
    }
}

fn printed(flags: u8, pieces: &[&[u8]], is_idle: bool) -> String {
    let out = Out::default();
    let only = if flags & 8 == 0 { vec![] } else { vec!["read".into(), "exit_group".into()] };
    let style = Style {
        string_max: 32,
        always_name: flags & 1 != 0,
        time: flags & 2 != 0,
        only: only.into_iter().collect(),
        summary: flags & 4 != 0,
    };
    let mut printer = Printer::new(Box::new(out.clone()), style);
    for piece in pieces {
        printer.feed(piece).expect("memory takes it");
        if is_idle {
            printer.idle().expect("memory takes it");
        }
    }
    printer.finish().expect("memory takes it");
    String::from_utf8(out.0.take()).expect("text")
}
