#!/usr/bin/python3
"""Exceptions at each instruction of the LWK's entry and exit code.

NMI, #DB and #MC have stacks of their own and may come anywhere, also where GS is still, or already, the
program's. QEMU's gdb stub stops the LWK's CPU at each instruction of the assembly, in and out, of system
calls, page faults, interrupts, and of these three themselves, in user mode and in the kernel, and at some
of the Rust behind it. There the vector is delivered as the processor does it (SDM volume 3, 6.14), and
when the handler has returned all registers have to be as before. The program has a GS base that looks
like the kernel's. No #DB comes in #DB, no NMI in NMI, no #MC in #MC.

    tests/vm/entry.py [--leaky]     on the host, TCG; prints a verdict for each way in and out and each vector
                                    --leaky: with a CPU against whose leaks all is done that is done
"""

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/lib')
from gdbstub import LEAKY_WITH_IBRS, NAMES, SECONDS, Stub  # noqa: E402

IMAGE = f'{ROOT}/build/lwk/hanare-lwk'
PROGRAM = f'{ROOT}/build/tests/guest/static/kernel-like-gs-base'
VECTORS = {'debug': 1, 'nmi': 2, 'machine-check': 18}
RUST_INSTRUCTIONS = 100

# kernel/hal/src/gdt.rs: `Tables` of the first CPU, in it the TSS behind the GDT, in it the IST.
IST_OF_VECTOR = {1: 4, 2: 2, 18: 3}
IST = 16 * 8 + 36
KERNEL_CS, KERNEL_DS = 0x10, 0x18
WRMSR, SPEC_CTRL, IBRS = b'\x0f\x30', 0x48, 1
IPI_VECTOR = 0xe0


def symbols():
    lines = subprocess.run(['nm', '-C', IMAGE], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[2]: int(words[0], 16) for words in (line.split(None, 2) for line in lines) if len(words) == 3}


class Image:
    """Where things are in the LWK's image."""

    def __init__(self):
        self.symbols = found = symbols()
        self.vectors, self.syscall = found['hal_vectors'], found['hal_syscall_entry']
        self.exit = found['hal_return_to_user']
        self.code = range(found['entry_text_start'], found['entry_text_end'])  # all of the assembly
        self.stacks = {number: found['hanare_hal::gdt::TABLES'] + IST + 8 * (ist - 1)
                       for number, ist in IST_OF_VECTOR.items()}


def deliver(stub, image, vector):
    """The vector comes where the processor is now, in the kernel; then the handler runs."""
    before = raised(stub, image, vector)
    after = stub.go_to(before['rip'])
    while after['rsp'] != before['rsp']:  # the handler passes there, too
        stub.step()
        after = stub.go_to(before['rip'])
    compare(image, before, after)


def raised(stub, image, vector):
    """What the processor does for `vector`; the registers before."""
    before = stub.registers()
    top = struct.unpack('<Q', stub.read(image.stacks[vector], 8))[0]
    frame = struct.pack('<5Q', before['rip'], before['cs'], before['eflags'], before['rsp'], before['ss'])
    stub.write(top - len(frame), frame)
    if before['cs'] != KERNEL_CS:
        stub.set('eflags', before['eflags'] & ~0x10300)  # RF, IF, TF
        stub.set('ss', KERNEL_DS)
        stub.set('cs', KERNEL_CS)
    stub.set('rsp', top - len(frame))
    stub.set('rip', image.vectors + 16 * vector)
    return before


def compare(image, before, after):
    wrong = [name for name in NAMES if before[name] != after[name]]
    if wrong:
        raise AssertionError(f'at {before["rip"]:#x} {name_of(image, before["rip"])}: ' +
                             ', '.join(f'{name} {before[name]:#x} is {after[name]:#x}' for name in wrong))


def name_of(image, at):
    name, base = max(((n, a) for n, a in image.symbols.items() if a <= at), key=lambda pair: pair[1])
    return f'({name}+{at - base:#x})'


def along(stub, image, vector, end=None):
    """Steps from here as long as it is the assembly of entries and exits, with the vector at each instruction.
    `end`: where what was interrupted goes on (instruction and stack pointer)."""
    count, now = 0, stub.registers()
    while now['rip'] in image.code and (now['rip'], now['rsp']) != end:
        deliver(stub, image, vector)
        count += 1
        stub.step()
        now = stub.registers()
    return count


def returned(stub, image):
    """If the assembly has called Rust, to the instruction behind the call, of this entry and not of one within it. A
    system call has a second one where the CPU has something to see to."""
    now = stub.registers()
    at, returns = now['rsp'], struct.unpack('<Q', stub.read(now['rsp'], 8))[0] if now['cs'] == KERNEL_CS else 0
    if now['rip'] in image.code or returns not in image.code:
        return False
    while stub.go_to(returns)['rsp'] != at + 8:
        stub.step()
    return True


def in_and_out(stub, image, vector, end=None):
    """From the first instruction of an entry to the last of its exit: how many each way."""
    entry, out = along(stub, image, vector), 0
    while returned(stub, image):
        out += along(stub, image, vector, end)
    return entry, out


def within(stub, image, outer, vector):
    """`outer` comes here; at each instruction of its entry and exit, `vector`."""
    before = raised(stub, image, outer)
    counts = in_and_out(stub, image, vector, (before['rip'], before['rsp']))
    compare(image, before, stub.registers())
    return counts


