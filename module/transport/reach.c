// SPDX-License-Identifier: GPL-2.0
/* The same for each transport: whose frames are named, and how far a CPU has come. */
#include "transport/transport.h"

#include <linux/delay.h>
#include <linux/sched/signal.h>

const struct hanare_chunk *hanare_chunk_at(const struct hanare_instance *inst, u64 phys, u64 pages)
{
	u64 pfn = phys >> PAGE_SHIFT, end = pfn + pages;
	u32 low = 0, high = inst->machine.chunk_count;

	if (phys & ~PAGE_MASK || !pages || end < pfn)
		return NULL;
	while (low < high) {
		u32 mid = (low + high) / 2;
		const struct hanare_chunk *c = &inst->machine.chunks[mid];

		if (pfn < c->pfn)
			high = mid;
		else if (pfn >= c->pfn + c->pages)
			low = mid + 1;
		else
			return end <= c->pfn + c->pages ? c : NULL;
	}
	return NULL;
}

const struct hanare_chunk *hanare_own_chunk(const struct hanare_instance *inst, u64 phys, u64 pages)
{
	u64 pfn = phys >> PAGE_SHIFT, end = pfn + pages;

	if (pfn < (inst->reach.image_phys + inst->reach.image_size + PAGE_SIZE - 1) >> PAGE_SHIFT &&
	    end > inst->reach.shared_phys >> PAGE_SHIFT)
		return NULL;
	return hanare_chunk_at(inst, phys, pages);
}

bool hanare_owns_frames(const struct hanare_instance *inst, u64 phys, u64 pages)
{
	return hanare_own_chunk(inst, phys, pages);
}

u32 hanare_cpu_state(const struct hanare_cpu *cpu)
{
	return smp_load_acquire(&cpu->shared->state);
}

int hanare_await_cpu(const struct hanare_cpu *cpu, u32 state, ktime_t deadline)
{
	const struct hanare_boot_params *params = cpu->inst->reach.shared;

	while (hanare_cpu_state(cpu) < state) {
		if (ktime_after(ktime_get(), deadline))
			return hanare_cpu_state(cpu) >= state ? 0 : -ETIMEDOUT;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (READ_ONCE(params->panicked))
			return -EIO;
		usleep_range(50, 200);
	}
	return 0;
}
