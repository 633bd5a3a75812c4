// SPDX-License-Identifier: GPL-2.0
/* Load averages and idle times of an LWK's CPUs. */
#include "link/link.h"

#include <linux/math64.h>
#include <linux/sched/loadavg.h>

/* How long the CPU has had nothing to do since boot. */
u64 hanare_idle_ns(const struct hanare_cpu *cpu)
{
	struct hanare_cpu_shared *shared = cpu->shared;
	u64 since = READ_ONCE(shared->idle_since), cycles = READ_ONCE(shared->idle_cycles);
	u64 now = hanare_tsc_ordered(cpu->inst);

	if (since && now > since)
		cycles += now - since;
	return mul_u64_u64_div_u64(cycles, NSEC_PER_MSEC, cpu->inst->transport->tsc_khz(cpu->inst));
}

u64 hanare_idle_sum_ns(const struct hanare_instance *inst)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < inst->cpu_count; i++)
		sum += hanare_idle_ns(&inst->cpus[i]);
	return sum;
}

/* Called now and then while the instance runs; counts at intervals of LOAD_FREQ. */
void hanare_load_update(struct hanare_instance *inst)
{
	u64 now = ktime_get_ns(), wall = now - inst->link.load_ns, idle, busy;
	unsigned long active;

	if (inst->link.load_ns && wall < (u64)LOAD_FREQ * NSEC_PER_SEC / HZ)
		return;
	idle = hanare_idle_sum_ns(inst);
	if (inst->link.load_ns) {
		busy = wall * inst->cpu_count;
		busy -= min(busy, idle - min(idle, inst->link.load_idle_ns));
		active = div64_u64(busy * FIXED_1, wall);
		inst->link.load[0] = calc_load(inst->link.load[0], EXP_1, active);
		inst->link.load[1] = calc_load(inst->link.load[1], EXP_5, active);
		inst->link.load[2] = calc_load(inst->link.load[2], EXP_15, active);
	}
	inst->link.load_ns = now;
	inst->link.load_idle_ns = idle;
}
