#!/bin/bash
# Does the path of a system call stay as short as it is? Counted exactly, so that a busy machine
# does not matter. Three boots or more, a third of a minute each under TCG; with TESTS_TIER=long
# another one, for calls that the driver of NVMe serves.
cd "$(dirname "$0")/../.." || exit 1
bench/instructions --check
status=$?
if [ "${TESTS_TIER:-long}" = long ]; then
    bench/instructions --devices --check || status=1
fi
exit $status
