// SPDX-License-Identifier: GPL-2.0
/*
 * What sysfs and control groups show of the LWK's machine: which CPUs and nodes are online,
 * as on a Linux where the others are offline.
 */
#include "show/pseudo.h"

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/ctype.h>
#include <linux/dcache.h>
#include <linux/device.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/topology.h>
#include <asm/cpufeature.h>

void hanare_instance_cpus(const struct hanare_instance *inst, const unsigned long *which, struct cpumask *mask)
{
	u32 i;

	cpumask_clear(mask);
	for (i = 0; i < inst->cpu_count; i++)
		if (test_bit(i, which))
			cpumask_set_cpu(inst->cpus[i].linux_cpu, mask);
}

static void cpu_nodes(const struct hanare_instance *inst, nodemask_t *nodes)
{
	u32 i;

	nodes_clear(*nodes);
	for (i = 0; i < inst->cpu_count; i++)
		node_set(inst->cpus[i].node, *nodes);
}

void hanare_memory_nodes(const struct hanare_instance *inst, nodemask_t *nodes)
{
	u32 i;

	nodes_clear(*nodes);
	for (i = 0; i < inst->machine.chunk_count; i++)
		node_set(inst->machine.chunks[i].node, *nodes);
}

/* Those that Linux would have online: with CPUs or memory. */
static void instance_nodes(const struct hanare_instance *inst, nodemask_t *nodes)
{
	nodemask_t memory;

	cpu_nodes(inst, nodes);
	hanare_memory_nodes(inst, &memory);
	nodes_or(*nodes, *nodes, memory);
}

/* A mask of the instance's CPUs, on one node or all. */
static int show_cpus(struct seq_file *m, struct hanare_pseudo *what, bool list)
{
	struct hanare_instance *inst = what->inst;
	DECLARE_BITMAP(which, HANARE_CPU_SET_CPUS) = {};
	cpumask_var_t mask;
	u32 i;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	for (i = 0; i < inst->cpu_count; i++)
		if (what->node < 0 || inst->cpus[i].node == what->node)
			__set_bit(i, which);
	hanare_instance_cpus(inst, which, mask);
	if (list)
		seq_printf(m, "%*pbl\n", cpumask_pr_args(mask));
	else
		seq_printf(m, "%*pb\n", cpumask_pr_args(mask));
	free_cpumask_var(mask);
	return 0;
}

static int show_cpu_list(struct seq_file *m, struct hanare_pseudo *what)
{
	return show_cpus(m, what, true);
}

static int show_cpu_map(struct seq_file *m, struct hanare_pseudo *what)
{
	return show_cpus(m, what, false);
}

static int show_offline_cpus(struct seq_file *m, struct hanare_pseudo *what)
{
	DECLARE_BITMAP(all, HANARE_CPU_SET_CPUS);
	cpumask_var_t mask;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	bitmap_fill(all, HANARE_CPU_SET_CPUS);
	hanare_instance_cpus(what->inst, all, mask);
	cpumask_andnot(mask, cpu_possible_mask, mask);
	seq_printf(m, "%*pbl\n", cpumask_pr_args(mask));
	free_cpumask_var(mask);
	return 0;
}

/* Linux' own file is without the CPUs of LWKs (machine/partition.c). */
static int show_present_cpus(struct seq_file *m, struct hanare_pseudo *what)
{
	cpumask_var_t mask;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	hanare_present_cpus(mask);
	seq_printf(m, "%*pbl\n", cpumask_pr_args(mask));
	free_cpumask_var(mask);
	return 0;
}

static int show_one(struct seq_file *m, struct hanare_pseudo *what)
{
	seq_puts(m, "1\n");
	return 0;
}

static int show_zero(struct seq_file *m, struct hanare_pseudo *what)
{
	seq_puts(m, "0\n");
	return 0;
}

static int show_node_list(struct seq_file *m, const nodemask_t *nodes)
{
	seq_printf(m, "%*pbl\n", nodemask_pr_args(nodes));
	return 0;
}

