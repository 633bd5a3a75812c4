// SPDX-License-Identifier: GPL-2.0
/*
 * Messages between the kernels: doorbells both ways, and the rings. docs/architecture.md has the
 * protocols; request.c has the pool of requests.
 *
 * Whatever the LWK writes is read once, checked, then used.
 */
#include "link/link.h"

#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <asm/apic.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

/* Set once, before there is an instance. */
static const struct hanare_link_ops *above __ro_after_init;

/* ---- doorbell from Linux to the LWK ---- */

/*
 * Always a physical destination: apic->send_IPI may use logical ones, which
 * an LWK CPU does not have.
 */
void hanare_ring_cpu(struct hanare_cpu *cpu)
{
	unsigned long flags;
	int i;

	/* In x2APIC mode the write is not ordered after earlier stores. */
	mb();
	local_irq_save(flags);
	if (!(native_read_msr(MSR_IA32_APICBASE) & X2APIC_ENABLE))
		for (i = 0; i < 1000 && apic->read(APIC_ICR) & APIC_ICR_BUSY; i++)
			cpu_relax();
	apic->icr_write(APIC_DM_FIXED | HANARE_IPI_VECTOR, cpu->apicid);
	local_irq_restore(flags);
}

/*
 * Takes one of the rings that the LWK has asked for at this bell, of a thread of this space. The
 * CPU to ring, or -1: nobody waits for it. See ikc/src/bell.rs.
 */
static int take_ring(struct hanare_space *space, u64 *bell)
{
	u64 word = READ_ONCE(*bell);

	do {
		if (word >> HANARE_BELL_SPACE_SHIFT != space->id ||
		    !(word & ((1U << HANARE_BELL_CPU_SHIFT) - 1)))
			return -1;
	} while (!try_cmpxchg(bell, &word, word - 1));
	return (u16)(word >> HANARE_BELL_CPU_SHIFT);
}

/*
 * For a worker, who says which bell, and may lie. The CPU's bit, then the word that says where to
 * look: the LWK reads the other way round.
 */
void hanare_ring_bell(struct hanare_space *space, u32 bell)
{
	struct hanare_instance *inst = space->inst;
	int index = take_ring(space, &inst->bells[bell]);
	u32 bit = bell % HANARE_BELL_BITS;
	struct hanare_cpu *cpu;

	BUILD_BUG_ON(sizeof(cpu->shared->bells[0]) != sizeof(long));
	if (index < 0 || index >= inst->cpu_count)
		return;
	cpu = &inst->cpus[index];
	set_bit(bit, (unsigned long *)cpu->shared->bells);
	set_bit(bit / BITS_PER_LONG, (unsigned long *)&cpu->shared->bells_rung);
	hanare_ring_cpu(cpu);
}

/* Posts a request to a CPU. */
int hanare_push(struct hanare_cpu *cpu, u32 index)
{
	struct hanare_cpu_shared *shared = cpu->shared;
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&cpu->inbound_lock, flags);
	if (cpu->inbound_tail - READ_ONCE(shared->inbound_head) >= HANARE_INBOUND_ENTRIES) {
		err = -EIO;		/* cannot happen unless the LWK writes nonsense */
	} else {
		WRITE_ONCE(shared->inbound[cpu->inbound_tail % HANARE_INBOUND_ENTRIES], index);
		smp_store_release(&shared->inbound_tail, ++cpu->inbound_tail);
	}
	spin_unlock_irqrestore(&cpu->inbound_lock, flags);
	smp_mb();
	if (!err && READ_ONCE(shared->lwk_wait) != HANARE_WAIT_AWAKE)
		hanare_ring_cpu(cpu);
	return err;
}

/* ---- doorbell from the LWK to Linux: an interrupt of our own ---- */

static struct irq_domain *doorbell_domain;
static struct fwnode_handle *doorbell_node;
static DEFINE_IDA(doorbell_ids);

