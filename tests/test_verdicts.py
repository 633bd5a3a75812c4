"""tests/verdicts: what cargo says becomes verdicts, and what fails is run once more."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import signal
import tempfile
import unittest

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'verdicts')
loader = importlib.machinery.SourceFileLoader('verdicts', PATH)
verdicts = importlib.util.module_from_spec(importlib.util.spec_from_loader('verdicts', loader))
loader.exec_module(verdicts)

CARGO = """\
   Compiling hanare-abi v0.1.0 (/abi)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1m 02s
     Running unittests src/main.rs (target/debug/deps/hanare-9513c2230ba60d0d)

running 3 tests
test bench::tests::a_sum ... ok
test bench::tests::a_panic - should panic ... FAILED
test bench::tests::a_wait ... ignored

failures:

---- bench::tests::a_panic stdout ----
note: test did not panic as expected

failures:
    bench::tests::a_panic

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.50s

     Running unittests src/lib.rs (target/debug/deps/hanare-0513c2230ba60d0d)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/marshal/main.rs (target/debug/deps/marshal-3cc4a53d21a435e3)

running 1 test
error: test failed, to rerun pass `-p hanare-core --test marshal`
   Doc-tests hanare
test libhanare/src/lib.rs - (line 12) ... ok
test libhanare/src/lib.rs - (line 4) - compile ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.11s
"""


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        verdicts.OUT = self.folder.name
        verdicts.failed = False

    def said(self, kind, *arguments):
        """Verdicts without reasons, and without times."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            kind(*arguments)
        return [line.split(':')[0] for line in out.getvalue().splitlines() if not line.startswith('# ')]

    def script(self, text):
        """A command whose second run may differ: there is $mark then."""
        return ['sh', '-c', f'mark={self.folder.name}/mark; {text}; touch $mark; exit ${{status:-0}}']

    def test_each_test_of_cargo_has_a_name_and_a_verdict(self):
        binaries, built = verdicts.binaries_of('unit', CARGO)
        self.assertEqual(built, 62)
        self.assertEqual([binary.name for binary in binaries],
                         ['unit/hanare', 'library/hanare', 'unit/marshal', 'library/hanare'])
        self.assertEqual([(test.verdict, test.name, test.exact) for binary in binaries for test in binary.tests], [
            ('ok', 'unit/hanare/bench.tests.a_sum', 'bench::tests::a_sum'),
            ('FAIL', 'unit/hanare/bench.tests.a_panic---should-panic', 'bench::tests::a_panic'),
            ('skip', 'unit/hanare/bench.tests.a_wait', 'bench::tests::a_wait'),
            ('ok', 'library/hanare/libhanare/src/lib.rs---example-2-', 'libhanare/src/lib.rs - (line 12)'),
            ('ok', 'library/hanare/libhanare/src/lib.rs---example-1---compile', 'libhanare/src/lib.rs - (line 4)')])
        self.assertEqual(binaries[0].said, {'bench::tests::a_panic': ['note: test did not panic as expected']})
        self.assertEqual(verdicts.ended_early(binaries).keys(), {'unit/marshal/end'})

    def test_a_step_that_passes_runs_once(self):
        self.assertEqual(self.said(verdicts.step, 'a', *self.script('[ ! -e $mark ] || exit 1')), ['ok a'])

    def test_no_signal_is_ignored_that_the_shell_in_the_background_ignores(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            said = self.said(verdicts.step, 'x', *self.script('kill -INT $$'))
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(said, ['again x', 'FAIL x'])

    def test_a_step_fails_if_it_fails_twice(self):
        self.assertEqual(self.said(verdicts.step, 'a', 'false'), ['again a', 'FAIL a'])
        self.assertTrue(verdicts.failed)

    def test_a_step_that_passes_then_is_unstable(self):
        self.assertEqual(self.said(verdicts.step, 'a', *self.script('[ -e $mark ] || status=1')), ['again a', 'unstable a'])
        self.assertFalse(verdicts.failed)

    def test_verdicts_of_a_program_are_those_of_two_runs(self):
        text = 'echo ok one; echo FAIL the other: why; [ -e $mark ] && echo ok third of three || echo FAIL third of three; status=1'
        self.assertEqual(self.said(verdicts.program, 'p', *self.script(text)), [
            'ok p/one', 'again p/the-other', 'FAIL p/the-other', 'again p/third-of-three', 'unstable p/third-of-three'])

    def test_a_program_that_dies_once_is_unstable(self):
        text = 'echo ok one; [ -e $mark ] && echo ok other || status=1'
        self.assertEqual(self.said(verdicts.program, 'p', *self.script(text)),
                         ['ok p/one', 'again p/end', 'unstable p/end', 'ok p/other'])


if __name__ == '__main__':
    unittest.main()
