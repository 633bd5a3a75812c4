// SPDX-License-Identifier: GPL-2.0
/*
 * What files of /proc/PID show of an LWK process. What the LWK keeps comes from
 * there; all else of a file is Linux' text, which is about the proxy.
 */
#include "pseudo.h"

#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/nodemask.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#define TICK_NS (NSEC_PER_SEC / 100)		/* USER_HZ */
#define REQUEST_MS 5000

/* Blocked signals wait on Linux, which hands them over when they are let through. */
static void add_pending(struct hanare_pseudo *what, struct hanare_process_info *info)
{
	struct pid *pid = what->tid ? find_get_pid(what->tid) : get_pid(what->space->pid);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	if (!task)
		return;
	info->pending |= task->pending.signal.sig[0];
	/* Its signal_struct goes with the last reference of the task. */
	info->shared_pending |= task->signal->shared_pending.signal.sig[0];
	put_task_struct(task);
}

/* The process' thread that the file is about. */
static int get_info(struct hanare_pseudo *what, struct hanare_process_info *info)
{
	int err = hanare_space_info(what->space, what->tid, info);

	/* The first thread may have ended before the others. */
	if (err == -ESRCH && what->whole)
		err = hanare_space_info(what->space, 0, info);
	if (!err)
		add_pending(what, info);
	return err;
}

/*
 * Whether it runs is for the LWK to say. While it waits, its worker does something
 * for it or sleeps: then, and for stopped, traced and dead ones, Linux' word stands.
 */
static bool runs(const struct hanare_process_info *info, char linux_state)
{
	return info->thread.state == HANARE_THREAD_RUNS && !strchr("TtZX", linux_state);
}

static u32 cpu_of(const struct hanare_pseudo *what, const struct hanare_process_info *info)
{
	u32 index = info->thread.cpu;

	return index < what->inst->cpu_count ? what->inst->cpus[index].linux_cpu : 0;
}

/* ---- status ---- */

static const struct memory_line {
	const char *key;
	size_t offset;
} memory_lines[] = {
#define LINE(key, field) { key, offsetof(struct hanare_process_info, field) }
	LINE("VmPeak", mapped_peak),
	LINE("VmSize", mapped),
	LINE("VmLck", locked),
	LINE("VmHWM", resident_peak),
	LINE("VmRSS", resident),
	LINE("RssFile", resident_file),
	LINE("VmData", data),
	LINE("VmStk", stack),
	LINE("VmExe", code),
	LINE("VmLib", library),
	LINE("VmPTE", tables),
}, signal_lines[] = {
	LINE("SigPnd", pending),
	LINE("ShdPnd", shared_pending),
	LINE("SigBlk", blocked),
	LINE("SigIgn", ignored),
	LINE("SigCgt", caught),
}, count_lines[] = {
	LINE("Threads", threads),
	LINE("voluntary_ctxt_switches", thread.voluntary_switches),
	LINE("nonvoluntary_ctxt_switches", thread.involuntary_switches),
#undef LINE
};

static bool find_line(const struct memory_line *lines, size_t count, const char *key,
		      const struct hanare_process_info *info, u64 *value)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(lines[i].key, key))
			continue;
		memcpy(value, (const char *)info + lines[i].offset, sizeof(*value));
		return true;
	}
	return false;
}

/* Shows the line of `key` anew; false: it stays as it is. */
static bool status_line(struct seq_file *m, struct hanare_pseudo *what, const char *key,
			const char *rest, const struct hanare_process_info *info,
			struct cpumask *cpus, const nodemask_t *nodes)
{
	u64 value;

