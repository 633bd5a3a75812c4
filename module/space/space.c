// SPDX-License-Identifier: GPL-2.0
/*
 * Spaces: one per proxy process. How they begin, and the calls of their workers; end.c has their
 * ends.
 */
#include "space/space.h"

#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

/* How long a caller waits for the LWK that is not told whether it merely stands still. */
#define OPEN_MS 20000
/* The same, of a program that is replaced, which ends otherwise; it cannot be killed meanwhile. */
#define PROGRAM_MS 60000
static void look_at_groups(struct work_struct *work);
static DECLARE_DELAYED_WORK(group_work, look_at_groups);

/* Groups and limits are looked at so often. */
#define GROUP_PERIOD (HZ / 2)
/* A look takes so long at most, and goes on from where it stopped. */
#define GROUP_LOOK (HZ / 50 + 1)
/* Each space is told what it is in once in so many looks, even if nothing is new. */
#define GROUP_AGAIN 32

/* Linux does not notify of a new group of a process, or of a new limit of either. */
static void look_at_groups(struct work_struct *work)
{
	static unsigned long next;	/* the last space that was looked at */
	static u32 looks;
	const struct hanare_instance *busy = NULL;	/* takes no more now; compared only */
	unsigned long end = jiffies + GROUP_LOOK, first = next;
	bool wrapped = !first;

	while (time_before(jiffies, end)) {
		struct hanare_space *space;

		if (!hanare_space_next(&next)) {
			next = 0;
			if (wrapped)
				break;
			wrapped = true;
			continue;
		}
		if (wrapped && first && next > first)
			break;
		space = hanare_space_find(next);
		if (!space)
			continue;
		if (space->inst != busy &&
		    (!hanare_space_tell_groups(space, (space->id + looks) % GROUP_AGAIN == 0) ||
		     !hanare_space_tell_limits(space)))
			busy = space->inst;
		hanare_space_put(space);
		cond_resched();
	}
	looks++;
	if (hanare_spaces_any())
		schedule_delayed_work(&group_work, GROUP_PERIOD);
}

void hanare_space_exit(void)
{
	cancel_delayed_work_sync(&group_work);
}

/* ---- slots ---- */

/* Where it says that a slot was rung. NULL: no worker has ever used a slot of so high a number. */
static unsigned long *rung(struct hanare_space *space, u32 slot)
{
	return slot < HANARE_FIRST_SLOTS ? space->rings.first : smp_load_acquire(&space->rings.slots);
}

/*
 * A worker is about to use the slot at `addr`: from then on it may be rung. By the page fault of
 * its first use.
 */
int hanare_space_use_slot(struct hanare_space *space, u64 addr)
{
	unsigned long *rung;

	if (addr < HANARE_SLOT_BASE + HANARE_FIRST_SLOTS * sizeof(struct hanare_slot) ||
	    addr >= HANARE_SLOT_BASE + HANARE_SLOT_SIZE || smp_load_acquire(&space->rings.slots))
		return 0;
	rung = kvcalloc(BITS_TO_LONGS(HANARE_SLOTS_MAX), sizeof(long), GFP_KERNEL_ACCOUNT);
	if (!rung)
		return -ENOMEM;
	if (cmpxchg_release(&space->rings.slots, NULL, rung))
		kvfree(rung);
	return 0;
}

/* From the doorbell's handler. */
void hanare_space_ring_slot(struct hanare_instance *inst, u64 id, u32 slot)
{
	struct hanare_space *space;

	rcu_read_lock();
	space = hanare_space_peek(id);
	if (space && space->inst == inst && slot < HANARE_SLOTS_MAX && rung(space, slot)) {
		/* Sticky: the worker may not be asleep yet. */
		set_bit(slot, rung(space, slot));
		wake_up_all(&space->rings.queues[slot % HANARE_SLOT_QUEUES]);
	}
	rcu_read_unlock();
}

/*
 * The instance died: no CPU of it will ring any more. A worker that is blocked in a call of Linux'
 * own learns of it by a signal. Any context.
 */
void hanare_spaces_wake(struct hanare_instance *inst, bool tell)
{
	struct hanare_space *space;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&inst->state_lock, flags);
	list_for_each_entry(space, &inst->spaces.list, entry) {
		for (i = 0; i < HANARE_SLOT_QUEUES; i++)
			wake_up_all(&space->rings.queues[i]);
		if (tell)
			hanare_space_tell_death(space);
	}
	spin_unlock_irqrestore(&inst->state_lock, flags);
}

/*
 * No doorbell is lost for good: the task that moves it looks (publish, link/ikc.c). So there is no
 * timer.
 */
