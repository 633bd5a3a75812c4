/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The table of requests: which entries are in use, of which share they are, and the tasks that wait
 * for one. A step is a function of the table, under the lock of its owner; ikc/c drives them beside
 * a reference.
 *
 * A waiter gets its entry from a task that returns one, first come, first served within its share
 * and urgency, the more urgent first, and shares in turn. No task waits that could have one.
 */
#ifndef HANARE_SHARES_H
#define HANARE_SHARES_H

#include <linux/list.h>

/* No more than the inbound ring's entries, so a ring can never overflow. */
#define HANARE_REQUESTS 256
/* Shares of users, by hash of their id; as many of their ends of processes; one for Linux' own. */
#define HANARE_SHARE_USERS 64
#define HANARE_SHARE_OF_ENDS HANARE_SHARE_USERS
#define HANARE_SHARE_OF_LINUX (2 * HANARE_SHARE_USERS)
#define HANARE_SHARES (HANARE_SHARE_OF_LINUX + 1)
/* Of a share for ends of processes, at a time. */
#define HANARE_ENDS_AT_A_TIME 8

/* The most urgent first: each leaves more entries to the ones before it. */
enum hanare_urgency { HANARE_ASKS_FIRST, HANARE_ASKS_TOLD_CLOSE, HANARE_ASKS_END, HANARE_ASKS_LAST, HANARE_URGENCIES };

static const int hanare_left_to_others[HANARE_URGENCIES] = { 0, 8, 16, 32 };

/* A task that wants an entry. Its owner frees it after hanare_entry_forgo(), or with an entry. */
struct hanare_asker {
	struct list_head link;
	int entry;				/* -1 until it has been given one */
	u8 share, urgency;
};

struct hanare_askers {
	struct list_head askers;
	struct list_head link;			/* of `waiting`, while there are any */
};

#define HANARE_ENTRY_FREE 255

struct hanare_shares {
	u8 share[HANARE_REQUESTS];		/* of the entry; or HANARE_ENTRY_FREE */
	u32 hint;				/* where to look for a free one */
	u16 used, used_of[HANARE_SHARES];
	struct list_head waiting[HANARE_URGENCIES];
	struct hanare_askers queues[HANARE_SHARES][HANARE_URGENCIES];
};

static inline void hanare_shares_init(struct hanare_shares *table)
{
	u32 share, urgency;

	memset(table->share, HANARE_ENTRY_FREE, sizeof(table->share));
	table->hint = 0;
	table->used = 0;
	memset(table->used_of, 0, sizeof(table->used_of));
	for (urgency = 0; urgency < HANARE_URGENCIES; urgency++) {
		INIT_LIST_HEAD(&table->waiting[urgency]);
		for (share = 0; share < HANARE_SHARES; share++)
			INIT_LIST_HEAD(&table->queues[share][urgency].askers);
	}
}

/*
 * A user gets one as long as that user has less than half of what is left: a new user finds one,
 * though others do not get their answers.
 */
static inline bool hanare_may_have_entry(const struct hanare_shares *table, u8 share, u8 urgency)
{
	int left = HANARE_REQUESTS - hanare_left_to_others[urgency] - table->used;

	if (share == HANARE_SHARE_OF_LINUX)
		return left > 0;
	if (share >= HANARE_SHARE_OF_ENDS)
		return left > 0 && table->used_of[share] < HANARE_ENDS_AT_A_TIME;
	return left > 2 * table->used_of[share];
}

/* Gives the asker, which has none, an entry if it may have one now. */
static inline bool hanare_entry_take(struct hanare_shares *table, struct hanare_asker *asker)
{
	u32 at = table->hint;

	if (!hanare_may_have_entry(table, asker->share, asker->urgency))
		return false;
	while (table->share[at % HANARE_REQUESTS] != HANARE_ENTRY_FREE)
		at++;
	at %= HANARE_REQUESTS;
	table->hint = at + 1;
	table->share[at] = asker->share;
	table->used++;
	table->used_of[asker->share]++;
	asker->entry = at;
	return true;
}

/* The asker, which may have none now, waits. */
static inline void hanare_entry_await(struct hanare_shares *table, struct hanare_asker *asker)
{
	struct hanare_askers *queue = &table->queues[asker->share][asker->urgency];

	if (list_empty(&queue->askers))
		list_add_tail(&queue->link, &table->waiting[asker->urgency]);
	list_add_tail(&asker->link, &queue->askers);
}

static inline void hanare_asker_remove(struct hanare_askers *queue, struct hanare_asker *asker)
{
	list_del(&asker->link);
	if (list_empty(&queue->askers))
		list_del(&queue->link);
}

/* The asker waits no longer. False: it has been given an entry before that. */
static inline bool hanare_entry_forgo(struct hanare_shares *table, struct hanare_asker *asker)
{
	if (asker->entry >= 0)
		return false;
	hanare_asker_remove(&table->queues[asker->share][asker->urgency], asker);
	return true;
}

/* An entry is not in use any more; hanare_entry_hand_on() follows, until it gives NULL. */
static inline void hanare_entry_return(struct hanare_shares *table, u32 entry)
{
	table->used--;
	table->used_of[table->share[entry]]--;
	table->share[entry] = HANARE_ENTRY_FREE;
}

/* The waiter that was given an entry now, to be woken; or NULL: no waiter may have one. */
static inline struct hanare_asker *hanare_entry_hand_on(struct hanare_shares *table)
{
	struct hanare_askers *queue;
	struct hanare_asker *asker;
	u32 urgency;

	for (urgency = 0; urgency < HANARE_URGENCIES; urgency++) {
		list_for_each_entry(queue, &table->waiting[urgency], link) {
			asker = list_first_entry(&queue->askers, struct hanare_asker, link);
			if (!hanare_entry_take(table, asker))
				continue;
			/* Behind the other shares, if more of this one wait. */
			list_move_tail(&queue->link, &table->waiting[urgency]);
			hanare_asker_remove(queue, asker);
			return asker;
		}
	}
	return NULL;
}

#endif
