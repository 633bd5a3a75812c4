"""Users without rights: one whose processes may all be killed, and one who must not notice what the first one does."""

import contextlib
import os
import re
import signal
import threading
import time

from harness import GUEST, TIMEOUT, WORK, command, debug_memory, expect, fresh, healthy, lwk_memory_is

USER = 65533  # of no other program, so that all its processes may be killed
OTHER = 65532  # another one, who must not notice anything
AS_USER, AS_OTHER = (['/usr/bin/setpriv', f'--reuid={uid}', f'--regid={uid}', '--groups=hanare'] for uid in (USER, OTHER))


def kill_all():
    """Every process of the user, until there is none."""
    end = time.monotonic() + TIMEOUT
    while True:
        left = [pid for pid in filter(str.isdigit, os.listdir('/proc'))
                if owner(f'/proc/{pid}') == USER]
        if not left:
            return
        expect(time.monotonic() < end, f'processes that cannot be killed: {left}')
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.1)


def owner(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


class Bystander:
    """Programs of another user that must give the right output all the while: one that lives as long as the test and
    makes processes, and short ones."""

    stop = WORK + '/stop'
    line = 'seq 1 300 | sort -r | cksum'

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.stop)
        self.wanted = command(['/bin/sh', '-c', self.line]).out
        expect(len(self.wanted.split()) == 2, self.wanted)
        self.whys, self.lines, self.ends = [], 0, 0
        self.threads = [threading.Thread(target=self.watch, args=(body,)) for body in (self.long, self.short)]
        for thread in self.threads:
            thread.start()
        return self

    def watch(self, body):
        try:
            body()
        except Exception as error:
            self.whys.append(str(error))

    def long(self):
        loop = f'while [ ! -e {self.stop} ]; do {self.line}; sleep 0.3; done'
        result = command([*AS_OTHER, 'hanare', 'run', '--', '/bin/sh', '-c', loop], timeout=None)
        lines = result.out.splitlines(keepends=True)
        self.lines = len(lines)
        wrong = [line for line in lines if line != self.wanted]
        expect(result.status == 0 and lines and not wrong and not result.err, f'{len(wrong)} wrong lines: {wrong[:2]}, {result}')

    def short(self):
        while not os.path.exists(self.stop):
            result = command([*AS_OTHER, 'hanare', 'run', '--', GUEST + '/static/hello'])
            expect(result.status == 0 and result.out == b'hello\n' and not result.err, result)
            self.ends += 1
            time.sleep(0.5)

    def __exit__(self, *_):
        open(self.stop, 'w').close()
        for thread in self.threads:
            thread.join()

    def is_well(self):
        expect(not self.whys, f'a program of another user\'s was harmed: {self.whys}')
        print(f'# programs of another user\'s: {self.lines} lines, {self.ends} short ones, all right', flush=True)


def forged_proxies_harm_nobody(how, seconds, least):
    """Runs forged proxies for that long, each spoiling what `how` says (tests/module/forged.c); `least`: number of
    attempts that must have been made."""
    before, _ = debug_memory()
    folder = WORK + '/forged'
    fresh(folder)
    os.chmod(folder, 0o777)
    missing = dict(least)
    with Bystander() as bystander:
        # Each seed's proxies live for random times, and some seeds' are slow to come to what is
        # looked for.
        for seed in map(str, range(1, 9)):
            result = command([*AS_USER, GUEST + '/module-forged', str(seconds), seed, GUEST + '/static', how],
                             timeout=seconds + TIMEOUT, cwd=folder)
            kill_all()
            print('# ' + result.out.decode(errors='replace').strip().replace('\n', '\n# '), flush=True)
            expect(result.status == 0, result)
            done = {what: int(re.search(rf'(\d+) {what}(?:,|$)', result.out.decode(), re.M).group(1)) for what in missing}
            missing = {what: number - done[what] for what, number in missing.items() if number > done[what]}
            if not missing:
                break
    expect(not missing, f'too few: {missing} are missing of {least}')
    bystander.is_well()
    lwk_memory_is(before)
    expect(healthy(), 'nothing runs any more')
