// SPDX-License-Identifier: GPL-2.0
/*
 * The caches of a CPU. Linux removes /sys/devices/system/cpu/cpuN/cache when a CPU goes
 * offline; while the CPU is an instance's, the module keeps one there that says the same.
 */
#include "machine/machine.h"

#include <linux/cacheinfo.h>
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#define LEAVES_MAX 8				/* x86 has four or five */

/* A cache as one CPU sees it: what Linux' struct cacheinfo says, without its static mask. */
struct leaf {
	struct device *dev;			/* indexN, while shown */
	cpumask_var_t shared;			/* with which of the CPUs online then */
	u32 cpu, id, level, line, sets, ways, partition, size, attributes;
	enum cache_type type;
};

static struct caches {
	struct device *dir;			/* while shown */
	const struct hanare_instance *inst;
	u32 count;
	struct leaf leaves[LEAVES_MAX];
} *caches;					/* by Linux' number; under hanare_lock */

int hanare_cache_init(void)
{
	caches = kvcalloc(nr_cpu_ids, sizeof(*caches), GFP_KERNEL);
	return caches ? 0 : -ENOMEM;
}

static void forget(struct caches *c)
{
	while (c->count)
		free_cpumask_var(c->leaves[--c->count].shared);
}

void hanare_cache_exit(void)
{
	u32 cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		forget(&caches[cpu]);
	kvfree(caches);
}

static bool keep_leaf(struct leaf *leaf, const struct cacheinfo *info, u32 cpu)
{
	if (!info || !alloc_cpumask_var(&leaf->shared, GFP_KERNEL))
		return false;
	cpumask_copy(leaf->shared, &info->shared_cpu_map);
	leaf->cpu = cpu;
	leaf->id = info->id;
	leaf->type = info->type;
	leaf->level = info->level;
	leaf->line = info->coherency_line_size;
	leaf->sets = info->number_of_sets;
	leaf->ways = info->ways_of_associativity;
	leaf->partition = info->physical_line_partition;
	leaf->size = info->size;
	leaf->attributes = info->attributes;
	return true;
}

/* Before the CPU goes offline: Linux' device of each cache has its description behind it. */
void hanare_cache_keep(u32 cpu)
{
	struct caches *c = &caches[cpu];
	struct device *dir;

	forget(c);
	cpus_read_lock();
	dir = get_cpu_device(cpu);
	dir = dir && cpu_online(cpu) ? device_find_child_by_name(dir, "cache") : NULL;
	while (dir && c->count < LEAVES_MAX) {
		char name[16];
		struct device *dev;
		bool kept;

		snprintf(name, sizeof(name), "index%u", c->count);
		dev = device_find_child_by_name(dir, name);
		kept = dev && keep_leaf(&c->leaves[c->count], dev_get_drvdata(dev), cpu);
		put_device(dev);
		if (!kept)
			break;
		c->count++;
	}
	put_device(dir);
	cpus_read_unlock();
}

/* ---- the files ---- */

/*
 * Whether they are one cache. The CPU that went offline first saw the other one; ids tell
 * nothing, since Linux makes different ones for a shared cache of older AMD processors.
 */
static bool is_same(const struct leaf *a, const struct leaf *b)
{
	return a->level == b->level && a->type == b->type &&
	       (a->cpu == b->cpu || cpumask_test_cpu(b->cpu, a->shared) ||
		cpumask_test_cpu(a->cpu, b->shared));
}

static ssize_t show_shared(struct device *dev, char *buf, bool list)
{
	const struct leaf *leaf = dev_get_drvdata(dev);
	const struct hanare_instance *inst = READ_ONCE(caches[leaf->cpu].inst);
	cpumask_var_t mask;
	ssize_t ret;
	u32 cpu, i;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		for (i = 0; READ_ONCE(caches[cpu].inst) == inst && i < caches[cpu].count; i++)
			if (is_same(leaf, &caches[cpu].leaves[i]))
				cpumask_set_cpu(cpu, mask);
	ret = list ? sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(mask)) :
		     sysfs_emit(buf, "%*pb\n", cpumask_pr_args(mask));
	free_cpumask_var(mask);
	return ret;
}

static ssize_t shared_cpu_map_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_shared(dev, buf, false);
}

