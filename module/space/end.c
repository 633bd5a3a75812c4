// SPDX-License-Identifier: GPL-2.0
/* The ends of spaces. */
#include "space/space.h"

#include <linux/delay.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

/* How long the task that ends waits for the LWK. */
#define CLOSE_MS 20000
/* How often an ending process looks whether its memory map is still in use, every 50 to 200 us. */
#define ONLOOKER_LOOKS 100

/* A space has ended. Set once, before there is one. */
static void (*tell_end)(struct hanare_space *space) __ro_after_init;

void hanare_ends_init(void (*ended)(struct hanare_space *space))
{
	tell_end = ended;
}

/* The last step: after it the instance's memory may go. */
static void delist(struct hanare_space *space)
{
	struct hanare_instance *inst = space->inst;

	hanare_space_hide(space);
	hanare_space_drop_eventfds(space);
	spin_lock_irq(&inst->state_lock);
	list_del(&space->entry);
	space->link.home->link.spaces--;
	inst->spaces.count--;
	inst->spaces.members -= space->is_member;
	/* Woken under the lock: the waiter may free nothing before we let go. */
	wake_up_all(&inst->spaces.wait);
	spin_unlock_irq(&inst->state_lock);
}

/*
 * What the program has used counts as the proxy's own: for the parent that waits, for
 * getrusage(RUSAGE_CHILDREN) and process accounting. No thread of the proxy is left but this one,
 * which is about to end.
 */
static void account(struct hanare_space *space, const struct hanare_call *call)
{
	struct signal_struct *sig = current->signal;
	u64 user = call->args[0], system = call->args[1];
	unsigned long peak = min_t(u64, call->args[2] >> PAGE_SHIFT, LONG_MAX);
	/* An LWK gone mad must not make Linux' sums overflow. */
	const u64 limit = 1ULL << 60;

	if (task_tgid(current) != space->pid || !(current->flags & PF_EXITING) ||
	    user > limit || system > limit)
		return;
	write_seqlock_irq(&sig->stats_lock);
	sig->utime += user;
	sig->stime += system;
	sig->sum_sched_runtime += user + system;
	sig->maxrss = max(sig->maxrss, peak);
	write_sequnlock_irq(&sig->stats_lock);
}

/*
 * The LWK is asked until it has nothing of the space any more, whatever becomes of it here.
 * `awaited`: entry of the request that is not awaited any longer, or -1.
 */
static struct hanare_unconfirmed *close_later(struct hanare_space *space, struct hanare_cpu *next, int awaited, bool held)
{
	struct hanare_unconfirmed *end = space->end;

	space->end = NULL;
	end->space = space->id;
	hanare_space_keep_id(space);
	end->next = next;
	end->awaited = awaited;
	end->held = held;
	end->pid = get_pid(space->pid);
	end->user = space->user;
	end->pool = space->pool && !space->is_member ? hanare_pool_get(space->pool) : NULL;
	hanare_close_later(space->inst, end);
	return end;
}

void hanare_space_end_confirmed(struct hanare_unconfirmed *end)
{
	/* The task that ended has not been told which pooled proxy it leaves behind. */
	if (end->pool && end->has_used && !end->is_taken)
		hanare_pool_kill(end->pool, end->used[3], false);
	if (end->pool)
		hanare_pool_put(end->pool);
	put_pid(end->pid);
	hanare_space_let_kept_id_go(end->space);
}

/*
 * Has the LWK end the space, and waits until everything is back, not for ever. The entry of the
 * request is in use all that time. If the user has no entry left, the LWK is told in another way
 * first, since threads that the user's requests wait for may wait for this end; that way may find
 * that all is back before there is an entry.
 */
