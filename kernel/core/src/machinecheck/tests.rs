use super::status::{
    ACTION_REQUIRED, ADDRESS_VALID, CODE_DATA_LOAD, CODE_FETCH, CONTEXT_CORRUPT, DEFERRED, ENABLED,
    MISC_VALID, OVERFLOW, POISON, SIGNALED, UNCORRECTED, VALID,
};
use super::*;
use proptest::prelude::*;

const INTEL: Rules = Rules::Intel { software_recovery: true };
const OLD_INTEL: Rules = Rules::Intel { software_recovery: false };
const AMD: Rules = Rules::Amd { containment: true, overflow_recovery: false };
const OLD_AMD: Rules = Rules::Amd { containment: false, overflow_recovery: false };
const PLACE: u64 = 0x1_2345_6000;
const CAME: u64 = global::IN_PROGRESS;
const RESTART: u64 = CAME | global::RESTART_VALID;
const HERE: u64 = RESTART | global::ERROR_IP_VALID;
/// The address in the bank is physical and good for a page.
const MISC: u64 = MISC_PHYSICAL << 6 | 12;
const LOAD: u64 = VALID
    | UNCORRECTED
    | ENABLED
    | MISC_VALID
    | ADDRESS_VALID
    | SIGNALED
    | ACTION_REQUIRED
    | CODE_DATA_LOAD;

fn bank(status: u64) -> Bank {
    Bank { status, address: PLACE, misc: MISC }
}

fn of(rules: Rules, global: u64, status: u64, from_user: bool) -> Action {
    decide(rules, global, &[Bank::default(), bank(status), Bank::default()], from_user)
}

fn panics(why: Fatal) -> Action {
    Action::Panic(Some(1), why)
}

#[test]
fn a_load_of_bad_memory_by_a_program_ends_the_program() {
    assert_eq!(of(INTEL, HERE, LOAD, true), Action::EndProgram(PLACE));
    assert_eq!(of(INTEL, HERE, LOAD, false), panics(Fatal::InKernel));
}

#[test]
fn a_fetch_of_bad_memory_ends_the_program_though_no_error_ip_is_told() {
    let fetch = LOAD & !CODE_DATA_LOAD | CODE_FETCH;
    assert_eq!(of(INTEL, RESTART, fetch, true), Action::EndProgram(PLACE));
    assert_eq!(of(INTEL, HERE, fetch, false), panics(Fatal::InKernel));
}

#[test]
fn the_error_of_the_other_thread_of_the_core_is_not_ours() {
    assert_eq!(of(INTEL, RESTART, LOAD, true), Action::Continue);
    assert_eq!(of(INTEL, RESTART, LOAD, false), Action::Continue);
}

#[test]
fn a_broadcast_of_an_error_elsewhere_changes_nothing() {
    assert_eq!(decide(INTEL, RESTART, &[Bank::default(); 4], false), Action::Continue);
    assert_eq!(decide(INTEL, 0, &[Bank::default(); 4], false), Action::Continue);
}

#[test]
fn what_cannot_be_recovered_panics() {
    assert_eq!(of(INTEL, HERE, LOAD | CONTEXT_CORRUPT, true), panics(Fatal::ContextCorrupt));
    assert_eq!(of(AMD, HERE, LOAD | POISON | CONTEXT_CORRUPT, true), panics(Fatal::ContextCorrupt));
    assert_eq!(of(INTEL, HERE, LOAD | OVERFLOW, true), panics(Fatal::Overflow));
    assert_eq!(of(INTEL, HERE, LOAD & !ADDRESS_VALID, true), panics(Fatal::NoAddress));
    assert_eq!(of(INTEL, HERE, LOAD & !MISC_VALID, true), panics(Fatal::NoAddress));
    assert_eq!(of(INTEL, HERE, LOAD & !CODE_DATA_LOAD | 0x400, true), panics(Fatal::Uncorrected));
    assert_eq!(of(INTEL, HERE, LOAD & !SIGNALED, true), panics(Fatal::Uncorrected));
    assert_eq!(of(OLD_INTEL, HERE, LOAD, true), panics(Fatal::Uncorrected));
    assert_eq!(of(OLD_AMD, HERE, LOAD | POISON, true), panics(Fatal::Uncorrected));
    assert_eq!(
        of(INTEL, CAME | global::ERROR_IP_VALID, LOAD, true),
        Action::Panic(None, Fatal::NoRestart)
    );
    assert_eq!(
        decide(INTEL, CAME, &[Bank::default()], true),
        Action::Panic(None, Fatal::NoRestart)
    );
    assert_eq!(decide(INTEL, HERE, &[], true), Action::Panic(None, Fatal::NoBanks));
}

