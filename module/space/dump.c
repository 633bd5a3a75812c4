// SPDX-License-Identifier: GPL-2.0
/*
 * Core dumps. Linux itself writes them: the proxy maps what the program had, each
 * worker takes on its thread's registers, and the one whose thread crashed takes
 * the signal. So core_pattern, limits, permissions and the wait status are Linux'.
 */
#include "space/space.h"

#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/signal.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>

/* What a program may have set itself. */
#define USER_FLAGS (X86_EFLAGS_CF | X86_EFLAGS_PF | X86_EFLAGS_AF | X86_EFLAGS_ZF | \
		    X86_EFLAGS_SF | X86_EFLAGS_DF | X86_EFLAGS_OF | X86_EFLAGS_AC | \
		    X86_EFLAGS_ID)

struct registers_to_take {
	struct callback_head work;
	u64 regs[HANARE_DUMP_THREAD_REGS];
};

/*
 * On the way back to user mode, before a signal is taken: from here on the task
 * looks as if it had been interrupted there. It never gets there: a signal that
 * ends it is pending. If one were not, it would have these registers, as after
 * sigreturn.
 */
static void take_registers(struct callback_head *work)
{
	struct registers_to_take *p = container_of(work, struct registers_to_take, work);
	struct pt_regs *regs = task_pt_regs(current);
	const u64 *r = p->regs;

	regs->r15 = r[0];
	regs->r14 = r[1];
	regs->r13 = r[2];
	regs->r12 = r[3];
	regs->bp = r[4];
	regs->bx = r[5];
	regs->r11 = r[6];
	regs->r10 = r[7];
	regs->r9 = r[8];
	regs->r8 = r[9];
	regs->ax = r[10];
	regs->cx = r[11];
	regs->dx = r[12];
	regs->si = r[13];
	regs->di = r[14];
	regs->orig_ax = -1;
	regs->ip = r[15] < TASK_SIZE_MAX ? r[15] : 0;
	regs->flags = X86_EFLAGS_FIXED | X86_EFLAGS_IF | (r[16] & USER_FLAGS);
	regs->sp = r[17] < TASK_SIZE_MAX ? r[17] : 0;
	regs->cs = __USER_CS;
	regs->ss = __USER_DS;
	kfree(p);
}

/* The task that takes the signal, with what its program had as siginfo. */
static int take_signal(struct hanare_space *space, const struct hanare_dump_thread *arg)
{
	struct kernel_siginfo info;
	sigset_t set;
	int err;

	if (arg->signal > _NSIG || arg->others > HANARE_SLOTS_MAX)
		return -EINVAL;
	/* The others were told to take on registers and wait, and may be on their way. */
	wait_event_killable_timeout(space->rings.queues[0],
				    atomic_read(&space->program.dump_ready) >= arg->others, HZ);
	clear_siginfo(&info);
	memcpy(&info, arg->info, min(sizeof(info), sizeof(arg->info)));
	info.si_signo = arg->signal;
	hanare_last_signal(arg->signal);
	err = send_sig_info(arg->signal, &info, current);
	if (err)
		return err;
	siginitset(&set, 0);
	sigaddset(&set, arg->signal);
	return sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* The others stay here until the first one's signal ends them all. */
static int stay(struct hanare_space *space)
{
	atomic_inc(&space->program.dump_ready);
	wake_up_all(&space->rings.queues[0]);
	return wait_event_killable(space->rings.queues[0], READ_ONCE(space->inst->dead)) ?
	       -EINTR : -EIO;
}

long hanare_dump(struct hanare_space *space, void *data)
{
	WRITE_ONCE(space->program.dumps, true);
	/* The program's memory is a shared mapping of a device: such are dumped (core(5)). */
	hanare_dump_shared(current->mm);
	return 0;
}

long hanare_dump_thread(struct hanare_space *space, void *data)
{
	const struct hanare_dump_thread *arg = data;
	struct registers_to_take *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);
	int err;

	if (!p)
		return -ENOMEM;
	memcpy(p->regs, arg->regs, sizeof(p->regs));
	init_task_work(&p->work, take_registers);
	err = task_work_add(current, &p->work, TWA_RESUME);
	if (err) {
		kfree(p);
		return err;
	}
	return arg->signal ? take_signal(space, arg) : stay(space);
}
