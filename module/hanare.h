/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all layers of hanare.ko share: the ABI, versions of Linux, and the structures of which each
 * layer keeps a part. What a layer does for those above stands in its own header (machine/machine.h,
 * link/link.h, ...), which includes that of the layer below.
 */
#ifndef HANARE_H
#define HANARE_H

#define pr_fmt(fmt) "hanare: " fmt

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/nsproxy.h>
#include <linux/path.h>
#include <linux/rwsem.h>
#include <linux/seccomp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hanare_abi.h"
#include "compat.h"

/* An instance's mask of CPUs in REQUEST_SPACE_OPEN is one word. */
#define HANARE_CPUS_MAX 64
#define HANARE_CHUNKS_MAX 4096
#define HANARE_INSTANCES_MAX 64
#define HANARE_IMAGE_MAX (64UL << 20)
/* No more than the inbound ring's entries, so a ring can never overflow. */
#define HANARE_REQUESTS 256
#define HANARE_POOL_USERS 64
#define HANARE_SERVICES_PER_CPU 64
#define HANARE_LOG_SIZE (256U << 10)
/* How Linux rings an LWK CPU; the LWK takes any vector from 0x40 to 0xfe. */
#define HANARE_IPI_VECTOR HANARE_VECTOR_FIRST
/* Sleepers look for themselves this often, should a doorbell be lost. */
#define HANARE_RECHECK (HZ / 2)

struct hanare_chunk {
	unsigned long pfn;
	unsigned long pages;
	int node;
};

struct hanare_cpu {
	unsigned int linux_cpu;
	u32 apicid;
	int node;
	bool started;
	struct hanare_cpu_shared *shared;	/* in the shared region, or NULL */
	spinlock_t inbound_lock;		/* inbound_tail, inbound_seen */
	u32 inbound_tail;
	u32 inbound_seen;			/* what the LWK has taken, as it was last looked at */
	spinlock_t outbound_lock;		/* outbound_head; what is read there is done under it */
	u32 outbound_head;
	u32 spaces;				/* homes, under state_lock */
	atomic_t asked;				/* requests without an answer yet */
	u64 rung_at;				/* TSC, when it was rung last */
	bool told;				/* closes.c: it has one to answer */
	u32 waits_at;				/* outbound_head + 1 at which something waited at the last look, or 0 */
	u64 entries;				/* into its kernel, as last looked at */
	unsigned long looked, entered;		/* when that was, and since when they may not have grown: hints */
};

/* An interrupt by which CPUs of the LWK ring Linux. */
struct hanare_doorbell {
	struct hanare_instance *inst;
	struct hanare_doorbell_shared *shared;
	unsigned int irq;
	unsigned int cpu;			/* of Linux', where it is now */
	int id;
	bool requested;
};

/* The private half of a request: nothing here can be damaged by the LWK. */
struct hanare_request_wait {
	wait_queue_head_t wq;
	bool busy;				/* under pool_lock */
	struct hanare_cpu *cpu;			/* who was asked, or NULL */
	bool abandoned;				/* under pool_lock */
	u8 user;				/* of pool_of; or HANARE_POOL_USERS: Linux itself */
};

/* The end of a space of which the LWK has not said yet that everything is back: closes.c. */
struct hanare_unconfirmed {
	struct list_head link;			/* instance->closes */
	u32 space;
	int entry;				/* of the request that is not answered yet, or -1 */
	struct hanare_cpu *cpu;			/* that was asked by it */
	struct hanare_cpu *next;		/* that has to answer: others might overtake an earlier request; NULL: any. Under closes_lock */
	unsigned long due;			/* jiffies when it is asked again, or should have been answered */
	bool held, gone;			/* the task that ended asks, too; nothing is left. Under closes_lock */
};

struct hanare_instance {
	char name[HANARE_NAME_SIZE];
	struct list_head link;			/* hanare_instances */
	struct kref ref;
	struct mutex lock;			/* construction, boot, shutdown */
	/* Read: uses the shared region. Written: the region comes or goes. */
	struct rw_semaphore live;
	spinlock_t state_lock;			/* state, spaces, space_list */
	u32 state;				/* HANARE_INSTANCE_* */
	int dead;				/* -errno for every waiter, or 0 */
	u32 spaces, members;			/* all; of them, pooled proxies */
	struct list_head space_list;
	wait_queue_head_t space_wait;		/* spaces went down */