static int end_awaited(struct hanare_space *space, struct hanare_call *call, unsigned int patience_ms)
{
	struct hanare_instance *inst = space->inst;
	struct hanare_cpu *cpu = hanare_cpu_to_ask(space, call);
	struct hanare_unconfirmed *end;
	int err, awaited = -1;

	call->kept = &awaited;
	call->at_once = true;
	/* Not killable: the task that does this is being killed most of the time. */
	err = hanare_request(inst, cpu, call, WAIT_BOUNDED, patience_ms);
	if (err == -ETIMEDOUT || (err && err != -EBUSY && !READ_ONCE(inst->dead)))
		close_later(space, cpu, awaited, false);
	if (err != -EBUSY)
		return err ?: call->status;
	end = close_later(space, READ_ONCE(space->link.opened) ? NULL : space->link.home, -1, true);
	call->at_once = false;
	call->over = &end->gone;
	cpu = hanare_cpu_to_ask(space, call);
	err = hanare_request(inst, cpu, call, WAIT_BOUNDED, patience_ms);
	return hanare_close_asked(inst, end, cpu, awaited, call, err);
}

/*
 * The program is gone, and nothing of it is mapped. When this returns its
 * memory is free again (or the LWK does not answer). Only the first call counts.
 */
void hanare_space_end(struct hanare_space *space)
{
	struct hanare_instance *inst = space->inst;
	struct hanare_call call = { .kind = HANARE_REQUEST_SPACE_CLOSE, .space = space->id,
				     .args = { HANARE_CLOSE_AWAITED }, .charged = space };
	unsigned int patience_ms = READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG ? 1000 : CLOSE_MS;
	int err;

	if (test_and_set_bit(0, &space->ended))
		return;
	err = end_awaited(space, &call, patience_ms);
	/*
	 * No task holds the space: a thread of it does not end soon, or the CPU that was asked
	 * serves no requests (the tests hang one, with processes that run there), or its user's
	 * share of the requests is in use. Here the space goes all the same; the LWK is asked until
	 * its part is gone (link/closes.c), which also finds out whether it answers.
	 */
	if (err == -ETIMEDOUT || err == -EBUSY)
		pr_err_ratelimited("%s: space %u is not closed after %u s: %s\n", inst->name, space->id, patience_ms / 1000,
				   err == -EBUSY ? "its user has too many requests" :
				   space->is_member ? "the task that has the proxy is at work" :
				   "the LWK has not ended all threads");
	if (!err) {
		account(space, &call);
		if (space->pool)
			hanare_pool_kill(space->pool, call.args[3], true);
	}
	hanare_space_unwatch_process(space);
	hanare_space_unshare(space);
	hanare_space_unwatch_all(space);
	if (!hanare_space_has_children(space))
		hanare_space_put_files(space);
	tell_end(space);
	delist(space);
	hanare_space_keep_for_children(space);
	hanare_space_end_limits(space);
}

/*
 * A task that looks at the memory of a process (/proc, process_vm_readv) has its memory map for a
 * moment. Where the process ends just then, or has another program, it waits for that task: else
 * others would be told first, and find its program not to be written yet, its files open and its
 * memory in use.
 */
static void await_onlookers(struct hanare_space *space)
{
	bool ends = current->flags & PF_EXITING && !atomic_read(&current->signal->live);
	bool has_left = READ_ONCE(space->share.left) && current->mm != space->mm;
	int looks;

	if (!(ends || has_left) || task_tgid(current) != space->pid || hanare_space_is_shared(space))
		return;
	for (looks = 0; looks < ONLOOKER_LOOKS && atomic_read(&space->mm->mm_users); looks++)
		usleep_range(50, 200);
}

/*
 * A descriptor closes, perhaps not the last (a child of a fork has the same until it has
 * its own, and must not delay its parent's end), or the process is gone (share.c). Without
 * users the memory map is gone, or going: what may be left of ours is removed first.
 */
void hanare_space_flush(struct hanare_space *space)
{
	await_onlookers(space);
	if (atomic_read(&space->mm->mm_users) || test_bit(0, &space->ended) ||
	    hanare_space_is_left(space))
		return;
	hanare_zap(space, HANARE_USER_MIN, HANARE_MESSAGES_END);
	hanare_space_end(space);
}

