// SPDX-License-Identifier: GPL-2.0
/*
 * Signals that a process sends itself on the LWK's account: a thread's worker took one that the
 * thread blocks by now, or another worker's call has to end. It is not the worker's own system
 * call, since a filter that the program sets does not know one process from another.
 */
#include "space/space.h"

#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/signalfd.h>

/* To one worker of a space, by the id that it has itself. */
long hanare_space_interrupt(struct hanare_space *space, u64 tid)
{
	struct task_struct *process = get_pid_task(space->pid, PIDTYPE_TGID), *thread;
	struct kernel_siginfo info;
	long err = -ESRCH;

	if (!process)
		return err;
	clear_siginfo(&info);
	info.si_signo = SIGBUS;
	info.si_code = HANARE_INTERRUPT_CODE;
	rcu_read_lock();
	for_each_thread(process, thread) {
		if (task_pid_nr_ns(thread, task_active_pid_ns(thread)) != tid)
			continue;
		err = send_sig_info(SIGBUS, &info, thread);
		break;
	}
	rcu_read_unlock();
	put_task_struct(process);
	return err;
}

/* Pending signals of one kind: the last one that was queued, or NULL. */
static struct sigqueue *last_of(struct sigpending *pending, int sig, bool *others)
{
	struct sigqueue *q, *found = NULL;

	*others = false;
	list_for_each_entry_reverse(q, &pending->list, list) {
		if (q->info.si_signo != sig)
			continue;
		if (found) {
			*others = true;
			break;
		}
		found = q;
	}
	return found;
}

/*
 * A signal that the LWK gives back was queued before all that is pending now: the one that was sent
 * last is the first. The lock of the signals is held.
 */
static void put_first(struct sigpending *pending, int sig)
{
	bool others;
	struct sigqueue *q = last_of(pending, sig, &others);

	if (q)
		list_move(&q->list, &pending->list);
}

static long to_thread(u32 tid, struct kernel_siginfo *info, bool first)
{
	struct pid *pid = find_get_pid(tid);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);
	long err = -ESRCH;

	if (task && same_thread_group(task, current))
		err = send_sig_info(info->si_signo, info, task);
	if (!err && first && task == current) {
		struct sighand_struct *sighand = hanare_own_handlers();

		spin_lock_irq(&sighand->siglock);
		put_first(&current->pending, info->si_signo);
		spin_unlock_irq(&sighand->siglock);
	}
	if (task)
		put_task_struct(task);
	put_pid(pid);
	return err;
}

/* What is pending for this thread alone becomes the process'. The lock of the signals is held. */
static void share(int sig)
{
	struct sigpending *own = &current->pending, *all = &current->signal->shared_pending;
	bool others;
	struct sigqueue *q = last_of(own, sig, &others);

	if (q)
		list_move_tail(&q->list, &all->list);
	if (!others)
		sigdelset(&own->signal, sig);
	sigaddset(&all->signal, sig);
	recalc_sigpending();
}

/*
 * Has a thread that does not block the signal look for it, as Linux' own signal_wake_up() would,
 * which is not exported. The lock is held.
 */
static void wake_taker(int sig)
{
	struct task_struct *t;

	if (!sigismember(&current->blocked, sig))
		return;
	for_each_thread(current, t) {
		if (t == current || sigismember(&t->blocked, sig) || (t->flags & PF_EXITING))
			continue;
		set_tsk_thread_flag(t, TIF_SIGPENDING);
		/* A thread that is about to sleep looks at the flag after it has said so. */
		smp_mb__after_atomic();
		if (READ_ONCE(t->__state) & TASK_INTERRUPTIBLE)
			wake_up_process(t);
		else
			kick_process(t);
		return;
	}
}

/*
 * No exported function sends a signal to a process and lets one say what it tells. So it is sent to
 * this thread, moved to what is pending for the process, and the thread that takes it is woken.
 */
static long to_process(struct kernel_siginfo *info, bool first)
{
	struct sighand_struct *sighand = hanare_own_handlers();
	int sig = info->si_signo;
	bool twice;
	long err;

	spin_lock_irq(&sighand->siglock);
	twice = sig < SIGRTMIN && sigismember(&current->signal->shared_pending.signal, sig);
	/* One that this thread alone has is another one: without what this one tells. */
	err = sig < SIGRTMIN && sigismember(&current->pending.signal, sig) ? -EEXIST : 0;
	spin_unlock_irq(&sighand->siglock);
	if (twice)
		return 0;
	if (err)
		return kill_pid(task_tgid(current), sig, 0);
	err = send_sig_info(sig, info, current);
	if (err)
		return err;
	spin_lock_irq(&sighand->siglock);
	/* Not where Linux has dropped it, since the process ignores it. */
	if (sigismember(&current->pending.signal, sig)) {
		share(sig);
		if (first)
			put_first(&current->signal->shared_pending, sig);
		wake_up(&sighand->signalfd_wqh);
		wake_taker(sig);
	}
	spin_unlock_irq(&sighand->siglock);
	return 0;
}

long hanare_send(struct hanare_space *space, void *data)
{
	const struct hanare_send *arg = data;
	struct kernel_siginfo info;

	if (!arg->signal || arg->signal > _NSIG || arg->is_back > 1 || arg->reserved)
		return -EINVAL;
	clear_siginfo(&info);
	memcpy(&info, arg->info, min(sizeof(info), sizeof(arg->info)));
	info.si_signo = arg->signal;
	if (arg->tid)
		return to_thread(arg->tid, &info, arg->is_back);
	return to_process(&info, arg->is_back);
}

/*
 * What sigaction(2) does for one signal: a system call for each of 60 would be a tenth of starting
 * a program.
 */
long hanare_forward(struct hanare_space *space, void *data)
{
	const struct hanare_forward *arg = data;
	struct sighand_struct *sighand = hanare_own_handlers();
	int sig;

	if (arg->signals & (rt_sigmask(SIGKILL) | rt_sigmask(SIGSTOP)) ||
	    arg->handler < PAGE_SIZE || arg->handler >= TASK_SIZE_MAX || arg->restorer >= TASK_SIZE_MAX)
		return -EINVAL;
	spin_lock_irq(&sighand->siglock);
	for (sig = 1; sig <= _NSIG; sig++) {
		struct sigaction *action = &sighand->action[sig - 1].sa;
		u64 bit = 1ULL << (sig - 1);

		/* As in sigaction(2): what is to end the process does. */
		if (action->sa_flags & SA_IMMUTABLE)
			continue;
		if (!(arg->signals & bit) || (action->sa_handler == SIG_IGN && !(arg->ignored_too & bit)))
			continue;
		action->sa_handler = (__sighandler_t)arg->handler;
		action->sa_flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK;
		action->sa_restorer = (__sigrestore_t)arg->restorer;
		siginitsetinv(&action->sa_mask, sigmask(SIGKILL) | sigmask(SIGSTOP));
	}
	spin_unlock_irq(&sighand->siglock);
	return 0;
}
