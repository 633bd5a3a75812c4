//! A call as a line.

use hanare_core::errno::Errno;
use hanare_core::syscalls;
use hanare_core::syscalls::arguments::{Argument, Direction, Structure};

use super::quote::quoted;
use super::record::Entry;
use super::{names, structures};

/// Most bytes of a path shown.
const PATH: usize = 4096;

/// The arguments of a call, out of what was captured before and after it.
pub fn call(before: &Entry, after: Option<&Entry>, most: usize) -> String {
    let number = u64::from(before.head.number);
    let name = syscalls::name(number);
    let kinds = syscalls::arguments(number);
    let count = syscalls::row(number).map_or(6, |row| usize::from(row.args));
    let shown: Vec<String> = (0..count)
        .filter(|&index| !is_unused(name, index, before))
        .map(|index| {
            let kind = kinds.get(index).copied().unwrap_or(Argument::Hex);
            argument(kind, index, before, after, most)
        })
        .collect();
    let name = if name == "?" { format!("syscall_{number:#x}") } else { name.into() };
    format!("{name}({})", shown.join(", "))
}

/// Arguments that count only with others.
fn is_unused(name: &str, index: usize, before: &Entry) -> bool {
    const CREATES: u64 = 0o100 | 0o20000000;
    const WITHOUT: [u64; 3] = [1, 3, 9];
    let args = &before.head.args;
    match (name, index) {
        ("open", 2) => args[1] & CREATES == 0,
        ("openat", 3) => args[2] & CREATES == 0,
        ("fcntl", 2) => WITHOUT.contains(&args[1]),
        ("futex", 3..) => args[1] & 0x7f == 1,
        ("mremap", 4) => args[3] & 2 == 0,
        _ => false,
    }
}

fn argument(
    kind: Argument,
    index: usize,
    before: &Entry,
    after: Option<&Entry>,
    most: usize,
) -> String {
    let value = before.head.args[index];
    let kind = kind.chosen(&before.head.args);
    let pointer = || if value == 0 { "NULL".into() } else { format!("{value:#x}") };
    let read = before.capture(index);
    let written = after.and_then(|after| after.capture(index));
    let of = |direction: Direction| if direction.is_written() { written.or(read) } else { read };
    match kind {
        Argument::Int | Argument::Descriptor => (value as i32).to_string(),
        Argument::Folder if value as i32 == -100 => "AT_FDCWD".into(),
        Argument::Folder => (value as i32).to_string(),
        Argument::Word => (value & 0xffff_ffff).to_string(),
        Argument::Unsigned => value.to_string(),
        Argument::Hex
        | Argument::Records(_)
        | Argument::Buffer(_)
        | Argument::Counted(..)
        | Argument::Typed(..)
        | Argument::Messages(..)
        | Argument::Encoded(_)
        | Argument::Chosen(_)
        | Argument::Undescribed(_) => pointer(),
        Argument::Bits if value == 0 => "0".into(),
        Argument::Bits => format!("{value:#x}"),
        Argument::Mode => format!("0{:o}", value & 0xffff_ffff),
        Argument::One(set) => names::one(value, set),
        Argument::Flags(set) => names::flags(value, set),
        Argument::Text => read.map_or_else(pointer, |bytes| quoted(bytes, PATH)),
        Argument::Input(_) => read.map_or_else(pointer, |bytes| quoted(bytes, most)),
        Argument::Output(_) if after.is_some_and(|after| after.head.result == 0) => "\"\"".into(),
        Argument::Output(_) => written.map_or_else(pointer, |bytes| quoted(bytes, most)),
        Argument::Strings => read.map_or_else(pointer, |bytes| {
            let strings = bytes
                .split_inclusive(|&byte| byte == 0)
                .map(|text| quoted(text.strip_suffix(b"\0").unwrap_or(text), most));
            format!("[{}]", strings.collect::<Vec<_>>().join(", "))
        }),
        // Only what the call has written says something of these.
        Argument::Struct(structure @ (Structure::Word | Structure::DescriptorPair), direction)
            if direction.is_written() =>
        {
            written.map_or_else(pointer, |bytes| structures::text(structure, bytes))
        }
        Argument::Struct(structure, direction) => match of(direction) {
            Some(bytes) if bytes.len() == structure.size() => structures::text(structure, bytes),
            _ => pointer(),
        },
        Argument::Many(structure, _, direction) => of(direction).map_or_else(pointer, |bytes| {
            let each =
                bytes.chunks_exact(structure.size()).map(|one| structures::text(structure, one));
            format!("[{}]", each.collect::<Vec<_>>().join(", "))
        }),
        Argument::List(..) if after.is_some_and(|after| after.head.result == 0) => "[]".into(),
        Argument::List(structure, _) => written.map_or_else(pointer, |bytes| {
            let each =
                bytes.chunks_exact(structure.size()).map(|one| structures::text(structure, one));
            format!("[{}]", each.collect::<Vec<_>>().join(", "))
        }),
        Argument::Set(_) => written.or(read).map_or_else(pointer, structures::descriptors),
        Argument::Sized(_) => match written {
            Some(bytes) if bytes.len() == Structure::Word.size() => {
                structures::text(Structure::Word, bytes)
            }
            _ => written.map_or_else(pointer, |bytes| quoted(bytes, most)),
        },
        Argument::Message(direction) => of(direction).map_or_else(pointer, structures::message),
        Argument::Address(_) => read.map_or_else(pointer, structures::address),
        Argument::AddressOut(_) => written.map_or_else(pointer, structures::address),
        Argument::Vectors(..) => read.map_or_else(pointer, |bytes| {
            let each = bytes.chunks_exact(16).map(|one| {
                let word =
                    |at: usize| u64::from_le_bytes(one[at..at + 8].try_into().unwrap_or([0; 8]));
                format!("{{iov_base={:#x}, iov_len={}}}", word(0), word(8))
            });
            format!("[{}]", each.collect::<Vec<_>>().join(", "))
        }),
    }
}

/// Calls whose result is an address.
const ADDRESSES: [&str; 5] = ["mmap", "brk", "mremap", "shmat", "arch_prctl"];

/// The result of a call, with the error's name.
pub fn result(number: u32, value: i64) -> String {
    if let Some(errno) = Errno::from_return(value) {
        let text = std::io::Error::from_raw_os_error(errno.0).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        return match errno.name() {
            Some(name) => format!("-1 {name} ({text})"),
            None => format!("-1 (error {})", errno.0),
        };
    }
    if value != 0 && ADDRESSES.contains(&syscalls::name(u64::from(number))) {
        return format!("{value:#x}");
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_name_the_error() {
        assert_eq!(result(0, -2), "-1 ENOENT (No such file or directory)");
        assert_eq!(result(0, 7), "7");
        assert_eq!(result(9, 0x1000), "0x1000");
    }
}
