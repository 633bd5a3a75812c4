// SPDX-License-Identifier: GPL-2.0
/*
 * Requests: what Linux asks of the LWK. Their pool, who may have how much of it, and waiting for
 * answers. Whatever the LWK writes is read once, checked, then used.
 */
#include "link/link.h"

#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/sched/signal.h>
#include <linux/user_namespace.h>
#include <asm/msr.h>
#include <asm/tsc.h>

/* What an answer that comes soon takes at most; a clock other than the TSC may take microseconds to read. */
#define SPIN_US 50

/* Ends of a user's processes of which the LWK is told at a time. */
#define ENDS_OF_USER 8

/* ---- the pool ---- */

/* Under pool_lock. */
static void pool_free(struct hanare_instance *inst, struct hanare_request_wait *wait)
{
	wait->abandoned = false;
	wait->busy = false;
	hanare_count_answer(wait);
	inst->link.pool_busy--;
	if (wait->share < HANARE_POOL_SHARES)
		inst->link.pool_of[wait->share]--;
}

/* From the doorbell's handler. */
void hanare_request_event(struct hanare_instance *inst, u64 index)
{
	struct hanare_request_wait *wait;
	bool freed = false;

	if (index >= HANARE_REQUESTS)
		return;
	wait = &inst->link.waits[index];
	/* Whoever finds an abandoned request done, this or the abandoner, frees it. */
	spin_lock(&inst->link.pool_lock);
	if (wait->abandoned &&
	    hanare_request_is_done(&inst->link.requests[index].state)) {
		pool_free(inst, wait);
		freed = true;
	}
	spin_unlock(&inst->link.pool_lock);
	if (freed)
		wake_up(&inst->link.pool_wait);
	else
		wake_up_all(&wait->wq);
}

kuid_t hanare_user_of_caller(void)
{
	const struct user_namespace *ns;
	kuid_t user = current_uid();

	/* Who makes a namespace has many ids in it, and is one user. */
	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	return user;
}

/*
 * Entries that a request leaves to others. A user gets one as long as he has less than half of
 * what is left: whoever comes finds one, though others do not get their answers. The ends of processes, and
 * what Linux wants of its own accord, find some even if there are very many users.
 */
static int pool_kept(const struct hanare_call *call)
{
	switch (call->kind) {
	case HANARE_REQUEST_INVALIDATE:
	case HANARE_REQUEST_STOP:
	case HANARE_REQUEST_CLOCK_SET:
	case HANARE_REQUEST_SPACE_PAUSE:
		return 0;
	case HANARE_REQUEST_SPACE_CLOSE:
		/* Not charged: it is answered at once, and there is one for each CPU at most (closes.c). */
		return call->charged ? 16 : 8;
	case HANARE_REQUEST_PROCESS_END:
	case HANARE_REQUEST_CHILD_END:
	case HANARE_REQUEST_SPACE_GROUPS:
	case HANARE_REQUEST_SPACE_LIMITS:
		return 16;
	default:
		return 32;
	}
}

/*
 * The share it is taken from; HANARE_POOL_SHARES: nobody's. A user's ends of processes have one
 * of their own: what his other requests wait for may wait for such an end.
 */
static u8 pool_share(const struct hanare_call *call)
{
	bool is_end = call->kind == HANARE_REQUEST_PROCESS_END || call->kind == HANARE_REQUEST_CHILD_END;
	kuid_t user;

	if (call->charged)
		user = call->charged->user;
	else if (pool_kept(call) == 32)
		user = hanare_user_of_caller();
	else
		return HANARE_POOL_SHARES;
	return hash_32(__kuid_val(user), ilog2(HANARE_POOL_USERS)) + (is_end ? HANARE_POOL_USERS : 0);
}

