//! Two threads on two CPUs that hand the turn over and back, and how long that takes.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::samples::Summary;

/// A way of handing the turn over and back. A call that fails must not block, and is noted.
pub trait Exchange: Sync {
    /// Round trips in a batch: a batch is short enough to fall between two disturbances.
    const BATCH: u32;
    /// Both sides sleep until they are woken.
    const SLEEPS: bool = false;
    /// One side: asks and waits for the answer, so often.
    fn ask(&self, count: u32);
    /// The other side: waits for the question and answers, so often.
    fn answer(&self, count: u32);
    /// The first call that failed.
    fn failed(&self) -> Option<Errno> {
        None
    }
}

/// Notes the first error of any of several threads.
#[derive(Default)]
pub struct Failed(AtomicI32);

impl Failed {
    /// Notes that a call failed.
    pub fn note<T>(&self, result: rustix::io::Result<T>) {
        if let Err(error) = result {
            let _ = self.0.compare_exchange(
                0,
                error.raw_os_error(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// The first that did.
    pub fn first(&self) -> Option<Errno> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Errno::from_raw_os_error(number)),
        }
    }
}

/// The two CPUs.
#[derive(Clone, Copy)]
pub struct Pair {
    /// CPU of the side that asks and takes the time.
    pub asker: u32,
    /// CPU of the side that answers.
    pub answerer: u32,
    /// Small budgets.
    pub quick: bool,
}

/// Batches of one round: ns per round trip.
pub struct Batches {
    /// Time of each batch, ns per round trip.
    pub ns: Vec<f64>,
    /// Both sides sleep until they are woken.
    pub sleeps: bool,
}

impl Batches {
    /// Sample of the round: the best batch, which nothing disturbed. For ways that sleep it is the
    /// median: in their best batch both sides were so fast that neither slept.
    pub fn sample(&self) -> Option<f64> {
        Summary::of(&self.ns).map(|summary| if self.sleeps { summary.median } else { summary.min })
    }
}

/// At least so many batches, whatever the budget says.
const BATCHES_MIN: usize = 5;

/// No further batch.
const OVER: u32 = u32::MAX;

impl Pair {
    fn budget(self) -> Duration {
        Duration::from_millis(if self.quick { 20 } else { 200 })
    }

    /// Takes the times of batches until the budget is used. The first one warms up.
    pub fn batches(self, count: u32, sleeps: bool, mut batch: impl FnMut()) -> Batches {
        batch();
        let mut ns = Vec::new();
        let begin = Instant::now();
        while ns.len() < BATCHES_MIN || begin.elapsed() < self.budget() {
            let start = Instant::now();
            batch();
            ns.push(start.elapsed().as_nanos() as f64 / f64::from(count));
        }
        Batches { ns, sleeps }
    }

    /// Has two threads exchange turns.
    pub fn exchange<E: Exchange>(self, exchange: &E) -> Result<Batches> {
        // Which batch the answerer is to take part in.
        let stage = AtomicU32::new(0);
        let batches = thread::scope(|scope| {
            let answerer = scope.spawn(|| {
                let stayed = stay_on(self.answerer);
                let mut done = 0;
                loop {
                    match stage.load(Ordering::Acquire) {
                        OVER => return stayed,
                        wanted if wanted == done => thread::yield_now(),
                        wanted => {
                            done = wanted;
                            exchange.answer(E::BATCH);
                        }
                    }
                }
            });
            let asker = scope.spawn(|| {
                let stayed = stay_on(self.asker);
                let mut number = 0;
                let batches = self.batches(E::BATCH, E::SLEEPS, || {
                    number += 1;
                    stage.store(number, Ordering::Release);
                    exchange.ask(E::BATCH);
                });
                stage.store(OVER, Ordering::Release);
                stayed.map(|()| batches)
            });
            let batches = asker.join().map_err(|_| anyhow::anyhow!("the asking thread failed"))?;
            answerer.join().map_err(|_| anyhow::anyhow!("the answering thread failed"))??;
            batches
        })?;
        match exchange.failed() {
            Some(error) => Err(error).context("a call of it failed"),
            None => Ok(batches),
        }
    }
}

/// Keeps the calling thread on a CPU.
pub fn stay_on(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).with_context(|| format!("cannot stay on CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept() {
        let failed = Failed::default();
        failed.note(Ok(()));
        assert_eq!(failed.first(), None);
        failed.note::<()>(Err(Errno::PIPE));
        failed.note::<()>(Err(Errno::INVAL));
        assert_eq!(failed.first(), Some(Errno::PIPE));
    }

    #[test]
    fn the_sample_is_the_best_batch_or_of_sleepers_the_middle_one() {
        let batches = |sleeps| Batches { ns: vec![9.0, 1.0, 5.0], sleeps };
        assert_eq!((batches(false).sample(), batches(true).sample()), (Some(1.0), Some(5.0)));
    }

    #[test]
    fn the_budget_is_used_and_at_least_some_batches_are_made() {
        let pair = Pair { asker: 0, answerer: 0, quick: true };
        let mut calls = 0;
        let batches = pair.batches(2, false, || {
            calls += 1;
            thread::sleep(Duration::from_millis(8));
        });
        assert_eq!(batches.ns.len(), BATCHES_MIN);
        assert_eq!(calls, BATCHES_MIN + 1);
        assert!(batches.ns.iter().all(|&ns| ns >= 4e6));
    }
}