static ssize_t shared_cpu_list_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return show_shared(dev, buf, true);
}

static ssize_t type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct leaf *leaf = dev_get_drvdata(dev);
	const char *name = leaf->type == CACHE_TYPE_DATA ? "Data" :
			   leaf->type == CACHE_TYPE_INST ? "Instruction" : "Unified";

	return sysfs_emit(buf, "%s\n", name);
}

static ssize_t size_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct leaf *leaf = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%uK\n", leaf->size >> 10);
}

#define NUMBER(name, field)								\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
{											\
	const struct leaf *leaf = dev_get_drvdata(dev);					\
											\
	return sysfs_emit(buf, "%u\n", leaf->field);					\
}											\
static DEVICE_ATTR_RO(name)

NUMBER(id, id);
NUMBER(level, level);
NUMBER(coherency_line_size, line);
NUMBER(number_of_sets, sets);
NUMBER(ways_of_associativity, ways);
NUMBER(physical_line_partition, partition);
static DEVICE_ATTR_RO(type);
static DEVICE_ATTR_RO(size);
static DEVICE_ATTR_RO(shared_cpu_map);
static DEVICE_ATTR_RO(shared_cpu_list);

static struct attribute *attributes[] = {
	&dev_attr_id.attr, &dev_attr_type.attr, &dev_attr_level.attr, &dev_attr_size.attr,
	&dev_attr_coherency_line_size.attr, &dev_attr_number_of_sets.attr,
	&dev_attr_ways_of_associativity.attr, &dev_attr_physical_line_partition.attr,
	&dev_attr_shared_cpu_map.attr, &dev_attr_shared_cpu_list.attr,
	NULL
};

/* Linux shows what it knows. */
static umode_t is_visible(struct kobject *kobj, struct attribute *attr, int unused)
{
	const struct leaf *leaf = dev_get_drvdata(kobj_to_dev(kobj));

	if (attr == &dev_attr_id.attr && !(leaf->attributes & CACHE_ID))
		return 0;
	if (attr == &dev_attr_type.attr && !leaf->type)
		return 0;
	if (attr == &dev_attr_level.attr && !leaf->level)
		return 0;
	if ((attr == &dev_attr_size.attr || attr == &dev_attr_ways_of_associativity.attr) &&
	    !leaf->size)
		return 0;
	if (attr == &dev_attr_coherency_line_size.attr && !leaf->line)
		return 0;
	if (attr == &dev_attr_number_of_sets.attr && !leaf->sets)
		return 0;
	if (attr == &dev_attr_physical_line_partition.attr && !leaf->partition)
		return 0;
	return attr->mode;
}

static const struct attribute_group group = { .attrs = attributes, .is_visible = is_visible };
static const struct attribute_group *groups[] = { &group, NULL };

/* The CPU is the instance's, and offline on Linux. */
void hanare_cache_show(const struct hanare_instance *inst, u32 cpu)
{
	struct caches *c = &caches[cpu];
	struct device *dev = get_cpu_device(cpu);
	u32 i;

	for (i = 0; i < c->count; i++)
		c->leaves[i].dev = NULL;
	if (!dev || !c->count)
		return;
	WRITE_ONCE(c->inst, inst);
	c->dir = cpu_device_create(dev, NULL, NULL, "cache");
	for (i = 0; !IS_ERR(c->dir) && i < c->count; i++) {
		struct leaf *leaf = &c->leaves[i];

		leaf->dev = cpu_device_create(c->dir, leaf, groups, "index%u", i);
		if (!IS_ERR(leaf->dev))
			continue;
		pr_warn("CPU %u: no cache %u in sysfs\n", cpu, i);
		leaf->dev = NULL;
		break;
	}
	if (!IS_ERR(c->dir))
		return;
	pr_warn("CPU %u: no caches in sysfs\n", cpu);
	WRITE_ONCE(c->inst, NULL);
}

/* Before Linux takes it online, and makes its own. */
void hanare_cache_hide(u32 cpu)
{
	struct caches *c = &caches[cpu];
	u32 i;

	if (!c->inst)
		return;
	for (i = 0; i < c->count && c->leaves[i].dev; i++)
		device_unregister(c->leaves[i].dev);
	device_unregister(c->dir);
	WRITE_ONCE(c->inst, NULL);
}
