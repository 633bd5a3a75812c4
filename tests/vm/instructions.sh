#!/bin/bash
# Does the path of a system call stay as short as it is? Counted exactly, so that a busy machine does not
# matter; a bound leaves room for another compiler. Three boots or more, half a minute each under TCG.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0

# least CALL SIDE AT-MOST: counts until it is that few, three times. Polling that happens to run about once
# a call cannot be told from the path, and makes it look longer, never shorter.
least() {
    local found fewest=
    for _ in 1 2 3; do
        found=$(bench/instructions --call "$1" | sed -n "s/^$2: \([0-9]*\) instructions$/\1/p")
        [ "${found:-0}" -gt 0 ] && [ "$found" -lt "${fewest:-1000000}" ] && fewest=$found
        [ "${fewest:-1000000}" -le "$3" ] && break
    done
    echo "# $1: ${fewest:-no} instructions of the $2"
    if [ "${fewest:-1000000}" -le "$3" ]; then
        echo "ok $1-$2"
    else
        failed=1
        echo "FAIL $1-$2: at most $3 instructions expected; bench/instructions --call $1 -v names the functions"
    fi
}

least getppid LWK 430
least getppid proxy 115
least getpid LWK 240
exit $failed
