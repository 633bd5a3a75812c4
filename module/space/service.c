// SPDX-License-Identifier: GPL-2.0
/* Services: what the LWK asks of Linux on its own account (abi/src/service.rs). */
#include "space/service.h"

#include <linux/delay.h>
#include <linux/io.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#define RESOLVE_PAGES_MAX 4096
#define WATCHES_MAX 65536
/*
 * An LWK that has not let go of Linux' pages after this long is stopped: longer than CPUs of a busy
 * host stand still.
 */
#define INVALIDATE_MS 60000
/* How often a space is looked at whose tasks put answers into its page table, of all spaces. */
#define VOID_TRIES 20

struct watch {
	struct mmu_interval_notifier notifier;
	struct hanare_space *space;
	u64 start, end;
	refcount_t users;	/* the space, and finders of frames */
};

/* ---- taking back from the proxy ---- */

/*
 * Each answer to a fault that is not in a page table yet is asked for again; one that is counts in
 * its page. False: some task was putting one there all the time. A user can make it take as long as
 * the user likes: no other user waits for it.
 */
static bool void_answers(struct hanare_instance *inst)
{
	unsigned long id = 0, done = 0;
	struct hanare_space *space;
	unsigned int tries = 0;

	rcu_read_lock();
	/* In one that goes, or that comes meanwhile, no answer names what was given up before. */
	while ((space = hanare_space_next(&id))) {
		if (space->inst == inst) {
			if (!down_write_trylock(&space->memory.zap_lock)) {
				rcu_read_unlock();
				if (tries++ == VOID_TRIES)
					return false;
				usleep_range(50, 100);
				rcu_read_lock();
				id = done;
				continue;
			}
			WRITE_ONCE(space->memory.zap_sequence, space->memory.zap_sequence + 1);
			up_write(&space->memory.zap_lock);
		}
		done = id;
	}
	rcu_read_unlock();
	return true;
}

void hanare_zap(struct hanare_space *space, u64 start, u64 end)
{
	/* A fault that asked before this looks at the sequence and asks again. */
	down_write(&space->memory.zap_lock);
	WRITE_ONCE(space->memory.zap_sequence, space->memory.zap_sequence + 1);
	up_write(&space->memory.zap_lock);
	unmap_mapping_range(space->memory.inode->i_mapping, (u64)space->id << HANARE_SPACE_SHIFT | start,
			    end - start, 1);
}

static long held(struct hanare_job *job)
{
	u32 i;

	if (!hanare_extents_ok(job))
		return -EINVAL;
	job->held = 0;
	if (job->args[2] && !void_answers(job->inst)) {
		job->held = ~0ULL;
		return 0;
	}
	for (i = 0; i < job->count; i++) {
		u64 base = extent_base(job->extents[i]), pages = extent_pages(job->extents[i]);
		const struct hanare_chunk *chunk = hanare_own_chunk(job->inst, base, pages);

		if (!chunk)
			return -EINVAL;
		if (hanare_frames_held(chunk, base, pages))
			job->held |= 1ULL << i;
	}
	return 0;
}

static long zap(struct hanare_job *job)
{
	u64 start = job->args[0], end = job->args[1];

	if (start & ~PAGE_MASK || end & ~PAGE_MASK || start >= end || end > HANARE_MESSAGES_END)
		return -EINVAL;
	/* Without a space there is no mapping left either. */
	if (job->space)
		hanare_zap(job->space, start, end);
	return held(job);
}

/* ---- shared file mappings ---- */

static bool watch_invalidate(struct mmu_interval_notifier *notifier,
			     const struct mmu_notifier_range *range, unsigned long sequence)
{
	struct watch *watch = container_of(notifier, struct watch, notifier);
	struct hanare_space *space = watch->space;
	struct hanare_instance *inst = space->inst;
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INVALIDATE,
		.space = space->id,
		.args = { max_t(u64, range->start, watch->start),
			  min_t(u64, range->end, watch->end) },
	};
	int err;

	if (!mmu_notifier_range_blockable(range))
		return false;
	/* SERVICE_RESOLVE sees that its pages may be old. */
	mmu_interval_set_seq(notifier, sequence);
	err = hanare_request_quietly(space, &call, WAIT_BOUNDED, INVALIDATE_MS);
	if (err == -ETIMEDOUT || err == -EBUSY) {
		/*
		 * Linux is about to use these pages for something else, and
		 * the LWK may still write to them. That must not happen.
		 */
		pr_err("%s: the LWK does not give back pages of a file: stopped\n", inst->name);
		/* First: from its death on no task waits for it to give anything back. */
		hanare_halt_cpus(inst);
		hanare_die(inst, HANARE_INSTANCE_HUNG, -EIO);
	}
	return true;
}

