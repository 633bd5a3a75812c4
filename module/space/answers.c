// SPDX-License-Identifier: GPL-2.0
/* Answers to faults, kept from the first pass of the retry protocol for the second one. */
#include "space/space.h"

#include <linux/slab.h>

void hanare_answer_store(struct hanare_space *space, struct hanare_answer *answer)
{
	struct hanare_answer *old, *next, *drop = NULL;

	spin_lock(&space->link.lock);
	/* A task has one fault at a time: an older answer was never fetched. */
	list_for_each_entry_safe(old, next, &space->memory.answers, link)
		if (old->task == current ||
		    (!drop && list_is_last(&old->link, &space->memory.answers) &&
		     space->memory.answer_count >= HANARE_ANSWERS_MAX)) {
			list_del(&old->link);
			space->memory.answer_count--;
			kfree(drop);
			drop = old;
		}
	list_add(&answer->link, &space->memory.answers);
	space->memory.answer_count++;
	spin_unlock(&space->link.lock);
	kfree(drop);
}

/*
 * The answer this task fetched in the first pass of this fault, if any. One of
 * another fault is thrown away: its second pass found the page there already.
 */
struct hanare_answer *hanare_answer_take(struct hanare_space *space, u64 addr, bool write,
					 bool second_pass)
{
	struct hanare_answer *a, *found = NULL;

	/* An answer of our own is never added meanwhile, so a miss is a miss. */
	if (list_empty_careful(&space->memory.answers))
		return NULL;
	spin_lock(&space->link.lock);
	list_for_each_entry(a, &space->memory.answers, link)
		if (a->task == current) {
			list_del(&a->link);
			space->memory.answer_count--;
			found = a;
			break;
		}
	spin_unlock(&space->link.lock);
	if (found && (!second_pass || found->addr != addr || found->write != write)) {
		kfree(found);
		return NULL;
	}
	return found;
}

void hanare_answers_drop(struct hanare_space *space)
{
	struct hanare_answer *a, *next;

	list_for_each_entry_safe(a, next, &space->memory.answers, link)
		kfree(a);
	INIT_LIST_HEAD(&space->memory.answers);
}