	struct hanare_chunk *chunks;		/* sorted, merged */
	u32 chunk_count;
	u64 memory_bytes;
	u64 node_bytes[8];

	struct hanare_cpu cpus[HANARE_CPUS_MAX];
	u32 cpu_count;

	/* From here on: valid while booted. */
	void *shared;				/* struct hanare_boot_params */
	phys_addr_t shared_phys;
	u64 shared_size, image_size;
	phys_addr_t image_phys;
	struct hanare_request *requests;
	struct hanare_service *services;
	u32 service_count;
	struct hanare_log_ring *log;
	struct hanare_clock_page *clock;
	u64 *bells;
	const struct hanare_offer *offers;	/* HANARE_OFFERS of them */
	u32 bell_count;
	struct list_head boot_tables;		/* pages of the boot page tables */
	phys_addr_t boot_cr3;
	u64 boot_ns;

	struct hanare_request_wait *waits;
	spinlock_t pool_lock;
	u32 pool_hint;
	u16 pool_busy, pool_of[HANARE_POOL_USERS];	/* entries in use, by hash of the user */
	wait_queue_head_t pool_wait;

	spinlock_t closes_lock;			/* closes; parts of what is in it */
	struct list_head closes;		/* ends that the LWK has not confirmed */
	struct delayed_work close_work;

	struct hanare_doorbell *doorbells;
	u32 doorbell_count;
	u8 *nearest;				/* by CPU of Linux': its doorbell plus 1 */
	struct delayed_work look_work;		/* after a move of a doorbell */
	atomic_t looks;				/* that are left */
	struct task_struct *service_thread;
	wait_queue_head_t service_wait;
	wait_queue_head_t served_wait;		/* a service was run */
	unsigned long *service_pending;

	struct delayed_work clock_work;
	u64 clock_mult_nominal;
	u64 clock_last_tsc, clock_last_ns;
	/* Writers of the clock page; what runs when somebody sets Linux' clock. */
	raw_spinlock_t clock_lock;
	struct irq_work clock_set_work;
	struct work_struct clock_tell_work;
	struct notifier_block clock_notifier;

	atomic_t bad_pages;			/* that the LWK has told of */
	unsigned long load[3];			/* averages, as Linux' avenrun */
	u64 load_idle_ns, load_ns;		/* at the last look */
};

/* An answer to a page fault, kept for the second pass of the retry protocol. */
struct hanare_answer {
	struct list_head link;
	struct task_struct *task;		/* compared, never followed */
	u64 addr;
	bool write;
	u64 sequence;
	u64 start;
	int status;
	u32 count;
	u64 pages[HANARE_PAGES_MAX];
};

#define HANARE_ANSWERS_MAX 64
#define HANARE_SLOT_QUEUES 64
/* Slots of most processes. */
#define HANARE_FIRST_SLOTS 1024

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
	struct hanare_confinement made;		/* of who made it */
};

/* Requests of a kind about a space, of which none may overtake another; under its answer_lock. */
struct hanare_order {
	struct hanare_cpu *at;			/* who is asked until he has answered all of them */
	u32 asked;				/* and not answered yet */
	u32 lost;				/* of these, given up before there was an answer */
};

