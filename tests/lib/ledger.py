"""What the ledger of frames (`hanare debug ledger --json`) has to say of an LWK without programs."""

import json
import time

# Seconds that what ends just now is given.
SETTLED_S = 20


def read(asked, name='default'):
    """The user of each frame of the LWK. `asked` is the harness's."""
    return json.loads(asked('debug', 'ledger', '--json', name).out)


def faults(found):
    """Reasons why a ledger does not fit. Each frame has an owner, the counts add up to all frames, and no user has
    one."""
    return (found['faults']
            + [f'users have {count} frames of {what}' for what, count in found['all_users'].items()]
            + [f'user {user["uid"]} is charged: {user}' for user in found['users']])


def settled_faults(asked, settle, name):
    """The faults that remain after `settle`, for which the table is printed. `settle` has contents that are kept for no
    user go, and Linux asked what it holds."""
    end = time.monotonic() + SETTLED_S
    while True:
        settle(name)
        found = read(asked, name)
        if not faults(found):
            return []
        if time.monotonic() > end:
            print('\n'.join(f'# {line}' for line in table(found)), flush=True)
            return faults(found)
        time.sleep(0.2)


def table(found):
    """Its lines, for readers of the log."""
    owners = [('kernel', found['kernel']), ('all users', found['all_users'])]
    owners += [(f'user {user["uid"]}', user['frames']) for user in found['users']]
    rows = [('all', '', found['total']), ('free', '', found['free']), ('kernel', 'image', found['image']),
            ('kernel', 'lists', found['lists']), *((who, what, count) for who, has in owners for what, count in has.items())]
    return [f'{who:12} {what:12} {count:10}' for who, what, count in rows]
