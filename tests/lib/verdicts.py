"""Verdicts of checks: what groups print, and what becomes of a check that failed once.

A group prints one line for each check:

    ok NAME                FAIL NAME: why
    xfail NAME: reason     known not to work yet; FAIL if it works
    skip NAME: reason      cannot be tested on this machine; tests/skips.toml has those that are known
    later NAME: reason     left to `make test-long`
    again NAME: why        it failed, and is run again in the same machine; its verdict follows
    unstable NAME: why     it failed and then passed

A check that failed is run again, once in the same machine and once in a fresh one. Two failures of three are a failure;
one is an unstable check.
"""

import dataclasses
import re

LINE = re.compile(r'^(ok|FAIL|xfail|skip|later|again|unstable) ([^:\s]+)(?:: (.*))?$')
SECONDS = re.compile(r'^# +([0-9.]+) s (\S+)$')
# More unstable checks in one run are a failure of the run.
MAX_UNSTABLE = 3
# If more checks of a group fail the group is not run again: what is broken is no chance.
MAX_AGAIN = 12


@dataclasses.dataclass
class Check:
    """What is known of one check: a result for each time that it was run."""

    name: str
    kind: str = ''
    why: str = ''
    # (where, None or why it failed), in order.
    tries: list = dataclasses.field(default_factory=list)

    def failures(self):
        return sum(why is not None for _, why in self.tries)

    def verdict(self):
        """The last word: ok, FAIL, unstable, xfail, skip or later."""
        if self.kind in ('xfail', 'skip', 'later'):
            return self.kind
        if not self.failures():
            return 'ok'
        return 'FAIL' if self.failures() > 1 or len(self.tries) == 1 else 'unstable'

    def told(self):
        """All results, for the line of a check that did not simply pass."""
        return '; '.join(f'{where}: {"passed" if why is None else why}' for where, why in self.tries)


class Checks:
    """The checks of one group in one run of tests/run."""

    def __init__(self):
        self.by_name = {}

    def take(self, line, where):
        """Takes a line of a group's output; the check that it completes, or None."""
        match = LINE.match(line)
        if not match:
            return None
        kind, name, why = match[1], match[2], match[3] or ''
        check = self.by_name.setdefault(name, Check(name))
        if kind == 'again':
            check.tries.append((where, why or 'no reason given'))
            return None
        check.kind, check.why = kind, why
        if kind in ('ok', 'unstable'):
            if kind == 'unstable' and not check.tries:
                check.tries.append((where, why))
            check.tries.append((where, None))
        elif kind == 'FAIL':
            check.tries.append((where, why or 'no reason given'))
        return check

    def to_repeat(self):
        """Names of checks that have failed, and have not been tried in as many ways as there are."""
        return [check.name for check in self.by_name.values() if check.failures() and len(check.tries) < 3]

    def unfinished(self, expected):
        """Names that have no verdict, `again` without one among them."""
        return [name for name in expected if name not in self.by_name or not self.by_name[name].kind]

    def of(self, verdict):
        return [check for check in self.by_name.values() if check.verdict() == verdict]


def unlisted_skips(checks, group, known):
    """Skips that tests/skips.toml does not have: {name: reason}, all of `GROUP/NAME`."""
    def is_known(name, reason):
        return any(re.fullmatch(entry['check'], name) and re.search(entry['reason'], reason) for entry in known)
    return {f'{group}/{check.name}': check.why for check in checks.of('skip') if not is_known(f'{group}/{check.name}', check.why)}
