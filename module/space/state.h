/* SPDX-License-Identifier: GPL-2.0 */
/* Spaces: what the layer space keeps in an instance, and, by subject, in a space. */
#ifndef HANARE_SPACE_STATE_H
#define HANARE_SPACE_STATE_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/path.h>
#include <linux/rwsem.h>
#include <linux/seccomp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hanare_abi.h"

struct hanare_instance;

/* Under the instance's state_lock. */
struct hanare_instance_spaces {
	u32 count, members;			/* all; of them, pooled proxies */
	struct list_head list;
	wait_queue_head_t wait;			/* they went down */
};

#define HANARE_ANSWERS_MAX 64
#define HANARE_SLOT_QUEUES 64
/* Slots of most processes. */
#define HANARE_FIRST_SLOTS 1024

/* An answer to a page fault, kept for the second pass of the retry protocol. */
struct hanare_answer {
	struct list_head link;
	struct task_struct *task;		/* compared, never followed */
	u64 addr;
	bool write;
	bool or_copy;				/* a page that cannot be given for writing was to come for a copy */
	u64 sequence;
	u64 start;
	int status;
	u32 pause_us;				/* before it was asked for the last time; 0: at once */
	u32 count;
	u64 pages[HANARE_PAGES_MAX];
};

/* What a task could do on Linux, and what confined it, at some time: confined.c. */
struct hanare_confinement {
	const struct cred *cred;		/* with a reference */
	struct path root;			/* likewise */
	struct seccomp seccomp;			/* compared only */
	struct nsproxy namespaces;		/* likewise */
	int umask;
	bool no_new_privs;
};

/* A pool of proxies: space/pool.c. */
struct hanare_pool {
	struct kref ref;
	struct hanare_instance *inst;
	u32 id, limit;
	unsigned long idle;			/* jiffies that a proxy may have nothing to do */
	struct hanare_confinement made;		/* of its maker */
};

/* The executable, and what is told of the program. */
struct hanare_space_program {
	struct file *proxy;			/* the proxy's executable, for program.c; or NULL */
	u64 arg_start, arg_end, env_start, env_end;	/* as the program itself has them */
	bool executes;				/* the proxy may execute what its program may */
	bool dumps;				/* what is mapped from now on is for a core dump */
	atomic_t dump_ready;			/* tasks that wait to be dumped */
};

/* Limits, as the LWK was told them. */
struct hanare_space_limits {
	u64 groups[HANARE_GROUPS_WORDS];	/* group.c */
	u64 words[HANARE_LIMITS_WORDS];		/* limits.c, as what follows */
	u64 sequence;				/* the number of the last that it was told */
	bool has;				/* a program of it has limits: one that was started, or a child's */
	bool owes;				/* what the LWK has of them is from the proxy */
	u64 begun_with;				/* soft RLIMIT_AS that it was not told; or HANARE_LIMIT_LIFTED */
	u64 soft_space;				/* soft RLIMIT_AS that is the program's, as last seen */
};

/* The proxy's descriptor of the space. */
struct hanare_space_door {
	u32 fd;					/* its number, not shown */
	bool shares_table;			/* another space's process has its descriptor table */
	struct file *file;			/* then: another's file at fd; compared only */
};

/* Processes of the space: share.c, stop.c, child.c. */
struct hanare_space_share {
	bool stopped;				/* the LWK was told; stop.c only */
	wait_queue_entry_t gone;		/* share.c: on pid's queue until the end */
	struct delayed_work gone_work;
	spinlock_t lock;			/* sharers, leaves, left */
	struct list_head sharers;		/* none where it has one process */
	bool leaves, left;			/* its process, by an execve; under lock */
	u64 leaves_by;				/* see hanare_space_prepare_leave; under lock */
	u32 children;				/* child.c: that are watched; under its lock */
	bool keeps;				/* its files and id, though it has ended; the same */
};

/* What Linux has mapped of the space, or watches. */
struct hanare_space_memory {
	struct inode *inode;			/* whose mapping holds the VMAs */
	u32 parts;				/* of its addresses that its process maps at once */
	u64 control[2];				/* frames: first slots, first scratch page; or 0 */
	struct rw_semaphore zap_lock;		/* see docs/architecture.md */
	u64 zap_sequence;

	struct list_head answers;		/* newest first; under space->link.lock */
	u32 answer_count;

	struct rw_semaphore watch_lock;		/* taken before mmap_lock */
	struct xarray watches;
	u32 next_watch;
};

/* Files of mappings: files.c. */
struct hanare_space_files {
	struct mutex lock;			/* table */
	struct xarray table;
};

/* Workers that sleep, and how they are rung. */
struct hanare_space_rings {
	wait_queue_head_t queues[HANARE_SLOT_QUEUES];
	/* Slots that were rung: the first ones, and all of them in a process that has more. */
	unsigned long first[BITS_TO_LONGS(HANARE_FIRST_SLOTS)];
	unsigned long *slots;
	struct xarray eventfds;			/* by slot, of the first ones; under eventfds_lock */
	struct mutex eventfds_lock;
	bool eventfds_closed;			/* the same: the space has ended */
	unsigned long eventfds_rung[BITS_TO_LONGS(HANARE_FIRST_SLOTS)];
	unsigned long queued;			/* bit 0: work will look at them, with a reference */
	struct work_struct work;
};

#endif
