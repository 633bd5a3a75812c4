"""QEMU's gdb stub: the LWK's CPU stopped, its registers, memory by virtual and by physical address."""

import re
import socket
import struct

THREAD = 3  # QEMU's name of CPU 2, the only one of the LWK
SECONDS = 240
# Numbers of QEMU's stub (target/i386/gdbstub.c) and bytes.
NAMES = ('rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags '
         'cs ss ds es fs gs fs_base gs_base k_gs_base').split()
CONTROL = 'cr0 cr2 cr3 cr4 cr8 efer'.split()
SIZES = [8] * 17 + [4] * 7 + [8] * 3
PRESENT, WRITE, USER, LARGE, GLOBAL, NO_EXECUTE = 1, 2, 4, 1 << 7, 1 << 8, 1 << 63
ADDRESS = 0x000f_ffff_ffff_f000

# Words for -cpu. As Linux knows a Skylake: it has all leaks.
LEAKY = 'max,-monitor,-erms,-fsrm,vendor=GenuineIntel,family=6,model=94,stepping=3'
# And with the microcode of 2018: SPEC_CTRL with IBRS and STIBP, PRED_CMD. TCG takes what is written
# there for nothing.
LEAKY_WITH_IBRS = LEAKY + ',+spec-ctrl,+stibp,x-force-features=on'


class Stub:
    """QEMU's gdb stub."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(path)
        self.data = b''
        self.ask('?')  # the machine stops because we came, which QEMU before 9 says unasked, too
        self.send('qSupported:xmlRegisters=i386')
        while 'PacketSize' not in self.answer():
            pass
        self.ask('qXfer:features:read:target.xml:0,ffb')  # else it writes no single register
        self.ask(f'Hg{THREAD}')

    def answer(self):
        while not (match := re.search(rb'\$([^#]*)#..', self.data)):
            more = self.socket.recv(65536)
            if not more:
                raise EOFError('QEMU has ended')
            self.data += more
        self.data = self.data[match.end():]
        self.socket.send(b'+')
        return match[1].decode()

    def send(self, text):
        self.socket.send(b'$%s#%02x' % (text.encode(), sum(text.encode()) & 255))

    def ask(self, text):
        self.send(text)
        return self.answer()

    def registers(self):
        data = bytes.fromhex(self.ask('g').replace('x', '0'))
        found, at = {}, 0
        for name, size in zip(NAMES, SIZES):
            found[name] = int.from_bytes(data[at:at + size], 'little')
            at += size
        return found

    def set(self, name, value):
        number = NAMES.index(name)
        answer = self.ask(f'P{number:x}={value.to_bytes(SIZES[number], "little").hex()}')
        assert answer == 'OK', f'{name} cannot be set: {answer!r}'

    def read(self, at, size):
        most = 1024  # an answer has to fit into the stub's packet
        return b''.join(bytes.fromhex(self.ask(f'm{at + done:x},{min(most, size - done):x}'))
                        for done in range(0, size, most))

    def write(self, at, data):
        assert self.ask(f'M{at:x},{len(data):x}:{data.hex()}') == 'OK'

    def step(self):
        return self.ask(f'vCont;s:{THREAD}')

    def go_to(self, at):
        """Everything goes on until the LWK's CPU comes to an address."""
        self.ask(f'Z0,{at:x},1')
        self.ask('vCont;c')
        self.ask(f'z0,{at:x},1')
        self.ask(f'Hg{THREAD}')
        return self.registers()

    def control(self):
        """The control registers, which follow the others."""
        data = bytes.fromhex(self.ask('g').replace('x', '0'))[sum(SIZES):]
        return dict(zip(CONTROL, struct.unpack_from('<6Q', data)))

    def table(self, at):
        """The 512 entries of a page table at a physical address."""
        assert self.ask('Qqemu.PhyMemMode:1') == 'OK'
        data = b''.join(self.read(at + part, 1024) for part in range(0, 4096, 1024))
        assert self.ask('Qqemu.PhyMemMode:0') == 'OK'
        return struct.unpack('<512Q', data)

    def entries(self, root, half):
        """(address, bytes, entry, writable, executable) of each leaf that is not zero, present or not, of
        `half` 0 (user) or 1 (kernel) of the table at `root`."""
        def below(table, level, base, write, execute):
            for index, entry in enumerate(self.table(table)):
                at, size = base | index << 12 + 9 * level, 1 << 12 + 9 * level
                if not entry or level == 3 and index >> 8 != half:
                    continue
                w, x = write and bool(entry & WRITE), execute and not entry & NO_EXECUTE
                if level and entry & (PRESENT | LARGE) == PRESENT:
                    yield from below(entry & ADDRESS, level - 1, at, w, x)
                else:
                    yield at | (0xffff << 48 if half else 0), size, entry, w, x
        return below(root & ADDRESS, 3, 0, True, True)
