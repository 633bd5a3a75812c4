// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that share a space: clone with CLONE_VM, not as a thread. Their proxies have
 * one memory map and one space, so the end of one of them is not the end of the space,
 * and no descriptor need close with it: Linux is watched for it as poll() of a pidfd does.
 * So is the process of every space, whose descriptor another may have, and keep.
 */
#include "space/service.h"

#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

/* A memory map outlives its process as long as a task uses it: looks for its end this often. */
#define USED_RECHECK HZ
/* The LWK is told an end again, whose user has had too many requests. */
#define TELL_AGAIN (HZ / 10)

/*
 * Runs the works below. A work that drops the last reference holds no file, so the module may go:
 * not before they have returned (hanare_share_exit).
 */
static struct workqueue_struct *end_queue;

/* The process of a space is gone. Set once, before there is a space. */
static void (*flush_space)(struct hanare_space *space) __ro_after_init;

/* One process of a space that had more than one at some time. */
struct hanare_sharer {
	struct list_head link;			/* space->share.sharers, or none */
	struct hanare_space *space;
	struct pid *pid;
	u32 slot;				/* of its first thread: its name in the LWK */
	u32 look;				/* the last in which the LWK was told; under share.lock */
	bool stopped;				/* the LWK was told */
	bool begun;				/* the LWK knows it by the slot; under share.lock */
	bool leaves;				/* see hanare_space_prepare_leave; under share.lock */
	u64 leaves_by;				/* likewise */
	wait_queue_entry_t woken;
	bool is_taken;				/* from the list: its end is to be told */
	struct delayed_work work;
};

bool hanare_is_gone(struct pid *pid)
{
	struct task_struct *task;
	bool gone;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	gone = !task || (READ_ONCE(task->exit_state) && thread_group_empty(task));
	rcu_read_unlock();
	return gone;
}

void hanare_queue_end(struct delayed_work *work)
{
	queue_delayed_work(end_queue, work, 0);
}

/*
 * Has the LWK told an end. Called by a work of the queue: false: it is called again, later, since
 * others' ends wait for the queue.
 */
bool hanare_tell_end(struct hanare_space *space, struct hanare_call *call, struct delayed_work *work)
{
	call->charged = space;
	call->at_once = true;
	if (hanare_request_about(space, call, WAIT_BOUNDED, 1000) != -EBUSY)
		return true;
	queue_delayed_work(end_queue, work, TELL_AGAIN);
	return false;
}

/* Until its process is gone, with its descriptors, locks and ports; not for ever. */
void hanare_space_await_end(struct hanare_space *space, unsigned int timeout_ms)
{
	wait_event_timeout(space->pid->wait_pidfd, hanare_is_gone(space->pid), msecs_to_jiffies(timeout_ms));
}

/* ---- the process of a space ---- */

/* The space's process is gone, or has a space of its own. */
static bool is_out(struct hanare_space *space)
{
	return READ_ONCE(space->share.left) || hanare_is_gone(space->pid);
}

static void process_work(struct work_struct *work)
{
	struct hanare_space *space = container_of(to_delayed_work(work), struct hanare_space,
						  share.gone_work);

	if (is_out(space)) {
		flush_space(space);
		/* The work takes over our reference. */
		if (!test_bit(0, &space->ended) &&
		    queue_delayed_work(end_queue, &space->share.gone_work, USED_RECHECK))
			return;
	}
	hanare_space_put(space);
}

/* Under the lock of the queue, interrupts off. */
static int process_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct hanare_space *space = container_of(entry, struct hanare_space, share.gone);

	kref_get(&space->ref);
	/* The last reference is never dropped here: the watch of the process holds another. */
	if (!queue_delayed_work(end_queue, &space->share.gone_work, 0))
		hanare_space_put(space);
	return 0;
}

/* Called by the process itself, when its space begins. */
void hanare_space_watch_process(struct hanare_space *space)
{
	kref_get(&space->ref);
	INIT_DELAYED_WORK(&space->share.gone_work, process_work);
	init_waitqueue_func_entry(&space->share.gone, process_woken);
	add_wait_queue(&space->pid->wait_pidfd, &space->share.gone);
}

/* The space ends, perhaps by that very work. The caller has a reference. */
void hanare_space_unwatch_process(struct hanare_space *space)
{
	remove_wait_queue(&space->pid->wait_pidfd, &space->share.gone);
	if (cancel_delayed_work(&space->share.gone_work))
		hanare_space_put(space);
	hanare_space_put(space);
}

