// SPDX-License-Identifier: GPL-2.0
/* Pages that the LWK offers before the proxy faults: see "Offers" in docs/coherence.md. */
#include "space/space.h"

/*
 * The page at `addr`, and those that are offered with it, as the answer to a fault. It is as good as one that was just
 * asked for: whoever changes what is mapped there withdraws the offer first. A page of 0 is a hole.
 */
bool hanare_offer_take(struct hanare_space *space, u64 addr, bool write,
		       struct hanare_answer *answer)
{
	const struct hanare_offer *offer = &space->inst->offers[space->id % HANARE_OFFERS];
	u32 sequence, count, i;
	u64 start;

	/* While the LWK is asked about a fault it may take the page for forgotten: so nobody gets it meanwhile. */
	if (READ_ONCE(space->faults.asked) != READ_ONCE(space->faults.lost) || READ_ONCE(space->inst->dead))
		return false;
	sequence = smp_load_acquire(&offer->sequence);
	if (sequence & 1 || READ_ONCE(offer->space) != space->id)
		return false;
	start = READ_ONCE(offer->start);
	count = min_t(u32, READ_ONCE(offer->count), HANARE_OFFER_PAGES);
	if (addr < start || (addr - start) >> PAGE_SHIFT >= count)
		return false;
	/* From there on: what lies before was there, or is asked for by itself. */
	i = (addr - start) >> PAGE_SHIFT;
	answer->sequence = READ_ONCE(space->zap_sequence);
	/* Sampled before what the LWK says. */
	smp_mb();
	answer->start = addr;
	for (answer->count = 0; i < count; i++)
		answer->pages[answer->count++] = READ_ONCE(offer->pages[i]);
	smp_rmb();
	if (READ_ONCE(offer->sequence) != sequence)
		return false;
	answer->task = current;
	answer->addr = addr;
	answer->write = write;
	answer->status = 0;
	return answer->pages[0] && (!write || answer->pages[0] & HANARE_PAGE_WRITABLE);
}
