"""Where Linux' memory is, exactly."""

import ctypes
import glob
import os
import re

MEMBARRIER, MEMBARRIER_GLOBAL = 324, 1


def write(path, text):
    with open(path, 'w') as file:
        file.write(text)


def settle():
    """Has Linux give back what it only keeps, and bring its counters up to date. Waits for it to be done."""
    os.sync()
    # What is freed by RCU: stacks of tasks, page tables.
    ctypes.CDLL(None).syscall(MEMBARRIER, MEMBARRIER_GLOBAL, 0, 0)
    # Page cache, dentries, inodes; and the pages that each CPU has put aside for the LRU lists.
    write('/proc/sys/vm/drop_caches', '3')
    for path in glob.glob('/sys/kernel/slab/*/shrink'):
        try:
            write(path, '1')
        except OSError:
            pass  # gone meanwhile
    # Each CPU counts for itself, up to 125 pages of each kind and zone: added up here.
    write('/proc/sys/vm/stat_refresh', '1')


def memory():
    """Memory of Linux and its users, in KiB.

    `used` is all but the pages in the lists of the buddy allocator and of each CPU. `lost` is what no user answers for: neither free, nor page cache, anonymous memory, slab, page table,
    per-CPU or vmalloc memory (stacks of tasks are of these). Pages that the module took and did not give
    back would be there; what Linux itself has there (pipes, sockets) is the same after each cycle, but
    for a few pages.
    """
    settle()
    with open('/proc/zoneinfo') as file:
        zones = file.read()
    with open('/proc/meminfo') as file:
        info = {line.split(':')[0]: int(line.split()[1]) for line in file}
    with open('/proc/buddyinfo') as file:
        free = sum(int(count) << order for line in file
                   for order, count in enumerate(line.split()[4:])) * 4
    with open('/sys/devices/system/cpu/online') as file:
        online = file.read().strip()
    free += 4 * sum(int(count) for count in re.findall(r'^ +count: +(\d+)', zones, re.M))
    counted = sum(info[key] for key in ('Active', 'Inactive', 'Unevictable', 'Slab', 'PageTables', 'Percpu',
                                        'VmallocUsed'))
    return {'MemTotal': info['MemTotal'], 'used': info['MemTotal'] - free,
            'lost': info['MemTotal'] - free - counted, 'online': online}
