/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of hanare.ko share with each other. */
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
#include <linux/rwsem.h>
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
#define HANARE_IPI_VECTOR 0xe0
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
	spinlock_t inbound_lock;		/* inbound_tail */
	u32 inbound_tail;
	u32 outbound_head;			/* under hanare_instance.drain_lock */
	u32 spaces;				/* homes, under state_lock */
};

/* The private half of a request: nothing here can be damaged by the LWK. */
struct hanare_request_wait {
	wait_queue_head_t wq;
	bool busy;				/* under pool_lock */
	bool abandoned;				/* under pool_lock */
	u8 user;				/* of pool_of; or HANARE_POOL_USERS: Linux itself */
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
	u32 spaces;
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
	u32 bell_count;
	struct list_head boot_tables;		/* pages of the boot page tables */
	phys_addr_t boot_cr3;
	u64 boot_ns;

	struct hanare_request_wait *waits;
	spinlock_t pool_lock;
	u32 pool_hint;
	u16 pool_busy, pool_of[HANARE_POOL_USERS];	/* entries in use, by hash of the user */
	wait_queue_head_t pool_wait;

	unsigned int irq;
	int doorbell_id;
	spinlock_t drain_lock;
	raw_spinlock_t doorbell_lock;
	u64 doorbell;
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

struct hanare_space {
	u32 id;
	struct kref ref;
	struct rcu_head rcu;
	struct list_head link;			/* instance->space_list */
	struct hanare_instance *inst;
	struct hanare_cpu *home;
	struct mm_struct *mm;			/* of the proxy, mmgrab'ed */
	struct pid *pid;			/* of the proxy */
	kuid_t user;				/* who made it, and is charged for it */
	struct file *proxy;			/* its executable, for program.c; or NULL */
	u64 allowed;				/* instance CPUs, by index */
	u64 groups[HANARE_GROUPS_WORDS];	/* group.c; as the LWK was told them */
	u32 control_fd;				/* the proxy's descriptor of it, not shown */
	bool shares_table;			/* another space's process has its descriptor table */
	struct file *door;			/* then: another's file at control_fd; compared only */
	bool whole;			/* none of its memory was Linux' when it was opened */
	u64 control[2];				/* frames: first slots, first scratch page; or 0 */
	unsigned long ended;			/* bit 0: the LWK was told */
	bool leaves, left;			/* its process, by an execve; under share_lock */
	bool stopped;				/* the LWK was told; stop.c only */
	wait_queue_entry_t gone;		/* share.c: on pid's queue until the end */
	struct delayed_work gone_work;
	spinlock_t share_lock;			/* sharers, leaves, left */
	struct list_head sharers;		/* share.c; none where it has one process */
	bool dumps;				/* what is mapped from now on is for a core dump */
	atomic_t posed;				/* tasks that stay for it */
	struct inode *inode;			/* whose mapping holds the VMAs */

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
	unsigned long rung[BITS_TO_LONGS(HANARE_SLOTS_MAX)];
};

enum hanare_role { ROLE_NONE, ROLE_BUILDER, ROLE_SPACE, ROLE_OBSERVER };

struct hanare_file {
	struct mutex lock;			/* role changes */
	enum hanare_role role;
	struct hanare_instance *inst;		/* builder */
	struct hanare_space *space;
	struct hanare_observer *observer;
};

/* Puts a sentence into the caller's structure; the value is the errno. */
#define refuse(message, err, fmt, ...) ({				\
	scnprintf((char *)(message), HANARE_MESSAGE_SIZE, fmt, ##__VA_ARGS__);	\
	(err); })

/* main.c */
extern const struct file_operations hanare_fops;
extern struct mutex hanare_lock;		/* hanare_instances */
extern struct list_head hanare_instances;
struct hanare_instance *hanare_instance_get(const char *name);
struct hanare_instance *hanare_instance_named(const u8 *name);
int hanare_refuse_unknown(char *message, const u8 *name);
u64 hanare_idle_ns(const struct hanare_cpu *cpu);
void hanare_instance_put(struct hanare_instance *inst);
bool hanare_text_ok(const u8 *text, size_t size);

