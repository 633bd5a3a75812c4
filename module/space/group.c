// SPDX-License-Identifier: GPL-2.0
/*
 * Control groups: which of them limit a space's memory (memory.max), for the LWK, which charges
 * the pages of its programs to them. The pages that Linux has of their processes Linux charges.
 */
#include "space/space.h"

#include <linux/memcontrol.h>
#include <linux/page_counter.h>

#ifdef CONFIG_MEMCG

static bool is_limited(struct mem_cgroup *group)
{
	return READ_ONCE(group->memory.max) < PAGE_COUNTER_MAX;
}

/*
 * Those of a process, as HANARE_GROUPS_WORD has them. Of too many the innermost are left out: who
 * may make groups below his own does not get rid of the ones above.
 */
static bool find(struct pid *pid, u64 *words)
{
	struct mem_cgroup *own, *group;
	struct task_struct *task;
	u32 limited = 0, n = 0;

	memset(words, 0, 2 * HANARE_GROUPS_MAX * sizeof(*words));
	if (mem_cgroup_disabled())
		return true;
	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	own = task ? mem_cgroup_from_task(task) : NULL;
	for (group = own; group; group = parent_mem_cgroup(group))
		limited += is_limited(group);
	for (group = own; group && n < HANARE_GROUPS_MAX; group = parent_mem_cgroup(group)) {
		if (!is_limited(group) || limited-- > HANARE_GROUPS_MAX)
			continue;
		words[2 * n] = group->css.serial_nr;
		words[2 * n++ + 1] = READ_ONCE(group->memory.max);
	}
	rcu_read_unlock();
	return task;
}

#else

static bool find(struct pid *pid, u64 *words)
{
	memset(words, 0, 2 * HANARE_GROUPS_MAX * sizeof(*words));
	return true;
}

#endif

/* Of a space that is going to be opened. */
void hanare_space_find_groups(struct hanare_space *space)
{
	find(space->pid, space->groups);
}

/* What is new of them. False: the LWK takes no more now. */
bool hanare_space_tell_groups(struct hanare_space *space)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_GROUPS,
		.data_words = 2 * HANARE_GROUPS_MAX,
	};
	u64 words[2 * HANARE_GROUPS_MAX];
	int err;

	/* Without it the last ones stay: what it has is charged until it is gone. */
	if (!find(space->pid, words) || !memcmp(words, space->groups, sizeof(words)))
		return true;
	call.data = words;
	err = hanare_post_about(space, &call);
	if (!err)
		memcpy(space->groups, words, sizeof(words));
	return err != -EBUSY;
}
