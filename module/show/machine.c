// SPDX-License-Identifier: GPL-2.0
/* What /proc shows of the LWK's machine, and the memory of its nodes. */
#include "show/pseudo.h"

#include <linux/ctype.h>
#include <linux/sched/loadavg.h>

#define TICK_NS (NSEC_PER_SEC / 100)		/* USER_HZ */
#define REQUEST_MS 5000

static bool is_idle(const struct hanare_cpu *cpu)
{
	return READ_ONCE(cpu->shared->idle_since);
}

/* At least one: the reader runs, though its CPU may be idle until it is answered. */
static u32 busy_cpus(const struct hanare_instance *inst)
{
	u32 i, busy = 0;

	for (i = 0; i < inst->cpu_count; i++)
		busy += !is_idle(&inst->cpus[i]);
	return max(busy, 1U);
}

/* The instance's CPUs in the order of their numbers. */
static const struct hanare_cpu *next_cpu(const struct hanare_instance *inst,
					 const struct hanare_cpu *last)
{
	const struct hanare_cpu *next = NULL;
	u32 i;

	for (i = 0; i < inst->cpu_count; i++) {
		const struct hanare_cpu *cpu = &inst->cpus[i];

		if ((!last || cpu->linux_cpu > last->linux_cpu) &&
		    (!next || cpu->linux_cpu < next->linux_cpu))
			next = cpu;
	}
	return next;
}

#define for_each_instance_cpu(cpu, inst) \
	for (cpu = next_cpu(inst, NULL); cpu; cpu = next_cpu(inst, cpu))

/* ---- load average ---- */

static int show_loadavg(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text = hanare_linux_text(what->linux_file), *rest;
	int i;

	if (IS_ERR(text))
		return PTR_ERR(text);
	for (i = 0; i < 3; i++) {
		unsigned long load = READ_ONCE(what->inst->link.load[i]) + FIXED_1 / 200;

		seq_printf(m, "%lu.%02lu ", LOAD_INT(load), LOAD_FRAC(load));
	}
	/* Behind "0.00 0.00 0.00 1": the number of processes and the last one's. */
	rest = strchr(text, '/');
	seq_printf(m, "%u%s", busy_cpus(what->inst), rest ?: "/1 1\n");
	kvfree(text);
	return 0;
}

/* ---- uptime, stat ---- */

static int show_uptime(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text = hanare_linux_text(what->linux_file), *at;
	u64 ticks = div_u64(hanare_idle_sum_ns(what->inst), TICK_NS);
	u32 fraction;

	if (IS_ERR(text))
		return PTR_ERR(text);
	/* The same as Linux': start times of processes count from there. */
	at = text;
	seq_printf(m, "%s ", strsep(&at, " \n"));
	ticks = div_u64_rem(ticks, 100, &fraction);
	seq_printf(m, "%llu.%02u\n", ticks, fraction);
	kvfree(text);
	return 0;
}

static void cpu_line(struct seq_file *m, u64 wall_ns, u64 idle_ns)
{
	idle_ns = min(idle_ns, wall_ns);
	seq_printf(m, " %llu 0 0 %llu 0 0 0 0 0 0\n", div_u64(wall_ns - idle_ns, TICK_NS),
		   div_u64(idle_ns, TICK_NS));
}

static int show_stat(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_instance *inst = what->inst;
	char *text = hanare_linux_text(what->linux_file), *at, *line;
	u64 wall = ktime_get_ns() - inst->boot.ns, interrupts = 0;
	const struct hanare_cpu *cpu;

	if (IS_ERR(text))
		return PTR_ERR(text);
	seq_puts(m, "cpu ");
	cpu_line(m, wall * inst->cpu_count, hanare_idle_sum_ns(inst));
	for_each_instance_cpu(cpu, inst) {
		seq_printf(m, "cpu%u", cpu->linux_cpu);
		cpu_line(m, wall, hanare_idle_ns(cpu));
		interrupts += READ_ONCE(cpu->shared->interrupts);
	}
	for (at = text; (line = hanare_next_line(&at));) {
		if (!strncmp(line, "cpu", 3))
			continue;
		if (!strncmp(line, "intr ", 5))
			seq_printf(m, "intr %llu\n", interrupts);
		else if (!strncmp(line, "softirq ", 8))
			seq_puts(m, "softirq 0 0 0 0 0 0 0 0 0 0 0\n");
		else if (!strncmp(line, "procs_running ", 14))
			seq_printf(m, "procs_running %u\n", busy_cpus(inst));
		else if (!strncmp(line, "procs_blocked ", 14))
			seq_puts(m, "procs_blocked 0\n");
		else
			seq_printf(m, "%s\n", line);
	}
	kvfree(text);
	return 0;
}

/* ---- cpuinfo ---- */

/* CPUs of the instance in the package of `place`, and different cores among them. */
static void count_package(const struct hanare_instance *inst, const struct hanare_place *place,
			  u32 *siblings, u32 *cores)
{
	u32 i, j;

	*siblings = *cores = 0;
	for (i = 0; i < inst->cpu_count; i++) {
		const struct hanare_place *p = hanare_place_of(inst->cpus[i].linux_cpu);
		bool known = false;

		if (p->package != place->package)
			continue;
		++*siblings;
		for (j = 0; j < i; j++) {
			const struct hanare_place *q = hanare_place_of(inst->cpus[j].linux_cpu);

			known |= q->package == p->package && q->core == p->core;
		}
		*cores += !known;
	}
}