/* Tell every CPU of the instance where to ring from now on. */
static void publish(struct hanare_instance *inst, struct irq_data *data)
{
	struct irq_cfg *cfg = irqd_cfg(data);
	unsigned int cpu = cpumask_first(irq_data_get_effective_affinity_mask(data));
	unsigned long flags;
	u64 word = 0;
	u32 i;

	/* Not cfg->dest_apicid: that one is logical where Linux uses logical ids. */
	if (cfg && cfg->vector && cpu < nr_cpu_ids)
		word = (u64)per_cpu(x86_cpu_to_apicid, cpu) << 32 | cfg->vector;
	raw_spin_lock_irqsave(&inst->doorbell_lock, flags);
	inst->doorbell = word;
	for (i = 0; inst->shared && i < inst->cpu_count; i++)
		WRITE_ONCE(inst->cpus[i].shared->doorbell, word);
	raw_spin_unlock_irqrestore(&inst->doorbell_lock, flags);
}

static int doorbell_set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	struct irq_data *parent = data->parent_data;
	int ret = parent->chip->irq_set_affinity(parent, mask, force);

	if (ret >= 0)
		publish(irq_data_get_irq_chip_data(data), data);
	return ret;
}

static struct irq_chip doorbell_chip = {
	.name			= "hanare",
	.irq_ack		= irq_chip_ack_parent,
	.irq_set_affinity	= doorbell_set_affinity,
	.irq_retrigger		= irq_chip_retrigger_hierarchy,
	.flags			= IRQCHIP_SKIP_SET_WAKE,
};

