"""What runs of groups gave: kept in tests/record.json and tests/checks.list, shown in docs/testing.md.

A result counts for the tier in which its group ran, with the commit that it ran on. `make test-long` runs a group again
once a file of its layers has changed (changed.py). An unstable check is kept with each run in which it was seen.
"""

import datetime
import json
import os
import re
import subprocess
import tomllib

from groups import GROUPS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECORD = os.path.join(ROOT, 'tests/record.json')
LIST = os.path.join(ROOT, 'tests/checks.list')
DOCUMENT = os.path.join(ROOT, 'docs/testing.md')
# [[check]] tables: known skips with their reasons; causes of unstable checks; successors of checks
# that are no more.
SKIPS, CAUSES, SUCCESSORS = (os.path.join(ROOT, f'tests/{name}.toml') for name in ('skips', 'causes', 'successors'))


def git(*argv):
    return subprocess.run(['git', *argv], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def commit():
    """The commit of the work tree; with `+` if something that is tracked has changed since. '' outside of git."""
    head = git('rev-parse', '--short=12', 'HEAD')
    return head + ('+' if head and git('status', '--porcelain', '--untracked-files=no') else '')


def tables(path):
    """The [[check]] tables of a TOML file; none if there is no such file."""
    try:
        with open(path, 'rb') as file:
            return tomllib.load(file).get('check', [])
    except FileNotFoundError:
        return []


def load():
    try:
        with open(RECORD) as file:
            return json.load(file)
    except FileNotFoundError:
        return {'results': {}, 'unstable': {}}


def save(record):
    with open(RECORD + '.new', 'w') as file:
        json.dump(record, file, indent=1, sort_keys=True)
        file.write('\n')
    os.rename(RECORD + '.new', RECORD)


def listed():
    """Names of all checks that are known, with the tiers in which they run: {GROUP/NAME: {'test', 'long'}}."""
    found = {}
    try:
        with open(LIST) as file:
            for line in file:
                if line.strip() and not line.startswith('#'):
                    tiers, name = line.split()
                    found[name] = set(tiers.split(','))
    except FileNotFoundError:
        pass
    return found


def save_list(names):
    with open(LIST + '.new', 'w') as file:
        file.write('# Every check and the tiers in which it runs; written by tests/run --record.\n')
        for name in sorted(names):
            if names[name]:
                file.write(f'{",".join(sorted(names[name], reverse=True))} {name}\n')
    os.rename(LIST + '.new', LIST)


def note(record, names, tier, group, result, checks, on):
    """Takes the result of a whole group into the record, and its names into the list."""
    record['results'].setdefault(tier, {})[group] = dict(result, commit=on, date=datetime.date.today().isoformat())
    note_unstable(record, group, checks, on)
    for name, tiers in names.items():
        if name.startswith(group + '/'):
            tiers.discard(tier)
    for check in checks.by_name.values():
        names.setdefault(f'{group}/{check.name}', set()).add('long' if check.verdict() == 'later' else tier)


def note_unstable(record, group, checks, on):
    today = datetime.date.today().isoformat()
    for check in checks.of('unstable'):
        seen = record['unstable'].setdefault(f'{group}/{check.name}', [])
        seen.append({'commit': on, 'date': today, 'results': check.told()[:400]})


def repeated(record, now):
    """Checks that are unstable now and were in a run before, without a cause written down: {name: runs before}."""
    explained = [entry['check'] for entry in tables(CAUSES)]
    return {name: len(record['unstable'][name]) for name in now
            if record['unstable'].get(name) and not any(re.fullmatch(pattern, name) for pattern in explained)}


def audit(path):
    """Checks of an older list (GROUP/NAME in each line) that are in no tier today, and have no successor that is."""
    with open(path) as file:
        older = [line.split()[-1] for line in file if line.strip() and not line.startswith('#')]
    return lost(older, listed(), tables(SUCCESSORS))


def lost(older, today, successors):
    """Names in `older` that are not in `today`, and whose successor in `successors` is not either ([[check]]: a pattern
    of the old name, and the new one as `now`)."""
    def is_there(name):
        matches = ((entry, re.fullmatch(entry['check'], name)) for entry in successors)
        return name in today or any(match and match.expand(entry['now']) in today for entry, match in matches)
    return [name for name in older if not is_there(name)]


INTRODUCTION = '''# Tests

Written by `tests/run --document` from `tests/lib/groups.py`, `tests/record.json` and `tests/causes.toml`.

| tier | command | what it is | limit |
|---|---|---|---|
| quick | `make quick` | format, clippy, unit tests, tidy, generated files; no machine | 3 minutes once built |
| test | `make test` | each promise of the documents once, on Linux 6.1, and a smoke on 6.12 and 7.2 | {test} minutes of two cores |
| long | `make test-long` | everything: fuzzing, soak, strikes, sweeps, full depth of loom and explorations, every way of delegation, mutants | {long} minutes |

`make test-long` can be interrupted and goes on with the groups whose result does not count: a result counts until a file
of the group's layers changes (`xtask/layers.toml`). `tests/run --changed` runs the groups that a change concerns.

A check that fails runs again, once in the same machine and once in a fresh one; all results are printed and stay in
`build/tests`. Two failures of three are a failure, one is an *unstable* check: an error whose cause is not known yet. More
than three of them in a run, or one that was listed before, fail the run. `tests/causes.toml` has the causes of those that
are explained.
'''


def document():
    """The text of docs/testing.md."""
    record, names = load(), listed()
    lines = [INTRODUCTION.format(test=25, long=150)]
    for tier in 'test', 'long':
        results = record['results'].get(tier, {})
        lines += [f'## make {"test" if tier == "test" else "test-long"}', '',
                  '| group | shows | checks | budget, s of CPU | took | commit | date | result |', '|---|---|--:|--:|--:|---|---|---|']
        for name, group in sorted(GROUPS.items()):
            budget = group.budget_s(tier)
            if budget is None:
                continue
            result = results.get(name)
            count = sum(tier in tiers for check, tiers in names.items() if check.startswith(name + '/'))
            if result:
                bad = [f'{result[kind]} {word}' for kind, word in (('failed', 'failed'), ('unstable', 'unstable'), ('skipped', 'skipped'))
                       if result.get(kind)]
                last = f'{result["cpu_s"]:.0f} | `{result["commit"]}` | {result["date"]} | {", ".join(bad) or "passed"}'
            else:
                last = '| | | not run'
            lines.append(f'| `{name}` | {group.promise} | {count} | {budget} | {last} |')
        lines.append('')
    lines += ['## Unstable checks', '']
    causes = tables(CAUSES)
    for name, runs in sorted(record['unstable'].items()):
        cause = next((entry['cause'] for entry in causes if re.fullmatch(entry['check'], name)), 'cause not known')
        seen = ', '.join(f'{run["date"]} on `{run["commit"]}`' for run in runs)
        lines.append(f'* `{name}`: {cause} Seen {seen}.')
    if not record['unstable']:
        lines.append('None.')
    return '\n'.join(lines) + '\n'


def write_document(check):
    """Writes docs/testing.md; with `check`, says whether it is as it would be written."""
    text = document()
    if check:
        try:
            with open(DOCUMENT) as file:
                return file.read() == text
        except FileNotFoundError:
            return False
    with open(DOCUMENT, 'w') as file:
        file.write(text)
    return True
