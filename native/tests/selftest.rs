//! `selftest [panic]`: what a native program in Rust stands on. Panics where something does not
//! hold.
#![no_std]
#![no_main]
#![allow(unsafe_code)]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

use hanare_native::{Errno, Failure, OrFail, Program, println};

hanare_native::entry!(main);

unsafe extern "C" {
    fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn strlen(text: *const u8) -> usize;
}

fn main(program: Program) -> Result<(), Failure> {
    match program.arguments().next() {
        Some(word) if word == c"panic" => panic!("as {} was told", "it"),
        Some(_) => return Err(Failure::usage("[panic]")),
        None => (),
    }
    assert_eq!(program.name(), c"selftest");
    assert_eq!(program.variable("SELFTEST"), Some(&b"a=b"[..]));
    memory();
    heap();
    floating_point();
    println!("all of it holds: {:?}", Errno::ENOTSUP).or_fail(format_args!("cannot write"))
}

/// The functions that compilers call.
fn memory() {
    let mut bytes: Vec<u8> = (0..200).collect();
    for (to, from, length) in
        [(0, 3, 50), (3, 0, 50), (0, 100, 100), (100, 0, 100), (5, 5, 9), (9, 8, 0)]
    {
        let mut expected = bytes.clone();
        let moved: Vec<u8> =
            bytes[from..from + length].iter().map(|&byte| black_box(byte)).collect();
        for (index, byte) in moved.into_iter().enumerate() {
            expected[to + index] = black_box(byte);
        }
        let start = bytes.as_mut_ptr();
        // SAFETY: both ranges lie in the list.
        let result = unsafe { memmove(start.add(to), start.add(from), black_box(length)) };
        assert_eq!(result, start.wrapping_add(to));
        assert!(
            bytes.iter().zip(&expected).all(|(one, other)| one == other),
            "{to} {from} {length}"
        );
    }
    let compare = |one: &[u8], other: &[u8]| {
        // SAFETY: the shorter one is as long as that.
        unsafe { memcmp(one.as_ptr(), other.as_ptr(), black_box(one.len().min(other.len()))) }
            .signum()
    };
    assert_eq!(compare(b"", b""), 0);
    assert_eq!(compare(b"abc", b"abc"), 0);
    assert_eq!(compare(b"abd", b"abc"), 1);
    assert_eq!(compare(b"ab\x01", b"ab\xff"), -1);
    assert_eq!(compare(b"b", b"a"), 1);
    // SAFETY: both end with a zero.
    assert_eq!(unsafe { (strlen(c"".as_ptr().cast()), strlen(c"four".as_ptr().cast())) }, (0, 4));
    assert!(vec![7_u8; black_box(1000)].iter().all(|&byte| byte == 7));
}

fn heap() {
    let mut map = BTreeMap::new();
    for number in 0..10_000_u32 {
        map.insert(number.reverse_bits(), number.to_string());
    }
    assert!(map.iter().all(|(key, value)| key.reverse_bits().to_string() == *value));
    let large: Vec<Vec<u8>> = (1..20_u8).map(|number| vec![number; 300_000]).collect();
    assert!(large.iter().zip(1..).all(|(list, number)| list.iter().all(|&byte| byte == number)));
}

/// The stack is aligned as SSE wants it.
fn floating_point() {
    let halves: f64 = (1..=20).map(|power| 1.0 / f64::from(black_box(1_u32) << power)).sum();
    assert!((0.999_999..1.0).contains(&halves));
    let aligned = black_box([1_u128; 4]);
    assert_eq!(aligned.iter().sum::<u128>(), 4);
}
