// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells from the LWK to Linux: interrupts of our own, one at each of Linux' CPUs, as long as nobody
 * moves them. Whoever waits for the LWK tells it the one next to where he sleeps, so that he is woken
 * by the CPU that he goes on at, and many CPUs of Linux wake at once. ikc/src/doorbell.rs has the
 * protocol.
 */
#include "link/link.h"

#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

#define NOWHERE UINT_MAX

static struct irq_domain *doorbell_domain;
static struct fwnode_handle *doorbell_node;
static DEFINE_IDA(doorbell_ids);

/* ---- which one is near ---- */

/* The doorbell next to that CPU, plus 1: at it, else at its node, else any; 0: there is none. */
static u8 nearest(const struct hanare_instance *inst, unsigned int cpu, int node)
{
	int found = -1, level = -1;
	u32 n;

	/* Not all the same one, where several are as near. */
	for (n = 0; n < inst->doorbell_count; n++) {
		u32 i = (cpu + n) % inst->doorbell_count;
		unsigned int at = READ_ONCE(inst->doorbells[i].cpu);
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
		WRITE_ONCE(inst->nearest[cpu], nearest(inst, cpu, cpu_to_node(cpu)));
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
 * Linux had it before, is found by itself. A CPU of the LWK rings within cycles of reading the word;
 * where it is a virtual one that its host stops in between, the last look is a second later.
 */
#define LOOKS 3
#define FIRST_LOOK (HZ / 100 + 1)

static void look(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, look_work.work);
	int left = atomic_dec_return(&inst->looks);

	place(inst);
	hanare_drain(inst);
	if (left > 0)
		schedule_delayed_work(&inst->look_work, left == LOOKS - 1 ? HZ / 10 : HZ);
}

/* Tells the LWK where to ring from now on, and has somebody look for what rang elsewhere. */
static void publish(struct hanare_doorbell *doorbell, struct irq_data *data)
{
	struct hanare_instance *inst = doorbell->inst;
	struct irq_cfg *cfg = irqd_cfg(data);
	unsigned int cpu = cpumask_first(irq_data_get_effective_affinity_mask(data));
	u64 word = 0;

	/* Not cfg->dest_apicid: that one is logical where Linux uses logical ids. */
	if (cfg && cfg->vector && cpu < nr_cpu_ids)
		word = (u64)per_cpu(x86_cpu_to_apicid, cpu) << 32 | cfg->vector;
	WRITE_ONCE(doorbell->cpu, word ? cpu : NOWHERE);
	WRITE_ONCE(doorbell->shared->target, word);
	atomic_set(&inst->looks, LOOKS);
	/* Also instead of a later look of the move before. */
	mod_delayed_work(system_wq, &inst->look_work, FIRST_LOOK);
}

static int doorbell_set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	struct irq_data *parent = data->parent_data;
	int ret = parent->chip->irq_set_affinity(parent, mask, force);

	if (ret >= 0)
		publish(irq_data_get_irq_chip_data(data), data);
	return ret;
}

/* ---- the interrupt ---- */

static struct irq_chip doorbell_chip = {
	.name			= "hanare",
	.irq_ack		= irq_chip_ack_parent,
	.irq_set_affinity	= doorbell_set_affinity,
	.irq_retrigger		= irq_chip_retrigger_hierarchy,
	.flags			= IRQCHIP_SKIP_SET_WAKE,
};

struct doorbell_spec {
	struct irq_fwspec fwspec;
	struct hanare_doorbell *doorbell;
};

static int doorbell_alloc(struct irq_domain *domain, unsigned int virq, unsigned int count,
			  void *arg)
{
	struct doorbell_spec *spec = container_of(arg, struct doorbell_spec, fwspec);
	struct irq_alloc_info info = {};
	int err;

	if (count != 1)
		return -EINVAL;
	err = irq_domain_alloc_irqs_parent(domain, virq, count, &info);
	if (err)
		return err;
	irq_domain_set_info(domain, virq, spec->fwspec.param[0], &doorbell_chip, spec->doorbell,
			    handle_edge_irq, NULL, "edge");
	/* We follow a change of affinity at once, from process context. */
	hanare_irq_move_anywhere(virq);
	return 0;
}

static int doorbell_translate(struct irq_domain *domain, struct irq_fwspec *fwspec,
			      unsigned long *hwirq, unsigned int *type)
{
	*hwirq = fwspec->param[0];
	*type = IRQ_TYPE_EDGE_RISING;
	return 0;
}

static int doorbell_activate(struct irq_domain *domain, struct irq_data *data, bool early)
{
	publish(irq_data_get_irq_chip_data(data), data);
	return 0;
}

static const struct irq_domain_ops doorbell_ops = {
	.alloc		= doorbell_alloc,
	.free		= irq_domain_free_irqs_common,
	.translate	= doorbell_translate,
	.activate	= doorbell_activate,
};

