// SPDX-License-Identifier: GPL-2.0
/*
 * Whether two tasks may do the same on Linux: what they have as rights, and what confines them. One
 * task makes calls on another's behalf only where they may (pool.c).
 *
 * Credentials are compared field by field, what security modules keep in them byte by byte:
 * Landlock's domain, AppArmor's label, SELinux' identifiers. A module that keeps something else in
 * there, such as an address within, makes two credentials differ that are alike: they are refused
 * then, which is safe. A domain that a module keeps in the task itself (Tomoyo) is not seen.
 */
#include "space/space.h"

#include <linux/cred.h>
#include <linux/fs_struct.h>
#include <linux/key.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seccomp.h>
#include <linux/slab.h>

static bool same_groups(const struct group_info *a, const struct group_info *b)
{
	int i;

	if (a->ngroups != b->ngroups)
		return false;
	for (i = 0; i < a->ngroups; i++)
		if (!gid_eq(a->gid[i], b->gid[i]))
			return false;
	return true;
}

static bool same_capabilities(const struct cred *a, const struct cred *b)
{
	return !memcmp(&a->cap_inheritable, &b->cap_inheritable, sizeof(a->cap_inheritable)) &&
	       !memcmp(&a->cap_permitted, &b->cap_permitted, sizeof(a->cap_permitted)) &&
	       !memcmp(&a->cap_effective, &b->cap_effective, sizeof(a->cap_effective)) &&
	       !memcmp(&a->cap_bset, &b->cap_bset, sizeof(a->cap_bset)) &&
	       !memcmp(&a->cap_ambient, &b->cap_ambient, sizeof(a->cap_ambient));
}

static bool same_ids(const struct cred *a, const struct cred *b)
{
	return uid_eq(a->uid, b->uid) && uid_eq(a->euid, b->euid) && uid_eq(a->suid, b->suid) &&
	       uid_eq(a->fsuid, b->fsuid) && gid_eq(a->gid, b->gid) && gid_eq(a->egid, b->egid) &&
	       gid_eq(a->sgid, b->sgid) && gid_eq(a->fsgid, b->fsgid);
}

/* What security modules know of them. */
static bool same_security(const struct cred *a, const struct cred *b)
{
#ifdef CONFIG_SECURITY
	size_t size;

	if (!a->security || !b->security)
		return a->security == b->security;
	size = ksize(a->security);
	return size == ksize(b->security) && !memcmp(a->security, b->security, size);
#else
	return true;
#endif
}

/*
 * Keys that they possess. A keyring of a process or a thread is never another's: a task with one
 * does not act for others.
 */
static bool same_keys(const struct cred *a, const struct cred *b)
{
#ifdef CONFIG_KEYS
	return a->session_keyring == b->session_keyring && a->process_keyring == b->process_keyring &&
	       a->thread_keyring == b->thread_keyring && a->request_key_auth == b->request_key_auth &&
	       a->jit_keyring == b->jit_keyring;
#else
	return true;
#endif
}

static bool same_cred(const struct cred *a, const struct cred *b)
{
	return a == b ||
	       (same_ids(a, b) && same_capabilities(a, b) && a->securebits == b->securebits &&
		a->user == b->user && a->user_ns == b->user_ns && a->ucounts == b->ucounts &&
		same_groups(a->group_info, b->group_info) && same_keys(a, b) && same_security(a, b));
}

static bool same_filter(const struct seccomp *a, const struct seccomp *b)
{
	if (READ_ONCE(a->mode) != READ_ONCE(b->mode))
		return false;
#ifdef CONFIG_SECCOMP_FILTER
	/* A task that has inherited a filter has the very same one. */
	return READ_ONCE(a->filter) == READ_ONCE(b->filter);
#else
	return true;
#endif
}

static bool same_namespaces(const struct nsproxy *a, const struct nsproxy *b)
{
	return a == b ||
	       (a && b && a->uts_ns == b->uts_ns && a->ipc_ns == b->ipc_ns && a->mnt_ns == b->mnt_ns &&
		a->pid_ns_for_children == b->pid_ns_for_children && a->net_ns == b->net_ns &&
		a->time_ns == b->time_ns && a->time_ns_for_children == b->time_ns_for_children &&
		a->cgroup_ns == b->cgroup_ns);
}

static bool same_root(const struct fs_struct *a, const struct fs_struct *b)
{
	return a == b || (a && b && READ_ONCE(a->root.mnt) == READ_ONCE(b->root.mnt) &&
			  READ_ONCE(a->root.dentry) == READ_ONCE(b->root.dentry));
}

/* Of a living thread and the caller; in an RCU section. */
static bool confined_alike(struct task_struct *task)
{
	bool alike;

	if (task == current)
		return true;
	if (!same_cred(__task_cred(task), current_cred()) ||
	    task_no_new_privs(task) != task_no_new_privs(current) ||
	    !same_filter(&task->seccomp, &current->seccomp))
		return false;
	/* Both are the task's until it ends. */
	task_lock(task);
	alike = same_namespaces(task->nsproxy, current->nsproxy) && same_root(task->fs, current->fs);
	task_unlock(task);
	return alike;
}

/*
 * Whether each living thread of a process may do what the caller may, and no less. -ESRCH: none
 * lives. What they change from now on is not seen: a task that confines itself while a call of its
 * is on its way has made the call before.
 */
int hanare_confined_alike(struct pid *pid)
{
	struct task_struct *leader, *thread;
	int err = -ESRCH;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	if (leader) {
		for_each_thread(leader, thread) {
			if (READ_ONCE(thread->flags) & PF_EXITING)
				continue;
			err = confined_alike(thread) ? 0 : -EPERM;
			if (err)
				break;
		}
	}
	rcu_read_unlock();
	return err;
}

void hanare_confinement_take(struct hanare_confinement *c)
{
	c->cred = get_current_cred();
	c->no_new_privs = task_no_new_privs(current);
	c->seccomp = current->seccomp;
	c->namespaces = *current->nsproxy;
	get_fs_root(current->fs, &c->root);
	c->umask = current_umask();
}

void hanare_confinement_put(struct hanare_confinement *c)
{
	put_cred(c->cred);
	path_put(&c->root);
}

/*
 * Whether the caller may now what another task could when `c` was taken. A filter and namespaces
 * are known by their addresses, which may be those of later ones once no task has them any more:
 * living tasks are compared by hanare_confined_alike(), before each call.
 */
bool hanare_confinement_is_own(const struct hanare_confinement *c)
{
	struct path root;
	bool is_same;

	get_fs_root(current->fs, &root);
	is_same = path_equal(&root, &c->root);
	path_put(&root);
	return is_same && same_cred(c->cred, current_cred()) && c->no_new_privs == task_no_new_privs(current) &&
	       same_filter(&c->seccomp, &current->seccomp) &&
	       same_namespaces(&c->namespaces, current->nsproxy) && c->umask == current_umask();
}