/* partition.c */
int hanare_partition_init(void);
void hanare_partition_exit(void);
int hanare_add_memory(struct hanare_instance *inst, struct hanare_add_memory *arg);
int hanare_add_cpu(struct hanare_instance *inst, struct hanare_add_cpu *arg);
int hanare_release_cpus(struct hanare_instance *inst, char *message);
void hanare_release_memory(struct hanare_instance *inst);
void hanare_bad_memory(struct hanare_instance *inst, u64 pfn);
bool hanare_owns_frames(struct hanare_instance *inst, u64 phys, u64 pages);

/* boot.c */
int hanare_boot(struct hanare_instance *inst, struct hanare_boot *arg);
int hanare_shutdown(struct hanare_instance *inst, struct hanare_shutdown *arg);
void hanare_stop_cpus(struct hanare_instance *inst, bool ask, u32 timeout_ms);
void hanare_release_all(struct hanare_instance *inst, char *message);
/* For emergencies: no CPU of the instance executes anything any more. */
void hanare_halt_cpus(struct hanare_instance *inst);
void hanare_init_ipi(struct hanare_cpu *cpu);

/* image.c */
struct hanare_image {
	void *data;				/* kvmalloc'ed copy of the file */
	u64 size;
	u64 memory_size;			/* from KERNEL_BASE, bss included */
	u64 entry;
	struct hanare_image_header header;
};
int hanare_image_verify(struct hanare_image *image, char *message);
int hanare_image_check(struct hanare_image *image, char *message);
void hanare_image_place(const struct hanare_image *image, void *to);
int hanare_boot_tables_make(struct hanare_instance *inst);
void hanare_boot_tables_free(struct hanare_instance *inst);

/* ikc.c */
int hanare_doorbell_init(void);
void hanare_doorbell_exit(void);
int hanare_ikc_start(struct hanare_instance *inst);
void hanare_ikc_stop(struct hanare_instance *inst);
void hanare_die(struct hanare_instance *inst, u32 state, int err);
void hanare_ring_cpu(struct hanare_cpu *cpu);
void hanare_ring_bell(struct hanare_space *space, u32 bell);
bool hanare_drain(struct hanare_instance *inst);
int hanare_push(struct hanare_cpu *cpu, u32 index);

/* request.c */
void hanare_request_event(struct hanare_instance *inst, u64 index);
/* Whose share of an instance the caller uses. */
kuid_t hanare_user_of_caller(void);

enum hanare_patience { WAIT_KILLABLE, WAIT_BOUNDED };
struct hanare_call {
	u32 kind, space;
	u64 args[4];
	const u64 *data;			/* HANARE_PAGES_MAX words or fewer in */
	u32 data_words;
	int status;				/* of the LWK */
	u32 count;
	u64 *pages;				/* HANARE_PAGES_MAX words out, or NULL */
	const struct hanare_space *charged;	/* to its user, if not by the kind */
};
int hanare_request(struct hanare_instance *inst, struct hanare_cpu *cpu,
		   struct hanare_call *call, enum hanare_patience patience,
		   unsigned int timeout_ms);
/*
 * For who has a reference of the space, which keeps the instance but not what is there while
 * it is booted. Takes inst->live.
 */
int hanare_request_about(struct hanare_space *space, struct hanare_call *call,
			 enum hanare_patience patience, unsigned int timeout_ms);
int hanare_post(struct hanare_instance *inst, struct hanare_cpu *cpu, u32 kind);
int hanare_post_about(struct hanare_space *space, struct hanare_call *call);
int hanare_ping(struct hanare_instance *inst, struct hanare_cpu *cpu, u64 *ns);
void hanare_ping_all(struct hanare_instance *inst, u64 *slowest);
void hanare_does_not_answer(struct hanare_instance *inst);

