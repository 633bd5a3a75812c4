#!/usr/bin/python3
"""Runs groups in a machine, one after the other, as tests/run tells it to: one JSON object in a line of standard input.

    {"name": "ends", "argv": ["/usr/bin/python3", ...], "environment": {...}}

After each it prints `== end NAME STATUS LEFT`, where LEFT is a JSON list of what the group left behind: a process, a mount,
a CPU that is offline, a value of /proc/sys. Such a machine is not used any further.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

# Values that change by themselves, or that harness.start sets for the machine.
VOLATILE = re.compile(r'/(random/.*|ns_last_pid|pty/nr|.*-nr|inode-state|dentry-state|hostname|domainname|watchdog_thresh|'
                      r'watchdog|nmi_watchdog|soft_watchdog|hung_task_timeout_secs|perf_.*|sched_domain/.*|tainted|drop_caches|'
                      r'compact_memory|stat_refresh|usermodehelper/.*|seccomp/.*|keys/.*|max_map_count|threads-max)$')
SETTLED_S = 20


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ''


def processes():
    """Processes with memory of their own, that are no kernel threads, as `PID name`."""
    found = set()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            if os.readlink(f'/proc/{pid}/exe') and int(pid) != os.getpid():
                found.add(f'{pid} {read(f"/proc/{pid}/comm")}')
    return found


def settings():
    return {f'{path}={read(path)}' for top in ('kernel', 'vm', 'fs') for path in glob.glob(f'/proc/sys/{top}/**', recursive=True)
            if os.path.isfile(path) and os.access(path, os.W_OK) and not VOLATILE.search(path)}


def instances():
    said = subprocess.run(['hanare', 'ls', '--json'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {instance['name'] for instance in json.loads(said or b'[]')}


def state():
    """What a group has to leave as it was, by subject."""
    return {
        'CPUs online': {read('/sys/devices/system/cpu/online')},
        'mounts': {' '.join(line.split()[:3]) for line in read('/proc/self/mounts').splitlines()},
        'process': processes(),
        'setting': settings(),
        'control group': set(glob.glob('/sys/fs/cgroup/**/', recursive=True)),
        # mount(8) keeps a folder of its own there.
        'file': {f'{folder}/{name}' for folder in ('/dev/shm', '/run') for name in os.listdir(folder)} - {'/run/mount'},
        'loop device': set(glob.glob('/sys/block/*/loop/backing_file')),
        'module': {'hanare is not loaded'} if not read('/sys/module/hanare/initstate') else set(),
        'instance': instances(),
        'network device': set(os.listdir('/sys/class/net')),
    }


def left(before):
    """What differs from `before`, once that has not changed for a moment; a killed process ends a little later."""
    end = time.monotonic() + SETTLED_S
    while True:
        after = state()
        changed = [f'{subject} {sign}{thing}' for subject in before
                   for sign, some in (('+', after[subject] - before[subject]), ('-', before[subject] - after[subject]))
                   for thing in sorted(some) if not (subject in ('process', 'file') and sign == '-')]
        if not changed or time.monotonic() > end:
            return changed
        time.sleep(0.2)


def main():
    for line in sys.stdin:
        job = json.loads(line)
        # Its memory is to lie in large pieces again; what the group before read is not its.
        for path, value in ('/proc/sys/vm/drop_caches', '3'), ('/proc/sys/vm/compact_memory', '1'):
            with contextlib.suppress(OSError), open(path, 'w') as file:
                file.write(value)
        subprocess.run(['dmesg', '-C'], stderr=subprocess.DEVNULL)
        before = state()
        status = subprocess.run(job['argv'], env=dict(os.environ, **job['environment']), stdin=subprocess.DEVNULL).returncode
        shutil.rmtree('/run/hanare-test', ignore_errors=True)
        print(f'== end {job["name"]} {status} {json.dumps(left(before))}', flush=True)


if __name__ == '__main__':
    main()
