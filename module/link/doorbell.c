// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells from the LWK to Linux: interrupts of our own, one at each of Linux' CPUs, as long as
 * they are not moved. A task that waits for the LWK tells it the one next to where the task sleeps,
 * so that the CPU at which the task goes on wakes it, and many CPUs of Linux wake at once.
 * ikc/src/doorbell.rs has the protocol; the transport has the interrupts.
 */
#include "link/link.h"

#include <linux/interrupt.h>
#include <linux/slab.h>
#include <linux/topology.h>

/* ---- which one is near ---- */

/* The doorbell next to that CPU, plus 1: at it, else at its node, else any; 0: there is none. */
static u8 nearest(const struct hanare_instance *inst, unsigned int cpu, int node)
{
	int found = -1, level = -1;
	u32 n;

	/* Not all the same one, where several are as near. */
	for (n = 0; n < inst->reach.doorbell_count; n++) {
		u32 i = (cpu + n) % inst->reach.doorbell_count;
		unsigned int at = READ_ONCE(inst->reach.doorbells[i].cpu);
		int near = at == cpu ? 2 : at < nr_cpu_ids && cpu_to_node(at) == node;

		if (at < nr_cpu_ids && near > level) {
			found = i;
			level = near;
		}
	}
	return found + 1;
}

/* Says of each CPU, of Linux' and of the LWK's, which doorbell is the nearest. */
static void place(struct hanare_instance *inst)
{
	unsigned int cpu;
	u32 i;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(inst->link.nearest[cpu], nearest(inst, cpu, cpu_to_node(cpu)));
	for (i = 0; i < inst->cpu_count; i++) {
		struct hanare_cpu *lwk = &inst->cpus[i];
		u8 near = nearest(inst, lwk->linux_cpu, lwk->node);

		if (near)
			WRITE_ONCE(lwk->shared->doorbell, near - 1);
	}
}

/* ---- moving ---- */

/*
 * Looks after a move of a doorbell: an event that met no doorbell, or whose interrupt went to where
 * Linux had it before, is found by itself. A CPU of the LWK rings within cycles of reading the
 * word; where it is a virtual one that its host stops in between, the last look is a second later.
 */
#define LOOKS 3
#define FIRST_LOOK (HZ / 100 + 1)

static void look(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, link.look_work.work);
	int left = atomic_dec_return(&inst->link.looks);

	place(inst);
	hanare_drain(inst);
	if (left > 0)
		schedule_delayed_work(&inst->link.look_work, left == LOOKS - 1 ? HZ / 10 : HZ);
}

/* Tells the LWK where to ring from now on, and has a work look for what rang elsewhere. */
static void moved(struct hanare_doorbell *doorbell)
{
	struct hanare_instance *inst = doorbell->inst;
	unsigned int cpu;
	u64 target = inst->transport->target(doorbell, &cpu);

	WRITE_ONCE(doorbell->cpu, cpu);
	hanare_doorbell_move(&doorbell->shared->target, target);
	atomic_set(&inst->link.looks, LOOKS);
	/* Also instead of a later look of the move before. */
	mod_delayed_work(system_wq, &inst->link.look_work, FIRST_LOOK);
}

static irqreturn_t rang(int irq, void *data)
{
	struct hanare_doorbell *doorbell = data;

	if (hanare_loses())
		return IRQ_HANDLED;
	hanare_drain_rung(doorbell->inst, doorbell);
	return IRQ_HANDLED;
}

/* ---- start and stop ---- */

u32 hanare_doorbells_wanted(void)
{
	return min_t(u32, num_online_cpus(), HANARE_DOORBELLS_MAX);
}

/* As many as the shared region has; fewer where Linux has no vectors. An error: there is none. */
int hanare_doorbells_start(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->reach.shared;
	struct hanare_doorbell_shared *shared = inst->reach.shared + params->doorbells_offset;
	u32 count = params->doorbell_count;
	static const struct hanare_doorbell_events events = { .rang = rang, .moved = moved };
	int started;
	u32 i;

	INIT_DELAYED_WORK(&inst->link.look_work, look);
	inst->link.nearest = kcalloc(nr_cpu_ids, sizeof(*inst->link.nearest), GFP_KERNEL);
	inst->reach.doorbells = kcalloc(count, sizeof(*inst->reach.doorbells), GFP_KERNEL);
	if (!inst->link.nearest || !inst->reach.doorbells)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		inst->reach.doorbells[i] = (struct hanare_doorbell){
			.inst = inst, .shared = &shared[i], .id = -1, .cpu = HANARE_NOWHERE,
		};
	inst->reach.doorbell_count = count;
	started = inst->transport->doorbells_start(inst, &events);
	if (started < 0)
		return started;
	/* No CPU of the LWK runs yet: none is told of a doorbell that rings nowhere. */
	inst->reach.doorbell_count = params->doorbell_count = started;
	place(inst);
	return 0;
}

/* Also after a start that failed half-way. No CPU of the LWK runs any more. */
void hanare_doorbells_stop(struct hanare_instance *inst)
{
	if (inst->reach.doorbells)
		inst->transport->doorbells_stop(inst);
	if (inst->link.look_work.work.func)
		cancel_delayed_work_sync(&inst->link.look_work);	/* no doorbell moves any more */
	inst->reach.doorbell_count = 0;
	kfree(inst->reach.doorbells);
	inst->reach.doorbells = NULL;
	kfree(inst->link.nearest);
	inst->link.nearest = NULL;
}