/* ---- processes that share one ---- */

static void sharer_free(struct hanare_sharer *s)
{
	put_pid(s->pid);
	kfree(s);
}

/* Takes it from the list, unless the space's end has. */
static bool take(struct hanare_sharer *s)
{
	bool mine;

	spin_lock_irq(&s->space->share.lock);
	mine = !list_empty(&s->link);
	if (mine)
		list_del_init(&s->link);
	spin_unlock_irq(&s->space->share.lock);
	return mine;
}

static void sharer_work(struct work_struct *work)
{
	struct hanare_sharer *s = container_of(to_delayed_work(work), struct hanare_sharer, work);
	struct hanare_call call = {
		.kind = HANARE_REQUEST_PROCESS_END,
		.args = { s->slot },
	};

	if (!s->is_taken) {
		if (!hanare_is_gone(s->pid) || !take(s))
			return;
		remove_wait_queue(&s->pid->wait_pidfd, &s->woken);
		/* A second wake-up, at the reaping, may have queued it again meanwhile. */
		cancel_delayed_work(&s->work);
		s->is_taken = true;
	}
	/* Where the LWK is not told its parent waits on, unless the space has ended. */
	if (!test_bit(0, &s->space->ended) && !hanare_tell_end(s->space, &call, &s->work))
		return;
	hanare_space_put(s->space);
	/* No task queues the work any more, and only this one knows the sharer. */
	sharer_free(s);
}

/* Under the lock of the queue, interrupts off. */
static int sharer_woken(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct hanare_sharer *s = container_of(entry, struct hanare_sharer, woken);

	queue_delayed_work(end_queue, &s->work, 0);
	return 0;
}

static struct hanare_sharer *find(struct hanare_space *space, struct pid *pid)
{
	struct hanare_sharer *s;

	list_for_each_entry(s, &space->share.sharers, link)
		if (s->pid == pid)
			return s;
	return NULL;
}

/* The process, with first slot `slot`, is one of those that share the space. */
static int enlist(struct hanare_space *space, struct pid *pid, u32 slot)
{
	struct hanare_sharer *s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	bool known;

	if (!s)
		return -ENOMEM;
	s->space = space;
	s->pid = get_pid(pid);
	s->slot = slot;
	init_waitqueue_func_entry(&s->woken, sharer_woken);
	INIT_DELAYED_WORK(&s->work, sharer_work);
	spin_lock_irq(&space->share.lock);
	known = find(space, s->pid);
	if (!known) {
		/* Another of its threads may be in an execve. */
		s->leaves = space->pid == s->pid && space->share.leaves;
		s->leaves_by = s->leaves ? space->share.leaves_by : 0;
		kref_get(&space->ref);
		list_add_tail(&s->link, &space->share.sharers);
		/*
		 * Under the lock: once found, the process itself, by an execve, may take it off
		 * both.
		 */
		add_wait_queue(&s->pid->wait_pidfd, &s->woken);
	}
	spin_unlock_irq(&space->share.lock);
	if (known) {
		sharer_free(s);
		return 0;
	}
	if (!hanare_is_gone(pid))
		return 0;
	/* It may have ended before it was watched. */
	spin_lock_irq(&space->share.lock);
	s = find(space, pid);
	if (s)
		hanare_queue_end(&s->work);
	spin_unlock_irq(&space->share.lock);
	return 0;
}

/* The LWK has had the calling process begin, and knows it by its first slot. */
static void begun(struct hanare_space *space, u32 slot)
{
	struct hanare_sharer *s;

	spin_lock_irq(&space->share.lock);
	s = find(space, task_tgid(current));
	if (s && !s->begun) {
		s->slot = slot;
		s->begun = true;
	}
	spin_unlock_irq(&space->share.lock);
}

/*
 * The first process has slot 0, whether or not it has ever said that it shares the space. Under
 * share.lock.
 */
static bool is_known(const struct hanare_space *space, const struct hanare_sharer *s, const struct pid *pid, u32 *slot)
{
	*slot = space->pid == pid || !s ? 0 : s->slot;
	return space->pid == pid || (s && s->begun);
}

bool hanare_space_first_slot(struct hanare_space *space, struct pid *pid, u32 *slot)
{
	bool is;

	spin_lock_irq(&space->share.lock);
	is = is_known(space, find(space, pid), pid, slot);
	spin_unlock_irq(&space->share.lock);
	return is;
}

