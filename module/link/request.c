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

#define SPIN_NS 50000

/* ---- the pool ---- */

/* Under pool_lock. */
static void pool_free(struct hanare_instance *inst, struct hanare_request_wait *wait)
{
	wait->abandoned = false;
	wait->busy = false;
	inst->pool_busy--;
	if (wait->user < HANARE_POOL_USERS)
		inst->pool_of[wait->user]--;
}

/* From the doorbell's handler. */
void hanare_request_event(struct hanare_instance *inst, u64 index)
{
	struct hanare_request_wait *wait;
	bool freed = false;

	if (index >= HANARE_REQUESTS)
		return;
	wait = &inst->waits[index];
	/* Whoever finds an abandoned request done, this or the abandoner, frees it. */
	spin_lock(&inst->pool_lock);
	if (wait->abandoned &&
	    smp_load_acquire(&inst->requests[index].state) == HANARE_REQUEST_DONE) {
		pool_free(inst, wait);
		freed = true;
	}
	spin_unlock(&inst->pool_lock);
	if (freed)
		wake_up(&inst->pool_wait);
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
static int pool_kept(u32 kind)
{
	switch (kind) {
	case HANARE_REQUEST_INVALIDATE:
	case HANARE_REQUEST_STOP:
	case HANARE_REQUEST_CLOCK_SET:
	case HANARE_REQUEST_SPACE_PAUSE:
		return 0;
	case HANARE_REQUEST_SPACE_CLOSE:
	case HANARE_REQUEST_PROCESS_END:
	case HANARE_REQUEST_SPACE_GROUPS:
		return 16;
	default:
		return 32;
	}
}

/* Whose share it is taken from: HANARE_POOL_USERS: nobody's. */
static u8 pool_user(const struct hanare_call *call)
{
	kuid_t user;

	if (call->charged)
		user = call->charged->user;
	else if (pool_kept(call->kind) == 32)
		user = hanare_user_of_caller();
	else
		return HANARE_POOL_USERS;
	return hash_32(__kuid_val(user), ilog2(HANARE_POOL_USERS));
}

/* Under pool_lock. */
static bool pool_may_get(struct hanare_instance *inst, u32 kind, u8 user)
{
	int left = HANARE_REQUESTS - pool_kept(kind) - inst->pool_busy;

	return left > (user < HANARE_POOL_USERS ? 2 * inst->pool_of[user] : 0);
}

static int pool_try_get(struct hanare_instance *inst, const struct hanare_call *call)
{
	u8 user = pool_user(call);
	int found = -1;
	u32 i;

	spin_lock_irq(&inst->pool_lock);
	if (!pool_may_get(inst, call->kind, user))
		goto out;
	for (i = 0; i < HANARE_REQUESTS; i++) {
		u32 at = (inst->pool_hint + i) % HANARE_REQUESTS;

		if (inst->waits[at].busy)
			continue;
		inst->waits[at].busy = true;
		inst->waits[at].abandoned = false;
		inst->waits[at].user = user;
		inst->pool_busy++;
		if (user < HANARE_POOL_USERS)
			inst->pool_of[user]++;
		inst->pool_hint = at + 1;
		found = at;
		break;
	}
out:
	spin_unlock_irq(&inst->pool_lock);
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
	WRITE_ONCE(inst->requests[index].state, HANARE_REQUEST_FREE);
	spin_lock_irq(&inst->pool_lock);
	pool_free(inst, &inst->waits[index]);
	spin_unlock_irq(&inst->pool_lock);
	wake_up(&inst->pool_wait);
}

/* The waiter goes away before the answer: the doorbell handler frees the entry. */
static void abandon(struct hanare_instance *inst, int index)
{
	struct hanare_request *r = &inst->requests[index];
	bool done;

	spin_lock_irq(&inst->pool_lock);
	inst->waits[index].abandoned = true;
	WRITE_ONCE(r->waiter, HANARE_WAIT_GONE);
	smp_mb();
	done = smp_load_acquire(&r->state) == HANARE_REQUEST_DONE;
	if (done)
		pool_free(inst, &inst->waits[index]);
	spin_unlock_irq(&inst->pool_lock);
	if (done)
		wake_up(&inst->pool_wait);
}

static bool done(struct hanare_request *r)
{
	return smp_load_acquire(&r->state) == HANARE_REQUEST_DONE;
}

static bool spin_for(struct hanare_request *r)
{
	u64 end = ktime_get_ns() + SPIN_NS;

	do {
		if (done(r))
			return true;
		cpu_relax();
	} while (!need_resched() && ktime_get_ns() < end);
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
		err = sleep_until(inst, inst->pool_wait, pool_have(inst, call, &index),
				  patience, deadline);
		if (err)
			return err == -ETIMEDOUT ? -EBUSY : err;
	}
	r = &inst->requests[index];
	r->waiter = HANARE_WAIT_AWAKE;
	r->kind = call->kind;
	r->space = call->space;
	r->status = 0;
	r->count = 0;
	memcpy(r->args, call->args, sizeof(r->args));
	for (i = 0; i < min_t(u32, call->data_words, HANARE_PAGES_MAX); i++)
		r->pages[i] = call->data[i];
	smp_store_release(&r->state, HANARE_REQUEST_POSTED);
	err = hanare_push(cpu, index);
	if (err) {
		pool_put(inst, index);
		return err;
	}
	return index;
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
	unsigned long deadline = timeout_ms ? (jiffies + msecs_to_jiffies(timeout_ms)) ?: 1 : 0;
	int index = request_begin(inst, cpu, call, patience, deadline);
	struct hanare_request *r;
	int err, i;

	if (index < 0)
		return index;
	r = &inst->requests[index];
	if (!spin_for(r)) {
		WRITE_ONCE(r->waiter, HANARE_WAIT_ASLEEP);
		smp_mb();
		err = sleep_until(inst, inst->waits[index].wq, done(r), patience, deadline);
		if (err) {
			abandon(inst, index);
			return err;
		}
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

int hanare_request_about(struct hanare_space *space, struct hanare_call *call,
			 enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_instance *inst = space->inst;
	int err = -EIO;

	call->space = space->id;
	down_read(&inst->live);
	if (inst->shared && !READ_ONCE(inst->dead))
		err = hanare_request(inst, space->home, call, patience, timeout_ms);
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
	if (inst->shared && !READ_ONCE(inst->dead))
		err = post(inst, space->home, call, 0);
	up_read(&inst->live);
	return err;
}
