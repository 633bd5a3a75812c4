"""How a cost grows with the number of things there are: what is measured, on which machine, and the order of growth."""

import collections
import math

# A VM with an instance: CPUs of it, its memory in MiB, boot options of the LWK.
Machine = collections.namedtuple('Machine', 'cpus mib options', defaults=(2, 512, ()))
# What there are `n` of: (operation, how often, its argument) on a machine, of which one execution
# is so many operations.
Step = collections.namedtuple('Step', 'n operation times argument in_one machine', defaults=(1, Machine()))

EACH = 100  # of operations.c
MAPPINGS_MOST = 65000  # the LWK has Linux' default of vm.max_map_count, 65,530, and no other


def among(operation, times, numbers, machine=Machine()):
    """There are `n` things of the kind that the operation asks for."""
    return [Step(n, operation, times, n, 1, machine) for n in numbers]


def by_threads(operation, steps, machine=lambda n: Machine()):
    """`n` threads make the operation at once."""
    return [Step(n, operation, times, n, EACH * n, machine(n)) for n, times in steps]


def with_cpus(n):
    return Machine(cpus=n, mib=1024)


def with_memory(gib):
    return Machine(mib=gib << 10)


CPUS, GIBS = (1, 3, 6), (1, 3, 8)
# What may grow, against what.
GROWTH = {
    'getppid, a thread on each CPU, against CPUs': by_threads('calls-of-threads', [(n, 30) for n in CPUS], with_cpus),
    'getppid, woken, a thread on each CPU, against CPUs':
        by_threads('calls-of-threads', [(n, 10) for n in CPUS], lambda n: with_cpus(n)._replace(options=('spin_us=0',))),
    'first touch of a page, a thread on each CPU, against CPUs': by_threads('touches-of-threads', [(n, 30) for n in CPUS], with_cpus),
    'fork against CPUs': [Step(n, 'fork', 20, 0, 1, with_cpus(n)) for n in CPUS],
    'FUTEX_WAKE against CPUs': [Step(n, 'wake-among-waiters', 1000, 8, 1, with_cpus(n)) for n in CPUS],
    'boot, a GiB, against GiB': [Step(n, 'boot', 1, 0, n, with_memory(n)) for n in GIBS],
    'first touch of a page against GiB': [Step(n, 'touches-of-threads', 30, 1, EACH, with_memory(n)) for n in GIBS],
    'fork against GiB': [Step(n, 'fork', 20, 0, 1, with_memory(n)) for n in GIBS],
    'getppid against threads that call': by_threads('calls-of-threads', [(1, 20), (4, 10), (16, 5), (64, 3)]),
    'read of 1 KiB into fresh memory against threads': by_threads('reads-of-threads', [(1, 20), (4, 10), (16, 5)]),
    'mmap, read of 1 KiB, munmap against threads': by_threads('mappings-of-threads', [(1, 20), (4, 10), (16, 5)]),
    'getppid against processes': among('call-among-processes', 1000, (1, 16, 64, 256)),
    'fork against processes': among('fork-among-processes', 20, (1, 16, 64, 256)),
    'mmap, touch, munmap against mappings': among('map-among-mappings', 500, (1, 100, 10000, MAPPINGS_MOST)),
    'fork against touched mappings': among('fork-mappings', 10, (1, 100, 1000)),
    'getppid against open files': among('call-among-files', 1000, (1, 100, 10000)),
    'open, close against open files': among('open-among-files', 500, (1, 100, 10000)),
    'FUTEX_WAKE against waiters': among('wake-among-waiters', 1000, (2, 16, 64, 1000)),
}

FLAT = 0.25  # costs that differ by no more than this part of their mean do not grow


def order(numbers, costs):
    """(order of growth, words) of the function that fits best: a + b f(n) by least squares, with f(n) = log2 n or n."""
    mean = sum(costs) / len(costs)
    spread = (max(costs) - min(costs)) / mean if mean else 0
    if spread <= FLAT:
        return 'flat', f'flat (within {spread:.0%})'
    fits = []
    for name, f in ('log n', math.log2), ('n', float):
        at = [f(n) for n in numbers]
        middle = sum(at) / len(at)
        slope = sum((x - middle) * (y - mean) for x, y in zip(at, costs)) / sum((x - middle) ** 2 for x in at)
        left = sum((y - mean - slope * (x - middle)) ** 2 for x, y in zip(at, costs))
        fits.append((left, name, slope))
    left, name, slope = min(fits)
    explained = 1 - left / sum((y - mean) ** 2 for y in costs)
    if slope < 0 or explained < 0.5:
        return 'none', f'no growth to be seen (differs by {spread:.0%})'
    each = 'for each doubling' if name == 'log n' else 'each'
    return name, f'{name} ({slope:+.3g} {each}, {explained:.0%} of it)'
