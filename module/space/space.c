// SPDX-License-Identifier: GPL-2.0
/* Spaces: one per proxy process. Life, death, and the calls of its workers. */
#include "hanare.h"

#include <linux/cred.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#define CLOSE_MS 20000
/* An idle worker looks for itself this often, should a doorbell be lost. */
#define SLOT_RECHECK (5 * HZ)

static DEFINE_XARRAY_ALLOC1(spaces);
static u32 next_space_id;

/* ---- finding ---- */

struct hanare_space *hanare_space_find(u32 id)
{
	struct hanare_space *space;

	rcu_read_lock();
	space = xa_load(&spaces, id);
	if (space && !kref_get_unless_zero(&space->ref))
		space = NULL;
	rcu_read_unlock();
	return space;
}

struct hanare_space *hanare_space_next(unsigned long *id)
{
	return xa_find_after(&spaces, id, ULONG_MAX, XA_PRESENT);
}

bool hanare_spaces_any(void)
{
	return !xa_empty(&spaces);
}

static void space_free_rcu(struct rcu_head *rcu)
{
	struct hanare_space *space = container_of(rcu, struct hanare_space, rcu);

	put_pid(space->pid);
	kvfree(space);
}

static void space_release(struct kref *ref)
{
	struct hanare_space *space = container_of(ref, struct hanare_space, ref);
	struct hanare_instance *inst = space->inst;

	hanare_answers_drop(space);
	/* Of one that was never opened; else its end has done it. */
	hanare_space_put_files(space);
	iput(space->inode);
	if (space->proxy)
		fput(space->proxy);
	mmdrop(space->mm);
	/* The doorbell's handler may have just looked it up; stop.c its process, too. */
	call_rcu(&space->rcu, space_free_rcu);
	hanare_instance_put(inst);	/* last: now the module may go (hanare_spaces_exit) */
}

void hanare_space_put(struct hanare_space *space)
{
	kref_put(&space->ref, space_release);
}

static void look_at_groups(struct work_struct *work);
static DECLARE_DELAYED_WORK(group_work, look_at_groups);

/* Linux tells nobody of a new group of a process, or a new limit. */
static void look_at_groups(struct work_struct *work)
{
	unsigned long id = 0;
	bool goes_on = true;

	while (goes_on && hanare_space_next(&id)) {
		struct hanare_space *space = hanare_space_find(id);

		if (!space)
			continue;
		goes_on = hanare_space_tell_groups(space);
		hanare_space_put(space);
	}
	if (hanare_spaces_any())
		schedule_delayed_work(&group_work, HZ);
}

void hanare_spaces_exit(void)
{
	cancel_delayed_work_sync(&group_work);
	rcu_barrier();
	xa_destroy(&spaces);
}

/* ---- slots ---- */

/* From the doorbell's handler. */
void hanare_space_ring_slot(struct hanare_instance *inst, u64 id, u32 slot)
{
	struct hanare_space *space;

	rcu_read_lock();
	space = xa_load(&spaces, id);
	if (space && space->inst == inst && slot < HANARE_SLOTS_MAX) {
		/* Sticky: the worker may not be asleep yet. */
		set_bit(slot, space->rung);
		wake_up_all(&space->slot_queues[slot % HANARE_SLOT_QUEUES]);
	}
	rcu_read_unlock();
}

/*
 * The instance died: nobody will ring any more. A worker that is blocked in a
 * call of Linux' own learns of it by a signal. Any context.
 */
void hanare_spaces_wake(struct hanare_instance *inst, bool tell)
{
	struct hanare_space *space;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&inst->state_lock, flags);
	list_for_each_entry(space, &inst->space_list, link) {
		for (i = 0; i < HANARE_SLOT_QUEUES; i++)
			wake_up_all(&space->slot_queues[i]);
		if (tell)
			hanare_space_tell_death(space);
	}
	spin_unlock_irqrestore(&inst->state_lock, flags);
}

static long do_wait(struct hanare_space *space, void *data)
{
	struct hanare_wait *arg = data;
	struct hanare_instance *inst = space->inst;
	bool rung = false;

	if (arg->slot >= HANARE_SLOTS_MAX || arg->reserved)
		return -EINVAL;
	for (;;) {
		long ret = wait_event_interruptible_timeout(
			space->slot_queues[arg->slot % HANARE_SLOT_QUEUES],
			rung || (rung = test_and_clear_bit(arg->slot, space->rung)) ||
			READ_ONCE(inst->dead), SLOT_RECHECK);

		if (rung)
			return 0;
		if (READ_ONCE(inst->dead))
			return -EIO;
		if (ret < 0)
			return -EINTR;
		hanare_drain(inst);
	}
}

