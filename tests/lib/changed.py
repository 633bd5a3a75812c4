"""Which groups of tests a change needs: `tests/run --changed`.

Every file of the repository is in a layer or in a set of files (xtask/layers.toml). LAYERS says which of them a group
needs. Of tests/groups, tests/lib, tests/guest, tests/module and tests/attack a group needs the files that it names. A file that is in no
layer concerns every group.
"""

import ast
import fnmatch
import functools
import os
import re
import subprocess
import tomllib
import typing

from groups import GROUPS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAN = 'xtask/layers.toml'

# Names as in xtask/layers.toml, `PART/LAYER` or that of a set, with `*` for any; `!`: not these.

EVERY = ['changed', 'run', 'make']
# What has to be there before a program runs on an LWK in a VM.
STACK = [*EVERY, 'kernel/*', 'hal/*', 'core/*', 'abi/*', 'ikc/*', 'module/*', 'proxy/*', 'sdk/*', 'syscall/*', 'common/*',
         'cli/build', 'cli/base', 'cli/commands', 'cli/main', 'workspace', 'vm', '!core/tests', '!core/properties', '!ikc/models']
# What `hanare bench` executes, the library of `hanare run --async` included.
BENCHES = ['bench/*', 'bench-guest/*', 'bench-posted/*', 'libhanare/*', 'async/*', '!async/tests']
LAYERS = {
    **dict.fromkeys((
        'attack', 'cachetypes', 'cgroup', 'conformance', 'conformance-6.12', 'conformance-7.2', 'cycles', 'devices', 'devices-6.12',
        'devices-7.2', 'dispatch', 'ends', 'faults', 'nvme', 'nvme-6.12', 'nvme-7.2',
        'files', 'files-box', 'files-copied', 'fuzz', 'guests-processes', 'guests-processes-box', 'guests-threads',
        'guests-threads-box', 'guests-waits', 'guests-waits-box', 'module', 'numa', 'pseudo', 'security-hooks', 'smoke-6.12',
        'smoke-7.2', 'smoke-x2apic', 'soak', 'strikes', 'terminal',
        'entry', 'leaky-entry', 'machinecheck', 'tables',
        'vm',  # it boots no LWK, but is the first to tell that a VM is at fault
    ), STACK),
    'command': [*STACK, 'cli/*', '!cli/tests', *BENCHES],
    'debug': [*STACK, 'cli/gdb', 'cli/trace'],
    'instructions': [*STACK, 'bench-count'],
    **dict.fromkeys(('accounts', 'memory', 'memory-copied'), [*STACK, 'cli/trace']),
    'native': [*STACK, 'cli/native', 'cli/trace', 'native/*'],
    'noise': [*STACK, 'bench/*', 'cli/trace', 'bench-guest/*'],
    'pooled': [*STACK, 'cli/native', 'cli/trace', 'native/*'],
    'posted': [*STACK, 'libhanare/*', 'async/*'],
    **dict.fromkeys(('hostile-users', 'rights'), [*STACK, 'cli/doctor']),
    'signature': [*STACK, 'cli/doctor'],
    **dict.fromkeys(('suite-programs', 'suite-python', 'suite-stress'), [*STACK, 'suites']),
    # Files of the command and of the proxy that tests/fuzz/src reads, too.
    'parsers': [*EVERY, 'fuzz/*', 'core/*', 'abi/*', 'ikc/*', 'sdk/*', 'common/*', 'cli/gdb', 'cli/trace', 'proxy/base',
                '!core/tests', '!core/properties', '!ikc/models'],
    # Every crate, and what tidy looks at: all files. What runs write down is no reason to run
    # again.
    'host': ['*', '!record'],
    'mutants': ['*', '!record', '!docs'],
}
# Programs that are not called as their sources are (tests/lib/guests.py).
PROGRAMS = {'rust-static': 'tests/guest/program.rs', 'go-static': 'tests/guest/program.go', 'strike': 'tests/module/strike.c'}


class Needs(typing.NamedTuple):
    """What a group depends on: names of layers and sets, and paths."""

    layers: tuple
    files: frozenset

    def has(self, path, layer):
        if path in self.files:
            return True
        fits = any(fnmatch.fnmatchcase(layer, name) for name in self.layers if name[0] != '!')
        return fits and not any(fnmatch.fnmatchcase(layer, name[1:]) for name in self.layers if name[0] == '!')


