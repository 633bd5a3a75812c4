// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The steps of protocol.h, as functions that Rust can call. */
#include "atomics.h"
#include "protocol.h"

#define RING(first, stride, count) ((struct hanare_entries){ (first), (stride), (count) })

bool hanare_c_must_ring(const void *wait)
{
	return hanare_must_ring(wait);
}

bool hanare_c_inbound_push(u32 *tail, u32 *seen, const void *head, void *first, u32 stride, u32 count, u32 value)
{
	struct hanare_producer own = { *tail, *seen };
	bool done = hanare_inbound_push(&own, head, RING(first, stride, count), value);

	*tail = own.tail;
	*seen = own.seen;
	return done;
}

bool hanare_c_outbound_look(u32 head, void *first, u32 stride, u32 count, u64 *event)
{
	return hanare_outbound_look(head, RING(first, stride, count), event);
}

void hanare_c_outbound_release(void *shared_head, u32 head)
{
	hanare_outbound_release(shared_head, head);
}

int hanare_c_bell_take(void *bell, u32 space)
{
	return hanare_bell_take(bell, space);
}

void hanare_c_bell_set(void *word, void *rung, u32 bit)
{
	hanare_bell_set(word, rung, bit);
}

bool hanare_c_has_rung(const void *rang, u32 *seen)
{
	return hanare_has_rung(rang, seen);
}

void hanare_c_doorbell_move(void *target, u64 to)
{
	hanare_doorbell_move(target, to);
}

void hanare_c_grant_over(void *state)
{
	hanare_grant_over(state);
}

u32 hanare_c_uses(const void *begun, const void *ended)
{
	return hanare_uses(begun, ended);
}

void hanare_c_request_publish(void *state)
{
	hanare_request_publish(state);
}

bool hanare_c_request_is_done(const void *state)
{
	return hanare_request_is_done(state);
}

void hanare_c_request_sleep(void *waiter)
{
	hanare_request_sleep(waiter);
}

bool hanare_c_request_abandon(void *waiter, const void *state)
{
	return hanare_request_abandon(waiter, state);
}

bool hanare_c_service_claim(void *word, u32 space, u32 ready)
{
	return hanare_service_claim(word, space, ready);
}

void hanare_c_service_finish(void *word, u32 space)
{
	hanare_service_finish(word, space);
}

void hanare_c_clock_begin(void *sequence)
{
	hanare_clock_begin(sequence);
}

void hanare_c_clock_end(void *sequence)
{
	hanare_clock_end(sequence);
}

bool hanare_c_offer_begin(const void *word, const void *owner, u32 space, u32 *sequence)
{
	return hanare_offer_begin(word, owner, space, sequence);
}

u64 hanare_c_offer_index(u64 start, u32 count, u64 addr)
{
	return hanare_offer_index(start, count, addr);
}

bool hanare_c_offer_end(const void *word, u32 sequence)
{
	return hanare_offer_end(word, sequence);
}

/* As log_copy() in module/link/log.c. */
u32 hanare_c_log_copy(const void *head, const char *text, u32 size, u64 *position, char *to, u32 room)
{
	u64 from = *position;
	u32 bytes = hanare_log_begin(head, size, &from, room), lost, i;

	for (i = 0; i < bytes; i++)
		to[i] = text[(from + i) & (size - 1)];
	lost = hanare_log_end(head, size, from, bytes);
	memmove(to, to + lost, bytes - lost);
	*position = from + bytes;
	return bytes - lost;
}
