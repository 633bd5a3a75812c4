// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The table of requests, module/link/shares.h, as functions that Rust can call. */
#include "link/shares.h"

#include <stdlib.h>

struct hanare_shares *hanare_c_shares_new(void)
{
	struct hanare_shares *table = malloc(sizeof(*table));

	if (table)
		hanare_shares_init(table);
	return table;
}

void hanare_c_shares_free(struct hanare_shares *table)
{
	free(table);
}

/* An asker that has an entry, or waits for one. */
struct hanare_asker *hanare_c_ask(struct hanare_shares *table, u8 share, u8 urgency)
{
	struct hanare_asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return NULL;
	asker->entry = -1;
	asker->share = share;
	asker->urgency = urgency;
	if (!hanare_entry_take(table, asker))
		hanare_entry_await(table, asker);
	return asker;
}

int hanare_c_entry_of(const struct hanare_asker *asker)
{
	return asker->entry;
}

/* False: it had been given an entry. The asker is freed in both cases. */
bool hanare_c_forgo(struct hanare_shares *table, struct hanare_asker *asker)
{
	bool forgone = hanare_entry_forgo(table, asker);

	free(asker);
	return forgone;
}

void hanare_c_return(struct hanare_shares *table, u32 entry)
{
	hanare_entry_return(table, entry);
}

struct hanare_asker *hanare_c_hand_on(struct hanare_shares *table)
{
	return hanare_entry_hand_on(table);
}