static void cpuinfo_line(struct seq_file *m, const struct hanare_instance *inst,
			 const struct hanare_cpu *cpu, char *line)
{
	const struct hanare_place *place = hanare_place_of(cpu->linux_cpu);
	u32 siblings, cores, value;
	char *colon = strchr(line, ':');
	size_t length;

	if (!colon) {
		seq_printf(m, "%s\n", line);
		return;
	}
	for (length = colon - line; length && isspace(line[length - 1]);)
		length--;
	count_package(inst, place, &siblings, &cores);
#define IS(name) (length == strlen(name) && !strncmp(line, name, length))
	if (IS("processor"))
		value = cpu->linux_cpu;
	else if (IS("physical id"))
		value = place->package;
	else if (IS("siblings"))
		value = siblings;
	else if (IS("core id"))
		value = place->core;
	else if (IS("cpu cores"))
		value = cores;
	else if (IS("apicid") || IS("initial apicid"))
		value = cpu->apicid;
	else {
		seq_printf(m, "%s\n", line);
		return;
	}
#undef IS
	*colon = 0;
	seq_printf(m, "%s: %u\n", line, value);
}

/* As Linux says it of its first CPU, but for what is the place of each. */
static int show_cpuinfo(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text = hanare_linux_text(what->linux_file), *end, *copy, *at, *line;
	const struct hanare_cpu *cpu;
	int err = 0;

	if (IS_ERR(text))
		return PTR_ERR(text);
	end = strstr(text, "\n\n");
	if (end)
		end[1] = 0;
	for_each_instance_cpu(cpu, what->inst) {
		copy = kstrdup(text, GFP_KERNEL);
		if (!copy) {
			err = -ENOMEM;
			break;
		}
		for (at = copy; (line = hanare_next_line(&at));)
			cpuinfo_line(m, what->inst, cpu, line);
		seq_putc(m, '\n');
		kfree(copy);
	}
	kvfree(text);
	return err;
}

/* ---- memory ---- */

struct memory {
	u64 total, free;
};

static int get_memory(struct hanare_instance *inst, int node, struct memory *memory)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_MEMORY, node < 0 ? HANARE_NODE_ANY : node },
	};
	int err = hanare_request(inst, hanare_quiet_cpu(inst), &call, WAIT_KILLABLE, REQUEST_MS);

	memory->total = call.args[1];
	memory->free = min(call.args[2], call.args[1]);
	return err ?: min(call.status, 0);
}

/* The value of a line of meminfo; false if that is 0. */
static bool memory_value(const char *key, size_t length, const struct memory *memory, u64 *bytes)
{
#define IS(name) (length == strlen(name) && !strncmp(key, name, length))
	if (IS("MemTotal") || IS("CommitLimit"))
		*bytes = memory->total;
	else if (IS("MemFree") || IS("MemAvailable"))
		*bytes = memory->free;
	else if (IS("MemUsed") || IS("AnonPages") || IS("Active") || IS("Active(anon)") ||
		 IS("Committed_AS"))
		*bytes = memory->total - memory->free;
	else
		return false;
#undef IS
	return true;
}

/* Linux' lines with our values: there is no page cache here, and no swap. */
int hanare_show_meminfo(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text, *at, *line;
	struct memory memory;
	int err = get_memory(what->inst, what->node, &memory);

	if (err)
		return err;
	text = hanare_linux_text(what->linux_file);
	if (IS_ERR(text))
		return PTR_ERR(text);
	for (at = text; (line = hanare_next_line(&at));) {
		char *colon = strchr(line, ':'), *key = line, *number;
		bool kb = colon && strstr(colon, " kB");
		u64 bytes = 0;

		if (!strncmp(line, "Node ", 5)) {
			key = skip_spaces(line + 5);
			while (*key && !isspace(*key))
				key++;
			key = skip_spaces(key);
		}
		/*
		 * A size of something, not an amount; and Linux' pool of huge pages, from which
		 * those of a memfd or of hugetlbfs come.
		 */
		if (!colon || !strncmp(key, "Hugepagesize", 12) || !strncmp(key, "VmallocTotal", 12) ||
		    !strncmp(key, "HugePages_", 10) || !strncmp(key, "Hugetlb", 7)) {
			seq_printf(m, "%s\n", line);
			continue;
		}
		memory_value(key, colon - key, &memory, &bytes);
		/* In the width that Linux gave the number. */
		number = skip_spaces(colon + 1);
		while (isdigit(*number))
			number++;
		seq_printf(m, "%.*s%*llu%s\n", (int)(colon + 1 - line), line,
			   (int)(number - colon - 1), kb ? bytes >> 10 : 0, kb ? " kB" : "");
	}
	kvfree(text);
	return 0;
}

hanare_show hanare_machine_show(const char *name)
{
	static const struct { const char *name; hanare_show show; } files[] = {
		{ "cpuinfo", show_cpuinfo },
		{ "meminfo", hanare_show_meminfo },
		{ "stat", show_stat },
		{ "loadavg", show_loadavg },
		{ "uptime", show_uptime },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].name, name))
			return files[i].show;
	return NULL;
}
