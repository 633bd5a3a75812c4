"""A terminal: the same dialogue with a program on Linux and on the LWK under an interactive shell."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *


class Terminal:
    """An interactive bash on a pseudo-terminal of 33 x 101."""

    def __init__(self, side):
        self.seen = b''
        self.prefix = 'hanare run -- ' if side == 'lwk' else ''
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(PS1='ready$ ', TERM='dumb', HISTFILE='', INPUTRC='/dev/null', LC_ALL='C')
            os.execv('/bin/bash', ['bash', '--norc', '--noprofile', '--noediting', '-i'])
        self.pid, self.fd = pid, fd
        self.resize(33, 101)
        self.expect(r'ready\$ ')
        self.line('bind "set enable-bracketed-paste off" 2>/dev/null; stty -echoctl')

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def expect(self, pattern, seconds=TIMEOUT):
        """Reads until the pattern comes; returns its match and forgets all up to its end."""
        end = time.monotonic() + seconds
        pattern = re.compile(pattern.encode())
        while not (match := pattern.search(self.seen)):
            left = end - time.monotonic()
            expect(left > 0, f'no {pattern.pattern!r}; seen {short(self.seen[-200:])!r}')
            if select.select([self.fd], [], [], left)[0]:
                try:
                    data = os.read(self.fd, 4096)
                except OSError:
                    data = b''
                expect(data, f'end of the terminal; seen {short(self.seen[-200:])!r}')
                self.seen += data
        self.seen = self.seen[match.end():]
        return match[1].decode() if match.groups() else match[0].decode()

    def send(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        """A command line, up to the next prompt; its exit status."""
        self.send(text + '; echo status=$?\n')
        number = self.expect(r'status=(\d+)\r\n')
        self.expect(r'ready\$ ')
        return number

    def begin(self, program):
        self.send(f'{self.prefix}{program}\n')

    def status(self):
        self.expect(r'ready\$ ')
        self.send('echo status=$?\n')
        number = self.expect(r'status=(\d+)\r\n')
        self.expect(r'ready\$ ')
        return number

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


# Until a program that has said so much is in its next call. What it says is the same if it comes
# there later.
PAUSE_S = 0.1
CAT = '/usr/bin/cat'
PERL = '/usr/bin/perl -e'


def keys(t, key):
    """A key that ends a program which reads the terminal, and one which computes."""
    t.begin(f'{PERL} \'$|=1; print "up\\n"; <STDIN>; print "not here\\n"\'')
    t.expect('up\r\n')
    time.sleep(PAUSE_S)
    t.send(key)
    yield t.status()
    t.begin(f'{PERL} \'$|=1; print "up\\n"; 1 while 1\'')
    t.expect('up\r\n')
    time.sleep(PAUSE_S)
    t.send(key)
    yield t.status()
    t.begin(f'{PERL} \'$|=1; $SIG{{INT}} = $SIG{{QUIT}} = sub {{ print "caught $_[0]\\n"; exit 5 }}; '
            'print "up\\n"; sleep 100\'')
    t.expect('up\r\n')
    time.sleep(PAUSE_S)
    t.send(key)
    yield t.expect(r'(caught \w+)\r\n')
    yield t.status()


def ctrl_c(t):
    yield from keys(t, '\3')


def ctrl_backslash(t):
    t.line('ulimit -c 0')
    yield from keys(t, '\x1c')


def ctrl_z(t):
    """Stop, list, continue in the foreground, in the background, and kill."""
    t.begin(f'{CAT}')
    t.send('one\n')
    yield t.expect('one\r\none\r\n')
    t.send('\x1a')
    yield t.expect(r'(Stopped)')
    t.expect(r'ready\$ ')
    t.send('jobs\n')
    yield t.expect(r'\[1\]\+\s+(Stopped)')
    t.expect(r'ready\$ ')
    t.send('fg\n')
    t.expect(r'cat')
    time.sleep(PAUSE_S)
    t.send('two\n')
    yield t.expect('two\r\ntwo\r\n')
    t.send('\4')
    yield t.status()
    t.begin(f'{PERL} \'$|=1; print "up\\n"; 1 while 1\'')
    t.expect('up\r\n')
    t.send('\x1a')
    yield t.expect(r'(Stopped)')
    t.expect(r'ready\$ ')
    yield t.line('bg')
    yield t.line('kill -TERM %1; wait %1')


def background_reader(t):
    """A background program that reads the terminal is stopped by SIGTTIN."""
    t.send(f'{t.prefix}{CAT} &\n')
    t.expect(r'ready\$ ')
    def stopped():
        t.send('jobs\n')
        state = t.expect(r'\[1\]\+?\s+(Stopped|Running)')
        t.expect(r'ready\$ ')
        return state == 'Stopped'
    until(stopped, 'it is stopped')
    t.send('fg\n')
    t.expect(r'cat')
    time.sleep(PAUSE_S)
    t.send('back\n\4')
    yield t.expect('back\r\nback\r\n')
    yield t.status()


def end_of_file(t):
    t.begin(CAT)
    t.send('text\n\4')
    yield t.expect('text\r\ntext\r\n')
    yield t.status()
    t.begin(CAT)
    t.send('half\4\4')
    yield t.expect('halfhalf')
    yield t.status()


def line_editing(t):
    """Erase, kill and word erase of the line discipline."""
    t.begin(f'{PERL} \'$_ = <STDIN>; printf "<%s>\\n", join " ", map ord, split //\'')
    t.send('abcx\x7fd\n')
    yield t.expect('(<.*>)\r\n')
    yield t.status()
    t.begin(f'{PERL} \'print "got ", scalar <STDIN>\'')
    t.send('forget this\x15one two\x17three\n')
    yield t.expect('(got .*)\r\n')
    yield t.status()


def window_size_is_told(t):
    t.begin('/usr/bin/stty size')
    yield t.expect(r'(\d+ \d+)\r\n')
    yield t.status()
    t.begin(f'{PERL} \'$|=1; $SIG{{WINCH}} = sub {{ print "resized\\n"; exec "/usr/bin/stty", "size" }};'
            ' print "up\\n"; sleep 100\'')
    t.expect('up\r\n')
    time.sleep(PAUSE_S)
    t.resize(50, 80)
    yield t.expect('resized\r\n')
    yield t.expect(r'(\d+ \d+)\r\n')
    yield t.status()


def raw_mode_passes_every_byte(t):
    """Single keys without echo, as an editor reads them; the mode comes back."""
    program = ('/usr/bin/python3 -c "import sys, termios, tty, os; old = termios.tcgetattr(0); tty.setraw(0); '
               'os.write(1, b\'u\' + b\'p\'); k = os.read(0, 1) + os.read(0, 1); '
               'termios.tcsetattr(0, termios.TCSADRAIN, old); print(k)"')
    t.begin(program)
    t.expect('up')
    t.send('\3q')
    yield t.expect(r"(b'.*')\r\n")
    yield t.status()
    t.send('stty -a\n')
    yield t.expect(r'(-?icanon).*-?echo ')
    t.expect(r'ready\$ ')


def descriptors_are_terminals(t):
    t.begin('/usr/bin/tty >/dev/null')
    yield t.status()
    t.begin(f'{PERL} \'print -t 0, -t 1, -t 2, " ", getpgrp() == $$, " ", open(T, "/dev/tty") ? 1 : 0, "\\n"\'')
    yield t.expect(r'(\d.*)\r\n')
    yield t.status()


def hang_up_ends_the_program(t):
    """The terminal goes away: the program ends, and nothing is left on the LWK."""
    t.begin(f'{PERL} \'$|=1; print "up\\n"; 1 while 1\'')
    t.expect('up\r\n')
    t.close()
    yield 'closed'


def dialogue(name, talk):
    def body():
        seen = {}
        for side in 'linux', 'lwk':
            terminal = Terminal(side)
            answers = seen[side] = []
            try:
                for answer in talk(terminal):
                    answers.append(answer)
            except Failure as failure:
                raise Failure(f'on {side} after {answers}: {failure}')
            finally:
                with contextlib.suppress(OSError):
                    terminal.close()
        expect(seen['linux'] == seen['lwk'], f'Linux {seen["linux"]}, LWK {seen["lwk"]}')
    check(name, body)


start(*BOOT)
for talk in (ctrl_c, ctrl_backslash, ctrl_z, background_reader, end_of_file, line_editing, window_size_is_told,
             raw_mode_passes_every_byte, descriptors_are_terminals, hang_up_ends_the_program):
    dialogue(talk.__name__.replace('_', '-'), talk)


check('memory-free-again', nothing_left)
finish()
