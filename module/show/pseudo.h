/* SPDX-License-Identifier: GPL-2.0 */
/* Files of procfs and sysfs as LWK programs see them; see docs/pseudo-files.md. */
#ifndef HANARE_PSEUDO_H
#define HANARE_PSEUDO_H

#include "show/show.h"

#include <linux/seq_file.h>

struct hanare_pseudo;
typedef int (*hanare_show)(struct seq_file *m, struct hanare_pseudo *what);

/* What an opened file shows, instead of what Linux' file shows. */
struct hanare_pseudo {
	struct file *linux_file;
	hanare_show show;
	const struct file_operations *fops;	/* of one that is not text; or NULL */
	struct hanare_instance *inst;
	struct hanare_space *space;		/* that of the process, or NULL: the machine */
	struct pid *pid;			/* the process; others may have its memory, too */
	u32 tid;				/* its thread, in its namespace */
	bool whole;				/* of /proc/PID, not of task/TID */
	int node;
	int refusal;				/* of an open by an LWK program, -errno, or 0 */
};

/*
 * Such a file while it is open. What grows with what a program asks for is shown in parts, so
 * that what Linux keeps of it does not: one begins at m->index, and is text of a few KiB.
 */
struct hanare_reading {
	struct hanare_pseudo *what;
	u64 next;				/* where the part behind begins, or 0: none */
};

static inline void hanare_next_part(struct seq_file *m, u64 at)
{
	((struct hanare_reading *)m->private)->next = at;
}

#define HANARE_PSEUDO_PATH_MAX 128

/* pseudo.c: canonical path in the file system of this magic, or NULL; its next part. */
char *hanare_path_in(struct file *file, unsigned long magic, char *buffer);
char *hanare_component(char **path);
/* The process on the LWK that a number in procfs means; given back by the second. */
bool hanare_find_process(struct hanare_pseudo *what, struct super_block *sb, u32 number);
void hanare_forget_process(struct hanare_pseudo *what);

/* subject.c */
/* The thread that the file is about, and its process. */
int hanare_pseudo_info(struct hanare_pseudo *what, struct hanare_process_info *info);
/* Whether that is a first thread that has ended before others, which has no memory any more. */
bool hanare_has_ended(struct hanare_pseudo *what);

/* text.c */
/* Linux' own text, zero-terminated, to be kvfree'd. Or ERR_PTR. */
char *hanare_linux_text(struct file *file);
/* Takes the next line off; NULL at the end. The line ends at its newline or zero. */
char *hanare_next_line(char **text);

/* strings.c */
int hanare_show_cmdline(struct seq_file *m, struct hanare_pseudo *what);
int hanare_show_environ(struct seq_file *m, struct hanare_pseudo *what);

/* process.c, machine.c: what shows a file of this name; NULL: none. */
hanare_show hanare_process_show(struct hanare_pseudo *what, const char *name);
hanare_show hanare_machine_show(const char *name);
int hanare_show_meminfo(struct seq_file *m, struct hanare_pseudo *what);
int hanare_show_nothing(struct seq_file *m, struct hanare_pseudo *what);
/* pagemap.c: operations of a file of /proc/PID that is not text; NULL: none. */
const struct file_operations *hanare_process_fops(const char *name);
/* scan.c: PAGEMAP_SCAN; `argument`: its address. */
long hanare_pagemap_scan(struct hanare_pseudo *what, unsigned long argument);
/* memory.c: */
int hanare_show_maps(struct seq_file *m, struct hanare_pseudo *what);
int hanare_show_smaps(struct seq_file *m, struct hanare_pseudo *what);
int hanare_show_smaps_rollup(struct seq_file *m, struct hanare_pseudo *what);
int hanare_show_numa_maps(struct seq_file *m, struct hanare_pseudo *what);
/* system.c, for a visible path below /devices/system; *node is set where it is about one. */
hanare_show hanare_system_show(const struct hanare_instance *inst, const char *path, int *node);
/* For a file below /devices/pci... */
hanare_show hanare_device_show(struct dentry *dentry, int *node);
/* Whether an LWK program is not to see that path below /devices/system. */
bool hanare_system_hides(const struct hanare_instance *inst, const char *path);
/* For a file of a control group. */
hanare_show hanare_cgroup_show(const char *name);
/* Those of HANARE_CPU_SET_CPUS, by index, as Linux numbers them. */
void hanare_instance_cpus(const struct hanare_instance *inst, const unsigned long *which, struct cpumask *mask);
void hanare_memory_nodes(const struct hanare_instance *inst, nodemask_t *nodes);

#endif
