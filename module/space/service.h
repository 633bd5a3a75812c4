/* SPDX-License-Identifier: GPL-2.0 */
/* Services that are being run, for the files that run them. */
#ifndef HANARE_SERVICE_H
#define HANARE_SERVICE_H

#include "space/space.h"

/* A private copy of an entry: the LWK cannot change it under our eyes. */
struct hanare_job {
	struct hanare_instance *inst;
	struct hanare_space *space;		/* NULL: gone, or none */
	u32 kind;
	u32 count;
	u64 args[5];
	u64 held;
	u64 extents[HANARE_EXTENTS_MAX];
};

static inline u64 extent_base(u64 extent)
{
	return extent & ~HANARE_EXTENT_PAGES_MASK;
}

static inline u64 extent_pages(u64 extent)
{
	return (extent & HANARE_EXTENT_PAGES_MASK) + 1;
}

static inline bool hanare_extents_ok(const struct hanare_job *job)
{
	u32 i;

	for (i = 0; i < job->count; i++)
		if (!hanare_owns_frames(job->inst, extent_base(job->extents[i]),
					extent_pages(job->extents[i])))
			return false;
	return true;
}

/* The first byte of an extent of the instance's own, for all of the extent. NULL: it is not. */
static inline void *hanare_extent_virt(const struct hanare_job *job, u64 extent)
{
	const struct hanare_chunk *chunk =
		hanare_own_chunk(job->inst, extent_base(extent), extent_pages(extent));

	return chunk ? hanare_virt(chunk, extent_base(extent)) : NULL;
}

/* files.c: what becomes an entry's status. */
long hanare_file_get(struct hanare_job *job);
long hanare_file_claim(struct hanare_job *job);
long hanare_file_put(struct hanare_job *job);
long hanare_program_get(struct hanare_job *job);
long hanare_exec_file(struct hanare_job *job);
long hanare_file_name(struct hanare_job *job);
long hanare_fill(struct hanare_job *job);
long hanare_file_cached(struct hanare_job *job);
long hanare_file_size(struct hanare_job *job);
/*
 * fill.c: a file's bytes from args[1] on, at most args[2], into the extents, which are ours. How
 * many, or -errno.
 */
long hanare_file_fill(struct file *file, struct hanare_job *job);
bool hanare_is_cached(struct address_space *mapping, pgoff_t index);
/* Before a file is mapped. 0 or -errno of its file system. */
int hanare_file_refresh(struct file *file);

/*
 * binfmt.c: whether the caller has entries of binfmt_misc; their texts, what becomes an entry's
 * status.
 */
bool hanare_has_binfmt(void);
long hanare_binfmt(struct hanare_job *job);

/* pinnable.c */
long hanare_pinnable(struct hanare_job *job);

/*
 * version.c: the number of a file's state, which no other state of any file has; 0: it may change
 * unseen.
 */
u64 hanare_file_version(struct file *file, const struct kstat *stat);
/* stderr.c */
void hanare_say_killed(struct hanare_space *space, u64 used, u64 total, u64 whose);
/*
 * permission.c: the same; and a thread that the caller knows by its id, if it uses that memory map,
 * with a reference.
 */
long hanare_may(struct hanare_job *job);
struct task_struct *hanare_task_of(u64 tid, const struct mm_struct *mm);
/* limits.c: the same */
long hanare_limits(struct hanare_job *job);
/* child.c: the same; and a process that is to have that slot of the space's */
long hanare_child(struct hanare_job *job);
long hanare_share_child(struct hanare_space *space, struct pid *pid, u32 slot);
/* listener.c: the same */
long hanare_listener(struct hanare_job *job);
long hanare_notify(struct hanare_job *job);
long hanare_continued(struct hanare_job *job);

#endif
