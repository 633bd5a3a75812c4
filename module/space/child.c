// SPDX-License-Identifier: GPL-2.0
/*
 * Children that do not come. The child of a fork is a process of Linux' before it asks for a space
 * of its own (fork.c). One that Linux has stopped meanwhile (the freezer of control groups,
 * SIGSTOP) may never ask, and its maker goes on without (SERVICE_CHILD). From then on its end is
 * watched for and told (REQUEST_CHILD_END). Its maker's space may end before it comes: the files of
 * that, and its id, stay until the last such child has come or has ended.
 */
#include "space/service.h"

#include <linux/hashtable.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

struct child {
	struct hlist_node link;			/* children, or none */
	struct hanare_space *space;		/* its maker's, with a reference */
	struct pid *pid;
	u64 token;
	wait_queue_entry_t woken;
	bool is_taken;				/* from the list: its end is to be told */
	struct delayed_work work;
};

/* By their process ids. */
static DEFINE_HASHTABLE(children, 8);
static DEFINE_SPINLOCK(children_lock);		/* also children, keeps of spaces */
static unsigned int children_count;

static unsigned long key_of(const struct pid *pid)
{
	return (unsigned long)pid;
}

/* Under children_lock. */
static struct child *find(const struct pid *pid)
{
	struct child *c;

	hash_for_each_possible(children, c, link, key_of(pid))
		if (c->pid == pid)
			return c;
	return NULL;
}

/* The task that takes it from the list ends it. Under children_lock. */
static bool take(struct child *c)
{
	bool mine = !hlist_unhashed(&c->link);

	if (mine) {
		hash_del(&c->link);
		WRITE_ONCE(children_count, children_count - 1);
	}
	return mine;
}

static void put_kept(struct hanare_space *space)
{
	hanare_space_put_files(space);
	hanare_space_let_id_go(space);
}

/* One that was taken, and whose work does not run, unless this is it. */
static void child_free(struct child *c)
{
	struct hanare_space *space = c->space;
	bool last;

	spin_lock(&children_lock);
	last = !--space->share.children && space->share.keeps;
	if (last)
		space->share.keeps = false;
	spin_unlock(&children_lock);
	if (last)
		put_kept(space);
	put_pid(c->pid);
	kfree(c);
	hanare_space_put(space);
}

static void child_work(struct work_struct *work)
{
	struct child *c = container_of(to_delayed_work(work), struct child, work);
	struct hanare_call call = {
		.kind = HANARE_REQUEST_CHILD_END,
		.args = { c->token },
	};

	if (!c->is_taken) {
		if (!hanare_is_gone(c->pid))
			return;
		spin_lock(&children_lock);
		c->is_taken = take(c);
		spin_unlock(&children_lock);
		if (!c->is_taken)
			return;
		remove_wait_queue(&c->pid->wait_pidfd, &c->woken);
		/* A second wake-up, at the reaping, may have queued it again meanwhile. */
		cancel_delayed_work(&c->work);
	}
	/* Until the LWK is told, its maker may wait, and what the child was made of stays. */
	if (hanare_tell_end(c->space, &call, &c->work))
		child_free(c);
}

/* Under the lock of the queue, interrupts off. */
static int child_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	hanare_queue_end(&container_of(entry, struct child, woken)->work);
	return 0;
}

/* Has the caller alone know one that was taken. */
static void unwatch(struct child *c)
{
	remove_wait_queue(&c->pid->wait_pidfd, &c->woken);
	cancel_delayed_work_sync(&c->work);
}

/* Whether the process has a space of its own. */
static bool has_come(struct hanare_instance *inst, const struct pid *pid)
{
	struct hanare_space *space;
	bool found = false;

	spin_lock_irq(&inst->state_lock);
	list_for_each_entry(space, &inst->spaces.list, entry)
		found |= space->pid == pid;
	spin_unlock_irq(&inst->state_lock);
	return found;
}

/* The end of a process may have been missed. */
static void look_again(const struct pid *pid)
{
	struct child *c;

	spin_lock(&children_lock);
	c = find(pid);
	if (c)
		hanare_queue_end(&c->work);
	spin_unlock(&children_lock);
}

