"""Programs that do their worst to mechanisms of the LWK (tests/attack), by users without rights: unprivileged and confined
programs, tracers, root of a container, processes of Linux beside them, and with a proxy that is not Hanare's. No panic, no
oops, nothing leaked, no harm to another user's program, and each of them can be killed at any moment.

TESTS_ATTACK_SECONDS (8) says how long each lasts, TESTS_ATTACK_SEED where it begins."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from attacks import *
from harness import *

SECONDS = int(os.environ.get('TESTS_ATTACK_SECONDS') or 8)
SEED = int(os.environ.get('TESTS_ATTACK_SEED') or 1)

start('--cpus', '2-3', '--mem', '1G')
for name in PROGRAMS:
    check(name[7:], attacked([(name, 'program')], SECONDS, SEED))
for name in CONFINED:
    check(f'{name[7:]}-confined', attacked([(name, 'confined')], SECONDS, SEED + 100))
check('pinned-writes', attacked([('attack-pinned-writes', 'program')], SECONDS, SEED + 150))
check('onlookers-of-a-container', attacked([('attack-onlookers', 'container')], SECONDS, SEED + 200))
check('onlookers-of-linux', attacked([('attack-onlookers', 'program'), ('attack-onlookers', 'linux')], SECONDS, SEED + 300))
for name in PROGRAMS:
    check(f'{name[7:]}-by-a-forged-proxy', attacked([(name, 'forged')], SECONDS, SEED + 400))
check('all-at-once', attacked([(name, 'program') for name in PROGRAMS], SECONDS, SEED + 500))
# The last, since Linux says of ends that they are late.
for number, (kind, suffix) in enumerate({'program': '', 'confined': '-confined', 'forged': '-by-a-forged-proxy'}.items()):
    check(f'bombs{suffix}', attacked([('attack-bombs', kind)], SECONDS, SEED + 600 + number, may_be_late=True))
finish()
