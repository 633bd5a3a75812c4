"""The groups of checks: what each shows, on which machine, in which tier, and how long it may take.

Tiers (docs/testing.md): `test` is every promise of the documents once, `long` is everything. A check of a group that is
for `long` only stands in a `with only_long(...)` block of its script (tests/lib/harness.py).
"""

import dataclasses

from programdevices import IOMMU

# Machines of tools/vm by their options. Groups with the same options follow each other in one
# machine.
STANDARD = ('--mem', '3G')


@dataclasses.dataclass(frozen=True)
class Group:
    """One group: its promise in a line, its command, and what its runs may cost."""

    promise: str
    # A script of tests/groups with its arguments, run inside of a machine; or a command on the
    # host.
    inside: str = ''
    host: tuple[str, ...] = ()
    machine: tuple[str, ...] = STANDARD
    # CPU time of the host in s, by tier, on a calm machine with two cores. None: not in that tier.
    test_s: int | None = None
    long_s: int | None = None
    # A deadline for what hangs, in s: many times what the group takes.
    limit_s: int = 2400
    environment: tuple[tuple[str, str], ...] = ()
    # The image with assertions (`make checked`), the order of locks among them.
    checked: bool = False
    # Nothing runs beside it: where both ends of a call wait for a CPU of the host, the polling end
    # gives up and sleeps, and there is no polled path to count.
    alone: bool = False
    # Its machine is used for nothing else: what it changes cannot be undone.
    own_machine: bool = False

    def tiers(self):
        return [tier for tier, seconds in (('test', self.test_s), ('long', self.long_s)) if seconds is not None]

    def budget_s(self, tier):
        return self.test_s if tier == 'test' else self.long_s


# What `make test` may take of two cores, in s of CPU time: 25 minutes less the builds before it.
TEST_LIMIT_S = 2 * 1300
# The suites of tests/suites that one group runs may be told to last as long.
LONG_LIMIT_S = 2 * 143 * 60

def linux(kernel):
    return ('--mem', '3G', '--kernel', kernel)


def beside(*argv):
    """A command on the host that takes what machines leave of the CPUs; nothing waits for it but the end of the run."""
    return ('nice', '-n', '10', *argv)


# An IOMMU, memory and registers behind PCI, a display, a sound card, and a disk whose driver is not
# loaded.
DEVICES = ('--append=intel_iommu=on', *(f'--qemu={word}' for word in (
    '-device', 'intel-iommu', '-object', 'memory-backend-ram,id=shared,size=4M,share=on', '-device', 'ivshmem-plain,memdev=shared', '-device', 'edu,dma_mask=0xffffffff',
    '-device', 'bochs-display', '-audiodev', 'none,id=silent', '-device', 'intel-hda', '-device', 'hda-output,audiodev=silent',
    '-drive', 'driver=null-co,read-zeroes=on,size=1M,if=none,id=zeros', '-device', 'nvme,drive=zeros,serial=zeros')))

# Disks whose driver the LWK may have a part of: by queues of its own, or for a reason not.
NVME = tuple(f'--qemu={word}' for name, more, throttled in (
                 ('queues', 'dbcs=off,max_ioqpairs=32', ''), ('shadows', 'dbcs=on', ''), ('few', 'dbcs=off,max_ioqpairs=5', ''),
                 ('late', 'dbcs=off,max_ioqpairs=32', ',throttling.iops-total=1'), ('slow', 'dbcs=off,max_ioqpairs=32', ',throttling.iops-total=4'))
             for word in ('-drive', f'driver=null-co,read-zeroes=on,size=256M,snapshot=on,if=none,id={name}{throttled}',
                          '-device', f'nvme,drive={name},serial={name},{more}'))

BOX, COPIED = ('TESTS_DISPATCH', 'box'), ('TESTS_ARGUMENTS', 'copied')

