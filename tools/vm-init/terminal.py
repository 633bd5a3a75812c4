"""The terminal of tools/vm while the command inside has one."""

import fcntl
import struct
import termios
import tty


class Terminal:
    """Raw mode of our terminal while the command inside has one."""

    raw = False

    def __init__(self, fd):
        self.fd = fd
        self.saved = None

    def make_raw(self):
        try:
            self.saved = termios.tcgetattr(self.fd)
            tty.setraw(self.fd)
            Terminal.raw = True
        except termios.error:
            self.saved = None

    def restore(self):
        if self.saved:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self.saved)
            self.saved = None
            Terminal.raw = False


def window_size(fds):
    for fd in fds:
        try:
            rows, columns = struct.unpack('HHHH', fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))[:2]
        except OSError:
            continue
        if rows and columns:
            return rows, columns
    return 24, 80
