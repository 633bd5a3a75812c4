/* SPDX-License-Identifier: GPL-2.0 */
/* Where a booted instance is reached: what the layer transport keeps in it. */
#ifndef HANARE_TRANSPORT_STATE_H
#define HANARE_TRANSPORT_STATE_H

#include "machine/state.h"

struct hanare_doorbell_events;

/* An interrupt by which CPUs of the LWK ring Linux. */
struct hanare_doorbell {
	struct hanare_instance *inst;
	struct hanare_doorbell_shared *shared;
	unsigned int cpu;			/* of Linux', where it is now */
	u32 seen[HANARE_CPUS_MAX];		/* of each CPU's word, by the handler */
	/* The transport's. */
	const struct hanare_doorbell_events *events;
	struct irq_data *data;			/* once it has a place */
	unsigned int irq;
	int id;
	bool requested;
};

struct hanare_instance_reach {
	void *shared;				/* struct hanare_boot_params; NULL: not booted */
	phys_addr_t shared_phys;
	u64 shared_size, image_size;
	phys_addr_t image_phys;

	struct hanare_doorbell *doorbells;
	u32 doorbell_count;
};

#endif
