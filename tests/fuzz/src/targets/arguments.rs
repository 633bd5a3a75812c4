//! Traces: captures of a call's arguments, records, and the lines made of them.

use hanare_abi::observe::{Capture, RECORD_ENTER, RECORD_EXIT, Record};
use hanare_core::syscalls::arguments::Direction;
use hanare_core::syscalls::capture::{ADDRESS_BYTES, ENTRIES, PATH_BYTES, STRINGS, capture};
use hanare_core::syscalls::{row, rows};

use crate::input::Input;
use crate::memory::Memory;
use crate::target::Target;
use crate::trace::{format, quote, record};

pub const TARGET: Target = Target { name: "arguments", check, size_max: 700, seeds };

const HEAD: usize = size_of::<Record>();

/// Calls of each kind, with memory as they have it.
fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut with = |name: &str, result: i64, args: [u64; 6], memory: &[u8]| {
        let Some(at) = rows().iter().position(|row| row.name == name) else { return };
        let mut seed = vec![0, 32];
        seed.extend_from_slice(&(at as u16).to_le_bytes());
        seed.extend_from_slice(&result.to_le_bytes());
        for arg in args {
            seed.extend_from_slice(&arg.to_le_bytes());
        }
        seed.extend_from_slice(memory);
        all.push(seed);
    };
    let at = 0x1_0000;
    let address = [&[2, 0, 0, 80, 127, 0, 0, 1][..], &[0; 8]].concat();
    let vectors: Vec<u8> =
        [at, 4, 0x2_0000, 8].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    with("openat", 3, [-100i64 as u64, at, 0o2000102, 0o644, 0, 0], b"/etc/passwd\0");
    with("read", 12, [3, at, 4096, 0, 0, 0], b"root:x:0:0\n\0");
    with("write", -32, [1, at, 5, 0, 0, 0], b"hello");
    with(
        "execve",
        0,
        [at, at + 0x100, 0, 0, 0, 0],
        &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    with("writev", 12, [1, at, 2, 0, 0, 0], &vectors);
    with("connect", 0, [3, at, 16, 0, 0, 0], &address);
    with("accept4", 4, [3, at, at, 0o2000000, 0, 0], &[1, 0, 0, 0, b'/', b'a', 0, 0]);
    with("ppoll", 1, [at, 2, at, at, 8, 0], &[3, 0, 0, 0, 1, 0, 1, 0]);
    with("newfstatat", 0, [3, at, at, 0, 0, 0], &[0x41; 144]);
    with("rt_sigaction", 0, [2, at, at, 8, 0, 0], &[0; 32]);
    with("uname", 0, [at, 0, 0, 0, 0, 0], b"Linux\0box\0");
    with("sendmsg", 0, [3, at, 0, 0, 0, 0], &[0; 56]);
    with("recvmsg", 8, [3, at, 0, 0, 0, 0], &vectors);
    with("clock_nanosleep", -516, [1, 1, at, 0, 0, 0], &[1; 16]);
    all
}

fn check(input: &[u8]) {
    if input.first().is_some_and(|first| first & 1 == 1) {
        return records(&input[1..]);
    }
    let mut input = Input::new(input);
    let (flags, most) = (input.byte(), usize::from(input.byte()));
    let chosen = input.u16();
    // Mostly a call that there is.
    let number = match rows().get(usize::from(chosen) % (rows().len() + 1)) {
        Some(row) => u64::from(row.number),
        None => u64::from(chosen),
    };
    let result = input.u64() as i64;
    let args = std::array::from_fn(|_| input.u64());
    let memory = Memory::new(input.rest(), flags & 2 != 0);

    let before = capture(&memory, number, &args, 0, Direction::In, most);
    let after = capture(&memory, number, &args, result, Direction::Out, most);
    let at_once = [STRINGS * (PATH_BYTES + 1), 256 * ENTRIES, 390, most + 1, ADDRESS_BYTES];
    assert!(memory.most() <= at_once.into_iter().max().unwrap_or(0), "{}", memory.most());
    if result < 0 {
        assert!(after.bytes.is_empty(), "a call that failed has written nothing");
    }
    let head = Record {
        size: 0,
        kind: RECORD_ENTER,
        pid: 1,
        tid: 1,
        number: number as u32,
        served: 0,
        time_ns: 0,
        duration_ns: 0,
        result: 0,
        args,
    };
    let mut ring = written(&head, &before.bytes);
    ring.extend(written(&Record { kind: RECORD_EXIT, result, ..head }, &after.bytes));
    let entries = [record::take(&mut ring), record::take(&mut ring)].map(Option::unwrap);
    assert!(ring.is_empty());
    for (entry, captures) in entries.iter().zip([&before, &after]) {
        all_there(entry, &captures.bytes, number);
    }
    let [before, after] = &entries;
    lines(before, Some(after), most);
    lines(before, None, most);
}

