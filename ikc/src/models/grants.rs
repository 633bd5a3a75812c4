//! Uses of a granted device, and its end.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Plain;
use loom::thread;

use super::explore;
use crate::grant::{GrantRef, UseWords};
use crate::one_writer::{Linux, OneWriter};
use crate::sync::{AtomicU32, IN_C, NO_FENCE, Ordering, REAL};
use hanare_abi::grant::GRANT_THERE;

/// A CPU uses the device, twice or once, and another one ends the use where `moves`. The module
/// says that the device is gone and waits: nobody uses it after that.
fn grant_model<const MUTANT: u8>(name: &str, uses: usize, moves: bool) {
    struct Shared {
        state: OneWriter<AtomicU32, Linux>,
        cpus: [UseWords; 2],
        /// 1: the device may not be used any more.
        is_over: Plain,
    }
    explore(name, None, move || {
        let shared = Arc::new(Shared {
            state: OneWriter::new(GRANT_THERE),
            cpus: [UseWords::new(), UseWords::new()],
            is_over: Plain::new(0),
        });
        let (other, all) = (shared.clone(), shared.clone());
        let lwk = thread::spawn(move || {
            for _ in 0..uses {
                if let Some(begun) = GrantRef::<MUTANT>::new(&other.state).begin(&other.cpus[0]) {
                    assert_eq!(other.is_over.load(Ordering::Relaxed), 0, "used after its end");
                    other.cpus[usize::from(moves)].end(&begun);
                }
            }
        });
        let module = thread::spawn(move || {
            GrantRef::<MUTANT>::new(&shared.state).over();
            let left = |cpu: &UseWords| cpu.uses::<MUTANT>();
            if shared.cpus.iter().map(left).fold(0, u32::wrapping_add) == 0 {
                shared.is_over.store(1, Ordering::Relaxed);
            }
        });
        lwk.join().unwrap();
        module.join().unwrap();
        let uses = all.cpus.iter().map(UseWords::uses::<REAL>).fold(0, u32::wrapping_add);
        assert_eq!(uses, 0, "each use ends once");
    });
}

#[test]
fn a_device_that_is_gone_is_not_used() {
    grant_model::<REAL>("a use", 1, false);
    grant_model::<REAL>("two uses", 2, false);
    grant_model::<REAL>("a use that ends elsewhere", 2, true);
    grant_model::<IN_C>("a use, the end in C", 2, true);
}

#[test]
#[should_panic(expected = "used after its end")]
fn a_use_is_seen_before_the_end_is_looked_for() {
    grant_model::<NO_FENCE>("a use without a fence", 1, false);
}
