"""A delegated call step by step, as published breakdowns have it: to which step each instruction of its path belongs."""

import collections
import subprocess

# Steps of the LWK in their order.
ENTRY, DISPATCH, PUBLISH, RING, WAIT, RETURN = LWK_STEPS = (
    'LWK: entry', 'LWK: dispatch, looks, counters, result', 'LWK: publish the call', 'LWK: ring the worker',
    'LWK: wait for the answer (polled: looks that find it; woken: sleep, interrupt, wake-up)', 'LWK: return to user mode')
TAKE, CALL = PROXY_STEPS = ('worker: see and take the call, publish the answer', 'worker: the call\'s system call instruction')
# Functions that the compiler puts into others, by name, and what they are part of.
INLINED = {'lwk_post': PUBLISH, 'ring_worker': RING, 'lwk_poll': WAIT, 'await_answer': WAIT}
# The function that serves a delegated call, with all that is put into it.
SERVES = 'calls::delegated::call'


def inlined(image, addresses):
    """{address: names of the functions it is of, from the innermost outwards}."""
    asked = ''.join(f'{at:#x}\n' for at in addresses)
    said = subprocess.run(['llvm-addr2line', '-a', '-f', '-i', '-s', '-C', '-e', image], input=asked, capture_output=True,
                          text=True, check=True).stdout.splitlines()
    found, at = {}, None
    for line in said:
        if line.startswith('0x'):
            at = int(line, 16)
            found[at] = []
            is_name = True
        else:
            if is_name:
                found[at].append(line.replace('::{{closure}}', '').split('<')[0].rpartition('::')[2])
            is_name = not is_name
    return found


def returns_at(image, start, end):
    """The address behind the last call that lies there."""
    said = subprocess.run(['objdump', '-d', '--no-show-raw-insn', f'--start-address={start:#x}', f'--stop-address={end:#x}', image],
                          capture_output=True, text=True, check=True).stdout
    lines = [line.split(':\t') for line in said.splitlines() if ':\t' in line]
    last = max(i for i, (_, what) in enumerate(lines) if what.startswith('call'))
    return int(lines[last + 1][0], 16)


def of_lwk(path, symbols, image):
    """{step: instructions} of {address: how often}."""
    start = symbols.starts[symbols.names.index('hal_syscall_call')]
    behind = returns_at(image, start, symbols.starts[symbols.names.index('hal_sysret')])
    chains = inlined(image, sorted(path))
    steps = collections.Counter()
    for at, times in path.items():
        _, name = symbols.function(at)
        if name.startswith('hal_sys'):
            step = ENTRY if at < behind and not name.startswith('hal_sysret') else RETURN
        elif 'doorbell::ring' in name:
            step = RING
        elif name.endswith(SERVES):
            step = next((INLINED[one] for one in chains[at] if one in INLINED), DISPATCH)
        else:
            step = WAIT
        steps[step] += times
    return steps


def of_proxy(path, symbols):
    steps = collections.Counter()
    for at, times in path.items():
        steps[CALL if symbols.function(at)[1].startswith('abortable') else TAKE] += times
    return steps


# Steps of a packed call, and the functions of each, from the outermost inwards: the first that an
# instruction is part of.
PACKED_STEPS = ('LWK: entry, dispatch, return', 'LWK: look whether the call may be packed', 'LWK: find the proxy, give it back',
                'LWK: write the pages', 'LWK: send the call, wait for the answer', 'LWK: take the result',
                'proxy: see the call, publish the answer', 'proxy: copy the pages and make arguments of them',
                'proxy: the call\'s system call instruction', 'proxy: write the result into the pages')
PACKED_OF_LWK = ((5, ('complete', 'read')), (4, ('exchange', 'ask', 'prepare')), (3, ('pack', 'encode', 'seal', 'write', 'send_with', 'memcpy', 'memset')),
                 (2, ('take', 'find', 'claim', 'visit', 'give_back', 'keep', 'done_with', 'changed', 'step', 'drop')),
                 (1, ('refusal', 'kind', 'names_self', 'shorter', 'execute_specially')))
PACKED_OF_PROXY = ((8, ('abortable_call', 'delegated_call')), (9, ('give', 'finish')),
                   (7, ('take', 'gather', 'decode', 'asks_for_guard', 'page_head', 'memcpy', 'memset')))


def of_packed(lwk, lwk_image, proxy, proxy_image, symbols_of):
    """{step: instructions} of two paths, {address: how often}."""
    found = collections.Counter()
    for paths, image, rules, rest in ((lwk, lwk_image, PACKED_OF_LWK, 0), (proxy, proxy_image, PACKED_OF_PROXY, 6)):
        chains, symbols = inlined(image, sorted(paths)), symbols_of(image)
        for at, times in paths.items():
            names = [*chains.get(at, ()), *symbols.function(at)[1].split('::')]
            # What is innermost says most.
            step = next((number for name in names for number, of in rules if name in of), rest)
            found[PACKED_STEPS[step]] += times
    return found
