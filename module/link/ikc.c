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
#include <asm/apic.h>

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

/*
 * Always a physical destination: apic->send_IPI may use logical ones, which
 * an LWK CPU does not have.
 */
void hanare_ring_cpu(struct hanare_cpu *cpu)
{
	unsigned long flags;
	int i;

	WRITE_ONCE(cpu->rung_at, rdtsc());
	if (hanare_loses())
		return;
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
	if (READ_ONCE(space->near) != cpu)
		WRITE_ONCE(space->near, cpu);
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
	/* The LWK's counter is looked at only when the ring looks full: a line less that moves. */
	if (cpu->inbound_tail - cpu->inbound_seen >= HANARE_RING_ENTRIES)
		cpu->inbound_seen = smp_load_acquire(&shared->inbound_head);
	if (cpu->inbound_tail - cpu->inbound_seen >= HANARE_RING_ENTRIES) {
		err = -EIO;		/* cannot happen unless the LWK writes nonsense */
	} else {
		u32 at = cpu->inbound_tail % HANARE_RING_ENTRIES;
		u32 lap = cpu->inbound_tail & HANARE_RING_ENTRIES ? 0 : HANARE_RING_LAP32;

		smp_store_release(&shared->entries[at].inbound, index | lap);
		cpu->inbound_tail++;
	}
	spin_unlock_irqrestore(&cpu->inbound_lock, flags);
	smp_mb();
	if (!err && READ_ONCE(shared->lwk_wait) != HANARE_WAIT_AWAKE)
		hanare_ring_cpu(cpu);
	return err;
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
	case HANARE_EVENT_EVENTFD:
		above->eventfd_rung(inst, payload >> 24, payload & 0xffffff);
		break;
	case HANARE_EVENT_PANIC:
		/* The flag counts, looked at below: a stray event kills nobody. */
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
	u32 first;

	BUILD_BUG_ON(HANARE_RING_ENTRIES & (HANARE_RING_ENTRIES - 1));
	spin_lock_irqsave(&cpu->outbound_lock, flags);
	first = cpu->outbound_head;
	while (cpu->outbound_head - first < HANARE_RING_ENTRIES) {
		u32 at = cpu->outbound_head % HANARE_RING_ENTRIES;
		u64 lap = cpu->outbound_head & HANARE_RING_ENTRIES ? 0 : HANARE_RING_LAP64;
		u64 word = smp_load_acquire(&shared->entries[at].outbound);

		if ((word & HANARE_RING_LAP64) != lap)
			break;
		cpu->outbound_head++;
		event(inst, word & ~HANARE_RING_LAP64);
	}
	if (cpu->outbound_head != first)
		smp_store_release(&shared->outbound_head, cpu->outbound_head);
	spin_unlock_irqrestore(&cpu->outbound_lock, flags);
}

static void look_for_panic(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->shared;

	if (READ_ONCE(params->panicked) && READ_ONCE(inst->state) != HANARE_INSTANCE_PANICKED) {
		pr_err_ratelimited("%s: the LWK panicked: see hanare log %s\n", inst->name,
				   inst->name);
		hanare_die(inst, HANARE_INSTANCE_PANICKED, -EIO);
	}
}

/*
 * In the interrupt of a doorbell: reads the rings of the CPUs that rang it. Their bits are taken first,
 * so that an event that comes after its ring was read has its bit, and its interrupt, once more.
 */
void hanare_drain_rung(struct hanare_instance *inst, struct hanare_doorbell_shared *doorbell)
{
	u32 i, cpu;

	BUILD_BUG_ON(HANARE_CPUS_MAX > 64 * HANARE_RANG_WORDS);
	for (i = 0; 64 * i < inst->cpu_count; i++) {
		unsigned long rang = READ_ONCE(doorbell->rang[i]) ? xchg(&doorbell->rang[i], 0) : 0;

		for (; rang; rang &= rang - 1) {
			cpu = 64 * i + __ffs(rang);
			if (cpu < inst->cpu_count)
				drain_cpu(inst, &inst->cpus[cpu]);
		}
	}
	look_for_panic(inst);
}

/* Reads all outbound rings: for who does not rely on a doorbell. */
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
	u64 since = READ_ONCE(cpu->shared->idle_since), rung = READ_ONCE(cpu->rung_at);

	return since && (s64)(rung - since) > 0 &&
	       (s64)(rdtsc() - rung) > (s64)tsc_khz * LATE_MS;
}

/* Whether the event that waits now waited at the last look, too. */
static bool missed_event(struct hanare_cpu *cpu)
{
	u32 head = READ_ONCE(cpu->outbound_head), before = cpu->waits_at;
	u64 lap = head & HANARE_RING_ENTRIES ? 0 : HANARE_RING_LAP64;
	u64 word = smp_load_acquire(&cpu->shared->entries[head % HANARE_RING_ENTRIES].outbound);

	cpu->waits_at = (word & HANARE_RING_LAP64) == lap ? head + 1 : 0;
	return cpu->waits_at && cpu->waits_at == before;
}

/*
 * Once a second. Both kernels sleep until an interrupt, without a timer of their own. Processors lose none; an emulated machine
 * perhaps does, once in very many (docs/wakeup.md): then whoever waits would wait for ever. It is sent again here, and told.
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
	struct task_struct *thread;
	u32 i;

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
	return 0;
}

/* Also after a start that failed half-way. No CPU of the LWK runs any more. */
void hanare_ikc_stop(struct hanare_instance *inst)
{
	if (inst->service_thread) {
		kthread_stop(inst->service_thread);
		inst->service_thread = NULL;
	}
	bitmap_free(inst->service_pending);
	inst->service_pending = NULL;
	kfree(inst->waits);
	inst->waits = NULL;
}
