// SPDX-License-Identifier: GPL-2.0
/*
 * What a program may do to others where it is the LWK that does it. A proxy's word is no
 * permission, since its user may have replaced it: Linux' own records are looked at.
 */
#include "space/service.h"

#include <linux/cred.h>
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched/task.h>

static bool same_ids(const struct cred *caller, const struct cred *target)
{
	return uid_eq(caller->uid, target->euid) && uid_eq(caller->uid, target->suid) &&
	       uid_eq(caller->uid, target->uid) && gid_eq(caller->gid, target->egid) &&
	       gid_eq(caller->gid, target->sgid) && gid_eq(caller->gid, target->gid);
}

/* Checks again what Linux checked at the open of the descriptor: ids may have changed since. */
static bool may_reach(const struct cred *target)
{
	const struct cred *caller = current_cred();

	if (same_ids(caller, target) && caller->user_ns == target->user_ns &&
	    cap_issubset(target->cap_permitted, caller->cap_permitted))
		return true;
	return ns_capable(target->user_ns, CAP_SYS_PTRACE);
}

/* prlimit(2)'s rule, as check_prlimit_permission() has it. */
static bool may_limit(const struct cred *target)
{
	return same_ids(current_cred(), target) ||
	       ns_capable(target->user_ns, CAP_SYS_RESOURCE);
}

/* sched_setaffinity(2)'s rule, as check_same_owner() and what follows it have it. */
static bool may_schedule(const struct cred *target)
{
	kuid_t euid = current_euid();

	return uid_eq(euid, target->euid) || uid_eq(euid, target->uid) ||
	       ns_capable(target->user_ns, CAP_SYS_NICE);
}

static bool is_tracer(struct task_struct *tracer, struct task_struct *task)
{
	bool is;

	rcu_read_lock();
	is = ptrace_parent(task) == tracer;
	rcu_read_unlock();
	return is;
}

/* By any thread of the caller's process: each of these may wait for it. */
static bool is_traced_by_process(struct task_struct *task)
{
	struct task_struct *tracer;
	bool is;

	rcu_read_lock();
	tracer = ptrace_parent(task);
	is = tracer && same_thread_group(tracer, current);
	rcu_read_unlock();
	return is;
}

/* kill(2)'s rule, as kill_ok_by_cred() has it. */
static bool may_signal(const struct cred *target)
{
	const struct cred *caller = current_cred();

	return uid_eq(caller->euid, target->suid) || uid_eq(caller->euid, target->uid) ||
	       uid_eq(caller->uid, target->suid) || uid_eq(caller->uid, target->uid) ||
	       ns_capable(target->user_ns, CAP_KILL);
}

static bool may(struct task_struct *task, u64 what)
{
	const struct cred *cred;
	bool may = false;

	if (what == HANARE_MAY_TRACE)
		return is_tracer(current, task);
	if (what == HANARE_MAY_HEAR)
		return is_traced_by_process(task);
	if (what == HANARE_MAY_SUSPEND)
		return is_tracer(current, task) && READ_ONCE(task->ptrace) & PT_SUSPEND_SECCOMP;
	cred = get_task_cred(task);
	if (what == HANARE_MAY_REACH)
		may = may_reach(cred);
	else if (what == HANARE_MAY_LIMIT)
		may = may_limit(cred);
	else if (what == HANARE_MAY_SCHEDULE)
		may = may_schedule(cred);
	else if (what == HANARE_MAY_SIGNAL)
		may = may_signal(cred);
	put_cred(cred);
	return may;
}

/*
 * The thread that the caller knows by this id, with a reference, if it uses that memory map; or,
 * where `left` is a space, is of a process that executes a program, and so has left that one's map
 * and has no space of its own yet.
 */
static struct task_struct *task_of(u64 tid, const struct mm_struct *mm, struct hanare_space *left)
{
	struct task_struct *task = NULL;

	rcu_read_lock();
	if (tid && tid <= PID_MAX_LIMIT)
		task = pid_task(find_vpid(tid), PIDTYPE_PID);
	/* Compared only. */
	if (task && (READ_ONCE(task->mm) == mm || (left && hanare_space_is_left_by(left, task_tgid(task)))))
		get_task_struct(task);
	else
		task = NULL;
	rcu_read_unlock();
	return task;
}

struct task_struct *hanare_task_of(u64 tid, const struct mm_struct *mm)
{
	return task_of(tid, mm, NULL);
}

/* The memory map that a /proc/PID/mem holds, to be compared only. -EBADF: another file. */
const void *hanare_memory_behind(struct file *file)
{
	if (file_inode(file)->i_sb->s_magic != PROC_SUPER_MAGIC ||
	    strcmp(file->f_path.dentry->d_name.name, "mem"))
		return ERR_PTR(-EBADF);
	return READ_ONCE(file->private_data);
}

/* Whether a descriptor is one of its /proc/PID/mem, which Linux has opened for that. */
static bool shows(u64 fd, bool write, const struct mm_struct *mm)
{
	struct file *file = fget(fd);
	bool shows;

	if (!file)
		return false;
	shows = hanare_memory_behind(file) == mm && file->f_mode & (write ? FMODE_WRITE : FMODE_READ);
	fput(file);
	return shows;
}

long hanare_may(struct hanare_job *job)
{
	u64 id = job->args[0], what = job->args[2];
	struct hanare_space *target;
	struct task_struct *task = NULL;
	long err = -ESRCH;

	if (what == HANARE_MAY_BE_TRACED)
		return is_tracer(NULL, current) ? -EPERM : 0;
	target = job->args[1] <= U32_MAX ? hanare_space_find(job->args[1]) : NULL;
	if (!target)
		return err;
	/* To be traced, it is the LWK's thread all the while. */
	if (target->inst == job->inst)
		task = task_of(id, target->mm, what == HANARE_MAY_TRACE || what == HANARE_MAY_HEAR ? target : NULL);
	if (task) {
		err = may(task, what) ? 0 : -EPERM;
		put_task_struct(task);
	}
	if (!err && what == HANARE_MAY_REACH && !shows(job->args[3], job->args[4], target->mm))
		err = -EPERM;
	hanare_space_put(target);
	return err;
}
