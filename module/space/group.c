// SPDX-License-Identifier: GPL-2.0
/*
 * Control groups: which of them limit a space's memory (memory.max) and CPU time (cpu.max), for the
 * LWK, which charges its programs' pages and time to them. The pages that Linux has of their
 * processes, and the time that these have on Linux' CPUs, Linux charges.
 */
#include "space/space.h"

#include <linux/cgroup.h>
#include <linux/memcontrol.h>
#include <linux/page_counter.h>
#include <linux/string.h>

/*
 * Place for what is told of one more group. Of too many the innermost is left out: a user who may
 * make groups below the own one does not get rid of the ones above, whatever changes while we look.
 */
static u64 *next_group(u64 *words, u32 *n, u32 size)
{
	if (*n == HANARE_GROUPS_MAX)
		memmove(words, words + size, --*n * size * sizeof(*words));
	return words + size * (*n)++;
}

#ifdef CONFIG_MEMCG

/* Memory control groups of a process, as HANARE_GROUPS_WORD has them, the innermost first. */
static void find_memory(struct task_struct *task, u64 *words)
{
	struct mem_cgroup *group;
	u32 n = 0;

	if (mem_cgroup_disabled())
		return;
	for (group = mem_cgroup_from_task(task); group; group = parent_mem_cgroup(group)) {
		unsigned long max = READ_ONCE(group->memory.max);
		u64 *word;

		if (max >= PAGE_COUNTER_MAX)
			continue;
		word = next_group(words, &n, 2);
		word[0] = group->css.serial_nr;
		word[1] = max;
	}
}

#else

static void find_memory(struct task_struct *task, u64 *words)
{
}

#endif

#ifdef CONFIG_CGROUP_SCHED

/*
 * A group's quota and period are in struct task_group, which only the scheduler knows. They can be
 * read by the functions behind the files of cgroup version 1, cpu.cfs_quota_us and
 * cpu.cfs_period_us, which are part of the controller whichever version it is used by: they take
 * the group itself, do not sleep, and give a number. (cpu.max of version 2 would have to be opened
 * by its path in a mount of our own, which changes the options of all mounts of cgroup2, or shown
 * with a kernfs_open_file that is not open: its directory loses the controller while we look.)
 */
struct reader {
	struct cftype *quota, *period;
};

static bool find_reader(struct cgroup_subsys *controller, struct reader *reader)
{
	struct cftype *file;

	*reader = (struct reader){ };
	for (file = controller->legacy_cftypes; file && file->name[0]; file++) {
		if (!strcmp(file->name, "cfs_quota_us") && file->read_s64)
			reader->quota = file;
		if (!strcmp(file->name, "cfs_period_us") && file->read_u64)
			reader->period = file;
	}
	if (reader->quota && reader->period)
		return true;
	pr_warn_once("cpu.max does not bind programs on an LWK: this kernel does not say what it is\n");
	return false;
}

/* -1: there is no limit. */
static s64 quota_of(struct cgroup_subsys_state *group, const struct reader *reader)
{
	return group->parent ? reader->quota->read_s64(group, reader->quota) : -1;
}

/* CPU control groups of a process, as in find_memory. */
static void find_cpu(struct task_struct *task, u64 *words)
{
	struct cgroup_subsys_state *group = task_css(task, cpu_cgrp_id);
	struct reader reader;
	u32 n = 0;

	if (!group || !group->parent || !find_reader(group->ss, &reader))
		return;
	for (; group; group = group->parent) {
		s64 quota = quota_of(group, &reader);
		u64 *word;

		if (quota <= 0)
			continue;
		word = next_group(words, &n, 3);
		word[0] = group->serial_nr;
		word[1] = quota;
		word[2] = reader.period->read_u64(group, reader.period);
	}
}

#else

static void find_cpu(struct task_struct *task, u64 *words)
{
}

#endif

/* False: the process is gone. */
static bool find(struct pid *pid, u64 *words)
{
	struct task_struct *task;

	memset(words, 0, HANARE_GROUPS_WORDS * sizeof(*words));
	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	if (task) {
		find_memory(task, words);
		find_cpu(task, words + HANARE_MEMORY_GROUPS_WORDS);
	}
	rcu_read_unlock();
	return task;
}

/* Finds the control groups of a space before that is opened. */
void hanare_space_find_groups(struct hanare_space *space)
{
	find(space->pid, space->limits.groups);
}

/*
 * What is new of them, or, again, what they are: the LWK may have had no place for them when it was
 * told. False: the LWK takes no more now.
 */
bool hanare_space_tell_groups(struct hanare_space *space, bool again)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_GROUPS,
		.data_words = HANARE_GROUPS_WORDS,
	};
	u64 words[HANARE_GROUPS_WORDS];
	bool same;
	int err;

	/* Without it the last ones stay: what it has is charged until it is gone. */
	if (!find(space->pid, words))
		return true;
	same = !memcmp(words, space->limits.groups, sizeof(words));
	if (same && !(again && memchr_inv(words, 0, sizeof(words))))
		return true;
	call.data = words;
	/* A repetition may go to the CPU that it disturbs least: it is told again. */
	call.in_order = !same;
	err = hanare_post_about(space, &call);
	if (!err)
		memcpy(space->limits.groups, words, sizeof(words));
	return err != -EBUSY;
}