struct doorbell_spec {
	struct irq_fwspec fwspec;
	struct hanare_instance *inst;
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
	irq_domain_set_info(domain, virq, spec->fwspec.param[0], &doorbell_chip, spec->inst,
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

int hanare_doorbell_init(const struct hanare_link_ops *ops)
{
	above = ops;
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

/* ---- what the LWK says ---- */

void hanare_die(struct hanare_instance *inst, u32 state, int err)
{
	unsigned long flags;
	bool news;
	u32 i;

	spin_lock_irqsave(&inst->state_lock, flags);
	news = !inst->dead;
	if (news)
		inst->dead = err;
	if (state != inst->state && inst->state != HANARE_INSTANCE_STOPPING) {
		inst->state = state;
		news = true;
	}
	spin_unlock_irqrestore(&inst->state_lock, flags);
	if (!news)
		return;
	for (i = 0; inst->waits && i < HANARE_REQUESTS; i++)
		wake_up_all(&inst->waits[i].wq);
	wake_up_all(&inst->pool_wait);
	wake_up_all(&inst->served_wait);
	/* Not when it is shut down: its programs are killed or gone. */
	above->died(inst, state != HANARE_INSTANCE_STOPPING);
}

static void event(struct hanare_instance *inst, u64 word)
{
	u64 payload = word & ((1ULL << HANARE_EVENT_SHIFT) - 1);

	switch (word >> HANARE_EVENT_SHIFT) {
	case HANARE_EVENT_SLOT:
		above->slot_rung(inst, payload >> 24, payload & 0xffffff);
		break;
	case HANARE_EVENT_REQUEST:
		above->answered(inst, payload);
		break;
	case HANARE_EVENT_SERVICE:
		if (payload < inst->service_count) {
			set_bit(payload, inst->service_pending);
			wake_up(&inst->service_wait);
		}
		break;
	case HANARE_EVENT_OBSERVE:
		above->observed(inst, payload);
		break;
	case HANARE_EVENT_BAD_MEMORY:
		hanare_bad_memory(inst, payload);
		break;
	case HANARE_EVENT_PANIC:
		/* The flag counts, looked at below: a stray event kills nobody. */
		break;
	default:
		pr_warn_ratelimited("%s: unknown event %#llx from the LWK\n", inst->name, word);
	}
}

/* Read all outbound rings. From the interrupt, and by waiters now and then. */
bool hanare_drain(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->shared;
	bool any = false;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&inst->drain_lock, flags);
	for (i = 0; i < inst->cpu_count; i++) {
		struct hanare_cpu *cpu = &inst->cpus[i];
		struct hanare_cpu_shared *shared = cpu->shared;
		u32 tail = smp_load_acquire(&shared->outbound_tail);

		if (tail - cpu->outbound_head > HANARE_OUTBOUND_ENTRIES) {
			pr_warn_ratelimited("%s: CPU %u wrote a bad ring index\n", inst->name,
					    cpu->linux_cpu);
			cpu->outbound_head = tail;
		}
		for (; cpu->outbound_head != tail; cpu->outbound_head++) {
			u32 at = cpu->outbound_head % HANARE_OUTBOUND_ENTRIES;

			event(inst, READ_ONCE(shared->outbound[at]));
			any = true;
		}
		smp_store_release(&shared->outbound_head, tail);
	}
	spin_unlock_irqrestore(&inst->drain_lock, flags);
	if (READ_ONCE(params->panicked) && READ_ONCE(inst->state) != HANARE_INSTANCE_PANICKED) {
		pr_err_ratelimited("%s: the LWK panicked: see hanare log %s\n", inst->name,
				   inst->name);
		hanare_die(inst, HANARE_INSTANCE_PANICKED, -EIO);
	}
	return any;
}

static irqreturn_t doorbell_handler(int irq, void *data)
{
	hanare_drain(data);
	return IRQ_HANDLED;
}

/* ---- service thread ---- */

static int service_thread(void *data)
{
	struct hanare_instance *inst = data;

	while (!kthread_should_stop()) {
		unsigned long i;

		wait_event_interruptible(inst->service_wait,
			kthread_should_stop() ||
			!bitmap_empty(inst->service_pending, inst->service_count));
		for_each_set_bit(i, inst->service_pending, inst->service_count) {
			clear_bit(i, inst->service_pending);
			above->serve(inst, i);
		}
	}
	return 0;
}

/* ---- start and stop ---- */

int hanare_ikc_start(struct hanare_instance *inst)
{
	struct doorbell_spec spec = { .inst = inst };
	struct task_struct *thread;
	u32 i;
	int err;

	inst->waits = kcalloc(HANARE_REQUESTS, sizeof(*inst->waits), GFP_KERNEL);
	inst->service_pending = bitmap_zalloc(inst->service_count, GFP_KERNEL);
	if (!inst->waits || !inst->service_pending)
		return -ENOMEM;
	for (i = 0; i < HANARE_REQUESTS; i++)
		init_waitqueue_head(&inst->waits[i].wq);
	inst->pool_busy = 0;
	memset(inst->pool_of, 0, sizeof(inst->pool_of));

	thread = kthread_run(service_thread, inst, "hanare:%s", inst->name);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	inst->service_thread = thread;

	err = ida_alloc(&doorbell_ids, GFP_KERNEL);
	if (err < 0)
		return err;
	inst->doorbell_id = err;
	spec.fwspec.fwnode = doorbell_node;
	spec.fwspec.param_count = 1;
	spec.fwspec.param[0] = inst->doorbell_id;
	inst->irq = irq_create_fwspec_mapping(&spec.fwspec);
	if (!inst->irq) {
		ida_free(&doorbell_ids, inst->doorbell_id);
		return -ENOSPC;
	}
	err = request_irq(inst->irq, doorbell_handler, 0, inst->name, inst);
	if (err) {
		irq_dispose_mapping(inst->irq);
		ida_free(&doorbell_ids, inst->doorbell_id);
		inst->irq = 0;
		return err;
	}
	publish(inst, irq_domain_get_irq_data(doorbell_domain, inst->irq));
	return 0;
}

/* Also after a start that failed half-way. No CPU of the LWK runs any more. */
void hanare_ikc_stop(struct hanare_instance *inst)
{
	if (inst->irq) {
		free_irq(inst->irq, inst);
		irq_dispose_mapping(inst->irq);
		ida_free(&doorbell_ids, inst->doorbell_id);
		inst->irq = 0;
	}
	if (inst->service_thread) {
		kthread_stop(inst->service_thread);
		inst->service_thread = NULL;
	}
	bitmap_free(inst->service_pending);
	inst->service_pending = NULL;
	kfree(inst->waits);
	inst->waits = NULL;
}
