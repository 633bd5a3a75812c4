#!/bin/bash
# Does the path of a system call stay as short as it is? Counted exactly, so that a busy machine
# does not matter. Three boots or more, a third of a minute each under TCG.
cd "$(dirname "$0")/../.." || exit 1
exec bench/instructions --check