static const struct mmu_interval_notifier_ops watch_ops = { .invalidate = watch_invalidate };

static void watch_put(struct watch *watch)
{
	if (!refcount_dec_and_test(&watch->users))
		return;
	mmu_interval_notifier_remove(&watch->notifier);
	kfree(watch);
}

static long watch_add(struct hanare_job *job)
{
	u64 start = job->args[0], end = job->args[1];
	struct hanare_space *space = job->space;
	struct watch *watch;
	long err;
	u32 id;

	if (start & ~PAGE_MASK || end & ~PAGE_MASK || start >= end ||
	    start < HANARE_USER_MIN || end > HANARE_USER_MAX)
		return -EINVAL;
	watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch)
		return -ENOMEM;
	watch->space = space;
	watch->start = start;
	watch->end = end;
	refcount_set(&watch->users, 1);
	down_write(&space->memory.watch_lock);
	err = mmu_interval_notifier_insert(&watch->notifier, space->mm, start, end - start,
					   &watch_ops);
	if (err)
		goto free;
	/* Cyclic: what ends a watch that has ended already must not end another one. */
	err = xa_alloc_cyclic(&space->memory.watches, &id, watch, XA_LIMIT(1, WATCHES_MAX),
			      &space->memory.next_watch, GFP_KERNEL);
	up_write(&space->memory.watch_lock);
	if (err >= 0)
		return id;
	mmu_interval_notifier_remove(&watch->notifier);
	kfree(watch);
	return -ENOSPC;
free:
	up_write(&space->memory.watch_lock);
	kfree(watch);
	return err;
}

static long watch_remove(struct hanare_job *job)
{
	struct hanare_space *space = job->space;
	struct watch *watch;

	down_write(&space->memory.watch_lock);
	watch = job->args[0] <= WATCHES_MAX ? xa_erase(&space->memory.watches, job->args[0]) : NULL;
	up_write(&space->memory.watch_lock);
	if (!watch)
		return -EINVAL;
	watch_put(watch);
	return 0;
}

void hanare_space_unwatch_all(struct hanare_space *space)
{
	struct watch *watch;
	unsigned long id;

	xa_for_each(&space->memory.watches, id, watch) {
		xa_erase(&space->memory.watches, id);
		watch_put(watch);
	}
}

/*
 * The pages' frames, which a watch follows, become extents; returns how many pages fitted. A frame
 * has its bits of an extent already: frames that differ in them are not of one extent.
 */
static long to_extents(struct hanare_job *job, const u64 *frames, long count)
{
	long i;

	job->count = 0;
	for (i = 0; i < count; i++) {
		u64 *last = job->count ? &job->extents[job->count - 1] : NULL;
		u64 frame = frames[i] | HANARE_EXTENT_WATCHED;

		if (last && extent_pages(*last) <= HANARE_EXTENT_PAGES_MASK &&
		    extent_base(*last) + (extent_pages(*last) << PAGE_SHIFT) == frame) {
			++*last;
			continue;
		}
		if (job->count == HANARE_EXTENTS_MAX)
			break;
		job->extents[job->count++] = frame;
	}
	return i;
}

/*
 * How CPUs access a page with this protection, as an extent says it. Three bits of the protection
 * choose one of the eight memory types of the PAT (SDM volume 3A, 12.12).
 */
static u64 cache_policy(pgprot_t prot)
{
	static const u8 policies[] = {
		HANARE_CACHE_UNCACHED, HANARE_CACHE_WRITE_COMBINING,
		HANARE_CACHE_UNCACHED, HANARE_CACHE_UNCACHED,	/* no types */
		HANARE_CACHE_WRITE_THROUGH, HANARE_CACHE_UNCACHED /* write-protected */,
		HANARE_CACHE_WRITE_BACK, HANARE_CACHE_UNCACHED_MINUS,
	};
	pgprotval_t bits = pgprot_val(prot);
	unsigned int index = (bits & _PAGE_PWT ? 1 : 0) | (bits & _PAGE_PCD ? 2 : 0) | (bits & _PAGE_PAT ? 4 : 0);

	return (u64)policies[hanare_pat() >> (8 * index) & 7] << HANARE_EXTENT_CACHE_SHIFT;
}