/* attach.c */
int hanare_attach(struct file *file, struct hanare_attach *arg);

/* space.c */
long hanare_space_ioctl(struct file *file, unsigned int cmd, void __user *arg);
void hanare_space_end(struct hanare_space *space);
void hanare_space_flush(struct hanare_space *space);
int hanare_space_mmap(struct hanare_space *space, struct vm_area_struct *vma);
struct hanare_space *hanare_space_find(u32 id);
/* Under rcu_read_lock: the space behind *id, which becomes its id. */
struct hanare_space *hanare_space_next(unsigned long *id);
bool hanare_spaces_any(void);
void hanare_space_put(struct hanare_space *space);
void hanare_space_ring_slot(struct hanare_instance *inst, u64 id, u32 slot);
void hanare_spaces_wake(struct hanare_instance *inst, bool tell);
void hanare_spaces_exit(void);

struct hanare_space *hanare_space_enter(struct hanare_instance *inst, struct inode *inode,
					u64 allowed, struct hanare_space *parent,
					const struct hanare_child *child, u8 *message);
void hanare_file_set_space(struct file *file, struct hanare_space *space);

/* fork.c */
long hanare_fork_command(struct file *file, struct hanare_space *of, void __user *to);
void hanare_account(struct hanare_space *space, const struct hanare_call *call);

/* program.c */
void hanare_program_init(void);
void hanare_program_exit(void);
struct file *hanare_running_file(void);
/* The space whose memory the caller has, with a reference; NULL: it has none. */
struct hanare_space *hanare_space_of_caller(void);
long hanare_execed(struct hanare_space *space, void *data);
long hanare_copy(struct hanare_space *space, void *data);

/* sleep.c */
int hanare_sleep_init(void);
void hanare_sleep_exit(void);

/* stderr.c */
int hanare_stderr_init(void);
void hanare_stderr_exit(void);

/* group.c: control groups that limit memory and CPU time */
void hanare_space_find_groups(struct hanare_space *space);
bool hanare_space_tell_groups(struct hanare_space *space);

/* share.c */
int hanare_share_init(void);
void hanare_share_exit(void);
/* The space ends with its process, whoever else has its descriptor. */
void hanare_space_watch_process(struct hanare_space *space);
void hanare_space_unwatch_process(struct hanare_space *space);
long hanare_share(struct hanare_space *space, void *data);
void hanare_space_unshare(struct hanare_space *space);
/* A process is on its way to a space of its own, and needs this one until it has that. */
bool hanare_space_is_left(struct hanare_space *space);
/* The calling process may do so from now on. */
void hanare_space_prepare_leave(struct hanare_space *space);
/* The calling process has left the space for one of its own. */
void hanare_space_leave(struct hanare_space *space);
/* Each process that has the space is told that the LWK died. Any context. */
void hanare_space_tell_death(struct hanare_space *space);
/* Each is killed. May look at all tasks: with no lock held. */
void hanare_space_kill(struct hanare_space *space);
bool hanare_space_is_shared(struct hanare_space *space);
/* The id of its process, or of one that has it still, as the caller sees it. */
u32 hanare_space_pid_vnr(struct hanare_space *space);
bool hanare_space_stop_changed(struct hanare_space *space, u32 look, bool (*is_stopped)(struct pid *pid),
			       u32 *slot, bool *stopped);

/* stop.c */
void hanare_stop_init(void);
void hanare_stop_exit(void);

/* The caller ends by this signal: its tracer has seen it. */
void hanare_last_signal(u32 signal);

/* rights.c */
long hanare_rights(struct hanare_space *space, void *data);
long hanare_succeed(struct hanare_space *space, void *data);

/* signal.c */
long hanare_send(struct hanare_space *space, void *data);

/* dump.c */
long hanare_dump(struct hanare_space *space, void *data);
long hanare_pose(struct hanare_space *space, void *data);

