use super::wire::{put_u64, u32_at, u64_at};
use super::*;
use crate::errno::Errno;
use crate::syscalls::arguments::Direction;
use crate::syscalls::{Service, rows};
use crate::usermemory::{CallerMemory, Fault, UserMemory};
use linux_raw_sys::general::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::vec::Vec;
use std::{format, vec};

/// Where the caller's memory begins.
const START: u64 = 0x10_0000;

/// Memory that notes where it is written to.
struct Memory {
    bytes: Vec<u8>,
    written: RefCell<Vec<(u64, usize)>>,
}

impl Memory {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, written: RefCell::default() }
    }

    fn place(&self, addr: u64, count: usize) -> Result<usize, Fault> {
        let at = usize::try_from(addr.checked_sub(START).ok_or(Fault)?).map_err(|_| Fault)?;
        let end = at.checked_add(count).ok_or(Fault)?;
        if end > self.bytes.len() { Err(Fault) } else { Ok(at) }
    }
}

impl UserMemory for Memory {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        let at = self.place(addr, to.len())?;
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
        Ok(())
    }

    fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        Err(Fault)
    }
}

impl CallerMemory for Memory {
    fn writable(&self, addr: u64, bytes: u64) -> u64 {
        let end = START + self.bytes.len() as u64;
        if (START..end).contains(&addr) { bytes.min(end - addr) } else { 0 }
    }

    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        let at = self.place(addr, from.len())?;
        self.bytes[at..at + from.len()].copy_from_slice(from);
        self.written.borrow_mut().push((addr, from.len()));
        Ok(())
    }
}

const PLACE: Place = Place { message: 0x7000_0000, own: 0x6000_0000, has_guard: true };

fn sent(memory: &Memory, number: u32, args: &[u64; 6], bytes: usize) -> (Vec<u8>, Vec<Piece>) {
    let (mut buffer, mut pieces) = (vec![0xee; bytes], vec![Piece::NONE; 4096]);
    let encoded = encode(memory, number, args, &mut buffer[..], &mut pieces).unwrap();
    pieces.truncate(encoded.pieces);
    (buffer, pieces)
}

#[test]
fn a_write_is_its_head_and_its_bytes() {
    let memory = Memory::new(b"hello, world".to_vec());
    let (buffer, pieces) = sent(&memory, __NR_write, &[1, START, 5, 0, 0, 0], 200);
    assert_eq!(&buffer[..16], b"HNCL\x01\0\0\0\x55\0\0\0\0\0\0\0");
    assert_eq!([0, 1, 2].map(|n| u64_at(&buffer, 16 + n * 8)), [1, 80, 5]);
    assert_eq!(&buffer[80..86], b"hello\xee");
    assert!(pieces.is_empty());
    let decoded = decode(&buffer[..], PLACE, &mut []).unwrap();
    assert_eq!(decoded.args, [1, PLACE.message + 80, 5, 0, 0, 0]);
    assert_eq!(decoded.written, Span { from: 0, to: 0 });
}

/// A `struct msghdr` with a name, two vectors and control data, and what they refer to.
fn message() -> Memory {
    let mut bytes = vec![0; 0x400];
    for (at, word) in [
        (0, START + 0x100),
        (8, 16),
        (16, START + 0x40),
        (24, 2),
        (32, START + 0x200),
        (40, 24),
        (0x40, START + 0x300),
        (0x48, 3),
        (0x50, START + 0x310),
        (0x58, 5),
    ] {
        put_u64(&mut bytes, at, word);
    }
    bytes[0x300..0x303].copy_from_slice(b"abc");
    bytes[0x310..0x315].copy_from_slice(b"defgh");
    Memory::new(bytes)
}

#[test]
fn a_sent_message_has_offsets_for_its_pointers() {
    let (buffer, _) = sent(&message(), __NR_sendmsg, &[3, START, 0, 0, 0, 0], 4096);
    assert_eq!(u64_at(&buffer, 24), 80);
    // The head of 56 bytes, the name, the vectors, data, control data.
    let offsets = [80, 80 + 16, 80 + 32].map(|at| u64_at(&buffer, at));
    assert_eq!(offsets, [144, 160, 224]);
    assert_eq!([160, 168, 176, 184].map(|at| u64_at(&buffer, at)), [192, 3, 208, 5]);
    assert_eq!(&buffer[192..195], b"abc");
    assert_eq!(&buffer[208..213], b"defgh");
    let mut own = vec![0; 256];
    let decoded = decode(&buffer[..], PLACE, &mut own).unwrap();
    // What holds addresses is where the other side does not see it.
    assert_eq!(decoded.args[1], PLACE.own);
    assert_eq!(u64_at(&own, 0), PLACE.message + 144);
    assert_eq!(u64_at(&own, 16), PLACE.own + 64);
    assert_eq!(u64_at(&own, 64), PLACE.message + 192);
    assert_eq!(decode(&buffer[..], PLACE, &mut own[..80]), Err(Malformed::NoRoom));
}

