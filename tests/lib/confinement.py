"""Pools of proxies and processes that are confined, by each means that there is (tests/module/pool.c)."""

import contextlib
import os
import subprocess

import harness

CONFINED_BY = 'landlock', 'filter', 'groups', 'root', 'umask', 'network', 'user', 'bounding', 'securebits', 'apparmor'
SECURITY = '/sys/kernel/security'
# All that may be done, so that only the label differs.
PROFILE = b'''profile hanare-pool {
  file, capability, network, signal, ptrace, unix, mount, umount, pivot_root, change_profile,
}
'''


@contextlib.contextmanager
def apparmor():
    """A profile of AppArmor."""
    is_mounted_here = not os.path.exists(f'{SECURITY}/apparmor')
    if is_mounted_here:
        subprocess.run(['mount', '-n', '-t', 'securityfs', 'securityfs', SECURITY], check=True)
    parser = ['/usr/sbin/apparmor_parser', '--skip-cache']
    try:
        subprocess.run([*parser, '--replace'], input=PROFILE, check=True)
        yield
        subprocess.run([*parser, '--remove'], input=PROFILE, check=True)
    finally:
        if is_mounted_here:
            subprocess.run(['umount', '-n', SECURITY], check=True)


def confined():
    """A process that may gain no rights, as one that confines itself, has none of its calls executed by proxies that
    are not confined."""
    program = f'{harness.GUEST}/module-pool'
    result = harness.command([program, '/usr/bin/setpriv', '--no-new-privs', program, 'join'])
    harness.expect(result.out == b'EPERM: the pool of proxies was made with other rights than yours\n', result)
    result = harness.command(['/usr/bin/setpriv', '--no-new-privs', program, program, 'join'])
    harness.expect(result.out == b'joined\n', result)


def confined_alike(how, gone):
    """Under no_new_privs a child that is confined as its maker joins a pool, and one that may do less does not. One
    that is confined later has no call made any more. (Exception: its umask, of which a proxy has its own.) `gone`
    checks that nothing is left."""
    def body():
        program = f'{harness.GUEST}/module-pool'
        with apparmor() if how == 'apparmor' else contextlib.nullcontext():
            result = harness.command([program, 'confined', how])
            harness.expect(result.out.decode() == f'nothing: joined\n{how}: EPERM\n', result)
            result = harness.command([program, 'later', how])
        after = 'serves' if how == 'umask' else 'EPERM'
        harness.expect(result.out.decode().split() == ['serves', 'EPERM', 'EINVAL', 'EINVAL', after, 'ended:', 'no'], result)
        gone()
    return body