#[test]
fn an_address_of_another_kind_is_none() {
    let linear = Bank { misc: 1 << 6 | 12, ..bank(LOAD) };
    assert_eq!(decide(INTEL, HERE, &[linear], true), Action::Panic(Some(0), Fatal::NoAddress));
    let coarse = Bank { misc: MISC_PHYSICAL << 6 | 21, ..bank(LOAD) };
    assert_eq!(decide(INTEL, HERE, &[coarse], true), Action::Panic(Some(0), Fatal::NoAddress));
}

#[test]
fn corrected_and_unused_errors_go_on() {
    let corrected = VALID | ENABLED | MISC_VALID | ADDRESS_VALID | 0x90;
    assert_eq!(of(INTEL, RESTART, corrected, false), Action::Continue);
    assert_eq!(meaning(INTEL, 0, &bank(corrected), false, false), Meaning::Corrected);
    for optional in [LOAD & !ACTION_REQUIRED, LOAD & !(ACTION_REQUIRED | SIGNALED)] {
        assert_eq!(of(INTEL, RESTART, optional, false), Action::Continue);
        assert_eq!(
            meaning(INTEL, RESTART, &bank(optional), false, true),
            Meaning::Latent(Some(PLACE))
        );
    }
    let deferred = VALID | ADDRESS_VALID | DEFERRED;
    assert_eq!(meaning(AMD, 0, &bank(deferred), false, false), Meaning::Latent(Some(PLACE)));
}

#[test]
fn an_error_that_was_not_enabled_is_none_of_this_exception() {
    assert_eq!(of(INTEL, RESTART, LOAD & !ENABLED, false), Action::Continue);
}

#[test]
fn amd_ends_the_program_that_used_poison() {
    let used = VALID | UNCORRECTED | ENABLED | ADDRESS_VALID | POISON;
    assert_eq!(of(AMD, HERE, used, true), Action::EndProgram(PLACE));
    assert_eq!(of(AMD, HERE, used, false), panics(Fatal::InKernel));
    assert_eq!(of(AMD, HERE, used | OVERFLOW, true), panics(Fatal::Overflow));
    let recovers = Rules::Amd { containment: true, overflow_recovery: true };
    assert_eq!(of(recovers, HERE, used | OVERFLOW, true), Action::EndProgram(PLACE));
    assert_eq!(of(AMD, HERE, used & !POISON, true), panics(Fatal::NoAddress));
}

#[test]
fn the_worst_bank_decides() {
    let banks = [bank(LOAD), bank(LOAD | CONTEXT_CORRUPT)];
    assert_eq!(decide(INTEL, HERE, &banks, true), Action::Panic(Some(1), Fatal::ContextCorrupt));
}

proptest! {
    /// Whatever the banks say, no code goes on with a corrupt context, without a place to go on at,
    /// or in the kernel with data that was used.
    #[test]
    fn no_program_goes_on_that_must_not(
        statuses in prop::collection::vec(any::<u64>(), 1..8), misc: u64, global in 0u64..8, user: bool,
        rules in prop::sample::select(std::vec![INTEL, OLD_INTEL, AMD, OLD_AMD]),
    ) {
        let banks: std::vec::Vec<_> = statuses.iter().map(|&status| Bank { status, address: PLACE, misc }).collect();
        let corrupt = VALID | ENABLED | UNCORRECTED | CONTEXT_CORRUPT;
        let stops = banks.iter().any(|b| b.status & corrupt == corrupt)
            || global & (CAME | global::RESTART_VALID) == CAME;
        match decide(rules, global, &banks, user) {
            Action::Continue => prop_assert!(!stops),
            Action::EndProgram(address) => {
                prop_assert!(!stops && user && address == PLACE);
                prop_assert!(banks.iter().any(|b| b.status & (VALID | UNCORRECTED | ADDRESS_VALID) == VALID | UNCORRECTED | ADDRESS_VALID));
            }
            Action::Panic(..) => {}
        }
    }
}
