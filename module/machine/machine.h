/* SPDX-License-Identifier: GPL-2.0 */
/* CPUs and memory: the lowest layer. What those above may use. */
#ifndef HANARE_MACHINE_H
#define HANARE_MACHINE_H

#include "hanare.h"

/* instances.c */
extern struct mutex hanare_lock;		/* hanare_instances */
extern struct list_head hanare_instances;
struct hanare_instance *hanare_instance_get(const char *name);
struct hanare_instance *hanare_instance_named(const u8 *name);
int hanare_refuse_unknown(char *message, const u8 *name);
void hanare_instance_put(struct hanare_instance *inst);
int hanare_instance_create(const u8 *name, const struct hanare_transport *transport, u8 *message,
			   struct hanare_instance **made);
void hanare_instance_unlist(struct hanare_instance *inst);
u32 hanare_instance_count(void);

/* partition.c: this Linux' own CPUs and memory, for transport/local.c. */
int hanare_partition_init(void);
void hanare_partition_exit(void);
int hanare_add_memory(struct hanare_instance *inst, struct hanare_add_memory *arg);
int hanare_add_cpu(struct hanare_instance *inst, struct hanare_add_cpu *arg);
int hanare_release_cpus(struct hanare_instance *inst, char *message);
void hanare_release_memory(struct hanare_instance *inst);
void hanare_bad_memory(struct hanare_instance *inst, u64 pfn);
void hanare_present_cpus(struct cpumask *mask);

/* topology.c, cache.c: what Linux forgets of a CPU that goes offline. */
int hanare_topology_init(void);
void hanare_topology_exit(void);
void hanare_topology_keep(u32 cpu);
void hanare_topology_show(struct hanare_instance *inst, u32 cpu);
void hanare_topology_hide(u32 cpu);
struct hanare_place {
	u32 package, die, core;
	int cluster;				/* CPUs that share a level 2 cache; -1: not known */
	u64 ppin;				/* serial number of the package, or 0 */
	const struct hanare_instance *inst;
	bool shown;
};
int hanare_cache_init(void);
void hanare_cache_exit(void);
void hanare_cache_keep(u32 cpu);
void hanare_cache_show(const struct hanare_instance *inst, u32 cpu);
void hanare_cache_hide(u32 cpu);
const struct hanare_place *hanare_place_of(u32 cpu);

/* leaks.c */
u32 hanare_cpu_leaks(void);

#endif
