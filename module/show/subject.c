// SPDX-License-Identifier: GPL-2.0
/* The thread that a file of /proc/PID is about. */
#include "show/pseudo.h"

#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

/* Blocked signals wait on Linux, which hands them over when they are let through. */
static void add_pending(struct hanare_pseudo *what, struct hanare_process_info *info)
{
	struct pid *pid = what->pid;
	struct task_struct *task;

	rcu_read_lock();
	/* The number is that of its own namespace, whichever process reads. */
	if (what->tid)
		pid = find_pid_ns(what->tid, ns_of_pid(pid));
	task = pid ? get_pid_task(pid, PIDTYPE_PID) : NULL;
	rcu_read_unlock();
	if (!task)
		return;
	info->pending |= task->pending.signal.sig[0];
	/* Its signal_struct goes with the last reference of the task. */
	info->shared_pending |= task->signal->shared_pending.signal.sig[0];
	put_task_struct(task);
}

/* Whether the file is about the first thread of a process. */
static bool is_first(const struct hanare_pseudo *what)
{
	struct pid *pid;
	bool is_first;

	rcu_read_lock();
	pid = find_pid_ns(what->tid, ns_of_pid(what->pid));
	is_first = pid && pid_task(pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return is_first;
}

/* The process' thread that the file is about. */
int hanare_pseudo_info(struct hanare_pseudo *what, struct hanare_process_info *info)
{
	int err = hanare_space_info(what->space, what->tid, info);

	/* The first thread may have ended before the others. */
	if (err == -ESRCH && what->pid == what->space->pid && (what->whole || is_first(what))) {
		err = hanare_space_info(what->space, 0, info);
		if (!err)
			info->thread.state = HANARE_THREAD_EXITED;
	}
	if (!err)
		add_pending(what, info);
	return err;
}

/*
 * The file is about a first thread that has ended, while others go on. Linux shows no memory of
 * such a one, and nothing that it had; its worker has all that, and waits.
 */
bool hanare_has_ended(struct hanare_pseudo *what)
{
	struct hanare_process_info info;
	struct hanare_instance *inst = what->space->inst;
	bool any;

	down_read(&inst->live);
	any = inst->reach.shared && READ_ONCE(((struct hanare_boot_params *)inst->reach.shared)->firsts_ended);
	up_read(&inst->live);
	return any && is_first(what) && !hanare_pseudo_info(what, &info) && info.thread.state == HANARE_THREAD_EXITED;
}