#[test]
fn what_a_received_message_says_is_written_and_no_more() {
    let mut memory = message();
    let (mut buffer, pieces) = sent(&memory, __NR_recvmsg, &[3, START, 0, 0, 0, 0], 4096);
    let mut own = vec![0; 256];
    let decoded = decode(&buffer[..], PLACE, &mut own).unwrap();
    let at = |pointer: u64| usize::try_from(pointer - PLACE.message).unwrap();
    let (name, data) = (at(u64_at(&own, 0)), at(u64_at(&own, 64)));
    buffer[name..name + 16].fill(b'n');
    buffer[data..data + 3].copy_from_slice(b"ABC");
    buffer[data + 16..data + 21].copy_from_slice(b"DEFGH");
    // Linux says: a name of 2 bytes, no control data, 4 bytes.
    own[8] = 2;
    put_u64(&mut own, 40, 0);
    finish(&mut buffer[..], &decoded, &own, 4);
    assert_eq!(complete(&buffer[..], &pieces, &mut memory), 4);
    assert_eq!(&memory.bytes[0x100..0x103], b"nn\0");
    assert_eq!(&memory.bytes[0x300..0x303], b"ABC");
    assert_eq!(&memory.bytes[0x310..0x315], b"Defgh");
    assert_eq!(u64_at(&memory.bytes, 0), START + 0x100, "the caller's pointers stay");
    assert_eq!((u32_at(&memory.bytes, 8), u64_at(&memory.bytes, 40)), (2, 0));
}

#[test]
fn a_result_writes_no_more_than_was_asked_for() {
    let mut memory = Memory::new(vec![1; 64]);
    let args = [3, START, 8, 0, 0, 0];
    for (result, written) in [(3, 3), (0, 0), (-5, 0), (8, 8), (1 << 40, 8), (i64::MIN, 0)] {
        let (mut buffer, pieces) = sent(&memory, __NR_read, &args, 200);
        let decoded = decode(&buffer[..], PLACE, &mut []).unwrap();
        buffer[80..].fill(2);
        finish(&mut buffer[..], &decoded, &[], result);
        assert_eq!(complete(&buffer[..], &pieces, &mut memory), result);
        assert_eq!(memory.bytes.iter().filter(|&&byte| byte == 2).count(), written);
        memory.bytes.fill(1);
    }
}

#[test]
fn pointers_that_lead_nowhere_lead_nowhere_for_linux() {
    let memory = Memory::new(vec![1; 64]);
    for (pointer, is) in [(0, 0), (u64::MAX, 0xffff_ffff_ffff_f000), (16, 0x1000)] {
        for number in [__NR_read, __NR_write, __NR_readv] {
            let (buffer, pieces) = sent(&memory, number, &[3, pointer, 8, 0, 0, 0], 200);
            assert!(pieces.is_empty());
            assert_eq!(decode(&buffer[..], PLACE, &mut []).unwrap().args[1], is);
        }
    }
}

#[test]
fn what_is_there_in_part_ends_with_the_buffer() {
    let memory = Memory::new(vec![b'x'; 4096]);
    let args = [1, START + 4093, 10, 0, 0, 0];
    let (buffer, _) = sent(&memory, __NR_write, &args, 200);
    assert_eq!(u32_at(&buffer, 12), 197);
    assert_eq!(&buffer[196..], b"\xeexxx");
    let decoded = decode(&buffer[..], PLACE, &mut []).unwrap();
    assert_eq!(decoded.args[1], PLACE.message + 197);
    let unguarded = Place { has_guard: false, ..PLACE };
    assert_eq!(decode(&buffer[..], unguarded, &mut []), Err(Malformed::Fault));
    // Two of them have no place.
    let both = [START + 4093, START + 4094, 0, 0, 0, 0];
    let result = encode(&memory, __NR_rename, &both, &mut vec![0; 9000][..], &mut []);
    assert_eq!(result, Err(Refusal::SeveralFaults));
}

