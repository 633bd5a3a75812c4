// SPDX-License-Identifier: GPL-2.0
/* What maps, smaps, smaps_rollup and numa_maps of /proc/PID show of an LWK process. */
#include "show/pseudo.h"

#include <linux/file.h>
#include <linux/mempolicy.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>

#define REQUEST_MS 5000

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
		if (vma && vma->vm_flags & VM_SOFTDIRTY)
			map->info.flags &= ~HANARE_VMA_SOFT_CLEAN;
		else if (vma)
			map->info.flags |= HANARE_VMA_SOFT_CLEAN;
		if (vma && vma->vm_file && !hanare_is_device(vma->vm_file)) {
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
	mutex_lock(&space->files.lock);
	map->file = xa_load(&space->files.table, map->info.file);
	if (map->file)
		get_file(map->file);
	mutex_unlock(&space->files.lock);
}

typedef void (*show_mapping)(struct seq_file *m, struct mapping *map, void *data);

/*
 * Calls `each` for mappings of the process from *from on, as many as one answer brings; with what
 * is resident if wanted. *from: where it goes on, or 0.
 */
static int some_mappings(struct seq_file *m, struct hanare_pseudo *what, u64 *from, bool resident,
			 show_mapping each, void *data)
{
	u64 words[HANARE_PAGES_MAX];
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_VMAS, *from, resident },
		.pages = words,
	};
	int err = hanare_request_about(what->space, &call, WAIT_KILLABLE, REQUEST_MS);
	struct mapping map;
	u32 i;

	*from = 0;
	if (err || call.status)
		return err ?: min(call.status, 0) ?: -EIO;
	for (i = 0; (i + 1) * sizeof(map.info) <= call.count * sizeof(u64); i++) {
		memcpy(&map.info, (char *)words + i * sizeof(map.info), sizeof(map.info));
		find_file(what->space, &map);
		each(m, &map, data);
		if (map.file)
			fput(map.file);
	}
	*from = call.args[1];
	return 0;
}

