//! Calls made natively and as messages do the same: results, errors, every byte of the caller's
//! memory, and what the files and sockets hold afterwards. Messages are copied through one buffer,
//! or packed into pages; this process executes them, too, with files and sockets made anew for each
//! way.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

mod calls;
mod fixture;
mod memory;
mod ways;

use calls::{Build, CALLS};
use fixture::Fixture;
use memory::Region;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use std::collections::BTreeMap;
use ways::{Way, Ways};

/// Calls of a case.
const CALLS_MAX: usize = 4;

/// Seconds until a test that waits is ended.
const DEADLINE_S: u32 = 300;
/// Calls that may fail after they have received something.
const RECEIVING: [i64; 4] =
    [libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_readv];
const EFAULT: i64 = libc::EFAULT as i64;
const EINVAL: i64 = libc::EINVAL as i64;

/// Calls with a list of vectors.
const VECTORED: [i64; 10] = [
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Whether a call as a message may end with `other` that ends natively with `native`. A list of
/// vectors whose end is not there is a pointer to nowhere in a message (`EFAULT`), also where Linux
/// has met a negative length in its beginning (`EINVAL`).
fn is_same(call: &Call, native: i64, other: i64) -> bool {
    native == other || call.is_vectored && (native, other) == (-EINVAL, -EFAULT)
}

/// A call as it is shown, and whether it has vectors.
#[derive(PartialEq)]
struct Call {
    shown: String,
    is_vectored: bool,
}

/// Effects of a sequence of calls.
#[derive(PartialEq)]
struct Done {
    calls: Vec<(Call, i64, Vec<u8>)>,
    state: Vec<String>,
}

/// Makes the calls that `numbers` stand for.
fn run(numbers: &[u32], way: Way, ways: &mut Ways, region: &Region, counts: &mut Counts) -> Done {
    let fixture = Fixture::new();
    let mut calls = Vec::new();
    for numbers in numbers.chunks(numbers.len() / CALLS_MAX) {
        let mut build = Build::new(region, &fixture, numbers);
        let (name, make) = CALLS[build.below(CALLS.len())];
        let call = make(&mut build);
        let result = ways.make(way, region, &call);
        let shown = format!("{name} {} {:x?}", call.number, call.args);
        if way == Way::Native {
            let count = counts.entry(call.number).or_default();
            *(if result < 0 { &mut count.1 } else { &mut count.0 }) += 1;
        }
        // A message that was received before the call failed is gone; where it went is not to be
        // relied on.
        let has_lost = RECEIVING.contains(&call.number) && [-EFAULT, -EINVAL].contains(&result);
        let memory = if has_lost { Vec::new() } else { region.contents(&call.unlike) };
        let is_vectored = VECTORED.contains(&call.number);
        calls.push((Call { shown, is_vectored }, result, memory));
    }
    Done { calls, state: fixture.state() }
}

/// Successes and failures of each call.
type Counts = BTreeMap<i64, (u32, u32)>;

#[test]
fn calls_do_the_same_natively_copied_and_packed() {
    // SAFETY: ends the test if a call waits, as none should.
    unsafe { libc::alarm(DEADLINE_S) };
    let region = Region::new();
    let mut ways = Ways::new();
    let mut counts = Counts::new();
    // As many cases as PROPTEST_CASES says, or 256.
    let config = Config { failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let numbers = proptest::collection::vec(any::<u32>(), 40 * CALLS_MAX);
    let mut seen = (&mut ways, &mut counts);
    let seen = std::cell::RefCell::new(&mut seen);
    let outcome = TestRunner::new(config).run(&numbers, |numbers| {
        let mut seen = seen.borrow_mut();
        let (ways, counts) = &mut **seen;
        let native = run(&numbers, Way::Native, ways, &region, counts);
        for way in [Way::Copied, Way::Packed] {
            let other = run(&numbers, way, ways, &region, counts);
            for ((call, result, memory), (_, other, other_memory)) in
                native.calls.iter().zip(&other.calls)
            {
                let shown = &call.shown;
                let is_same = is_same(call, *result, *other);
                prop_assert!(is_same, "{:?}: {} = {}, not {}", way, shown, result, other);
                let differs: Vec<_> = (0..memory.len())
                    .filter(|&at| memory[at] != other_memory[at])
                    .map(|at| (at, memory[at], other_memory[at]))
                    .take(8)
                    .collect();
                prop_assert!(
                    differs.is_empty(),
                    "{:?}: {} = {}: memory {:x?}",
                    way,
                    shown,
                    result,
                    differs
                );
            }
            let done: Vec<_> = native.calls.iter().map(|call| (&call.0.shown, call.1)).collect();
            prop_assert_eq!(&native.state, &other.state, "{:?}: after {:?}", way, done);
        }
        Ok(())
    });
    fixture::remove();
    // The numbers themselves say nothing.
    match outcome {
        Err(TestError::Fail(why, _)) => panic!("{why}"),
        outcome => outcome.unwrap(),
    }
    let good = counts.values().filter(|count| count.0 > 0).count();
    println!(
        "{} different calls, {good} of them have succeeded; {} were refused",
        counts.len(),
        ways.refused
    );
    for (number, (good, bad)) in &counts {
        let name = hanare_core::syscalls::name(number.unsigned_abs());
        println!("{name}: {good} have succeeded, {bad} have failed");
    }
    assert!(good >= 40, "{good} different calls have succeeded");
}
