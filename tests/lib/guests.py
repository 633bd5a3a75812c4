"""Builds the programs that groups run: tests/guest/*.c static and dynamic, tests/module/*.c, Rust and Go."""

import concurrent.futures
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join(ROOT, 'module/hanare_abi.h')
OUT = os.path.join(ROOT, 'build/tests')
GUEST = os.path.join(OUT, 'guest')


def newer(target, *sources):
    return os.path.exists(target) and all(
        os.path.getmtime(target) >= os.path.getmtime(source) for source in sources)


def build():
    """Builds the guest programs: each tests/guest/*.c static and dynamic, Rust and Go static."""
    source = os.path.join(ROOT, 'tests/guest')
    jobs = []
    for kind in 'static', 'dynamic':
        os.makedirs(f'{GUEST}/{kind}', exist_ok=True)
        # Of a program that is gone or has another name no group finds an old one.
        for name in os.listdir(f'{GUEST}/{kind}'):
            if not os.path.exists(f'{source}/{name}.c'):
                os.remove(f'{GUEST}/{kind}/{name}')
        for name in sorted(os.listdir(source)):
            if not name.endswith('.c'):
                continue
            target = f'{GUEST}/{kind}/{name[:-2]}'
            with open(f'{source}/{name}') as file:
                abi = [HEADER] if 'hanare_abi.h' in file.read() else []  # attackers look addresses up there
            if not newer(target, f'{source}/{name}', f'{source}/guest.h', f'{source}/tracer.h', f'{source}/utility.h', f'{source}/listener.h', *abi):
                flags = ['-static'] if kind == 'static' else []
                jobs.append(['gcc', '-O1', '-g', '-Wall', '-Wno-unused-result',
                             '-Wno-infinite-recursion', '-Wno-nonnull', '-pthread', *flags,
                             '-o', target, f'{source}/{name}', '-lm'])
    for name in ('boot', 'fuzz', 'inherited-descriptor', 'hostile', 'beside-slow-file', 'forged-proxy', 'hoard', 'stranger',
                 'late-answer', 'pinned-beside-fork', 'pool', 'forged-member', 'observers', 'lying-proxy'):
        target, program = f'{GUEST}/module-{name}', f'{ROOT}/tests/module/{name}.c'
        if not newer(target, program, HEADER, f'{ROOT}/tests/module/need.h', f'{ROOT}/tests/module/outlive.h'):
            jobs.append(['gcc', '-static', '-O1', '-o', target, program])
    # Above the application's addresses.
    target, program = f'{GUEST}/module-forged', f'{ROOT}/tests/module/forged.c'
    headers = (f'{ROOT}/tests/module/{name}.h' for name in ('proxy', 'servers', 'forged', 'lies', 'programs', 'spoil'))
    if not newer(target, program, HEADER, *headers):
        jobs.append(['gcc', '-static-pie', '-O1', '-g', '-Wall', '-Wno-unused-result', '-pthread', '-o', target, program])
    attacks = f'{ROOT}/tests/attack'
    for name in sorted(os.listdir(attacks)):
        target, program = f'{GUEST}/attack-{name[:-2]}', f'{attacks}/{name}'
        if name.endswith('.c') and not newer(target, program, f'{attacks}/attack.h'):
            jobs.append(['gcc', '-static', '-O1', '-g', '-Wall', '-Wno-unused-result', '-pthread', '-o', target, program])
    target, program = f'{GUEST}/strike', f'{ROOT}/tests/module/strike.c'
    if not newer(target, program):
        jobs.append(['gcc', '-static', '-O1', '-Wall', '-o', target, program])
    target = f'{GUEST}/rust-static'
    if not newer(target, f'{source}/program.rs'):
        jobs.append(['rustc', '--edition', '2021', '-O', '-C', 'target-feature=+crt-static',
                     '-o', target, f'{source}/program.rs'])
    target, go = f'{GUEST}/go-static', shutil.which('go') or '/usr/local/go/bin/go'
    if os.path.exists(go) and not newer(target, f'{source}/program.go'):
        jobs.append(['env', 'CGO_ENABLED=0', f'GOCACHE={OUT}/go-cache', 'GOFLAGS=-trimpath',
                     go, 'build', '-o', target, f'{source}/program.go'])
    jobs += [['make', '-s', '-C', f'{ROOT}/libhanare'], ['make', '-s', 'async']]
    # Inside of a machine a compiler takes long.
    jobs.append([f'{ROOT}/libhanare/async/tests/run', '--compile', '--programs', f'{GUEST}/async'])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, done in zip(jobs, pool.map(lambda job: subprocess.run(job, cwd=ROOT), jobs)):
            if done.returncode:
                sys.exit(f'tests/run: cannot build: {" ".join(job)}')
