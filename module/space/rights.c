// SPDX-License-Identifier: GPL-2.0
/*
 * What execve(2) does to the rights of the thread that calls it. The LWK replaces the
 * program, so Linux does not do it by itself. The rules are those of cap_bprm_creds_from_file() for
 * a file without rights of its own, which the LWK gives to none; but for what root gets back: that
 * security modules may forbid, which are asked by an execve of Linux' only, and so nothing is ever
 * more here than before.
 */
#include "space/space.h"

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fs_struct.h>
#include <linux/key.h>
#include <linux/nsproxy.h>
#include <linux/personality.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

/* How often it is looked whether a thread is another process', every 50 to 200 us. */
#define FS_LOOKS 40

/* A thread that is being made, or ends, is counted for a moment with those of others. */
static bool seems_to_share_fs(void)
{
	struct task_struct *thread;
	int own = 0;

	rcu_read_lock();
	for_each_thread(current, thread)
		own += thread->fs == current->fs;
	rcu_read_unlock();
	return READ_ONCE(current->fs->users) > own;
}

/*
 * Another process has the same working directory and mask of modes, and may change them. Workers of
 * threads that have ended end, and leave others behind, whenever they get to it: they are none of
 * another process.
 */
static bool shares_fs(void)
{
	int looks;

	for (looks = 0; seems_to_share_fs(); looks++) {
		if (looks == FS_LOOKS)
			return true;
		usleep_range(50, 200);
	}
	return false;
}

/* A tracer that has no right to trace whatever the program becomes. */
static bool is_traced(const struct user_namespace *ns)
{
	const struct cred *tracer;
	bool weak;

	rcu_read_lock();
	tracer = rcu_dereference(current->ptracer_cred);
	weak = tracer && !(tracer->user_ns == ns && cap_raised(tracer->cap_effective, CAP_SYS_PTRACE));
	rcu_read_unlock();
	return current->ptrace && weak;
}

static bool is_same(const struct cred *a, const struct cred *b)
{
	return uid_eq(a->euid, b->euid) && uid_eq(a->suid, b->suid) && uid_eq(a->fsuid, b->fsuid) &&
	       gid_eq(a->egid, b->egid) && gid_eq(a->sgid, b->sgid) && gid_eq(a->fsgid, b->fsgid) &&
	       !memcmp(&a->cap_permitted, &b->cap_permitted, sizeof(a->cap_permitted)) &&
	       !memcmp(&a->cap_effective, &b->cap_effective, sizeof(a->cap_effective)) &&
	       !memcmp(&a->cap_ambient, &b->cap_ambient, sizeof(a->cap_ambient)) &&
	       a->securebits == b->securebits;
}

/* When commit_creds() lets no other process look into this one any more. */
static bool gains(const struct cred *new, const struct cred *old)
{
	return !uid_eq(new->euid, old->euid) || !gid_eq(new->egid, old->egid) ||
	       !uid_eq(new->fsuid, old->fsuid) || !gid_eq(new->fsgid, old->fsgid) ||
	       !cap_issubset(new->cap_permitted, old->cap_permitted);
}

/* The keyrings of the thread and of the process end with the program. Whether there was one. */
static bool drop_keyrings(struct cred *new)
{
	bool any = false;

#ifdef CONFIG_KEYS
	any = new->thread_keyring || new->process_keyring;
	key_put(new->thread_keyring);
	key_put(new->process_keyring);
	new->thread_keyring = NULL;
	new->process_keyring = NULL;
#endif
	return any;
}