static int show_nodes(struct seq_file *m, struct hanare_pseudo *what)
{
	nodemask_t nodes;

	instance_nodes(what->inst, &nodes);
	return show_node_list(m, &nodes);
}

static int show_cpu_nodes(struct seq_file *m, struct hanare_pseudo *what)
{
	nodemask_t nodes;

	cpu_nodes(what->inst, &nodes);
	return show_node_list(m, &nodes);
}

static int show_memory_nodes(struct seq_file *m, struct hanare_pseudo *what)
{
	nodemask_t nodes;

	hanare_memory_nodes(what->inst, &nodes);
	return show_node_list(m, &nodes);
}

static int show_distance(struct seq_file *m, struct hanare_pseudo *what)
{
	nodemask_t nodes;
	const char *blank = "";
	int node;

	instance_nodes(what->inst, &nodes);
	for_each_node_mask(node, nodes) {
		seq_printf(m, "%s%d", blank, node_distance(what->node, node));
		blank = " ";
	}
	seq_putc(m, '\n');
	return 0;
}

/*
 * Leaks of the CPU that a kernel's own code has to close, as the LWK leaves them. What microcode
 * and settings of the CPU close (srbds, gather_data_sampling), or what matters to virtual machines
 * only, is as Linux says. The words are Linux' own (arch/x86/kernel/cpu/bugs.c).
 */

/* HANARE_MEASURE_*. inst->live is held. */
static u32 measures(struct hanare_instance *inst)
{
	struct hanare_boot_params *params = inst->reach.shared;

	return params ? READ_ONCE(params->measures) : 0;
}

/* In Linux' words: what is done about a leak that `verw` closes. Siblings are not held apart. */
static void show_buffers(struct seq_file *m, u32 on)
{
	if (!(on & HANARE_MEASURE_CLEAR_BUFFERS)) {
		seq_puts(m, "Vulnerable");
		return;
	}
	if (on & HANARE_MEASURE_HAS_MICROCODE)
		seq_puts(m, "Mitigation: Clear CPU buffers");
	else
		seq_puts(m, "Vulnerable: Clear CPU buffers attempted, no microcode");
	seq_puts(m, cpu_smt_possible() ? "; SMT vulnerable" : "; SMT disabled");
}

static void show_isolation(struct seq_file *m, u32 on)
{
	seq_puts(m, on & HANARE_MEASURE_ISOLATION ? "Mitigation: PTI" : "Vulnerable");
}

/* With mitigations=off, too: it costs nothing. */
static void show_inversion(struct seq_file *m, u32 on)
{
	seq_puts(m, "Mitigation: PTE Inversion");
}

/* Syscall numbers and user pointers are always bounded, without a branch. */
static void show_bounds(struct seq_file *m, u32 on)
{
	if (!boot_cpu_has_bug(X86_BUG_SWAPGS) || on & HANARE_MEASURE_FENCE_SWAPGS)
		seq_puts(m, "Mitigation: usercopy/swapgs barriers and __user pointer sanitization");
	else
		seq_puts(m, "Vulnerable: __user pointer sanitization and usercopy barriers only; no swapgs barriers");
}

/* There are no retpolines: without IBRS it stays open, whatever is done besides. */
static void show_predictors(struct seq_file *m, u32 on)
{
	if (on & (HANARE_MEASURE_IBRS | HANARE_MEASURE_AUTO_IBRS))
		seq_puts(m, "Mitigation: Enhanced / Automatic IBRS");
	else if (on & HANARE_MEASURE_ENTRY_IBRS)
		seq_puts(m, "Mitigation: IBRS");
	else
		seq_puts(m, "Vulnerable");
	if (on & HANARE_MEASURE_IBPB)
		seq_puts(m, "; IBPB: always-on");
	if (on & HANARE_MEASURE_STIBP)
		seq_puts(m, "; STIBP: always-on");
	if (on & HANARE_MEASURE_FILL_RSB)
		seq_puts(m, "; RSB filling");
	if (on & HANARE_MEASURE_BHI_DIS)
		seq_puts(m, "; BHI: BHI_DIS_S");
	else if (on & HANARE_MEASURE_CLEAR_HISTORY)
		seq_puts(m, "; BHI: SW loop");
	else if (boot_cpu_has_bug(X86_BUG_BHI))
		seq_puts(m, "; BHI: Vulnerable");
}

