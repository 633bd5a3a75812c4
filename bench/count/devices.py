"""Accesses to a disk that the LWK's driver of NVMe serves, beside Linux' own ways and delegated ones, in one VM."""

import collections

import counting

DISK = ('-drive', 'driver=null-co,read-zeroes=on,size=256M,if=none,id=disk', '-device', 'nvme,drive=disk,serial=disk,dbcs=off,max_ioqpairs=32')
PATH = '/dev/nvme0n1'
LINUX = ('pread', 'pwrite', 'uring-read', 'uring-write')
CLAIMED = ('pread', 'pwrite')
# Instructions of a claimed access of 4 KiB, at most.
PROMISED = 600
# Counting is slow: the LWK is to poll, as it does where nothing is counted.
POLL_US = 1000000
# An instruction that a call runs more often than so is polling.
MOST = 8
# So far from a whole number of times a call an instruction is polling, too.
TOLERANCE = 0.05


def script(calls, linux):
    """By the LWK's driver, delegated to Linux, and in the `linux` ways by Linux alone."""
    disk = counting.BUILD + '/disk'
    words = ['modprobe nvme_core multipath=N && modprobe nvme poll_queues=1', f'until test -b {PATH}; do sleep 0.1; done']
    on_lwk = [f'hanare run -- {disk} {way} {calls} {PATH}' for way in CLAIMED]
    words += [f'BOOT --nvme /dev/nvme0 --option spin_us={POLL_US}', *on_lwk, 'hanare status >&2', 'hanare shutdown']
    words += ['BOOT', *on_lwk, 'hanare shutdown'] + [f'timeout -s KILL 60 {disk} {way} {calls} {PATH}' for way in linux]
    return ' && '.join(words)


def instructions(number, calls):
    """{side: instructions of a call} of the way that was counted as that number, and those of each function of the LWK.
    The LWK's looks for an answer are counted once: not those that fail, which are what runs as often as a `pause` of the
    LWK. What else runs more than MOST times is a loop of Linux' that polls, and counted once, too. The rest is counted as
    often as it runs on the average."""
    sides = collections.Counter()
    functions = collections.Counter()
    symbols = counting.of_image(counting.LWK)
    counts = counting.counts(2 * number + 1)
    failed = {counts[at] for at in counting.pauses(counting.LWK) if counts[at] > calls}
    for at, ran in counts.items():
        times = ran / calls
        is_lwks = counting.LWK_BASE <= at < counting.LWK_BASE + counting.IMAGE_BYTES
        if is_lwks and ran in failed:
            continue
        if times > MOST or is_lwks and times > 1 and abs(times - round(times)) > TOLERANCE:
            times = 1
        if is_lwks:
            sides['LWK'] += times
            functions[symbols.function(at)[1]] += times
        elif at >= counting.KERNEL_BASE:
            sides['Linux'] += times
        elif counting.PROXY_BASE <= at < counting.PROXY_BASE + counting.IMAGE_BYTES:
            sides['proxy'] += times
    return sides, functions


def report(calls, verbose, check):
    """Prints a table, and the longer one of a claimed read and write; with `check` a verdict about that, without what Linux
    takes. Whether it is as short as is promised."""
    linux = () if check else LINUX
    counting.build()
    counting.vm(script(calls, linux), booted=False, qemu=DISK)
    ways = [(kind, way) for kind, all_ways in (('claimed', CLAIMED), ('delegated', CLAIMED), ('Linux', linux)) for way in all_ways]
    print('| way | LWK | proxy | Linux |\n|---|---:|---:|---:|')
    claimed = {}
    for number, (kind, way) in enumerate(ways):
        sides, functions = instructions(number, calls)
        print(f'| {kind}, {way} | {sides["LWK"]:.0f} | {sides["proxy"]:.0f} | {sides["Linux"]:.0f} |')
        if kind == 'claimed':
            claimed[way] = sides['LWK'], functions
    for way, (_, functions) in claimed.items() if verbose else ():
        print(f'\n{way}:')
        for name, n in functions.most_common():
            print(f'{n:8.1f} {name}')
    longest = max(n for n, _ in claimed.values())
    is_short = 0 < longest <= PROMISED
    if check:
        print(f'{"ok" if is_short else "FAIL"} claimed')
    print(f'\nclaimed: {longest:.0f} instructions')
    return is_short