	if (find_line(memory_lines, ARRAY_SIZE(memory_lines), key, info, &value))
		seq_printf(m, "%s:\t%8llu kB\n", key, value >> 10);
	else if (find_line(signal_lines, ARRAY_SIZE(signal_lines), key, info, &value))
		seq_printf(m, "%s:\t%016llx\n", key, value);
	else if (find_line(count_lines, ARRAY_SIZE(count_lines), key, info, &value))
		seq_printf(m, "%s:\t%llu\n", key, value);
	else if (!strcmp(key, "RssAnon"))
		seq_printf(m, "RssAnon:\t%8llu kB\n",
			   (info->resident - min(info->resident_file, info->resident)) >> 10);
	else if (!strcmp(key, "RssShmem") || !strcmp(key, "VmPin") || !strcmp(key, "VmSwap"))
		seq_printf(m, "%s:\t%8u kB\n", key, 0);
	else if (!strcmp(key, "Seccomp"))
		seq_printf(m, "Seccomp:\t%u\n", info->thread.seccomp & 3);
	else if (!strcmp(key, "Seccomp_filters"))
		seq_printf(m, "Seccomp_filters:\t%u\n", info->thread.seccomp >> 2);
	else if (!strcmp(key, "State") && runs(info, *skip_spaces(rest)))
		seq_puts(m, "State:\tR (running)\n");
	else if (!strcmp(key, "Cpus_allowed"))
		seq_printf(m, "Cpus_allowed:\t%*pb\n", cpumask_pr_args(cpus));
	else if (!strcmp(key, "Cpus_allowed_list"))
		seq_printf(m, "Cpus_allowed_list:\t%*pbl\n", cpumask_pr_args(cpus));
	else if (!strcmp(key, "Mems_allowed"))
		seq_printf(m, "Mems_allowed:\t%*pb\n", nodemask_pr_args(nodes));
	else if (!strcmp(key, "Mems_allowed_list"))
		seq_printf(m, "Mems_allowed_list:\t%*pbl\n", nodemask_pr_args(nodes));
	else
		return false;
	return true;
}

static int show_status(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info info;
	char *text, *at, *line;
	cpumask_var_t cpus;
	nodemask_t nodes;
	int err = get_info(what, &info);

	if (err)
		return err;
	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	hanare_instance_cpus(what->inst, info.allowed, cpus);
	hanare_instance_nodes(what->inst, &nodes);
	text = hanare_linux_text(what->linux_file);
	if (IS_ERR(text)) {
		free_cpumask_var(cpus);
		return PTR_ERR(text);
	}
	for (at = text; (line = hanare_next_line(&at));) {
		char *colon = strchr(line, ':');

		if (!colon) {
			seq_printf(m, "%s\n", line);
			continue;
		}
		*colon = 0;
		if (!status_line(m, what, line, colon + 1, &info, cpus, &nodes))
			seq_printf(m, "%s:%s\n", line, colon + 1);
	}
	kvfree(text);
	free_cpumask_var(cpus);
	return 0;
}

/* ---- stat ---- */

/* Field `n` of proc(5), if the LWK knows it. */
static bool stat_field(const struct hanare_pseudo *what, const struct hanare_process_info *info,
		       int n, u64 *value)
{
	const struct hanare_space *space = what->space;
	bool whole = what->whole;

	switch (n) {
	case 14:
		*value = div_u64(whole ? info->user_ns : info->thread.user_ns, TICK_NS);
		return true;
	case 15:
		*value = div_u64(whole ? info->system_ns : info->thread.system_ns, TICK_NS);
		return true;
	case 20:
		*value = info->threads;
		return true;
	case 23:
		*value = info->mapped;
		return true;
	case 24:
		*value = info->resident >> PAGE_SHIFT;
		return true;
	case 31:
		*value = info->pending & 0x7fffffff;
		return true;
	case 32:
		*value = info->blocked & 0x7fffffff;
		return true;
	case 33:
		*value = info->ignored & 0x7fffffff;
		return true;
	case 34:
		*value = info->caught & 0x7fffffff;
		return true;
	case 39:
		*value = cpu_of(what, info);
		return true;
	/* Linux has the places of a copy. */
	case 48:
		*value = READ_ONCE(space->arg_start);
		return true;
	case 49:
		*value = READ_ONCE(space->arg_end);
		return true;
	case 50:
		*value = READ_ONCE(space->env_start);
		return true;
	case 51:
		*value = READ_ONCE(space->env_end);
		return true;
	default:
		return false;
	}
}

