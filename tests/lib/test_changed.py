"""changed.py: which groups a change needs. No VM."""

import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import changed  # noqa: E402
from changed import ROOT  # noqa: E402
from groups import GROUPS  # noqa: E402

# These start no VM.
ON_HOST = {'host', 'parsers', 'mutants'}
# These need nearly every file.
ALL = {'host', 'mutants'}
# Commands of `hanare` that have a layer of their own.
LAYERS_OF_COMMANDS = {'bench': 'bench/command', 'noise': 'bench/noise',
                      **{name: f'cli/{name}' for name in ('doctor', 'gdb', 'native', 'top', 'trace')}}


def run_for(*files):
    return {group for group, why in changed.groups_for(files, GROUPS).items() if why}


def others_for(*files):
    """Without those that need nearly every file, and without the same script run in another way."""
    return {name for name in run_for(*files) - ALL if not GROUPS[name].environment}


class Repository(unittest.TestCase):
    def test_every_group_has_needs(self):
        changed.check(GROUPS)

    def test_every_file_is_in_a_layer_or_set(self):
        paths = changed.git(ROOT, 'ls-files', '-z').split('\0')[:-1]
        self.assertGreater(len(paths), 1000)
        self.assertEqual([path for path in paths if not changed.layer_of(path)], [])

    def test_the_longest_name_counts(self):
        for path, layer in {
                'kernel/src/mm/change/unmap.rs': 'kernel/mm-change', 'kernel/src/gone/away.rs': None, 'kernel/hal/link.ld': 'hal/build',
                'libhanare/async/src/sys/call.rs': 'async/sys', 'libhanare/async/Cargo.toml': 'async/build',
                'libhanare/Makefile': 'libhanare/build', 'libhanare/man/hanare.3': 'docs', 'tools/vm': 'vm',
                'module/space/fork.c': 'module/space', 'module/Makefile': 'module/build', 'new': None}.items():
            self.assertEqual(changed.layer_of(path), layer, path)

    def test_ikc_concerns_every_group_with_a_vm(self):
        for path in 'ikc/src/ring.rs', 'ikc/src/posted/idle.rs', 'ikc/src/lib.rs', 'ikc/Cargo.toml':
            self.assertEqual(run_for(path) | ON_HOST, set(GROUPS), path)

    def test_a_file_in_no_layer_concerns_every_group(self):
        self.assertEqual(run_for('docs/guide.md', 'new/file'), set(GROUPS))
        why = changed.groups_for(['new/file'], ['ends'])['ends']
        self.assertEqual(why, 'new/file (in no layer)')

    def test_the_plan_and_these_rules_concern_every_group(self):
        for path in 'xtask/layers.toml', 'tests/lib/changed.py', 'tests/run', 'tests/lib/inside.py':
            self.assertEqual(run_for(path), set(GROUPS), path)

    def test_nothing_concerns_no_group(self):
        self.assertEqual(run_for(), set())

    def test_documents_concern_the_host_only(self):
        for path in 'docs/guide.md', 'README.md', 'libhanare/man/hanare.3':
            self.assertEqual(run_for(path), {'host'}, path)

    def test_what_runs_write_down_concerns_no_machine(self):
        for path in 'tests/record.json', 'docs/testing.md', 'tests/checks.list':
            self.assertLessEqual(run_for(path), {'host'}, path)

    def test_models_and_tests_of_crates_concern_no_vm(self):
        for path in 'ikc/src/models/rings.rs', 'kernel/core/src/vma/tests.rs', 'xtask/src/main.rs':
            self.assertEqual(others_for(path), set(), path)

    def test_a_program_concerns_the_groups_that_name_it(self):
        self.assertEqual(others_for('tests/guest/namespaces.c') - {'attack', 'fuzz', 'dispatch', 'posted'}, {'guests-processes'})
        self.assertEqual(others_for('tests/guest/rseq.c'), {'guests-threads'})
        self.assertEqual(others_for('tests/guest/poisoned-page.c'), {'machinecheck'})
        self.assertEqual(others_for('tests/guest/program.go'), {'conformance', 'conformance-6.12', 'conformance-7.2'})
        self.assertEqual(others_for('tests/module/pool.c'), {'pooled'})
        # The harness starts it.
        self.assertIn('terminal', run_for('tests/guest/hello.c'))

    def test_programs_that_a_program_starts_concern_its_groups(self):
        """tests/module/forged.c has their names in programs.h."""
        self.assertLessEqual({'fuzz', 'dispatch'}, run_for('tests/guest/namespaces.c'))

    def test_a_header_concerns_the_groups_of_its_programs(self):
        self.assertEqual(run_for('tests/module/programs.h'), run_for('tests/module/forged.c'))
        self.assertLessEqual(run_for('tests/guest/rseq.c'), run_for('tests/guest/guest.h'))

    def test_every_program_is_named_by_a_group(self):
        lonely = [name for name in changed.programs(ROOT).values() if not others_for(name)]
        self.assertEqual(lonely, ['tests/module/ioctl.c'])  # for use by hand

    def test_a_script_concerns_its_groups(self):
        self.assertEqual(others_for('tests/groups/smoke.py'), {'smoke-6.12', 'smoke-7.2', 'smoke-x2apic'})
        self.assertEqual(others_for('tests/lib/gdbstub.py'), {'entry', 'leaky-entry', 'tables'})
        self.assertEqual(others_for('tests/vm/instructions.sh'), {'instructions'})
        self.assertEqual(others_for('tests/fuzz/run'), {'parsers'})

    def test_parts_that_few_groups_use(self):
        for path, groups in {
                'tools/cli/src/gdb/session.rs': {'debug', 'command', 'parsers'}, 'bench/src/noise/mod.rs': {'noise', 'command'},
                'native/src/file.rs': {'native', 'pooled'}, 'libhanare/src/c.rs': {'posted', 'command'},
                'libhanare/async/tests/run': {'posted'}, 'bench/count/steps.py': {'instructions'},
                'tests/fuzz/src/sys.rs': {'parsers'}, 'tests/suites/go': {'suite-programs', 'suite-python', 'suite-stress'}}.items():
            self.assertEqual(others_for(path), groups, path)

    def test_a_group_needs_the_commands_that_it_calls(self):
        for group in set(GROUPS) - ON_HOST:
            needed = changed.needs(group)
            scripts = [path for path in needed.files if path.startswith(('tests/groups/', 'tests/lib/', 'tests/vm/'))]
            for script in scripts:
                calls = set(re.findall(r"hanare(?:', '|\('| )(\w+)", changed.text_of(script, ROOT)))
                for command in calls & set(LAYERS_OF_COMMANDS):
                    self.assertTrue(needed.has('', LAYERS_OF_COMMANDS[command]), f'{group}: {script} calls hanare {command}')

    def test_parsers_need_what_fuzzing_reads_of_others(self):
        found = 0
        for path in changed.git(ROOT, 'ls-files', 'tests/fuzz/src').split():
            for other in re.findall(r'#\[path = "(\.\..*)"\]', changed.text_of(path, ROOT)):
                other = os.path.normpath(f'{os.path.dirname(path)}/{other}')
                self.assertIn('parsers', run_for(other), other)
                found += 1
        self.assertGreater(found, 5)

    def test_a_new_group_has_to_say_its_needs(self):
        with self.assertRaisesRegex(LookupError, 'the group new has no needs'):
            changed.check([*GROUPS, 'new'])
        with self.assertRaisesRegex(LookupError, 'the group new has no needs'):
            changed.groups_for(['README.md'], ['new'])
        with self.assertRaisesRegex(LookupError, 'there is no group ends'):
            changed.check(set(GROUPS) - {'ends'})


