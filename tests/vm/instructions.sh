#!/bin/bash
# Does the path of a system call stay as short as it is? Counted exactly, so that a busy machine does not
# matter; a bound leaves room for another compiler. Two boots, about a minute each under TCG.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0

# bound CALL SIDE AT-MOST: prints a verdict.
bound() {
    local found
    found=$(sed -n "s/^$2: \([0-9]*\) instructions$/\1/p" <<< "$counted")
    if [ "${found:-0}" -gt 0 ] && [ "$found" -le "$3" ]; then
        echo "# $1: $found instructions of the $2"
        echo "ok $1-$2"
    else
        failed=1
        echo "FAIL $1-$2: ${found:-no} instructions, at most $3 expected; bench/instructions --call $1 -v names the functions"
    fi
}

counted=$(bench/instructions --call getppid)
bound getppid LWK 430
bound getppid proxy 115
counted=$(bench/instructions --call getpid)
bound getpid LWK 240
exit $failed
