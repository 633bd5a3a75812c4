"""QEMU's monitor: what the machine's CPUs do, and how they reach memory."""

import re
import socket
import time

SECONDS = 120


class Monitor:
    """The monitor at a socket, and one of the CPUs."""

    def __init__(self, path, cpu):
        self.cpu = cpu
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(path)
        self.until_prompt()

    def until_prompt(self):
        data = b''
        while not data.endswith(b'(qemu) '):
            more = self.socket.recv(65536)
            if not more:
                raise EOFError('QEMU has ended')
            data += more
        return re.sub(rb'\x1b\[[0-9;]*[A-Z]', b'', data).decode(errors='replace')

    def ask(self, text):
        self.socket.send(text.encode() + b'\n')
        return self.until_prompt()

    def physical(self, address):
        """Of an address of the program that the CPU runs; tried until it runs there."""
        for _ in range(10 * SECONDS):
            self.ask(f'cpu {self.cpu}')
            found = re.search(r'gpa: (0x[0-9a-f]+)', self.ask(f'gva2gpa {address:#x}'))
            if found:
                return int(found[1], 16)
            time.sleep(0.1)
        raise AssertionError(f'{address:#x} is not mapped')

    def wait_for_user_mode(self):
        """Until the CPU computes: a program that has said where it is may still be on its way back."""
        self.ask(f'cpu {self.cpu}')
        for _ in range(10 * SECONDS):
            if 'CPL=3' in self.ask('info registers'):
                return
            time.sleep(0.1)
        raise AssertionError(f'CPU {self.cpu} does not come to user mode')
