#!/bin/bash
# Tests that need no VM: unit and property tests, loom, generated files, habits.
# Prints a verdict line for each test, as the groups in the VM do. Deadlines are for what VMs beside it leave (tests/run).
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0
export CARGO_TERM_COLOR=never

# cargo_test LABEL ARGUMENT...: each test of cargo's output becomes a line.
cargo_test() {
    local label=$1 log status
    shift
    log=build/tests/host-$label.log
    timeout 3600 cargo test --no-fail-fast "$@" > "$log" 2>&1
    status=$?
    awk -v label="$label" '
        /^     Running |^   Doc-tests / {
            binary = $0
            sub(/^.*\(.*\//, "", binary); sub(/-[0-9a-f]*\)$/, "", binary); sub(/^.* /, "", binary)
        }
        /^test .* \.\.\. (ok|FAILED|ignored)/ {
            name = $0
            sub(/^test /, "", name); sub(/ \.\.\. .*$/, "", name)
            gsub(/::/, ".", name); gsub(/[^A-Za-z0-9_.\/-]+/, "-", name)
            if ($NF == "FAILED") print "FAIL " label "/" binary "/" name ": see build/tests/host-" label ".log"
            else if (/ \.\.\. ignored/) print "skip " label "/" binary "/" name ": ignored"
            else print "ok " label "/" binary "/" name
        }' "$log"
    if [ $status != 0 ]; then
        failed=1
        grep -q '^test .*FAILED' "$log" ||
            echo "FAIL $label/build: status $status, $(grep -m1 -E '^error' "$log" || tail -n 1 "$log")"
    fi
}

# step NAME COMMAND...: one verdict.
step() {
    local name=$1 said
    shift
    if said=$(timeout 1800 "$@" 2>&1); then
        echo "ok $name"
    else
        failed=1
        echo "FAIL $name: $( (grep '^FAIL' <<< "$said" | cut -c -600; tail -n 3 <<< "$said") | tr '\n' '|')"
    fi
}

# Each of the seven workspaces: the host's, the LWK's, the proxy's, the native tasks', the library's, the preloaded library's,
# the fuzz targets'.
formatted() {
    local workspace
    for workspace in . kernel tools/proxy native libhanare libhanare/async tests/fuzz; do
        (cd $workspace && cargo fmt --all --check) || return 1
    done
}

clippy() {
    cargo clippy --quiet --workspace --all-targets -- -D warnings &&
        (cd kernel && cargo clippy --quiet --workspace -- -D warnings) &&
        (cd tools/proxy && cargo clippy --quiet -- -D warnings) &&
        (cd native && cargo clippy --quiet --all-targets -- -D warnings) &&
        (cd libhanare && cargo clippy --quiet --all-targets -- -D warnings) &&
        (cd libhanare/async && cargo clippy --quiet -- -D warnings) &&
        (cd tests/fuzz && cargo clippy --quiet --release -- -D warnings) # as it is built
}

# The library's tests in C: verdict lines as they are.
library_in_c() {
    local log=build/tests/host-library-in-c.log
    make -s -C libhanare > "$log" 2>&1 && HANARE_TEST_FACTOR=5 timeout 3600 build/libhanare/tests >> "$log" 2>&1
    local status=$?
    sed -nE 's,^(ok|FAIL) ,\1 library-in-c/,p' "$log"
    [ $status = 0 ] && return
    failed=1
    grep -q '^FAIL' "$log" || echo "FAIL library-in-c/end: status $status, $(tail -n 1 "$log")"
}

# The examples of the library, where they may fail: verdict lines as they are.
library_examples() {
    local log=build/tests/host-library-examples.log
    timeout 1800 libhanare/tests/examples build/libhanare > "$log" 2>&1
    local status=$?
    sed -nE 's,^(ok|FAIL) ,\1 library-examples/,p' "$log"
    [ $status = 0 ] && return
    failed=1
    grep -q '^FAIL' "$log" || echo "FAIL library-examples/end: status $status, $(tail -n 1 "$log")"
}

# Names that no Python file defines, which an interpreter finds only where it comes by; those that `import *` may
# bring are left out. Imports that nothing uses, too.
python_names() {
    local undefined
    undefined=$({ git grep -lE '^#!/usr/bin/(env )?python3'; git ls-files '*.py'; } | sort -u |
        xargs pyflakes3 | grep -E ': undefined name |syntax|imported but unused')
    echo "$undefined"
    [ -z "$undefined" ]
}

mkdir -p build/tests
cargo_test unit --workspace
# Not its demonstrators, which have a start of their own.
cargo_test native --manifest-path native/Cargo.toml --lib
cargo_test native-guard --manifest-path native/Cargo.toml --doc
cargo_test library --manifest-path libhanare/Cargo.toml
library_in_c
library_examples
RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom cargo_test loom -p hanare-ikc --release
step trend-of-memory python3 -B tests/lib/test_trend.py
step native-header native/tests/header.sh
step async bash -c 'make --no-print-directory async && libhanare/async/tests/run --seeds 20'
export -f formatted clippy python_names
step python-names bash -c python_names
for tool in fmt clippy; do
    if cargo $tool --version > build/tests/host-$tool.log 2>&1; then
        if [ $tool = fmt ]; then step formatted bash -c formatted; else step clippy bash -c clippy; fi
    else
        echo "skip $tool: there is no cargo $tool: rustup component add rustfmt clippy"
    fi
done
# Only nightly toolchains have it, and it takes many minutes: where it is asked for.
if [ -n "${TESTS_MIRI:-}" ]; then
    step miri tests/miri
fi
step abi-header cargo xtask abi --check
step syscalls-page cargo xtask syscalls --check
step tidy cargo xtask tidy
exit $failed