bool hanare_space_is_process(struct hanare_space *space, struct pid *pid, u32 slot)
{
	u32 own;

	return hanare_space_first_slot(space, pid, &own) && own == slot;
}

long hanare_share(struct hanare_space *space, void *data)
{
	struct hanare_share *arg = data;
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_START,
		.space = space->id,
		.args = { arg->slot, task_active_pid_ns(current)->ns.inum, task_tgid_vnr(current) },
	};
	int err;

	if (arg->slot >= HANARE_SLOTS_MAX || arg->begin > 1)
		return -EINVAL;
	err = enlist(space, task_tgid(current), arg->slot);
	if (err || !arg->begin)
		return err;
	err = hanare_request_quietly(space, &call, WAIT_KILLABLE, 0);
	if (err)
		WRITE_ONCE(space->link.opened, false);
	err = err ?: min(call.status, 0);
	if (!err)
		begun(space, arg->slot);
	return err;
}

long hanare_share_child(struct hanare_space *space, struct pid *pid, u32 slot)
{
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	bool shares;

	if (!task)
		return -ESRCH;
	task_lock(task);
	shares = task->mm == space->mm;
	task_unlock(task);
	put_task_struct(task);
	return shares ? enlist(space, pid, slot) : -ESRCH;
}

/* Drops a sharer that is on no list any more. The caller has a reference of the space. */
static void forget(struct hanare_sharer *s)
{
	remove_wait_queue(&s->pid->wait_pidfd, &s->woken);
	cancel_delayed_work_sync(&s->work);
	hanare_space_put(s->space);
	sharer_free(s);
}

/* Called at the end of a space, after that of its processes. */
void hanare_space_unshare(struct hanare_space *space)
{
	struct hanare_sharer *s;

	for (;;) {
		spin_lock_irq(&space->share.lock);
		s = list_first_entry_or_null(&space->share.sharers, struct hanare_sharer, link);
		if (s)
			list_del_init(&s->link);
		spin_unlock_irq(&space->share.lock);
		if (!s)
			return;
		forget(s);
	}
}

/* One whose execve fails after this stays one that may leave: it has the memory all the while. */
void hanare_space_prepare_leave(struct hanare_space *space, u64 call)
{
	struct hanare_sharer *s;

	spin_lock_irq(&space->share.lock);
	s = find(space, task_tgid(current));
	if (s) {
		s->leaves = true;
		s->leaves_by = call;
	} else if (space->pid == task_tgid(current)) {
		space->share.leaves = true;
		space->share.leaves_by = call;
	}
	spin_unlock_irq(&space->share.lock);
}

void hanare_space_say_left(struct hanare_space *space, u64 *words)
{
	struct pid *pid = task_tgid(current);
	struct hanare_sharer *s;
	u32 slot;

	spin_lock_irq(&space->share.lock);
	s = find(space, pid);
	words[0] = is_known(space, s, pid, &slot) ? slot : HANARE_LEFT_BY_NONE;
	words[1] = s ? s->leaves_by : space->share.leaves_by;
	spin_unlock_irq(&space->share.lock);
}

/*
 * Whether the process has left the space's memory, or is about to, and has no space of its own yet.
 * Any context.
 */
bool hanare_space_is_left_by(struct hanare_space *space, struct pid *pid)
{
	struct hanare_sharer *s;
	unsigned long flags;
	bool leaves;

	spin_lock_irqsave(&space->share.lock, flags);
	s = find(space, pid);
	leaves = s ? s->leaves : space->pid == pid && space->share.leaves && !space->share.left;
	spin_unlock_irqrestore(&space->share.lock, flags);
	return leaves;
}

bool hanare_space_is_left(struct hanare_space *space)
{
	struct hanare_sharer *s;
	bool left;

	spin_lock_irq(&space->share.lock);
	left = space->share.leaves && !is_out(space);
	list_for_each_entry(s, &space->share.sharers, link)
		left |= s->leaves;
	spin_unlock_irq(&space->share.lock);
	return left;
}

void hanare_space_leave(struct hanare_space *space)
{
	bool first = space->pid == task_tgid(current);
	struct hanare_sharer *s;

	spin_lock_irq(&space->share.lock);
	s = find(space, task_tgid(current));
	if (s)
		list_del_init(&s->link);
	if (first)
		WRITE_ONCE(space->share.left, true);
	spin_unlock_irq(&space->share.lock);
	if (s)
		forget(s);
	/* Its end will not be that of the memory, which others may have: that is looked for. */
	if (first) {
		kref_get(&space->ref);
		if (!queue_delayed_work(end_queue, &space->share.gone_work, USED_RECHECK))
			hanare_space_put(space);
	}
}

