/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all layers of hanare.ko share: the ABI, versions of Linux, and the structures of which each
 * layer keeps a part, which it defines in its state.h. What a layer does for those above stands in
 * its own header (machine/machine.h, link/link.h, ...), which includes that of the layer below.
 */
#ifndef HANARE_H
#define HANARE_H

#define pr_fmt(fmt) "hanare: " fmt

#include <linux/bitmap.h>
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
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/seccomp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include "hanare_abi.h"
#include "compat.h"
#include "atomics.h"
#include "protocol.h"
#include "machine/state.h"
#include "transport/state.h"
#include "link/state.h"
#include "instance/state.h"
#include "space/state.h"
#include "show/state.h"

#define HANARE_CHUNKS_MAX 4096
#define HANARE_INSTANCES_MAX 64
#define HANARE_IMAGE_MAX (64UL << 20)
#define HANARE_SERVICES_PER_CPU 64
#define HANARE_LOG_SIZE (256U << 10)
/* How Linux rings an LWK CPU; the LWK takes any vector from 0x40 to 0xfe. */
#define HANARE_IPI_VECTOR HANARE_VECTOR_FIRST
/* Sleepers look for themselves this often, should a doorbell be lost. */
#define HANARE_RECHECK (HZ / 2)

struct hanare_transport;

struct hanare_cpu {
	struct hanare_instance *inst;
	unsigned int linux_cpu;
	u32 apicid;
	int node;
	bool started;
	struct hanare_cpu_shared *shared;	/* in the shared region, or NULL */

	struct hanare_cpu_link link;
};

struct hanare_instance {
	char name[HANARE_NAME_SIZE];
	struct list_head entry;			/* hanare_instances */
	struct kref ref;
	const struct hanare_transport *transport;
	struct mutex lock;			/* construction, boot, shutdown */
	/* Read: uses the shared region. Written: the region comes or goes. */
	struct rw_semaphore live;
	spinlock_t state_lock;			/* state, spaces */
	u32 state;				/* HANARE_INSTANCE_* */
	int dead;				/* -errno for every waiter, or 0 */

	struct hanare_cpu cpus[HANARE_CPUS_MAX];	/* under lock, as the layer machine has taken them */
	u32 cpu_count;

	struct hanare_instance_machine machine;
	struct hanare_instance_devices devices;
	struct hanare_instance_spaces spaces;
	/* From here on: valid while booted. */
	struct hanare_instance_reach reach;
	struct hanare_instance_boot boot;
	struct hanare_instance_link link;
};

struct hanare_space {
	u32 id;
	struct kref ref;
	struct rcu_head rcu;
	struct list_head entry;			/* instance->spaces.list */
	struct hanare_instance *inst;
	struct mm_struct *mm;			/* of the proxy, mmgrab'ed */
	struct pid *pid;			/* of the proxy */
	kuid_t user;				/* the maker, which is charged for it */
	unsigned long ended;			/* bit 0: its end has begun */
	struct hanare_unconfirmed *end;		/* for its end; NULL: handed over */
	refcount_t named;			/* its id stays its own: for itself until its end, and requests about it */
	struct hanare_pool *pool;		/* of a native task or a pooled proxy, with a reference; or NULL */
	bool is_member;				/* its process is a pooled proxy */

	struct hanare_space_link link;
	struct hanare_space_program program;
	struct hanare_space_limits limits;
	struct hanare_space_door door;
	struct hanare_space_share share;
	struct hanare_space_memory memory;
	struct hanare_space_files files;
	struct hanare_space_rings rings;
	struct hanare_space_show show;
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
