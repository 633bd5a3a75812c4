// SPDX-License-Identifier: GPL-2.0
/*
 * Ends of spaces that the LWK has not confirmed: the task that ended could not ask it, since its user's share of the requests was
 * in use, or has not waited any longer. None of them is dropped: a work tells the LWK of each (CLOSE_TOLD), and asks on until
 * nothing of the space is left there, or the LWK is stopped. Until then the space's id is not used again.
 *
 * The answer to a close that is awaited (CLOSE_AWAITED) comes with the end of the last thread, which may wait for the end of
 * another space. So requests that are awaited might be all that a user may have, and wait for one that cannot be made. One that is
 * told is answered at once, and is charged to nobody: a CPU has one of them at most.
 */
#include "link/link.h"

#include <linux/slab.h>

/* Waited for each answer, before others are asked. */
#define ANSWER_MS 1000
#define LOOK_AGAIN HZ
/* A CPU that has not answered for so long does not: more than what a busy host keeps one from running. */
#define HUNG_AFTER (5 * HZ)

/* Set once, before there is a space. */
static void (*tell_confirmed)(u32 space) __ro_after_init;

void hanare_closes_init(void (*confirmed)(u32 space))
{
	tell_confirmed = confirmed;
}

/* The LWK has nothing of the space any more, or never will be asked again. */
static void confirm(struct hanare_unconfirmed *end)
{
	tell_confirmed(end->space);
	kfree(end);
}

/* Posts the request, unless the CPU has one. False: not now. */
static bool begin(struct hanare_instance *inst, struct hanare_unconfirmed *end, const struct hanare_call *call)
{
	struct hanare_cpu *cpu = end->next ?: hanare_quiet_cpu(inst);

	if (cpu->told)
		return false;
	end->entry = hanare_ask(inst, cpu, call);
	if (end->entry < 0)
		return false;
	end->cpu = cpu;
	end->due = jiffies + HUNG_AFTER;
	cpu->told = true;
	return true;
}

static void note_answer(struct hanare_instance *inst, struct hanare_unconfirmed *end, int status)
{
	end->entry = -1;
	end->cpu->told = false;
	end->due = jiffies + LOOK_AGAIN;
	spin_lock(&inst->closes_lock);
	/* It has answered whatever it was asked before this. */
	if (end->next == end->cpu)
		end->next = NULL;
	end->gone |= !status && !end->next;
	spin_unlock(&inst->closes_lock);
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
	note_answer(inst, end, err ?: call.status);
	if (was_late && !err && READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG)
		hanare_ping_all(inst, &ns);
}

/* Whether the end is confirmed, and nobody else asks for it. */
static bool is_done(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	bool is_done;

	spin_lock(&inst->closes_lock);
	is_done = end->gone && !end->held && end->entry < 0;
	spin_unlock(&inst->closes_lock);
	return is_done;
}

static void ask_all(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, close_work.work);
	struct hanare_unconfirmed *end, *next;
	LIST_HEAD(asked);
	bool is_left;

	spin_lock(&inst->closes_lock);
	list_splice_init(&inst->closes, &asked);
	spin_unlock(&inst->closes_lock);
	list_for_each_entry_safe(end, next, &asked, link) {
		if (!end->gone || end->entry >= 0)
			ask(inst, end);
		if (is_done(inst, end)) {
			list_del(&end->link);
			confirm(end);
		}
	}
	spin_lock(&inst->closes_lock);
	list_splice(&asked, &inst->closes);
	is_left = !list_empty(&inst->closes);
	spin_unlock(&inst->closes_lock);
	if (is_left && !READ_ONCE(inst->dead))
		queue_delayed_work(system_unbound_wq, &inst->close_work, LOOK_AGAIN);
}

void hanare_close_later(struct hanare_instance *inst, struct hanare_unconfirmed *end)
{
	end->entry = -1;
	end->due = jiffies;
	spin_lock(&inst->closes_lock);
	list_add_tail(&end->link, &inst->closes);
	spin_unlock(&inst->closes_lock);
	mod_delayed_work(system_unbound_wq, &inst->close_work, 0);
}

void hanare_close_asked(struct hanare_instance *inst, struct hanare_unconfirmed *end, struct hanare_cpu *cpu, int err)
{
	spin_lock(&inst->closes_lock);
	end->held = false;
	if (err == -ETIMEDOUT) {
		end->next = cpu;
		end->gone = false;
	} else if (!err) {
		end->gone = true;
	}
	spin_unlock(&inst->closes_lock);
}

void hanare_closes_start(struct hanare_instance *inst)
{
	u32 i;

	spin_lock_init(&inst->closes_lock);
	INIT_LIST_HEAD(&inst->closes);
	INIT_DELAYED_WORK(&inst->close_work, ask_all);
	for (i = 0; i < inst->cpu_count; i++)
		inst->cpus[i].told = false;
}

/* Also after a start that failed half-way. No space is left, and no CPU of the LWK runs any more. */
void hanare_closes_stop(struct hanare_instance *inst)
{
	struct hanare_unconfirmed *end, *next;

	if (!inst->close_work.work.func)
		return;
	cancel_delayed_work_sync(&inst->close_work);
	list_for_each_entry_safe(end, next, &inst->closes, link)
		confirm(end);
	INIT_LIST_HEAD(&inst->closes);
}
