"""The VM's first file system: PID 1 and the modules that it boots with, as a cpio archive."""

import hashlib
import lzma
import os
import subprocess

HERE = os.path.dirname(os.path.realpath(__file__))
CACHE = os.environ.get('HANARE_CACHE') or os.path.expanduser('~/.cache/hanare')
# What PID 1 needs before it has a root file system; dependencies come from modules.dep.
BOOT_MODULES = ('virtio_pci', 'virtio_console', '9pnet_virtio', '9p', 'overlay')
INITRAMFS_FORMAT = '1'      # part of the cache key: raise it when prepare_initramfs changes


class VmError(Exception):
    """The VM cannot be had; the text says what to do."""


def write_atomically(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f'{path}.{os.getpid()}'
    with open(temporary, 'wb') as file:
        file.write(data)
    os.rename(temporary, path)


def build_init(sources):
    """Compile PID 1; returns the program."""
    output = f'{CACHE}/initramfs/init.{os.getpid()}'
    os.makedirs(os.path.dirname(output), exist_ok=True)
    try:
        done = subprocess.run(['gcc', '-static', '-Os', '-s', '-Wall', '-o', output,
                               *sources[:2]],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise VmError('no gcc here: run tools/setup') from None
    if done.returncode:
        raise VmError(f'compiling {sources[0]} failed:\n{done.stderr}')
    with open(output, 'rb') as file:
        program = file.read()
    os.remove(output)
    return program


def modules_in_order(directory, names):
    """Paths of modules and their dependencies in an order that loads; built-in ones left out."""
    def module_name(path):
        return os.path.basename(path).split('.ko')[0].replace('-', '_')

    dependencies = {}       # path -> paths, as in modules.dep: nearest first
    paths = {}
    with open(f'{directory}/modules.dep') as file:
        for line in file:
            path, _, rest = line.partition(':')
            dependencies[path] = rest.split()
            paths[module_name(path)] = path
    with open(f'{directory}/modules.builtin') as file:
        builtin = {module_name(line.strip()) for line in file}

    ordered = []
    for name in names:
        if name not in paths:
            if name not in builtin:
                raise VmError(f'{directory} has no module {name}')
            continue
        for path in [*reversed(dependencies[paths[name]]), paths[name]]:
            if path not in ordered:
                ordered.append(path)
    return ordered


def read_module(path):
    if path.endswith('.xz'):
        with lzma.open(path) as file:
            return file.read()
    if path.endswith('.zst'):
        return subprocess.run(['zstd', '-dc', path], stdout=subprocess.PIPE, check=True).stdout
    with open(path, 'rb') as file:
        return file.read()


def cpio_entry(name, mode, data=b'', rdev=(0, 0)):
    """One member of a cpio archive in the kernel's format ("newc")."""
    raw = name.encode() + b'\0'
    head = b'070701' + b''.join(b'%08x' % value for value in (
        0, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(raw), 0))
    entry = head + raw
    entry += b'\0' * (-len(entry) % 4) + data
    return entry + b'\0' * (-len(entry) % 4)


def prepare_initramfs(kernel_dir):
    """PID 1 and the boot modules as a cpio archive, cached by content."""
    sources = [os.path.join(HERE, name) for name in ('init.c', 'root.c', 'init.h')]
    key = hashlib.sha256(b''.join(open(source, 'rb').read() for source in sources))
    with open(f'{kernel_dir}/release', 'rb') as file:
        key.update(file.read() + INITRAMFS_FORMAT.encode() + ' '.join(BOOT_MODULES).encode())
    path = f'{CACHE}/initramfs/{key.hexdigest()[:24]}.cpio'
    if os.path.exists(path):
        return path

    directory = os.path.realpath(f'{kernel_dir}/modules')
    archive = cpio_entry('dev', 0o40755)
    archive += cpio_entry('dev/console', 0o20600, rdev=(5, 1))
    archive += cpio_entry('init', 0o100755, build_init(sources))
    archive += cpio_entry('m', 0o40755)
    listing = ''
    for module in modules_in_order(directory, BOOT_MODULES):
        name = 'm/' + os.path.basename(module).split('.ko')[0] + '.ko'
        archive += cpio_entry(name, 0o100644, read_module(f'{directory}/{module}'))
        listing += f'/{name}\n'
    archive += cpio_entry('modules.list', 0o100644, listing.encode())
    archive += cpio_entry('TRAILER!!!', 0)
    write_atomically(path, archive)
    return path
