// SPDX-License-Identifier: GPL-2.0
/*
 * Ends of spaces that the LWK has not confirmed. The task that ended could not ask it, since its
 * user's share of the requests was in use, or has not waited any longer. None of them is dropped: a
 * work tells the LWK of each (CLOSE_TOLD), and asks on until nothing of the space is left there, or
 * the LWK is stopped. Until then the space's id is not used again.
 *
 * The answer to a close that is awaited (CLOSE_AWAITED) comes with the end of the last thread,
 * which may wait for the end of another space. So requests that are awaited might be all that a
 * user may have, and wait for one that cannot be made. One that is told is answered at once, and is
 * charged to no user: a CPU has one of them at most.
 *
 * A close that was awaited for too long keeps its entry: the answer has the use of the space, which
 * the LWK tells once.
 */
#include "link/link.h"

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

/* Waited for each answer, before others are asked. */
#define ANSWER_MS 1000
#define LOOK_AGAIN HZ
/* A CPU silent for so long counts as hung: a busy host keeps a CPU from running for less. */
#define HUNG_AFTER (5 * HZ)

/* Set once, before there is a space. */
static void (*tell_confirmed)(struct hanare_unconfirmed *end) __ro_after_init;

void hanare_closes_init(void (*confirmed)(struct hanare_unconfirmed *end))
{
	tell_confirmed = confirmed;
}

/* The LWK has nothing of the space any more, or never will be asked again. */
static void confirm(struct hanare_unconfirmed *end)
{
	tell_confirmed(end);
	kfree(end);
}

/* For how long it has left requests without an answer. */
static unsigned long silent_for(struct hanare_cpu *cpu)
{
	return atomic_read(&cpu->link.asked) ? jiffies - READ_ONCE(cpu->link.silent_since) : 0;
}

/*
 * The CPU to tell an end: the one that is disturbed least. If that one has an end to answer, or is
 * silent, another one that is not; if all are, the one that has answered last. NULL: that one has
 * an end to answer. So a CPU that does not answer keeps back neither the other ends nor this one.
 */
static struct hanare_cpu *whom_to_tell(struct hanare_instance *inst)
{
	struct hanare_cpu *best = hanare_quiet_cpu(inst);
	u32 i;

	for (i = 0; i < inst->cpu_count; i++) {
		struct hanare_cpu *cpu = &inst->cpus[i];

		if (!best->link.told && silent_for(best) < HZ)
			break;
		if (silent_for(cpu) < HZ ? !cpu->link.told || silent_for(best) >= HZ : silent_for(cpu) < silent_for(best))
			best = cpu;
	}
	return best->link.told ? NULL : best;
}

/* Posts the request, unless the CPU has one. False: not now. */
static bool begin(struct hanare_instance *inst, struct hanare_unconfirmed *end, const struct hanare_call *call)
{
	struct hanare_cpu *cpu = end->next ?: whom_to_tell(inst);
	int entry;

	if (!cpu || cpu->link.told) /* `next` may have one, too */
		return false;
	entry = hanare_ask(inst, cpu, call);
	if (entry < 0)
		return false;
	cpu->link.told = true;
	end->due = jiffies + HUNG_AFTER;
	/* One step for tell_next, which asks the CPU of an end with an entry. */
	spin_lock(&inst->link.closes_lock);
	end->cpu = cpu;
	end->entry = entry;
	spin_unlock(&inst->link.closes_lock);
	return true;
}

/* Under closes_lock. */
static void note_used(struct hanare_unconfirmed *end, const struct hanare_call *call)
{
	if (end->has_used)
		return;
	memcpy(end->used, call->args, sizeof(end->used));
	end->has_used = true;
}

static void note_answer(struct hanare_instance *inst, struct hanare_unconfirmed *end, const struct hanare_call *call,
			int err)
{
	int status = err ?: call->status;
	/* -ESRCH: the LWK has not even the space's use, which another answer has had. */
	bool is_back = !err && (!status || status == -ESRCH);

	end->cpu->link.told = false;
	end->due = jiffies + LOOK_AGAIN;
	spin_lock(&inst->link.closes_lock);
	end->entry = -1;
	end->threads = status == -EINPROGRESS ? call->args[0] : 0;
	end->tid = end->threads ? call->args[1] : 0;
	/* It has answered whatever it was asked before this. */
	if (end->next == end->cpu)
		end->next = NULL;
	/* The LWK keeps what the space has used until it has said so once. */
	if (!status)
		note_used(end, call);
	if (is_back && !end->next)
		WRITE_ONCE(end->gone.is_over, true);
	spin_unlock(&inst->link.closes_lock);
	/* It is there still: the caller alone removes it. */
	if (is_back)
		wake_up_all(&end->gone.wq);
}

static void ask(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_CLOSE,
		.space = end->space,
		.args = { HANARE_CLOSE_TOLD },
		.at_once = true,
	};
	bool was_late = end->entry >= 0;
	u64 ns;
	int err;

	if (!was_late && (time_before(jiffies, end->due) || !begin(inst, end, &call)))
		return;
	err = hanare_asked(inst, end->entry, &call, was_late ? 1 : ANSWER_MS);
	if (err == -ETIMEDOUT) {
		if (time_after(jiffies, end->due))
			hanare_does_not_answer(inst);
		return;
	}
	note_answer(inst, end, &call, err);
	if (was_late && !err && READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG)
		hanare_ping_all(inst, &ns);
}

