#!/bin/bash
# Does the path of a system call stay as short as it is? Counted exactly, so that a busy machine does not
# matter; a bound leaves room for another compiler. Two boots or more, half a minute each under TCG.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0

# at_most CALL SIDE=N ...
at_most() {
    local call=$1 found
    shift
    if found=$(bench/instructions --call "$call" --at-most "$@"); then
        echo "ok $call"
    else
        failed=1
        echo "FAIL $call: $* expected; bench/instructions --call $call -v names the functions"
    fi
    echo "# $call: $found" | tr '\n' ' '
    echo
}

at_most getppid LWK=170 proxy=60
at_most getpid LWK=70
exit $failed
