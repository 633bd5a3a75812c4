"""Runs groups: in machines and on the host, failed checks again, and tells what came of it."""

import collections
import dataclasses
import os
import threading
import time

import machines
import verdicts
from groups import GROUPS, STANDARD

ROOT = machines.ROOT
OUT = os.path.join(ROOT, 'build/tests')
GROUP_SCRIPTS = os.path.join(ROOT, 'tests/groups')
SLOWEST = 15


@dataclasses.dataclass
class Job:
    """A run of a group, or of some of its checks in a fresh machine."""

    group: str
    # Checks that have failed and are run again; checks that have a verdict already and are not.
    names: tuple = ()
    done: tuple = ()

    def is_first(self):
        return not self.names and not self.done

    def where(self):
        return 'first' if self.is_first() else 'fresh machine'


@dataclasses.dataclass
class Result:
    """What a group has taken, and its checks."""

    checks: verdicts.Checks = dataclasses.field(default_factory=verdicts.Checks)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    complete: bool = False


class Run:
    """One run of tests/run."""

    def __init__(self, tier, only='', verbose=False, skips=(), listed=None):
        self.tier, self.only, self.verbose = tier, only, verbose
        self.skips, self.listed = skips, listed or {}
        self.lock = threading.RLock()
        # Called with the name of each group that has ended.
        self.on_end = None
        self.results = collections.defaultdict(Result)
        self.slowest = []  # (wall, CPU or None, name)

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def note(self, group, name, why, where='first'):
        """A failure that is of no check: of a machine, or of the group as a whole."""
        check = self.results[group].checks.by_name.setdefault(name, verdicts.Check(name, 'FAIL'))
        check.tries.append((where, why))
        if why is not None:
            self.say(f'FAIL {group}/{name}: {why}')

    def environment(self, job):
        group = GROUPS[job.group]
        environment = {'TESTS_ONLY': self.only, 'TESTS_TIER': self.tier, 'TESTS_NAMES': '\n'.join(job.names),
                       'TESTS_DONE': '\n'.join(job.done), **dict(group.environment)}
        if group.checked:
            environment['TESTS_IMAGE'] = 'hanare-lwk-checked'
        return environment

    def taker(self, job, log, cpu_s):
        """A function that takes each line of a group's output."""
        result, clock = self.results[job.group], [time.monotonic(), cpu_s() if cpu_s else None]

        def take(line):
            log.write(line + '\n')
            log.flush()
            check = result.checks.take(line, job.where())
            match = verdicts.LINE.match(line)
            if match:
                now, cpu = time.monotonic(), cpu_s() if cpu_s else None
                with self.lock:
                    self.slowest.append((now - clock[0], None if cpu is None else cpu - clock[1], f'{job.group}/{match[2]}'))
                clock[:] = now, cpu
                if match[1] not in ('ok', 'later') or self.verbose:
                    self.say(f'{match[1]} {job.group}/{match[2]}' + (f': {match[3]}' if match[3] else ''))
            elif self.verbose:
                self.say(f'{job.group}: {line}')
            return check
        return take

    def run(self, job, machine=None):
        """Runs a job, in `machine` if the group wants one. Returns jobs that follow from it."""
        group, result = GROUPS[job.group], self.results[job.group]
        start = time.monotonic()
        log_name = f'{OUT}/{job.group}{"" if job.is_first() else ".again"}.log'
        status, left, died, before_cpu = None, [], None, machine.cpu_s() if machine else 0
        lines = [None]
        with open(log_name, 'w' if job.is_first() else 'a') as log:
            environment = dict(self.environment(job))
            try:
                if machine:
                    script, *arguments = group.inside.split()
                    status, left = machine.run(job.group, ['/usr/bin/python3', '-B', f'{GROUP_SCRIPTS}/{script}', *arguments],
                                               environment, group.limit_s, self.taker(job, log, machine.cpu_s))
                else:
                    status = machines.run_on_host(list(group.host), dict(os.environ, **environment), group.limit_s,
                                                  self.taker(job, log, None), lambda command: lines.__setitem__(0, command))
            except machines.Died as error:
                died = str(error)
        used = machine.cpu_s() - before_cpu if machine else lines[0].used_s if lines[0] else 0.0
        if died and machine:
            used = 0.0  # it is gone, with its account
        result.wall_s += time.monotonic() - start
        result.cpu_s += max(0.0, used)
        return self.after(job, status, left, died)

    def after(self, job, status, left, died):
        """Judges the end of a job; what is to be run again."""
        result, more = self.results[job.group], []
        checks = result.checks
        if died:
            finished = tuple(name for name, check in checks.by_name.items() if check.kind)
            self.note(job.group, 'machine', f'after {finished[-1] if finished else "nothing"}: {died}', job.where())
            if job.is_first():
                more.append(Job(job.group, done=finished or ('-',)))
            return more
        if job.done and 'machine' in checks.by_name:
            self.note(job.group, 'machine', None, job.where())
        if left:
            self.note(job.group, 'leaves-its-machine-clean', ', '.join(left)[:600], job.where())
        failed = [check for check in checks.by_name.values() if check.kind == 'FAIL' and check.tries]
        if status not in (0, 1) or status == 1 and not failed or not checks.by_name:
            self.note(job.group, 'end', f'exit status {status}', job.where())
        if not job.names:
            result.complete = not died
            again = [name for name in checks.to_repeat() if name not in ('machine', 'leaves-its-machine-clean', 'end')]
            if GROUPS[job.group].host:  # as a whole, what has not been run twice already
                again = [name for name in again if len(checks.by_name[name].tries) == 1]
            if again and len(again) <= verdicts.MAX_AGAIN:
                more.append(Job(job.group, names=tuple(again)))
            elif again:
                self.say(f'{job.group}: {len(again)} checks failed: they are not run a third time')
        self.tell(job)
        return more

    def tell(self, job):
        result = self.results[job.group]
        counts = collections.Counter(check.verdict() for check in result.checks.by_name.values())
        said = ', '.join(f'{counts[kind]} {word}' for kind, word in
                         (('ok', 'passed'), ('FAIL', 'failed'), ('unstable', 'unstable'), ('xfail', 'expected to fail'),
                          ('skip', 'skipped'), ('later', 'left to test-long')) if counts[kind])
        self.say(f'{job.group}{"" if job.is_first() else " again"}: {said or "no check"}, {result.wall_s:.0f} s, '
                 f'{result.cpu_s:.0f} s of CPU time')

    # ---- many groups ----

    def all(self, names, jobs_at_once):
        """Runs groups: those alone first, then the rest, as many machines at once as asked for; host groups beside, and once
        these have ended one machine more."""
        for name in [name for name in names if GROUPS[name].alone]:
            names.remove(name)
            self.work(collections.deque([Job(name)]))
        beside = collections.deque(Job(name) for name in names if GROUPS[name].host and 'nice' in GROUPS[name].host)
        rest = [name for name in names if not any(job.group == name for job in beside)]
        # Machines of their own first: what is left for the end is short and fits into any.
        rest.sort(key=lambda name: (GROUPS[name].machine == STANDARD, -(GROUPS[name].budget_s(self.tier) or 0)))
        queue = collections.deque(Job(name) for name in rest)
        threads = [threading.Thread(target=self.work, args=each)
                   for each in [[beside, queue]] * bool(beside) + [[queue]] * jobs_at_once]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def take_job(self, queue, machine):
        """The next job: one for the machine that is there, or the first."""
        with self.lock:
            if not queue:
                return None
            if machine:
                for job in queue:
                    if fits(job, machine):
                        queue.remove(job)
                        return job
            return queue.popleft()

    def work(self, *queues):
        """Takes jobs until there is none, of one queue after the other. A machine is kept as long as it is clean and the next
        job fits."""
        for queue in queues:
            self.work_off(queue)

    def work_off(self, queue):
        machine = None
        while job := self.take_job(queue, machine):
            if GROUPS[job.group].inside and (machine is None or not fits(job, machine)):
                if machine:
                    machine.end()
                machine = machines.Machine(list(GROUPS[job.group].machine))
            more = self.run(job, machine if GROUPS[job.group].inside else None)
            if machine and (not machine.clean or GROUPS[job.group].own_machine):
                for line in machine.end():
                    if line.strip():
                        self.say(f'{job.group}: {line}')
                machine = None
            with self.lock:
                queue.extendleft(reversed(more))
                if not more:
                    self.judge(job.group)
                    if self.on_end:
                        self.on_end(job.group)
        if machine:
            machine.end()

    # ---- the end ----

    def judge(self, group):
        """Applies what holds for a group as a whole, once it has ended: skips are known, and no check is missing."""
        result = self.results[group]
        for name, why in verdicts.unlisted_skips(result.checks, group, self.skips).items():
            self.note(group, name.partition('/')[2] + '/skip', f'skipped ({why}), which tests/skips.toml does not have')
        if self.only or not result.complete:
            return
        expected = [name.partition('/')[2] for name, tiers in self.listed.items()
                    if name.startswith(group + '/') and self.tier in tiers]
        for name in result.checks.unfinished(expected):
            self.note(group, name, 'has not run, though tests/checks.list has it for this tier')

    def counts(self):
        """How many checks there are of each verdict."""
        return collections.Counter(check.verdict() for result in self.results.values() for check in result.checks.by_name.values())

    def unstable(self):
        return {f'{group}/{check.name}': check for group, result in list(self.results.items())
                for check in result.checks.of('unstable')}

    def table(self, names):
        """Per group and for the slowest checks: wall, CPU and waiting seconds."""
        rows = sorted(((self.results[name].wall_s, self.results[name].cpu_s, name) for name in names), reverse=True)
        lines = [f'{"group":32} {"checks":>6} {"wall s":>7} {"CPU s":>7} {"waiting s":>9} {"budget":>7}']
        for wall, cpu, name in rows:
            budget = GROUPS[name].budget_s(self.tier)
            over = ' over its budget' if budget is not None and cpu > budget * 1.25 and not self.only else ''
            lines.append(f'{name:32} {len(self.results[name].checks.by_name):6} {wall:7.0f} {cpu:7.0f} {max(0, wall - cpu):9.0f} '
                         f'{budget if budget is not None else "-":>7}{over}')
        lines.append(f'{"sum":32} {sum(len(self.results[name].checks.by_name) for name in names):6} '
                     f'{sum(row[0] for row in rows):7.0f} {sum(row[1] for row in rows):7.0f}')
        lines.append('slowest checks:')
        for wall, cpu, name in sorted(self.slowest, key=lambda row: -row[0])[:SLOWEST]:
            lines.append(f'  {name:60} {wall:7.1f} ' + ('      -         -' if cpu is None else f'{cpu:7.1f} {max(0, wall - cpu):9.1f}'))
        return lines


def fits(job, machine):
    group = GROUPS[job.group]
    if not group.inside:
        return True
    if group.own_machine and machine.groups or job.names and machine.groups:
        return False  # a fresh one is wanted
    return machine.clean and list(group.machine) == machine.options
