// SPDX-License-Identifier: GPL-2.0
/*
 * Requests: what Linux asks of the LWK. Whose share an entry is of (shares.h has the table), and
 * waiting for answers. Whatever the LWK writes is read once, checked, then used.
 */
#include "link/link.h"

#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/sched/signal.h>
#include <linux/user_namespace.h>
#include <asm/msr.h>
#include <asm/tsc.h>

/*
 * What an answer that comes soon takes at most; a clock other than the TSC may take microseconds to
 * read.
 */
#define SPIN_US 50

/* ---- the table ---- */

/* Under entry_lock: an entry is free, and goes to a waiting task. */
static void entry_free(struct hanare_instance *inst, int index)
{
	struct hanare_request_wait *wait = &inst->link.waits[index];
	struct hanare_asker *asker;

	wait->abandoned = false;
	hanare_count_answer(wait);
	hanare_entry_return(inst->link.shares, index);
	/* Woken under the lock, without which no waiter goes on: the asker is on its stack. */
	while ((asker = hanare_entry_hand_on(inst->link.shares)))
		wake_up_all(container_of(asker, struct hanare_entry_wait, asker)->wq);
}

/* From the doorbell's handler. */
void hanare_request_event(struct hanare_instance *inst, u64 index)
{
	struct hanare_request_wait *wait;
	bool is_over;

	if (index >= HANARE_REQUESTS)
		return;
	wait = &inst->link.waits[index];
	/* The task that finds an abandoned request done, this one or the abandoner, frees it. */
	spin_lock(&inst->link.entry_lock);
	is_over = wait->abandoned && hanare_request_is_done(&inst->link.requests[index].state);
	if (is_over)
		entry_free(inst, index);
	spin_unlock(&inst->link.entry_lock);
	if (!is_over)
		wake_up_all(&wait->wq);
}

kuid_t hanare_user_of_caller(void)
{
	const struct user_namespace *ns;
	kuid_t user = current_uid();

	/* The maker of a namespace has many ids in it, and is one user. */
	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	return user;
}

/* Ends of processes, and what Linux wants itself, find an entry however many users there are. */
static enum hanare_urgency urgency_of(const struct hanare_call *call)
{
	switch (call->kind) {
	case HANARE_REQUEST_INVALIDATE:
	case HANARE_REQUEST_STOP:
	case HANARE_REQUEST_CLOCK_SET:
	case HANARE_REQUEST_SPACE_PAUSE:
		return HANARE_ASKS_FIRST;
	case HANARE_REQUEST_SPACE_CLOSE:
		/* Not charged: it is answered at once, and each CPU has one at most (closes.c). */
		return call->charged ? HANARE_ASKS_END : HANARE_ASKS_TOLD_CLOSE;
	case HANARE_REQUEST_PROCESS_END:
	case HANARE_REQUEST_CHILD_END:
	case HANARE_REQUEST_SPACE_GROUPS:
	case HANARE_REQUEST_SPACE_LIMITS:
		return HANARE_ASKS_END;
	default:
		return HANARE_ASKS_LAST;
	}
}

/*
 * The share it is taken from. A user's ends of processes have one of their own: what the user's
 * other requests wait for may wait for such an end.
 */
static u8 share_of(const struct hanare_call *call)
{
	bool is_end = call->kind == HANARE_REQUEST_PROCESS_END || call->kind == HANARE_REQUEST_CHILD_END;
	kuid_t user;

	if (call->charged)
		user = call->charged->user;
	else if (urgency_of(call) == HANARE_ASKS_LAST)
		user = hanare_user_of_caller();
	else
		return HANARE_SHARE_OF_LINUX;
	return hash_32(__kuid_val(user), ilog2(HANARE_SHARE_USERS)) + (is_end ? HANARE_SHARE_OF_ENDS : 0);
}

/* The LWK has answered, or was not asked. */
static void entry_put(struct hanare_instance *inst, int index)
{
	WRITE_ONCE(inst->link.requests[index].state, HANARE_REQUEST_FREE);
	spin_lock_irq(&inst->link.entry_lock);
	entry_free(inst, index);
	spin_unlock_irq(&inst->link.entry_lock);
}

/* The waiter goes away before the answer: the doorbell handler frees the entry. */
static void abandon(struct hanare_instance *inst, int index)
{
	struct hanare_request *r = &inst->link.requests[index];

	spin_lock_irq(&inst->link.entry_lock);
	inst->link.waits[index].abandoned = true;
	if (hanare_request_abandon(&r->waiter, &r->state))
		entry_free(inst, index);
	spin_unlock_irq(&inst->link.entry_lock);
}

static bool done(struct hanare_request *r)
{
	return hanare_request_is_done(&r->state);
}

static bool spin_for(struct hanare_request *r)
{
	u64 begin = hanare_cycles(), cycles = hanare_cycles_of_us(SPIN_US);

	do {
		if (done(r))
			return true;
		cpu_relax();
	} while (!need_resched() && hanare_cycles() - begin < cycles);
	return done(r);
}