/* ---- the other calls of a worker ---- */

static long ask(struct hanare_space *space, struct hanare_call *call)
{
	int err;

	call->space = space->id;
	err = hanare_request(space->inst, space->home, call, WAIT_KILLABLE, 0);
	return err ?: min(call->status, 0);
}

static long do_ring(struct hanare_space *space, void *data)
{
	struct hanare_ring *arg = data;

	if (arg->bell >= space->inst->bell_count || arg->reserved)
		return -EINVAL;
	if (READ_ONCE(space->inst->dead))
		return -EIO;
	hanare_ring_bell(space, arg->bell);
	return 0;
}

static long do_serve(struct hanare_space *space, void *data)
{
	struct hanare_serve *arg = data;

	return hanare_serve(space->inst, space, arg->index, CONTEXT_WORKER);
}

static long do_signal(struct hanare_space *space, void *data)
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

static long do_last(struct hanare_space *space, void *data)
{
	struct hanare_last *arg = data;

	if (!arg->signal || arg->signal > _NSIG || arg->reserved)
		return -EINVAL;
	hanare_last_signal(arg->signal);
	return 0;
}

static long do_usage(struct hanare_space *space, void *data)
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

static long do_start(struct hanare_space *space, void *data)
{
	struct hanare_call call = { .kind = HANARE_REQUEST_SPACE_START };

	return ask(space, &call);
}

/* ---- opening and closing ---- */

/* Counts the space in, unless the instance is not serving. inst->live is held. */
static int enlist(struct hanare_instance *inst, struct hanare_space *space)
{
	int err = 0;
	u32 i;

	spin_lock_irq(&inst->state_lock);
	if (inst->state != HANARE_INSTANCE_RUNNING || inst->dead) {
		err = -ENODEV;
	} else {
		for (i = 0; i < inst->cpu_count; i++)
			if (space->allowed >> i & 1 &&
			    (!space->home || inst->cpus[i].spaces < space->home->spaces))
				space->home = &inst->cpus[i];
		space->home->spaces++;
		inst->spaces++;
		list_add_tail(&space->link, &inst->space_list);
	}
	spin_unlock_irq(&inst->state_lock);
	return err;
}

/* The last step: after it the instance's memory may go. */
static void delist(struct hanare_space *space)
{
	struct hanare_instance *inst = space->inst;

	xa_erase(&spaces, space->id);
	spin_lock_irq(&inst->state_lock);
	list_del(&space->link);
	space->home->spaces--;
	inst->spaces--;
	/* Woken under the lock: the waiter may free nothing before we let go. */
	wake_up_all(&inst->space_wait);
	spin_unlock_irq(&inst->state_lock);
}

static struct hanare_space *space_new(struct hanare_instance *inst, struct inode *inode,
				      u64 allowed)
{
	struct hanare_space *space = kvzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);
	int i;

	if (!space)
		return NULL;
	kref_init(&space->ref);
	kref_get(&inst->ref);
	space->inst = inst;
	space->allowed = allowed;
	mmgrab(current->mm);
	space->mm = current->mm;
	space->pid = get_pid(task_tgid(current));
	ihold(inode);
	space->inode = inode;
	init_rwsem(&space->zap_lock);
	init_rwsem(&space->watch_lock);
	spin_lock_init(&space->share_lock);
	INIT_LIST_HEAD(&space->sharers);
	spin_lock_init(&space->answer_lock);
	INIT_LIST_HEAD(&space->answers);
	mutex_init(&space->table_lock);
	xa_init_flags(&space->files, XA_FLAGS_ALLOC1);
	xa_init_flags(&space->watches, XA_FLAGS_ALLOC1);
	for (i = 0; i < HANARE_SLOT_QUEUES; i++)
		init_waitqueue_head(&space->slot_queues[i]);
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
		.args = { space->allowed, space->home - space->inst->cpus,
			  parent ? parent->id : 0, from ? from->token : 0 },
		.data = child,
		.data_words = ARRAY_SIZE(child),
		.pages = pages,
	};
	int err;

	if (from && from->program)
		get_random_bytes(&child[7], 4 * sizeof(u64));
	hanare_space_find_groups(space);
	schedule_delayed_work(&group_work, HZ);
	memcpy(&child[HANARE_GROUPS_WORD], space->groups, sizeof(space->groups));
	space->user = hanare_user_of_caller();
	child[HANARE_USER_WORD] = __kuid_val(space->user);
	get_random_bytes(&child[HANARE_CHILD_WORDS - 1], sizeof(u64));
	/* Killed or not: the LWK ends a process whose program it has, and uses its slot again. */
	err = hanare_request(space->inst, space->home, &call,
			     from && from->program ? WAIT_BOUNDED : WAIT_KILLABLE, CLOSE_MS);
	if (err == -EIO)
		refuse(message, err, "%s died: see hanare log", space->inst->name);
	else if (err)
		refuse(message, err, "%s does not answer: see hanare status", space->inst->name);
	else if (call.status == -EAGAIN)
		refuse(message, call.status, "you have as many programs, or control groups with some, on %s as one user may have",
		       space->inst->name);
	else if (call.status == -ENOMEM)
		refuse(message, call.status, "%s has no memory for another program of yours",
		       space->inst->name);
	else if (call.status)
		refuse(message, call.status, "%s cannot take another program (error %d)",
		       space->inst->name, call.status);
	space->whole = call.args[0] == 1;
	err = err ?: min(call.status, 0);
	if (!err)
		memcpy(space->control, pages,
		       min_t(size_t, call.count, ARRAY_SIZE(space->control)) * sizeof(u64));
	return err;
}

