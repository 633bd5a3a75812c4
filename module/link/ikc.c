// SPDX-License-Identifier: GPL-2.0
/*
 * Messages between the kernels: the rings, and the doorbell of an LWK CPU. docs/architecture.md has
 * the protocols; request.c has the pool of requests, doorbell.c the interrupts of Linux'.
 *
 * Whatever the LWK writes is read once, checked, then used.
 */
#include "link/link.h"

#include <linux/kthread.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

/* Set once, before there is an instance. */
static const struct hanare_link_ops *above __ro_after_init;

void hanare_link_init(const struct hanare_link_ops *ops)
{
	above = ops;
}

/* ---- doorbell from Linux to the LWK ---- */

static unsigned int lose;
module_param(lose, uint, 0600);
MODULE_PARM_DESC(lose, "Tests: one of so many interrupts between the kernels is lost; 0: none");

bool hanare_loses(void)
{
	static atomic_t sent;

	return unlikely(READ_ONCE(lose)) && !(atomic_inc_return(&sent) % max(READ_ONCE(lose), 1U));
}

void hanare_ring_cpu(struct hanare_cpu *cpu)
{
	WRITE_ONCE(cpu->link.rung_at, hanare_tsc(cpu->inst));
	if (!hanare_loses())
		cpu->inst->transport->ring(cpu);
}

/* For a worker, which says which bell, and may lie. */
void hanare_ring_bell(struct hanare_space *space, u32 bell)
{
	struct hanare_instance *inst = space->inst;
	int index = hanare_bell_take(&inst->link.bells[bell].word, space->id);
	struct hanare_cpu *cpu;

	BUILD_BUG_ON(sizeof(cpu->shared->bells[0]) != sizeof(long));
	if (index < 0 || index >= inst->cpu_count)
		return;
	cpu = &inst->cpus[index];
	if (READ_ONCE(space->link.near) != cpu)
		WRITE_ONCE(space->link.near, cpu);
	bell %= HANARE_BELL_BITS;
	hanare_bell_set(&cpu->shared->bells[bell / 64], &cpu->shared->bells_rung, bell);
	hanare_ring_cpu(cpu);
}

static struct hanare_entries outbound(struct hanare_cpu_shared *shared)
{
	return (struct hanare_entries){
		&shared->entries[0].outbound, sizeof(shared->entries[0]), HANARE_RING_ENTRIES,
	};
}

static struct hanare_entries inbound(struct hanare_cpu_shared *shared)
{
	BUILD_BUG_ON(HANARE_RING_ENTRIES & (HANARE_RING_ENTRIES - 1));
	return (struct hanare_entries){
		&shared->entries[0].inbound, sizeof(shared->entries[0]), HANARE_RING_ENTRIES,
	};
}

/*
 * Posts a request to a CPU. -EIO: its ring is full, which happens only if the LWK writes nonsense.
 */
int hanare_push(struct hanare_cpu *cpu, u32 index)
{
	struct hanare_cpu_shared *shared = cpu->shared;
	unsigned long flags;
	bool pushed;

	spin_lock_irqsave(&cpu->link.inbound_lock, flags);
	pushed = hanare_inbound_push(&cpu->link.inbound, &shared->inbound_head, inbound(shared), index);
	spin_unlock_irqrestore(&cpu->link.inbound_lock, flags);
	if (!pushed)
		return -EIO;
	if (hanare_must_ring(&shared->lwk_wait))
		hanare_ring_cpu(cpu);
	return 0;
}

/* ---- what the LWK says ---- */

