/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What protocol.h does to words, in the tests: each access is one of Rust's or of loom's atomics
 * (src/lib.rs).
 */
#ifndef HANARE_ATOMICS_H
#define HANARE_ATOMICS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef __u32 u32;
typedef __u64 u64;

enum { RELAXED, ORDERED };
enum { FENCE_FULL, FENCE_READ, FENCE_WRITE };

u32 hanare_test_load32(const void *word, int order);
u64 hanare_test_load64(const void *word, int order);
void hanare_test_store32(void *word, u32 value, int order);
void hanare_test_store64(void *word, u64 value, int order);
bool hanare_test_cmpxchg64(void *word, u64 *old, u64 value);
void hanare_test_or64(void *word, u64 bits);
void hanare_test_fence(int which);

#define hanare_any_load(word, order) \
	_Generic(*(word), u32: hanare_test_load32, u64: hanare_test_load64)((word), (order))
#define hanare_any_store(word, value, order) \
	_Generic(*(word), u32: hanare_test_store32, u64: hanare_test_store64)((word), (value), (order))

#define hanare_load(word)			hanare_any_load(word, RELAXED)
#define hanare_store(word, value)		hanare_any_store(word, value, RELAXED)
#define hanare_load_acquire(word)		hanare_any_load(word, ORDERED)
#define hanare_store_release(word, value)	hanare_any_store(word, value, ORDERED)
#define hanare_try_cmpxchg(word, old, value)	hanare_test_cmpxchg64(word, old, value)
#define hanare_fence()				hanare_test_fence(FENCE_FULL)
#define hanare_read_fence()			hanare_test_fence(FENCE_READ)
#define hanare_write_fence()			hanare_test_fence(FENCE_WRITE)
#define hanare_or(word, bit)			hanare_test_or64(word, 1ULL << (bit))

#endif
