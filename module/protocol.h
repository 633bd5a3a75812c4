/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The module's half of the protocols between the kernels: each step is a function of the words that
 * it accesses. The LWK's half is in the crate `ikc`, which has this one in Rust, too: its models
 * and properties drive both (ikc/c compiles this very file, with atomics that try every
 * interleaving). No other code of the module accesses these words by atomics. The includer says
 * what atomics are: atomics.h here, ikc/c/atomics.h there.
 *
 * What the LWK writes is read once, checked, then used.
 */
#ifndef HANARE_PROTOCOL_H
#define HANARE_PROTOCOL_H

#include "hanare_abi.h"

/* ---- the wake-up ---- */

/*
 * After something was published for a sleeper whose state is in `wait`: whether to ring it. See
 * docs/wakeup.md.
 */
static inline bool hanare_must_ring(const u32 *wait)
{
	hanare_fence();
	return hanare_load(wait) != HANARE_WAIT_AWAKE;
}

/* ---- rings: ikc/src/ring.rs, mailbox.rs ---- */

/*
 * Entries of a ring: the first one's word, and the bytes from one to the next. Their number is a
 * power of two.
 */
struct hanare_entries {
	void *first;
	u32 stride, count;
};

static inline void *hanare_entry(struct hanare_entries ring, u32 counter)
{
	return (char *)ring.first + (size_t)(counter & (ring.count - 1)) * ring.stride;
}

/* Whether an entry that is new has the lap. */
static inline bool hanare_lap(struct hanare_entries ring, u32 counter)
{
	return !(counter & ring.count);
}

/*
 * Counters of a producer, of its own: where it writes next, and the consumer's counter as it was
 * read last.
 */
struct hanare_producer {
	u32 tail, seen;
};

/* Appends an entry, one caller at a time; hanare_must_ring() follows. False: the ring is full. */
static inline bool hanare_inbound_push(struct hanare_producer *own, const u32 *head, struct hanare_entries ring, u32 value)
{
	/* The LWK's counter is looked at only when the ring looks full: a line less that moves. */
	if (own->tail - own->seen >= ring.count)
		own->seen = hanare_load_acquire(head);
	if (own->tail - own->seen >= ring.count)
		return false;
	hanare_store_release((u32 *)hanare_entry(ring, own->tail),
			     (value & ~HANARE_RING_LAP32) | (hanare_lap(ring, own->tail) ? HANARE_RING_LAP32 : 0));
	own->tail++;
	return true;
}

/* Whether there is an entry at `head` that was not taken yet: `event`. */
static inline bool hanare_outbound_look(u32 head, struct hanare_entries ring, u64 *event)
{
	u64 word = hanare_load_acquire((const u64 *)hanare_entry(ring, head));

	*event = word & ~HANARE_RING_LAP64;
	return !!(word & HANARE_RING_LAP64) == hanare_lap(ring, head);
}

/* Entries up to `head` were taken, and may be written over. */
static inline void hanare_outbound_release(u32 *shared_head, u32 head)
{
	hanare_store_release(shared_head, head);
}

/* ---- bells: ikc/src/bell.rs, mailbox.rs ---- */

/*
 * Takes one of the rings that the LWK has asked for at this bell, of a thread of `space`. The CPU
 * to ring, or -1: none was asked for.
 */
static inline int hanare_bell_take(u64 *bell, u32 space)
{
	u64 word = hanare_load_acquire(bell);

	do {
		if (word >> HANARE_BELL_SPACE_SHIFT != space || !(word & ((1U << HANARE_BELL_CPU_SHIFT) - 1)))
			return -1;
	} while (!hanare_try_cmpxchg(bell, &word, word - 1));
	return word >> HANARE_BELL_CPU_SHIFT & ((1U << (HANARE_BELL_SPACE_SHIFT - HANARE_BELL_CPU_SHIFT)) - 1);
}

/*
 * Sets a bell's bit at its CPU, then that of its word, which says where to look: the LWK reads the
 * other way round.
 */
static inline void hanare_bell_set(u64 *word, u64 *rung, u32 bit)
{
	hanare_or(word, bit % 64);
	hanare_or(rung, bit / 64);
}

/* ---- doorbells: ikc/src/doorbell.rs ---- */

/*
 * Whether a CPU has rung since its word was `seen`, of which one caller at a time remembers it. Its
 * ring is read after that: an event that comes later counts up once more.
 */
static inline bool hanare_has_rung(const u32 *rang, u32 *seen)
{
	u32 now = hanare_load_acquire(rang);
	bool has_rung = now != *seen;

	*seen = now;
	return has_rung;
}