/* A part of a file that shows each mapping. */
static int part_of_mappings(struct seq_file *m, struct hanare_pseudo *what, bool resident,
			    show_mapping each, void *data)
{
	u64 from = m->index;
	int err;

	if (!from && hanare_has_ended(what))
		return 0;
	err = some_mappings(m, what, &from, resident, each, data);

	hanare_next_part(m, from);
	/* A process that is gone has no mappings. */
	return err == -ESRCH ? 0 : err;
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

int hanare_show_maps(struct seq_file *m, struct hanare_pseudo *what)
{
	return part_of_mappings(m, what, false, show_map, NULL);
}

/* What smaps and smaps_rollup say of memory. */
struct amounts {
	u64 start, end, resident, proportional, written, own, large, locked, referenced;
	/* Of these, what others have, too. */
	u64 shared, shared_written;
	/* Of the proportional ones: by what is behind them. */
	u64 anonymous, file, shmem;
};

static void show_amounts(struct seq_file *m, const struct amounts *a, bool rollup)
{
	u64 shared_clean = a->shared - a->shared_written;
	u64 private_dirty = a->written - a->shared_written;

#define KB(name, bytes) seq_printf(m, "%-16s%8llu kB\n", name ":", (u64)(bytes) >> 10)
	KB("Rss", a->resident);
	KB("Pss", a->proportional);
	KB("Pss_Dirty", min(a->written, a->proportional));
	if (rollup) {
		KB("Pss_Anon", a->anonymous);
		KB("Pss_File", a->file);
		KB("Pss_Shmem", a->shmem);
	}
	KB("Shared_Clean", shared_clean);
	KB("Shared_Dirty", a->shared_written);
	KB("Private_Clean", a->resident - shared_clean - a->written);
	KB("Private_Dirty", private_dirty);
	KB("Referenced", a->referenced);
	KB("Anonymous", a->own);
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

static void add_amounts(struct amounts *a, const struct mapping *map)
{
	const struct hanare_vma_info *info = &map->info;
	u64 resident = (u64)info->resident << PAGE_SHIFT;
	/* Never more than there is, whatever the LWK says. */
	u64 written = min((u64)info->written << PAGE_SHIFT, resident);
	u64 shared = min((u64)info->shared << PAGE_SHIFT, resident);
	u64 proportional = min((u64)info->proportional_kib << 10, resident);
	u64 own = info->flags & HANARE_VMA_SHARED ? 0 : written;

	if (!a->start)
		a->start = info->start;
	a->end = info->end;
	a->resident += resident;
	a->proportional += proportional;
	a->written += written;
	a->own += own;
	a->shared += shared;
	a->shared_written += min((u64)info->shared_written << PAGE_SHIFT, min(written, shared));
	a->referenced += min((u64)info->referenced << PAGE_SHIFT, resident);
	a->large += min((u64)info->large << PAGE_SHIFT, own);
	if (info->flags & HANARE_VMA_LOCKED)
		a->locked += resident;
	if (map->file && shmem_mapping(map->file->f_mapping))
		a->shmem += proportional;
	else if (own == resident)
		a->anonymous += proportional;
	else
		a->file += proportional;
}

static void show_flags(struct seq_file *m, u64 flags)
{
	static const struct { u64 bit; const char *name; } names[] = {
		{ HANARE_VMA_READ, "rd" }, { HANARE_VMA_WRITE, "wr" }, { HANARE_VMA_EXEC, "ex" },
		{ HANARE_VMA_SHARED, "sh" }, { ~0ULL, "mr" }, { ~0ULL, "mw" }, { ~0ULL, "me" },
		{ HANARE_VMA_SHARED, "ms" }, { HANARE_VMA_GROWS_DOWN, "gd" },
		{ HANARE_VMA_LOCKED, "lo" }, { HANARE_VMA_SEQUENTIAL, "sr" },
		{ HANARE_VMA_RANDOM, "rr" }, { HANARE_VMA_DONT_FORK, "dc" },
		{ HANARE_VMA_LOCK_ON_FAULT, "lf" }, { HANARE_VMA_ACCOUNTED, "ac" },
		{ HANARE_VMA_NO_RESERVE, "nr" }, { HANARE_VMA_HUGETLB, "ht" },
		{ HANARE_VMA_WIPE_ON_FORK, "wf" }, { HANARE_VMA_DONT_DUMP, "dd" },
		{ HANARE_VMA_SOFT_CLEAN, "sd" },
		{ HANARE_VMA_HUGE, "hg" }, { HANARE_VMA_NO_HUGE, "nh" },
	};
	int i;

	/* From here on the bit says the contrary. */
	if (IS_ENABLED(CONFIG_MEM_SOFT_DIRTY))
		flags ^= HANARE_VMA_SOFT_CLEAN;
	else
		flags &= ~HANARE_VMA_SOFT_CLEAN;
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
	add_amounts(&a, map);
	KB("Size", map->info.end - map->info.start);
	KB("KernelPageSize", PAGE_SIZE);
	KB("MMUPageSize", PAGE_SIZE);
	show_amounts(m, &a, false);
	seq_printf(m, "THPeligible:%16u\n", !(map->info.flags & HANARE_VMA_NO_HUGE) && !map->file);
	show_flags(m, map->info.flags);
}

int hanare_show_smaps(struct seq_file *m, struct hanare_pseudo *what)
{
	return part_of_mappings(m, what, true, show_smap, NULL);
}

static void sum_mapping(struct seq_file *m, struct mapping *map, void *sum)
{
	add_amounts(sum, map);
}

int hanare_show_smaps_rollup(struct seq_file *m, struct hanare_pseudo *what)
{
	struct amounts a = {};
	u64 from = 0, last;
	int err;

	if (hanare_has_ended(what))
		return -ESRCH;
	do {
		last = from;
		err = some_mappings(m, what, &from, true, sum_mapping, &a);
		if (err)
			return err;
		/* Each part begins behind the last, so the loop ends whatever the LWK answers. */
	} while (from > last);
	/* Also of a process that has unmapped everything. */
	seq_setwidth(m, 25 + sizeof(void *) * 6 - 1);
	seq_printf(m, "%08llx-%08llx ---p 00000000 00:00 0 ", a.start, a.end);
	seq_pad(m, ' ');
	seq_puts(m, "[rollup]\n");
	show_amounts(m, &a, true);
	return 0;
}

/* As mpol_to_str, which is not exported. */
static void show_policy(struct seq_file *m, const struct hanare_numa_info *info)
{
	static const char * const modes[] = {
		"default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave",
	};
	unsigned int mode = info->mode & ~(u64)MPOL_MODE_FLAGS;

	if (mode >= ARRAY_SIZE(modes)) {
		seq_puts(m, "unknown");
		return;
	}
	seq_puts(m, modes[mode]);
	if (info->mode & MPOL_F_STATIC_NODES)
		seq_puts(m, "=static");
	else if (info->mode & MPOL_F_RELATIVE_NODES)
		seq_puts(m, "=relative");
	if (mode != MPOL_DEFAULT && mode != MPOL_LOCAL)
		seq_printf(m, ":%*pbl", HANARE_NODE_WORDS * 64, (const unsigned long *)info->nodes);
}

/* The part of a mapping from `start` on that has one policy. */
static void show_numa_part(struct seq_file *m, struct mapping *map, u64 start,
			   const struct hanare_numa_info *info)
{
	const char *name = special_name(map->info.flags);
	u64 own = map->info.flags & HANARE_VMA_SHARED ? 0 : info->written;
	u64 pages = 0;
	int i;

	seq_printf(m, "%08llx ", start);
	show_policy(m, info);
	if (map->file) {
		seq_puts(m, " file=");
		seq_file_path(m, map->file, "\n\t= ");
	} else if (name && map->info.flags & (HANARE_VMA_HEAP | HANARE_VMA_STACK)) {
		seq_printf(m, " %.*s", (int)strlen(name) - 2, name + 1);
	}
	for (i = 0; i < HANARE_NUMA_NODES; i++)
		pages += info->pages[i] & (BIT_ULL(HANARE_NUMA_NODE_SHIFT) - 1);
	/* Pages of Linux' own are not counted by node. */
	if (map->info.flags & HANARE_VMA_LINUX)
		pages = map->info.resident;
	if (own)
		seq_printf(m, " anon=%llu", own);
	if (info->written)
		seq_printf(m, " dirty=%llu", info->written);
	if (pages != own && pages != info->written)
		seq_printf(m, " mapped=%llu", pages);
	for (i = 0; i < HANARE_NUMA_NODES && info->pages[i]; i++)
		seq_printf(m, " N%llu=%llu", info->pages[i] >> HANARE_NUMA_NODE_SHIFT,
			   info->pages[i] & (BIT_ULL(HANARE_NUMA_NODE_SHIFT) - 1));
	if (pages)
		seq_puts(m, " kernelpagesize_kB=4");
	seq_putc(m, '\n');
}

static void show_numa_map(struct seq_file *m, struct mapping *map, void *data)
{
	struct hanare_space *space = data;
	struct hanare_numa_info info;
	u64 words[HANARE_PAGES_MAX];
	u64 at = map->info.start;

	BUILD_BUG_ON(sizeof(info) > sizeof(words));
	while (at < map->info.end) {
		struct hanare_call call = {
			.kind = HANARE_REQUEST_INFO,
			.args = { HANARE_INFO_NUMA, at },
			.pages = words,
		};

		/* A mapping that has gone meanwhile is left out. */
		if (hanare_request_about(space, &call, WAIT_KILLABLE, REQUEST_MS) || call.status ||
		    call.count * sizeof(u64) < sizeof(info))
			return;
		memcpy(&info, words, sizeof(info));
		show_numa_part(m, map, at, &info);
		if (info.end <= at)
			return;
		at = info.end;
	}
}

int hanare_show_numa_maps(struct seq_file *m, struct hanare_pseudo *what)
{
	return part_of_mappings(m, what, true, show_numa_map, what->space);
}
