"""tools/hooks/commit-msg: which messages it refuses, in a repository that has it as a hook, and what --log prints."""

import os
import shutil
import subprocess
import tempfile
import unittest

HOOKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'tools/hooks')
GOOD = 'mm: copy pinned pages at fork'


class Hook(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        # Nothing of the user's, and nothing of a repository that this runs in a hook of.
        kept = {name: value for name, value in os.environ.items() if not name.startswith('GIT_')}
        self.environment = {**kept, 'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_CONFIG_SYSTEM': '/dev/null', 'LC_ALL': 'C.UTF-8',
                            **{f'GIT_{role}_{what}': 'test@localhost' for role in ('AUTHOR', 'COMMITTER') for what in ('NAME', 'EMAIL')}}
        self.root = os.path.join(self.folder, 'repository')
        self.git('init', '--quiet', self.root, at=self.folder)
        self.git('config', 'core.hooksPath', HOOKS)
        self.count = 0

    def run_at(self, folder, *command):
        return subprocess.run(command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding='utf-8')

    def git(self, *arguments, at=None):
        done = self.run_at(at or self.root, 'git', *arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def commit(self, message, path='docs/a.md', *options):
        """What the hook says of a commit that changes a file; None: it is made."""
        self.count += 1
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            print(self.count, file=file)
        self.git('add', '.')
        done = self.run_at(self.root, 'git', 'commit', '--quiet', '-m', message, *options)
        return done.stdout if done.returncode else None

    def log(self, at=None):
        done = self.run_at(at or self.root, os.path.join(HOOKS, 'commit-msg'), '--log')
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.splitlines()

    def test_subject_of_72_characters_passes(self):
        subject = 'mm: copy ' + 'x' * 63
        self.assertIsNone(self.commit(subject))
        self.assertIn('73 characters', self.commit(subject + 'x'))
        self.assertIsNone(self.commit('mm: copy ' + 'ä' * 63))

    def test_subject_has_an_area_and_a_verb(self):
        for subject in GOOD, 'ptrace, signal: take no word', 'tests/run: wait', 'ci: 7.2 builds, too':
            self.assertIsNone(self.commit(subject), subject)
        for subject in 'Copy pinned pages', 'mm:copy', 'mm: ', 'MM: copy', 'a fork: copy':
            self.assertIn('area: verb', self.commit(subject), subject)

    def test_subject_names_no_pronoun_in_place_of_a_verb(self):
        for word in 'what', 'Who', 'the same', 'the', 'a', 'no':
            self.assertIn('not a verb', self.commit(f'mm: {word} pages'), word)
        self.assertIsNone(self.commit('mm: whatever items'))

    def test_change_of_the_kernel_has_a_body(self):
        for part in 'kernel', 'module', 'tools/proxy', 'ikc':
            self.assertIn('has no body', self.commit(GOOD, f'{part}/a'), part)
            self.assertIn('has no body', self.commit(f'{GOOD}\n\nSigned-off-by: A <a@b>', f'{part}/a'), part)
            self.assertIsNone(self.commit(f'{GOOD}\n\nBecause.', f'{part}/a'), part)
        self.assertIsNone(self.commit(GOOD, 'tools/cli/a'))

    def test_body_stands_behind_a_blank_line(self):
        self.assertIn('not blank', self.commit(f'{GOOD}\nBecause.'))

    def test_comments_of_the_editor_do_not_count(self):
        text = f'\n{GOOD}\n# {"x" * 80}\n#\n# ------------------------ >8 ------------------------\n+diff\n'
        self.assertIsNone(self.commit(text, 'docs/a.md', '--cleanup=scissors'))
        text = text.replace(GOOD, 'Copy')
        self.assertIn('area: verb', self.commit(text, 'docs/a.md', '--cleanup=scissors'))

    def test_messages_of_git_pass(self):
        for subject in "Merge branch 'x'", f'Revert "{GOOD}"', f'fixup! {GOOD}':
            self.assertIsNone(self.commit(subject, 'kernel/a'), subject)

    def test_log_tells_what_slipped_through(self):
        self.commit(GOOD)
        self.commit('Copy', 'docs/a.md', '--no-verify')
        self.commit(GOOD, 'ikc/a', '--no-verify')
        newest, before = self.log()
        self.assertIn('has no body', newest)
        self.assertIn('area: verb', before)

    def test_log_begins_where_the_branch_left_its_upstream(self):
        self.commit('Copy', 'docs/a.md', '--no-verify')
        clone = os.path.join(self.folder, 'clone')
        self.git('clone', '--quiet', self.root, clone, at=self.folder)
        self.assertEqual(len(self.log(clone)), 1)
        self.git('commit', '--quiet', '--allow-empty', '-m', 'Paste', at=clone)
        self.assertEqual([line.split("'")[1] for line in self.log(clone)], ['Paste'])

    def test_log_of_a_shallow_clone_tells_of_its_commits(self):
        self.commit(GOOD + '\n\nBecause.', 'kernel/a')
        self.commit(GOOD)
        self.commit(GOOD + ' again')
        clone = os.path.join(self.folder, 'clone')
        self.git('clone', '--quiet', '--depth', '1', f'file://{self.root}', clone, at=self.folder)
        self.assertEqual(self.log(clone), [])

    def test_log_without_commits_does_not_fail(self):
        self.assertIn('no commits', self.log()[0])
        self.assertIn('no commits', self.log(self.folder)[0])


if __name__ == '__main__':
    unittest.main()
