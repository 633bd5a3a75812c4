// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that sleep in a read of an eventfd, and are rung by the LWK: docs/wakeup.md.
 *
 * How long a signal takes is the program's to decide: it may have any number of epoll instances
 * look at its eventfd. So the doorbell's handler, which others wait for, only notes the ring; the
 * signal is given where a write(2) of the program would be, by a kernel thread that may take its
 * time.
 */
#include "space/space.h"

#include <linux/eventfd.h>
#include <linux/workqueue.h>

static struct workqueue_struct *ring_queue;

int hanare_eventfds_init(void)
{
	ring_queue = alloc_workqueue("hanare_rings", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return ring_queue ? 0 : -ENOMEM;
}

/* After the last space. */
void hanare_eventfds_exit(void)
{
	destroy_workqueue(ring_queue);
}

static void signal_rung(struct work_struct *work)
{
	struct hanare_space *space = container_of(work, struct hanare_space, rings.work);
	struct eventfd_ctx *eventfd;
	unsigned long slot;

	clear_bit(0, &space->rings.queued);
	/*
	 * A ring that finds the bit clear queues the work again; one that found it set is seen
	 * here.
	 */
	smp_mb__after_atomic();
	for_each_set_bit(slot, space->rings.eventfds_rung, HANARE_FIRST_SLOTS) {
		clear_bit(slot, space->rings.eventfds_rung);
		mutex_lock(&space->rings.eventfds_lock);
		eventfd = xa_load(&space->rings.eventfds, slot);
		if (eventfd)
			hanare_eventfd_signal(eventfd);
		mutex_unlock(&space->rings.eventfds_lock);
		cond_resched();
	}
	hanare_space_put(space);
}

void hanare_space_init_eventfds(struct hanare_space *space)
{
	mutex_init(&space->rings.eventfds_lock);
	xa_init_flags(&space->rings.eventfds, XA_FLAGS_ACCOUNT);
	INIT_WORK(&space->rings.work, signal_rung);
}

/* From the doorbell's handler. */
void hanare_space_ring_eventfd(struct hanare_instance *inst, u64 id, u32 slot)
{
	struct hanare_space *space;

	rcu_read_lock();
	space = hanare_space_peek(id);
	if (space && space->inst == inst && slot < HANARE_FIRST_SLOTS) {
		set_bit(slot, space->rings.eventfds_rung);
		smp_mb__after_atomic();
		if (!test_and_set_bit(0, &space->rings.queued) && kref_get_unless_zero(&space->ref))
			queue_work(ring_queue, &space->rings.work);
	}
	rcu_read_unlock();
}

/*
 * For a worker, whose thread is rung so from now on. Only the first slots have one: a program with
 * more threads rings by write(2), and what a program keeps without a descriptor is bounded.
 */
long hanare_eventfd(struct hanare_space *space, void *data)
{
	const struct hanare_eventfd *arg = data;
	struct eventfd_ctx *eventfd = NULL, *before;
	long err = 0;

	if (arg->slot >= HANARE_FIRST_SLOTS)
		return -EINVAL;
	if (arg->descriptor != HANARE_NO_EVENTFD) {
		eventfd = eventfd_ctx_fdget(arg->descriptor);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	mutex_lock(&space->rings.eventfds_lock);
	/* What it replaces, or itself, is given back. */
	before = eventfd;
	if (space->rings.eventfds_closed) {
		err = -ESRCH;
	} else {
		void *old = xa_store(&space->rings.eventfds, arg->slot, eventfd, GFP_KERNEL);

		err = xa_err(old);
		if (!err)
			before = old;
	}
	mutex_unlock(&space->rings.eventfds_lock);
	if (before)
		eventfd_ctx_put(before);
	return err;
}
