// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells of a local instance: interrupts of our own in Linux' domain of vectors, one at each of
 * Linux' CPUs, as long as they are not moved. The LWK rings them by its local APIC: at which CPU,
 * and by which vector, it is told.
 */
#include "transport/transport.h"

#include <linux/idr.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

static struct irq_domain *doorbell_domain;
static struct fwnode_handle *doorbell_node;
static DEFINE_IDA(doorbell_ids);

/* ---- where it is ---- */

u64 hanare_local_target(const struct hanare_doorbell *doorbell, unsigned int *cpu)
{
	struct irq_cfg *cfg = doorbell->data ? irqd_cfg(doorbell->data) : NULL;

	*cpu = HANARE_NOWHERE;
	if (!cfg || !cfg->vector)
		return 0;
	*cpu = cpumask_first(irq_data_get_effective_affinity_mask(doorbell->data));
	if (*cpu >= nr_cpu_ids) {
		*cpu = HANARE_NOWHERE;
		return 0;
	}
	/* Not cfg->dest_apicid: that one is logical where Linux uses logical ids. */
	return (u64)per_cpu(x86_cpu_to_apicid, *cpu) << 32 | cfg->vector;
}

static void moved(struct irq_data *data)
{
	struct hanare_doorbell *doorbell = irq_data_get_irq_chip_data(data);

	doorbell->data = data;
	doorbell->events->moved(doorbell);
}

static int doorbell_set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	struct irq_data *parent = data->parent_data;
	int ret = parent->chip->irq_set_affinity(parent, mask, force);

	if (ret >= 0)
		moved(data);
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
	moved(data);
	return 0;
}

static const struct irq_domain_ops doorbell_ops = {
	.alloc		= doorbell_alloc,
	.free		= irq_domain_free_irqs_common,
	.translate	= doorbell_translate,
	.activate	= doorbell_activate,
};

int hanare_local_doorbell_init(void)
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

void hanare_local_doorbell_exit(void)
{
	irq_domain_remove(doorbell_domain);
	irq_domain_free_fwnode(doorbell_node);
	ida_destroy(&doorbell_ids);
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
	doorbell->data = NULL;
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
	err = request_irq(doorbell->irq, doorbell->events->rang, 0, doorbell->inst->name, doorbell);
	if (err)
		return err;
	doorbell->requested = true;	/* doorbell_activate() has told the LWK of it */
	return 0;
}

int hanare_local_doorbells_start(struct hanare_instance *inst, const struct hanare_doorbell_events *events)
{
	u32 count = inst->reach.doorbell_count, each = DIV_ROUND_UP(num_online_cpus(), count), n = 0, i;
	int err = -ENOSPC;
	unsigned int cpu;

	for (i = 0; i < count; i++) {
		inst->reach.doorbells[i].events = events;
		inst->reach.doorbells[i].id = -1;
	}
	/* Without a lock: one that meets a CPU that goes offline is somewhere else. */
	i = 0;
	for_each_online_cpu(cpu) {
		/* Where there are more CPUs than doorbells they are spread over all. */
		if (n++ % each || i == count)
			continue;
		err = doorbell_start(&inst->reach.doorbells[i], cpu);
		if (err)
			doorbell_stop(&inst->reach.doorbells[i]);
		else
			i++;
	}
	return i ?: err;
}

void hanare_local_doorbells_stop(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->reach.doorbell_count; i++)
		doorbell_stop(&inst->reach.doorbells[i]);
}