long hanare_rights(struct hanare_space *space, void *data)
{
	struct hanare_rights *arg = data;
	const struct cred *old = current_cred();
	struct cred *new = prepare_creds();
	bool root_counts = !issecure(SECURE_NOROOT), effective, other_ids, had_keyrings;
	kuid_t root;

	if (!new)
		return -ENOMEM;
	if (arg->keeps > 1) {
		abort_creds(new);
		return -EINVAL;
	}
	root = make_kuid(new->user_ns, 0);
	effective = root_counts && uid_eq(new->euid, root);
	if (effective || (root_counts && uid_eq(new->uid, root)))
		new->cap_permitted = cap_combine(old->cap_bset, old->cap_inheritable);
	else
		cap_clear(new->cap_permitted);
	other_ids = !uid_eq(new->euid, old->uid) || !gid_eq(new->egid, old->gid);
	if ((other_ids || !cap_issubset(new->cap_permitted, old->cap_permitted)) &&
	    (task_no_new_privs(current) || shares_fs() || is_traced(new->user_ns))) {
		if (task_no_new_privs(current) || !ns_capable(new->user_ns, CAP_SETUID)) {
			new->euid = new->uid;
			new->egid = new->gid;
		}
		new->cap_permitted = cap_intersect(new->cap_permitted, old->cap_permitted);
	}
	new->suid = new->fsuid = new->euid;
	new->sgid = new->fsgid = new->egid;
	if (other_ids)
		cap_clear(new->cap_ambient);
	new->cap_permitted = cap_combine(new->cap_permitted, new->cap_ambient);
	new->cap_effective = effective ? new->cap_permitted : new->cap_ambient;
	if (!cap_issubset(new->cap_permitted, old->cap_permitted) ||
	    !cap_issubset(new->cap_effective, old->cap_effective) ||
	    !uid_eq(new->euid, old->euid) || !gid_eq(new->egid, old->egid)) {
		if (!arg->keeps) {
			abort_creds(new);
			return -EAGAIN;
		}
		/* The real ids may be those of a user who may do more. */
		new->euid = new->suid = new->fsuid = old->euid;
		new->egid = new->sgid = new->fsgid = old->egid;
		new->cap_permitted = cap_intersect(new->cap_permitted, old->cap_permitted);
		new->cap_effective = cap_intersect(new->cap_effective, old->cap_effective);
	}
	new->securebits &= ~issecure_mask(SECURE_KEEP_CAPS);
	arg->secure = other_ids ||
		      (!uid_eq(new->uid, root) &&
		       (effective || !cap_issubset(new->cap_permitted, new->cap_ambient)));
	arg->changed = !is_same(new, old);
	arg->gained = gains(new, old);
	had_keyrings = drop_keyrings(new);
	if (arg->secure)
		current->pdeath_signal = 0;
	/* As for any program of 64 bits. */
	current->personality &= ~READ_IMPLIES_EXEC;
	/* The end of a program that its parent did not start tells it as usual. */
	current->group_leader->exit_signal = SIGCHLD;
	return arg->changed || had_keyrings ? commit_creds(new) : (abort_creds(new), 0);
}

/* Only to be compared: two threads with the same one are filtered alike. */
static void *filters_of(struct task_struct *task)
{
#ifdef CONFIG_SECCOMP_FILTER
	return READ_ONCE(task->seccomp.filter);
#else
	return NULL;
#endif
}

/*
 * Linux' execve(2) has the thread that calls it take the place of the first one. Here the first
 * one, whose id the program keeps, becomes what the other one is. Not where that has namespaces,
 * descriptors or directories of its own: only a task itself may give them away, since it uses them
 * without a reference.
 */
static long take_over(struct task_struct *other)
{
	bool same;

	/* Nor are filters of system calls given away. */
	if (filters_of(other) != filters_of(current))
		return -EAGAIN;
	task_lock(other);
	same = other->nsproxy == current->nsproxy && other->fs == current->fs &&
	       other->files == current->files;
	task_unlock(other);
	if (!same)
		return -EAGAIN;
	commit_creds((struct cred *)get_task_cred(other));
	if (task_no_new_privs(other))
		task_set_no_new_privs(current);
	if (task_nice(current) != task_nice(other))
		set_user_nice(current, task_nice(other));
	current->pdeath_signal = other->pdeath_signal;
	current->timer_slack_ns = other->timer_slack_ns;
	current->personality = other->personality;
	return 0;
}

long hanare_succeed(struct hanare_space *space, void *data)
{
	struct hanare_succeed *arg = data;
	struct task_struct *other;
	struct pid *pid = find_get_pid(arg->tid);
	long err = -ESRCH;

	if (arg->reserved || !thread_group_leader(current)) {
		err = -EINVAL;
		goto put;
	}
	other = get_pid_task(pid, PIDTYPE_PID);
	if (!other)
		goto put;
	if (other != current && same_thread_group(other, current))
		err = take_over(other);
	put_task_struct(other);
put:
	put_pid(pid);
	return err;
}