static long watch(struct hanare_space *space, struct pid *pid, u64 token)
{
	struct child *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT), *known;
	long err;

	if (!c)
		return -ENOMEM;
	c->pid = get_pid(pid);
	c->token = token;
	init_waitqueue_func_entry(&c->woken, child_woken);
	INIT_DELAYED_WORK(&c->work, child_work);
	spin_lock(&children_lock);
	known = find(pid);
	if (known)
		err = known->space == space && known->token == token ? 0 : -EEXIST;
	else
		err = test_bit(0, &space->ended) ? -ESRCH : 1;
	if (err == 1) {
		kref_get(&space->ref);
		c->space = space;
		space->share.children++;
		hash_add(children, &c->link, key_of(pid));
		WRITE_ONCE(children_count, children_count + 1);
		/* Before it can be taken. */
		add_wait_queue(&pid->wait_pidfd, &c->woken);
	}
	spin_unlock(&children_lock);
	if (err < 1) {
		put_pid(c->pid);
		kfree(c);
		return err;
	}
	/* A child that comes, or ends, after this looks for itself in the list, or is woken. */
	if (has_come(space->inst, pid)) {
		hanare_child_came(pid);
		return -EEXIST;
	}
	if (hanare_is_gone(pid))
		look_again(pid);
	return 0;
}

/* Whether the process is a child of the caller, or of the caller's own parent (CLONE_PARENT). */
static bool is_child(struct pid *pid)
{
	struct task_struct *task, *parent;
	bool is;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	parent = task ? rcu_dereference(task->real_parent) : NULL;
	is = parent && (same_thread_group(parent, current) ||
			same_thread_group(parent, rcu_dereference(current->real_parent)));
	rcu_read_unlock();
	return is;
}

long hanare_child(struct hanare_job *job)
{
	struct pid *pid = job->args[0] <= PID_MAX_LIMIT ? find_get_pid(job->args[0]) : NULL;
	u64 slot = job->args[1];
	long err;

	if (!pid)
		return -ESRCH;
	if (slot >= HANARE_SLOTS_MAX)
		err = -EINVAL;
	else if (!is_child(pid))
		err = -ESRCH;
	else if (!hanare_is_stopped(pid))
		err = -EAGAIN;
	else if (slot)
		err = hanare_share_child(job->space, pid, slot);
	else
		err = watch(job->space, pid, job->args[2]);
	put_pid(pid);
	return err;
}

/*
 * The space from which the caller comes, if its maker has gone on without it, with a reference;
 * else NULL.
 */
struct hanare_space *hanare_child_maker(const struct hanare_child *arg)
{
	struct hanare_space *space = NULL;
	struct child *c;

	if (!READ_ONCE(children_count))
		return NULL;
	spin_lock(&children_lock);
	c = arg->program ? NULL : find(task_tgid(current));
	if (c && c->space->id == arg->parent && c->token == arg->token) {
		space = c->space;
		kref_get(&space->ref);
	}
	spin_unlock(&children_lock);
	return space;
}

/* A process has a space of its own. */
void hanare_child_came(const struct pid *pid)
{
	struct child *c;

	if (!READ_ONCE(children_count))
		return;
	spin_lock(&children_lock);
	c = find(pid);
	if (c)
		take(c);
	spin_unlock(&children_lock);
	if (c) {
		unwatch(c);
		child_free(c);
	}
}

/*
 * No process has the descriptor any more by which children of its space, or of one that it is the
 * door of, would come.
 */
void hanare_children_end(const struct file *file, const struct hanare_space *space)
{
	struct child *c, *found;
	int i;

	/* None is added by a descriptor that closes. */
	if (!READ_ONCE(children_count))
		return;
	do {
		found = NULL;
		spin_lock(&children_lock);
		hash_for_each(children, i, c, link)
			if (c->space == space || c->space->door.file == file)
				found = c;
		if (found)
			take(found);
		spin_unlock(&children_lock);
		if (found) {
			unwatch(found);
			found->is_taken = true;
			hanare_queue_end(&found->work);
		}
	} while (found);
}

bool hanare_space_has_children(struct hanare_space *space)
{
	bool has;

	spin_lock(&children_lock);
	has = space->share.children;
	spin_unlock(&children_lock);
	return has;
}

/* The last step of a space's end: its files and its id go, now or with the last of its children. */
void hanare_space_keep_for_children(struct hanare_space *space)
{
	bool keeps;

	spin_lock(&children_lock);
	keeps = space->share.children;
	space->share.keeps = keeps;
	spin_unlock(&children_lock);
	if (!keeps)
		put_kept(space);
}