/* The instance died. Tasks that wait for an entry find that out. */
static void wake_askers(struct hanare_instance *inst)
{
	struct hanare_askers *queue;
	struct hanare_asker *asker;
	unsigned long flags;
	u32 urgency;

	spin_lock_irqsave(&inst->link.entry_lock, flags);
	for (urgency = 0; inst->link.shares && urgency < HANARE_URGENCIES; urgency++)
		list_for_each_entry(queue, &inst->link.shares->waiting[urgency], link)
			list_for_each_entry(asker, &queue->askers, link)
				wake_up_all(container_of(asker, struct hanare_entry_wait, asker)->wq);
	spin_unlock_irqrestore(&inst->link.entry_lock, flags);
}

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
	for (i = 0; inst->link.waits && i < HANARE_REQUESTS; i++)
		wake_up_all(&inst->link.waits[i].wq);
	wake_askers(inst);
	wake_up_all(&inst->link.served_wait);
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
		if (payload < inst->link.service_count) {
			set_bit(payload, inst->link.service_pending);
			wake_up(&inst->link.service_wait);
		}
		break;
	case HANARE_EVENT_OBSERVE:
		above->observed(inst, payload);
		break;
	case HANARE_EVENT_BAD_MEMORY:
		inst->transport->bad_memory(inst, payload);
		break;
	case HANARE_EVENT_EVENTFD:
		above->eventfd_rung(inst, payload >> 24, payload & 0xffffff);
		break;
	case HANARE_EVENT_PANIC:
		/* The flag counts, looked at below: a stray event kills no instance. */
		break;
	default:
		pr_warn_ratelimited("%s: unknown event %#llx from the LWK\n", inst->name, word);
	}
}

/*
 * Reads what is new of an outbound ring: an entry says so itself. No more than a ring, whatever the
 * LWK writes meanwhile.
 */
static void drain_cpu(struct hanare_instance *inst, struct hanare_cpu *cpu)
{
	struct hanare_cpu_shared *shared = cpu->shared;
	unsigned long flags;
	u64 word;
	u32 first;

	spin_lock_irqsave(&cpu->link.outbound_lock, flags);
	first = cpu->link.outbound_head;
	while (cpu->link.outbound_head - first < HANARE_RING_ENTRIES &&
	       hanare_outbound_look(cpu->link.outbound_head, outbound(shared), &word)) {
		cpu->link.outbound_head++;
		event(inst, word);
	}
	if (cpu->link.outbound_head != first)
		hanare_outbound_release(&shared->outbound_head, cpu->link.outbound_head);
	spin_unlock_irqrestore(&cpu->link.outbound_lock, flags);
}

static void look_for_panic(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->reach.shared;

	if (READ_ONCE(params->panicked) && READ_ONCE(inst->state) != HANARE_INSTANCE_PANICKED) {
		pr_err_ratelimited("%s: the LWK panicked: see hanare log %s\n", inst->name,
				   inst->name);
		hanare_die(inst, HANARE_INSTANCE_PANICKED, -EIO);
	}
}

/* In the interrupt of a doorbell: reads the rings of the CPUs that rang it. */
void hanare_drain_rung(struct hanare_instance *inst, struct hanare_doorbell *doorbell)
{
	u32 i;

	BUILD_BUG_ON(HANARE_CPUS_MAX > HANARE_RANG_CPUS);
	for (i = 0; i < inst->cpu_count; i++)
		if (hanare_has_rung(&doorbell->shared->rang[i], &doorbell->seen[i]))
			drain_cpu(inst, &inst->cpus[i]);
	look_for_panic(inst);
}

/* Reads all outbound rings: for callers that do not rely on a doorbell. */
void hanare_drain(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->cpu_count; i++)
		drain_cpu(inst, &inst->cpus[i]);
	look_for_panic(inst);
}

/* ---- interrupts that did not come ---- */

/* Longer than an interrupt takes, unless the host of a virtual CPU is very busy. */
#define LATE_MS 900

/* Whether the CPU has halted since before it was rung, and that is long ago. */
static bool missed_ring(const struct hanare_cpu *cpu)
{
	u64 since = READ_ONCE(cpu->shared->idle_since), rung = READ_ONCE(cpu->link.rung_at);

	return since && (s64)(rung - since) > 0 &&
	       (s64)(hanare_tsc(cpu->inst) - rung) > (s64)cpu->inst->transport->tsc_khz(cpu->inst) * LATE_MS;
}