/// Every capture is of an argument that the call has, and is found again.
fn all_there(entry: &record::Entry, mut bytes: &[u8], number: u64) {
    let count = row(number).map_or(0, |row| usize::from(row.args));
    while !bytes.is_empty() {
        let mut head = Input::new(bytes);
        let (argument, length) = (head.u32() as usize, head.u32() as usize);
        assert!(argument < count, "{argument} of {count}");
        let data = &bytes[size_of::<Capture>()..size_of::<Capture>() + length];
        assert_eq!(entry.capture(argument), Some(data));
        bytes = &bytes[(size_of::<Capture>() + length).next_multiple_of(8)..];
    }
}

pub fn written(head: &Record, captures: &[u8]) -> Vec<u8> {
    let size = (HEAD + captures.len()) as u32;
    let mut bytes = Vec::new();
    for word in [size, head.kind, head.pid, head.tid, head.number, head.served] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for word in [head.time_ns, head.duration_ns, head.result as u64].iter().chain(&head.args) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(captures);
    bytes
}

/// Reads any bytes of a ring as records, one after the other.
fn records(input: &[u8]) {
    let mut bytes = input.to_vec();
    let mut left = bytes.len();
    let mut before: Option<record::Entry> = None;
    while let Some(entry) = record::take(&mut bytes) {
        assert!(entry.head.size as usize >= HEAD && left - bytes.len() == entry.head.size as usize);
        left = bytes.len();
        match &before {
            Some(begun) => lines(begun, Some(&entry), 32),
            None => lines(&entry, None, 32),
        }
        before = Some(entry);
    }
}

/// A line is one, of characters that a terminal shows, and ends.
fn lines(before: &record::Entry, after: Option<&record::Entry>, most: usize) {
    let line = format::call(before, after, most);
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    assert!(line.contains('(') && line.ends_with(')'), "{line:?}");
    if let Some(after) = after {
        let result = format::result(after.head.number, after.head.result);
        assert!(result.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{result:?}");
    }
    for index in 0..6 {
        let Some(bytes) = before.capture(index) else { continue };
        let quoted = quote::quoted(bytes, most);
        assert_eq!(unquoted(&quoted), bytes[..bytes.len().min(most)], "{quoted}");
    }
}

/// Decodes a string as a C compiler does.
fn unquoted(text: &str) -> Vec<u8> {
    let text = text.strip_prefix('"').expect("it begins as a string");
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    loop {
        rest = match *rest {
            [b'"', ref end @ ..] => {
                assert!(end.is_empty() || end == b"...", "{text}");
                return bytes;
            }
            [b'\\', digit @ b'0'..=b'7', ..] => {
                let count =
                    rest[1..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let _ = digit;
                let value =
                    rest[1..=count].iter().fold(0u32, |value, b| value * 8 + u32::from(b - b'0'));
                bytes.push(u8::try_from(value).expect("three digits at most of a byte"));
                &rest[1 + count..]
            }
            [b'\\', escape, ref rest @ ..] => {
                let known = [(b'n', b'\n'), (b't', b'\t'), (b'r', b'\r'), (b'v', 11), (b'f', 12)];
                let found = known.iter().find(|(letter, _)| *letter == escape);
                bytes.push(found.map_or(escape, |(_, byte)| *byte));
                rest
            }
            [byte, ref rest @ ..] => {
                bytes.push(byte);
                rest
            }
            [] => panic!("the string does not end: {text}"),
        };
    }
}
