/* SPDX-License-Identifier: GPL-2.0 */
/* CPUs and memory of an instance: what the layer machine keeps in it. Under inst->lock. */
#ifndef HANARE_MACHINE_STATE_H
#define HANARE_MACHINE_STATE_H

#include <linux/atomic.h>
#include <linux/spinlock.h>
#include "hanare_abi.h"
#include "protocol.h"

struct hanare_instance;

/* Most CPUs of an instance. Linux may have more: struct hanare_linux_cpu_set names its CPUs. */
#define HANARE_CPUS_MAX 64

/* Memory of an instance in one piece. */
struct hanare_chunk {
	unsigned long pfn;			/* as the LWK numbers its frames */
	unsigned long window;			/* the first one's page frame number on Linux */
	unsigned long pages;
	int node;
};

struct hanare_cpu {
	struct hanare_instance *inst;
	unsigned int linux_cpu;
	u32 apicid;
	int node;
	bool started;
	struct hanare_cpu_shared *shared;	/* in the shared region, or NULL */
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

struct hanare_instance_machine {
	struct hanare_chunk *chunks;		/* sorted, merged */
	u32 chunk_count;
	u64 memory_bytes;
	u64 node_bytes[8];

	struct hanare_cpu cpus[HANARE_CPUS_MAX];
	u32 cpu_count;

	atomic_t bad_pages;			/* that the LWK has told of */
};

#endif
