// SPDX-License-Identifier: GPL-2.0
/*
 * Where a CPU sits: package, die, cluster, core. Linux forgets it, and removes
 * /sys/devices/system/cpu/cpuN/topology, when a CPU goes offline; while the CPU is
 * an instance's the module keeps both.
 */
#include "machine/machine.h"

#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/kernfs.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/topology.h>

static struct hanare_place *places;		/* by Linux' number; under hanare_lock */
static u32 shown_count;				/* of places; under hanare_lock */
static struct device *boot_device;		/* CPU 0, while it has our file */

int hanare_topology_init(void)
{
	int err;

	places = kcalloc(nr_cpu_ids, sizeof(*places), GFP_KERNEL);
	if (!places)
		return -ENOMEM;
	err = hanare_cache_init();
	if (err)
		kfree(places);
	return err;
}

void hanare_topology_exit(void)
{
	hanare_cache_exit();
	kfree(places);
}

const struct hanare_place *hanare_place_of(u32 cpu)
{
	return &places[cpu];
}

/* A number of 6.1 that is not exported: its file is asked. -1: there is no such file. */
static int cluster_of(u32 cpu)
{
	struct device *dev = get_cpu_device(cpu);
	struct kernfs_node *dir = dev ? kernfs_find_and_get(dev->kobj.sd, "topology") : NULL;
	struct kernfs_node *file = dir ? kernfs_find_and_get(dir, "cluster_id") : NULL;
	struct device_attribute *attr;
	int cluster = -1;
	char *text;

	text = file ? (char *)get_zeroed_page(GFP_KERNEL) : NULL;
	if (text) {
		attr = container_of((struct attribute *)file->priv, struct device_attribute, attr);
		if (attr->show(dev, attr, text) <= 0 || kstrtoint(strim(text), 10, &cluster))
			cluster = -1;
		free_page((unsigned long)text);
	}
	kernfs_put(file);
	kernfs_put(dir);
	return cluster;
}

/* Before it goes offline. */
void hanare_topology_keep(u32 cpu)
{
	places[cpu].package = topology_physical_package_id(cpu);
	places[cpu].die = topology_die_id(cpu);
	places[cpu].core = topology_core_id(cpu);
	places[cpu].ppin = topology_ppin(cpu);
	places[cpu].cluster = cluster_of(cpu);
}

/* Which CPUs of its instance are near to it. */
enum near { NEAR_CORE, NEAR_CLUSTER, NEAR_DIE, NEAR_PACKAGE };

static bool is_near(const struct hanare_place *a, const struct hanare_place *b, enum near near)
{
	if (a->inst != b->inst || a->package != b->package)
		return false;
	if (near == NEAR_PACKAGE)
		return true;
	if (near == NEAR_CLUSTER && a->cluster == b->cluster && a->cluster != (u16)BAD_APICID)
		return true;
	return a->die == b->die && (near == NEAR_DIE || a->core == b->core);
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
NUMBER(cluster_id, cluster);
NUMBER(core_id, core);

static ssize_t ppin_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%llx\n", hanare_place_of(dev->id)->ppin);
}
static DEVICE_ATTR_ADMIN_RO(ppin);

MASK(thread_siblings, NEAR_CORE, false);
MASK(thread_siblings_list, NEAR_CORE, true);
MASK(core_cpus, NEAR_CORE, false);
MASK(core_cpus_list, NEAR_CORE, true);
MASK(cluster_cpus, NEAR_CLUSTER, false);
MASK(cluster_cpus_list, NEAR_CLUSTER, true);
MASK(die_cpus, NEAR_DIE, false);
MASK(die_cpus_list, NEAR_DIE, true);
MASK(core_siblings, NEAR_PACKAGE, false);
MASK(core_siblings_list, NEAR_PACKAGE, true);
MASK(package_cpus, NEAR_PACKAGE, false);
MASK(package_cpus_list, NEAR_PACKAGE, true);

static struct attribute *attributes[] = {
	&dev_attr_physical_package_id.attr, &dev_attr_die_id.attr, &dev_attr_cluster_id.attr,
	&dev_attr_core_id.attr, &dev_attr_ppin.attr,
	&dev_attr_thread_siblings.attr, &dev_attr_thread_siblings_list.attr,
	&dev_attr_core_cpus.attr, &dev_attr_core_cpus_list.attr,
	&dev_attr_cluster_cpus.attr, &dev_attr_cluster_cpus_list.attr,
	&dev_attr_die_cpus.attr, &dev_attr_die_cpus_list.attr,
	&dev_attr_core_siblings.attr, &dev_attr_core_siblings_list.attr,
	&dev_attr_package_cpus.attr, &dev_attr_package_cpus_list.attr,
	NULL
};

/* Linux shows what it knows. */
static umode_t is_visible(struct kobject *kobj, struct attribute *attr, int unused)
{
	const struct hanare_place *place = hanare_place_of(kobj_to_dev(kobj)->id);
	bool cluster = attr == &dev_attr_cluster_id.attr || attr == &dev_attr_cluster_cpus.attr ||
		       attr == &dev_attr_cluster_cpus_list.attr;

	if ((cluster && place->cluster < 0) || (attr == &dev_attr_ppin.attr && !place->ppin))
		return 0;
	return attr->mode;
}

static const struct attribute_group group = {
	.name = "topology", .attrs = attributes, .is_visible = is_visible
};

/* ---- the boot CPU ---- */

static ssize_t online_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", cpu_online(dev->id));
}
static DEVICE_ATTR_RO(online);

/*
 * Linux gives no file `online` to a CPU that it cannot take offline. To an LWK program that CPU is
 * offline, and says so in this file (show/system.c); a CPU without a file is online.
 */
static void boot_cpu_show(void)
{
	struct device *dev = get_cpu_device(0);
	struct kernfs_node *file = dev ? kernfs_find_and_get(dev->kobj.sd, "online") : NULL;

	if (dev && !file && !device_create_file(dev, &dev_attr_online))
		boot_device = dev;
	kernfs_put(file);
}

static void boot_cpu_hide(void)
{
	if (boot_device)
		device_remove_file(boot_device, &dev_attr_online);
	boot_device = NULL;
}

/* ---- coming and going ---- */

/* The CPU is the instance's, and offline on Linux. */
void hanare_topology_show(struct hanare_instance *inst, u32 cpu)
{
	struct device *dev = get_cpu_device(cpu);

	places[cpu].inst = inst;
	places[cpu].shown = dev && !sysfs_create_group(&dev->kobj, &group);
	if (!places[cpu].shown)
		pr_warn("CPU %u: no topology in sysfs\n", cpu);
	else if (!shown_count++)
		boot_cpu_show();
}

/* Before Linux takes it online, and makes its own. */
void hanare_topology_hide(u32 cpu)
{
	struct device *dev = get_cpu_device(cpu);

	if (dev && places[cpu].shown) {
		sysfs_remove_group(&dev->kobj, &group);
		if (!--shown_count)
			boot_cpu_hide();
	}
	places[cpu].shown = false;
	places[cpu].inst = NULL;
}
