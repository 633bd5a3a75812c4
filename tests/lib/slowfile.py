"""A FUSE file system with one file, whose content comes when it is told to.

    slowfile.py FOLDER             FOLDER/file: 64 MiB of the letter F
    slowfile.py FOLDER LIKE TEXT   FOLDER/file: as the file LIKE; only what has TEXT in it is held back

It says "mounted", then "read" at each read that it holds back, until a line comes from stdin. At
the end of stdin it is gone.
"""

import ctypes
import os
import select
import struct
import sys

SIZE = 64 << 20
LOOKUP, FORGET, GETATTR, OPEN, READ, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 26, 36, 42
ENOENT, ENOSYS = 2, 38
ROOT, FILE = 1, 2


def attributes(node, size):
    mode, size = (0o40755, 0) if node == ROOT else (0o100755, size)
    return struct.pack('<6Q10I', node, size, size // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Server:
    def __init__(self, folder, like=None, text=None):
        self.size, self.content, self.text = SIZE, None, text
        if like:
            with open(like, 'rb') as file:
                self.content = file.read()
            self.size = len(self.content)
        self.fd = os.open('/dev/fuse', os.O_RDWR | os.O_NONBLOCK)
        options = f'fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other'
        if ctypes.CDLL(None, use_errno=True).mount(b'slow', folder.encode(), b'fuse', 0, options.encode()):
            raise OSError(ctypes.get_errno(), 'mount')
        self.held = []
        self.slow = True

    def answer(self, unique, data=b'', error=0):
        try:
            os.write(self.fd, struct.pack('<IiQ', 16 + len(data), -error, unique) + data)
        except FileNotFoundError:
            pass  # no process waits for it any more

    def go(self):
        self.slow = False
        for unique, offset, size in self.held:
            self.answer(unique, self.part(offset, size))
        self.held = []

    def part(self, offset, size):
        return b'F' * size if self.content is None else self.content[offset:offset + size]

    def serve(self):
        try:
            request = os.read(self.fd, 1 << 18)
        except BlockingIOError:
            return  # the asker has been killed meanwhile
        _, code, unique, node = struct.unpack_from('<IIQQ', request)
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        if code == INIT:
            _, minor, ahead = struct.unpack_from('<III', request, 40)
            self.answer(unique, struct.pack('<IIIIHHIIHH8I', 7, min(minor, 31), ahead, 1, 100, 100,
                                            1 << 17, 1, 32, 0, *[0] * 8))
        elif code == LOOKUP and request[40:].rstrip(b'\0') == b'file':
            self.answer(unique, struct.pack('<4Q2I', FILE, 0, 1000, 1000, 0, 0) + attributes(FILE, self.size))
        elif code == LOOKUP:
            self.answer(unique, error=ENOENT)
        elif code == GETATTR:
            self.answer(unique, struct.pack('<QII', 1000, 0, 0) + attributes(node, self.size))
        elif code == OPEN:
            self.answer(unique, struct.pack('<QII', 0, 0, 0))
        elif code == READ:
            _, offset, size = struct.unpack_from('<QQI', request, 40)
            size = max(0, min(size, self.size - offset))
            if self.text and self.text.encode() not in self.part(offset, size):
                return self.answer(unique, self.part(offset, size))
            self.held.append((unique, offset, size))
            if not self.slow:
                self.go()
            print('read', flush=True)
        else:
            self.answer(unique, error=ENOSYS)


def main():
    server = Server(*sys.argv[1:])
    print('mounted', flush=True)
    while True:
        for fd in select.select([server.fd, 0], [], [])[0]:
            if fd == server.fd:
                server.serve()
            elif os.read(0, 100):
                server.go()
            else:
                return


main()
