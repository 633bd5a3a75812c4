//! io_uring with SQPOLL: a thread of Linux polls for requests, we poll for completions.

use std::hint::spin_loop;

use anyhow::{Context, Result, bail};
use io_uring::{IoUring, opcode};

use super::pair::{Batches, Pair, stay_on};
use hanare_common::machine;

const BATCH: u32 = 1000;
/// Until the thread of Linux sleeps: no batch meets that.
const IDLE_MS: u32 = 1000;

/// Measures round trips by io_uring with a thread of Linux (SQPOLL), which is kept on the
/// answerer's CPU.
pub fn measure(pair: &Pair) -> Result<Batches> {
    let made = IoUring::builder().setup_sqpoll(IDLE_MS).setup_sqpoll_cpu(pair.answerer).build(8);
    let ring = match made {
        Ok(ring) => ring,
        Err(error) => bail!("{error}{}", why()),
    };
    // A thread of its own, so that the caller's may run where it did.
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            stay_on(pair.asker)?;
            asked(pair, ring)
        });
        asker.join().map_err(|_| anyhow::anyhow!("the asking thread failed"))?
    })
}

fn asked(pair: &Pair, mut ring: IoUring) -> Result<Batches> {
    let mut failed = None;
    let batches = pair.batches(BATCH, false, || {
        for _ in 0..BATCH {
            if failed.is_none() {
                failed = round_trip(&mut ring).err();
            }
        }
    });
    failed.map_or(Ok(batches), Err)
}

#[allow(unsafe_code)]
fn round_trip(ring: &mut IoUring) -> Result<()> {
    let nop = opcode::Nop::new().build();
    // SAFETY: a NOP refers to no memory that would have to stay.
    unsafe { ring.submission().push(&nop) }.context("no room for a request")?;
    // Enters Linux only if its thread sleeps.
    ring.submit().context("cannot submit")?;
    let completion = loop {
        if let Some(completion) = ring.completion().next() {
            break completion;
        }
        spin_loop();
    };
    match completion.result() {
        0.. => Ok(()),
        error => bail!("a NOP failed: {}", std::io::Error::from_raw_os_error(-error)),
    }
}

/// Setting of Linux that may forbid io_uring, for the error message.
fn why() -> String {
    match machine::read("/proc/sys/kernel/io_uring_disabled").as_deref() {
        Some("0") => {
            "; kernel.io_uring_disabled is 0: a seccomp filter, or a kernel before 5.13?".into()
        }
        Some(value) => format!(" (kernel.io_uring_disabled is {value})"),
        None => String::new(),
    }
}
