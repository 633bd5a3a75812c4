//! The page of a request box, which a proxy can write: the LWK's side of it, whatever lies there
//! between any two steps.

use hanare_abi::requestbox::{BOX_SERVERS, BOX_SLOTS, BOX_WORDS, RequestBox};
use hanare_ikc::BoxRef;

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "requestbox", check, size_max: 512, seeds };

/// Kinds of steps.
const PUT: u8 = 0;
const TAKE_BACK: u8 = 1;
const TAKE_IDLE: u8 = 2;
const LOOK: u8 = 3;
/// The proxy writes a word.
const FORGE: u8 = 4;
const KINDS: u8 = 5;

/// A box, and beside it bytes that no step may write.
#[repr(C, align(64))]
struct Page {
    before: [u64; 8],
    calls: RequestBox,
    after: [u64; 8],
}

const NOBODYS: [u64; 8] = [0x5a5a_5a5a_5a5a_5a5a; 8];

/// Each step with no server, with some and with all of them, in an empty box and in one whose words
/// are all ones.
fn seeds() -> Vec<Vec<u8>> {
    let step = |kind: u8, slot: u16, servers: u64| {
        [&[kind][..], &slot.to_le_bytes(), &servers.to_le_bytes()].concat()
    };
    let ones =
        (0..(1 + BOX_WORDS + 2 * BOX_SERVERS) as u16).flat_map(|at| step(FORGE, at, u64::MAX));
    let ones: Vec<u8> = ones.collect();
    let cases = [(0, 0), (64, 3), (511, 0xff), (300, u64::MAX)];
    let steps =
        (PUT..=LOOK).flat_map(|kind| cases.map(|(slot, servers)| step(kind, slot, servers)));
    let steps: Vec<_> = steps.collect();
    let full = steps.iter().map(|step| [&ones[..], step].concat());
    steps.iter().cloned().chain(full).chain([[&ones[..], &steps.concat()].concat()]).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let calls = RequestBox {
        idle: 0,
        first: [0; BOX_SERVERS],
        reserved0: [0; 3],
        doorbells: [0; BOX_SERVERS],
        reserved1: [0; 4],
        waiting: [0; BOX_WORDS],
    };
    let mut page = Page { before: NOBODYS, calls, after: NOBODYS };
    while !input.is_empty() {
        let (kind, slot, servers) = (input.byte() % KINDS, input.u16(), input.u64());
        if kind == FORGE {
            forge(&mut page.calls, slot.into(), servers);
        } else {
            step(&mut page, kind, u32::from(slot) % BOX_SLOTS, servers);
        }
        assert_eq!((page.before, page.after), (NOBODYS, NOBODYS), "it writes into the box alone");
    }
}

/// Writes a word of the box, those at its end with half of `word`.
fn forge(calls: &mut RequestBox, at: usize, word: u64) {
    let waiting = &mut calls.waiting;
    match at % (1 + BOX_WORDS + 2 * BOX_SERVERS) {
        0 => calls.idle = word,
        at if at <= BOX_WORDS => waiting[at - 1] = word,
        at if at <= BOX_WORDS + BOX_SERVERS => calls.first[at - BOX_WORDS - 1] = word as u32,
        at => calls.doorbells[at - BOX_WORDS - BOX_SERVERS - 1] = word as u32,
    }
}

/// One step of the LWK's, and what it may have changed.
fn step(page: &mut Page, kind: u8, slot: u32, servers: u64) {
    let before = page.calls;
    // SAFETY: the box is there longer than this, aligned, and no other code looks at it meanwhile.
    let calls = unsafe { BoxRef::from_raw(&raw mut page.calls) };
    let bit = |words: &[u64; BOX_WORDS]| words[slot as usize / 64] >> (slot % 64) & 1 != 0;
    let mut expected = before;
    let rung = match kind {
        PUT => {
            let rung = calls.put(slot, servers);
            expected.waiting[slot as usize / 64] |= 1 << (slot % 64);
            if let Some(server) = rung {
                expected.first[server as usize % BOX_SERVERS] = slot + 1;
            }
            rung
        }
        TAKE_BACK => {
            assert_eq!(calls.take_back(slot), bit(&before.waiting), "whether it was there");
            expected.waiting[slot as usize / 64] &= !(1 << (slot % 64));
            None
        }
        TAKE_IDLE => calls.take_idle(servers),
        _ => {
            assert_eq!(calls.waits(slot), bit(&before.waiting));
            let _ = calls.doorbell(servers as u32); // of any number
            None
        }
    };
    if let Some(server) = rung {
        assert!(servers >> server & 1 != 0, "there is no server {server} in {servers:#x}");
        assert!(before.idle >> server & 1 != 0, "server {server} is not idle");
        expected.idle &= !(1 << server);
    } else if matches!(kind, PUT | TAKE_IDLE) {
        assert_eq!(before.idle & servers, 0, "a server sleeps that is not rung");
    }
    let after = &page.calls;
    assert_eq!((after.idle, after.first), (expected.idle, expected.first));
    assert_eq!((after.waiting, after.doorbells), (expected.waiting, before.doorbells));
}
