#!/usr/bin/python3
"""What tests/run makes of the lines of a group: retries, unstable checks, skips, lists, budgets."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import groups  # noqa: E402
import inside  # noqa: E402
import record  # noqa: E402
import runner  # noqa: E402
import verdicts  # noqa: E402


def checks_of(*lines, where='first'):
    checks = verdicts.Checks()
    for line in lines:
        checks.take(line, where)
    return checks


class Verdicts(unittest.TestCase):
    def test_one_failure_of_three_is_unstable(self):
        checks = checks_of('again a: no', 'unstable a: failed once')
        self.assertEqual(checks.to_repeat(), ['a'])
        checks.take('ok a', 'fresh machine')
        self.assertEqual(checks.by_name['a'].verdict(), 'unstable')
        self.assertEqual(checks.by_name['a'].told(), 'first: no; first: passed; fresh machine: passed')

    def test_two_failures_of_three_are_a_failure(self):
        checks = checks_of('again a: no', 'unstable a: failed once')
        checks.take('FAIL a: again no', 'fresh machine')
        self.assertEqual(checks.by_name['a'].verdict(), 'FAIL')
        checks = checks_of('again a: no', 'FAIL a: no')
        self.assertEqual(checks.by_name['a'].verdict(), 'FAIL')
        checks.take('ok a', 'fresh machine')
        self.assertEqual(checks.by_name['a'].verdict(), 'FAIL')

    def test_a_verdict_without_a_second_try_is_repeated(self):
        checks = checks_of('FAIL a: no')
        self.assertEqual((checks.by_name['a'].verdict(), checks.to_repeat()), ('FAIL', ['a']))
        checks.take('ok a', 'fresh machine')
        self.assertEqual(checks.by_name['a'].verdict(), 'unstable')

    def test_what_passes_or_is_not_run_is_not_repeated(self):
        checks = checks_of('ok a', 'skip b: none here', 'later c: long', 'xfail d: known', '# 1.0 s a', 'okay e')
        self.assertEqual(checks.to_repeat(), [])
        self.assertEqual({check.name: check.verdict() for check in checks.by_name.values()},
                         {'a': 'ok', 'b': 'skip', 'c': 'later', 'd': 'xfail'})

    def test_unfinished_checks_have_no_verdict(self):
        self.assertEqual(checks_of('ok a', 'again b: no').unfinished(['a', 'b', 'c']), ['b', 'c'])

    def test_new_skip_is_told(self):
        known = [{'check': 'g/a', 'reason': 'no Go'}]
        self.assertEqual(verdicts.unlisted_skips(checks_of('skip a: no Go here'), 'g', known), {})
        self.assertEqual(verdicts.unlisted_skips(checks_of('skip a: no time', 'skip b: no Go'), 'g', known),
                         {'g/a': 'no time', 'g/b': 'no Go'})


class Jobs(unittest.TestCase):
    """What follows from the end of a group."""

    def after(self, lines, status=0, left=(), died=None, job=None):
        self.run_ = runner.Run('test')
        self.said = []
        self.run_.say = self.said.append
        job = job or runner.Job('ends')
        for line in lines:
            self.run_.results['ends'].checks.take(line, job.where())
        return self.run_.after(job, status, list(left), died)

    def failed(self):
        return [check.name for check in self.run_.results['ends'].checks.of('FAIL')]

    def test_passed_group_is_over(self):
        self.assertEqual(self.after(['ok a']), [])
        self.assertEqual(self.failed(), [])

    def test_failed_check_runs_in_a_fresh_machine(self):
        self.assertEqual(self.after(['ok a', 'again b: no', 'FAIL b: no'], status=1), [runner.Job('ends', names=('b',))])

    def test_dead_machine_is_a_failure_and_the_rest_runs_once(self):
        more = self.after(['ok a', 'again b: no'], died='the machine ended')
        self.assertEqual(more, [runner.Job('ends', done=('a',))])
        self.assertIn('machine', self.failed())
        checks = self.run_.results['ends'].checks
        checks.take('ok b', 'fresh machine')
        self.run_.after(more[0], 0, [], None)
        self.assertEqual([check.name for check in checks.of('unstable')], ['machine', 'b'][::-1])

    def test_machine_that_dies_twice_fails(self):
        self.after(['ok a'], died='x')
        self.assertEqual(self.run_.after(runner.Job('ends', done=('a',)), None, [], 'y'), [])
        self.assertEqual(self.failed(), ['machine'])
        self.assertEqual(self.run_.results['ends'].checks.by_name['machine'].failures(), 2)

    def test_what_is_left_behind_fails(self):
        self.after(['ok a'], left=['mounts +x'])
        self.assertEqual(self.failed(), ['leaves-its-machine-clean'])

    def test_no_check_at_all_fails(self):
        self.after([])
        self.assertEqual(self.failed(), ['end'])

    def test_status_without_a_failed_check_fails(self):
        self.after(['ok a'], status=1)
        self.assertEqual(self.failed(), ['end'])

    def test_missing_check_fails(self):
        self.after(['ok a'])
        self.run_.listed = {'ends/a': {'test'}, 'ends/b': {'test'}, 'ends/c': {'long'}}
        self.run_.judge('ends')
        self.assertEqual(self.failed(), ['b'])


class Records(unittest.TestCase):
    def test_audit_finds_what_is_in_no_tier(self):
        today = {'g/a': {'test'}, 'g/new-b': {'long'}}
        successors = [{'check': r'g/old-(\w+)', 'now': r'g/new-\1'}]
        self.assertEqual(record.lost(['g/a', 'g/old-b', 'g/old-c', 'h/x'], today, successors), ['g/old-c', 'h/x'])

    def test_check_unstable_in_two_runs_without_a_cause_is_told(self):
        kept = {'unstable': {'g/a': [{}], 'g/b': []}}
        self.assertEqual(record.repeated(kept, ['g/a', 'g/b', 'g/c']), {'g/a': 1})

    def test_list_is_read_as_it_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            record.LIST, before = f'{folder}/list', record.LIST
            try:
                names = {'g/a': {'test', 'long'}, 'g/b': {'long'}, 'g/none': set()}
                record.save_list(names)
                self.assertEqual(record.listed(), {name: tiers for name, tiers in names.items() if tiers})
            finally:
                record.LIST = before


class Table(unittest.TestCase):
    def test_budgets_fit(self):
        self.assertIsNone(groups.check_budgets())

    def test_budget_over_the_limit_is_told(self):
        self.assertIn('tier test', groups.check_budgets({'g': groups.Group('x', 'x.py', test_s=groups.TEST_LIMIT_S + 1)}))

    def test_group_has_a_promise_and_one_place(self):
        for name, group in groups.GROUPS.items():
            self.assertTrue(group.promise and bool(group.inside) != bool(group.host) and group.tiers(), name)


class Ends(unittest.TestCase):
    def test_a_runner_that_is_ended_takes_along_what_it_has_started(self):
        program = ('import machines, signal\nmachines.end_with_the_runner()\n'
                   'print(machines.Lines(["sleep", "600"]).process.pid, flush=True)\nsignal.pause()')
        for signum in signal.SIGTERM, signal.SIGINT:
            runs = subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE, text=True,
                                    cwd=os.path.dirname(os.path.abspath(__file__)))
            sleeps = os.pidfd_open(int(runs.stdout.readline()))
            runs.send_signal(signum)
            self.assertEqual(runs.wait(20), 128 + signum)
            self.assertTrue(select.select([sleeps], [], [], 20)[0], 'it goes on')
            os.close(sleeps)
            runs.stdout.close()


class State(unittest.TestCase):
    def test_what_a_group_leaves_is_seen(self):
        inside.SETTLED_S, inside.instances, before = 0, set, None
        before = inside.state()
        self.assertEqual([thing for thing in inside.left(before) if 'x-left' in thing], [])
        with tempfile.TemporaryDirectory(prefix='x-left', dir='/dev/shm') as folder:
            self.assertIn(f'file +{folder}', inside.left(before))


if __name__ == '__main__':
    unittest.main()