/* Whether the event that waits now waited at the last look, too. */
static bool missed_event(struct hanare_cpu *cpu)
{
	u32 head = READ_ONCE(cpu->link.outbound_head), before = cpu->link.waits_at;
	u64 word;

	cpu->link.waits_at = hanare_outbound_look(head, outbound(cpu->shared), &word) ? head + 1 : 0;
	return cpu->link.waits_at && cpu->link.waits_at == before;
}

/*
 * Once a second. Both kernels sleep until an interrupt, without a timer of their own. Processors
 * lose none; an emulated machine perhaps does, once in very many (docs/wakeup.md): then a waiter
 * would wait for ever. It is sent again here, and told.
 */
void hanare_look_for_lost(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->cpu_count && !READ_ONCE(inst->dead); i++) {
		struct hanare_cpu *cpu = &inst->cpus[i];

		if (missed_ring(cpu)) {
			pr_warn_ratelimited("%s: an interrupt to CPU %u is late, or lost; it is sent again\n",
					    inst->name, cpu->linux_cpu);
			hanare_ring_cpu(cpu);
		}
		if (missed_event(cpu)) {
			pr_warn_ratelimited("%s: an interrupt from CPU %u is late, or lost; its event is read now\n",
					    inst->name, cpu->linux_cpu);
			drain_cpu(inst, cpu);
		}
	}
}

/* Once a second: whether there is still a machine to wait for. */
void hanare_look_for_gone(struct hanare_instance *inst)
{
	if (inst->transport->alive && inst->transport->alive(inst))
		hanare_die(inst, HANARE_INSTANCE_HUNG, -EIO);
}

/* ---- service thread ---- */

static int service_thread(void *data)
{
	struct hanare_instance *inst = data;

	while (!kthread_should_stop()) {
		unsigned long i;

		wait_event_interruptible(inst->link.service_wait,
			kthread_should_stop() ||
			!bitmap_empty(inst->link.service_pending, inst->link.service_count));
		for_each_set_bit(i, inst->link.service_pending, inst->link.service_count) {
			clear_bit(i, inst->link.service_pending);
			above->serve(inst, i);
		}
	}
	return 0;
}

/* ---- start and stop ---- */

int hanare_ikc_start(struct hanare_instance *inst)
{
	struct task_struct *thread;
	u32 i;

	inst->link.waits = kcalloc(HANARE_REQUESTS, sizeof(*inst->link.waits), GFP_KERNEL);
	inst->link.shares = kvzalloc(sizeof(*inst->link.shares), GFP_KERNEL);
	inst->link.service_pending = bitmap_zalloc(inst->link.service_count, GFP_KERNEL);
	if (!inst->link.waits || !inst->link.shares || !inst->link.service_pending)
		return -ENOMEM;
	for (i = 0; i < HANARE_REQUESTS; i++)
		init_waitqueue_head(&inst->link.waits[i].wq);
	hanare_shares_init(inst->link.shares);
	inst->link.looked = jiffies;

	thread = kthread_run(service_thread, inst, "hanare:%s", inst->name);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	inst->link.service_thread = thread;
	return 0;
}

/* Also after a start that failed half-way. No CPU of the LWK runs any more. */
void hanare_ikc_stop(struct hanare_instance *inst)
{
	struct hanare_shares *shares;

	if (inst->link.service_thread) {
		kthread_stop(inst->link.service_thread);
		inst->link.service_thread = NULL;
	}
	bitmap_free(inst->link.service_pending);
	inst->link.service_pending = NULL;
	kfree(inst->link.waits);
	inst->link.waits = NULL;
	spin_lock_irq(&inst->link.entry_lock);
	shares = inst->link.shares;
	inst->link.shares = NULL;
	spin_unlock_irq(&inst->link.entry_lock);
	kvfree(shares);
}
