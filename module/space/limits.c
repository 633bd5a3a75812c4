// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of a space's process, prlimit(2): Linux keeps them, whichever process sets them, and the
 * LWK applies some to its programs. It asks for them where it may know of a change
 * (HANARE_SERVICE_LIMITS), and is told of changes that a look finds, since Linux notifies of none.
 *
 * The proxy maps all addresses of its program, which RLIMIT_AS would count. So the soft one is
 * HANARE_LIMIT_LIFTED for Linux: any other value found there was set by a process, for the LWK to
 * apply.
 */
#include "space/service.h"

#include <linux/pid.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#define SOFT(resource) (2 * (resource))

/* What the LWK finds of one process has the order in which it was found. */
static atomic64_t last_sequence;

/*
 * The first thread of a process, with a reference, or NULL: the thread has ended. Its task_lock()
 * is that of the limits, which prlimit(2) takes as well. Another one becomes the first by execve:
 * the lock is given back to the task that it was taken of.
 */
static struct task_struct *first_of(struct task_struct *task)
{
	struct task_struct *first;

	rcu_read_lock();
	/*
	 * As long as it is of the group the first one is there, until the end of the grace period
	 * at least.
	 */
	first = pid_alive(task) ? READ_ONCE(task->group_leader) : NULL;
	if (first)
		get_task_struct(first);
	rcu_read_unlock();
	return first;
}

static bool is_process_of(struct task_struct *task, const struct hanare_space *space)
{
	return task_tgid(task) == space->pid;
}

/* With its limits locked. A soft limit that the space was begun with stands for a lifted one. */
static void read_limits(struct task_struct *task, struct hanare_space *space, u64 *words)
{
	struct rlimit *limits = task->signal->rlim;
	u32 i;

	BUILD_BUG_ON(RLIM_NLIMITS != HANARE_LIMITS || RLIM_INFINITY != U64_MAX);
	for (i = 0; i < RLIM_NLIMITS; i++) {
		words[SOFT(i)] = limits[i].rlim_cur;
		words[SOFT(i) + 1] = limits[i].rlim_max;
	}
	if (words[SOFT(RLIMIT_AS)] == HANARE_LIMIT_LIFTED && is_process_of(task, space))
		words[SOFT(RLIMIT_AS)] = space->limits.begun_with;
}

/* With its limits locked, when the LWK has them. */
static void limits_told(struct task_struct *task, struct hanare_space *space, const u64 *words, u64 sequence)
{
	unsigned long *soft = &task->signal->rlim[RLIMIT_AS].rlim_cur;

	if (*soft == words[SOFT(RLIMIT_AS)])
		*soft = HANARE_LIMIT_LIFTED;
	if (!is_process_of(task, space) || space->limits.sequence > sequence)
		return;
	if (words[SOFT(RLIMIT_AS)] != HANARE_LIMIT_LIFTED)
		space->limits.soft_space = words[SOFT(RLIMIT_AS)];
	space->limits.begun_with = HANARE_LIMIT_LIFTED;
	memcpy(space->limits.words, words, sizeof(space->limits.words));
	space->limits.words[SOFT(RLIMIT_AS)] = HANARE_LIMIT_LIFTED;
	space->limits.sequence = sequence;
	space->limits.owes = false;
}

/*
 * Called by the process of a space, when that begins: from here on it may map what it likes. The
 * LWK has the limits of a program that is started from its proxy, and of others those of the
 * parent, as far as it was told.
 */
void hanare_space_begin_limits(struct hanare_space *space, const struct hanare_space *parent)
{
	unsigned long *soft = &current->signal->rlim[RLIMIT_AS].rlim_cur;
	struct task_struct *first = first_of(current);

	task_lock(first);
	space->limits.begun_with = HANARE_LIMIT_LIFTED;
	space->limits.soft_space = parent && *soft == HANARE_LIMIT_LIFTED ? parent->limits.soft_space : *soft;
	if (parent) {
		space->limits.begun_with = *soft;
		memcpy(space->limits.words, parent->limits.words, sizeof(space->limits.words));
		space->limits.has = true;
	}
	*soft = HANARE_LIMIT_LIFTED;
	task_unlock(first);
	put_task_struct(first);
}

