// SPDX-License-Identifier: GPL-2.0
/* The table of spaces: how one is found, and what becomes of it with its last reference. */
#include "space/space.h"

#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

/*
 * Marks of an id, which is given back when it has none: the end here, or a child, needs it; so does
 * the LWK's end.
 */
#define ID_OF_LINUX XA_MARK_1
#define ID_OF_LWK XA_MARK_2

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

struct hanare_space *hanare_space_peek(unsigned long id)
{
	return xa_load(&spaces, id);
}

struct hanare_space *hanare_space_next(unsigned long *id)
{
	return xa_find_after(&spaces, id, ULONG_MAX, XA_PRESENT);
}

bool hanare_spaces_any(void)
{
	return !xa_empty(&spaces);
}

/* The space of a process, or with that memory, with a reference; NULL: none of ours. */
static struct hanare_space *find_space(const struct pid *pid, const struct mm_struct *mm)
{
	struct hanare_space *space, *found = NULL;
	struct hanare_instance *inst;

	mutex_lock(&hanare_lock);
	list_for_each_entry(inst, &hanare_instances, entry) {
		spin_lock_irq(&inst->state_lock);
		/* After an execve of the proxy's own there may be older ones. */
		list_for_each_entry_reverse(space, &inst->spaces.list, entry)
			if ((pid ? space->pid == pid : space->mm == mm) &&
			    !test_bit(0, &space->ended) && kref_get_unless_zero(&space->ref)) {
				found = space;
				break;
			}
		spin_unlock_irq(&inst->state_lock);
		if (found)
			break;
	}
	mutex_unlock(&hanare_lock);
	return found;
}

struct hanare_space *hanare_space_of_pid(struct pid *pid)
{
	return find_space(pid, NULL);
}

/* Also of one that shares the memory of the space's process, and has none of its own (vfork). */
struct hanare_space *hanare_space_of_process(struct pid *pid)
{
	struct hanare_space *space = hanare_space_of_pid(pid);
	struct mm_struct *mm = NULL;
	struct task_struct *task;

	if (space || !hanare_spaces_any())
		return space;
	task = get_pid_task(pid, PIDTYPE_TGID);
	if (!task)
		return NULL;
	task_lock(task);
	if (task->mm) {
		mm = task->mm;
		mmgrab(mm);
	}
	task_unlock(task);
	put_task_struct(task);
	if (!mm)
		return NULL;
	space = find_space(NULL, mm);
	mmdrop(mm);
	return space;
}

/* The space of an instance with the lowest id above `id`, with a reference. */
struct hanare_space *hanare_space_after(struct hanare_instance *inst, u32 id)
{
	struct hanare_space *space, *found = NULL;

	spin_lock_irq(&inst->state_lock);
	list_for_each_entry(space, &inst->spaces.list, entry)
		if (space->id > id && (!found || space->id < found->id))
			found = space;
	if (found && !kref_get_unless_zero(&found->ref))
		found = NULL;
	spin_unlock_irq(&inst->state_lock);
	return found;
}

/* ---- coming and going ---- */

int hanare_space_take_id(struct hanare_space *space)
{
	/* Cyclic: an id is not used again while another side may still think of it. */
	int err = xa_alloc_cyclic(&spaces, &space->id, NULL, XA_LIMIT(1, HANARE_SPACES_MAX - 1),
				  &next_space_id, GFP_KERNEL);

	return min(err, 0);
}

void hanare_space_give_id_back(u32 id)
{
	xa_release(&spaces, id);
}

void hanare_space_publish(struct hanare_space *space)
{
	/* It has its place already: this cannot fail. */
	xa_store(&spaces, space->id, space, GFP_KERNEL);
	xa_set_mark(&spaces, space->id, ID_OF_LINUX);
}

/* The id stays the space's own: marks outlive the entry. */
void hanare_space_hide(struct hanare_space *space)
{
	xa_store(&spaces, space->id, NULL, GFP_KERNEL);
}