struct hanare_space {
	u32 id;
	struct kref ref;
	struct rcu_head rcu;
	struct list_head link;			/* instance->space_list */
	struct hanare_instance *inst;
	struct hanare_cpu *home;		/* asked first, and where no other will do; request.c */
	bool opened;				/* the LWK has answered OPEN, and each START: CLOSE may overtake nothing */
	struct hanare_cpu *near;		/* where a thread of it was last seen; a hint */
	struct hanare_order faults;		/* of its proxy */
	struct hanare_order observations;	/* of who traces or debugs it */
	struct hanare_order pauses;		/* its processes stop, or go on */
	struct mm_struct *mm;			/* of the proxy, mmgrab'ed */
	struct pid *pid;			/* of the proxy */
	kuid_t user;				/* who made it, and is charged for it */
	struct file *proxy;			/* its executable, for program.c; or NULL */
	u64 allowed;				/* instance CPUs, by index */
	u64 groups[HANARE_GROUPS_WORDS];	/* group.c; as the LWK was told them */
	u64 limits[HANARE_LIMITS_WORDS];	/* limits.c; as the LWK was told them */
	u64 limits_sequence;			/* the number of the last that it was told */
	bool has_limits;			/* a program of it has limits: one that was started, or a child's */
	bool owes_limits;			/* what the LWK has of them is from the proxy */
	u64 begun_with;				/* soft RLIMIT_AS that it was not told; or HANARE_LIMIT_LIFTED */
	u64 soft_space;				/* soft RLIMIT_AS that is the program's, as last seen */
	u32 control_fd;				/* the proxy's descriptor of it, not shown */
	bool shares_table;			/* another space's process has its descriptor table */
	struct file *door;			/* then: another's file at control_fd; compared only */
	u32 parts;				/* of its addresses that its process maps at once */
	u64 control[2];				/* frames: first slots, first scratch page; or 0 */
	unsigned long ended;			/* bit 0: its end has begun */
	struct hanare_unconfirmed *end;		/* for its end; NULL: handed over */
	struct hanare_pool *pool;		/* of a native task or a pooled proxy, with a reference; or NULL */
	bool is_member;				/* its process is a pooled proxy */
	bool leaves, left;			/* its process, by an execve; under share_lock */
	u64 leaves_by;				/* see hanare_space_prepare_leave; under share_lock */
	bool stopped;				/* the LWK was told; stop.c only */
	wait_queue_entry_t gone;		/* share.c: on pid's queue until the end */
	struct delayed_work gone_work;
	spinlock_t share_lock;			/* sharers, leaves, left */
	struct list_head sharers;		/* share.c; none where it has one process */
	u32 children;				/* child.c: that are watched; under its lock */
	bool keeps;				/* its files and id, though it has ended; the same */
	bool dumps;				/* what is mapped from now on is for a core dump */
	bool executes;				/* the proxy may execute what its program may */
	atomic_t dump_ready;			/* tasks that wait to be dumped */
	struct inode *inode;			/* whose mapping holds the VMAs */

	struct mutex refs_lock;			/* clear_refs, one at a time */
	struct rw_semaphore zap_lock;		/* see docs/architecture.md */
	u64 zap_sequence;

	spinlock_t answer_lock;
	struct list_head answers;		/* newest first */
	u32 answer_count;

	u64 arg_start, arg_end, env_start, env_end;	/* as the program itself has them */

	struct mutex table_lock;		/* files */
	struct xarray files;
	struct rw_semaphore watch_lock;		/* taken before mmap_lock */
	struct xarray watches;
	u32 next_watch;

	wait_queue_head_t slot_queues[HANARE_SLOT_QUEUES];
	/* Slots that were rung: the first ones, and all of them in a process that has more. */
	unsigned long rung_first[BITS_TO_LONGS(HANARE_FIRST_SLOTS)];
	unsigned long *rung;
	struct xarray eventfds;			/* by slot, of the first ones; under eventfds_lock */
	struct mutex eventfds_lock;
	bool eventfds_closed;			/* the same: the space has ended */
	unsigned long eventfds_rung[BITS_TO_LONGS(HANARE_FIRST_SLOTS)];
	unsigned long rings_queued;		/* bit 0: ring_work will look at them, with a reference */
	struct work_struct ring_work;
};

enum hanare_role { ROLE_NONE, ROLE_BUILDER, ROLE_SPACE, ROLE_OBSERVER, ROLE_POOL };

struct hanare_file {
	struct mutex lock;			/* role changes */
	enum hanare_role role;
	struct hanare_instance *inst;		/* builder */
	struct hanare_space *space;
	struct hanare_observer *observer;
	struct hanare_pool *pool;
};

/* Puts a sentence into the caller's structure; the value is the errno. */
#define refuse(message, err, fmt, ...) ({				\
	scnprintf((char *)(message), HANARE_MESSAGE_SIZE, fmt, ##__VA_ARGS__);	\
	(err); })

#endif
