// SPDX-License-Identifier: GPL-2.0
/*
 * Observers: descriptors of tracers and debuggers. Linux decides whether a caller may observe a
 * process: the caller shows its open /proc/PID/mem.
 */
#include "observe/observe.h"

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* The LWK answers at once; a debugger's write may wait for a page of a file. */
#define ANSWER_MS 10000
/* How long breakpoints are to be taken out of a process, and how often that is tried. */
#define CLOSE_MS 10000
#define CLOSE_LOOK_MS 1
/* A piece of a trace read at once. */
#define PIECE 65536U
/* Largest ring that the LWK may name. */
#define RING_MAX (16ULL << 20)

struct hanare_observer {
	u32 session;
	struct hanare_space *space;
	wait_queue_head_t wait;
	bool news;
	struct mutex lock;			/* the rest */
	struct hanare_trace_ring *ring;		/* in the instance's memory, or NULL */
	u64 text_size;
	u64 tail;
	kuid_t user;				/* charged for what the session keeps */
	u64 lost;				/* records, once it is over */
	bool over;				/* all is read, and the session has ended */
	struct delayed_work close_work;		/* without a descriptor any more */
};

/*
 * Runs the works that close sessions: as many requests at once, charged to root, not to the
 * sessions' users.
 */
#define CLOSES_AT_ONCE 4
static struct workqueue_struct *close_queue;

static DEFINE_XARRAY_ALLOC1(observers);
static u32 next_session;

/* From the doorbell's handler. */
void hanare_observe_event(struct hanare_instance *inst, u64 session)
{
	struct hanare_observer *observer;

	rcu_read_lock();
	observer = session <= U32_MAX ? xa_load(&observers, session) : NULL;
	if (observer && observer->space->inst == inst) {
		WRITE_ONCE(observer->news, true);
		wake_up_all(&observer->wait);
	}
	rcu_read_unlock();
}

void hanare_observers_wake(struct hanare_space *space)
{
	struct hanare_observer *observer;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&observers, id, observer)
		if (observer->space == space)
			wake_up_all(&observer->wait);
	rcu_read_unlock();
}

/* ---- whose process ---- */

static struct hanare_space *space_in(struct hanare_instance *inst, const struct mm_struct *mm)
{
	struct hanare_space *space, *found = NULL;

	spin_lock_irq(&inst->state_lock);
	list_for_each_entry(space, &inst->spaces.list, entry)
		if (space->mm == mm && !test_bit(0, &space->ended) &&
		    kref_get_unless_zero(&space->ref)) {
			found = space;
			break;
		}
	spin_unlock_irq(&inst->state_lock);
	return found;
}

/* The space of a proxy's memory map, which is compared only, never followed. */
static struct hanare_space *space_of(const struct mm_struct *mm)
{
	struct hanare_space *space = NULL;
	struct hanare_instance *inst;

	mutex_lock(&hanare_lock);
	list_for_each_entry(inst, &hanare_instances, entry) {
		space = space_in(inst, mm);
		if (space)
			break;
	}
	mutex_unlock(&hanare_lock);
	return space;
}

/*
 * A descriptor of /proc/PID/mem that was opened for writing proves that Linux
 * would let its opener trace the process; it holds the very memory map.
 */
static struct hanare_space *space_behind(int fd)
{
	struct hanare_space *space = NULL;
	struct file *file = fget(fd);
	const void *mm;

	if (!file)
		return ERR_PTR(-EBADF);
	mm = hanare_memory_behind(file);
	if (IS_ERR(mm) || !(file->f_mode & FMODE_READ) || !(file->f_mode & FMODE_WRITE))
		space = ERR_PTR(-EBADF);
	else if (mm)
		space = space_of(mm);
	fput(file);
	return space ?: ERR_PTR(-ESRCH);
}

static long ask(struct hanare_observer *observer, struct hanare_call *call)
{
	bool begins = call->args[0] == HANARE_OBSERVE_TRACE || call->args[0] == HANARE_OBSERVE_DEBUG;
	int err;

	call->kind = HANARE_REQUEST_OBSERVE;
	call->args[1] = observer->session;
	/*
	 * A session that has begun is told by its number. It is there when its process has ended,
	 * and about its children.
	 */
	err = (begins ? hanare_request_about : hanare_request_beyond)(observer->space, call, WAIT_KILLABLE, ANSWER_MS);
	return err ?: min(call->status, 0);
}

/*
 * The LWK cannot take breakpoints out at once if what that needs is in use, and is asked again.
 * Not killable: the task that does this may be killed. False: it could not be asked, since its user
 * has too many requests.
 */