/*
 * Intel's is closed by IBRS in either form, AMD's by none (retbleed_select_mitigation,
 * arch/x86/kernel/cpu/bugs.c).
 */
static void show_returns(struct seq_file *m, u32 on)
{
	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		seq_puts(m, "Vulnerable");
	else if (on & HANARE_MEASURE_IBRS)
		seq_puts(m, "Mitigation: Enhanced IBRS");
	else
		seq_puts(m, on & HANARE_MEASURE_ENTRY_IBRS ? "Mitigation: IBRS" : "Vulnerable");
}

static void show_open(struct seq_file *m, u32 on)
{
	seq_puts(m, "Vulnerable");
}

#define VULNERABILITY(name, bug, how)						\
static int show_##name(struct seq_file *m, struct hanare_pseudo *what)		\
{										\
	if (boot_cpu_has_bug(bug))						\
		how(m, measures(what->inst));					\
	else									\
		seq_puts(m, "Not affected");					\
	seq_putc(m, '\n');							\
	return 0;								\
}

VULNERABILITY(meltdown, X86_BUG_CPU_MELTDOWN, show_isolation)
VULNERABILITY(spectre_v1, X86_BUG_SPECTRE_V1, show_bounds)
VULNERABILITY(spectre_v2, X86_BUG_SPECTRE_V2, show_predictors)
VULNERABILITY(spec_store_bypass, X86_BUG_SPEC_STORE_BYPASS, show_open)
VULNERABILITY(l1tf, X86_BUG_L1TF, show_inversion)
VULNERABILITY(mds, X86_BUG_MDS, show_buffers)
VULNERABILITY(tsx_async_abort, X86_BUG_TAA, show_buffers)
VULNERABILITY(mmio_stale_data, X86_BUG_MMIO_STALE_DATA, show_buffers)
VULNERABILITY(retbleed, X86_BUG_RETBLEED, show_returns)
VULNERABILITY(spec_rstack_overflow, X86_BUG_SRSO, show_open)
VULNERABILITY(reg_file_data_sampling, X86_BUG_RFDS, show_buffers)
VULNERABILITY(indirect_target_selection, X86_BUG_ITS, show_open)
VULNERABILITY(tsa, X86_BUG_TSA, show_buffers)

/* Takes `prefix` and a number off the path, up to its next part. */
static bool take_number(const char **path, const char *prefix, u32 *number)
{
	size_t length = strlen(prefix);
	char *end;

	if (strncmp(*path, prefix, length) || !isdigit((*path)[length]))
		return false;
	*number = simple_strtoul(*path + length, &end, 10);
	if (*end && *end++ != '/')
		return false;
	*path = end;
	return true;
}

static bool has_cpu(const struct hanare_instance *inst, u32 cpu)
{
	u32 i;

	for (i = 0; i < inst->cpu_count; i++)
		if (inst->cpus[i].linux_cpu == cpu)
			return true;
	return false;
}

static bool has_node(const struct hanare_instance *inst, u32 node)
{
	nodemask_t nodes;

	instance_nodes(inst, &nodes);
	return node < MAX_NUMNODES && node_isset(node, nodes);
}

/*
 * What Linux removes when a CPU goes offline, of CPUs that are not the instance's, and nodes
 * with neither CPU nor memory of it. inst->live is held.
 */
bool hanare_system_hides(const struct hanare_instance *inst, const char *path)
{
	static const char *const of_online[] = { "topology", "cache", "microcode", "thermal_throttle" };
	u32 number, i;

	if (take_number(&path, "node/node", &number))
		return !has_node(inst, number);
	if (!take_number(&path, "cpu/cpu", &number) || has_cpu(inst, number))
		return false;
	for (i = 0; i < ARRAY_SIZE(of_online); i++) {
		size_t length = strlen(of_online[i]);

		if (!strncmp(path, of_online[i], length) && (!path[length] || path[length] == '/'))
			return true;
	}
	return false;
}