#[test]
fn what_does_not_fit_is_refused_with_what_it_takes() {
    let memory = Memory::new(vec![0; 1 << 16]);
    let args = [3, START + 5, 9000, 0, 0, 0];
    let mut pieces = [Piece::NONE; 1];
    let refused = encode(&memory, __NR_read, &args, &mut vec![0; 4096][..], &mut pieces);
    let Err(Refusal::DoesNotFit { needed }) = refused else { panic!("{refused:?}") };
    let mut buffer = vec![0; usize::try_from(needed).unwrap()];
    assert!(encode(&memory, __NR_read, &args, &mut buffer[..], &mut pieces).is_ok());
    // Data has its place in a sector.
    assert_eq!(u64_at(&buffer, 24) % 512, 5);
    let refused = encode(&memory, __NR_read, &args, &mut buffer[..], &mut []);
    assert_eq!(refused, Err(Refusal::ListFull));
    let huge = [3, START, 1 << 45, 0, 0, 0];
    let refused = encode(&memory, __NR_write, &huge, &mut buffer[..], &mut []);
    assert!(matches!(refused, Err(Refusal::DoesNotFit { .. } | Refusal::SeveralFaults)));
}

#[test]
fn calls_without_a_description_are_refused() {
    let memory = Memory::new(vec![0; 4096]);
    for number in [__NR_mmap, __NR_vmsplice, __NR_bpf, 999] {
        let refused = encode(&memory, number, &[START; 6], &mut vec![0; 4096][..], &mut []);
        assert!(matches!(refused, Err(Refusal::Undescribed(_))), "{number}");
        let (mut buffer, _) = sent(&memory, __NR_getppid, &[0; 6], 200);
        buffer[4..8].copy_from_slice(&number.to_le_bytes());
        let refused = decode(&buffer[..], PLACE, &mut []);
        assert!(matches!(refused, Err(Malformed::Undescribed(_))), "{number}");
    }
    let command = [3, 0xc0de, START, 0, 0, 0];
    let refused = encode(&memory, __NR_ioctl, &command, &mut vec![0; 4096][..], &mut []);
    assert!(matches!(refused, Err(Refusal::Undescribed(_))));
}

#[test]
fn ranges_are_those_of_arguments_and_of_structures() {
    let mut found = Vec::new();
    let outcome = ranges(&message(), __NR_sendmsg, &[3, START, 0, 0, 0, 0], |addr, length, way| {
        found.push((addr - START, length, way));
        true
    });
    assert_eq!(outcome, Ok(()));
    let sizes = [(0, 56), (0x100, 16), (0x40, 32), (0x300, 3), (0x310, 5), (0x200, 24)];
    assert_eq!(found, sizes.map(|(addr, length)| (addr, length, Direction::In)));
    let outcome = ranges(&message(), __NR_read, &[3, START, 9, 0, 0, 0], |_, _, _| false);
    assert_eq!(outcome, Err(RangesEnd::Stopped));
}

#[test]
fn pages_of_a_message_name_one_another() {
    let memory = Memory::new((0..9000u32).map(|at| at.to_le_bytes()[0]).collect());
    let (mut pool, chain) = (vec![[0; 4096]; 8], [5, 2, 7, 0]);
    let args = [1, START, 9000, 0, 0, 0];
    let mut packed = Packed::new(&mut pool, &chain).unwrap();
    let encoded = encode(&memory, __NR_write, &args, &mut packed, &mut []).unwrap();
    assert_eq!(packed.seal(77, encoded.size), 3);
    let head = |number| page_head(&pool, number).unwrap();
    assert_eq!([5, 2, 7].map(|n| (head(n).index, head(n).next)), [(0, 2), (1, 7), (2, u32::MAX)]);
    let (mut to, mut found) = (vec![0; 3 * PAYLOAD_BYTES], [0; 3]);
    let take =
        |pool: &[Page], call, to: &mut [u8], found: &mut [u32]| gather(pool, 5, call, to, found);
    assert_eq!(take(&pool, 77, &mut to, &mut found), Some(3));
    assert_eq!(found, [5, 2, 7]);
    let decoded = decode(&to[..], PLACE, &mut []).unwrap();
    let at = usize::try_from(decoded.args[1] - PLACE.message).unwrap();
    assert_eq!(to[at..at + 9000], memory.bytes);
    // Of another call, too long, back to its beginning, out of the pool.
    assert_eq!(take(&pool, 78, &mut to, &mut found), None);
    assert_eq!(take(&pool, 77, &mut to[..2 * PAYLOAD_BYTES], &mut found), None);
    for next in [5, 2, 8, u32::MAX] {
        let mut pool = pool.clone();
        pool[2][4..8].copy_from_slice(&next.to_le_bytes());
        assert_eq!(take(&pool, 77, &mut to, &mut found), None, "{next}");
    }
    assert!(Packed::new(&mut pool, &[8]).is_none());
}

