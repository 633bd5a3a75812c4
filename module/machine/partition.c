// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs and memory: taking them from Linux and giving them back.
 *
 * All or nothing: a call that cannot have everything it asked for keeps nothing.
 */
#include "machine/machine.h"

#include <linux/cpu.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>
#include <asm/smp.h>

#define LARGE_PAGES (HANARE_LARGE_PAGE_SIZE / PAGE_SIZE)
#define RUN_PAGES ((64UL << 20) / PAGE_SIZE)
#define LARGE_ORDER 9
/* As many as an LWK remembers (kernel/src/base/badmemory.rs). */
#define BAD_PAGES_MAX 256

/* CPUs of Linux that empty memory, or clear it, at once: some more do not make memory faster. */
#define HELPERS_MAX 16

static struct workqueue_struct *helpers;

/* CPUs that no one may put online but us. Written under hanare_lock. */
static struct cpumask owned_cpus;
/*
 * Before Linux makes the CPU's directories in sysfs, which are there already (topology.c, cache.c).
 * The dynamic states come after that; this one is another architecture's.
 */
#define GUARD_STATE CPUHP_PERF_SUPERH

/* The CPU that is being taken, or -1. Written under hanare_lock. */
static int leaving_cpu = -1;

/*
 * Linux sends what is for all its CPUs as a broadcast, which an LWK's CPUs take as well, as soon as
 * each CPU that is present has been online once: it looks at the end of each hotplug operation
 * (apic_smt_update). So a CPU of an LWK is not present. Programs on the LWK see it so all the same
 * (show/system.c).
 */
static int guard_dead(unsigned int cpu)
{
	if (cpu == READ_ONCE(leaving_cpu))
		set_cpu_present(cpu, false);
	return 0;
}

static int guard_prepare(unsigned int cpu)
{
	if (!cpumask_test_cpu(cpu, &owned_cpus))
		return 0;
	pr_notice("CPU %u is an LWK's (hanare ls), not put online: hanare shutdown gives it back\n", cpu);
	return -EBUSY;
}

int hanare_partition_init(void)
{
	int err;

	helpers = alloc_workqueue("hanare-memory", WQ_UNBOUND, HELPERS_MAX);
	if (!helpers)
		return -ENOMEM;
	err = cpuhp_setup_state_nocalls(GUARD_STATE, "hanare:guard", guard_prepare, guard_dead);
	if (err)
		destroy_workqueue(helpers);
	return err;
}

void hanare_partition_exit(void)
{
	cpuhp_remove_state_nocalls(GUARD_STATE);
	destroy_workqueue(helpers);
}

/* ---- memory ---- */

static void free_pages_one_by_one(unsigned long pfn, unsigned long pages)
{
	/*
	 * A page that Linux still holds (a pin, a pipe) only loses our
	 * reference here and goes back when the last one is dropped.
	 */
	for (; pages; pages--, pfn++) {
		__free_page(pfn_to_page(pfn));
		if (!(pages & 0xfff))
			cond_resched();
	}
}

/* Could the 2 MiB at this frame be emptied? Only a guess: nothing is locked. */
static bool block_movable(unsigned long pfn, int node)
{
	struct page *first = pfn_to_online_page(pfn);
	unsigned long i;

	if (!first || page_to_nid(first) != node)
		return false;
	if (page_zone(first) != page_zone(pfn_to_page(pfn + LARGE_PAGES - 1)))
		return false;
	for (i = 0; i < LARGE_PAGES; i++) {
		struct page *page = pfn_to_page(pfn + i);

		if (PageReserved(page))
			return false;
		if (page_count(page) && !PageLRU(page))
			return false;
	}
	return true;
}

static int chunk_add(struct hanare_chunk **list, u32 *count, unsigned long pfn,
		     unsigned long pages, int node)
{
	struct hanare_chunk *chunks;

	if (*count) {
		struct hanare_chunk *last = &(*list)[*count - 1];

		/* They are found from the top down. */
		if (last->node == node && last->pfn == pfn + pages) {
			last->pfn = pfn;
			last->window = pfn;
			last->pages += pages;
			return 0;
		}
	}
	if (*count >= HANARE_CHUNKS_MAX)
		return -E2BIG;
	chunks = krealloc_array(*list, *count + 1, sizeof(*chunks), GFP_KERNEL);
	if (!chunks)
		return -ENOMEM;
	chunks[*count] = (struct hanare_chunk){ .pfn = pfn, .window = pfn, .pages = pages, .node = node };
	*list = chunks;
	++*count;
	return 0;
}

