// SPDX-License-Identifier: GPL-2.0
/* Pages that the LWK offers before the proxy faults: see "Offers" in docs/coherence.md. */
#include "space/space.h"

/*
 * The page at `addr`, and those that are offered with it, as the answer to a fault. It is as good
 * as one that was just asked for: a change of what is mapped there withdraws the offer first. A
 * page of 0 is a hole.
 */
bool hanare_offer_take(struct hanare_space *space, u64 addr, bool write,
		       struct hanare_answer *answer)
{
	const struct hanare_offer *offer = &space->inst->link.offers[space->id % HANARE_OFFERS];
	u32 sequence, count;
	u64 i;

	/*
	 * While the LWK is asked about a fault it may take the page for forgotten: so no task gets
	 * it meanwhile.
	 */
	if (READ_ONCE(space->link.faults.asked) != READ_ONCE(space->link.faults.lost) || READ_ONCE(space->inst->dead))
		return false;
	if (!hanare_offer_begin(&offer->sequence, &offer->space, space->id, &sequence))
		return false;
	count = min_t(u32, READ_ONCE(offer->count), HANARE_OFFER_PAGES);
	/* From there on: what lies before was there, or is asked for by itself. */
	i = hanare_offer_index(READ_ONCE(offer->start), count, addr);
	if (i >= count)
		return false;
	answer->sequence = READ_ONCE(space->memory.zap_sequence);
	/* Sampled before what the LWK says. */
	smp_mb();
	answer->start = addr;
	for (answer->count = 0; i < count; i++)
		answer->pages[answer->count++] = READ_ONCE(offer->pages[i]);
	if (!hanare_offer_end(&offer->sequence, sequence))
		return false;
	answer->task = current;
	answer->addr = addr;
	answer->write = write;
	answer->status = 0;
	return answer->pages[0] && (!write || answer->pages[0] & HANARE_PAGE_WRITABLE);
}