/*
 * A driver may fill its mapping only when it is touched, and lets a page be written only when it is
 * written for the second time (pfn_mkwrite).
 */
#define TOUCHES 3

/* The frame of a page of a device, as an extent of one page has it, or 0. Under mmap_lock. */
static u64 device_frame(struct vm_area_struct *vma, u64 addr, bool write)
{
	struct hanare_device_page page;
	int i;

	for (i = 0; i < TOUCHES; i++) {
		if (fixup_user_fault(vma->vm_mm, addr, write ? FAULT_FLAG_WRITE : 0, NULL) ||
		    hanare_follow_page(vma, addr, &page))
			return 0;
		if (!write || page.writable)
			return (u64)page.pfn << PAGE_SHIFT | HANARE_EXTENT_DEVICE | cache_policy(page.prot);
	}
	return 0;
}

/* Frames of a device from `addr` on. Returns how many, or -EFAULT if the first is not there. */
static long find_device_frames(u64 addr, long count, bool write, u64 *frames)
{
	struct mm_struct *mm = current->mm;
	long i;

	mmap_read_lock(mm);
	for (i = 0; i < count; i++, addr += PAGE_SIZE) {
		struct vm_area_struct *vma = vma_lookup(mm, addr);

		if (!vma || !(vma->vm_flags & (VM_PFNMAP | VM_IO)) || (write && !(vma->vm_flags & VM_WRITE)))
			break;
		frames[i] = device_frame(vma, addr, write);
		if (!frames[i])
			break;
	}
	mmap_read_unlock(mm);
	return i ?: -EFAULT;
}

/*
 * How CPUs access ordinary pages from `addr` on, which a driver may have mapped as it likes.
 * `count` becomes how many of them are of the same mapping.
 */
static u64 policy_at(u64 addr, long *count)
{
	struct vm_area_struct *vma;
	u64 policy = 0;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	if (vma) {
		policy = cache_policy(vma->vm_page_prot);
		*count = min_t(u64, *count, (vma->vm_end - addr) >> PAGE_SHIFT);
	} else {
		*count = 0;	/* gone: its watch has said so */
	}
	mmap_read_unlock(current->mm);
	return policy;
}

static long find_frames(u64 addr, long count, bool write, u64 *frames)
{
	struct page **pages = (struct page **)frames;	/* replaced one by one */
	/* As the CPU sees it, what may be written may be read. */
	long found = get_user_pages_fast(addr, count, write ? FOLL_WRITE : FOLL_FORCE, pages), known = found, i;
	u64 policy;

	/* Frames without a struct page, or not for pinning. */
	if (found == -EFAULT)
		return find_device_frames(addr, count, write, frames);
	if (found <= 0)
		return found;
	policy = policy_at(addr, &known);
	for (i = 0; i < found; i++) {
		struct page *page = pages[i];

		/* The LWK's writes leave no mark in Linux' page tables. */
		if (write)
			set_page_dirty_lock(page);
		frames[i] = hanare_linux_frame(page) | policy;
		put_page(page);
	}
	return known ?: -EAGAIN;
}

static struct watch *watch_over(struct hanare_space *space, u64 start, u64 end)
{
	struct watch *watch;
	unsigned long id;

	xa_for_each(&space->memory.watches, id, watch)
		if (watch->start <= start && end <= watch->end)
			return watch;
	return NULL;
}