struct gathering {
	struct hanare_chunk *chunks;
	u32 count;
	unsigned long wanted;			/* pages still to find */
	int node;
};

/*
 * Take [pfn, pfn + pages), in halves where the whole cannot be had. Linux may clear it, without a
 * look at whether another task wants the CPU.
 */
static int take_run(struct gathering *g, unsigned long pfn, unsigned long pages, const bool *stops)
{
	unsigned long half;
	int err;

	if (READ_ONCE(*stops))
		return -EINTR;
	cond_resched();
	if (!hanare_alloc_range(pfn, pfn + pages, GFP_KERNEL | __GFP_NOWARN)) {
		err = chunk_add(&g->chunks, &g->count, pfn, pages, g->node);
		if (err)
			free_pages_one_by_one(pfn, pages);
		else
			g->wanted -= pages;
		return err;
	}
	if (pages <= LARGE_PAGES)
		return 0;
	half = round_down(pages / 2, LARGE_PAGES);
	err = take_run(g, pfn + half, pages - half, stops);
	return err ?: take_run(g, pfn, half, stops);
}

/* A part of a run, which a CPU takes while others take other parts. */
struct part {
	struct work_struct work;
	struct gathering found;
	unsigned long pfn, pages;
	const bool *stops;
	int err;
};

static void take_part(struct work_struct *work)
{
	struct part *part = container_of(work, struct part, work);

	part->err = take_run(&part->found, part->pfn, part->pages, part->stops);
}

/* What a part has found; after an error it goes back. */
static int add_part(struct gathering *g, struct part *part, int err)
{
	u32 i;

	for (i = 0; i < part->found.count; i++) {
		const struct hanare_chunk *c = &part->found.chunks[i];

		if (!err)
			err = chunk_add(&g->chunks, &g->count, c->pfn, c->pages, c->node);
		if (err)
			free_pages_one_by_one(c->pfn, c->pages);
		else
			g->wanted -= c->pages;
	}
	kfree(part->found.chunks);
	return err ?: part->err;
}

/*
 * Take what can be had of [pfn, pfn + pages) by several CPUs: emptying and clearing take their
 * time. The parts end at multiples of their size, so that no two of them want the same block of the
 * page allocator.
 */
static int take_parts(struct gathering *g, unsigned long pfn, unsigned long pages)
{
	unsigned long end = pfn + pages;
	u32 count = DIV_ROUND_UP(end, RUN_PAGES) - pfn / RUN_PAGES, i;
	struct part *parts = kvcalloc(count, sizeof(*parts), GFP_KERNEL);
	bool stops = fatal_signal_pending(current);
	int err = 0;

	if (!parts)
		return -ENOMEM;
	/* From the top down, as all is found. */
	for (i = 0; i < count; i++) {
		struct part *part = &parts[i];

		part->pfn = max(pfn, round_down(end - 1, RUN_PAGES));
		part->pages = end - part->pfn;
		part->found.node = g->node;
		part->stops = &stops;
		end = part->pfn;
		INIT_WORK(&part->work, take_part);
		queue_work_node(g->node, helpers, &part->work);
	}
	for (i = 0; i < count; i++) {
		flush_work(&parts[i].work);
		if (fatal_signal_pending(current))
			WRITE_ONCE(stops, true);
		err = add_part(g, &parts[i], err);
		if (err)
			WRITE_ONCE(stops, true);
	}
	kvfree(parts);
	return err;
}