def beyond(stub, image, vector):
    """At the first instructions of the Rust behind system calls, of which some have few."""
    count = 0
    while count < RUST_INSTRUCTIONS:
        stub.go_to(image.syscall)
        while stub.registers()['rip'] in image.code:
            stub.step()
        while count < RUST_INSTRUCTIONS and stub.registers()['rip'] not in image.code:
            deliver(stub, image, vector)
            stub.step()
            count += 1
    return count,


def ways(stub, image, vector):
    """Each way in and out: name, instructions."""
    stub.go_to(image.syscall)
    yield 'syscall', in_and_out(stub, image, vector)
    user = stub.registers()['cs'] != KERNEL_CS
    assert user, 'not in user mode after a system call'
    for name, outer in VECTORS.items():
        if outer != vector and name != 'debug':  # the program would be told of that
            yield f'{name}-in-user-mode', within(stub, image, outer, vector)
    for name, outer in VECTORS.items():
        if outer != vector:
            stub.go_to(image.syscall)
            yield f'{name}-in-the-kernel', within(stub, image, outer, vector)
    stub.go_to(image.vectors + 16 * 14)
    yield 'page-fault', in_and_out(stub, image, vector)
    stub.go_to(image.vectors + 16 * IPI_VECTOR)
    yield 'interrupt', in_and_out(stub, image, vector)
    stub.go_to(image.exit)
    yield 'trap-exit', (along(stub, image, vector),)
    yield 'rust', beyond(stub, image, vector)


def predicted(stub, image):
    """Steps from here as long as it is the assembly of entries and exits: what is written to SPEC_CTRL."""
    found, now = [], stub.registers()
    while now['rip'] in image.code:
        if stub.read(now['rip'], 2) == WRMSR and now['rcx'] == SPEC_CTRL:
            found.append(now['rax'] & IBRS)
        stub.step()
        now = stub.registers()
    return found


def predictions(stub, image, leaky):
    """User mode's predictions are not the kernel's: IBRS is on before any Rust, and off before user mode."""
    expected = ([IBRS], [0]) if leaky else ([], [])
    for name, start in (('syscall', image.syscall), ('page-fault', image.vectors + 16 * 14),
                        ('nmi', None), ('interrupt', image.vectors + 16 * IPI_VECTOR)):
        if start is None:
            raised(stub, image, VECTORS[name])  # in user mode, where the page fault has ended
        else:
            stub.go_to(start)
        found = predicted(stub, image), []
        while returned(stub, image):
            found[1].extend(predicted(stub, image))
        # Interrupts come where a CPU idles: in the kernel, where nothing is to be done.
        wanted = ([], []) if stub.registers()['cs'] == KERNEL_CS else expected
        assert wanted == expected or name == 'interrupt', f'{name}: not back in user mode'
        assert found == wanted, f'{name}: {found}, not {wanted}'


def verdict(name, body):
    try:
        body()
        print(f'ok {name}', flush=True)
        return True
    except (AssertionError, EOFError, OSError, struct.error, ValueError) as error:
        print(f'FAIL {name}: {error}', flush=True)
        return False


def main():
    folder = tempfile.mkdtemp(prefix='hanare-entry.')
    path = f'{folder}/gdb'
    options = argparse.ArgumentParser()
    options.add_argument('--leaky', action='store_true')
    leaky = options.parse_args().leaky
    processor = ['--qemu=-cpu', f'--qemu={LEAKY_WITH_IBRS}'] if leaky else []
    inside = f'hanare boot --cpus 2 --mem 128M >/dev/null && exec hanare run -- {PROGRAM}'
    vm = subprocess.Popen([f'{ROOT}/tools/vm', '--timeout', str(4 * SECONDS), *processor, '--qemu=-gdb', f'--qemu=unix:{path},server,nowait',
                           '--', 'sh', '-c', inside], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=sys.stderr, env=dict(os.environ, HANARE_ACCEL='tcg'))
    good = True
    try:
        if b'there' not in vm.stdout.readline():
            sys.exit('entry.py: the program does not run')
        image = Image()
        stub = Stub(path)
        for name, vector in VECTORS.items():
            def body(vector=vector, name=name):
                for way, counts in ways(stub, image, vector):
                    print(f'# {name} {way}: {" + ".join(map(str, counts))} instructions', flush=True)
                    # An interrupt in the kernel ends a halt, which has no registers to restore: two
                    # instructions out.
                    least = 2 if way == 'interrupt' else 5
                    assert min(counts) >= least, f'{way}: only {counts} instructions'
            good = verdict(f'{name}-at-each-instruction', body) and good
        good = verdict('ibrs-is-on-in-the-kernel-only', lambda: predictions(stub, image, leaky)) and good
        if good:
            stub.send('vCont;c')
            end = time.monotonic() + 3
            lines = [vm.stdout.readline() for _ in range(3)]
            while time.monotonic() < end:
                lines.append(vm.stdout.readline())
            def lives():
                assert set(lines) == {b'there, wrong 0\n'}, f'{lines}'
            good = verdict('the-program-goes-on', lives)
    finally:
        vm.terminate()
        vm.wait()
        shutil.rmtree(folder)
    sys.exit(not good)


main()
