// SPDX-License-Identifier: GPL-2.0
/*
 * Stop and continue. A proxy that Linux stops (SIGSTOP, job control, the freezer of
 * cgroups) cannot say so, since all its threads are stopped; its program computes on.
 * Tracepoints of Linux tell that something may have changed; a work looks what, and
 * tells the LWK (REQUEST_SPACE_PAUSE).
 */
#include "space/space.h"

#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/tracepoint.h>

/* The stop follows its tracepoint: looks after it, in ms from one to the next. */
static const unsigned int look_ms[] = { 1, 4, 20, 100 };

static atomic_t looks_left;

static void look(struct work_struct *work);
static DECLARE_DELAYED_WORK(look_work, look);

bool hanare_is_stopped(struct pid *pid)
{
	struct task_struct *task;
	struct signal_struct *sig;
	bool stopped;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	sig = task ? task->signal : NULL;
	stopped = sig && ((READ_ONCE(sig->flags) & SIGNAL_STOP_STOPPED) ||
			  READ_ONCE(sig->group_stop_count) > 0 ||
			  (READ_ONCE(task->jobctl) & JOBCTL_TRAP_FREEZE));
	rcu_read_unlock();
	return stopped;
}

/* There is something that the LWK could not be told. */
static bool untold;

/*
 * Tells the LWK of one change of the process with first slot `slot`. Where a CPU does not answer in
 * time it takes that in when it goes on, before what it is told later.
 */
static bool tell_one(struct hanare_space *space, u32 slot, bool stopped)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_PAUSE,
		.args = { stopped, slot },
		/* The slot is the next process' after this one's end, of which the home is told. */
		.in_order = hanare_space_is_shared(space),
	};

	int err;

	if (test_bit(0, &space->ended))
		return false;
	err = hanare_request_about(space, &call, WAIT_BOUNDED, 1000);
	if (err == -EBUSY)
		untold = true;
	return err == -ETIMEDOUT || (!err && !call.status);
}

/*
 * Each process once in a look: a user who stops and continues processes faster than the LWK can be
 * told must not keep others' from being looked at. What changes meanwhile has a look to come.
 */
static void tell(struct hanare_space *space, u32 number)
{
	bool stopped;
	u32 slot;

	if (hanare_space_is_shared(space)) {
		while (hanare_space_stop_changed(space, number, hanare_is_stopped, &slot, &stopped))
			if (!tell_one(space, slot, stopped))
				hanare_space_stop_untold(space, slot, stopped);
		return;
	}
	stopped = hanare_is_stopped(space->pid);
	if (stopped != space->share.stopped && tell_one(space, 0, stopped))
		space->share.stopped = stopped;
}

/* Under rcu_read_lock: whether the LWK may have to be told something. */
static bool may_differ(struct hanare_space *space)
{
	return hanare_space_is_shared(space) || hanare_is_stopped(space->pid) != space->share.stopped;
}

static void look(struct work_struct *work)
{
	static u32 number;
	struct hanare_space *space;
	unsigned long id = 0;
	int left;

	number++;
	untold = false;
	for (;;) {
		rcu_read_lock();
		space = hanare_space_next(&id);
		while (space && !may_differ(space))
			space = hanare_space_next(&id);
		if (space && !kref_get_unless_zero(&space->ref)) {
			rcu_read_unlock();
			continue;
		}
		rcu_read_unlock();
		if (!space)
			break;
		tell(space, number);
		hanare_space_put(space);
	}
	left = atomic_dec_if_positive(&looks_left);
	if (left >= 0)
		queue_delayed_work(system_unbound_wq, &look_work,
				   msecs_to_jiffies(look_ms[ARRAY_SIZE(look_ms) - 1 - left]) ?: 1);
	else if (untold)
		queue_delayed_work(system_unbound_wq, &look_work, HZ);
}

/* Under the siglock of the task that takes the signal. */
static void changed(void)
{
	if (!hanare_spaces_any())
		return;
	atomic_set(&looks_left, ARRAY_SIZE(look_ms));
	mod_delayed_work(system_unbound_wq, &look_work, 0);
}

static void on_deliver(void *unused, int sig, struct kernel_siginfo *info, struct k_sigaction *ka)
{
	if (sig < SIGRTMIN && sig_kernel_stop(sig))
		changed();
}

static void on_generate(void *unused, int sig, struct kernel_siginfo *info,
			struct task_struct *task, int group, int result)
{
	if (sig == SIGCONT)
		changed();
}

/* The tasks of the group are told right after it. */
static void on_freeze(void *unused, struct cgroup *cgrp, const char *path)
{
	changed();
}

/* A task moves to another control group, which may be frozen. */
static void on_attach(void *unused, struct cgroup *cgrp, const char *path,
		      struct task_struct *task, bool threadgroup)
{
	changed();
}

static struct probe {
	const char *name;
	void *function;
	bool wanted;	/* not without it */
	struct tracepoint *tp;
} probes[] = {
	{ "signal_deliver", on_deliver, true },
	{ "signal_generate", on_generate, true },
	{ "cgroup_freeze", on_freeze },
	{ "cgroup_unfreeze", on_freeze },
	{ "cgroup_attach_task", on_attach },
};

/*
 * A tracer has let the signal through, and the LWK says that it is the end: a second stop for it
 * would be one too many. Only a process that ends by its default action asks for this. It ends the
 * first process of a pid namespace, too, as a fault of its own does on Linux.
 */
void hanare_last_signal(u32 signal)
{
	struct sighand_struct *sighand = hanare_own_handlers();

	if (!valid_signal(signal) || !signal)
		return;
	spin_lock_irq(&sighand->siglock);
	current->signal->flags &= ~SIGNAL_UNKILLABLE;
	if (!sig_kernel_only(signal) && sighand->action[signal - 1].sa.sa_handler == SIG_DFL)
		sighand->action[signal - 1].sa.sa_flags |= SA_IMMUTABLE;
	spin_unlock_irq(&sighand->siglock);
}

static void find(struct tracepoint *tp, void *unused)
{
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tp->name, probes[i].name) &&
		    !tracepoint_probe_register(tp, probes[i].function, NULL))
			probes[i].tp = tp;
}

void hanare_stop_init(void)
{
	for_each_kernel_tracepoint(find, NULL);
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		if (probes[i].wanted && !probes[i].tp)
			pr_warn("this Linux has no %s: stopped programs go on computing\n",
				probes[i].name);
}

void hanare_stop_exit(void)
{
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		if (probes[i].tp)
			tracepoint_probe_unregister(probes[i].tp, probes[i].function, NULL);
	tracepoint_synchronize_unregister();
	atomic_set(&looks_left, 0);
	cancel_delayed_work_sync(&look_work);
}
