// SPDX-License-Identifier: GPL-2.0
/*
 * The CPU of the LWK that a request goes to. Some kinds have an order, and a CPU for it; all others
 * go where they disturb least.
 */
#include "link/link.h"

/* How much a CPU of the LWK is disturbed by a request about a space; the least is asked. */
enum disturbance {
	/* It is silent, and has the space's page table: a CPU that changes that waits for it. */
	STUCK_WITH_IT = -1,
	NOBODY,			/* it looks by itself, and no other space's thread is there */
	HALTED,
	OWN_THREAD,		/* interrupted: the space's own */
	OTHER_IN_KERNEL,	/* not interrupted: it looks before it goes on */
	OTHERS_IN_TURN,		/* interrupted, as by the timer that gives each its turn */
	ASKED,			/* more than that: it has others to answer, or is stuck */
	/* A thread is alone there, and enters the kernel now and then: more, the longer ago. */
	OTHER_CALLS = 2 * ASKED,
	OTHER_CALLED = OTHER_CALLS + HZ / 5,	/* it has not for a while */
	OTHER_COMPUTES = OTHER_CALLS + 10 * HZ, /* it does not: only if a thread computes on each CPU */
	SILENT,			/* it does not answer */
};

/*
 * Jiffies since a thread there entered the kernel, as far as can be told, up to where it counts as
 * one that computes. One that is about to go on after a halt entered it when that began, maybe long
 * ago: its end counts as well. Where few entries came since the last look they may be as old as
 * that one.
 */
static int since_entry(struct hanare_cpu *cpu)
{
	const struct hanare_cpu_shared *shared = cpu->shared;
	unsigned long now = jiffies, looked = READ_ONCE(cpu->link.looked);
	u64 entries = READ_ONCE(shared->local_calls) + READ_ONCE(shared->delegated_calls) +
		      READ_ONCE(shared->exceptions) + READ_ONCE(shared->idle_cycles);
	u64 more = entries - READ_ONCE(cpu->link.entries);

	if (more) {
		WRITE_ONCE(cpu->link.entries, entries);
		WRITE_ONCE(cpu->link.entered, more > now - looked ? now : looked);
	}
	if (looked != now)
		WRITE_ONCE(cpu->link.looked, now);
	return min_t(unsigned long, now - READ_ONCE(cpu->link.entered), OTHER_COMPUTES - OTHER_CALLS);
}

/* A CPU with requests that need no wait answers one of them sooner than this. */
#define SILENT_AFTER HZ

static bool is_silent(struct hanare_cpu *cpu)
{
	return atomic_read(&cpu->link.asked) && time_after(jiffies, READ_ONCE(cpu->link.silent_since) + SILENT_AFTER);
}

/* `space`: what the request is about, or 0; `for_space`: it is of use to its threads. */
static int disturbance(struct hanare_cpu *cpu, u32 space, bool for_space)
{
	const struct hanare_cpu_shared *shared = cpu->shared;
	bool looks = READ_ONCE(shared->lwk_wait) == HANARE_WAIT_AWAKE;
	u32 current_space = READ_ONCE(shared->current_space);
	int found;

	if (is_silent(cpu))
		return space && current_space == space ? STUCK_WITH_IT : SILENT;
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
	return found < ASKED && atomic_read(&cpu->link.asked) ? found + ASKED : found;
}

/* What the LWK writes may be old when it is looked at: then a thread is interrupted for once. */
int hanare_disturbance(struct hanare_cpu *cpu, u32 space)
{
	return disturbance(cpu, space, true);
}

static bool runs(const struct hanare_cpu *cpu, const struct hanare_space *space)
{
	return space && READ_ONCE(cpu->shared->current_space) == space->id;
}

/* CPUs looked at, each a cache line from elsewhere, before one will do where no thread computes. */
#define LOOKS 16

/*
 * The CPU that a request disturbs least, or `first`, if that is not disturbed more; `space`: what
 * it is about, or NULL; `for_space`: it is of use to its threads, which it rather interrupts than
 * others.
 */
static struct hanare_cpu *quietest(struct hanare_instance *inst, struct hanare_cpu *first,
				   struct hanare_space *space, bool for_space)
{
	u32 i, at = first - inst->cpus, id = space ? space->id : 0;
	int least = disturbance(first, id, for_space);
	struct hanare_cpu *best = first;

	for (i = 1; least > NOBODY && i < inst->cpu_count; i++) {
		struct hanare_cpu *cpu = &inst->cpus[(at + i) % inst->cpu_count];
		int found = disturbance(cpu, id, for_space);

		if (i >= LOOKS && least < OTHER_CALLS)
			break;
		/* A thread alone on a CPU is not interrupted for a program that is kept off it. */
		if (space && found >= (for_space ? OTHER_CALLS : OTHER_CALLED) &&
		    !test_bit(cpu - inst->cpus, space->link.allowed))
			continue;
		if (runs(cpu, space) && !runs(first, space))
			WRITE_ONCE(space->link.near, cpu);
		/* The CPU that serves it may take memory near to itself. */
		if (found < least && (cpu->node == first->node || least >= ASKED)) {
			least = found;
			best = cpu;
		}
	}
	return best;
}

struct hanare_cpu *hanare_quiet_cpu(struct hanare_instance *inst)
{
	return quietest(inst, &inst->cpus[0], NULL, false);
}

/*
 * Whether another process looks on (`hanare ps`, /proc): that interrupts a thread that enters the
 * kernel all the time rather than the one that is looked at, which may compute. Mappings are much
 * to look at, which is the own CPU's to do.
 */
static bool is_onlookers(const struct hanare_space *space, const struct hanare_call *call)
{
	return call->kind == HANARE_REQUEST_INFO && task_tgid(current) != space->pid &&
	       (call->args[0] == HANARE_INFO_PROCESS || call->args[0] == HANARE_INFO_THREADS);
}

/*
 * A thread that computes is interrupted for its own space, or where all CPUs compute. Where nothing
 * else decides, it is where a thread of the space was last seen. A request that must not overtake
 * an earlier one, which no task awaits any more, goes to the same CPU as that one.
 */
struct hanare_cpu *hanare_cpu_to_ask(struct hanare_space *space, const struct hanare_call *call)
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
		/* A killed task may have left one of these behind. */
		if (!READ_ONCE(space->link.opened))
			return space->link.home;
		break;
	case HANARE_REQUEST_SPACE_GROUPS:
		if (call->in_order)
			return space->link.home;
		/* Told once more: no thread waits for it, so none that computes is interrupted. */
		return quietest(space->inst, near, NULL, false);
	}
	return quietest(space->inst, near, space, !is_onlookers(space, call));
}