/* The interrupt is elsewhere from now on. The caller looks at all rings after that. */
static inline void hanare_doorbell_move(u64 *target, u64 to)
{
	hanare_store(target, to);
	hanare_fence();
}

/* ---- granted devices: ikc/src/grant.rs ---- */

/* The device is gone. Then the caller waits until all CPUs' hanare_uses() add up to zero. */
static inline void hanare_grant_over(u32 *state)
{
	hanare_store(state, HANARE_GRANT_GONE);
	hanare_fence();
}

/* How many more uses have begun on a CPU than have ended on it. */
static inline u32 hanare_uses(const u32 *begun, const u32 *ended)
{
	u32 over = hanare_load_acquire(ended);

	return hanare_load(begun) - over;
}

/* ---- requests: ikc/src/request.rs ---- */

static inline void hanare_request_publish(u32 *state)
{
	hanare_store_release(state, HANARE_REQUEST_POSTED);
}

static inline bool hanare_request_is_done(const u32 *state)
{
	return hanare_load_acquire(state) == HANARE_REQUEST_DONE;
}

/* The waiter is about to sleep. It looks once more after that. */
static inline void hanare_request_sleep(u32 *waiter)
{
	hanare_store(waiter, HANARE_WAIT_ASLEEP);
	hanare_fence();
}

/* The waiter goes away. Whether the answer is there; else an event comes with it. */
static inline bool hanare_request_abandon(u32 *waiter, const u32 *state)
{
	hanare_store(waiter, HANARE_WAIT_GONE);
	hanare_fence();
	return hanare_request_is_done(state);
}

/* ---- services: ikc/src/service.rs ---- */

/* The first word of an entry: its state, and above it its space. */
static inline u64 hanare_service_word(u32 space, u32 state)
{
	return (u64)space << 32 | state;
}

/*
 * Claims an entry that is `ready`. Two executors never run one entry, nor one what is meant for
 * another: the LWK may have taken it back by now and have filled it in anew, for other memory.
 */
static inline bool hanare_service_claim(u64 *word, u32 space, u32 ready)
{
	u64 wanted = hanare_service_word(space, ready);

	return hanare_try_cmpxchg(word, &wanted, hanare_service_word(space, HANARE_SERVICE_RUNNING));
}

/* The entry is done; hanare_must_ring() follows. It may be another service's from here on. */
static inline void hanare_service_finish(u64 *word, u32 space)
{
	hanare_store_release(word, hanare_service_word(space, HANARE_SERVICE_DONE));
}

/* ---- the clock page: ikc/src/clock.rs ---- */

/* Before the page is written, one writer at a time. */
static inline void hanare_clock_begin(u32 *sequence)
{
	hanare_store(sequence, hanare_load(sequence) + 1);
	hanare_write_fence();
}

static inline void hanare_clock_end(u32 *sequence)
{
	hanare_write_fence();
	hanare_store(sequence, hanare_load(sequence) + 1);
}

/* ---- offers: ikc/src/offer.rs ---- */

/* Whether the offer is `space`'s, and may be read: under this `sequence`. */
static inline bool hanare_offer_begin(const u32 *word, const u32 *owner, u32 space, u32 *sequence)
{
	*sequence = hanare_load_acquire(word);
	return !(*sequence & 1) && hanare_load(owner) == space;
}

/* Where `addr` is among the pages of an offer: `count` or more: it is none of them. */
static inline u64 hanare_offer_index(u64 start, u32 count, u64 addr)
{
	return addr < start ? count : (addr - start) / HANARE_PAGE_SIZE;
}

/* Whether what was read since hanare_offer_begin() was offered. */
static inline bool hanare_offer_end(const u32 *word, u32 sequence)
{
	hanare_read_fence();
	return hanare_load(word) == sequence;
}

/* ---- the log: ikc/src/log.rs ---- */

/*
 * How many bytes to copy, at most `room` from *from on, which moves on where text was overwritten.
 * `size` is the text's, a power of two.
 */
static inline u32 hanare_log_begin(const u64 *log_head, u32 size, u64 *from, u32 room)
{
	u64 head = hanare_load_acquire(log_head);

	if (*from > head)
		*from = head;
	if (head - *from > size)
		*from = head - size;
	return head - *from < room ? head - *from : room;
}

/* How many of those bytes, the first ones, the LWK has overwritten meanwhile: they are no text. */
static inline u32 hanare_log_end(const u64 *log_head, u32 size, u64 from, u32 bytes)
{
	u64 head;

	hanare_read_fence();
	head = hanare_load(log_head);
	if (head - from <= size)
		return 0;
	return head - from - size < bytes ? head - from - size : bytes;
}

#endif
