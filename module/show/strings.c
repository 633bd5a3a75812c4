// SPDX-License-Identifier: GPL-2.0
/* What /proc/PID/cmdline and environ show of an LWK process: its memory. */
#include "show/pseudo.h"

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
 * program may name any addresses (PR_SET_MM), and a read from the end passes over all before.
 */
#define STRINGS_MAX (_STK_LIM / 4 * 3)

/* A part is less than a page: with a zero behind it fills what seq_file has at first. */
#define PART_MAX (PAGE_SIZE - 1)

/*
 * Copies a part of the program's memory, the one at m->index; ends at what is not there, and, if
 * wanted, behind the first zero, which is then written as one. 0 or -errno.
 */
static int copy_part(struct seq_file *m, struct hanare_space *space, struct task_struct *task,
		     u64 start, u64 end, bool to_zero)
{
	u64 size = min_t(u64, end > start ? end - start : 0, STRINGS_MAX), skip = m->index;
	int wanted = skip < size ? min_t(u64, size - skip, PART_MAX) : 0, got = 0;
	char *page, *zero;

	page = (char *)__get_free_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	if (wanted)
		got = max(read_memory(space, task, start + skip, page, wanted), 0);
	zero = to_zero ? memchr(page, 0, got) : NULL;
	if (zero)
		got = zero - page;
	seq_write(m, page, got);
	free_page((unsigned long)page);
	if (!zero && got == wanted && skip + got < size)
		hanare_next_part(m, skip + got);
	else if (to_zero && skip + got)
		seq_putc(m, 0);
	return 0;
}

static char last_byte(struct hanare_space *space, struct task_struct *task, u64 end)
{
	char byte;

	return read_memory(space, task, end - 1, &byte, 1) == 1 ? byte : 0;
}

/*
 * Of the program that the process has when the file is read, not when it was opened, as on Linux:
 * every user may see that.
 */
int hanare_show_cmdline(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_space *space = hanare_space_of_process(what->pid);
	struct task_struct *task;
	u64 start, end;
	int err = 0;

	if (!space)
		return 0;
	if (!m->index && hanare_has_ended(what))
		goto out;
	task = get_pid_task(what->pid, PIDTYPE_PID);
	if (!task)
		goto out;
	start = READ_ONCE(space->program.arg_start);
	end = READ_ONCE(space->program.arg_end);
	/* Written over by setproctitle(3): one string, which may go on behind. */
	if (end > start && last_byte(space, task, end))
		err = copy_part(m, space, task, start, max(end, READ_ONCE(space->program.env_end)), true);
	else
		err = copy_part(m, space, task, start, end, false);
	put_task_struct(task);
out:
	hanare_space_put(space);
	return err;
}

int hanare_show_environ(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_space *space = what->space;
	struct task_struct *task = get_pid_task(what->pid, PIDTYPE_PID);
	int err = 0;

	if (!task)
		return 0;
	if (m->index || !hanare_has_ended(what))
		err = copy_part(m, space, task, READ_ONCE(space->program.env_start), READ_ONCE(space->program.env_end), false);
	put_task_struct(task);
	return err;
}
