//! Runs of a model: their depth, and the doorbell of a side that sleeps.

use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

use loom::sync::{Condvar, Mutex};

/// A latched doorbell: as an IPI for a halted CPU, or `IOCTL_WAIT`.
#[derive(Default)]
pub struct Doorbell {
    pub rung: Mutex<bool>,
    changed: Condvar,
}

impl Doorbell {
    pub fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Whether the doorbell has rung since the last wait.
    pub fn is_rung(&self) -> bool {
        *self.rung.lock().unwrap()
    }

    /// Takes the ring, if the doorbell has rung.
    pub fn take(&self) -> bool {
        std::mem::take(&mut *self.rung.lock().unwrap())
    }

    pub fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Runs a model with at most `preemptions` involuntary switches per execution. With
/// TESTS_DEPTH=reduced there is one switch less, where there is a bound: models without
/// one are small. Each mutant has to be found at that depth, too.
pub fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let is_reduced = std::env::var("TESTS_DEPTH").is_ok_and(|depth| depth == "reduced");
    let less = usize::from(is_reduced);
    explore_whole(name, preemptions.map(|most| most.saturating_sub(less).max(1)), model);
}

/// Explores a model always at full depth, without which mutants are not found. Checks that it was
/// more than one execution.
pub fn explore_whole(
    name: &str,
    preemptions: Option<usize>,
    model: impl Fn() + Sync + Send + 'static,
) {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    RUNS.store(0, StdOrdering::Relaxed);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        RUNS.fetch_add(1, StdOrdering::Relaxed);
        model();
    });
    let runs = RUNS.load(StdOrdering::Relaxed);
    eprintln!("{name}: {runs} interleavings");
    assert!(runs > 1, "{name}: only {runs} interleaving ran");
}