static long resolve(struct hanare_job *job)
{
	struct hanare_space *space = job->space;
	u64 addr = job->args[0], count = job->args[1], *frames;
	unsigned long sequence;
	struct watch *watch;
	long ret;

	if (addr & ~PAGE_MASK || !count || addr < HANARE_USER_MIN || addr > HANARE_USER_MAX ||
	    count > (HANARE_USER_MAX - addr) >> PAGE_SHIFT)
		return -EINVAL;
	/* A frame that the LWK does not reach is of no use to it. */
	if (!hanare_has(space->inst, HANARE_TRANSPORT_LINUX_FRAMES))
		return -EOPNOTSUPP;
	count = min_t(u64, count, RESOLVE_PAGES_MAX);
	frames = kvmalloc_array(count, sizeof(*frames), GFP_KERNEL);
	if (!frames)
		return -ENOMEM;
	/*
	 * Not locked while the frames are found: a file may let that wait for ever, and other
	 * threads of the program map and unmap meanwhile. A watch that is ended tells what changes
	 * until it is put.
	 */
	down_read(&space->memory.watch_lock);
	watch = watch_over(space, addr, addr + (count << PAGE_SHIFT));
	if (watch)
		refcount_inc(&watch->users);
	up_read(&space->memory.watch_lock);
	if (!watch) {
		/* Nothing would take the frames back. */
		ret = -EINVAL;
		goto out;
	}
	/*
	 * An invalidation under way may have told the LWK already and not yet
	 * have changed the page table: wait for its end, and do not believe
	 * what was found while one began.
	 */
	sequence = mmu_interval_read_begin(&watch->notifier);
	ret = find_frames(addr, count, job->args[2], frames);
	if (ret > 0 && mmu_interval_read_retry(&watch->notifier, sequence))
		ret = -EAGAIN;
	if (ret > 0)
		ret = to_extents(job, frames, ret);
	else if (!ret)
		ret = -EFAULT;
	watch_put(watch);
out:
	kvfree(frames);
	return ret;
}

static long make_pinnable(struct hanare_job *job)
{
	long err = hanare_pinnable(job);

	/* Answers to what was asked for before are void, and what came of them in between goes. */
	if (!err)
		hanare_zap(job->space, job->args[0], job->args[1]);
	return err;
}

/* ---- devices ---- */

static long renew_queue(const struct hanare_job *job)
{
	struct hanare_granted *device = hanare_device_numbered(job->inst, job->args[0]);

	return device ? hanare_controller_renew(device, job->args[1], job->args[2]) : -EINVAL;
}

/* ---- running one ---- */

static long run(struct hanare_job *job, enum hanare_context context)
{
	bool worker = context == CONTEXT_WORKER;

	switch (job->kind) {
	case HANARE_SERVICE_ZAP:
		return zap(job);
	case HANARE_SERVICE_HELD:
		return held(job);
	case HANARE_SERVICE_FILE_PUT:
		return job->space ? hanare_file_put(job) : -ENOENT;
	case HANARE_SERVICE_KILL:
		if (!job->space)
			return -ENOENT;
		hanare_say_killed(job->space, job->args[0], job->args[1], job->args[2]);
		hanare_space_kill(job->space);
		return 0;
	case HANARE_SERVICE_INTERRUPT:
		return job->space ? hanare_space_interrupt(job->space, job->args[0]) : -ENOENT;
	case HANARE_SERVICE_FILE_NAME:
		return worker ? hanare_file_name(job) : -EPERM;
	case HANARE_SERVICE_FILE_SIZE:
		return worker ? hanare_file_size(job) : -EPERM;
	case HANARE_SERVICE_FILL:
		return job->space ? hanare_fill(job) : -ENOENT;
	/* These are about the caller: its descriptors, memory map and rights. */
	case HANARE_SERVICE_FILE_GET:
		return worker ? hanare_file_get(job) : -EPERM;
	case HANARE_SERVICE_CLAIM:
		return worker ? hanare_file_claim(job) : -EPERM;
	case HANARE_SERVICE_QUEUE:
		return renew_queue(job);
	case HANARE_SERVICE_PROGRAM_GET:
		return worker ? hanare_program_get(job) : -EPERM;
	case HANARE_SERVICE_BINFMT:
		return worker ? hanare_binfmt(job) : -EPERM;
	case HANARE_SERVICE_EXEC_FILE:
		return worker ? hanare_exec_file(job) : -EPERM;
	case HANARE_SERVICE_CACHED:
		return worker ? hanare_file_cached(job) : -EPERM;
	case HANARE_SERVICE_RESOLVE:
		return worker ? resolve(job) : -EPERM;
	case HANARE_SERVICE_WATCH:
		return worker ? watch_add(job) : -EPERM;
	case HANARE_SERVICE_UNWATCH:
		return worker ? watch_remove(job) : -EPERM;
	case HANARE_SERVICE_MAY:
		return worker ? hanare_may(job) : -EPERM;
	case HANARE_SERVICE_LIMITS:
		return worker ? hanare_limits(job) : -EPERM;
	case HANARE_SERVICE_LISTENER:
		return worker ? hanare_listener(job) : -EPERM;
	case HANARE_SERVICE_NOTIFY:
		return worker ? hanare_notify(job) : -EPERM;
	case HANARE_SERVICE_CHILD:
		return worker ? hanare_child(job) : -EPERM;
	case HANARE_SERVICE_PINNABLE:
		return worker ? make_pinnable(job) : -EPERM;
	case HANARE_SERVICE_CONTINUED:
		return worker ? hanare_continued(job) : -EPERM;
	default:
		return -EINVAL;
	}
}

