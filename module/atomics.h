/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What protocol.h does to words that both kernels access: here Linux' own atomics, in the tests
 * those of ikc/c/atomics.h.
 */
#ifndef HANARE_ATOMICS_H
#define HANARE_ATOMICS_H

#include <linux/atomic.h>
#include <linux/string.h>
#include <asm/barrier.h>

#define hanare_load(word)			READ_ONCE(*(word))
#define hanare_store(word, value)		WRITE_ONCE(*(word), value)
#define hanare_load_acquire(word)		smp_load_acquire(word)
#define hanare_store_release(word, value)	smp_store_release(word, value)
#define hanare_try_cmpxchg(word, old, value)	try_cmpxchg(word, old, value)
#define hanare_fence()				smp_mb()
#define hanare_read_fence()			smp_rmb()
#define hanare_write_fence()			smp_wmb()

/* A bit of a 64-bit word, after all that was written before. */
#define hanare_or(word, bit)			set_bit(bit, (unsigned long *)(word))

#endif