long hanare_wait(struct hanare_space *space, unsigned long arg)
{
	struct hanare_instance *inst = space->inst;
	u32 slot = arg, bell = arg >> HANARE_WAIT_RING_SHIFT;
	unsigned long *bits;
	bool was_rung = false;
	long left;

	if (slot >= HANARE_SLOTS_MAX || bell > inst->link.bell_count)
		return -EINVAL;
	bits = rung(space, slot);
	if (!bits)
		return -EINVAL;
	if (bell)
		hanare_ring_bell(space, bell - 1);
	left = wait_event_interruptible_timeout(space->rings.queues[slot % HANARE_SLOT_QUEUES],
						(was_rung = test_and_clear_bit(slot, bits)) ||
						READ_ONCE(inst->dead), hanare_pool_patience(space));
	if (was_rung)
		return hanare_doorbell_here(inst);
	return READ_ONCE(inst->dead) ? -EIO : left < 0 ? -EINTR : left ? 0 : -ETIME;
}

/* ---- the other calls of a worker ---- */

static long ask(struct hanare_space *space, struct hanare_call *call)
{
	int err;

	err = hanare_request_quietly(space, call, WAIT_KILLABLE, 0);
	return err ?: min(call->status, 0);
}

long hanare_ring(struct hanare_space *space, unsigned long bell)
{
	if (bell >= space->inst->link.bell_count)
		return -EINVAL;
	if (READ_ONCE(space->inst->dead))
		return -EIO;
	hanare_ring_bell(space, bell);
	return 0;
}

/*
 * A thread of the calling process serves a slot. The LWK takes the id from nowhere else: a forged
 * proxy names whichever of its own threads it likes, and no other task. Another process with that
 * memory may be in a process id namespace of its own making, with ids of its choice: only a process
 * of which the LWK was told the namespace, when it began, says any.
 */
long hanare_worker(struct hanare_space *space, unsigned long arg)
{
	struct hanare_instance *inst = space->inst;
	u32 number = arg, tid = arg >> HANARE_WORKER_SHIFT;
	struct hanare_bell *bell;
	struct task_struct *task;
	u64 before, ids;
	bool is_own;
	u32 slot;

	if (number >= inst->link.bell_count)
		return -EINVAL;
	bell = &inst->link.bells[number];
	if (!hanare_space_first_slot(space, task_tgid(current), &slot))
		return -EPERM;
	rcu_read_lock();
	task = pid_task(find_vpid(tid), PIDTYPE_PID);
	is_own = task && same_thread_group(task, current);
	rcu_read_unlock();
	if (!is_own)
		return -ESRCH;
	ids = (u64)space->id << HANARE_BELL_WORKER_SPACE_SHIFT |
	      (u64)slot << HANARE_BELL_WORKER_PROCESS_SHIFT | tid;
	do {
		/* First, then whose the bell is: what its next space says meanwhile stays. */
		before = smp_load_acquire(&bell->worker);
		if (READ_ONCE(bell->word) >> HANARE_BELL_SPACE_SHIFT != space->id)
			return -EPERM;
	} while (cmpxchg(&bell->worker, before, ids) != before);
	return 0;
}

long hanare_serve_own(struct hanare_space *space, void *data)
{
	struct hanare_serve *arg = data;

	return hanare_serve(space->inst, space, arg->index, CONTEXT_WORKER);
}

long hanare_signal(struct hanare_space *space, void *data)
{
	struct hanare_signal *arg = data;
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SIGNAL,
		.args = { arg->signal, arg->slot },
		.data = arg->info,
		.data_words = ARRAY_SIZE(arg->info),
	};

	if (!arg->signal || arg->signal > _NSIG || arg->slot >= HANARE_SLOTS_MAX)
		return -EINVAL;
	return ask(space, &call);
}

long hanare_last(struct hanare_space *space, void *data)
{
	struct hanare_last *arg = data;

	if (!arg->signal || arg->signal > _NSIG || arg->reserved)
		return -EINVAL;
	hanare_last_signal(arg->signal);
	return 0;
}

long hanare_usage(struct hanare_space *space, void *data)
{
	struct hanare_usage *arg = data;
	struct hanare_call call = { .kind = HANARE_REQUEST_USAGE };
	long err = ask(space, &call);

	if (err)
		return err;
	arg->user_ns = call.args[0];
	arg->system_ns = call.args[1];
	arg->resident_bytes = call.args[2];
	arg->peak_bytes = call.args[3];
	return 0;
}

long hanare_start(struct hanare_space *space, void *data)
{
	struct hanare_call call = { .kind = HANARE_REQUEST_SPACE_START };
	long err;

	hanare_space_note_limits(space);
	err = ask(space, &call);
	if (err)
		WRITE_ONCE(space->link.opened, false);
	return err;
}

/* ---- opening ---- */

/*
 * Whether the instance takes a space. Of a program that runs there also while it does not answer: a
 * machine that stands still for a while is no reason to end one.
 */