static int show_stat(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info info;
	char *text, *at, *field;
	int err = get_info(what, &info), n;

	if (err)
		return err;
	text = hanare_linux_text(what->linux_file);
	if (IS_ERR(text))
		return PTR_ERR(text);
	/* A name may hold anything: behind the last parenthesis it is over. */
	at = strrchr(text, ')');
	if (!at) {
		kvfree(text);
		return -EIO;
	}
	strim(at);
	*at++ = 0;
	seq_printf(m, "%s)", text);
	at = skip_spaces(at);
	for (n = 3; (field = strsep(&at, " ")); n++) {
		u64 value;

		if (n == 3 && runs(&info, *field))
			seq_puts(m, " R");
		/* 0 as well where it is not for the reader to know. */
		else if (stat_field(what, &info, n, &value) && (n < 48 || strcmp(field, "0")))
			seq_printf(m, " %llu", value);
		else
			seq_printf(m, " %s", field);
	}
	seq_putc(m, '\n');
	kvfree(text);
	return 0;
}

static int show_statm(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info i;
	int err = get_info(what, &i);

	if (err)
		return err;
	seq_printf(m, "%llu %llu %llu %llu 0 %llu 0\n", i.mapped >> PAGE_SHIFT,
		   i.resident >> PAGE_SHIFT, i.resident_file >> PAGE_SHIFT, i.code >> PAGE_SHIFT,
		   (i.data + i.stack) >> PAGE_SHIFT);
	return 0;
}

/* Time it ran; time it waited for a CPU, which nobody counts; times it got one. */
static int show_schedstat(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info i;
	int err = get_info(what, &i);

	if (err)
		return err;
	seq_printf(m, "%llu 0 %llu\n", i.thread.user_ns + i.thread.system_ns,
		   i.thread.voluntary_switches + i.thread.involuntary_switches + 1);
	return 0;
}

/* ---- maps, smaps ---- */

/* A mapping with the file behind it. */
struct mapping {
	struct hanare_vma_info info;
	struct file *file;
	u64 offset;
};

/* The file and offset of a mapping that is Linux' own. */
static void linux_mapping(struct hanare_space *space, struct mapping *map)
{
	struct vm_area_struct *vma;

	if (!mmget_not_zero(space->mm))
		return;
	if (!mmap_read_lock_killable(space->mm)) {
		vma = vma_lookup(space->mm, map->info.start);
		if (vma && vma->vm_file && vma->vm_file->f_op != &hanare_fops) {
			map->file = get_file(vma->vm_file);
			map->offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) +
				      (map->info.start - vma->vm_start);
		}
		mmap_read_unlock(space->mm);
	}
	mmput(space->mm);
}

static void find_file(struct hanare_space *space, struct mapping *map)
{
	map->file = NULL;
	map->offset = map->info.offset;
	if (map->info.flags & HANARE_VMA_LINUX) {
		linux_mapping(space, map);
		return;
	}
	if (!map->info.file || map->info.file > U32_MAX)
		return;
	mutex_lock(&space->table_lock);
	map->file = xa_load(&space->files, map->info.file);
	if (map->file)
		get_file(map->file);
	mutex_unlock(&space->table_lock);
}

typedef void (*show_mapping)(struct seq_file *m, struct mapping *map, void *data);

/* Calls `each` for every mapping of the process; with what is resident if wanted. */
static int each_mapping(struct seq_file *m, struct hanare_pseudo *what, bool resident,
			show_mapping each, void *data)
{
	u64 words[HANARE_PAGES_MAX];
	u64 from = 0;

	do {
		struct hanare_call call = {
			.kind = HANARE_REQUEST_INFO,
			.space = what->space->id,
			.args = { HANARE_INFO_VMAS, from, resident },
			.pages = words,
		};
		int err = hanare_request(what->space->inst, what->space->home, &call,
					 WAIT_KILLABLE, REQUEST_MS);
		struct mapping map;
		u32 i;

		/* A process that is gone has no mappings. */
		if (!err && call.status == -ESRCH)
			return 0;
		if (err || call.status)
			return err ?: min(call.status, 0) ?: -EIO;
		for (i = 0; (i + 1) * sizeof(map.info) <= call.count * sizeof(u64); i++) {
			memcpy(&map.info, (char *)words + i * sizeof(map.info), sizeof(map.info));
			find_file(what->space, &map);
			each(m, &map, data);
			if (map.file)
				fput(map.file);
		}
		/* It goes on behind, never back: bounded, whatever the LWK says. */
		if (call.args[1] && call.args[1] <= from)
			return -EIO;
		from = call.args[1];
	} while (from && !seq_has_overflowed(m));
	return 0;
}