/* The first word of an entry, of which its state and its space are the halves. */
static u64 *word_of(struct hanare_service *entry)
{
	BUILD_BUG_ON(offsetof(struct hanare_service, state) ||
		     offsetof(struct hanare_service, space) != sizeof(u32));
	return (u64 *)entry;
}

static bool claim(struct hanare_service *entry, u32 owner, enum hanare_context context)
{
	static const u32 ready[] = {
		[CONTEXT_WORKER] = HANARE_SERVICE_READY,
		[CONTEXT_FAULT] = HANARE_SERVICE_READY_FAULT,
		[CONTEXT_THREAD] = HANARE_SERVICE_READY_THREAD,
	};

	return hanare_service_claim(word_of(entry), owner, ready[context]);
}

/*
 * Until no task runs the entry for this space, or for so long: it may have become another space's,
 * whose service is none of ours. 0: ask the LWK what came of it; -EBUSY: it is still run; -EINTR:
 * killed.
 */
int hanare_serve_wait(struct hanare_space *space, u32 index, unsigned int timeout_ms)
{
	struct hanare_instance *inst = space->inst;
	const u64 *word = word_of(&inst->link.services[index]);
	u64 running = hanare_service_word(space->id, HANARE_SERVICE_RUNNING);
	long ret = wait_event_killable_timeout(inst->link.served_wait,
		hanare_load(word) != running || READ_ONCE(inst->dead),
		msecs_to_jiffies(timeout_ms));

	return ret < 0 ? -EINTR : ret ? 0 : -EBUSY;
}

/*
 * 0 when the service was run, whatever came of it. -EINVAL: none, another space's, or not
 * ready for this context.
 */
int hanare_serve(struct hanare_instance *inst, struct hanare_space *space, u32 index,
		 enum hanare_context context)
{
	struct hanare_service *entry;
	struct hanare_job job = { .inst = inst, .space = space };
	u32 owner, cpu, i;
	long status;

	if (index >= inst->link.service_count)
		return -EINVAL;
	entry = &inst->link.services[index];
	owner = space ? space->id : READ_ONCE(entry->space);
	if (!claim(entry, owner, context))
		return -EINVAL;
	job.kind = READ_ONCE(entry->kind);
	job.count = READ_ONCE(entry->count);
	memcpy(job.args, entry->args, sizeof(job.args));
	status = -EINVAL;
	if (job.count > HANARE_EXTENTS_MAX) {
		job.count = 0;
		goto done;
	}
	memcpy(job.extents, entry->extents, job.count * sizeof(u64));
	if (context == CONTEXT_THREAD && owner) {
		job.space = hanare_space_find(owner);
		if (job.space && job.space->inst != inst) {
			hanare_space_put(job.space);
			job.space = NULL;
		}
	}
	status = run(&job, context);
	if (context == CONTEXT_THREAD && job.space)
		hanare_space_put(job.space);
done:
	memcpy(entry->args, job.args, sizeof(job.args));
	if (job.kind == HANARE_SERVICE_RESOLVE || job.kind == HANARE_SERVICE_CACHED ||
	    job.kind == HANARE_SERVICE_LIMITS || job.kind == HANARE_SERVICE_CLAIM)
		for (i = 0; i < job.count; i++)
			entry->extents[i] = job.extents[i];
	entry->count = job.count;
	entry->held = job.held;
	entry->status = status;
	hanare_service_finish(word_of(entry), owner);
	/* The entry may be another service's by now. A ring too many does no harm. */
	if (hanare_must_ring(&entry->lwk_wait)) {
		cpu = READ_ONCE(entry->cpu);
		if (cpu < inst->cpu_count && !READ_ONCE(inst->dead))
			hanare_ring_cpu(&inst->cpus[cpu]);
	}
	if (waitqueue_active(&inst->link.served_wait))
		wake_up_all(&inst->link.served_wait);
	return 0;
}

void hanare_serve_alone(struct hanare_instance *inst, u32 index)
{
	hanare_serve(inst, NULL, index, CONTEXT_THREAD);
}
