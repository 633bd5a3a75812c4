// SPDX-License-Identifier: GPL-2.0
/*
 * Pooled proxies and the native tasks that they serve: whose calls they make, and how they end,
 * with their pool or with the task for which they are in a call.
 */
#include "space/space.h"

/*
 * Whether the pooled proxy that calls, whose space is `member`, may make calls of the native task
 * with space `id` now. Either may have confined itself since it joined.
 */
long hanare_pool_serves(struct hanare_space *member, unsigned long id)
{
	struct hanare_space *space;
	long err = -EPERM;

	if (!member->is_member || !id || id >= HANARE_SPACES_MAX)
		return -EINVAL;
	space = hanare_space_find(id);
	if (!space)
		return -ESRCH;
	if (!space->is_member && space->pool == member->pool)
		err = hanare_confined_alike(space->pid);
	hanare_space_put(space);
	return err;
}

/*
 * Its descriptor is closed, so no process joins any more. Native tasks have it, too, and none of
 * them is left.
 */
void hanare_pool_end(struct hanare_pool *pool)
{
	struct hanare_space *space;
	u32 id = 0;

	while ((space = hanare_space_after(pool->inst, id))) {
		id = space->id;
		if (space->pool == pool && space->is_member)
			hanare_space_kill(space);
		hanare_space_put(space);
	}
	hanare_pool_put(pool);
}

/*
 * What a pooled proxy has of a task is waited for so long: the task's parent takes its files for
 * closed.
 */
#define END_MS 1000

/*
 * A task of the pool has ended while it had the pooled proxy with this space, which may be in a
 * call for it.
 */
void hanare_pool_kill(const struct hanare_pool *pool, u64 id, bool awaits)
{
	struct hanare_space *member;

	if (!id || id >= HANARE_SPACES_MAX)
		return;
	member = hanare_space_find(id);
	if (!member)
		return;
	if (member->is_member && member->pool == pool) {
		hanare_space_kill(member);
		if (awaits)
			hanare_space_await_end(member, END_MS);
	}
	hanare_space_put(member);
}