u32 hanare_space_pid_vnr(struct hanare_space *space)
{
	struct pid *pid = space->pid;
	struct hanare_sharer *s;
	u32 number;

	spin_lock_irq(&space->share.lock);
	s = list_first_entry_or_null(&space->share.sharers, struct hanare_sharer, link);
	if (s && is_out(space))
		pid = s->pid;
	number = pid_vnr(pid);
	spin_unlock_irq(&space->share.lock);
	return number;
}

/* To each process that has the space. Any context. */
static void send_each(struct hanare_space *space, int (*send)(struct pid *pid))
{
	struct hanare_sharer *s;
	unsigned long flags;

	spin_lock_irqsave(&space->share.lock, flags);
	if (list_empty(&space->share.sharers) && !space->share.left)
		send(space->pid);
	list_for_each_entry(s, &space->share.sharers, link)
		send(s->pid);
	spin_unlock_irqrestore(&space->share.lock, flags);
}

static int tell_death(struct pid *pid)
{
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	struct kernel_siginfo info;

	clear_siginfo(&info);
	info.si_signo = SIGBUS;
	info.si_code = BUS_ADRERR;
	info.si_addr = (void __user *)HANARE_CONTROL_BASE;
	if (task) {
		send_sig_info(SIGBUS, &info, task);
		put_task_struct(task);
	}
	return 0;
}

void hanare_space_tell_death(struct hanare_space *space)
{
	send_each(space, tell_death);
}

static int kill_one(struct pid *pid)
{
	return kill_pid(pid, SIGKILL, 1);
}

/* Tasks that use the memory map, which they need not have said: while one does, the space stays. */
static void kill_users(struct hanare_space *space)
{
	struct task_struct *process, *thread;

	rcu_read_lock();
	for_each_process_thread(process, thread)
		if (READ_ONCE(thread->mm) == space->mm && !(thread->flags & PF_KTHREAD))
			send_sig(SIGKILL, thread, 1);
	rcu_read_unlock();
}

void hanare_space_kill(struct hanare_space *space)
{
	send_each(space, kill_one);
	kill_users(space);
}

void hanare_spaces_kill(struct hanare_instance *inst)
{
	struct hanare_space *space;
	u32 id = 0;

	/* One by one: not all tasks of Linux are looked at with a lock held. */
	while ((space = hanare_space_after(inst, id))) {
		id = space->id;
		hanare_space_kill(space);
		hanare_space_put(space);
	}
}

bool hanare_space_is_shared(struct hanare_space *space)
{
	return !list_empty_careful(&space->share.sharers);
}

/*
 * The next process, not yet seen in this look, whose state is not what the LWK was told; false:
 * there is none.
 */
bool hanare_space_stop_changed(struct hanare_space *space, u32 look, bool (*is_stopped)(struct pid *pid),
			       u32 *slot, bool *stopped)
{
	struct hanare_sharer *s;
	bool changed = false;

	spin_lock_irq(&space->share.lock);
	list_for_each_entry(s, &space->share.sharers, link) {
		if (s->look == look)
			continue;
		*stopped = is_stopped(s->pid);
		changed = *stopped != s->stopped;
		if (changed) {
			s->look = look;
			s->stopped = *stopped;
			*slot = s->slot;
			break;
		}
	}
	spin_unlock_irq(&space->share.lock);
	return changed;
}

/* The LWK could not be told that. */
void hanare_space_stop_untold(struct hanare_space *space, u32 slot, bool stopped)
{
	struct hanare_sharer *s;

	spin_lock_irq(&space->share.lock);
	list_for_each_entry(s, &space->share.sharers, link)
		if (s->slot == slot && s->stopped == stopped)
			s->stopped = !stopped;
	spin_unlock_irq(&space->share.lock);
}

int hanare_share_init(void (*flush)(struct hanare_space *space))
{
	flush_space = flush;
	end_queue = alloc_workqueue("hanare", WQ_UNBOUND, 0);
	return end_queue ? 0 : -ENOMEM;
}

void hanare_share_exit(void)
{
	destroy_workqueue(end_queue);
}