/// Arguments that are numbers, or addresses in memory or near to its end.
fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20u64,
        4 => (0..0x3000u64).prop_map(|at| START + at),
        1 => (0..40u64).prop_map(|at| START + 0x4000 - at),
        1 => any::<u64>(),
        1 => prop::sample::select(vec![0x5401, 0x541b, 0x8913, 1, 5, 26, 129, 1025, u64::MAX]),
    ]
}

/// Memory whose words are numbers and addresses in it.
fn words() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(argument(), 64).prop_map(|words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.iter().copied().cycle().take(0x4000).collect()
    })
}

/// A call that Linux executes.
fn number() -> impl Strategy<Value = u32> {
    let delegated = rows().iter().filter(|row| matches!(row.service, Service::Delegated(_)));
    prop::sample::select(delegated.map(|row| u32::from(row.number)).collect::<Vec<_>>())
}

/// Numbers are as they were sent; every pointer leads into the message, to one's own memory, or
/// nowhere.
fn leads_inside(decoded: &Decoded, args: &[u64; 6], size: usize) {
    use crate::syscalls::arguments::Argument::*;
    let arguments = crate::syscalls::arguments(u64::from(decoded.number));
    for (at, argument) in arguments.iter().enumerate() {
        let (made, sent) = (decoded.args[at], args[at]);
        let inside = |start: u64, size: usize| (start..=start + size as u64).contains(&made);
        let is_number = match argument.chosen(args) {
            Int | Word | Unsigned | Bits | Mode | Descriptor | Folder | One(_) | Flags(_) => true,
            Encoded(_) => args[1] >> 30 & 3 == 0,
            _ => false,
        };
        let is_good = match is_number {
            true => made == sent,
            false => {
                [0, 0x1000, 0xffff_ffff_ffff_f000].contains(&made)
                    || inside(PLACE.message, size)
                    || inside(PLACE.own, 1 << 20)
            }
        };
        assert!(is_good, "{decoded:x?} {args:x?}");
    }
}