/* One of those that wait looks, however many they are. */
static void look_for_lost_doorbell(struct hanare_instance *inst)
{
	unsigned long looked = READ_ONCE(inst->link.looked);

	if (time_after_eq(jiffies, looked + HANARE_RECHECK / 2) && cmpxchg(&inst->link.looked, looked, jiffies) == looked)
		hanare_drain(inst);
}

/* Sleep until `condition`, the instance's death, a kill or the deadline. */
#define sleep_until(inst, wq, condition, patience, deadline) ({			\
	int __err = 0;								\
	for (;;) {								\
		long __left = (deadline) ? (long)((deadline) - jiffies) : MAX_SCHEDULE_TIMEOUT; \
		long __nap = clamp(__left, 1L, (long)HANARE_RECHECK);		\
		long __woke;							\
		if ((patience) == WAIT_KILLABLE)				\
			__woke = wait_event_killable_timeout(wq,			\
				(condition) || READ_ONCE((inst)->dead), __nap);	\
		else								\
			__woke = wait_event_timeout(wq,				\
				(condition) || READ_ONCE((inst)->dead), __nap);	\
		if (condition)							\
			break;							\
		__err = READ_ONCE((inst)->dead);				\
		if (!__err && __woke < 0)					\
			__err = -EINTR;						\
		if (!__err && __left <= 0)					\
			__err = -ETIMEDOUT;					\
		if (__err)							\
			break;							\
		look_for_lost_doorbell(inst);					\
	}									\
	__err; })

/* Whether the caller has an entry, which is in asker->entry. Else it waits for one, if `waits`. */
static bool entry_get(struct hanare_instance *inst, struct hanare_asker *asker, bool waits)
{
	bool has;

	spin_lock_irq(&inst->link.entry_lock);
	has = hanare_entry_take(inst->link.shares, asker);
	if (!has && waits)
		hanare_entry_await(inst->link.shares, asker);
	spin_unlock_irq(&inst->link.entry_lock);
	return has;
}

/*
 * An entry of the table, or why there is none. -EBUSY: the deadline passed, all that the call may
 * have are taken; -EALREADY: it is over. A task that was given one after that has it all the same.
 */
static int entry_wait(struct hanare_instance *inst, const struct hanare_call *call,
		      enum hanare_patience patience, unsigned long deadline)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(own);
	struct hanare_entry_wait wait = { .wq = call->over ? &call->over->wq : &own };
	struct hanare_asker *asker = &wait.asker;
	bool forgone;
	int err;

	asker->entry = -1;
	asker->share = share_of(call);
	asker->urgency = urgency_of(call);
	if (entry_get(inst, asker, !call->at_once))
		return asker->entry;
	if (call->at_once)
		return -EBUSY;
	err = sleep_until(inst, *wait.wq, READ_ONCE(asker->entry) >= 0 || (call->over && READ_ONCE(call->over->is_over)),
			  patience, deadline);
	spin_lock_irq(&inst->link.entry_lock);
	forgone = hanare_entry_forgo(inst->link.shares, asker);
	spin_unlock_irq(&inst->link.entry_lock);
	if (!forgone)
		return asker->entry;
	return !err ? -EALREADY : err == -ETIMEDOUT ? -EBUSY : err;
}

/* Its answer comes when all threads of the space have ended: whenever that is, its CPU is well. */
static bool waits_for_threads(const struct hanare_call *call)
{
	return call->kind == HANARE_REQUEST_SPACE_CLOSE && call->args[0] == HANARE_CLOSE_AWAITED;
}

/* -EBUSY: the deadline passed, and the LWK was not asked: all entries it may have are taken. */
static int request_begin(struct hanare_instance *inst, struct hanare_cpu *cpu,
			 const struct hanare_call *call, enum hanare_patience patience,
			 unsigned long deadline)
{
	struct hanare_request *r;
	int index, err;
	u32 i;

	err = READ_ONCE(inst->dead);
	if (err)
		return err;
	index = entry_wait(inst, call, patience, deadline);
	if (index < 0)
		return index;
	r = &inst->link.requests[index];
	r->waiter = HANARE_WAIT_AWAKE;
	r->kind = call->kind;
	r->space = call->space;
	r->status = 0;
	r->count = 0;
	memcpy(r->args, call->args, sizeof(r->args));
	for (i = 0; i < min_t(u32, call->data_words, HANARE_PAGES_MAX); i++)
		r->pages[i] = call->data[i];
	if (call->cpus)
		bitmap_to_arr64(r->cpus.words, call->cpus, HANARE_CPU_SET_CPUS);
	hanare_request_publish(&r->state);
	if (!waits_for_threads(call)) {
		inst->link.waits[index].cpu = cpu;
		if (atomic_inc_return(&cpu->link.asked) == 1)
			WRITE_ONCE(cpu->link.silent_since, jiffies);
	}
	err = hanare_push(cpu, index);
	if (err) {
		entry_put(inst, index);
		return err;
	}
	return index;
}

static unsigned long deadline_in(unsigned int timeout_ms)
{
	return timeout_ms ? (jiffies + msecs_to_jiffies(timeout_ms)) ?: 1 : 0;
}