static bool close_session(struct hanare_observer *observer)
{
	unsigned long end = jiffies + msecs_to_jiffies(CLOSE_MS);
	struct hanare_call call;
	bool last;
	int err;

	do {
		last = time_after(jiffies, end);
		call = (struct hanare_call){
			.kind = HANARE_REQUEST_OBSERVE,
			.args = { HANARE_OBSERVE_CLOSE, observer->session, last },
		};
		err = hanare_request_beyond(observer->space, &call, WAIT_BOUNDED, ANSWER_MS);
		if (err || call.status != -EAGAIN)
			return err != -EBUSY;
		msleep(CLOSE_LOOK_MS);
	} while (!last);
	return true;
}

static void observer_free(struct hanare_observer *observer)
{
	xa_erase(&observers, observer->session);
	/* The doorbell's handler may have just looked it up, and its space. */
	synchronize_rcu();
	hanare_space_put(observer->space);
	kfree(observer);
}

/* The LWK keeps things for the session until it is closed: so it is asked until that succeeds. */
static void close_again(struct work_struct *work)
{
	struct hanare_observer *observer = container_of(to_delayed_work(work), struct hanare_observer, close_work);

	if (close_session(observer))
		observer_free(observer);
	else
		queue_delayed_work(close_queue, &observer->close_work, HZ);
}

long hanare_do_observe(struct hanare_file *hf, void *data)
{
	struct hanare_observe *arg = data;
	struct hanare_observer *observer;
	struct hanare_space *space;
	int err;

	if (hf->role != ROLE_NONE)
		return refuse(arg->message, -EBUSY, "this descriptor has a role already: open another");
	if (arg->reserved)
		return -EINVAL;
	space = space_behind(arg->memory);
	if (PTR_ERR(space) == -EBADF)
		return refuse(arg->message, -EBADF, "not a descriptor of /proc/PID/mem, open for writing");
	if (IS_ERR(space))
		return refuse(arg->message, -ESRCH, "this process does not run on an LWK");
	observer = kzalloc(sizeof(*observer), GFP_KERNEL_ACCOUNT);
	if (!observer) {
		hanare_space_put(space);
		return refuse(arg->message, -ENOMEM, "Linux has no memory left");
	}
	observer->space = space;
	observer->user = hanare_user_of_caller();
	init_waitqueue_head(&observer->wait);
	mutex_init(&observer->lock);
	INIT_DELAYED_WORK(&observer->close_work, close_again);
	err = xa_alloc_cyclic(&observers, &observer->session, observer, xa_limit_31b,
			      &next_session, GFP_KERNEL);
	if (err < 0) {
		hanare_space_put(space);
		kfree(observer);
		return refuse(arg->message, err, "there are too many observers");
	}
	hf->role = ROLE_OBSERVER;
	smp_store_release(&hf->observer, observer);
	return 0;
}

void hanare_observer_end(struct hanare_file *hf)
{
	struct hanare_observer *observer = hf->observer;

	if (!observer)
		return;
	if (close_session(observer))
		observer_free(observer);
	else
		queue_delayed_work(close_queue, &observer->close_work, 0);
}

int hanare_observers_init(void)
{
	close_queue = alloc_workqueue("hanare_observers", WQ_UNBOUND, CLOSES_AT_ONCE);
	return close_queue ? 0 : -ENOMEM;
}

/* Waits for works that have dropped the last reference just now. */
void hanare_observers_exit(void)
{
	destroy_workqueue(close_queue);
	xa_destroy(&observers);
}

/* ---- what an observer asks ---- */

/* The answer to OBSERVE_TRACE: checked, since we are going to read there. */
static long take_ring(struct hanare_observer *observer, struct hanare_call *call)
{
	struct hanare_instance *inst = observer->space->inst;
	u64 phys = call->args[0], bytes = call->args[1];
	u64 pages = bytes / PAGE_SIZE + 1;
	const struct hanare_chunk *chunk;
	long err = -EIO;

	if (!IS_ALIGNED(phys, PAGE_SIZE) || !bytes || bytes > RING_MAX ||
	    !IS_ALIGNED(bytes, PAGE_SIZE))
		return -EIO;
	/* A shutdown gives the memory back meanwhile, and forgets which it was. */
	down_read(&inst->live);
	chunk = inst->reach.shared ? hanare_own_chunk(inst, phys, pages) : NULL;
	if (chunk) {
		observer->ring = hanare_virt(chunk, phys);
		observer->text_size = bytes;
		observer->tail = 0;
		err = 0;
	}
	up_read(&inst->live);
	return err;
}

/* The answer to OBSERVE_STATUS of a trace that has ended. */
static long nothing_watched(struct hanare_call *call)
{
	memset(call->args, 0, sizeof(call->args));
	return 0;
}

