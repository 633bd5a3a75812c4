"""The time stamp counter of this machine."""

import ctypes
import functools
import mmap
import time


@functools.cache
def tsc_khz():
    """The rate of the TSC, which under TCG is the host's: two looks at it and the clock 50 ms apart, each the closest of many."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex('0f31 48c1e220 4809d0 c3'))  # rdtsc; shl rdx, 32; or rax, rdx; ret
    rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def look():
        looks = ((time.monotonic_ns(), rdtsc(), time.monotonic_ns()) for _ in range(200))
        before, ticks, after = min(looks, key=lambda one: one[2] - one[0])
        return (before + after) / 2, ticks
    began, first = look()
    time.sleep(0.05)
    ended, last = look()
    return round((last - first) * 1e6 / (ended - began))