/* From the top of the node down: the low end is what devices are short of. */
static int take_contiguous(struct gathering *g)
{
	unsigned long low = max(node_start_pfn(g->node), (16UL << 20) >> PAGE_SHIFT);
	unsigned long pfn = round_down(node_end_pfn(g->node), LARGE_PAGES);
	unsigned long run = 0;			/* pages of the run that starts at pfn */
	struct zone *zone = NULL;
	int err;

	low = round_up(low, LARGE_PAGES);
	while (g->wanted && pfn > low) {
		bool ok = block_movable(pfn - LARGE_PAGES, g->node);
		struct zone *here = ok ? page_zone(pfn_to_page(pfn - LARGE_PAGES)) : NULL;

		if (run && (!ok || here != zone || run >= g->wanted)) {
			err = take_parts(g, pfn, min(run, g->wanted));
			if (err)
				return err;
			run = 0;
			continue;
		}
		pfn -= LARGE_PAGES;
		if (ok)
			run += LARGE_PAGES;
		zone = here;
		cond_resched();
	}
	return run && g->wanted ? take_parts(g, pfn, min(run, g->wanted)) : 0;
}

static int take_blocks(struct gathering *g)
{
	int order;

	for (order = HANARE_MAX_ORDER; order >= LARGE_ORDER; order--) {
		while (g->wanted >= 1UL << order) {
			struct page *page = alloc_pages_node(g->node,
				GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN | __GFP_NORETRY, order);
			int err;

			if (!page)
				break;
			split_page(page, order);
			err = chunk_add(&g->chunks, &g->count, page_to_pfn(page), 1UL << order,
					g->node);
			if (err) {
				free_pages_one_by_one(page_to_pfn(page), 1UL << order);
				return err;
			}
			g->wanted -= 1UL << order;
			if (fatal_signal_pending(current))
				return -EINTR;
		}
	}
	return 0;
}

static int gather_node(struct gathering *g, int node)
{
	int err;

	g->node = node;
	err = take_contiguous(g);
	if (!err && g->wanted)
		err = take_blocks(g);
	return err;
}

