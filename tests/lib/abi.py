"""Addresses, constants and layouts between the kernels, as module/hanare_abi.h has them: attackers look them up, since one that
writes where something lay once shows nothing."""

import functools
import os
import re

HEADER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), 'module/hanare_abi.h')


@functools.cache
def header():
    with open(HEADER) as file:
        return file.read()


def number(pattern, what):
    found = re.search(pattern, header(), re.M)
    if not found:
        raise LookupError(f'{HEADER} has no {what}')
    return int(found[1].rstrip('UL'), 0)


def constant(name):
    """The value of HANARE_`name`."""
    return number(rf'^#define HANARE_{name} (\w+)$', name)


def size(structure):
    """Bytes of struct hanare_`structure`."""
    return number(rf'^_Static_assert\(sizeof\(struct hanare_{structure}\) == (\w+),', structure)


def offset(structure, field):
    """Where a field of struct hanare_`structure` lies."""
    return number(rf'^_Static_assert\(__builtin_offsetof\(struct hanare_{structure}, {field}\) == (\w+),', f'{structure}.{field}')


def slot(index):
    """Where the slot with an index lies in a proxy and in its program."""
    return constant('SLOT_BASE') + index * size('slot')
