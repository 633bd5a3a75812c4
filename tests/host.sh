#!/bin/bash
# Tests that need no VM, as many as TESTS_TIER says:
#
#   quick   formats, clippy, unit and property tests, generated files, tidy: within 3 minutes, once
#           built
#   test    also loom at reduced depth, the libraries in C and preloaded, native tasks (the default)
#   long    the same with loom at full depth, and longer sequences of the preloaded library
#
# Prints a verdict line for each test, as the groups in the VM do, and times (tests/verdicts).
# Deadlines are for what VMs beside it leave (tests/run).
set -u
cd "$(dirname "$0")/.." || exit 1
tier=${TESTS_TIER:-test}
case $tier in quick | test | long) ;; *)
    echo "tests/host.sh: TESTS_TIER is quick, test or long, not '$tier'" >&2
    exit 2 ;;
esac
failed=0
# tests/verdicts reads cargo's lines.
export CARGO_TERM_COLOR=never CARGO_TERM_QUIET=false
# One folder for most workspaces: what two of them have in common is compiled once.
export CARGO_TARGET_DIR=$PWD/target
mkdir -p build/tests

verdicts() {
    tests/verdicts "$@" || failed=1
}
step() {
    verdicts step "$@"
}

# Each of the five workspaces: the host's, the LWK's, the proxy's, the native tasks', the fuzz
# targets'.
formatted() {
    local workspace
    for workspace in . kernel tools/proxy native tests/fuzz; do
        (cd $workspace && cargo fmt --all --check) || return 1
    done
}
clippy() {
    cargo clippy --locked --quiet --workspace --all-targets -- -D warnings &&
        (cd kernel && cargo clippy --locked --quiet --workspace -- -D warnings) &&
        (cd tools/proxy && cargo clippy --locked --quiet -- -D warnings) &&
        (cd native && cargo clippy --locked --quiet --all-targets -- -D warnings)
}
# As they are built, in the folder in which they are (tests/fuzz/run).
clippy_of_fuzz_targets() {
    cd tests/fuzz && CARGO_TARGET_DIR=target cargo clippy --locked --quiet --release -- -D warnings
}

# Names that no Python file defines, which an interpreter finds only where it comes by; those that
# `import *` may bring are left out. Imports that nothing uses, too.
python_names() {
    local undefined
    undefined=$({ git grep -lE '^#!/usr/bin/(env )?python3'; git ls-files '*.py'; } | sort -u |
        xargs pyflakes3 | grep -E ': undefined name |syntax|imported but unused')
    echo "$undefined"
    [ -z "$undefined" ]
}

export -f formatted clippy clippy_of_fuzz_targets python_names
step python-names bash -c python_names
for tool in fmt clippy; do
    if cargo $tool --version > build/tests/host-$tool.log 2>&1; then
        if [ $tool = fmt ]; then step formatted bash -c formatted; else step clippy bash -c clippy; fi
    else
        echo "skip $tool: there is no cargo $tool: rustup component add rustfmt clippy"
    fi
done
# Their crates are compiled for it alone: a minute of CPU time.
if [ $tier = test ]; then
    echo 'later clippy-of-fuzz-targets: it says nothing of the product, and make quick has it'
elif cargo clippy --version > /dev/null 2>&1; then
    step clippy-of-fuzz-targets bash -c clippy_of_fuzz_targets
fi
# The host's workspace, the library among it. At full depth in every tier: all explorations together
# take 15 s of CPU time. xtask is built with the others, as `cargo xtask` by itself would build its
# crates anew, with fewer features.
step build cargo build --locked --quiet --workspace --bins --tests
verdicts cargo unit --workspace
step abi-header target/debug/xtask abi --check
step syscalls-page target/debug/xtask syscalls --check
step tidy target/debug/xtask tidy
step sparse make -s -C module sparse
step cache tests/cached
step crates tests/crates
step verdicts python3 -B tests/test_verdicts.py
step commit-msg python3 -B tests/test_commit_msg.py
step trend-of-memory python3 -B tests/lib/test_trend.py
step runner python3 -B tests/lib/test_runner.py
step groups-of-a-change python3 -B tests/lib/test_changed.py
step no-check-is-lost tests/run --audit tests/before-tiers.list
step testing-page tests/run --document --check
[ $tier = quick ] && exit $failed

# Not its demonstrators, which have a start of their own.
verdicts cargo native --manifest-path native/Cargo.toml --lib
verdicts cargo native-guard --manifest-path native/Cargo.toml --doc
step native-header native/tests/header.sh
step library-build make -s -C libhanare
HANARE_TEST_FACTOR=5 verdicts program library-in-c build/libhanare/tests
verdicts program library-examples libhanare/tests/examples build/libhanare
step async bash -c "make -s async && libhanare/async/tests/run --seeds $([ $tier = long ] && echo 60 || echo 20)"

# At reduced depth an execution has one involuntary switch of threads less than at full depth
# (ikc/src/models.rs). Every mutant is found all the same, so that each property has been seen to
# fail where it does not hold; the full depth, which takes four times as long, is for faults that no
# mutant stands for.
[ $tier = long ] || export TESTS_DEPTH=reduced
RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom verdicts cargo loom -p hanare-ikc --profile models
# For the next clone.
tools/crates keep target
# Only nightly toolchains have it, and it takes many minutes: where it is asked for.
if [ -n "${TESTS_MIRI:-}" ]; then
    step miri tests/miri
fi
exit $failed
