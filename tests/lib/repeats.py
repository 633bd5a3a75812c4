"""Programs of races and of rare states, run again and again: once is no answer there."""

import os

from harness import GUEST, check, command, difference, expect, only_long, run, ways

TIMES = 100


def hundred_times(programs, shown, skip=None):
    """Runs each of the static guest programs (a name, perhaps with words) again and again on the LWK. Its output has to
    be that on Linux each time.

    `make test` skips it, where `shown` shows the same promise. The programs' own loops have few rounds, because the
    whole program is repeated."""
    if any(ways.values()):  # the programs are after what the LWK itself does
        return

    def body(*argv):
        environment = {**os.environ, 'LC_ALL': 'C', 'TESTS_TIER': 'test'}
        linux = command(argv, env=environment)
        expect(linux.status == 0, f'test broken, on Linux: {linux}')
        for time in range(1, TIMES + 1):
            lwk = run(*argv, env=environment)
            expect(lwk.status == 0 and not lwk.late, f'time {time}: {lwk}')
            expect(lwk.out == linux.out, f'time {time}: {difference(linux.out, lwk.out)}')
    with only_long(shown):
        for name, *words in map(str.split, programs):
            check(f'{name}-{TIMES}-times', lambda: body(f'{GUEST}/static/{name}', *words), skip=skip)
