"""Checks of `hanare bench`, for the group `command`."""

from harness import *


def native_figures():
    """bench --native says what it says, without the device."""
    names = 'pingpong', 'lines', 'slot', 'box', 'packed', 'ring', 'futex', 'pipe', 'eventfd', 'uring'
    only = [] if TIER == 'long' else ['native.slot', 'native.pipe', 'native.uring']
    said = json.loads(hanare('bench', '--native', '--quick', '--rounds', '1', '--cpus', '0,1', '--json', *only).out)
    ids = [figure['id'] for figure in said['figures']]
    missing = [one['id'] for one in said['not_measured']]
    wanted = only or ['native.' + name for name in names]
    expect(sorted(ids + missing) == sorted(wanted) and missing in ([], ['native.uring']), said)
    expect(said['cpus'] == [0, 1] and all(0 < one['min'] <= one['median'] <= one['max'] for one in said['figures']), said)
    expect(b'native.slot' in hanare('bench', '--list').out, 'bench --list')
    result = hanare('bench', '--native', '--cpus', '1', status=2)
    expect(b'need two CPUs' in result.err, result)
    result = command(['taskset', '-c', '0', 'hanare', 'bench', '--native'])
    expect(result.status == 1 and b'may use CPU 0 only' in result.err, result)


def bench_reports():
    """A run has a file, reports are made while it is measured and again from its file, and it is no worse than itself."""
    here = WORK + '/bench'
    fresh(here)
    files = ['--report', here + '/a.html', '--report', here + '/a.md']
    said = hanare('bench', '--quick', '--rounds', '1', '--only', 'call.local', '--on', 'default', '--json', *files)
    run = json.loads(said.out)
    expect([figure['id'] for figure in run['figures']] == ['call.local'] and not run['not_measured'], run)
    machine = run['machine']
    expect(machine['linux']['cpus'] == '0-1' and machine['lwk']['cpus'] == '2-3', machine)
    expect(machine['linux']['mitigations'].keys() == machine['lwk']['mitigations'].keys() != set(), machine)
    with open(here + '/run.json', 'wb') as file:
        file.write(said.out)
    again = ['--report', here + '/b.html', '--report', here + '/b.md']
    expect(hanare('bench', '--from', here + '/run.json', *again).out == b'', 'a report is enough')
    texts = {name: open(f'{here}/{name}').read() for name in ('a.html', 'a.md', 'b.html', 'b.md')}
    expect(texts['a.html'] == texts['b.html'] and '<svg' in texts['a.html'], short(texts['a.html']))
    expect(texts['a.md'].replace('a-', 'b-') == texts['b.md'].replace('a-', 'b-'), short(texts['a.md']))
    for picture in re.findall(r'\]\((.*?)\)', texts['b.md']):
        expect(os.path.exists(f'{here}/{picture}'), picture)
    compared = hanare('bench', '--json', '--compare', here + '/run.json', here + '/run.json')
    expect(json.loads(compared.out)['worse'] == 0, compared)
    other = dict(run, machine=dict(machine, kernel='1.0'))
    with open(here + '/other.json', 'w') as file:
        json.dump(other, file)
    refused = hanare('bench', '--compare', here + '/run.json', here + '/other.json', status=2)
    expect(b"kernel: '" in refused.err and b'--anyway' in refused.err, refused)
    hanare('bench', '--anyway', '--compare', here + '/run.json', here + '/other.json')
    for change, said in ((dict(figures=[]), b'no figure in common'),
                         (dict(machine=dict(machine, lwk=dict(machine['lwk'], cpu_count=1))), b"CPUs of the LWK: '2-3, 2 CPUs' and '2-3, 1 CPU'")):
        with open(here + '/other.json', 'w') as file:
            json.dump(dict(run, **change), file)
        refused = hanare('bench', '--compare', here + '/run.json', here + '/other.json', status=2)
        expect(said in refused.err and not refused.out, refused)


def bench_servers():
    """The web server of the examples, each way, under wrk; and why others are not measured."""
    nothing = WORK + '/nothing'
    fresh(nothing)
    expect(shutil.which('wrk'), 'wrk is not installed (tools/setup)')
    os.symlink(shutil.which('wrk'), nothing + '/wrk')
    # In `make test` one figure shows that the server and wrk are started, on both kernels, and that
    # others are left out.
    ways, numbers = (('trap', 'posted', 'function'), (1, 4, 16, 64)) if TIER == 'long' else (('posted',), (4,))
    wanted = {f'servers.web.{way}.{number}' for way in ways for number in numbers}
    others = ['servers-nginx', 'servers-redis', 'servers-memcached']
    said = hanare('bench', '--quick', '--rounds', '1', *(['servers'] if TIER == 'long' else sorted(wanted) + others), '--on', 'default', '--json', env=dict(os.environ, PATH=f'{WORK}/bin:{nothing}'))
    run = json.loads(said.out)
    expect({figure['id'] for figure in run['figures']} == wanted, run['figures'])
    for figure in run['figures']:
        expect(all(min(figure[side]['samples']) > 0 for side in ('linux', 'lwk')), figure)
    expect({one['group']: one['why'] for one in run['not_measured']} == {
        'servers-nginx': 'nginx is not in PATH (apt-get install nginx-light)',
        'servers-redis': 'redis-server is not in PATH (apt-get install redis-server)',
        'servers-memcached': 'memcached is not in PATH (apt-get install memcached)'}, run['not_measured'])
    expect(not [name for name in os.listdir('/dev/shm') if name.startswith('hanare-bench')], os.listdir('/dev/shm'))