TABLE = """STANDARD = ('--mem', '3G')
TEST_LIMIT_S = 2600
GROUPS = {
    'ends': Group('promise', 'ends.py', test_s=30, checked=True),
    'files': Group('promise', 'files.py', test_s=100),
}
"""


class Changes(unittest.TestCase):
    """In a repository with a few files."""

    FILES = {'tests/groups/ends.py': "import harness\nharness.run('static/die')\n", 'tests/lib/harness.py': '',
             'tests/guest/die.c': '#include "guest.h"\n', 'tests/guest/guest.h': '', 'tests/module/boot.c': '',
             'docs/guide.md': 'old\n', 'ikc/src/ring.rs': '', changed.TABLE: TABLE}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.git('init', '--quiet', '--initial-branch=main')
        for path, text in self.FILES.items():
            self.write(path, text)
        self.write(changed.PLAN, changed.text_of(changed.PLAN, ROOT))
        self.first = self.commit()

    def git(self, *arguments):
        return changed.git(self.root, '-c', 'user.name=x', '-c', 'user.email=x', '-c', 'commit.gpgsign=false', *arguments).strip()

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)

    def commit(self):
        self.git('add', '--all')
        self.git('commit', '--quiet', '--message', 'x')
        return self.git('rev-parse', 'HEAD')

    def counts(self, commit=None):
        return changed.still_counts('ends', commit or self.first, self.root)

    def test_committed_uncommitted_and_unknown_files_are_changed(self):
        self.write('docs/guide.md', 'new\n')
        self.commit()
        self.write('ikc/src/ring.rs', 'new')
        self.write('ikc/src/other.rs', '')
        self.git('mv', 'tests/guest/die.c', 'tests/guest/dead.c')
        uncommitted = {'ikc/src/ring.rs', 'ikc/src/other.rs', 'tests/guest/die.c', 'tests/guest/dead.c'}
        self.assertEqual(changed.changed_since(self.first, self.root), uncommitted | {'docs/guide.md'})
        self.assertEqual(changed.changed_files(root=self.root), uncommitted)

    def test_what_the_base_got_meanwhile_is_not_changed(self):
        self.git('checkout', '--quiet', '-b', 'work')
        self.write('docs/guide.md', 'new\n')
        self.commit()
        self.git('checkout', '--quiet', 'main')
        self.write('ikc/src/ring.rs', 'new')
        self.git('update-ref', 'refs/remotes/origin/main', self.commit())
        self.git('checkout', '--quiet', 'work')
        for base in None, 'main', 'origin/main':
            self.assertEqual(changed.changed_files(base, self.root), {'docs/guide.md'})
        with self.assertRaises(changed.NoCommit):
            changed.changed_files('nonsense', self.root)

    def test_a_result_counts_until_something_that_its_group_needs_differs(self):
        self.assertTrue(self.counts())
        self.write('docs/guide.md', 'new\n')
        self.write('tests/guest/other.c', '')
        self.assertTrue(self.counts())
        for path in self.FILES:
            if path in ('docs/guide.md', 'tests/module/boot.c', changed.TABLE):
                continue
            with self.subTest(path=path):
                self.write(path, 'new = 1\n')
                self.assertFalse(self.counts())
                second = self.commit()
                self.assertTrue(self.counts(second))
                self.assertFalse(self.counts())
                self.git('checkout', '--quiet', self.first, path)
                self.assertTrue(self.counts())

    def test_of_the_table_a_group_needs_its_row_without_budgets(self):
        for old, new, counts in (("'promise', 'ends.py', test_s=30", "'else', 'ends.py', test_s=99, limit_s=9", True),
                                 ("'ends.py'", "'other.py'", False), ('checked=True', 'own_machine=True', False),
                                 ("'files.py'", "'other.py'", True), ('TEST_LIMIT_S = 2600', 'TEST_LIMIT_S = 9', True),
                                 ("'3G'", "'4G'", False)):
            self.assertIn(old, TABLE)
            self.write(changed.TABLE, TABLE.replace(old, new))
            self.assertEqual(self.counts(), counts, new)
        self.assertEqual(changed.groups_for([changed.TABLE], ['ends'], self.root)['ends'], f'{changed.TABLE} (run)')

    def test_a_result_does_not_count_if_a_file_is_in_no_layer_or_its_commit_unknown(self):
        self.assertFalse(self.counts('0' * 40))
        self.assertFalse(self.counts('--all'))
        self.write('stray', '')
        self.assertFalse(self.counts())


if __name__ == '__main__':
    unittest.main()
