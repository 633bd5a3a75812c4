// SPDX-License-Identifier: GPL-2.0
/* Threads that sleep in a read of an eventfd, and are rung by the LWK: docs/wakeup.md. */
#include "space/space.h"

#include <linux/eventfd.h>

/* From the doorbell's handler. */
void hanare_space_ring_eventfd(struct hanare_instance *inst, u64 id, u32 slot)
{
	struct eventfd_ctx *eventfd;
	struct hanare_space *space;
	unsigned long flags;

	rcu_read_lock();
	space = hanare_space_peek(id);
	if (space && space->inst == inst) {
		/* Who takes it away waits for this lock before it drops its reference. */
		xa_lock_irqsave(&space->eventfds, flags);
		eventfd = xa_load(&space->eventfds, slot);
		if (eventfd)
			hanare_eventfd_signal(eventfd);
		xa_unlock_irqrestore(&space->eventfds, flags);
	}
	rcu_read_unlock();
}

/*
 * For a worker, whose thread is rung so from now on. Only the first slots have one: who has more threads
 * is rung by write(2), and what a program keeps without a descriptor is bounded.
 */
long hanare_eventfd(struct hanare_space *space, void *data)
{
	const struct hanare_eventfd *arg = data;
	struct eventfd_ctx *eventfd = NULL, *before;

	if (arg->slot >= HANARE_FIRST_SLOTS)
		return -EINVAL;
	if (arg->descriptor != HANARE_NO_EVENTFD) {
		eventfd = eventfd_ctx_fdget(arg->descriptor);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	before = xa_store_irq(&space->eventfds, arg->slot, eventfd, GFP_KERNEL);
	if (xa_is_err(before)) {
		if (eventfd)
			eventfd_ctx_put(eventfd);
		return xa_err(before);
	}
	if (before)
		eventfd_ctx_put(before);
	return 0;
}
