//! Records as they come out of the ring.

use hanare_abi::observe::{Capture, Record};

/// One record with what it captured.
pub struct Entry {
    /// Head of the record: kind, thread, call, times and result.
    pub head: Record,
    captures: Vec<(usize, Vec<u8>)>,
}

impl Entry {
    /// Memory that argument `index` points to, if that was captured.
    pub fn capture(&self, index: usize) -> Option<&[u8]> {
        let found = self.captures.iter().find(|(argument, _)| *argument == index);
        found.map(|(_, bytes)| bytes.as_slice())
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let at = index * 8;
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or([0; 8])))
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Takes the first record off `bytes`; `None`: it is not all there, or makes no sense.
pub fn take(bytes: &mut Vec<u8>) -> Option<Entry> {
    const HEAD: usize = size_of::<Record>();
    if bytes.len() < HEAD {
        return None;
    }
    let (size, kind) = halves(word(bytes, 0));
    if (size as usize) < HEAD || bytes.len() < size as usize {
        return None;
    }
    let (pid, tid) = halves(word(bytes, 1));
    let (number, served) = halves(word(bytes, 2));
    let head = Record {
        size,
        kind,
        pid,
        tid,
        number,
        served,
        time_ns: word(bytes, 3),
        duration_ns: word(bytes, 4),
        result: word(bytes, 5) as i64,
        args: std::array::from_fn(|index| word(bytes, 6 + index)),
    };
    let captures = captures(&bytes[HEAD..size as usize]);
    bytes.drain(..size as usize);
    Some(Entry { head, captures })
}

fn captures(mut bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    const HEAD: usize = size_of::<Capture>();
    let mut all = Vec::new();
    while bytes.len() >= HEAD {
        let (argument, length) = halves(word(bytes, 0));
        let end = HEAD + length as usize;
        let Some(data) = bytes.get(HEAD..end) else { break };
        all.push((argument as usize, data.to_vec()));
        bytes = bytes.get(end.next_multiple_of(8)..).unwrap_or(&[]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_when_they_are_complete() {
        let mut bytes = Vec::new();
        for field in [
            (96 + 16) | (1 << 32),
            7 | 8 << 32,
            1 | 2 << 32,
            10,
            11,
            -2i64 as u64,
            1,
            2,
            3,
            4,
            5,
            6u64,
            1 | 3 << 32,
        ] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        assert!(take(&mut bytes.clone()).is_none());
        bytes.extend_from_slice(b"abc\0\0\0\0\0rest");
        let entry = take(&mut bytes).unwrap();
        assert_eq!(
            (entry.head.pid, entry.head.tid, entry.head.result, entry.head.args[5]),
            (7, 8, -2, 6)
        );
        assert_eq!(entry.capture(1), Some(&b"abc"[..]));
        assert_eq!(entry.capture(0), None);
        assert_eq!(bytes, b"rest");
    }
}