static const struct named_show {
	const char *name;
	hanare_show show;
} system_files[] = {
	{ "cpu/online", show_cpu_list },
	{ "cpu/offline", show_offline_cpus },
	{ "cpu/present", show_present_cpus },
	{ "cpu/vulnerabilities/meltdown", show_meltdown },
	{ "cpu/vulnerabilities/spectre_v1", show_spectre_v1 },
	{ "cpu/vulnerabilities/spectre_v2", show_spectre_v2 },
	{ "cpu/vulnerabilities/spec_store_bypass", show_spec_store_bypass },
	{ "cpu/vulnerabilities/l1tf", show_l1tf },
	{ "cpu/vulnerabilities/mds", show_mds },
	{ "cpu/vulnerabilities/tsx_async_abort", show_tsx_async_abort },
	{ "cpu/vulnerabilities/mmio_stale_data", show_mmio_stale_data },
	{ "cpu/vulnerabilities/retbleed", show_retbleed },
	{ "cpu/vulnerabilities/spec_rstack_overflow", show_spec_rstack_overflow },
	{ "cpu/vulnerabilities/reg_file_data_sampling", show_reg_file_data_sampling },
	{ "cpu/vulnerabilities/indirect_target_selection", show_indirect_target_selection },
	{ "cpu/vulnerabilities/tsa", show_tsa },
	{ "node/online", show_nodes },
	{ "node/has_cpu", show_cpu_nodes },
	{ "node/has_memory", show_memory_nodes },
	{ "node/has_normal_memory", show_memory_nodes },
}, node_files[] = {
	{ "cpulist", show_cpu_list },
	{ "cpumap", show_cpu_map },
	{ "meminfo", hanare_show_meminfo },
	{ "distance", show_distance },
};

static hanare_show find_show(const struct named_show *files, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(files[i].name, name))
			return files[i].show;
	return NULL;
}

hanare_show hanare_system_show(const struct hanare_instance *inst, const char *path, int *node)
{
	u32 number;

	*node = -1;
	if (take_number(&path, "node/node", &number)) {
		*node = number;
		return find_show(node_files, ARRAY_SIZE(node_files), path);
	}
	if (take_number(&path, "cpu/cpu", &number)) {
		if (strcmp(path, "online"))
			return NULL;
		return has_cpu(inst, number) ? show_one : show_zero;
	}
	return find_show(system_files, ARRAY_SIZE(system_files), path);
}

/*
 * Which CPUs are near to a device: those of its node, or all. hwloc puts the device there. The
 * directory is named as the device is. Its kernfs_node outlives the device while the file is open,
 * so the bus is asked, which has a device until that is removed.
 */
hanare_show hanare_device_show(struct dentry *dentry, int *node)
{
	bool list = !strcmp(dentry->d_name.name, "local_cpulist");
	hanare_show show = list ? show_cpu_list : show_cpu_map;
	struct name_snapshot name;
	struct device *device;
	struct dentry *parent;

	if (!list && strcmp(dentry->d_name.name, "local_cpus"))
		return NULL;
	parent = dget_parent(dentry);
	take_dentry_name_snapshot(&name, parent);
	device = bus_find_device_by_name(&pci_bus_type, NULL, name.name.name);
	release_dentry_name_snapshot(&name);
	dput(parent);
	if (!device)
		return NULL;
	*node = dev_to_node(device);
	put_device(device);
	return show;
}

/*
 * What a group's tasks may use: Linux' says it without CPUs that are offline to it.
 * Names of version 2, then of version 1. What is configured stays Linux'.
 */
hanare_show hanare_cgroup_show(const char *name)
{
	if (!strcmp(name, "cpuset.cpus.effective") || !strcmp(name, "cpuset.effective_cpus"))
		return show_cpu_list;
	if (!strcmp(name, "cpuset.mems.effective") || !strcmp(name, "cpuset.effective_mems"))
		return show_memory_nodes;
	return NULL;
}
