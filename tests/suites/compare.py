#!/usr/bin/python3
"""Compare two sets of result files of runtest.py: what passes on Linux has to pass on the LWK.

    compare.py --linux FILE... --lwk FILE... [--document docs/compatibility.md]

Of several results of a test in the files of one side the last one counts, so that a repetition can
follow the first run. Prints the counts, and each test that passes on Linux and not on the LWK;
with --document also whether the document names it (`name`, in a table). Exit status 1 if less than
--least percent (95) pass, a test is not named, or one hung the LWK or left something behind.
"""

import argparse
import re
import sys

HARD = ('dead', 'leak')


def read(paths):
    """name -> verdict, the later one."""
    verdicts = {}
    for path in paths:
        with open(path) as file:
            for line in file:
                name, verdict, *_ = line.split('\t')
                verdicts[name] = verdict
    return verdicts


def count(verdicts):
    kinds = {}
    for verdict in verdicts.values():
        kinds[verdict] = kinds.get(verdict, 0) + 1
    return ', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--linux', nargs='+', required=True, metavar='FILE')
    parser.add_argument('--lwk', nargs='+', required=True, metavar='FILE')
    parser.add_argument('--document', metavar='FILE')
    parser.add_argument('--least', type=float, default=95, metavar='PERCENT')
    args = parser.parse_args()
    linux, lwk = read(args.linux), read(args.lwk)
    named = set()
    if args.document:
        with open(args.document) as file:
            named = {name for line in file if line.startswith('|')
                     for name in re.findall(r'`([a-z0-9_A-Z]+)`', line)}
    passed = [name for name, verdict in linux.items() if verdict == 'pass']
    both = [name for name in passed if name in lwk]
    failed = [name for name in both if lwk[name] != 'pass']
    good = 100 * (len(both) - len(failed)) / max(1, len(both))
    print(f'Linux: {count(linux)}\nLWK: {count(lwk)}')
    print(f'{len(passed)} pass on Linux, of these {len(both)} were run on the LWK, '
          f'{len(both) - len(failed)} pass there: {good:.1f} %')
    bad = good < args.least
    for name in sorted(failed):
        missing = args.document and name not in named
        hard = lwk[name] in HARD
        print(f'{lwk[name]:5} {name}' + (' (not in the document)' if missing else ''))
        bad |= missing or hard
    for name in sorted(named & set(both) - set(failed)):
        print(f'passes now: {name} (is in the document)')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