/* Put what was gathered into the instance's sorted list; cannot fail half-way. */
static int chunks_merge(struct hanare_instance *inst, struct gathering *g)
{
	u32 total = inst->machine.chunk_count + g->count, used = 0, i, j;
	struct hanare_chunk *all;

	if (total > HANARE_CHUNKS_MAX)
		return -E2BIG;
	all = kcalloc(total, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	for (i = 0; i < total; i++) {
		struct hanare_chunk c = i < inst->machine.chunk_count ?
			inst->machine.chunks[i] : g->chunks[i - inst->machine.chunk_count];

		for (j = used; j > 0 && all[j - 1].pfn > c.pfn; j--)
			all[j] = all[j - 1];
		all[j] = c;
		used++;
	}
	for (i = 1, j = 0; i < used; i++) {
		if (all[j].pfn + all[j].pages == all[i].pfn && all[j].node == all[i].node)
			all[j].pages += all[i].pages;
		else
			all[++j] = all[i];
	}
	kfree(inst->machine.chunks);
	inst->machine.chunks = all;
	inst->machine.chunk_count = j + 1;
	for (i = 0; i < g->count; i++) {
		u64 bytes = (u64)g->chunks[i].pages << PAGE_SHIFT;

		inst->machine.memory_bytes += bytes;
		if (g->chunks[i].node < ARRAY_SIZE(inst->machine.node_bytes))
			inst->machine.node_bytes[g->chunks[i].node] += bytes;
	}
	return 0;
}

int hanare_add_memory(struct hanare_instance *inst, struct hanare_add_memory *arg)
{
	struct gathering g = { .wanted = arg->bytes >> PAGE_SHIFT };
	nodemask_t nodes = NODE_MASK_NONE;
	u64 spare, found;
	int err = 0, node;
	u32 i;

	if (!arg->bytes || arg->bytes % HANARE_LARGE_PAGE_SIZE)
		return refuse(arg->message, -EINVAL,
			"%llu bytes: the size must be a multiple of 2 MiB and not 0", arg->bytes);
	if (arg->reserved)
		return refuse(arg->message, -EINVAL, "a reserved field is not zero");
	if (inst->state != HANARE_INSTANCE_CREATED)
		return refuse(arg->message, -EBUSY,
			"%s is booted: memory can only be added before boot", inst->name);
	if (arg->node < -1 || arg->node >= MAX_NUMNODES ||
	    (arg->node >= 0 && !node_state(arg->node, N_MEMORY)))
		return refuse(arg->message, -EINVAL,
			"there is no NUMA node %d with memory: see /sys/devices/system/node", arg->node);
	spare = (u64)max(si_mem_available(), 0L) << PAGE_SHIFT;
	spare = spare > HANARE_MEMORY_KEPT_BYTES ? spare - HANARE_MEMORY_KEPT_BYTES : 0;
	if (arg->bytes > spare)
		return refuse(arg->message, -ENOMEM,
			"%llu MiB wanted, but Linux can spare %llu MiB: ask for less, or end some programs",
			arg->bytes >> 20, spare >> 20);

	if (arg->node >= 0) {
		node_set(arg->node, nodes);
	} else {
		for (i = 0; i < inst->cpu_count; i++)
			node_set(inst->cpus[i].node, nodes);
		nodes_and(nodes, nodes, node_states[N_MEMORY]);
		if (nodes_empty(nodes))
			nodes = node_states[N_MEMORY];
	}
	for_each_node_mask(node, nodes) {
		if (!err && g.wanted)
			err = gather_node(&g, node);
	}
	found = arg->bytes - ((u64)g.wanted << PAGE_SHIFT);
	if (!err && g.wanted)
		err = -ENOMEM;
	if (!err)
		err = chunks_merge(inst, &g);
	if (err) {
		for (i = 0; i < g.count; i++)
			free_pages_one_by_one(g.chunks[i].pfn, g.chunks[i].pages);
		if (err == -ENOMEM)
			refuse(arg->message, err,
			       "only %llu of %llu MiB could be emptied on %s %*pbl: ask for less",
			       found >> 20, arg->bytes >> 20,
			       nodes_weight(nodes) > 1 ? "nodes" : "node", nodemask_pr_args(&nodes));
		else if (err == -E2BIG)
			refuse(arg->message, err,
			       "memory is too fragmented: more than %d pieces", HANARE_CHUNKS_MAX);
		else
			refuse(arg->message, err, "interrupted: nothing was kept");
	}
	kfree(g.chunks);
	return err;
}

void hanare_release_memory(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->machine.chunk_count; i++)
		free_pages_one_by_one(inst->machine.chunks[i].pfn, inst->machine.chunks[i].pages);
	kfree(inst->machine.chunks);
	inst->machine.chunks = NULL;
	inst->machine.chunk_count = 0;
	inst->machine.memory_bytes = 0;
	memset(inst->machine.node_bytes, 0, sizeof(inst->machine.node_bytes));
}

/* ---- CPUs ---- */

/* Linux' CPUs and those of LWKs. */
void hanare_present_cpus(struct cpumask *mask)
{
	cpumask_or(mask, cpu_present_mask, &owned_cpus);
}

static int cpu_check(struct hanare_instance *inst, u32 cpu, char *message)
{
	static struct cpumask present;

	hanare_present_cpus(&present);
	if (cpu >= nr_cpu_ids || !cpumask_test_cpu(cpu, &present))
		return refuse(message, -EINVAL,
			"there is no CPU %u: this machine has %*pbl", cpu,
			cpumask_pr_args(&present));
	if (cpu == 0)
		return refuse(message, -EINVAL,
			"CPU 0 is the boot CPU and must stay with Linux: choose another");
	if (cpumask_test_cpu(cpu, &owned_cpus)) {
		struct hanare_instance *other;
		u32 i;

		list_for_each_entry(other, &hanare_instances, entry)
			for (i = 0; i < other->cpu_count; i++)
				if (other->cpus[i].linux_cpu == cpu)
					return refuse(message, -EBUSY,
						"CPU %u already belongs to instance %s", cpu, other->name);
		return refuse(message, -EBUSY,
			"CPU %u could not be given back to Linux earlier: reboot to have it again", cpu);
	}
	if (!cpu_online(cpu))
		return refuse(message, -EBUSY,
			"CPU %u is offline: echo 1 > /sys/devices/system/cpu/cpu%u/online first", cpu, cpu);
	if (num_online_cpus() < 2)
		return refuse(message, -EINVAL,
			"CPU %u is the last one of Linux: leave it one", cpu);
	if (inst->cpu_count >= HANARE_CPUS_MAX)
		return refuse(message, -EINVAL,
			"an instance can have at most %d CPUs", HANARE_CPUS_MAX);
	return 0;
}