static const char *special_name(u64 flags)
{
	if (flags & HANARE_VMA_HEAP)
		return "[heap]";
	if (flags & HANARE_VMA_STACK)
		return "[stack]";
	if (flags & HANARE_VMA_VDSO)
		return "[vdso]";
	if (flags & HANARE_VMA_VVAR)
		return "[vvar]";
	return NULL;
}

static void show_map(struct seq_file *m, struct mapping *map, void *unused)
{
	u64 flags = map->info.flags;
	struct inode *inode = map->file ? file_inode(map->file) : NULL;
	dev_t device = inode ? inode->i_sb->s_dev : 0;
	const char *name = map->file ? NULL : special_name(flags);

	seq_setwidth(m, 25 + sizeof(void *) * 6 - 1);
	seq_printf(m, "%08llx-%08llx %c%c%c%c %08llx %02x:%02x %lu ", map->info.start, map->info.end,
		   flags & HANARE_VMA_READ ? 'r' : '-', flags & HANARE_VMA_WRITE ? 'w' : '-',
		   flags & HANARE_VMA_EXEC ? 'x' : '-', flags & HANARE_VMA_SHARED ? 's' : 'p',
		   map->file ? map->offset : 0, MAJOR(device), MINOR(device),
		   inode ? (unsigned long)inode->i_ino : 0UL);
	if (map->file) {
		seq_pad(m, ' ');
		seq_file_path(m, map->file, "\n");
	} else if (name) {
		seq_pad(m, ' ');
		seq_puts(m, name);
	}
	seq_putc(m, '\n');
}

static int show_maps(struct seq_file *m, struct hanare_pseudo *what)
{
	return each_mapping(m, what, false, show_map, NULL);
}

/* What smaps and smaps_rollup say of memory. */
struct amounts {
	u64 start, end, resident, anonymous, shared, large, locked;
};

static void show_amounts(struct seq_file *m, const struct amounts *a)
{
	u64 private = a->resident - a->shared, clean = private - a->anonymous;

#define KB(name, bytes) seq_printf(m, "%-16s%8llu kB\n", name ":", (u64)(bytes) >> 10)
	KB("Rss", a->resident);
	KB("Pss", a->resident);
	KB("Pss_Dirty", a->anonymous);
	KB("Shared_Clean", a->shared);
	KB("Shared_Dirty", 0);
	KB("Private_Clean", clean);
	KB("Private_Dirty", a->anonymous);
	KB("Referenced", a->resident);
	KB("Anonymous", a->anonymous);
	KB("LazyFree", 0);
	KB("AnonHugePages", a->large);
	KB("ShmemPmdMapped", 0);
	KB("FilePmdMapped", 0);
	KB("Shared_Hugetlb", 0);
	KB("Private_Hugetlb", 0);
	KB("Swap", 0);
	KB("SwapPss", 0);
	KB("Locked", a->locked);
}

static void add_amounts(struct amounts *a, const struct hanare_vma_info *info)
{
	u64 anonymous = min(info->anonymous, info->resident);

	if (!a->start)
		a->start = info->start;
	a->end = info->end;
	a->resident += info->resident;
	a->anonymous += anonymous;
	if (info->flags & HANARE_VMA_SHARED)
		a->shared += info->resident - anonymous;
	a->large += min(info->large, anonymous);
	if (info->flags & HANARE_VMA_LOCKED)
		a->locked += info->resident;
}