static void lower_limits(struct task_struct *task, u64 to)
{
	struct rlimit *space = &task->signal->rlim[RLIMIT_AS];
	struct task_struct *first;

	if (READ_ONCE(space->rlim_cur) != HANARE_LIMIT_LIFTED)
		return;
	first = first_of(task);
	if (!first)
		return;
	task_lock(first);
	if (space->rlim_cur == HANARE_LIMIT_LIFTED)
		space->rlim_cur = min_t(u64, to, space->rlim_max);
	task_unlock(first);
	put_task_struct(first);
}

/*
 * The lifted soft limit of a process that has no space any more, or never got one, is that hard
 * limit again.
 */
void hanare_lower_limits(struct task_struct *task)
{
	lower_limits(task, RLIM_INFINITY);
}

/* The space ends, perhaps before its process does. */
void hanare_space_end_limits(struct hanare_space *space)
{
	struct task_struct *task = get_pid_task(space->pid, PIDTYPE_TGID);

	/*
	 * Not of one that goes on in another space, by execve. One that ends shows its limits until
	 * its parent has waited.
	 */
	if (task && (READ_ONCE(task->mm) == space->mm || READ_ONCE(task->flags) & PF_EXITING))
		lower_limits(task, space->limits.soft_space);
	if (task)
		put_task_struct(task);
}

/* The program starts: the LWK is told its limits by the proxy. */
void hanare_space_note_limits(struct hanare_space *space)
{
	struct task_struct *first = first_of(current);

	task_lock(first);
	read_limits(current, space, space->limits.words);
	/* A proxy may have said something else. */
	space->limits.has = space->limits.owes = true;
	task_unlock(first);
	put_task_struct(first);
}

/* What is new of them. False: the LWK takes no more now. */
bool hanare_space_tell_limits(struct hanare_space *space)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_LIMITS,
		.data_words = HANARE_LIMITS_WORDS,
	};
	struct task_struct *task, *first;
	u64 words[HANARE_LIMITS_WORDS];
	bool same;
	int err = 0;

	/* A user with many spaces in which nothing runs takes no requests by that. */
	if (!READ_ONCE(space->limits.has))
		return true;
	task = get_pid_task(space->pid, PIDTYPE_TGID);
	if (!task)
		return true;
	first = first_of(task);
	if (!first) {
		put_task_struct(task);
		return true;
	}
	task_lock(first);
	read_limits(task, space, words);
	/* An image of the proxy is being loaded, with a limit of its own. */
	if (words[SOFT(RLIMIT_STACK)] == HANARE_STACK_LIMIT_OF_PROXY)
		words[SOFT(RLIMIT_STACK)] = space->limits.words[SOFT(RLIMIT_STACK)];
	same = !space->limits.owes && !memcmp(words, space->limits.words, sizeof(words));
	call.args[0] = atomic64_inc_return(&last_sequence);
	task_unlock(first);
	if (!same) {
		call.data = words;
		err = hanare_post_about(space, &call);
	}
	if (!same && !err) {
		task_lock(first);
		limits_told(task, space, words, call.args[0]);
		task_unlock(first);
	}
	put_task_struct(first);
	put_task_struct(task);
	return err != -EBUSY;
}

/* HANARE_SERVICE_LIMITS: an entry's status. */
long hanare_limits(struct hanare_job *job)
{
	struct hanare_space *space = job->args[1] <= U32_MAX ? hanare_space_find(job->args[1]) : NULL;
	struct task_struct *task = NULL, *first = NULL;
	long err = -ESRCH;

	BUILD_BUG_ON(HANARE_LIMITS_WORDS > HANARE_EXTENTS_MAX);
	if (!space)
		return err;
	if (space->inst == job->inst)
		task = hanare_task_of(job->args[0], space->mm);
	if (task)
		first = first_of(task);
	if (first) {
		u64 sequence;

		task_lock(first);
		sequence = atomic64_inc_return(&last_sequence);
		read_limits(task, space, job->extents);
		limits_told(task, space, job->extents, sequence);
		task_unlock(first);
		put_task_struct(first);
		job->args[0] = sequence;
		job->count = HANARE_LIMITS_WORDS;
		err = 0;
	}
	if (task)
		put_task_struct(task);
	hanare_space_put(space);
	return err;
}
