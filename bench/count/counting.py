"""Counts of a VM's instructions between marks: builds what counts (plugin.c) and what is counted (operations.c), runs
them in the sandbox VM, and says to which function each count belongs."""

import bisect
import collections
import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = f'{ROOT}/build/count'
OPERATIONS = f'{BUILD}/operations'
LWK, PROXY = f'{ROOT}/build/lwk/hanare-lwk', f'{ROOT}/build/bin/hanare-proxy'
LWK_BASE, PROXY_BASE, IMAGE_BYTES = 0xffffffff80000000, 0x7e0000000000, 4 << 20
KERNEL_BASE = 0xffff800000000000


class Symbols:
    """Functions by address."""

    def __init__(self, lines):
        """Of `address type name` lines."""
        words = [line.split(None, 2) for line in lines]
        found = sorted((int(w[0], 16), w[2].split('\t')[0]) for w in words if len(w) == 3 and w[1] in 'tTwW')
        self.starts, self.names = [at for at, _ in found], [name for _, name in found]

    def function(self, at):
        """(start, name) of the function that has this address."""
        i = bisect.bisect_right(self.starts, at) - 1
        return (self.starts[i], self.names[i]) if i >= 0 else (0, '?')


def of_image(image):
    return Symbols(subprocess.run(['nm', '-C', image], capture_output=True, text=True, check=True).stdout.splitlines())


def build():
    shutil.rmtree(f'{BUILD}/marks', ignore_errors=True)
    os.makedirs(f'{BUILD}/marks')
    for source, target, options in (('plugin', 'plugin.so', ['-shared', '-fPIC', '-pthread']),
                                    ('plugin', 'plugin-2.so', ['-shared', '-fPIC', '-pthread', '-DPLUGIN_API=2']),
                                    ('disk', 'disk', ['-static']), ('operations', 'operations', ['-static', '-pthread'])):
        subprocess.run(['gcc', '-O1', *options, '-o', f'{BUILD}/{target}', f'{ROOT}/bench/count/{source}.c'], check=True)


def vm(script, boot='', timeout_s=580, data=False, cpus=2, mib=512, booted=True, plugin_options='', qemu=()):
    """The output of a script in a VM whose instructions are counted. The VM has an instance with so many CPUs and so
    much memory, which is booted before the script, or by it if `booted` is false: BOOT in the script stands for the
    command. `boot`: boot options of the LWK. `data`: also count the cache lines of data that the LWK touches.
    `plugin_options`: further options of the plugin. QEMU is the installed one, or with words in `qemu`, which it is
    given, the one of tools/vm, which counts more slowly."""
    library = 'plugin-2.so' if qemu else 'plugin.so'
    plugin = f'{BUILD}/{library},out={BUILD}/marks' + (f',data={LWK_BASE:x}' if data else '') + plugin_options
    boot = f'hanare boot --cpus 2-{cpus + 1} --mem {mib}M {boot} >&2'
    script = f'{boot} && {script}' if booted else script.replace('BOOT', boot)
    done = subprocess.run([f'{ROOT}/tools/vm', '--timeout', str(timeout_s), '--append=init_on_alloc=1', '--cpus', str(max(4, cpus + 2)),
                           '--mem', f'{mib + 1536}M', '--qemu=-plugin', f'--qemu=file={plugin}', *(f'--qemu={word}' for word in qemu),
                           '--', 'sh', '-c', script],
                          env=dict(os.environ, HANARE_ACCEL='tcg', **({} if qemu else {'HANARE_QEMU': 'qemu-system-x86_64'})), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'{os.path.basename(sys.argv[0])}: the VM ended with {done.returncode}')
    return done.stdout


def on_lwk(*words, how=('run',)):
    return shlex.join(['hanare', *how, '--', OPERATIONS, *map(str, words)])


def counts(mark, end=''):
    """{address: how often it ran} between the mark of that number and the mark before. With '.here' as `end`: only in
    programs on the CPUs that are told apart."""
    with open(f'{BUILD}/marks/{mark}{end}') as lines:
        return collections.Counter({int(at, 16): int(n) for at, n in map(str.split, lines)})


def disassembled(image):
    """(address, text) of an image's instructions."""
    lines = subprocess.run(['objdump', '-d', '--no-show-raw-insn', image], capture_output=True, text=True, check=True).stdout.splitlines()
    return ((int(at, 16), code) for at, tab, code in (line.partition(':\t') for line in lines) if tab)


def locked(image):
    """Addresses of an image's instructions that lock a cache line."""
    # An exchange with memory locks without a prefix.
    return {at for at, code in disassembled(image) if code.startswith('lock ') or code.startswith('xchg') and '(' in code}


def pauses(image):
    """Addresses of an image's instructions by which loops wait."""
    return {at for at, code in disassembled(image) if code.startswith('pause')}


def touched(mark, here=None):
    """[(instruction, address of a cache line, how often it touched that line, how often it wrote there)], for the marks
    of `counts`. `here`: only by the CPUs that are told apart, or only by the others."""
    with open(f'{BUILD}/marks/{mark}.data') as lines:
        words = list(map(str.split, lines))
    return [(int(by, 16), int(at, 16), int(n), int(stores)) for by, at, n, stores, is_here in words if here in (None, is_here == '1')]
