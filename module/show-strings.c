// SPDX-License-Identifier: GPL-2.0
/* What /proc/PID/cmdline and environ show of an LWK process: its memory. */
#include "pseudo.h"

#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

/*
 * Of the space's own memory map: after an execve of the proxy's own the task has another,
 * perhaps that of a program that the reader has no right to look into.
 */
static int read_memory(struct hanare_space *space, struct task_struct *task, u64 at, void *to,
		       int bytes)
{
	int got = access_process_vm(task, at, to, bytes, 0);
	bool own;

	/* Looked at afterwards: a map that a task has left does not come back. */
	task_lock(task);
	own = task->mm == space->mm;
	task_unlock(task);
	return own ? got : 0;
}

/*
 * Of each at most so many bytes: what Linux lets an execve bring (fs/exec.c, bprm_stack_limits). A
 * program may name any addresses (PR_SET_MM), and the text is kept in memory for who reads it.
 */
#define STRINGS_MAX (_STK_LIM / 4 * 3)

/*
 * Copies from the program's memory; stops at what is not there, and, if wanted,
 * behind the first zero. How many bytes.
 */
static u64 copy_memory(struct seq_file *m, struct hanare_space *space, struct task_struct *task,
		       u64 start, u64 end, bool to_zero)
{
	char *page = (char *)__get_free_page(GFP_KERNEL);
	u64 at = start;

	end = min_t(u64, end, start + STRINGS_MAX);
	while (page && at < end && !fatal_signal_pending(current)) {
		int wanted = min_t(u64, end - at, PAGE_SIZE);
		int got = read_memory(space, task, at, page, wanted);
		char *zero = got > 0 && to_zero ? memchr(page, 0, got) : NULL;

		if (got <= 0)
			break;
		if (zero)
			got = zero - page;
		seq_write(m, page, got);
		at += got;
		if (zero || seq_has_overflowed(m))
			break;
	}
	free_page((unsigned long)page);
	return at - start;
}

static char last_byte(struct hanare_space *space, struct task_struct *task, u64 end)
{
	char byte;

	return read_memory(space, task, end - 1, &byte, 1) == 1 ? byte : 0;
}

int hanare_show_cmdline(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_space *space = what->space;
	struct task_struct *task = get_pid_task(space->pid, PIDTYPE_PID);
	u64 start = READ_ONCE(space->arg_start), end = READ_ONCE(space->arg_end);

	if (!task)
		return 0;
	/* Written over by setproctitle(3): one string, which may go on behind. */
	if (end > start && last_byte(space, task, end)) {
		if (copy_memory(m, space, task, start, max(end, READ_ONCE(space->env_end)),
				true))
			seq_putc(m, 0);
	} else {
		copy_memory(m, space, task, start, end, false);
	}
	put_task_struct(task);
	return 0;
}

int hanare_show_environ(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_space *space = what->space;
	struct task_struct *task = get_pid_task(space->pid, PIDTYPE_PID);

	if (!task)
		return 0;
	copy_memory(m, space, task, READ_ONCE(space->env_start), READ_ONCE(space->env_end), false);
	put_task_struct(task);
	return 0;
}