/* Under pool_lock. */
static bool pool_may_get(struct hanare_instance *inst, const struct hanare_call *call, u8 share)
{
	int left = HANARE_REQUESTS - pool_kept(call) - inst->link.pool_busy;

	if (share >= HANARE_POOL_SHARES)
		return left > 0;
	if (share >= HANARE_POOL_USERS)
		return left > 0 && inst->link.pool_of[share] < ENDS_OF_USER;
	return left > 2 * inst->link.pool_of[share];
}

static int pool_try_get(struct hanare_instance *inst, const struct hanare_call *call)
{
	u8 share = pool_share(call);
	int found = -1;
	u32 i;

	spin_lock_irq(&inst->link.pool_lock);
	if (!pool_may_get(inst, call, share))
		goto out;
	for (i = 0; i < HANARE_REQUESTS; i++) {
		u32 at = (inst->link.pool_hint + i) % HANARE_REQUESTS;

		if (inst->link.waits[at].busy)
			continue;
		inst->link.waits[at].busy = true;
		inst->link.waits[at].abandoned = false;
		inst->link.waits[at].share = share;
		inst->link.pool_busy++;
		if (share < HANARE_POOL_SHARES)
			inst->link.pool_of[share]++;
		inst->link.pool_hint = at + 1;
		found = at;
		break;
	}
out:
	spin_unlock_irq(&inst->link.pool_lock);
	return found;
}

static bool pool_have(struct hanare_instance *inst, const struct hanare_call *call, int *index)
{
	if (*index < 0)
		*index = pool_try_get(inst, call);
	return *index >= 0;
}

static void pool_put(struct hanare_instance *inst, int index)
{
	WRITE_ONCE(inst->link.requests[index].state, HANARE_REQUEST_FREE);
	spin_lock_irq(&inst->link.pool_lock);
	pool_free(inst, &inst->link.waits[index]);
	spin_unlock_irq(&inst->link.pool_lock);
	wake_up(&inst->link.pool_wait);
}

/* The waiter goes away before the answer: the doorbell handler frees the entry. */
static void abandon(struct hanare_instance *inst, int index)
{
	struct hanare_request *r = &inst->link.requests[index];
	bool done;

	spin_lock_irq(&inst->link.pool_lock);
	inst->link.waits[index].abandoned = true;
	done = hanare_request_abandon(&r->waiter, &r->state);
	if (done)
		pool_free(inst, &inst->link.waits[index]);
	spin_unlock_irq(&inst->link.pool_lock);
	if (done)
		wake_up(&inst->link.pool_wait);
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
		/* A doorbell may have been lost: look for ourselves. */	\
		hanare_drain(inst);						\
	}									\
	__err; })

