// SPDX-License-Identifier: GPL-2.0
/* Whether an LWK answers. */
#include "link/link.h"

static int ping(struct hanare_instance *inst, struct hanare_cpu *cpu, u64 *ns)
{
	struct hanare_call call = { .kind = HANARE_REQUEST_PING };
	u64 start = ktime_get_ns();
	int err = hanare_request(inst, cpu, &call, WAIT_KILLABLE, 1000);

	*ns = ktime_get_ns() - start;
	return err ?: call.status;
}

/* Called when an LWK has not answered in time. */
void hanare_does_not_answer(struct hanare_instance *inst)
{
	spin_lock_irq(&inst->state_lock);
	if (inst->state == HANARE_INSTANCE_RUNNING)
		inst->state = HANARE_INSTANCE_HUNG;
	spin_unlock_irq(&inst->state_lock);
}

/*
 * Asks every CPU: the state says then whether all answer. inst->live is held. The state stays what
 * it was where a CPU could not be asked (-EBUSY): that the caller's own requests take up the user's
 * share of the pool says nothing of the CPU, and must not have others refused.
 */
void hanare_ping_all(struct hanare_instance *inst, u64 *slowest)
{
	u32 i;

	*slowest = 0;
	for (i = 0; i < inst->cpu_count; i++) {
		u64 ns;
		int err = ping(inst, &inst->cpus[i], &ns);

		*slowest = max(*slowest, ns);
		if (err == -EINTR || err == -EIO || err == -EBUSY)
			return;
		if (err) {
			hanare_does_not_answer(inst);
			return;
		}
	}
	spin_lock_irq(&inst->state_lock);
	if (inst->state == HANARE_INSTANCE_HUNG)
		inst->state = HANARE_INSTANCE_RUNNING;
	spin_unlock_irq(&inst->state_lock);
}
