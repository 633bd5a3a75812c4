#!/usr/bin/python3
"""How CPUs access memory of devices: the LWK's page tables have for each mapping what Linux' have.

    tests/vm/cachetypes.py [KERNEL...]      on the host; TCG, which reads these bits and makes nothing of them

The program has the same files mapped on a CPU of Linux and on one of the LWK; QEMU's monitor reads both tables.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/lib')
from monitor import SECONDS, Monitor  # noqa: E402

PROGRAM = f'{ROOT}/build/tests/guest/static/mapped-devices'
LINUX, LWK = 1, 2  # CPUs
WAYS = {'resource2': 'uncached', 'resource2_wc': 'write-combining', 'memory': 'write-back'}
KERNELS = ['6.1'] if os.environ.get('TESTS_TIER') == 'test' else ['6.1', '6.12', '7.2']
# Linux' PAT (arch/x86/mm/pat/memtype.c) by the bits PCD and PWT.
NAMES = {(False, False): 'write-back', (False, True): 'write-combining', (True, False): 'uncached'}


class Machine:
    """A VM in which the program runs on both sides."""

    def __init__(self, kernel):
        self.folder = tempfile.mkdtemp(prefix='hanare-cachetypes.')
        path = f'{self.folder}/monitor'
        run = f'exec {PROGRAM} types $1/resource2 $2/resource2_wc'
        inside = ('hanare boot --cpus 2 --mem 128M >/dev/null && '
                  'set -- $(dirname $(grep -l 0x1110 /sys/bus/pci/devices/*/device)) && echo 1 >$1/enable && echo 1 >$2/enable && '
                  f"(taskset -c {LINUX} sh -c '{run}' sh $* & hanare run -- sh -c '{run}' sh $*; wait)")
        # Linux has memory mapped in one way at a time, so each file is another device's.
        memory = [('-object', f'memory-backend-ram,id={name},size=4M,share=on', '-device', f'ivshmem-plain,memdev={name}')
                  for name in ('one', 'other')]
        devices = [f'--qemu={word}' for word in ('-monitor', f'unix:{path},server,nowait', *memory[0], *memory[1])]
        self.vm = subprocess.Popen([f'{ROOT}/tools/vm', '--kernel', kernel, '--timeout', str(2 * SECONDS), *devices, '--', 'sh', '-c', inside],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr,
                                   env=dict(os.environ, HANARE_ACCEL='tcg'))
        self.places = [self.vm.stdout.readline().decode().split() for _ in range(2 * len(WAYS))]
        self.path = path

    def end(self):
        self.vm.terminate()
        self.vm.wait()
        shutil.rmtree(self.folder)

    def ways(self, cpu):
        """How a CPU accesses each of the mappings, by name; tried until it runs the program."""
        monitor = Monitor(self.path, cpu)
        wanted = {int(at, 16): os.path.basename(name) for name, at in self.places}
        for _ in range(10 * SECONDS):
            monitor.wait_for_user_mode()
            found = re.findall(r'^([0-9a-f]{16}): [0-9a-f]{16} (\S+)', monitor.ask('info tlb'), re.M)
            there = {wanted[at]: NAMES.get(('C' in bits, 'T' in bits), bits)
                     for at, bits in ((int(at, 16), bits) for at, bits in found) if at in wanted}
            if len(there) == len(WAYS):
                monitor.socket.close()
                return there
            time.sleep(0.1)
        raise AssertionError(f'CPU {cpu} has of {self.places} only {there}')


def verdict(name, machine, cpu):
    try:
        said = machine.ways(cpu)
        assert said == WAYS, said
        print(f'ok {name}', flush=True)
        return True
    except (AssertionError, EOFError, OSError) as error:
        print(f'FAIL {name}: {error}', flush=True)
        return False


def main():
    good = True
    for kernel in sys.argv[1:] or KERNELS:
        machine = Machine(kernel)
        try:
            if any(len(place) != 2 for place in machine.places):
                sys.exit(f'cachetypes.py: the program does not run: {machine.places}')
            for side, cpu in ('linux', LINUX), ('lwk', LWK):
                good = verdict(f'accesses-to-devices-on-{side}-{kernel}', machine, cpu) and good
        finally:
            machine.end()
    sys.exit(not good)


main()