int hanare_add_cpu(struct hanare_instance *inst, struct hanare_add_cpu *arg)
{
	struct hanare_cpu *cpu;
	int err;

	if (inst->state != HANARE_INSTANCE_CREATED)
		return refuse(arg->message, -EBUSY,
			"%s is booted: CPUs can only be added before boot", inst->name);
	if (arg->check > 1)
		return refuse(arg->message, -EINVAL, "check must be 0 or 1");
	mutex_lock(&hanare_lock);
	err = cpu_check(inst, arg->cpu, arg->message);
	if (err || arg->check)
		goto out;
	hanare_topology_keep(arg->cpu);
	hanare_cache_keep(arg->cpu);
	WRITE_ONCE(leaving_cpu, arg->cpu);
	err = remove_cpu(arg->cpu);
	WRITE_ONCE(leaving_cpu, -1);
	if (err) {
		set_cpu_present(arg->cpu, true);
		refuse(arg->message, err,
		       "Linux does not let go of CPU %u (error %d): see dmesg, or choose another",
		       arg->cpu, err);
		goto out;
	}
	cpumask_set_cpu(arg->cpu, &owned_cpus);
	/* Between the two, another task may have put it online again. */
	if (cpu_online(arg->cpu)) {
		cpumask_clear_cpu(arg->cpu, &owned_cpus);
		set_cpu_present(arg->cpu, true);
		err = refuse(arg->message, -EBUSY, "CPU %u was put online again: try again",
			     arg->cpu);
		goto out;
	}
	cpu = &inst->cpus[inst->cpu_count];
	memset(cpu, 0, sizeof(*cpu));
	cpu->inst = inst;
	cpu->linux_cpu = arg->cpu;
	cpu->apicid = per_cpu(x86_cpu_to_apicid, arg->cpu);
	cpu->node = cpu_to_node(arg->cpu);
	if (cpu->node < 0)
		cpu->node = 0;
	spin_lock_init(&cpu->link.inbound_lock);
	spin_lock_init(&cpu->link.outbound_lock);
	inst->cpu_count++;
	hanare_topology_show(inst, arg->cpu);
	hanare_cache_show(inst, arg->cpu);
out:
	mutex_unlock(&hanare_lock);
	return err;
}

/*
 * Linux marks the frame. It takes one of its own away from its users; one of the instance's it
 * keeps when the instance gives its memory back.
 */
void hanare_bad_memory(struct hanare_instance *inst, u64 pfn)
{
	if (!pfn_valid(pfn) || atomic_inc_return(&inst->machine.bad_pages) > BAD_PAGES_MAX) {
		pr_warn_ratelimited("%s: bad memory at frame %#llx: not marked\n", inst->name, pfn);
		return;
	}
	memory_failure_queue(pfn, 0);
}

/* The CPUs must be stopped (or never started). Counts those Linux does not take. */
int hanare_release_cpus(struct hanare_instance *inst, char *message)
{
	int lost = 0;
	u32 i;

	mutex_lock(&hanare_lock);
	for (i = 0; i < inst->cpu_count; i++) {
		unsigned int cpu = inst->cpus[i].linux_cpu;
		int err;

		cpumask_clear_cpu(cpu, &owned_cpus);
		set_cpu_present(cpu, true);
		hanare_cache_hide(cpu);
		hanare_topology_hide(cpu);
		err = add_cpu(cpu);
		if (!err)
			continue;
		lost++;
		pr_err("CPU %u does not come back to Linux (error %d); try: echo 1 > /sys/devices/system/cpu/cpu%u/online\n",
		       cpu, err, cpu);
		if (message)
			refuse(message, err,
			       "CPU %u did not come back to Linux (error %d): echo 1 > /sys/devices/system/cpu/cpu%u/online",
			       cpu, err, cpu);
	}
	inst->cpu_count = 0;
	mutex_unlock(&hanare_lock);
	return lost;
}
