"""Boot, run and shut down again and again, and several instances at once: nothing gets lost."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
import trend
from harness import *
from linuxmemory import memory

HELLO = GUEST + '/dynamic/hello'
# KiB a cycle. Not one page may be lost; memory in use may grow while Linux fills its slabs.
BOUNDS = {'lost': 4, 'used': 32}


def nothing_runs():
    """Whatever a check that failed has left is gone."""
    hanare('shutdown', '--all', '--force', status=None)


def cycle(mem='32M', cpus='2-3'):
    hanare('boot', '--cpus', cpus, '--mem', mem)
    result = run(HELLO)
    expect(result.out == b'hello\n', result)
    hanare('shutdown')


def watched(body, bounds=BOUNDS):
    """Cycles until the trend of Linux' memory is clear: names of what grows, and the series."""
    body()  # what is made once, at the first time
    first = memory()
    last = {name: first[name] for name in bounds}

    def look():
        body()
        seen = [memory()]
        # The least of three: what is on its way is no leak. Once is enough where nothing is more
        # than after the cycle before.
        while len(seen) < 3 and any(min(one[name] for one in seen) > last[name] for name in bounds):
            seen.append(memory())
        for key in 'MemTotal', 'online':
            expect(first[key] == seen[-1][key], f'{key} was {first[key]}, is {seen[-1][key]}')
        last.update((name, min(one[name] for one in seen)) for name in bounds)
        return dict(last)
    return trend.watch(look, bounds)


def loses_nothing(name, body):
    def watch():
        nothing_runs()
        grown, series = watched(body)
        for key, values in series.items():
            print(f'# {name}: {key} {trend.trend(values[-trend.LEAST:])}; {values}', flush=True)
        expect(not grown, '; '.join(f'{key} grows: {trend.trend(series[key][-trend.LEAST:])}, {series[key]}'
                                    for key in sorted(grown)))
    check(name, watch, lwk=False)


def cycles():
    def refused():
        expect(command(['hanare', 'boot', '--cpus', '2', '--mem', '256M', '--image',
                        '/bin/ls']).status == 1, 'boot of /bin/ls')
        expect(command(['hanare', 'boot', '--cpus', '2', '--mem', '50G']).status == 1, '50G')

    def panic(mem='64M', cpus='2-3'):
        hanare('boot', '--cpus', cpus, '--mem', mem)
        process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/die', 'pause'],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        hanare('debug', 'panic')
        process.wait(TIMEOUT)
        hanare('shutdown')

    loses_nothing('cycles', cycle)
    with only_long('other ways to the same end: cycles boots and ends in make test, and faults panics and is refused'):
        loses_nothing('cycles-large', lambda: cycle('768M', '1-5'))
        loses_nothing('refused-boots-lose-nothing', refused)
        loses_nothing('panics-lose-nothing', panic)

    def lost_page():
        """A page of the kernel's that is lost in each cycle is seen: here one in a pipe, which Linux does
        not count as anything either."""
        nothing_runs()
        pipes = []

        def lose():
            expect(command(['hanare', 'boot', '--cpus', '2', '--mem', '32M', '--image',
                            '/bin/ls']).status == 1, 'boot of /bin/ls')
            pipes.append(os.pipe())
            os.write(pipes[-1][1], b'x')
        try:
            grown, series = watched(lose, {'lost': BOUNDS['lost']})
        finally:
            for pipe in pipes:
                for end in pipe:
                    os.close(end)
        expect(grown == {'lost'}, f'not seen: {trend.trend(series["lost"])}, {series}')
    with only_long('the measure itself: host/trend-of-memory judges such series in make test'):
        check('one-lost-page-a-cycle-is-seen', lost_page, lwk=False)

    def modules():
        """The module leaves and comes back, and does so again."""
        nothing_runs()
        for _ in range(5 if TIER == 'long' else 2):
            expect(command(['rmmod', 'hanare']).status == 0, 'rmmod')
            cycle()  # loads it
    check('module-reloaded', modules, lwk=False)


def programs():
    def free_again():
        """Many kinds of programs; the LWK's free memory is what it was."""
        nothing_runs()
        hanare('boot', '--cpus', '2-3', '--mem', '128M')
        run(HELLO)
        before, _ = debug_memory()
        for argv in ([HELLO], ['/usr/bin/sort', '/etc/passwd'], [GUEST + '/static/mmap'],
                     [GUEST + '/static/mremap-and-brk'], [GUEST + '/static/die', 'overflow'],
                     [GUEST + '/static/die', 'abort'], ['/usr/bin/sqlite3', ':memory:', 'select 1'],
                     ['/usr/bin/python3', '-c', 'import mmap, json'], [GUEST + '/static/execve'],
                     ['/usr/bin/dd', 'if=/dev/zero', 'of=/dev/null', 'bs=20M', 'count=3']):
            folder = WORK + '/scratch'
            fresh(folder)
            run(*argv, cwd=folder)
            try:
                lwk_memory_is(before)
            except Failure as failure:
                raise Failure(f'after {argv}: {failure}')
        hanare('shutdown')
    check('programs-free-their-memory', free_again, lwk=False)


def side_by_side():
    def both_run():
        found = {instance['name']: instance['state'] for instance in json.loads(hanare('ls', '--json').out or b'[]')}
        if found != {'red': 'running', 'blue': 'running'}:
            nothing_runs()
            hanare('boot', 'red', '--cpus', '1-2', '--mem', '128M')
            hanare('boot', 'blue', '--cpus', '3-4', '--mem', '128M')

    def body():
        both_run()
        names = hanare('ls').out
        expect(b'red' in names and b'blue' in names, names)
        sums = 'my $s = 0; $s += $_ * $_ % 7 for 1 .. 300000; print "$s\n"'
        expected = command(['perl', '-e', sums]).out
        began = {name: [subprocess.Popen(['hanare', 'run', '--on', name, '--', 'perl', '-e', sums],
                                         stdout=subprocess.PIPE) for _ in range(2)]
                 for name in ('red', 'blue')}
        for name, processes in began.items():
            for process in processes:
                out, _ = process.communicate(timeout=TIMEOUT)
                expect(out == expected and process.returncode == 0, f'{name}: {out!r}')
        pipe = command(['bash', '-c', 'hanare run --on red seq 1 20000 | hanare run --on blue sort -rn '
                        '| hanare run --on red head -n 1'])
        expect(pipe.out == b'20000\n', pipe)
        result = command(['hanare', 'run', '/bin/true'])
        expect(result.status == 125 and re.search(b'--on|several', result.err), result)
    check('two-instances', body, lwk=False)

    def one_panics():
        both_run()
        hanare('debug', 'panic', 'red')
        until(lambda: b'panicked' in hanare('ls').out, 'red has panicked')
        result = run('/bin/echo', 'still here', on='blue')
        expect(result.out == b'still here\n', result)
        hanare('shutdown', 'red')
        result = run('/bin/echo', 'still here', on='blue')
        expect(result.out == b'still here\n', result)
        hanare('boot', 'red', '--cpus', '1-2', '--mem', '64M')
        expect(run('/bin/true', on='red').status == 0, 'red does not run again')
    check('one-of-two-panics', one_panics, lwk=False)

    def all_down():
        both_run()
        hanare('shutdown', '--all')
        said = hanare('ls').out
        expect(b'red' not in said and b'blue' not in said, said)
    check('shutdown-all', all_down, lwk=False)


start()
programs()
cycles()
side_by_side()
finish()