void hanare_space_keep_id(struct hanare_space *space)
{
	xa_set_mark(&spaces, space->id, ID_OF_LWK);
}

static void let_id_go(u32 id, xa_mark_t mark)
{
	xa_lock(&spaces);
	__xa_clear_mark(&spaces, id, mark);
	if (!xa_get_mark(&spaces, id, ID_OF_LINUX) && !xa_get_mark(&spaces, id, ID_OF_LWK))
		__xa_erase(&spaces, id);
	xa_unlock(&spaces);
}

void hanare_space_let_id_go(struct hanare_space *space)
{
	if (refcount_dec_and_test(&space->named))
		let_id_go(space->id, ID_OF_LINUX);
}

void hanare_space_let_kept_id_go(u32 id)
{
	let_id_go(id, ID_OF_LWK);
}

/* ---- naming it to the LWK ---- */

int hanare_request_beyond(struct hanare_space *space, struct hanare_call *call,
			  enum hanare_patience patience, unsigned int timeout_ms)
{
	struct hanare_instance *inst = space->inst;
	int err = -EIO;

	down_read(&inst->live);
	if (inst->reach.shared && !READ_ONCE(inst->dead))
		err = hanare_request_quietly(space, call, patience, timeout_ms);
	up_read(&inst->live);
	return err;
}

int hanare_request_about(struct hanare_space *space, struct hanare_call *call,
			 enum hanare_patience patience, unsigned int timeout_ms)
{
	int err;

	if (!refcount_inc_not_zero(&space->named))
		return -ESRCH;
	err = hanare_request_beyond(space, call, patience, timeout_ms);
	hanare_space_let_id_go(space);
	return err;
}

int hanare_post_about(struct hanare_space *space, struct hanare_call *call)
{
	struct hanare_instance *inst = space->inst;
	int err = -EIO;

	if (!refcount_inc_not_zero(&space->named))
		return -ESRCH;
	down_read(&inst->live);
	if (inst->reach.shared && !READ_ONCE(inst->dead))
		err = hanare_post_quietly(space, call);
	up_read(&inst->live);
	hanare_space_let_id_go(space);
	return err;
}

/* ---- the last reference ---- */

static void space_free_rcu(struct rcu_head *rcu)
{
	struct hanare_space *space = container_of(rcu, struct hanare_space, rcu);

	put_pid(space->pid);
	kfree(space->end);
	kvfree(space->rings.slots);
	kvfree(space);
}

/* No thread of it is rung any more, though others have its descriptor: it ends (eventfd.c). */
void hanare_space_drop_eventfds(struct hanare_space *space)
{
	struct eventfd_ctx *eventfd;
	unsigned long slot;

	mutex_lock(&space->rings.eventfds_lock);
	space->rings.eventfds_closed = true;
	xa_for_each(&space->rings.eventfds, slot, eventfd) {
		xa_erase(&space->rings.eventfds, slot);
		eventfd_ctx_put(eventfd);
	}
	mutex_unlock(&space->rings.eventfds_lock);
}

static void space_release(struct kref *ref)
{
	struct hanare_space *space = container_of(ref, struct hanare_space, ref);
	struct hanare_instance *inst = space->inst;

	hanare_answers_drop(space);
	hanare_space_drop_eventfds(space);
	/* Of one that was never opened; else its end has done it. */
	hanare_space_put_files(space);
	iput(space->memory.inode);
	if (space->program.proxy)
		fput(space->program.proxy);
	if (space->pool)
		hanare_pool_put(space->pool);
	mmdrop(space->mm);
	/* The doorbell's handler may have just looked it up; stop.c its process, too. */
	call_rcu(&space->rcu, space_free_rcu);
	hanare_instance_put(inst);	/* last: now the module may go (hanare_spaces_exit) */
}

void hanare_space_put(struct hanare_space *space)
{
	kref_put(&space->ref, space_release);
}

void hanare_spaces_exit(void)
{
	rcu_barrier();
	xa_destroy(&spaces);
}