/* Waits for the answer to a request, whose entry is free after that. An error: it is not. */
static int request_end(struct hanare_instance *inst, int index, struct hanare_call *call,
		       enum hanare_patience patience, unsigned long deadline)
{
	struct hanare_request *r = &inst->link.requests[index];
	int err, i;

	if (!spin_for(r)) {
		WRITE_ONCE(r->doorbell, hanare_doorbell_here(inst));
		hanare_request_sleep(&r->waiter);
		err = sleep_until(inst, inst->link.waits[index].wq, done(r), patience, deadline);
		if (err)
			return err;
	}
	call->status = READ_ONCE(r->status);
	call->count = min_t(u32, READ_ONCE(r->count), HANARE_PAGES_MAX);
	for (i = 0; i < 4; i++)
		call->args[i] = READ_ONCE(r->args[i]);
	for (i = 0; call->pages && i < call->count; i++)
		call->pages[i] = READ_ONCE(r->pages[i]);
	entry_put(inst, index);
	return 0;
}

/*
 * Ask the LWK and wait. 0: it answered, call->status is its verdict. -EIO: it
 * is dead; -EINTR: killed; -ETIMEDOUT (timeout_ms 0: no limit): it did not answer; -EBUSY: it was
 * not asked in that time.
 */
int hanare_request(struct hanare_instance *inst, struct hanare_cpu *cpu,
		   struct hanare_call *call, enum hanare_patience patience,
		   unsigned int timeout_ms)
{
	unsigned long deadline = deadline_in(timeout_ms);
	int index = request_begin(inst, cpu, call, patience, deadline);
	int err;

	if (index < 0)
		return index;
	err = request_end(inst, index, call, patience, deadline);
	if (err == -ETIMEDOUT && call->kept)
		*call->kept = index;
	else if (err)
		abandon(inst, index);
	return err;
}

int hanare_ask(struct hanare_instance *inst, struct hanare_cpu *cpu, const struct hanare_call *call)
{
	return request_begin(inst, cpu, call, WAIT_BOUNDED, 1);
}

int hanare_asked(struct hanare_instance *inst, int index, struct hanare_call *call, unsigned int timeout_ms)
{
	int err = request_end(inst, index, call, WAIT_BOUNDED, deadline_in(timeout_ms));

	if (err && err != -ETIMEDOUT)
		abandon(inst, index);
	return err;
}

/* ---- requests about a space ---- */

/* What a request must not overtake others of; NULL: nothing, or it goes to the home. */
static struct hanare_order *order_of(struct hanare_space *space, const struct hanare_call *call)
{
	switch (call->kind) {
	case HANARE_REQUEST_FAULT:
		return &space->link.faults;
	case HANARE_REQUEST_OBSERVE:
		return &space->link.observations;
	case HANARE_REQUEST_SPACE_PAUSE:
		return call->in_order ? NULL : &space->link.pauses;
	}
	return NULL;
}

/*
 * The LWK is to serve these one after the other: while one is asked for, others go to the same CPU.
 * One that was given up may still be served, until that CPU has answered all that it was asked.
 */
static int request_in_order(struct hanare_space *space, struct hanare_order *order, struct hanare_call *call,
			    enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_cpu *cpu;
	int err;

	spin_lock(&space->link.lock);
	if (order->asked == order->lost && !(order->asked && atomic_read(&order->at->link.asked))) {
		order->asked = 0;
		order->lost = 0;
		order->at = hanare_cpu_to_ask(space, call);
	}
	order->asked++;
	cpu = order->at;
	spin_unlock(&space->link.lock);
	err = hanare_request(space->inst, cpu, call, patience, timeout_ms);
	spin_lock(&space->link.lock);
	if (!err || err == -EBUSY)	/* -EBUSY: it was not asked */
		order->asked--;
	else
		order->lost++;
	spin_unlock(&space->link.lock);
	return err;
}

int hanare_request_quietly(struct hanare_space *space, struct hanare_call *call,
			   enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_order *order = order_of(space, call);

	call->space = space->id;
	if (order)
		return request_in_order(space, order, call, patience, timeout_ms);
	return hanare_request(space->inst, hanare_cpu_to_ask(space, call), call, patience, timeout_ms);
}

/* Post without waiting for an answer. */
static int post(struct hanare_instance *inst, struct hanare_cpu *cpu, const struct hanare_call *call,
		unsigned int timeout_ms)
{
	int index = request_begin(inst, cpu, call, WAIT_BOUNDED,
				  (jiffies + msecs_to_jiffies(timeout_ms)) ?: 1);

	if (index < 0)
		return index;
	abandon(inst, index);
	return 0;
}

int hanare_post(struct hanare_instance *inst, struct hanare_cpu *cpu, u32 kind)
{
	struct hanare_call call = { .kind = kind };

	return post(inst, cpu, &call, 1000);
}

int hanare_post_quietly(struct hanare_space *space, struct hanare_call *call)
{
	call->space = space->id;
	return post(space->inst, hanare_cpu_to_ask(space, call), call, 0);
}