static void show_flags(struct seq_file *m, u64 flags)
{
	static const struct { u64 bit; const char *name; } names[] = {
		{ HANARE_VMA_READ, "rd" }, { HANARE_VMA_WRITE, "wr" }, { HANARE_VMA_EXEC, "ex" },
		{ HANARE_VMA_SHARED, "sh" }, { ~0ULL, "mr" }, { ~0ULL, "mw" }, { ~0ULL, "me" },
		{ HANARE_VMA_SHARED, "ms" }, { HANARE_VMA_GROWS_DOWN, "gd" },
		{ HANARE_VMA_LOCKED, "lo" }, { HANARE_VMA_DONT_FORK, "dc" },
		{ HANARE_VMA_WIPE_ON_FORK, "wf" }, { HANARE_VMA_DONT_DUMP, "dd" },
		{ HANARE_VMA_HUGE, "hg" }, { HANARE_VMA_NO_HUGE, "nh" },
	};
	int i;

	seq_puts(m, "VmFlags: ");
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (flags & names[i].bit)
			seq_printf(m, "%s ", names[i].name);
	seq_putc(m, '\n');
}

static void show_smap(struct seq_file *m, struct mapping *map, void *unused)
{
	struct amounts a = {};

	show_map(m, map, NULL);
	add_amounts(&a, &map->info);
	KB("Size", map->info.end - map->info.start);
	KB("KernelPageSize", PAGE_SIZE);
	KB("MMUPageSize", PAGE_SIZE);
	show_amounts(m, &a);
	seq_printf(m, "THPeligible:%16u\n", !(map->info.flags & HANARE_VMA_NO_HUGE) && !map->file);
	show_flags(m, map->info.flags);
}

static int show_smaps(struct seq_file *m, struct hanare_pseudo *what)
{
	return each_mapping(m, what, true, show_smap, NULL);
}

static void sum_mapping(struct seq_file *m, struct mapping *map, void *sum)
{
	add_amounts(sum, &map->info);
}

static int show_smaps_rollup(struct seq_file *m, struct hanare_pseudo *what)
{
	struct amounts a = {};
	int err = each_mapping(m, what, true, sum_mapping, &a);

	if (err)
		return err;
	if (!a.end)
		return -ESRCH;
	seq_setwidth(m, 25 + sizeof(void *) * 6 - 1);
	seq_printf(m, "%08llx-%08llx ---p 00000000 00:00 0 ", a.start, a.end);
	seq_pad(m, ' ');
	seq_puts(m, "[rollup]\n");
	show_amounts(m, &a);
	return 0;
}

static void show_numa_map(struct seq_file *m, struct mapping *map, void *data)
{
	const char *name = special_name(map->info.flags);
	u64 pages = map->info.resident >> PAGE_SHIFT;

	seq_printf(m, "%08llx default", map->info.start);
	if (map->file) {
		seq_puts(m, " file=");
		seq_file_path(m, map->file, "\n\t= ");
	} else if (name && map->info.flags & (HANARE_VMA_HEAP | HANARE_VMA_STACK)) {
		seq_printf(m, " %.*s", (int)strlen(name) - 2, name + 1);
	}
	if (pages)
		seq_printf(m, " anon=%llu dirty=%llu N%d=%llu kernelpagesize_kB=4",
			   map->info.anonymous >> PAGE_SHIFT, map->info.anonymous >> PAGE_SHIFT,
			   *(int *)data, pages);
	seq_putc(m, '\n');
}

static int show_numa_maps(struct seq_file *m, struct hanare_pseudo *what)
{
	int node = what->space->home->node;

	return each_mapping(m, what, true, show_numa_map, &node);
}

hanare_show hanare_process_show(const char *name)
{
	static const struct { const char *name; hanare_show show; } files[] = {
		{ "stat", show_stat },
		{ "status", show_status },
		{ "statm", show_statm },
		{ "schedstat", show_schedstat },
		{ "maps", show_maps },
		{ "smaps", show_smaps },
		{ "smaps_rollup", show_smaps_rollup },
		{ "numa_maps", show_numa_maps },
		{ "cmdline", hanare_show_cmdline },
		{ "environ", hanare_show_environ },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].name, name))
			return files[i].show;
	return NULL;
}
