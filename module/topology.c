// SPDX-License-Identifier: GPL-2.0
/*
 * Where a CPU sits: package, die, core. Linux forgets it, and removes
 * /sys/devices/system/cpu/cpuN/topology, when a CPU goes offline; while the CPU is
 * an instance's we keep both.
 */
#include "hanare.h"

#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/topology.h>

static struct hanare_place *places;		/* by Linux' number; under hanare_lock */

int hanare_topology_init(void)
{
	places = kcalloc(nr_cpu_ids, sizeof(*places), GFP_KERNEL);
	return places ? 0 : -ENOMEM;
}

void hanare_topology_exit(void)
{
	kfree(places);
}

const struct hanare_place *hanare_place_of(u32 cpu)
{
	return &places[cpu];
}

/* Before it goes offline. */
void hanare_topology_keep(u32 cpu)
{
	places[cpu].package = topology_physical_package_id(cpu);
	places[cpu].die = topology_die_id(cpu);
	places[cpu].core = topology_core_id(cpu);
}

/* Which CPUs of its instance are near to it. */
enum near { NEAR_CORE, NEAR_DIE, NEAR_PACKAGE };

static bool is_near(const struct hanare_place *a, const struct hanare_place *b, enum near near)
{
	return a->inst == b->inst && a->package == b->package &&
	       (near == NEAR_PACKAGE || a->die == b->die) &&
	       (near != NEAR_CORE || a->core == b->core);
}

static ssize_t show_mask(struct device *dev, char *buf, enum near near, bool list)
{
	const struct hanare_place *place = hanare_place_of(dev->id);
	cpumask_var_t mask;
	ssize_t ret;
	u32 cpu;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (places[cpu].shown && is_near(place, &places[cpu], near))
			cpumask_set_cpu(cpu, mask);
	ret = list ? sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(mask)) :
		     sysfs_emit(buf, "%*pb\n", cpumask_pr_args(mask));
	free_cpumask_var(mask);
	return ret;
}

#define NUMBER(name, field)								\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	return sysfs_emit(buf, "%u\n", hanare_place_of(dev->id)->field);		\
}											\
static DEVICE_ATTR_RO(name)
#define MASK(name, near, list)								\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	return show_mask(dev, buf, near, list);						\
}											\
static DEVICE_ATTR_RO(name)

NUMBER(physical_package_id, package);
NUMBER(die_id, die);
NUMBER(core_id, core);
MASK(thread_siblings, NEAR_CORE, false);
MASK(thread_siblings_list, NEAR_CORE, true);
MASK(core_cpus, NEAR_CORE, false);
MASK(core_cpus_list, NEAR_CORE, true);
MASK(die_cpus, NEAR_DIE, false);
MASK(die_cpus_list, NEAR_DIE, true);
MASK(core_siblings, NEAR_PACKAGE, false);
MASK(core_siblings_list, NEAR_PACKAGE, true);
MASK(package_cpus, NEAR_PACKAGE, false);
MASK(package_cpus_list, NEAR_PACKAGE, true);

static struct attribute *attributes[] = {
	&dev_attr_physical_package_id.attr, &dev_attr_die_id.attr, &dev_attr_core_id.attr,
	&dev_attr_thread_siblings.attr, &dev_attr_thread_siblings_list.attr,
	&dev_attr_core_cpus.attr, &dev_attr_core_cpus_list.attr,
	&dev_attr_die_cpus.attr, &dev_attr_die_cpus_list.attr,
	&dev_attr_core_siblings.attr, &dev_attr_core_siblings_list.attr,
	&dev_attr_package_cpus.attr, &dev_attr_package_cpus_list.attr,
	NULL
};

static const struct attribute_group group = { .name = "topology", .attrs = attributes };

/* The CPU is the instance's, and offline on Linux. */
void hanare_topology_show(struct hanare_instance *inst, u32 cpu)
{
	struct device *dev = get_cpu_device(cpu);

	places[cpu].inst = inst;
	places[cpu].shown = dev && !sysfs_create_group(&dev->kobj, &group);
	if (!places[cpu].shown)
		pr_warn("CPU %u: no topology in sysfs\n", cpu);
}

/* Before Linux takes it online, and makes its own. */
void hanare_topology_hide(u32 cpu)
{
	struct device *dev = get_cpu_device(cpu);

	if (dev && places[cpu].shown)
		sysfs_remove_group(&dev->kobj, &group);
	places[cpu].shown = false;
	places[cpu].inst = NULL;
}
