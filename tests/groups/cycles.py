"""Boot, run and shut down again and again, and several instances at once: nothing gets lost."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

CYCLES = 50
HELLO = GUEST + '/dynamic/hello'
# What Linux itself moves between two looks: a few pages that are in no list at the moment.
SLACK_KIB = 160
# Slabs and such, which Linux keeps and counts.
SLACK_FREE_KIB = 6144


def memory():
    """Where Linux' memory is, in KiB.

    Free pages are MemFree (= /proc/buddyinfo) and those in the lists of each CPU, which move by
    megabytes. `lost` is what nobody answers for: neither free, nor page cache, anonymous memory,
    slab, page table, kernel stack, per-CPU or vmalloc memory. Pages that the module took and did
    not give back would be there.
    """
    os.sync()
    for _ in range(2):
        with open('/proc/sys/vm/drop_caches', 'w') as drop:
            drop.write('3')
        time.sleep(0.5)
    with open('/proc/zoneinfo') as file:
        zones = file.read()
    with open('/proc/meminfo') as file:
        info = {line.split(':')[0]: int(line.split()[1]) for line in file}
    with open('/proc/buddyinfo') as file:
        buddy = sum(int(count) << order for line in file
                    for order, count in enumerate(line.split()[4:])) * 4
    with open('/sys/devices/system/cpu/online') as file:
        online = file.read().strip()
    listed = 4 * sum(int(count) for count in re.findall(r'^ +count: +(\d+)', zones, re.M))
    free = info['MemFree'] + listed
    counted = sum(info[key] for key in ('Active', 'Inactive', 'Unevictable', 'Slab', 'KernelStack',
                                        'PageTables', 'Percpu', 'VmallocUsed'))
    return {'MemTotal': info['MemTotal'], 'free': free, 'buddy': buddy + listed,
            'lost': info['MemTotal'] - free - counted, 'online': online}


def cycle(mem='32M', cpus='2-3'):
    hanare('boot', '--cpus', cpus, '--mem', mem)
    result = run(HELLO)
    expect(result.out == b'hello\n', result)
    hanare('shutdown')


def compare(before, after, what):
    for key in 'MemTotal', 'online':
        expect(before[key] == after[key], f'{what}: {key} was {before[key]}, is {after[key]}')
    lost = after['lost'] - before['lost']
    expect(lost <= SLACK_KIB, f'{what}: {lost} KiB are lost: {before} {after}')
    for key in 'free', 'buddy':
        less = before[key] - after[key]
        expect(less <= SLACK_FREE_KIB, f'{what}: {less} KiB less are {key}: {before} {after}')


def cycles():
    def body():
        for _ in range(5):
            cycle()
        before = memory()
        for n in range(CYCLES):
            try:
                cycle()
            except Failure as failure:
                raise Failure(f'cycle {n}: {failure}')
        after = memory()
        print('# before', before)
        print('# after ', after)
        compare(before, after, f'{CYCLES} cycles')
    check('cycles', body, lwk=False)

    def large():
        before = memory()
        for _ in range(3):
            cycle('768M', '1-5')
        compare(before, memory(), '3 large cycles')
    check('cycles-large', large, lwk=False)

    def refused_boots():
        before = memory()
        for _ in range(10):
            expect(command(['hanare', 'boot', '--cpus', '2', '--mem', '900M', '--image',
                            '/bin/ls']).status == 1, 'boot of /bin/ls')
            expect(command(['hanare', 'boot', '--cpus', '2', '--mem', '50G']).status == 1, '50G')
        compare(before, memory(), '20 refused boots')
    check('refused-boots-lose-nothing', refused_boots, lwk=False)

    def modules():
        """The module leaves and comes back."""
        for _ in range(5):
            expect(command(['rmmod', 'hanare']).status == 0, 'rmmod')
            cycle()  # loads it
    check('module-reloaded', modules, lwk=False)

    def panic_cycles():
        before = memory()
        for _ in range(5):
            hanare('boot', '--cpus', '2-3', '--mem', '64M')
            process = subprocess.Popen(['hanare', 'run', '--', GUEST + '/static/die', 'pause'],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            process.stdout.readline()
            hanare('debug', 'panic')
            process.wait(30)
            hanare('shutdown', timeout=60)
        compare(before, memory(), '5 panics')
    check('panics-lose-nothing', panic_cycles, lwk=False)


def programs():
    def free_again():
        """Many kinds of programs; the LWK's free memory is what it was."""
        hanare('boot', '--cpus', '2-3', '--mem', '128M')
        run(HELLO)
        before, _ = debug_memory()
        for argv in ([HELLO], ['/usr/bin/sort', '/etc/passwd'], [GUEST + '/static/map'],
                     [GUEST + '/static/remap'], [GUEST + '/static/die', 'overflow'],
                     [GUEST + '/static/die', 'abort'], ['/usr/bin/sqlite3', ':memory:', 'select 1'],
                     ['/usr/bin/python3', '-c', 'import mmap, json'], [GUEST + '/static/execs'],
                     ['/usr/bin/dd', 'if=/dev/zero', 'of=/dev/null', 'bs=20M', 'count=3']):
            folder = WORK + '/scratch'
            fresh(folder)
            run(*argv, cwd=folder)
            after, text = debug_memory()
            expect(after == before, f'after {argv}: {before} before, {text}')
        hanare('shutdown')
    check('programs-free-their-memory', free_again, lwk=False)


def side_by_side():
    def body():
        hanare('boot', 'red', '--cpus', '1-2', '--mem', '128M')
        hanare('boot', 'blue', '--cpus', '3-4', '--mem', '128M')
        names = hanare('ls').out
        expect(b'red' in names and b'blue' in names, names)
        sums = 'my $s = 0; $s += $_ * $_ % 7 for 1 .. 300000; print "$s\n"'
        expected = command(['perl', '-e', sums]).out
        began = {name: [subprocess.Popen(['hanare', 'run', '--on', name, '--', 'perl', '-e', sums],
                                         stdout=subprocess.PIPE) for _ in range(2)]
                 for name in ('red', 'blue')}
        for name, processes in began.items():
            for process in processes:
                out, _ = process.communicate(timeout=90)
                expect(out == expected and process.returncode == 0, f'{name}: {out!r}')
        pipe = command(['bash', '-c', 'hanare run --on red seq 1 20000 | hanare run --on blue sort -rn '
                        '| hanare run --on red head -n 1'])
        expect(pipe.out == b'20000\n', pipe)
        result = command(['hanare', 'run', '/bin/true'])
        expect(result.status == 125 and re.search(b'--on|several', result.err), result)
    check('two-instances', body, lwk=False)

    def one_panics():
        hanare('debug', 'panic', 'red')
        time.sleep(0.5)
        result = run('/bin/echo', 'still here', on='blue')
        expect(result.out == b'still here\n', result)
        hanare('shutdown', 'red', timeout=60)
        result = run('/bin/echo', 'still here', on='blue')
        expect(result.out == b'still here\n', result)
        hanare('boot', 'red', '--cpus', '1-2', '--mem', '64M')
        expect(run('/bin/true', on='red').status == 0, 'red does not run again')
    check('one-of-two-panics', one_panics, lwk=False)

    def all_down():
        hanare('shutdown', '--all')
        expect(b'red' not in hanare('ls').out, 'red is still there')
    check('shutdown-all', all_down, lwk=False)


start()
programs()
cycles()
side_by_side()
finish()
