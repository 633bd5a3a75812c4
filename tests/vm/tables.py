#!/usr/bin/python3
"""The LWK's page tables as the CPU has them: nothing in them that a leak of the CPU, or a stray write, needs.

QEMU's gdb stub stops the LWK's CPU and reads them by physical address, from CR3 on.

    tests/vm/tables.py [LABEL...]      on the host, TCG; prints a verdict for each property; LABEL: see MACHINES
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/lib')
from gdbstub import ADDRESS, GLOBAL, LEAKY, LEAKY_WITH_IBRS, PRESENT, SECONDS, Stub, USER  # noqa: E402

IMAGE = f'{ROOT}/build/lwk/hanare-lwk'
PROGRAM = f'{ROOT}/build/tests/guest/static/prot-none-pages'
FILES = 'l1tf', 'mds', 'meltdown', 'retbleed', 'spectre_v1', 'spectre_v2'  # of vulnerabilities
SMALL, LARGE = 4096, 2 << 20
SMALL_PAGES = 16  # of the program
STACK_PAGES = 4 * 2  # kernel/hal/src/gdt.rs: interrupt stacks of a CPU
ACCESSED_DIRTY = 3 << 5
MEMORY_END = 1 << 36  # all memory of the VM lies far below


def symbols(path):
    lines = subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[2]: int(words[0], 16) for words in map(str.split, lines) if len(words) == 3}


class Machine:
    """A VM in which the program runs on an LWK of one CPU that was booted with these options."""

    def __init__(self, *options, cpu=None):
        self.folder = tempfile.mkdtemp(prefix='hanare-tables.')
        path = f'{self.folder}/gdb'
        given = ' '.join(f'--option {option}' for option in options)
        inside = (f'hanare boot --cpus 2 --mem 128M {given} >/dev/null && '
                  f'cd /sys/devices/system/cpu/vulnerabilities && hanare run -- /bin/grep . {" ".join(FILES)} && '
                  f'exec hanare run -- {PROGRAM}')
        processor = [f'--qemu={word}' for word in ('-cpu', cpu)] if cpu else []
        self.vm = subprocess.Popen([f'{ROOT}/tools/vm', '--timeout', str(2 * SECONDS), *processor, '--qemu=-gdb',
                                    f'--qemu=unix:{path},server,nowait', '--', 'sh', '-c', inside],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr,
                                   env=dict(os.environ, HANARE_ACCEL='tcg'))
        self.vulnerabilities = dict(self.vm.stdout.readline().decode().strip().split(':', 1) for _ in FILES)
        self.line = self.vm.stdout.readline().decode()
        if not self.line.startswith('there'):
            self.end()
            sys.exit(f'tables.py: the program does not run: {self.line!r}')
        self.small, self.large = (int(word, 16) for word in self.line.split()[1:3])
        self.image, self.program = symbols(IMAGE), symbols(PROGRAM)
        self.stub = Stub(path)

    def end(self):
        self.vm.terminate()
        self.vm.wait()
        shutil.rmtree(self.folder)

    def root(self, at):
        """The table that the CPU has when it comes to an address."""
        self.stub.go_to(at)
        return self.stub.control()['cr3'] & ADDRESS


def verdict(name, body):
    try:
        body()
        print(f'ok {name}', flush=True)
        return True
    except (AssertionError, EOFError, OSError, ValueError) as error:
        print(f'FAIL {name}: {error}', flush=True)
        return False


def text_has_no_writable_alias(machine):
    """Nor have read-only data; and what can be written is nowhere executable."""
    found = list(machine.stub.entries(machine.root(machine.image['hal_syscall_stack']), 1))
    start, end = (machine.image[name] for name in ('image_start', 'rodata_end'))
    at = {address: entry & ADDRESS for address, size, entry, *_ in found if size == SMALL}
    frames = {at[page] for page in range(start, end, SMALL)}
    assert len(frames) == (end - start) // SMALL > 16, f'{len(frames)} frames'
    wrong = [f'{address:#x} ({size // 1024} KiB)' for address, size, entry, write, _ in found
             if write and any(entry & ADDRESS <= frame < (entry & ADDRESS) + size for frame in frames)]
    assert not wrong, f'text or read-only data can be written at {", ".join(wrong)}'
    both = [f'{address:#x}' for address, _, _, write, execute in found if write and execute]
    assert not both, f'can be written and executed: {both}'


def no_access_names_no_memory(machine):
    """L1TF: what is not present is read by the address in it all the same, if the address is one of memory."""
    found = {address: (size, entry)
             for address, size, entry, *_ in machine.stub.entries(machine.root(machine.program['count']), 0)
             if not entry & PRESENT}
    for page in range(machine.small, machine.small + SMALL_PAGES * SMALL, SMALL):
        assert page in found, f'no entry for {page:#x}'
    assert found.get(machine.large, (0, 0))[0] == LARGE, f'no large entry for {machine.large:#x}'
    wrong = [f'{address:#x}: {entry:#x}' for address, (_, entry) in found.items() if entry & ADDRESS < MEMORY_END]
    assert not wrong, f'{len(wrong)} of {len(found)} entries that are not present name memory, such as {wrong[0]}'


def kept(machine):
    machine.stub.send('vCont;c')
    lines = {machine.line, *(machine.vm.stdout.readline().decode() for _ in range(3))}
    assert len(lines) == 1 and machine.line.endswith(' sl\n'), f'{lines}'


def user_mode_sees_no_kernel(machine):
    """Page-table isolation: of the kernel's half user mode's table has what entries need, and nothing global."""
    inside, outside = (machine.root(at) for at in (machine.image['hal_syscall_stack'], machine.program['count']))
    assert inside != outside, f'one table for both: {inside:#x}'
    image = machine.image
    block, tables, idt = (next(at for name, at in image.items() if mangled in name)
                          for mangled in ('percpu6BLOCKS', 'gdt6TABLES', 'idt3IDT'))
    allowed = {page for start, end in ((image['entry_text_start'], image['entry_text_end']), (block, block + 1),
                                       (tables, tables + 1), (idt, idt + 1)) for page in range(start, end, SMALL)}
    kernel = {at: (size, entry) for at, size, entry, *_ in machine.stub.entries(inside, 1)}
    found = {at: (size, entry, write and execute) for at, size, entry, write, execute in machine.stub.entries(outside, 1)}
    assert allowed <= set(found), f'missing: {[hex(at) for at in allowed - set(found)]}'
    stacks = set(found) - allowed
    assert len(stacks) == STACK_PAGES, f'{[hex(at) for at in stacks]} are visible besides'
    assert all(at < image['image_start'] for at in stacks), f'{[hex(at) for at in stacks]}: of the image'
    wrong = [hex(at) for at, (size, entry, both) in found.items() if size != SMALL or entry & (GLOBAL | USER) or both]
    assert not wrong, f'large, global, for user mode, or writable and executable: {wrong}'
    wrong = [hex(at) for at, (_, entry) in kernel.items() if entry & GLOBAL]
    assert not wrong, f'global, and so in the TLB of user mode: {wrong}'
    users = [{(at, entry & ~ACCESSED_DIRTY) for at, _, entry, *_ in machine.stub.entries(root, 0)}
             for root in (inside, outside)]
    assert users[0] == users[1] != set(), 'the two tables differ in what is the program\'s'


def visible_block_names_no_object(machine):
    """What user mode's table has of the CPU's block: no address of the kernel but those of the block itself."""
    machine.root(machine.image['hal_syscall_stack'])
    block = next(at for name, at in machine.image.items() if 'percpu6BLOCKS' in name)
    words = struct.unpack(f'<{SMALL // 8}Q', machine.stub.read(block, SMALL))
    assert any(words), 'nothing is there'
    wrong = {hex(word) for word in words if word >= 1 << 63 and not block <= word <= block + SMALL}
    assert not wrong, f'of the kernel: {wrong}'


def one_table(machine):
    """Without it one table serves both: nothing is paid for."""
    inside, outside = (machine.root(at) for at in (machine.image['hal_syscall_stack'], machine.program['count']))
    assert inside == outside, f'{inside:#x}, {outside:#x}'


def tells(**expected):
    def body(machine):
        for name, start in expected.items():
            assert machine.vulnerabilities[name].startswith(start), f'{name}: {machine.vulnerabilities[name]!r}'
    return body


# Label: CPU, boot options, {verdict: check}.
MACHINES = {
    '': (None, [], {
        'text-has-no-writable-alias': text_has_no_writable_alias,
        'no-access-names-no-memory': no_access_names_no_memory,
        'no-second-page-table': one_table,
    }),
    'leaky-': (LEAKY, [], {
        'user-mode-sees-no-kernel': user_mode_sees_no_kernel,
        'visible-block-names-no-object': visible_block_names_no_object,
        'text-has-no-writable-alias': text_has_no_writable_alias,
        'vulnerabilities-are-told': tells(meltdown='Mitigation: PTI', l1tf='Mitigation: PTE Inversion',
                                 mds='Vulnerable: Clear CPU buffers attempted, no microcode; SMT',
                                 spectre_v1='Mitigation: usercopy/swapgs barriers', spectre_v2='Vulnerable; RSB filling', retbleed='Vulnerable'),
    }),
    'leaky-with-ibrs-': (LEAKY_WITH_IBRS, [], {
        'vulnerabilities-are-told': tells(spectre_v2='Mitigation: IBRS; IBPB: always-on; STIBP: always-on; RSB filling',
                                 retbleed='Mitigation: IBRS'),
    }),
    'leaky-off-': (LEAKY, ['mitigations=off'], {
        'no-second-page-table': one_table,
        'vulnerabilities-are-told': tells(meltdown='Vulnerable', l1tf='Mitigation: PTE Inversion', mds='Vulnerable',
                                 spectre_v1='Vulnerable: __user pointer', spectre_v2='Vulnerable'),
    }),
    'forced-': (None, ['mitigations=off', 'pti=on'], {
        'user-mode-sees-no-kernel': user_mode_sees_no_kernel,
        'vulnerabilities-are-told': tells(meltdown='Not affected'),
    }),
}
# Machines that `make test` leaves out, and why.
LATER = {
    'leaky-off-': 'no-second-page-table is the same table, and leaky-vulnerabilities-are-told shows that they are told',
    'forced-': 'the table is that of leaky-user-mode-sees-no-kernel',
}


def main():
    good = True
    for label, (cpu, options, checks) in MACHINES.items():
        if sys.argv[1:] and label not in sys.argv[1:]:
            continue
        if label in LATER and os.environ.get('TESTS_TIER') == 'test':
            for name in (*checks, 'program-has-its-pages-again'):
                print(f'later {label}{name}: {LATER[label]}', flush=True)
            continue
        machine = Machine(*options, cpu=cpu)
        try:
            for name, body in {**checks, 'program-has-its-pages-again': kept}.items():
                good = verdict(label + name, lambda: body(machine)) and good
        finally:
            machine.end()
    sys.exit(not good)


main()