/* service.c */
enum hanare_context { CONTEXT_WORKER, CONTEXT_FAULT, CONTEXT_THREAD };
int hanare_serve(struct hanare_instance *inst, struct hanare_space *space, u32 index,
		 enum hanare_context context);
int hanare_serve_wait(struct hanare_space *space, u32 index, unsigned int timeout_ms);
void hanare_zap(struct hanare_space *space, u64 start, u64 end);
void hanare_space_unwatch_all(struct hanare_space *space);
int hanare_space_copy_files(struct hanare_space *to, struct hanare_space *from);
int hanare_space_move_file(struct hanare_space *to, struct hanare_space *from, u64 id);
void hanare_space_put_files(struct hanare_space *space);

/* fault.c */
extern const struct vm_operations_struct hanare_vm_ops;
void hanare_answers_drop(struct hanare_space *space);
void hanare_insert_control(struct hanare_space *space, struct vm_area_struct *vma);

/* observe.c */
struct hanare_observer;
const void *hanare_memory_behind(struct file *file);
struct poll_table_struct;
long hanare_do_observe(struct hanare_file *hf, void *data);
long hanare_do_observation(struct hanare_file *hf, void *data);
long hanare_do_trace_read(struct hanare_file *hf, void *data);
void hanare_observer_end(struct hanare_file *hf);
__poll_t hanare_observer_poll(struct file *file, struct poll_table_struct *table);
void hanare_observers_exit(void);
void hanare_observe_event(struct hanare_instance *inst, u64 session);
/* A space is gone: those who watch it may look. */
void hanare_observers_wake(struct hanare_space *space);


/* status.c */
long hanare_do_status(struct hanare_file *hf, void *data);
long hanare_do_debug(struct hanare_file *hf, void *data);

/* info.c */
struct hanare_space *hanare_space_of_pid(struct pid *pid);
struct hanare_space *hanare_space_after(struct hanare_instance *inst, u32 id);
int hanare_space_info(struct hanare_space *space, u32 tid, struct hanare_process_info *info);
int hanare_space_threads(struct hanare_space *space, u32 skip, struct hanare_thread_info *threads);
long hanare_do_process(struct hanare_file *hf, void *data);
long hanare_do_threads(struct hanare_file *hf, void *data);

/* show-system.c */
u32 hanare_cpu_leaks(void);

/* pseudo.c, listing.c */
bool hanare_shows_procfs(struct file *file);
ssize_t hanare_read_quietly(struct file *file, char *to, size_t room, loff_t *position);
int hanare_pseudo_init(void);
void hanare_pseudo_exit(void);
long hanare_opened(struct hanare_space *space, void *data);
long hanare_listed(struct hanare_space *space, void *data);
void hanare_pseudo_inherit(struct hanare_space *space, const struct hanare_space *parent);

/* show-machine.c */
void hanare_load_update(struct hanare_instance *inst);

/* topology.c, cache.c: what Linux forgets of a CPU that goes offline. */
int hanare_topology_init(void);
void hanare_topology_exit(void);
void hanare_topology_keep(u32 cpu);
void hanare_topology_show(struct hanare_instance *inst, u32 cpu);
void hanare_topology_hide(u32 cpu);
struct hanare_place {
	u32 package, die, core;
	int cluster;				/* CPUs that share a level 2 cache; -1: not known */
	u64 ppin;				/* serial number of the package, or 0 */
	const struct hanare_instance *inst;
	bool shown;
};
int hanare_cache_init(void);
void hanare_cache_exit(void);
void hanare_cache_keep(u32 cpu);
void hanare_cache_show(const struct hanare_instance *inst, u32 cpu);
void hanare_cache_hide(u32 cpu);
const struct hanare_place *hanare_place_of(u32 cpu);

/* log.c: the last lines into dmesg, before they are gone. */
void hanare_log_tail(struct hanare_instance *inst);
long hanare_do_log(struct hanare_file *hf, void *data);

/* clock.c */
void hanare_clock_start(struct hanare_instance *inst);
void hanare_clock_stop(struct hanare_instance *inst);

#endif
