"""Posted calls and functions by side: what the application's core executes for them, and what their worker does.

The program (bench/posted) is one for all ways. Its instructions are told apart by the CPU that executes them: an LWK's, where the application
is, or Linux', where the worker is."""

import collections
import statistics
import sys

import counting

PROGRAM = f'{counting.ROOT}/build/bin/hanare-bench-posted'
# The LWK's first CPU in `counting.vm`, and where the program lies.
HERE, PROGRAM_BASE, PROGRAM_END = 2, 0x400000, 0x10000000
ROUNDS, ROUNDS_OF_TASKS = 3, 5
# Marks of a round of `count-phases`, and which of them end what.
MARKS, POSTED, EXECUTED, PICKED_UP = 6, 1, 3, 5
# As the program posts them, with the functions of the program itself that do, which are not what is
# measured.
KINDS = {'call': ('post_calls',), 'function': ('post_functions',), 'call of a batch of 16': ('post_batches',)}
OWN = ('post_calls', 'post_functions', 'post_batches', 'pick_up', 'spin_until', 'round_of')
# What bench/paths.json has limits of.
LIMITED = ('post', 'pick up', 'worker')
# How often an instruction may be executed in a task of so many calls.
MULTIPLES = (lambda calls: (0, 1), lambda calls: (0, 2), lambda calls: (calls, 0), lambda calls: (calls, 1), lambda calls: (2 * calls, 0))


def run(what, *words, data=False):
    """What the program prints, on an LWK in a VM that counts."""
    counting.build()
    options = f',cpu={HERE}' + (f',data={PROGRAM_BASE:x}' if data else '')
    words = ' '.join(map(str, words))
    # No thread falls asleep on a busy machine.
    return counting.vm(f'hanare run -- {PROGRAM} {what} {words}', '--option spin_us=1000000', plugin_options=options).split('\n')


def program(counts):
    return collections.Counter({at: n for at, n in counts.items() if PROGRAM_BASE <= at < PROGRAM_END})


def elsewhere(mark):
    """Instructions of the program that Linux' CPUs executed."""
    return program(counting.counts(mark)) - program(counting.counts(mark, '.here'))


def of_library(counts, symbols):
    """Instructions outside of the program's own loops."""
    return sum(n for at, n in counts.items() if symbols.function(at)[1] not in OWN)


def once_a_call(counts, calls):
    """Instructions of a call, of those that a call executes once or twice: others poll."""
    times = {at: ran / calls for at, ran in counts.items()}
    return sum(round(n) for n in times.values() if round(n) in (1, 2) and abs(n - round(n)) < 0.12)


def kernel(counts):
    return {at: n for at, n in counts.items() if at >= counting.KERNEL_BASE and not counting.LWK_BASE <= at < counting.LWK_BASE + counting.IMAGE_BYTES}


def lwk(counts):
    return {at: n for at, n in counts.items() if counting.LWK_BASE <= at < counting.LWK_BASE + counting.IMAGE_BYTES}


def phases():
    """{kind: {what: instructions for one}}: medians of rounds."""
    said = run('count-phases', f'rounds={ROUNDS}')
    count, remote = map(int, said[0].split())
    if not remote:
        sys.exit('the worker does not run on Linux')
    symbols, found = counting.of_image(PROGRAM), {}
    for number, kind in enumerate(KINDS):
        rounds = []
        for i in range(ROUNDS):
            base = (number * ROUNDS + i) * MARKS
            here = {phase: program(counting.counts(base + mark, '.here')) for phase, mark in (('post', POSTED), ('pick up', PICKED_UP))}
            executed = elsewhere(base + EXECUTED)
            row = {phase: of_library(counts, symbols) / count for phase, counts in here.items()}
            row |= {f'{phase}, with its caller': sum(counts.values()) / count for phase, counts in here.items()}
            row['worker'] = of_library(executed, symbols) / count
            row['Linux'] = once_a_call(kernel(counting.counts(base + EXECUTED)), count)
            row['LWK'] = sum(once_a_call(lwk(counting.counts(base + mark)), count) for mark in (POSTED, PICKED_UP))
            rounds.append(row)
        found[kind] = {what: statistics.median(row[what] for row in rounds) for what in rounds[0]}
    return found


def lines():
    """{kind: {phase: (code, data, data that moves)}}: cache lines of the application's core for one submission. A line
    moves if one of application and worker writes it and the other touches it."""
    said = run('count-phases', f'rounds={ROUNDS}', data=True)
    count = int(said[0].split()[0])
    symbols, found = counting.of_image(PROGRAM), {}
    for number, kind in enumerate(KINDS):
        # The last round: all memory was touched before.
        base = (number * ROUNDS + ROUNDS - 1) * MARKS
        # Behind EXECUTED the worker has nothing to do: it polls, and falls asleep.
        sides = {is_here: [one for mark in range(1, end) for one in counting.touched(base + mark, is_here)]
                 for is_here, end in ((True, MARKS), (False, EXECUTED + 1))}
        touched = {is_here: {line for _, line, _, _ in of} for is_here, of in sides.items()}
        written = {is_here: {line for _, line, _, stores in of if stores} for is_here, of in sides.items()}
        moving = written[True] & touched[False] | written[False] & touched[True]
        found[kind] = {}
        for phase, mark in (('post', POSTED), ('pick up', PICKED_UP)):
            code = {at // 64 for at, n in counting.counts(base + mark, '.here').items()
                    if n >= 0.9 * count and symbols.function(at)[1] not in OWN}
            times = collections.Counter()
            for by, line, n, _ in counting.touched(base + mark, True):
                if symbols.function(by)[1] not in OWN:
                    # No instruction touches a line twice for one: what most of them did is for how
                    # many it was touched.
                    times[line] = max(times[line], min(n, count))
            found[kind][phase] = len(code), sum(times.values()) / count, sum(n for line, n in times.items() if line in moving) / count
    return found