static bool takes_spaces(const struct hanare_instance *inst, bool of_program)
{
	return !inst->dead && (inst->state == HANARE_INSTANCE_RUNNING ||
			       (of_program && inst->state == HANARE_INSTANCE_HUNG));
}

/* Counts the space in, unless the instance is not serving. inst->live is held. */
static int enlist(struct hanare_instance *inst, struct hanare_space *space, const struct hanare_space *parent)
{
	/* A child runs where its parent may; which CPUs these are only the LWK knows. */
	struct hanare_cpu *near = parent ? READ_ONCE(parent->link.near) ?: parent->link.home : NULL;
	int err = 0, least = INT_MAX;
	u32 i;

	spin_lock_irq(&inst->state_lock);
	if (!takes_spaces(inst, parent)) {
		err = -ENODEV;
	} else {
		for (i = 0; i < inst->cpu_count; i++) {
			struct hanare_cpu *cpu = &inst->cpus[i];
			int found = hanare_disturbance(cpu, space->id);

			if (!test_bit(i, space->link.allowed) || found > least)
				continue;
			if (found == least && cpu != near &&
			    (space->link.home == near || cpu->link.spaces >= space->link.home->link.spaces))
				continue;
			least = found;
			space->link.home = cpu;
		}
		space->link.home->link.spaces++;
		inst->spaces.count++;
		inst->spaces.members += space->is_member;
		list_add_tail(&space->entry, &inst->spaces.list);
	}
	spin_unlock_irq(&inst->state_lock);
	return err;
}

static struct hanare_space *space_new(struct hanare_instance *inst, struct inode *inode,
				      const unsigned long *allowed)
{
	struct hanare_space *space = kvzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);
	int i;

	if (!space)
		return NULL;
	space->end = kzalloc(sizeof(*space->end), GFP_KERNEL_ACCOUNT);
	if (!space->end) {
		kvfree(space);
		return NULL;
	}
	kref_init(&space->ref);
	refcount_set(&space->named, 1);
	kref_get(&inst->ref);
	space->inst = inst;
	bitmap_copy(space->link.allowed, allowed, HANARE_CPU_SET_CPUS);
	mmgrab(current->mm);
	space->mm = current->mm;
	space->pid = get_pid(task_tgid(current));
	ihold(inode);
	space->memory.inode = inode;
	init_rwsem(&space->memory.zap_lock);
	init_rwsem(&space->memory.watch_lock);
	spin_lock_init(&space->share.lock);
	INIT_LIST_HEAD(&space->share.sharers);
	spin_lock_init(&space->link.lock);
	INIT_LIST_HEAD(&space->memory.answers);
	mutex_init(&space->files.lock);
	mutex_init(&space->show.refs_lock);
	xa_init_flags(&space->files.table, XA_FLAGS_ALLOC1);
	xa_init_flags(&space->memory.watches, XA_FLAGS_ALLOC1);
	hanare_space_init_eventfds(space);
	for (i = 0; i < HANARE_SLOT_QUEUES; i++)
		init_waitqueue_head(&space->rings.queues[i]);
	return space;
}

/*
 * Makes it known to the LWK; `parent` and `child` of a fork or of a program that leaves the
 * parent's memory, or NULL. Child or program run there when this returns.
 */
static int space_open(struct hanare_space *space, struct hanare_space *parent,
		      const struct hanare_child *from, u8 *message)
{
	struct user_namespace *ns = current_user_ns();
	u64 child[HANARE_CHILD_WORDS] = {
		task_tgid_vnr(current),
		from_kuid_munged(ns, current_uid()), from_kuid_munged(ns, current_euid()),
		from_kgid_munged(ns, current_gid()), from_kgid_munged(ns, current_egid()),
		task_active_pid_ns(current)->ns.inum,
		from ? from->secure : 0,
	};
	u64 pages[HANARE_PAGES_MAX];
	struct hanare_call call = {
		.kind = HANARE_REQUEST_SPACE_OPEN,
		.space = space->id,
		.cpus = space->link.allowed,
		.args = { 0, space->link.home - space->inst->cpus,
			  parent ? parent->id : 0, from ? from->token : hanare_pool_words(space) },
		.data = child,
		.data_words = ARRAY_SIZE(child),
		.pages = pages,
	};
	int err;

	if (from && from->program)
		get_random_bytes(&child[7], (rng_is_initialized() ? 8 : 4) * sizeof(u64));
	if (from && from->program)
		hanare_space_say_left(parent, &child[HANARE_LEFT_WORD]);
	hanare_space_find_groups(space);
	schedule_delayed_work(&group_work, GROUP_PERIOD);
	memcpy(&child[HANARE_GROUPS_WORD], space->limits.groups, sizeof(space->limits.groups));
	space->user = hanare_user_of_caller();
	child[HANARE_USER_WORD] = __kuid_val(space->user);
	if (hanare_denies_write_exec(current->mm))
		child[HANARE_USER_WORD] |= HANARE_DENIES_WRITE_EXEC;
	child[HANARE_CHILD_WORDS - 1] = get_random_u64();
	/* Killed or not: the LWK ends a process whose program it has, and uses its slot again. */
	if (from && from->program)
		err = hanare_request_quietly(space, &call, WAIT_BOUNDED, PROGRAM_MS);
	else
		err = hanare_request_quietly(space, &call, WAIT_KILLABLE, from ? 0 : OPEN_MS);
	space->link.opened = !err;
	if (err == -EIO)
		refuse(message, err, "%s died: see hanare log", space->inst->name);
	else if (err)
		refuse(message, err, "%s does not answer: see hanare status", space->inst->name);
	else if (call.status == -EAGAIN && space->is_member)
		refuse(message, call.status, "you have as many programs on %s as one user may have, or the pool as many proxies as it may",
		       space->inst->name);
	else if (call.status == -EAGAIN)
		refuse(message, call.status, "you have as many programs, or control groups with some, on %s as one user may have, or Linux holds too much that they gave up",
		       space->inst->name);
	else if (call.status == -ENOMEM)
		refuse(message, call.status, "%s has no memory for another program of yours",
		       space->inst->name);
	else if (call.status)
		refuse(message, call.status, "%s cannot take another program (error %d)",
		       space->inst->name, call.status);
	space->memory.parts = call.args[0];
	err = err ?: min(call.status, 0);
	if (!err)
		memcpy(space->memory.control, pages,
		       min_t(size_t, call.count, ARRAY_SIZE(space->memory.control)) * sizeof(u64));
	return err;
}