long hanare_do_observation(struct hanare_file *hf, void *data)
{
	struct hanare_observer *observer = smp_load_acquire(&hf->observer);
	struct hanare_observation *arg = data;
	struct hanare_call call = {
		.args = { arg->op, 0, arg->args[0], arg->args[1] },
		.data = arg->data,
		.data_words = ARRAY_SIZE(arg->data),
		.pages = arg->data,
	};
	long err;

	if (!observer)
		return -EBADF;
	if (!arg->op || arg->op > HANARE_OBSERVE_LAST || arg->op == HANARE_OBSERVE_CLOSE)
		return -EINVAL;
	if (mutex_lock_killable(&observer->lock))
		return -EINTR;
	if (arg->op == HANARE_OBSERVE_STATUS)
		WRITE_ONCE(observer->news, false);
	if (arg->op == HANARE_OBSERVE_TRACE || arg->op == HANARE_OBSERVE_DEBUG)
		arg->data[0] = __kuid_val(observer->user);
	if (arg->op == HANARE_OBSERVE_TRACE && (observer->ring || observer->over))
		err = -EBUSY;
	else if (arg->op == HANARE_OBSERVE_STATUS && observer->over)
		err = nothing_watched(&call);
	else
		err = ask(observer, &call);
	if (!err && arg->op == HANARE_OBSERVE_TRACE) {
		err = take_ring(observer, &call);
		call.args[0] = 0;
	}
	mutex_unlock(&observer->lock);
	arg->count = call.count;
	arg->args[0] = call.args[0];
	arg->args[1] = call.args[1];
	/* `call` carries answers as it carries questions: four words. */
	if (arg->op == HANARE_OBSERVE_STATUS) {
		arg->data[0] = call.args[2];
		arg->data[1] = call.args[3];
	}
	return err;
}

/* Copies out whole bytes of the ring; the reader finds the records in them. */
static u32 ring_copy(struct hanare_observer *observer, char *to, u32 room)
{
	const char *text = (const char *)observer->ring + HANARE_TRACE_TEXT_OFFSET;
	u64 head = smp_load_acquire(&observer->ring->head), at;
	u32 bytes, first;

	if (head - observer->tail > observer->text_size)
		return 0;			/* the LWK wrote nonsense */
	bytes = min_t(u64, room, head - observer->tail);
	div64_u64_rem(observer->tail, observer->text_size, &at);
	first = min_t(u64, bytes, observer->text_size - at);
	memcpy(to, text + at, first);
	memcpy(to + first, text, bytes - first);
	observer->tail += bytes;
	smp_store_release(&observer->ring->tail, observer->tail);
	return bytes;
}

long hanare_do_trace_read(struct hanare_file *hf, void *data)
{
	struct hanare_observer *observer = smp_load_acquire(&hf->observer);
	struct hanare_trace_read *arg = data;
	u32 room = min_t(u64, arg->size, PIECE), bytes = 0;
	struct hanare_instance *inst;
	bool over = false;
	char *piece;
	long err = 0;

	if (!observer)
		return -EBADF;
	piece = kvmalloc(PIECE, GFP_KERNEL);
	if (!piece)
		return -ENOMEM;
	inst = observer->space->inst;
	mutex_lock(&observer->lock);
	down_read(&inst->live);
	WRITE_ONCE(observer->news, false);
	arg->lost = 0;
	if (observer->over) {
		arg->lost = observer->lost;
	} else if (!observer->ring) {
		err = -EINVAL;
	} else if (!inst->reach.shared) {
		err = -EIO;
	} else {
		/* Before the look at what is there: nothing is written afterwards. */
		over = smp_load_acquire(&observer->ring->over) == 1;
		bytes = ring_copy(observer, piece, room);
		arg->lost = READ_ONCE(observer->ring->lost);
		over = over && !bytes;
	}
	up_read(&inst->live);
	if (over) {
		/* No reader looks there any more when the LWK frees it. */
		observer->ring = NULL;
		observer->lost = arg->lost;
		observer->over = true;
		close_session(observer);
	}
	mutex_unlock(&observer->lock);
	arg->size = bytes;
	/* May fault on LWK memory, so no lock is held that the LWK's end takes. */
	if (copy_to_user(u64_to_user_ptr(arg->buffer), piece, bytes))
		err = -EFAULT;
	kvfree(piece);
	return err;
}

__poll_t hanare_observer_poll(struct file *file, struct poll_table_struct *table)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_observer *observer = smp_load_acquire(&hf->observer);
	__poll_t events = 0;

	if (!observer)
		return EPOLLERR;
	poll_wait(file, &observer->wait, table);
	if (READ_ONCE(observer->news))
		events |= EPOLLIN | EPOLLRDNORM;
	if (test_bit(0, &observer->space->ended) || READ_ONCE(observer->space->inst->dead))
		events |= EPOLLHUP;
	return events;
}