proptest! {
    #[test]
    fn every_call_that_is_sent_is_understood(
        number in number(),
        args in prop::array::uniform6(argument()),
        bytes in words(),
    ) {
        let memory = Memory::new(bytes);
        let (mut buffer, mut pieces) = (vec![0xee; 1 << 17], vec![Piece::NONE; 5000]);
        let Ok(encoded) = encode(&memory, number, &args, &mut buffer[..], &mut pieces) else {
            return Ok(());
        };
        let mut own = vec![0; 1 << 20];
        let decoded = decode(&buffer[..], PLACE, &mut own);
        prop_assert!(decoded.is_ok(), "{decoded:?}: {number} {args:x?}");
        leads_inside(&decoded.unwrap(), &args, buffer.len());
        // The same in pages.
        let mut pool = vec![[0; 4096]; 40];
        let chain: Vec<u32> = (0..40).rev().collect();
        let mut packed = Packed::new(&mut pool, &chain).unwrap();
        match encode(&memory, number, &args, &mut packed, &mut pieces) {
            Err(Refusal::DoesNotFit { .. }) => prop_assert!(encoded.size > 40 * PAYLOAD_BYTES - 512),
            other => {
                let pages = packed.seal(1, other.unwrap().size) as usize;
                let mut to = vec![0; pages * PAYLOAD_BYTES];
                let found = gather(&pool, 39, 1, &mut to, &mut [0; 40]);
                prop_assert_eq!(found, Some(pages));
                prop_assert!(decode(&to[..], PLACE, &mut own).is_ok(), "{number} {args:x?}");
            }
        }
    }

    /// Whatever the pages of a message have become, their heads too: what is executed lies inside
    /// the message, and what comes back is written behind the heads of its pages, and to no other
    /// page.
    #[test]
    fn hostile_pages_reach_nothing_else(
        number in number(),
        args in prop::array::uniform6(argument()),
        bytes in words(),
        chain in Just((0..8u32).collect::<Vec<_>>()).prop_shuffle(),
        changes in prop::collection::vec((0..8usize, 0..400usize, argument(), 1..9usize), 0..5),
        next in (0..8usize, 0..10u32),
        result in prop_oneof![any::<i64>(), -40..5000i64],
    ) {
        let (mut pool, mut pieces) = (vec![[0; 4096]; 8], vec![Piece::NONE; 5000]);
        let mut packed = Packed::new(&mut pool, &chain).unwrap();
        if let Ok(encoded) = encode(&Memory::new(bytes), number, &args, &mut packed, &mut pieces) {
            packed.seal(9, encoded.size);
        }
        for (page, at, word, count) in changes {
            // Mostly in the head of the message, where the pointers are.
            let at = if at < 300 { at % 128 } else { at * 8 };
            pool[page][at..at + count].copy_from_slice(&word.to_le_bytes()[..count]);
        }
        if next.1 < 8 {
            pool[next.0][4..8].copy_from_slice(&next.1.to_le_bytes());
        }
        let before = pool.clone();
        let (mut to, mut found) = (vec![0; 8 * PAYLOAD_BYTES], [0; 8]);
        let Some(count) = gather(&pool, chain[0], 9, &mut to, &mut found) else { return Ok(()) };
        let found = &found[..count];
        prop_assert!(found.iter().all(|page| found.iter().filter(|one| *one == page).count() == 1));
        let (to, mut own) = (&mut to[..count * PAYLOAD_BYTES], vec![0; 1 << 20]);
        let Ok(decoded) = decode(&*to, PLACE, &mut own) else { return Ok(()) };
        let head: [u64; 6] = std::array::from_fn(|at| u64_at(to, 16 + at * 8));
        leads_inside(&decoded, &head, to.len());
        prop_assert!(decoded.written.to <= to.len());
        let mut packed = Packed::new(&mut pool, found).unwrap();
        to[decoded.written.from..decoded.written.to].fill(0x5a);
        packed.write(decoded.written.from, &to[decoded.written.from..decoded.written.to]);
        finish(&mut packed, &decoded, &own, result);
        for (number, (page, before)) in (0..).zip(pool.iter().zip(&before)) {
            let kept = if found.contains(&number) { PAGE_HEAD_BYTES } else { page.len() };
            prop_assert_eq!(&page[..kept], &before[..kept], "page {}", number);
        }
    }

    /// Whatever a message has become: reading it ends, and what comes back writes to the caller's
    /// memory only where the call asked for it.
    #[test]
    fn hostile_messages_reach_nothing_else(
        number in number(),
        args in prop::array::uniform6(argument()),
        bytes in words(),
        changes in prop::collection::vec((0..400usize, argument(), 0..9usize), 0..6),
        result in prop_oneof![any::<i64>(), -40..5000i64],
    ) {
        let mut memory = Memory::new(bytes);
        let (mut buffer, mut pieces) = (vec![0xee; 1 << 16], vec![Piece::NONE; 5000]);
        let encoded = encode(&memory, number, &args, &mut buffer[..], &mut pieces);
        for (at, word, count) in changes {
            // Mostly in the head, where the pointers are.
            let at = if at < 300 { at % 96 } else { at * 8 };
            buffer[at..at + count].copy_from_slice(&word.to_le_bytes()[..count.min(8)].repeat(2)[..count]);
        }
        let mut own = vec![0; 1 << 20];
        if let Ok(decoded) = decode(&buffer[..], PLACE, &mut own) {
            let head: [u64; 6] = std::array::from_fn(|at| u64_at(&buffer, 16 + at * 8));
            leads_inside(&decoded, &head, buffer.len());
            finish(&mut buffer[..], &decoded, &own, result);
        }
        let Ok(encoded) = encoded else { return Ok(()) };
        let mut allowed = Vec::new();
        let described = ranges(&memory, number, &args, |addr, length, direction| {
            if direction.is_written() {
                allowed.push((addr, addr.saturating_add(length)));
            }
            true
        });
        prop_assert_eq!(described, Ok(()));
        let said = complete(&buffer[..], &pieces[..encoded.pieces], &mut memory);
        prop_assert!(said == u64_at(&buffer, 64).cast_signed() || said == Errno(14).as_return());
        for &(addr, length) in memory.written.borrow().iter() {
            let end = addr + length as u64;
            let is_allowed = allowed.iter().any(|&(from, to)| from <= addr && end <= to);
            prop_assert!(is_allowed, "{}", format!("{number} {args:x?}: {addr:x} {length}"));
        }
    }
}