/*
 * A new space, with a reference for the caller, or an error. inst->live is held: the
 * region stays while we enlist; later our count keeps it.
 */
struct hanare_space *hanare_space_enter(struct hanare_instance *inst, struct inode *inode,
					u64 allowed, struct hanare_space *parent,
					const struct hanare_child *child, u8 *message)
{
	struct hanare_space *space = space_new(inst, inode, allowed);
	int err;

	if (!space)
		return ERR_PTR(refuse(message, -ENOMEM, "Linux has no memory left"));
	hanare_pseudo_inherit(space, parent);
	space->proxy = parent ? (parent->proxy ? get_file(parent->proxy) : NULL) :
				hanare_running_file();
	/* Before the LWK hears of it: then it may drop what the parent has. */
	if (parent && !child->program && hanare_space_copy_files(space, parent)) {
		err = refuse(message, -ENOMEM, "Linux has no memory left");
		goto put;
	}
	/* Cyclic: an id is not used again while somebody may still think of it. */
	err = xa_alloc_cyclic(&spaces, &space->id, NULL,
			      XA_LIMIT(1, HANARE_SPACES_MAX - 1), &next_space_id, GFP_KERNEL);
	if (err < 0) {
		err = refuse(message, -EAGAIN, "there are too many programs: %u is the limit",
			     HANARE_SPACES_MAX - 1);
		goto put;
	}
	/* With its id, by which the list is gone through; only then is it found by it. */
	err = enlist(inst, space);
	if (err) {
		xa_release(&spaces, space->id);
		refuse(message, err, "%s is not running: see hanare status", inst->name);
		goto put;
	}
	/* It has its place already: this cannot fail. */
	xa_store(&spaces, space->id, space, GFP_KERNEL);
	hanare_space_watch_process(space);
	err = space_open(space, parent, child, message);
	if (err) {
		hanare_space_end(space);
		goto put;
	}
	return space;
put:
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

/*
 * The program is gone, and nothing of it is mapped. When this returns its
 * memory is free again (or the LWK does not answer). Only the first call counts.
 */
void hanare_space_end(struct hanare_space *space)
{
	struct hanare_instance *inst = space->inst;
	struct hanare_call call = { .kind = HANARE_REQUEST_SPACE_CLOSE, .space = space->id,
				     .charged = space };
	int err;

	if (test_and_set_bit(0, &space->ended))
		return;
	/* Not killable: the task that does this is being killed most of the time. */
	err = hanare_request(inst, space->home, &call, WAIT_BOUNDED,
			     READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG ? 1000 : CLOSE_MS);
	if (err == -ETIMEDOUT || err == -EBUSY)
		pr_err("%s: space %u is not closed after %u s: %s\n", inst->name, space->id, CLOSE_MS / 1000,
		       err == -EBUSY ? "its user has too many requests" : "the LWK does not answer");
	if (err == -ETIMEDOUT)
		hanare_does_not_answer(inst);
	else if (!err)
		hanare_account(space, &call);
	hanare_space_unwatch_process(space);
	hanare_space_unshare(space);
	hanare_space_unwatch_all(space);
	hanare_space_put_files(space);
	hanare_observers_wake(space);
	delist(space);
}

/*
 * A descriptor closes, perhaps not the last (a child of a fork has the same until it has
 * its own, and must not delay its parent's end), or the process is gone (share.c). Without
 * users the memory map is gone, or going: what may be left of ours is removed first.
 */
void hanare_space_flush(struct hanare_space *space)
{
	if (atomic_read(&space->mm->mm_users) || test_bit(0, &space->ended) ||
	    hanare_space_is_left(space))
		return;
	hanare_zap(space, HANARE_USER_MIN, HANARE_CONTROL_END);
	hanare_space_end(space);
}

/*
 * The space that a descriptor of `space` serves for the caller, with a reference: `space`
 * itself, or that of a process which has the descriptor in the same table (CLONE_FILES).
 * NULL: the caller is a process that inherited the descriptor or was sent it.
 */
static struct hanare_space *served(struct hanare_space *space, struct file *file)
{
	struct hanare_space *own;

	if (current->mm == space->mm) {
		kref_get(&space->ref);
		return space;
	}
	own = hanare_space_of_caller();
	if (own && own->door != file) {
		hanare_space_put(own);
		own = NULL;
	}
	return own;
}

/* ---- dispatch ---- */

struct space_command {
	unsigned int cmd;
	long (*call)(struct hanare_space *space, void *data);
};

static const struct space_command space_commands[] = {
	{ HANARE_IOCTL_WAIT, do_wait },
	{ HANARE_IOCTL_RING, do_ring },
	{ HANARE_IOCTL_SERVE, do_serve },
	{ HANARE_IOCTL_SIGNAL, do_signal },
	{ HANARE_IOCTL_USAGE, do_usage },
	{ HANARE_IOCTL_START, do_start },
	{ HANARE_IOCTL_DUMP, hanare_dump },
	{ HANARE_IOCTL_POSE, hanare_pose },
	{ HANARE_IOCTL_OPENED, hanare_opened },
	{ HANARE_IOCTL_LISTED, hanare_listed },
	{ HANARE_IOCTL_EXECED, hanare_execed },
	{ HANARE_IOCTL_RIGHTS, hanare_rights },
	{ HANARE_IOCTL_SUCCEED, hanare_succeed },
	{ HANARE_IOCTL_SHARE, hanare_share },
	{ HANARE_IOCTL_LAST, do_last },
	{ HANARE_IOCTL_SEND, hanare_send },
	{ HANARE_IOCTL_COPY, hanare_copy },
};

static long attach_command(struct file *file, void __user *arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_attach *data = memdup_user(arg, sizeof(*data));
	long err;

	if (IS_ERR(data))
		return PTR_ERR(data);
	if (mutex_lock_killable(&hf->lock)) {
		kfree(data);
		return -EINTR;
	}
	err = hanare_attach(file, data);
	mutex_unlock(&hf->lock);
	if (copy_to_user(arg, data, sizeof(*data)) && !err)
		err = -EFAULT;
	kfree(data);
	return err;
}

long hanare_space_ioctl(struct file *file, unsigned int cmd, void __user *arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_space *space = smp_load_acquire(&hf->space);
	/* The largest argument of these calls; the hot ones have 8 bytes. */
	union {
		struct hanare_signal signal;
		struct hanare_pose pose;
		struct hanare_send send;
	} data;
	size_t size = _IOC_SIZE(cmd), i;
	long err;

	if (cmd == HANARE_IOCTL_ATTACH)
		return attach_command(file, arg);
	for (i = 0; i < ARRAY_SIZE(space_commands); i++)
		if (space_commands[i].cmd == cmd)
			break;
	if (i == ARRAY_SIZE(space_commands) && cmd != HANARE_IOCTL_CHILD)
		return -ENOTTY;
	if (!space)
		return -EBADF;
	if (cmd == HANARE_IOCTL_CHILD)
		return hanare_fork_command(file, space, arg);
	BUILD_BUG_ON(sizeof(data) < sizeof(struct hanare_usage));
	space = served(space, file);
	if (!space)
		return -EPERM;
	err = copy_from_user(&data, arg, size) ? -EFAULT : space_commands[i].call(space, &data);
	hanare_space_put(space);
	if ((cmd == HANARE_IOCTL_USAGE || cmd == HANARE_IOCTL_OPENED ||
	     cmd == HANARE_IOCTL_LISTED || cmd == HANARE_IOCTL_RIGHTS) && !err && copy_to_user(arg, &data, size))
		err = -EFAULT;
	return err;
}

int hanare_space_mmap(struct hanare_space *space, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (current->mm != space->mm)
		return -EPERM;
	/* Same address on both sides; the space's number keeps spaces apart. */
	if (offset != ((u64)space->id << HANARE_SPACE_SHIFT | vma->vm_start) ||
	    vma->vm_start < HANARE_USER_MIN || vma->vm_end > HANARE_CONTROL_END)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	hanare_vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTCOPY |
				 (READ_ONCE(space->dumps) ? 0 : VM_DONTDUMP));
	kref_get(&space->ref);		/* hanare_vm_ops.close puts it */
	vma->vm_private_data = space;
	vma->vm_ops = &hanare_vm_ops;
	hanare_insert_control(space, vma);
	return 0;
}