/* The file that the caller runs, with a reference, or NULL. */
static struct file *running_file(void)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct file *file = NULL;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, READ_ONCE(mm->start_code));
	/* A process that may execute the file, and map it so on this mount, may have it run. */
	if (vma && vma->vm_file && vma->vm_flags & VM_EXEC)
		file = get_file(vma->vm_file);
	mmap_read_unlock(mm);
	if (file && (!S_ISREG(file_inode(file)->i_mode) || file_permission(file, MAY_EXEC))) {
		fput(file);
		file = NULL;
	}
	return file;
}

/* The child of a fork has what its parent has; NULL: there is none. */
static void inherit(struct hanare_space *space, const struct hanare_space *parent)
{
	if (!parent)
		return;
	space->program.arg_start = READ_ONCE(parent->program.arg_start);
	space->program.arg_end = READ_ONCE(parent->program.arg_end);
	space->program.env_start = READ_ONCE(parent->program.env_start);
	space->program.env_end = READ_ONCE(parent->program.env_end);
}

/*
 * A new space, with a reference for the caller, or an error. inst->live is held: the
 * region stays while we enlist; later our count keeps it.
 */
struct hanare_space *hanare_space_enter(struct hanare_instance *inst, struct inode *inode,
					const unsigned long *allowed, struct hanare_space *parent,
					const struct hanare_child *child, struct hanare_pool *pool,
					bool is_member, u8 *message)
{
	struct hanare_space *space = space_new(inst, inode, allowed);
	int err;

	if (!space)
		return ERR_PTR(refuse(message, -ENOMEM, "Linux has no memory left"));
	inherit(space, parent);
	hanare_space_begin_limits(space, parent);
	if (pool)
		space->pool = hanare_pool_get(pool);
	space->is_member = is_member;
	space->program.proxy = parent ? (parent->program.proxy ? get_file(parent->program.proxy) : NULL) :
				running_file();
	/* Before the LWK hears of it: then it may drop what the parent has. */
	if (parent && !child->program && hanare_space_copy_files(space, parent)) {
		err = refuse(message, -ENOMEM, "Linux has no memory left");
		goto put;
	}
	err = hanare_space_take_id(space);
	if (err) {
		err = refuse(message, -EAGAIN, "there are too many programs: %u is the limit",
			     HANARE_SPACES_MAX - 1);
		goto put;
	}
	/* With its id, by which the list is gone through; only then is it found by it. */
	err = enlist(inst, space, parent);
	if (err) {
		hanare_space_give_id_back(space->id);
		refuse(message, err, "%s is not running: see hanare status", inst->name);
		goto put;
	}
	hanare_space_publish(space);
	hanare_space_watch_process(space);
	err = space_open(space, parent, child, message);
	if (err) {
		hanare_space_end(space);
		goto put;
	}
	return space;
put:
	hanare_lower_limits(current);
	hanare_space_put(space);
	return ERR_PTR(err);
}

/* The file, which has none yet, takes over the reference. */
void hanare_file_set_space(struct file *file, struct hanare_space *space)
{
	struct hanare_file *hf = file->private_data;

	hf->role = ROLE_SPACE;
	smp_store_release(&hf->space, space);
}