int hanare_doorbell_init(void)
{
	doorbell_node = irq_domain_alloc_named_fwnode("hanare");
	if (!doorbell_node)
		return -ENOMEM;
	doorbell_domain = irq_domain_create_hierarchy(x86_vector_domain, 0, 0, doorbell_node,
						      &doorbell_ops, NULL);
	if (!doorbell_domain) {
		irq_domain_free_fwnode(doorbell_node);
		return -ENOMEM;
	}
	return 0;
}

void hanare_doorbell_exit(void)
{
	irq_domain_remove(doorbell_domain);
	irq_domain_free_fwnode(doorbell_node);
	ida_destroy(&doorbell_ids);
}

static irqreturn_t doorbell_handler(int irq, void *data)
{
	struct hanare_doorbell *doorbell = data;

	if (hanare_loses())
		return IRQ_HANDLED;
	hanare_drain_rung(doorbell->inst, doorbell->shared);
	return IRQ_HANDLED;
}

/* ---- start and stop ---- */

static void doorbell_stop(struct hanare_doorbell *doorbell)
{
	if (doorbell->requested)
		free_irq(doorbell->irq, doorbell);
	if (doorbell->irq)
		irq_dispose_mapping(doorbell->irq);
	if (doorbell->id >= 0)
		ida_free(&doorbell_ids, doorbell->id);
	WRITE_ONCE(doorbell->cpu, NOWHERE);
	doorbell->requested = false;
	doorbell->irq = 0;
	doorbell->id = -1;
}

/* At this CPU of Linux' at first. */
static int doorbell_start(struct hanare_doorbell *doorbell, unsigned int cpu)
{
	struct doorbell_spec spec = { .doorbell = doorbell };
	int err;

	doorbell->id = ida_alloc(&doorbell_ids, GFP_KERNEL);
	if (doorbell->id < 0)
		return doorbell->id;
	spec.fwspec.fwnode = doorbell_node;
	spec.fwspec.param_count = 1;
	spec.fwspec.param[0] = doorbell->id;
	doorbell->irq = irq_create_fwspec_mapping(&spec.fwspec);
	if (!doorbell->irq)
		return -ENOSPC;
	/* Before it has a vector, which it gets there then. */
	irq_set_affinity(doorbell->irq, cpumask_of(cpu));
	err = request_irq(doorbell->irq, doorbell_handler, 0, doorbell->inst->name, doorbell);
	if (err)
		return err;
	doorbell->requested = true;	/* doorbell_activate() has told the LWK of it */
	return 0;
}

u32 hanare_doorbells_wanted(void)
{
	return min_t(u32, num_online_cpus(), HANARE_DOORBELLS_MAX);
}

/* As many as the shared region has; fewer where Linux has no vectors. An error: there is none. */
int hanare_doorbells_start(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->shared;
	struct hanare_doorbell_shared *shared = inst->shared + params->doorbells_offset;
	u32 count = params->doorbell_count;
	u32 each = DIV_ROUND_UP(num_online_cpus(), count), n = 0, i;
	int err = -ENOSPC;
	unsigned int cpu;

	INIT_DELAYED_WORK(&inst->look_work, look);
	inst->nearest = kcalloc(nr_cpu_ids, sizeof(*inst->nearest), GFP_KERNEL);
	inst->doorbells = kcalloc(count, sizeof(*inst->doorbells), GFP_KERNEL);
	if (!inst->nearest || !inst->doorbells)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		inst->doorbells[i] = (struct hanare_doorbell){
			.inst = inst, .shared = &shared[i], .id = -1, .cpu = NOWHERE,
		};
	inst->doorbell_count = count;
	/* Without a lock: one that meets a CPU that goes offline is somewhere else. */
	i = 0;
	for_each_online_cpu(cpu) {
		/* Where there are more CPUs than doorbells they are spread over all. */
		if (n++ % each || i == count)
			continue;
		err = doorbell_start(&inst->doorbells[i], cpu);
		if (err)
			doorbell_stop(&inst->doorbells[i]);
		else
			i++;
	}
	if (!i)
		return err;
	/* No CPU of the LWK runs yet: none is told of a doorbell that rings nowhere. */
	inst->doorbell_count = params->doorbell_count = i;
	place(inst);
	return 0;
}

/* Also after a start that failed half-way. No CPU of the LWK runs any more. */
void hanare_doorbells_stop(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->doorbell_count; i++)
		doorbell_stop(&inst->doorbells[i]);
	if (inst->look_work.work.func)
		cancel_delayed_work_sync(&inst->look_work);	/* nobody moves a doorbell any more */
	inst->doorbell_count = 0;
	kfree(inst->doorbells);
	inst->doorbells = NULL;
	kfree(inst->nearest);
	inst->nearest = NULL;
}
