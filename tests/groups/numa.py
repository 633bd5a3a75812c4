"""Memory and CPUs of two NUMA nodes, and on which of them pages lie."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *


def free_of(node):
    with open(f'/sys/devices/system/node/node{node}/meminfo') as file:
        return int(re.search(r'MemFree:\s+(\d+)', file.read())[1]) >> 10


def none_booted():
    """What a check before may have left behind."""
    command(['hanare', 'shutdown', '--all', '--force'])


def from_node(node):
    def body():
        none_booted()
        before = free_of(0), free_of(1)
        hanare('boot', '--cpus', '4', '--mem', f'512M@{node}')
        after = free_of(0), free_of(1)
        taken = before[node] - after[node]
        other = before[1 - node] - after[1 - node]
        expect(450 < taken < 600 and other < 100, f'node {node} gave {taken} MiB, the other {other}')
        expect(healthy(), 'no program runs')
        hanare('shutdown')
        until(lambda: abs(free_of(node) - before[node]) < 60, lambda: f'{before[node]} MiB before, {free_of(node)} after')
    return body


def shown():
    """numactl on the LWK: CPUs and MiB by node."""
    result = run('numactl', '--hardware')
    expect(result.status == 0, result)
    text = result.out.decode()
    cpus = {int(node): numbers.split() for node, numbers in re.findall(r'node (\d+) cpus:(.*)', text)}
    return {node: (cpus[node], int(re.search(rf'node {node} size: (\d+)', text)[1])) for node in cpus}


def said(*argv):
    result = run(*argv)
    expect(result.status == 0, result)
    return result.out.decode()


def numbered():
    """Nodes and CPUs as on a Linux with the other CPUs offline."""
    text = said('numactl', '--show')
    expect('physcpubind: 1 4 \n' in text and 'cpubind: 0 1 \n' in text and 'membind: 0 1 \n' in text, text)
    nodes = shown()
    expect([nodes[node][0] for node in (0, 1)] == [['1'], ['4']], nodes)
    expect(all(200 < nodes[node][1] <= 256 for node in nodes), nodes)
    for node, cpu in ('0', '1'), ('1', '4'):
        text = said('numactl', '-N', node, 'grep', 'Cpus_allowed_list', '/proc/self/status')
        expect(text == f'Cpus_allowed_list:\t{cpu}\n', text)
        text = said('numactl', '-m', node, 'numactl', '--show')
        expect(f'membind: {node} \n' in text, text)
    text = said('sh', '-c', 'cd /sys/devices/system/node; cat possible online has_cpu has_memory; echo node*/cpu[0-9]*')
    expect(text == '0-1\n0-1\n0-1\n0-1\n' + ' '.join(f'node{cpu // 3}/cpu{cpu}' for cpu in range(6)) + '\n', text)


def far_memory():
    """A node with a CPU and no memory; then one with neither."""
    none_booted()
    hanare('boot', '--cpus', '4', '--mem', '256M@0')
    text = said('sh', '-c', 'cd /sys/devices/system/node; cat possible online has_cpu has_memory; grep Mems_allowed_list /proc/self/status')
    expect(text == '0-1\n0-1\n1\n0\nMems_allowed_list:\t0\n', text)
    result = run('numactl', '-m', '1', 'true')
    expect(result.status == 1, result)
    hanare('shutdown')
    hanare('boot', '--cpus', '4', '--mem', '256M@1')
    text = said('sh', '-c', 'cd /sys/devices/system/node; cat possible online; ls -d node*; cat node0/cpulist 2>&1; true')
    expect(text.startswith('0-1\n1\nnode1\n') and 'No such file' in text, text)
    nodes = shown()
    expect(list(nodes) == [1] and nodes[1][0] == ['4'], nodes)
    hanare('shutdown')


def of_both():
    none_booted()
    linux = numbers_with_offline(2)
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
    same_numbers(linux)
    numbered()
    hanare('shutdown')


PLACED = f'{GUEST}/static/numa-placement'


def bound_too_much():
    """Memory bound to a node that has not as much: its process is killed, others go on."""
    other = subprocess.Popen(['hanare', 'run', 'sh', '-c', 'read line; echo $line'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    before, _ = debug_memory()
    for argv in ([PLACED, 'fill', '1', '300'], ['numactl', '--membind=0', 'python3', '-c', 'print(len(b"x" * (300 << 20)))']):
        result = run(*argv, says=b'NUMA nodes of a policy')
        expect(result.status == -signal.SIGKILL and b'NUMA nodes of a policy' in result.err, result)
        expect('set of NUMA nodes has' in log_tail(20), log_tail(20))
    # Of the policies that may take from another node, one that begins with one node, and one that
    # takes from all.
    for option in ('--preferred=1', '--interleave=all', '--preferred-many=0', '--localalloc') if TIER == 'long' else ('--preferred=1', '--interleave=all'):
        result = run('numactl', option, 'python3', '-c', 'print(len(b"x" * (300 << 20)))')
        expect(result.out == b'314572800\n', (option, result))
    out, _ = other.communicate(b'still here\n', timeout=TIMEOUT)
    expect(out == b'still here\n' and other.returncode == 0, (out, other.returncode))
    until(lambda: debug_memory()[0] > before - (4 << 20), lambda: f'{before} bytes free before: {debug_memory()}')


def huge():
    """MAP_HUGETLB takes the LWK's memory, on Linux a pool that has to be made."""
    result = run(PLACED, 'huge')
    expect(result.out == b'1 1\n', result)


def placed():
    """Where pages lie, by each policy, is where Linux has them."""
    def boot_of_both():
        none_booted()
        boot('--cpus', '1,4', '--mem', '256M@0,256M@1')
    check('boot-of-two-nodes', boot_of_both, lwk=False, prepares=True)
    same('numa-placement-static', [PLACED])
    with only_long('numa-placement-static makes the same calls'):
        same('numa-placement-dynamic', [f'{GUEST}/dynamic/numa-placement'])
    for name, options in ('membind-0', ['--membind=0']), ('membind-1', ['--membind=1']), ('interleave', ['--interleave=all']), \
            ('preferred', ['--preferred=1']), ('preferred-many', ['--preferred-many=0']), \
            ('localalloc', ['--cpunodebind=1', '--localalloc']):
        same(f'numactl-{name}', ['numactl', *options, PLACED, 'where'])
    check('huge-pages-of-a-node', huge)
    check('out-of-memory-on-a-node', bound_too_much)
    check('shutdown-of-two-nodes', lambda: hanare('shutdown'), lwk=False)


def too_much():
    none_booted()
    # More than node 1 has (1.5 GiB), and less than both together can spare.
    result = command(['hanare', 'boot', '--cpus', '4', '--mem', '1600M@1'])
    expect(result.status == 1 and b'node 1' in result.err, result)


start()
check('memory-of-node-0', from_node(0), lwk=False)
check('memory-of-node-1', from_node(1), lwk=False)
check('memory-of-both-nodes', of_both, lwk=False)
check('node-without-memory', far_memory, lwk=False)
placed()
check('too-much-for-one-node', too_much, lwk=False)
finish()