GROUPS = {
    'host': Group('what needs no machine: unit and property tests, models, the library on plain Linux, generated files',
                  host=beside('tests/host.sh'), test_s=450, long_s=1500, limit_s=5400),
    'parsers': Group('no input makes a parser of foreign data panic, hang or break its property',
                     host=beside('tests/fuzz/run'), test_s=85, long_s=580, limit_s=5400),
    'instructions': Group('the path of a system call is as short as the documents say, counted',
                          host=('tests/vm/instructions.sh',), test_s=36, long_s=80, limit_s=1800, alone=True),
    'conformance': Group('unmodified programs give the same output, status and files as on Linux, by each way of delegation',
                         'conformance.py', test_s=110, long_s=320, limit_s=3600),
    'conformance-6.12': Group('unmodified programs give the same on an LWK beside Linux 6.12', 'conformance.py',
                              machine=linux('6.12'), long_s=320, limit_s=3600),
    'conformance-7.2': Group('unmodified programs give the same on an LWK beside Linux 7.2', 'conformance.py',
                             machine=linux('7.2'), long_s=320, limit_s=3600),
    'files': Group('files are what they are on Linux: large and direct I/O, shared mappings, truncation, caches', 'files.py',
                   test_s=75, long_s=160),
    'files-box': Group('files of programs whose calls go by the request box', 'files.py', environment=(BOX,), long_s=160),
    'files-copied': Group('files of programs whose arguments are copied', 'files.py', environment=(COPIED,), long_s=160),
    'guests-threads': Group("Linux' semantics of memory and threads, program by program", 'guests.py threads',
                            test_s=75, long_s=360, checked=True),
    'guests-threads-box': Group("Linux' semantics of memory and threads, by the request box", 'guests.py threads',
                            environment=(BOX,), long_s=320, checked=True),
    'guests-waits': Group("Linux' semantics of signals, clocks and futexes, program by program", 'guests.py waits',
                          test_s=65, long_s=180),
    'guests-waits-box': Group("Linux' semantics of signals, clocks and futexes, by the request box", 'guests.py waits',
                            environment=(BOX,), long_s=200),
    'guests-processes': Group("Linux' semantics of processes: fork, execve, wait, ends, rights", 'guests.py processes',
                              test_s=90, long_s=320),
    'guests-processes-box': Group("Linux' semantics of processes, by the request box", 'guests.py processes',
                            environment=(BOX,), long_s=320),
    'memory': Group('memory and I/O of both kernels are one: shared, huge, locked, direct', 'memory.py', test_s=65, long_s=260,
                    checked=True),
    'memory-copied': Group('memory of programs whose arguments are copied', 'memory.py', environment=(COPIED,), long_s=160,
                           checked=True),
    'terminal': Group('a program has a terminal as on Linux: job control, sizes, interrupts', 'terminal.py', test_s=25, long_s=30),
    'ends': Group('messages say which process was killed, and by what', 'ends.py', test_s=25, long_s=40, checked=True),
    'rights': Group('a program has the rights that it has left itself on Linux, and no more', 'rights.py', test_s=45, long_s=65),
    'hostile-users': Group('users of one instance cannot make each other wait, nor read or starve each other', 'hostile-users.py',
                           test_s=70, long_s=150),
    'security-hooks': Group("Linux' guards see each program, and what they forbid is forbidden", 'security-hooks.py',
                            test_s=20, long_s=20, own_machine=True),  # a policy of IMA is for good
    'signature': Group('where modules have to be signed an image has to be', 'signature.py', test_s=20, long_s=20,
                       own_machine=True),
    'dispatch': Group('calls go by the way that was asked for, and no way loses or repeats one', 'dispatch.py', test_s=60, long_s=220),
    'pooled': Group('native tasks and pooled proxies: no call is lost, made twice, or made with the rights of another', 'pooled.py',
                    test_s=60, long_s=90),
    'native': Group('native tasks give the same output as on Linux', 'native.py', test_s=25, long_s=60),
    'posted': Group('calls and functions that programs post, and programs that know nothing of it', 'posted.py', test_s=95,
                    long_s=300),
    'pseudo': Group('/proc and /sys tell the truth about programs of the LWK', 'pseudo.py', test_s=60, long_s=65),
    'faults': Group('bad input and faults have their message and status, and harm no other program', 'faults.py', test_s=80, long_s=110),
    'cycles': Group('instances boot and end again and again, side by side, and give everything back', 'cycles.py',
                    machine=('--mem', '3G', '--cpus', '6'), test_s=70, long_s=320, limit_s=3000),
    'noise': Group('a CPU with one thread takes no interrupt, whatever both kernels do', 'noise.py',
                   machine=('--mem', '3G', '--cpus', '7'), test_s=100, long_s=260),
    'numa': Group('memory and CPUs of two nodes are used as asked for', 'numa.py',
                  machine=('--mem', '3G', '--cpus', '6', '--numa', '2'), test_s=35, long_s=45),
    'devices': Group('memory of devices is mapped as on Linux, and ends as there', 'devices.py', machine=(*STANDARD, *DEVICES),
                     test_s=40, long_s=40),
    'devices-6.12': Group('memory of devices is mapped as on Linux 6.12', 'devices.py', machine=(*linux('6.12'), *DEVICES), long_s=67),
    'devices-7.2': Group('memory of devices is mapped as on Linux 7.2', 'devices.py', machine=(*linux('7.2'), *DEVICES), long_s=40),
    'nvme': Group("the LWK's driver of NVMe serves what Linux would, beside Linux' own", 'nvme.py', machine=(*STANDARD, *NVME),
                  test_s=40, long_s=60),
    'nvme-6.12': Group("the LWK's driver of NVMe beside Linux 6.12", 'nvme.py', machine=(*linux('6.12'), *NVME), long_s=60),
    'nvme-7.2': Group("the LWK's driver of NVMe beside Linux 7.2, by addresses that an IOMMU translates", 'nvme.py',
                      machine=(*linux('7.2'), *IOMMU, *NVME), long_s=60),
    'smoke-6.12': Group('Linux 6.12 is supported', 'smoke.py', machine=linux('6.12'), test_s=30, long_s=60),
    'smoke-7.2': Group('Linux 7.2 is supported', 'smoke.py', machine=linux('7.2'), test_s=30, long_s=60),
    'smoke-x2apic': Group('a machine in x2APIC mode with an unstable TSC is supported', 'smoke.py',
                          machine=('--x2apic', '--append=tsc=unstable'), test_s=30, long_s=60),  # and with the HPET
    'strikes': Group('what is killed, stopped or crashed at any moment leaves nothing behind', 'strikes.py', test_s=55,
                     long_s=420, limit_s=3600),
    'fuzz': Group('nonsense from user mode and forged proxies gains nothing and harms no other program', 'fuzz.py', test_s=70, long_s=1000,
                  limit_s=3600),
    'attack': Group('programs that do their worst to the newest mechanisms gain nothing and harm no other program', 'attack.py', long_s=300,
                    limit_s=3600, checked=True),
    'soak': Group('programs of many kinds at once, struck at random, leave nothing behind', 'soak.py', test_s=50, long_s=1200,
                  limit_s=3600),
    'command': Group('the command: what users meet besides running programs', 'command.py', test_s=90, long_s=150),
    'debug': Group('hanare trace and hanare gdb show what happens', 'debug.py', test_s=70, long_s=180, checked=True),
    'module': Group('no ioctl, well-formed or not, harms Linux or another user', 'module.py', test_s=50, long_s=75),
    'accounts': Group('each frame is charged to its owner; a lack of memory does not end the LWK', 'accounts.py', test_s=50,
                      long_s=300, limit_s=3600),
    'cgroup': Group("a control group's memory.max and cpu.max bind its programs on the LWK", 'cgroup.py', test_s=40, long_s=75),
    'vm': Group('the sandbox VM keeps its promises', host=('tests/vm/smoke.sh',), test_s=40, long_s=40, limit_s=1800),
    'entry': Group('#DB, NMI and #MC may come at each instruction of entry and exit code', host=('tests/vm/entry.py',),
                   test_s=20, long_s=20, limit_s=1200),
    'leaky-entry': Group('the same on a CPU with leaks, with every measure against them',
                         host=('tests/vm/entry.py', '--leaky'), test_s=None, long_s=25, limit_s=1200),
    'machinecheck': Group('a machine check ends the program that used bad memory, and nothing else',
                          host=('tests/vm/machinecheck.py',), test_s=12, long_s=12, limit_s=900),
    'cachetypes': Group("CPUs access memory of devices as Linux' do, by the bits of page tables", host=('tests/vm/cachetypes.py',),
                        test_s=15, long_s=45, limit_s=1200),
    'tables': Group('page tables show user mode no kernel, and kernel text to no writer', host=('tests/vm/tables.py',),
                    test_s=25, long_s=40, limit_s=1200),
    'mutants': Group('a planted mistake of each kind is caught by the check that is there for it', host=('tests/mutants/run',),
                     long_s=1340, limit_s=4800),
    'suite-python': Group("no test of Python's own suite that passes on Linux is lost on the LWK",
                          host=('tests/suites/tier', 'python'), long_s=1500, limit_s=8400),
    'suite-stress': Group('every stressor of stress-ng ends well on the LWK, and leaves nothing',
                          host=('tests/suites/tier', 'stress'), long_s=1200, limit_s=6000),
    'suite-programs': Group('servers, compilers and databases of Debian give the same output as on Linux',
                            host=('tests/suites/tier', 'programs'), long_s=900, limit_s=6000),
}


def check_budgets(groups=None):
    """What is wrong with the table, or None."""
    for tier, limit in ('test', TEST_LIMIT_S), ('long', LONG_LIMIT_S):
        needed = sum(group.budget_s(tier) or 0 for group in (groups or GROUPS).values())
        if needed > limit:
            return f'tests/lib/groups.py: budgets of the tier {tier} add up to {needed} s of CPU time, more than {limit} s'
    return None
