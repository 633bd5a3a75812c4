"""An LWK image is code of ring 0: where the kernel wants signatures of modules, it boots with one only.

No test has the private key of a kernel's own, so that a good signature is one of Debian's, of a module: with it the image
passes that check, and is refused as what it is. Lockdown cannot be lifted again: a VM of its own."""

import glob
import lzma
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../lib'))
from harness import *

PLACE = '/run/hanare-signature'
IMAGE = PLACE + '/image'
MARK = b'~Module signature appended~\n'
LOCKDOWN = '/sys/kernel/security/lockdown'


def content(path):
    opened = lzma.open(path) if path.endswith('.xz') else open(path, 'rb')
    with opened as file:
        return file.read()


def signed_by_debian():
    """A module with its signature."""
    modules = f'/lib/modules/{os.uname().release}/kernel/drivers/block'
    data = content(glob.glob(modules + '/loop.ko*')[0])
    expect(data.endswith(MARK), 'no signature of Debian')
    return data


def signed_by_us(data):
    """As scripts/sign-file does it, with a key that the kernel does not know."""
    key, certificate, plain = PLACE + '/key', PLACE + '/certificate', PLACE + '/plain'
    subprocess.run(['openssl', 'req', '-new', '-x509', '-newkey', 'rsa:2048', '-nodes', '-batch', '-days', '10', '-subj', '/CN=lwk/',
                    '-keyout', key, '-out', certificate], check=True, capture_output=True)
    with open(plain, 'wb') as file:
        file.write(data)
    signature = subprocess.run(['openssl', 'cms', '-sign', '-binary', '-noattr', '-nocerts', '-md', 'sha256', '-outform', 'DER', '-in', plain,
                                '-signer', certificate, '-inkey', key], check=True, capture_output=True).stdout
    return data + signature + bytes([0, 0, 2, 0, 0, 0, 0, 0]) + len(signature).to_bytes(4, 'big') + MARK


def boots(data):
    """What booting an image says; nothing: it runs."""
    with open(IMAGE, 'wb') as file:
        file.write(data)
    command(['hanare', 'shutdown', '--all', '--force'])
    result = command(['hanare', 'boot', '--image', IMAGE, *BOOT])
    if result.status == 0:
        hanare('shutdown')
    expect(result.status in (0, 1), result)
    return result.err.decode()


def load(*parameters):
    subprocess.run(['rmmod', 'hanare'], check=False, capture_output=True)
    subprocess.run(['insmod', os.environ['HANARE_KO'], *parameters], check=True)


def wanted_by(who, image, debians, ours):
    """A setting that wants signatures gets them."""
    def body():
        said = boots(image)
        expect('no signature' in said and who in said, f'without: {said}')
        said = boots(ours)
        expect('key that this kernel does not know' in said and who in said, f'of a foreign key: {said}')
        said = boots(debians)
        expect('not an LWK image' in said, f'with one: {said}')
    return body


def main():
    image, debians = content(os.environ['HANARE_IMAGE']), signed_by_debian()
    ours = signed_by_us(image)

    def free():
        expect(boots(image) == '' and boots(ours) == '', 'no setting wants a signature')
        expect('not an LWK image' in boots(debians), "Debian's")

    def wrong():
        length = int.from_bytes(debians[-len(MARK) - 4:-len(MARK)], 'big')
        tail = len(MARK) + 12
        changed = bytearray(debians)
        changed[len(debians) - tail - length - 1000] ^= 1
        for data in bytes(changed), image + debians[-tail:], debians[-tail:], image + b'\xff' * 12 + MARK, image + MARK, MARK:
            said = boots(data)
            expect('wrong signature' in said, f'{len(data)} bytes: {said}')
    check('no-signature-is-wanted', free, lwk=False)
    check('wrong-signature', wrong, lwk=False)
    load('require_signature=1')
    check('wanted-by-parameter', wanted_by('require_signature', image, debians, ours), lwk=False)
    load()
    if os.path.exists(LOCKDOWN):
        with open(LOCKDOWN, 'w') as lockdown:
            lockdown.write('integrity')
    check('wanted-by-lockdown', wanted_by('lockdown', image, debians, ours), lwk=False, skip=None if os.path.exists(LOCKDOWN) else 'no lockdown')

    def told():
        result = command(['hanare', 'doctor'])
        expect(result.status == 1 and b'has no signature' in result.out, result)
    check('doctor-tells-of-lockdown', told, lwk=False)
    with open('/sys/module/module/parameters/sig_enforce', 'w') as parameter:
        parameter.write('1')
    check('wanted-by-sig-enforce', wanted_by('sig_enforce', image, debians, ours), lwk=False)


start()
fresh(PLACE)
os.makedirs('/sys/kernel/security', exist_ok=True)
is_mounted_here = subprocess.run(['mount', '-n', '-t', 'securityfs', 'securityfs', '/sys/kernel/security'], check=False).returncode == 0
main()
if is_mounted_here:
    subprocess.run(['umount', '-n', '/sys/kernel/security'], check=True)
shutil.rmtree(PLACE)
finish()