def of_task(counts, tasks, calls, near):
    """{address: how often one task executes it}, of the instructions that run as often as some step of a task or of a
    call."""
    found = {}
    for at, ran in counts.items():
        for of_call, of_once in (multiple(calls) for multiple in MULTIPLES):
            times = of_call + of_once
            if abs(ran / tasks - times) <= near * max(1, times / 6):
                found[at] = times
                break
    return found


def in_rounds(rounds, least):
    """{address: how often} of what at least so many rounds have."""
    found = collections.defaultdict(list)
    for path in rounds:
        for at, times in path.items():
            found[at].append(times)
    return {at: min(times) for at, times in found.items() if len(times) >= least}


# How near to a number of times an instruction has to be, and in how many rounds. Where the
# application is, polling is all that there is beside: as frequent as calls in one round by chance,
# not in all. Elsewhere a thread falls asleep now and then, and its waker executes again what
# belongs to the path: that is exact in a few rounds only.
APPLICATION, ELSEWHERE = (0.12, ROUNDS_OF_TASKS), (0.03, 2)


def tasks(null_call=False):
    """{way: {calls: (application's core, elsewhere)}}: instructions of a task."""
    said = [line.split() for line in run('count-tasks', f'rounds={ROUNDS_OF_TASKS}', *(['quick'] if null_call else [])) if line]
    common, found = {}, {}
    for number, (way, calls, count) in enumerate(said):
        mark, calls, count = 2 * number + 1, int(calls), int(count)
        every = counting.counts(mark)
        program_here = program(counting.counts(mark, '.here'))
        here = {**program_here, **lwk(every)}
        proxy = {at: n for at, n in every.items() if counting.PROXY_BASE <= at < counting.PROXY_BASE + counting.IMAGE_BYTES}
        there = {**elsewhere(mark), **kernel(every), **proxy}
        sides = [of_task(side, count, calls, near) for side, (near, _) in ((here, APPLICATION), (there, ELSEWHERE))]
        common.setdefault((way, calls), []).append(sides)
    for (way, calls), rounds in common.items():
        found.setdefault(way, {})[calls] = tuple(
            sum(in_rounds(side, least).values()) for side, (_, least) in zip(zip(*rounds), (APPLICATION, ELSEWHERE)))
    return found


def native_tasks(null_call):
    """{calls: instructions of a task} by trap on Linux alone."""
    counting.build()
    words = f'rounds={ROUNDS_OF_TASKS} way=trap' + (' quick' if null_call else '')
    said = [line.split() for line in counting.vm(f'{PROGRAM} count-tasks {words}').split('\n') if line]
    rounds = collections.defaultdict(list)
    for number, (_, calls, count) in enumerate(said):
        every = counting.counts(2 * number + 1)
        rounds[int(calls)].append(of_task({**program(every), **kernel(every)}, int(count), int(calls), ELSEWHERE[0]))
    return {calls: sum(in_rounds(of, ELSEWHERE[1]).values()) for calls, of in rounds.items()}


def checkpoints():
    """{way: instructions of the program on the LWK's CPUs}. Instructions of the LWK are left out: nothing tells its
    work for the program from its polling."""
    said = [line.split() for line in run('count-checkpoints', 'quick') if line]
    return {way.removeprefix('checkpoint.'): sum(program(counting.counts(2 * number + 1, '.here')).values())
            for number, (way, _) in enumerate(said)}


def print_phases():
    """Markdown."""
    found = phases()
    columns = list(next(iter(found.values())))
    print('| one | ' + ' | '.join(columns) + ' |\n|---|' + '---:|' * len(columns))
    for kind, row in found.items():
        print(f'| {kind} | ' + ' | '.join(f'{row[what]:.1f}' for what in columns) + ' |')


def print_lines():
    """Markdown."""
    print('| one | code | data | of these move between the CPUs |\n|---|---:|---:|---:|')
    for kind, of_phase in lines().items():
        for phase, (code, data, moving) in of_phase.items():
            print(f'| {phase} a {kind} | {code} | {data:.2f} | {moving:.2f} |', flush=True)


def print_tasks(null_call):
    """Markdown: by way and number of calls, on the application's core and elsewhere."""
    found = tasks(null_call)
    found['trap, Linux alone'] = {calls: (n, 0) for calls, n in native_tasks(null_call).items()}
    numbers = sorted({calls for of in found.values() for calls in of})
    for side, name in enumerate(("application's core", 'elsewhere')):
        print(f'\n| {name} | ' + ' | '.join(map(str, numbers)) + ' |\n|---|' + '---:|' * len(numbers))
        for way, of in found.items():
            print(f'| {way} | ' + ' | '.join(str(of[calls][side]) if calls in of else '' for calls in numbers) + ' |', flush=True)


def print_checkpoints():
    """Markdown."""
    found = checkpoints()
    print('\n| checkpoints | instructions on the LWK\'s CPUs | more than without |\n|---|---:|---:|')
    for way, instructions in found.items():
        print(f'| {way} | {instructions} | {(instructions / found["none"] - 1) * 100:.3f} % |')


PARTS = {'phases': print_phases, 'lines': print_lines, 'tasks': lambda: print_tasks(False), 'null-tasks': lambda: print_tasks(True),
         'checkpoints': print_checkpoints}