/* -EBUSY: the deadline passed, and the LWK was not asked: all entries that it may have are taken. */
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
	index = pool_try_get(inst, call);
	if (index < 0) {
		if (call->at_once)
			return -EBUSY;
		err = sleep_until(inst, inst->link.pool_wait,
				  (call->is_over && READ_ONCE(*call->is_over)) || pool_have(inst, call, &index),
				  patience, deadline);
		if (err)
			return err == -ETIMEDOUT ? -EBUSY : err;
		if (index < 0)
			return -EALREADY;
	}
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
	inst->link.waits[index].cpu = cpu;
	if (atomic_inc_return(&cpu->asked) == 1)
		WRITE_ONCE(cpu->silent_since, jiffies);
	err = hanare_push(cpu, index);
	if (err) {
		pool_put(inst, index);
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
	pool_put(inst, index);
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

/* ---- whom to ask ---- */

/* How much a CPU of the LWK is disturbed by a request about a space; the least is asked. */
enum disturbance {
	NOBODY,			/* it looks by itself, and nobody else's thread is there */
	HALTED,
	OWN_THREAD,		/* interrupted: the space's own */
	OTHER_IN_KERNEL,	/* not interrupted: it looks before it goes on */
	OTHERS_IN_TURN,		/* interrupted, as by the timer that gives each its turn */
	ASKED,			/* more than that: it has others to answer, or is stuck */
	/* who is alone there, and enters the kernel by himself now and then: the more, the longer ago that was */
	OTHER_CALLS = 2 * ASKED,
	OTHER_CALLED = OTHER_CALLS + HZ / 5,	/* who has not for a while */
	OTHER_COMPUTES = OTHER_CALLS + 10 * HZ, /* who does not: only if on each CPU somebody computes */
};

/*
 * Jiffies since somebody there entered the kernel, as far as can be told, up to where he counts as one who computes. Who is
 * about to go on after a halt has entered it when that began, maybe long ago: its end counts as well. Where few entries came
 * since the last look they may be as old as that one.
 */
static int since_entry(struct hanare_cpu *cpu)
{
	const struct hanare_cpu_shared *shared = cpu->shared;
	unsigned long now = jiffies, looked = READ_ONCE(cpu->looked);
	u64 entries = READ_ONCE(shared->local_calls) + READ_ONCE(shared->delegated_calls) +
		      READ_ONCE(shared->exceptions) + READ_ONCE(shared->idle_cycles);
	u64 more = entries - READ_ONCE(cpu->entries);

	if (more) {
		WRITE_ONCE(cpu->entries, entries);
		WRITE_ONCE(cpu->entered, more > now - looked ? now : looked);
	}
	if (looked != now)
		WRITE_ONCE(cpu->looked, now);
	return min_t(unsigned long, now - READ_ONCE(cpu->entered), OTHER_COMPUTES - OTHER_CALLS);
}

/* `space`: what the request is about, or 0; `for_space`: it is of use to its threads. */
static int disturbance(struct hanare_cpu *cpu, u32 space, bool for_space)
{
	const struct hanare_cpu_shared *shared = cpu->shared;
	bool looks = READ_ONCE(shared->lwk_wait) == HANARE_WAIT_AWAKE;
	u32 current_space = READ_ONCE(shared->current_space);
	int found;

	if (looks && (!current_space || current_space == space))
		found = NOBODY;
	else if (!current_space || READ_ONCE(shared->idle_since))
		found = HALTED;
	else if (for_space && current_space == space)
		found = OWN_THREAD;
	else if (looks)
		found = OTHER_IN_KERNEL;
	else if (READ_ONCE(shared->crowded))
		found = OTHERS_IN_TURN;
	else
		found = OTHER_CALLS + since_entry(cpu);
	return found < ASKED && atomic_read(&cpu->asked) ? found + ASKED : found;
}

/* What the LWK writes there may be old when it is looked at: then somebody is interrupted for once. */
int hanare_disturbance(struct hanare_cpu *cpu, u32 space)
{
	return disturbance(cpu, space, true);
}

static bool runs(const struct hanare_cpu *cpu, const struct hanare_space *space)
{
	return space && READ_ONCE(cpu->shared->current_space) == space->id;
}

/* CPUs looked at, each a cache line from elsewhere, before one will do where nobody computes. */
#define LOOKS 16

/*
 * The CPU that a request disturbs least, or `first`, if that is not disturbed more; `space`: what it is about, or NULL;
 * `for_space`: it is of use to its threads, which it rather interrupts than others.
 */
static struct hanare_cpu *quietest(struct hanare_instance *inst, struct hanare_cpu *first,
				   struct hanare_space *space, bool for_space)
{
	u32 i, at = first - inst->machine.cpus, id = space ? space->id : 0;
	int least = disturbance(first, id, for_space);
	struct hanare_cpu *best = first;

	for (i = 1; least > NOBODY && i < inst->machine.cpu_count; i++) {
		struct hanare_cpu *cpu = &inst->machine.cpus[(at + i) % inst->machine.cpu_count];
		int found = disturbance(cpu, id, for_space);

		if (i >= LOOKS && least < OTHER_CALLS)
			break;
		/* Who is alone on a CPU is not interrupted for a program that is kept off that CPU. */
		if (space && found >= (for_space ? OTHER_CALLS : OTHER_CALLED) &&
		    !test_bit(cpu - inst->machine.cpus, space->link.allowed))
			continue;
		if (runs(cpu, space) && !runs(first, space))
			WRITE_ONCE(space->link.near, cpu);
		/* Who serves it may take memory near to himself. */
		if (found < least && (cpu->node == first->node || least >= ASKED)) {
			least = found;
			best = cpu;
		}
	}
	return best;
}

struct hanare_cpu *hanare_quiet_cpu(struct hanare_instance *inst)
{
	return quietest(inst, &inst->machine.cpus[0], NULL, false);
}

/*
 * Whether another process looks on (`hanare ps`, /proc): that interrupts one who enters the kernel all the time rather than the
 * one who is looked at, who may compute. Mappings are much to look at, which is the own CPU's to do.
 */
static bool is_onlookers(const struct hanare_space *space, const struct hanare_call *call)
{
	return call->kind == HANARE_REQUEST_INFO && task_tgid(current) != space->pid &&
	       (call->args[0] == HANARE_INFO_PROCESS || call->args[0] == HANARE_INFO_THREADS);
}

/*
 * A thread that computes is interrupted for its own space, or where all CPUs compute. Where nothing else decides, it
 * is where a thread of the space was last seen. What must not overtake an earlier request, for which nobody waits any
 * more, goes to the same CPU as that one.
 */
struct hanare_cpu *hanare_whom_to_ask(struct hanare_space *space, const struct hanare_call *call)
{
	struct hanare_cpu *near = READ_ONCE(space->link.near) ?: space->link.home;

	switch (call->kind) {
	case HANARE_REQUEST_SPACE_OPEN:
	case HANARE_REQUEST_SPACE_START:
	case HANARE_REQUEST_PROCESS_END:
	case HANARE_REQUEST_CHILD_END:
		return space->link.home;
	case HANARE_REQUEST_SPACE_PAUSE:
		if (call->in_order)
			return space->link.home;
		fallthrough;
	case HANARE_REQUEST_SPACE_CLOSE:
	case HANARE_REQUEST_OBSERVE:
		/* Somebody who was killed may have left one of these behind. */
		if (!READ_ONCE(space->link.opened))
			return space->link.home;
		break;
	case HANARE_REQUEST_SPACE_GROUPS:
		if (call->in_order)
			return space->link.home;
		/* Told once more: no thread waits for it, so the space's own is not interrupted either while it computes. */
		return quietest(space->inst, near, NULL, false);
	}
	return quietest(space->inst, near, space, !is_onlookers(space, call));
}

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
 * The LWK is to serve these one after the other: while one is asked for, others go to the same CPU. One that was given up
 * may still be served, until that CPU has answered all that it was asked.
 */
static int request_in_order(struct hanare_space *space, struct hanare_order *order, struct hanare_call *call,
			    enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_cpu *cpu;
	int err;

	spin_lock(&space->link.lock);
	if (order->asked == order->lost && !(order->asked && atomic_read(&order->at->asked))) {
		order->asked = 0;
		order->lost = 0;
		order->at = hanare_whom_to_ask(space, call);
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
	return hanare_request(space->inst, hanare_whom_to_ask(space, call), call, patience, timeout_ms);
}

int hanare_request_about(struct hanare_space *space, struct hanare_call *call,
			 enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_instance *inst = space->inst;
	int err = -EIO;

	down_read(&inst->live);
	if (inst->reach.shared && !READ_ONCE(inst->dead))
		err = hanare_request_quietly(space, call, patience, timeout_ms);
	up_read(&inst->live);
	return err;
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

/* -EBUSY, at once: no entry is left. */
int hanare_post_about(struct hanare_space *space, struct hanare_call *call)
{
	struct hanare_instance *inst = space->inst;
	int err = -EIO;

	call->space = space->id;
	down_read(&inst->live);
	if (inst->reach.shared && !READ_ONCE(inst->dead))
		err = post(inst, hanare_whom_to_ask(space, call), call, 0);
	up_read(&inst->live);
	return err;
}