# ---- layers ----

@functools.cache
def plan(root=ROOT):
    """{file, or folder with `/`: name of its layer or set; None: a part's folder, in which a file has to be in a layer}."""
    with open(os.path.join(root, PLAN), 'rb') as file:
        text = tomllib.load(file)
    names = {}
    for part in text['part']:
        names[part['folder'] + '/'] = None
        for layer in part['layer']:
            for entry in layer['files']:
                names[f'{part["folder"]}/{entry}'] = f'{part["name"]}/{layer["name"]}'
    for files in text['files']:
        names.update(dict.fromkeys(files['paths'], files['name']))
    return names


def layer_of(path, root=ROOT):
    """The layer or set of a file, which need not exist any more: of all names that fit, the longest one's. None: there is none."""
    names = plan(root)
    if path in names:
        return names[path]
    folders = (path[:at + 1] for at in range(len(path) - 1, 0, -1) if path[at] == '/')
    return next((names[folder] for folder in folders if folder in names), None)


# ---- changes ----

class NoCommit(Exception):
    """There is no such commit."""


def git(root, *arguments):
    return subprocess.run(['git', '-C', root, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def commit_of(name, root):
    done = subprocess.run(['git', '-C', root, 'rev-parse', '--verify', '--quiet', '--end-of-options', name + '^{commit}'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        raise NoCommit(name)
    return done.stdout.strip()


def changed_since(commit, root=ROOT):
    """Files that differ between a commit and the work tree, and those that git does not know."""
    commit = commit_of(commit, root)
    differ = git(root, 'diff', '--name-only', '-z', '--no-renames', commit, '--')
    unknown = git(root, 'ls-files', '-z', '--others', '--exclude-standard')
    return {path for path in (differ + unknown).split('\0') if path}


def changed_files(base=None, root=ROOT):
    """Files that were changed since this branch left `base` (origin/main, or without one HEAD), committed or not."""
    if base is None:
        try:
            base = commit_of('origin/main', root)
        except NoCommit:
            base = 'HEAD'
    base = commit_of(base, root)
    done = subprocess.run(['git', '-C', root, 'merge-base', base, 'HEAD'], stdout=subprocess.PIPE, text=True)
    return changed_since(done.stdout.strip() or base, root)


# ---- what a group names ----

def script_of(group):
    """The script of a group, and the part of it that runs (`threads` of guests.py), or None."""
    inside = GROUPS[group].inside.split()
    if inside:
        return 'tests/groups/' + inside[0], inside[1] if inside[1:] else None
    return next(word for word in GROUPS[group].host if word.startswith('tests/')), None


@functools.cache
def text_of(path, root):
    with open(os.path.join(root, path), errors='replace') as file:
        return file.read()


@functools.cache
def programs(root):
    """{name of a test program: its source}."""
    found = dict(PROGRAMS)
    for folder, before in ('tests/guest', ''), ('tests/module', 'module-'), ('tests/attack', 'attack-'):
        names = os.listdir(os.path.join(root, folder)) if os.path.isdir(os.path.join(root, folder)) else []
        found.update({before + name[:-2]: f'{folder}/{name}' for name in names
                      if name.endswith('.c')})
    return found


def strings(node, part):
    """The strings of a script, without its documentation. Of a dictionary with a key for the part, those of that."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    children = list(ast.iter_child_nodes(node))
    if part and isinstance(node, ast.Dict):
        children = [value for key, value in zip(node.keys, node.values)
                    if isinstance(key, ast.Constant) and key.value == part] or children
    for child in children:
        yield from strings(child, part)


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def named_in_python(path, part, root):
    tree = ast.parse(text_of(path, root), path)
    modules = {f'tests/lib/{name}.py' for name in imports(tree)}
    words = {word for text in strings(tree, part) for word in text.split()}
    found = modules | {word.strip('/') for word in words}
    if not path.startswith(('tests/groups/', 'tests/lib/', 'tests/vm/')):  # others start no program of tests/guest
        return found
    return found | {programs(root)[name] for word in words for name in word.split('/') if name in programs(root)}


def named_in_c(path, root):
    text = text_of(path, root)
    folder = os.path.dirname(path)
    found = {os.path.normpath(f'{folder}/{name}') for name in re.findall(r'^#include "(.*)"', text, re.M)}
    if folder == 'tests/module':  # programs that these start; those of tests/guest start only themselves
        words = (word for text in re.findall(r'"(.*?)"', text) for word in text.split())
        found |= {programs(root)[word] for word in words if word in programs(root)}
    return found


@functools.cache
def named(path, part, root):
    """The names in a file, whether such files exist or not."""
    if path.endswith(('.c', '.h')):
        return named_in_c(path, root)
    if path.endswith('.py') or text_of(path, root).startswith('#!/usr/bin/python3'):
        return named_in_python(path, part, root)
    return set(re.findall(r'[\w./-]+', text_of(path, root)))


@functools.cache
def needs(group, root=ROOT):
    """What a group depends on: layers, and files that it names, or that these name."""
    if group not in LAYERS:
        raise LookupError(f'tests/lib/changed.py: the group {group} has no needs')
    script, part = script_of(group)
    found, ahead = set(), [script]
    while ahead:
        path = ahead.pop()
        if path in found or not os.path.isfile(os.path.join(root, path)):
            continue
        found.add(path)
        # Of other files a group needs no more than themselves.
        if path == script or path.startswith(('tests/lib/', 'tests/guest/', 'tests/module/', 'tests/attack/')):
            ahead += named(path, part, root)
    return Needs(tuple(LAYERS[group]), frozenset(found))


# ---- groups ----

def check(groups, root=ROOT):
    """Fails for a group without needs, for needs without a group, and for a name that is no layer's."""
    groups = set(groups)
    wrong = [f'the group {group} has no needs' for group in sorted(groups - set(LAYERS))]
    wrong += [f'there is no group {group}' for group in sorted(set(LAYERS) - groups)]
    known = set(filter(None, plan(root).values()))
    for name in sorted({name.lstrip('!') for names in LAYERS.values() for name in names}):
        if not fnmatch.filter(known, name):
            wrong.append(f'there is no layer {name}')
    if wrong:
        raise LookupError(f'tests/lib/changed.py: {"; ".join(wrong)}')


def groups_for(files, groups, root=ROOT):
    """{group: why these files concern it; None: they do not}."""
    layers = {path: layer_of(path, root) for path in sorted(files)}
    found = {}
    for group in groups:
        needed = needs(group, root)
        reasons = [f'{path} ({layer or "in no layer"})' for path, layer in layers.items()
                   if layer is None or needed.has(path, layer)]
        more = f' and {len(reasons) - 1} more' if len(reasons) > 1 else ''
        found[group] = reasons[0] + more if reasons else None
    return found


TABLE = 'tests/lib/groups.py'
# What a row of the table says that is of no consequence for the result of its group.
WORDS = {'promise', 'test_s', 'long_s', 'limit_s', 'TEST_LIMIT_S', 'LONG_LIMIT_S'}


def row(text, group):
    """What the table of groups, which this text is, says of one group, and how."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and any(isinstance(key, ast.Constant) and key.value == group for key in node.keys):
            node.values = [value for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant) and key.value == group]
            node.keys = []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'Group':
            node.args = node.args[1:]
            node.keywords = [word for word in node.keywords if word.arg not in WORDS]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in WORDS:
            node.value = ast.Constant(None)
    return ast.dump(tree)


def has_same_row(group, commit, root):
    with open(os.path.join(root, TABLE)) as file:
        return row(git(root, 'show', f'{commit}:{TABLE}'), group) == row(file.read(), group)


def still_counts(group, commit, root=ROOT):
    """Whether a result of a group at this commit still holds: nothing that the group needs differs. Of the table of
    groups it needs its own row, without the budget."""
    try:
        files = changed_since(commit, root)
        if TABLE in files and group != 'host' and has_same_row(group, commit, root):
            files.remove(TABLE)
        return groups_for(files, [group], root)[group] is None
    except (NoCommit, subprocess.CalledProcessError):
        return False
