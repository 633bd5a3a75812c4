"""Memory and CPUs of two NUMA nodes."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *


def free_of(node):
    with open(f'/sys/devices/system/node/node{node}/meminfo') as file:
        return int(re.search(r'MemFree:\s+(\d+)', file.read())[1]) >> 10


def from_node(node):
    def body():
        before = free_of(0), free_of(1)
        hanare('boot', '--cpus', '4', '--mem', f'512M@{node}')
        after = free_of(0), free_of(1)
        taken = before[node] - after[node]
        other = before[1 - node] - after[1 - node]
        expect(450 < taken < 600 and other < 100, f'node {node} gave {taken} MiB, the other {other}')
        expect(healthy(), 'no program runs')
        hanare('shutdown')
        expect(abs(free_of(node) - before[node]) < 60, f'{before[node]} MiB before, {free_of(node)} after')
    return body


def of_both():
    hanare('boot', '--cpus', '1,4', '--mem', '256M@0,256M@1')
    nodes = [cpu['node'] for cpu in status()['cpus']]
    expect(nodes == [0, 1], f'CPUs are of nodes {nodes}')
    expect(status()['node_bytes'][:2] == [256 << 20, 256 << 20], status()['node_bytes'])
    expect(healthy(), 'no program runs')
    for cpu in '1', '4':
        result = command(['hanare', 'run', '--cpus', cpu, '/bin/echo', 'on', cpu])
        expect(result.out == f'on {cpu}\n'.encode(), result)
    # More than one node has.
    result = command(['hanare', 'run', '/usr/bin/python3', '-c', 'print(len(b"x" * (300 << 20)))'])
    expect(result.out == b'314572800\n', result)
    hanare('shutdown')


def too_much():
    result = command(['hanare', 'boot', '--cpus', '4', '--mem', '2600M@1'])
    expect(result.status == 1 and b'node 1' in result.err, result)


start()
check('memory-of-node-0', from_node(0), lwk=False)
check('memory-of-node-1', from_node(1), lwk=False)
check('memory-of-both', of_both, lwk=False)
check('too-much-for-one-node', too_much, lwk=False)
finish()
