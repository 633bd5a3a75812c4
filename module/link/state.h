/* SPDX-License-Identifier: GPL-2.0 */
/* Messages between the kernels: what the layer link keeps in an instance and in a space. */
#ifndef HANARE_LINK_STATE_H
#define HANARE_LINK_STATE_H

#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "link/shares.h"
#include "protocol.h"
#include "transport/state.h"

struct hanare_pool;

/* The private half of a request: nothing here can be damaged by the LWK. */
struct hanare_request_wait {
	wait_queue_head_t wq;
	struct hanare_cpu *cpu;			/* the one asked, or NULL */
	bool abandoned;				/* under entry_lock */
};

/* A task that waits for an entry of the table: on its stack. */
struct hanare_entry_wait {
	struct hanare_asker asker;
	wait_queue_head_t *wq;
};

/* What makes a request needless while it waits for its entry. */
struct hanare_over {
	bool is_over;
	wait_queue_head_t wq;
};

/* The end of a space of which the LWK has not said yet that everything is back: closes.c. */
struct hanare_unconfirmed {
	struct list_head link;			/* inst->link.closes */
	u32 space;
	int entry;				/* of the request that is not answered yet, or -1. Written under closes_lock */
	int awaited;				/* of the request that the task did not wait for any longer, or -1. The same */
	struct hanare_cpu *cpu;			/* that was asked by `entry`. The same */
	struct hanare_cpu *next;		/* that has to answer: others might overtake an earlier request; NULL: any. Under closes_lock */
	unsigned long due;			/* jiffies when it is asked again, or should have been answered */
	bool held;				/* the task that ended asks, too. Under closes_lock */
	struct hanare_over gone;		/* nothing is left. Set under closes_lock, unset before others know of it */
	u64 used[4];				/* what the LWK says of the space's use. Under closes_lock */
	bool has_used;				/* it has said so. The same */
	bool is_taken;				/* the task that ended knows it. The same */
	unsigned long since;			/* jiffies when it ended */
	u32 threads, tid;			/* that the LWK has of it still, and one of them, when it answered last. The same */
	struct pid *pid;			/* whose space it was, with a reference */
	kuid_t user;				/* charged for it */
	struct hanare_pool *pool;		/* of a native task, with a reference; or NULL */
};

/* What goes between Linux and a CPU of the LWK. */
struct hanare_cpu_link {
	spinlock_t inbound_lock;		/* inbound */
	struct hanare_producer inbound;
	spinlock_t outbound_lock;		/* outbound_head; what is read there is done under it */
	u32 outbound_head;
	u32 spaces;				/* homes, under state_lock */
	atomic_t asked;				/* requests without an answer yet */
	unsigned long silent_since;		/* jiffies: its last answer, or the request after all had one; a hint */
	u64 rung_at;				/* TSC, when it was rung last */
	bool told;				/* closes.c: it has one to answer */
	u32 waits_at;				/* outbound_head + 1 at which something waited at the last look, or 0 */
	u64 entries;				/* into its kernel, as last looked at */
	unsigned long looked, entered;		/* when that was, and since when they may not have grown: hints */
};

/* Valid while the instance is booted, but for locks and queues. */
struct hanare_instance_link {
	struct hanare_request *requests;
	struct hanare_service *services;
	u32 service_count;
	struct hanare_log_ring *log;
	struct hanare_clock_page *clock;
	phys_addr_t clock_phys;
	struct hanare_bell *bells;
	const struct hanare_offer *offers;	/* HANARE_OFFERS of them */
	u32 bell_count;

	struct hanare_request_wait *waits;
	spinlock_t entry_lock;			/* shares; entries that were abandoned */
	struct hanare_shares *shares;
	unsigned long looked;			/* jiffies when a waiter looked for a lost doorbell */

	spinlock_t closes_lock;			/* closes; parts of what is in it */
	struct list_head closes;		/* ends that the LWK has not confirmed */
	struct delayed_work close_work;

	u8 *nearest;				/* by CPU of Linux': its doorbell plus 1 */
	struct delayed_work look_work;		/* after a move of a doorbell */
	atomic_t looks;				/* that are left */
	struct task_struct *service_thread;
	wait_queue_head_t service_wait;
	wait_queue_head_t served_wait;		/* a service was run */
	unsigned long *service_pending;

	struct delayed_work clock_work;
	u64 clock_mult_nominal;
	u64 clock_last_tsc, clock_last_ns;
	/* Writers of the clock page; works that run when Linux' clock is set. */
	raw_spinlock_t clock_lock;
	struct irq_work clock_set_work;
	struct work_struct clock_tell_work;
	struct notifier_block clock_notifier;

	unsigned long load[3];			/* averages, as Linux' avenrun */
	u64 load_idle_ns, load_ns;		/* at the last look */
};

/* Requests of a kind about a space, of which none may overtake another; under its link.lock. */
struct hanare_order {
	struct hanare_cpu *at;			/* asked until it has answered all of them */
	u32 asked;				/* and not answered yet */
	u32 lost;				/* of these, given up before there was an answer */
};

/* Which CPU is asked about a space. */
struct hanare_space_link {
	struct hanare_cpu *home;		/* asked first, and where no other will do; request.c */
	bool opened;				/* the LWK has answered OPEN, and each START: CLOSE may overtake nothing */
	struct hanare_cpu *near;		/* where a thread of it was last seen; a hint */
	DECLARE_BITMAP(allowed, HANARE_CPU_SET_CPUS);	/* of the instance; full: none were chosen */
	spinlock_t lock;			/* the orders; the space's answers */
	struct hanare_order faults;		/* of its proxy */
	struct hanare_order observations;	/* of its tracers and debuggers */
	struct hanare_order pauses;		/* its processes stop, or go on */
};

#endif
