/* SPDX-License-Identifier: GPL-2.0 */
/* CPUs and memory of an instance: what the layer machine keeps in it. Under inst->lock. */
#ifndef HANARE_MACHINE_STATE_H
#define HANARE_MACHINE_STATE_H

#include <linux/atomic.h>
#include "hanare_abi.h"

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

struct hanare_instance_machine {
	struct hanare_chunk *chunks;		/* sorted, merged */
	u32 chunk_count;
	u64 memory_bytes;
	u64 node_bytes[8];

	atomic_t bad_pages;			/* that the LWK has told of */
};

#endif