/* Of an answer for which the task has not waited: it comes with the end of the space. */
static void look_at_awaited(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	struct hanare_call call = {};
	int err;

	if (end->awaited < 0 ||
	    !(hanare_request_is_done(&inst->link.requests[end->awaited].state) || READ_ONCE(inst->dead)))
		return;
	err = hanare_asked(inst, end->awaited, &call, 1);
	if (err == -ETIMEDOUT)
		return;
	spin_lock(&inst->link.closes_lock);
	end->awaited = -1;
	if (!err && !call.status)
		note_used(end, &call);
	spin_unlock(&inst->link.closes_lock);
}

/* Whether the end is confirmed, and no other task asks for it. */
static bool is_done(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	bool is_done;

	spin_lock(&inst->link.closes_lock);
	is_done = end->gone.is_over && !end->held && end->entry < 0 && end->awaited < 0;
	spin_unlock(&inst->link.closes_lock);
	return is_done;
}

/* The end behind that one, or the first one. Only the caller removes any. */
static struct hanare_unconfirmed *behind(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	struct list_head *next;

	spin_lock(&inst->link.closes_lock);
	next = end ? end->link.next : inst->link.closes.next;
	spin_unlock(&inst->link.closes_lock);
	return next == &inst->link.closes ? NULL : list_entry(next, struct hanare_unconfirmed, link);
}

/* The caller has it alone from now on. */
static void remove(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	spin_lock(&inst->link.closes_lock);
	list_del(&end->link);
	spin_unlock(&inst->link.closes_lock);
}

static void ask_all(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, link.close_work.work);
	struct hanare_unconfirmed *end, *next;

	for (end = behind(inst, NULL); end; end = next) {
		if (!end->gone.is_over || end->entry >= 0)
			ask(inst, end);
		look_at_awaited(inst, end);
		next = behind(inst, end);
		if (is_done(inst, end)) {
			remove(inst, end);
			confirm(end);
		}
	}
	if (behind(inst, NULL) && !READ_ONCE(inst->dead))
		queue_delayed_work(system_unbound_wq, &inst->link.close_work, LOOK_AGAIN);
}

/*
 * Tells of the next one by its space id: the caller's own, or any if the caller may trace all
 * processes.
 */
static bool tell_next(struct hanare_instance *inst, struct hanare_end_status *arg)
{
	struct hanare_unconfirmed *end, *next = NULL;
	/* Asked once, before the lock: security modules decide how long it takes. */
	bool sees_all = ns_capable_noaudit(&init_user_ns, CAP_SYS_PTRACE);

	spin_lock(&inst->link.closes_lock);
	list_for_each_entry(end, &inst->link.closes, link)
		if (end->space > arg->after && (!next || end->space < next->space) &&
		    (sees_all || uid_eq(current_euid(), end->user)))
			next = end;
	if (next) {
		arg->after = next->space;
		arg->pid = pid_vnr(next->pid);
		arg->cpu = next->entry >= 0 ? next->cpu->linux_cpu : HANARE_END_CPU_NONE;
		arg->waits = next->held;
		arg->threads = next->threads;
		arg->tid = next->tid;
		arg->since_ms = jiffies_to_msecs(jiffies - next->since);
	}
	spin_unlock(&inst->link.closes_lock);
	return next;
}

long hanare_do_end(struct hanare_file *hf, void *data)
{
	struct hanare_end_status *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	long err = -ENOENT;

	if (!inst)
		return -ENOENT;
	down_read(&inst->live);
	if (inst->reach.shared && tell_next(inst, arg))
		err = 0;
	up_read(&inst->live);
	hanare_instance_put(inst);
	return err;
}

void hanare_close_later(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	init_waitqueue_head(&end->gone.wq);
	end->entry = -1;
	end->due = jiffies;
	end->since = jiffies;
	spin_lock(&inst->link.closes_lock);
	list_add_tail(&end->link, &inst->link.closes);
	spin_unlock(&inst->link.closes_lock);
	mod_delayed_work(system_unbound_wq, &inst->link.close_work, 0);
}

int hanare_close_asked(struct hanare_instance *inst, struct hanare_unconfirmed *end, struct hanare_cpu *cpu,
		       int awaited, struct hanare_call *call, int err)
{
	err = err ?: call->status;
	/* The answer with the use is not noted yet: its entry, freed first, may be this one. */
	if (err == -ESRCH)
		wait_event_timeout(end->gone.wq, READ_ONCE(end->gone.is_over) || READ_ONCE(inst->dead), HUNG_AFTER);
	spin_lock(&inst->link.closes_lock);
	/* A CPU that has not answered may do so when the space's id is another one's. */
	if (err == -ETIMEDOUT) {
		end->next = cpu;
		end->awaited = awaited;
		end->gone.is_over = false;
	}
	/* The use that was kept counts, whatever the answer is. */
	if (end->has_used) {
		memcpy(call->args, end->used, sizeof(end->used));
		err = 0;
	}
	end->is_taken = !err;
	/* Last: it may be confirmed, and freed, from now on. */
	end->held = false;
	spin_unlock(&inst->link.closes_lock);
	return err;
}

void hanare_closes_start(struct hanare_instance *inst)
{
	u32 i;

	spin_lock_init(&inst->link.closes_lock);
	INIT_LIST_HEAD(&inst->link.closes);
	INIT_DELAYED_WORK(&inst->link.close_work, ask_all);
	for (i = 0; i < inst->cpu_count; i++)
		inst->cpus[i].link.told = false;
}

/* Also after a start that failed half-way. No space is left, and no CPU of the LWK runs. */
void hanare_closes_stop(struct hanare_instance *inst)
{
	struct hanare_unconfirmed *end, *next;

	if (!inst->link.close_work.work.func)
		return;
	cancel_delayed_work_sync(&inst->link.close_work);
	/* No other task is there: inst->live is held. */
	list_for_each_entry_safe(end, next, &inst->link.closes, link)
		confirm(end);
	INIT_LIST_HEAD(&inst->link.closes);
}
