// SPDX-License-Identifier: GPL-2.0
/* Services: what the LWK asks of Linux on its own account (abi/src/service.rs). */
#include "hanare.h"

#include <linux/file.h>
#include <linux/io.h>
#include <linux/mmu_notifier.h>
#include <linux/mount.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/stat.h>

#define RESOLVE_PAGES_MAX 4096
#define FILES_MAX 65536
#define WATCHES_MAX 65536
/* An LWK that has not let go of Linux' pages after this long is stopped. */
#define INVALIDATE_MS 10000

/* A private copy of an entry: the LWK cannot change it under our eyes. */
struct job {
	struct hanare_instance *inst;
	struct hanare_space *space;		/* NULL: gone, or none */
	u32 kind;
	u32 count;
	u64 args[5];
	u64 held;
	u64 extents[HANARE_EXTENTS_MAX];
};

struct watch {
	struct mmu_interval_notifier notifier;
	struct hanare_space *space;
	u64 start, end;
};

static u64 extent_base(u64 extent)
{
	return extent & ~HANARE_EXTENT_PAGES_MASK;
}

static u64 extent_pages(u64 extent)
{
	return (extent & HANARE_EXTENT_PAGES_MASK) + 1;
}

static bool extents_ok(const struct job *job)
{
	u32 i;

	for (i = 0; i < job->count; i++)
		if (!hanare_owns_frames(job->inst, extent_base(job->extents[i]),
					extent_pages(job->extents[i])))
			return false;
	return true;
}

/* ---- files ---- */

/* A program that runs: nobody may write to it meanwhile. */
#define RUNS XA_MARK_1

/* The mount or the file system forbids execution. */
static bool is_noexec(struct file *file)
{
	return file->f_path.mnt->mnt_flags & MNT_NOEXEC ||
	       file_inode(file)->i_sb->s_iflags & SB_I_NOEXEC;
}

/*
 * A program as execve(2) opens it: who watches or restricts executions (fanotify,
 * Landlock) sees it. What cannot be executed anyway stays as it is.
 */
static struct file *opened_to_run(struct file *file)
{
	struct file *program;

	if (!S_ISREG(file_inode(file)->i_mode) || is_noexec(file) ||
	    file_permission(file, MAY_EXEC))
		return file;
	program = dentry_open(&file->f_path, O_RDONLY | O_LARGEFILE | __FMODE_EXEC,
			      current_cred());
	fput(file);
	if (!IS_ERR(program))
		hanare_tell_opened(program);
	return program;
}

static long file_get(struct job *job)
{
	struct kstat stat;
	struct file *file;
	bool denied = false;
	u32 id;
	int err;

	if (job->args[0] > INT_MAX)
		return -EBADF;
	file = fget(job->args[0]);
	if (!file)
		return -EBADF;
	err = -EIO;
	/* What mmap(2) says of files of procfs; to execve(2) they are like others. */
	if (!job->args[1] && hanare_shows_procfs(file))
		goto put;
	err = -ENODEV;
	/* Our own device would keep its space, and so itself, alive for ever. */
	if (!hanare_can_mmap(file) || file->f_op == &hanare_fops)
		goto put;
	err = -EACCES;
	if (!(file->f_mode & FMODE_READ))
		goto put;
	if (job->args[1]) {
		file = opened_to_run(file);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	err = vfs_getattr(&file->f_path, &stat, STATX_INO | STATX_SIZE | STATX_TYPE,
			  AT_STATX_SYNC_AS_STAT);
	if (err)
		goto put;
	if (job->args[1] && S_ISREG(stat.mode)) {
		err = deny_write_access(file);
		if (err)
			goto put;
		denied = true;
	}
	mutex_lock(&job->space->table_lock);
	err = xa_alloc(&job->space->files, &id, file, XA_LIMIT(1, FILES_MAX), GFP_KERNEL);
	if (!err && denied)
		xa_set_mark(&job->space->files, id, RUNS);
	mutex_unlock(&job->space->table_lock);
	if (err) {
		if (denied)
			allow_write_access(file);
		err = -ENFILE;
		goto put;
	}
	job->args[1] = stat.ino;
	job->args[2] = stat.size;
	job->args[3] = 0;
	if (file->f_mode & FMODE_WRITE)
		job->args[3] |= HANARE_FILE_WRITABLE;
	if (S_ISREG(stat.mode))
		job->args[3] |= HANARE_FILE_REGULAR;
	if (is_noexec(file))
		job->args[3] |= HANARE_FILE_NOEXEC;
	job->args[4] = new_encode_dev(stat.dev);
	return id;
put:
	fput(file);
	return err;
}

static long file_put(struct job *job)
{
	struct file *file = NULL;
	bool denied = false;

	mutex_lock(&job->space->table_lock);
	if (job->args[0] <= FILES_MAX) {
		denied = xa_get_mark(&job->space->files, job->args[0], RUNS);
		file = xa_erase(&job->space->files, job->args[0]);
	}
	mutex_unlock(&job->space->table_lock);
	if (!file)
		return -EBADF;
	if (denied)
		allow_write_access(file);
	fput(file);
	return 0;
}

static long fill(struct job *job)
{
	loff_t position = job->args[1];
	u64 wanted = job->args[2], total = 0;
	struct file *file;
	long ret = 0;
	u32 i;

	if (position < 0 || !extents_ok(job))
		return -EINVAL;
	mutex_lock(&job->space->table_lock);
	file = job->args[0] <= FILES_MAX ? xa_load(&job->space->files, job->args[0]) : NULL;
	if (file)
		get_file(file);
	mutex_unlock(&job->space->table_lock);
	if (!file)
		return -EBADF;
	for (i = 0; i < job->count && total < wanted; i++) {
		char *to = page_address(pfn_to_page(extent_base(job->extents[i]) >> PAGE_SHIFT));
		u64 room = min(extent_pages(job->extents[i]) << PAGE_SHIFT, wanted - total);

		while (room) {
			ret = kernel_read(file, to, room, &position);
			if (ret <= 0)
				goto out;
			to += ret;
			room -= ret;
			total += ret;
		}
	}
out:
	fput(file);
	return total ?: ret;
}

/* For the child of a fork: what its parent maps, by the same ids. */
int hanare_space_copy_files(struct hanare_space *to, struct hanare_space *from)
{
	struct file *file;
	unsigned long id;
	int err = 0;

	mutex_lock(&from->table_lock);
	xa_for_each(&from->files, id, file) {
		err = xa_err(xa_store(&to->files, id, get_file(file), GFP_KERNEL_ACCOUNT));
		if (err) {
			fput(file);
			break;
		}
		/* It cannot fail: the parent's is there. */
		if (xa_get_mark(&from->files, id, RUNS) && !deny_write_access(file))
			xa_set_mark(&to->files, id, RUNS);
	}
	mutex_unlock(&from->table_lock);
	return err;
}

/* The program runs no more: its file may be written again. */
void hanare_space_allow_writes(struct hanare_space *space)
{
	struct file *file;
	unsigned long id;

	mutex_lock(&space->table_lock);
	xa_for_each_marked(&space->files, id, file, RUNS) {
		xa_clear_mark(&space->files, id, RUNS);
		allow_write_access(file);
	}
	mutex_unlock(&space->table_lock);
}

void hanare_space_put_files(struct hanare_space *space)
{
	struct file *file;
	unsigned long id;

	hanare_space_allow_writes(space);
	xa_for_each(&space->files, id, file)
		fput(file);
	xa_destroy(&space->files);
	xa_destroy(&space->watches);
}

/* ---- taking back from the proxy ---- */

void hanare_zap(struct hanare_space *space, u64 start, u64 end)
{
	/* A fault that asked before this looks at the sequence and asks again. */
	down_write(&space->zap_lock);
	WRITE_ONCE(space->zap_sequence, space->zap_sequence + 1);
	up_write(&space->zap_lock);
	unmap_mapping_range(space->inode->i_mapping, (u64)space->id << HANARE_SPACE_SHIFT | start,
			    end - start, 1);
}

static long held(struct job *job)
{
	u32 i;

	if (!extents_ok(job))
		return -EINVAL;
	job->held = 0;
	for (i = 0; i < job->count; i++) {
		u64 pfn = extent_base(job->extents[i]) >> PAGE_SHIFT;
		u64 pages = extent_pages(job->extents[i]);

		for (; pages; pages--, pfn++)
			if (page_count(pfn_to_page(pfn)) > 1) {
				job->held |= 1ULL << i;
				break;
			}
	}
	return 0;
}

static long zap(struct job *job)
{
	u64 start = job->args[0], end = job->args[1];

	if (start & ~PAGE_MASK || end & ~PAGE_MASK || start >= end || end > HANARE_CONTROL_END)
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

	if (!mmu_notifier_range_blockable(range))
		return false;
	/* SERVICE_RESOLVE sees that its pages may be old. */
	mmu_interval_set_seq(notifier, sequence);
	if (hanare_request(inst, space->home, &call, WAIT_BOUNDED, INVALIDATE_MS) == -ETIMEDOUT) {
		/*
		 * Linux is about to use these pages for something else, and
		 * the LWK may still write to them. That must not happen.
		 */
		pr_err("%s: the LWK does not give back pages of a file: stopped\n", inst->name);
		hanare_die(inst, HANARE_INSTANCE_HUNG, -EIO);
		hanare_halt_cpus(inst);
	}
	return true;
}

static const struct mmu_interval_notifier_ops watch_ops = { .invalidate = watch_invalidate };

static long watch_add(struct job *job)
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
	down_write(&space->watch_lock);
	err = mmu_interval_notifier_insert(&watch->notifier, space->mm, start, end - start,
					   &watch_ops);
	if (err)
		goto free;
	err = xa_alloc(&space->watches, &id, watch, XA_LIMIT(1, WATCHES_MAX), GFP_KERNEL);
	up_write(&space->watch_lock);
	if (!err)
		return id;
	mmu_interval_notifier_remove(&watch->notifier);
	kfree(watch);
	return -ENOSPC;
free:
	up_write(&space->watch_lock);
	kfree(watch);
	return err;
}

static long watch_remove(struct job *job)
{
	struct hanare_space *space = job->space;
	struct watch *watch;

	down_write(&space->watch_lock);
	watch = job->args[0] <= WATCHES_MAX ? xa_erase(&space->watches, job->args[0]) : NULL;
	up_write(&space->watch_lock);
	if (!watch)
		return -EINVAL;
	mmu_interval_notifier_remove(&watch->notifier);
	kfree(watch);
	return 0;
}

void hanare_space_unwatch_all(struct hanare_space *space)
{
	struct watch *watch;
	unsigned long id;

	xa_for_each(&space->watches, id, watch) {
		xa_erase(&space->watches, id);
		mmu_interval_notifier_remove(&watch->notifier);
		kfree(watch);
	}
}

/* The pages' frames become extents; returns how many pages fitted. */
static long to_extents(struct job *job, const u64 *frames, long count)
{
	long i;

	job->count = 0;
	for (i = 0; i < count; i++) {
		u64 *last = job->count ? &job->extents[job->count - 1] : NULL;

		if (last && extent_pages(*last) <= HANARE_EXTENT_PAGES_MASK &&
		    extent_base(*last) + (extent_pages(*last) << PAGE_SHIFT) == frames[i]) {
			++*last;
			continue;
		}
		if (job->count == HANARE_EXTENTS_MAX)
			break;
		job->extents[job->count++] = frames[i];
	}
	return i;
}

static long find_frames(u64 addr, long count, bool write, u64 *frames)
{
	struct page **pages = (struct page **)frames;	/* replaced one by one */
	/* As the CPU sees it, what may be written may be read. */
	long found = get_user_pages_fast(addr, count, write ? FOLL_WRITE : FOLL_FORCE, pages), i;

	if (found == -EFAULT)
		/* Frames without a struct page, or not for pinning: a device. */
		return hanare_follow_frames(current->mm, addr, count, write, frames);
	for (i = 0; i < found; i++) {
		struct page *page = pages[i];

		/* The LWK's writes leave no mark in Linux' page tables. */
		if (write)
			set_page_dirty_lock(page);
		frames[i] = page_to_phys(page);
		put_page(page);
	}
	return found;
}

static struct watch *watch_over(struct hanare_space *space, u64 start, u64 end)
{
	struct watch *watch;
	unsigned long id;

	xa_for_each(&space->watches, id, watch)
		if (watch->start <= start && end <= watch->end)
			return watch;
	return NULL;
}

static long resolve(struct job *job)
{
	struct hanare_space *space = job->space;
	u64 addr = job->args[0], count = job->args[1], *frames;
	unsigned long sequence;
	struct watch *watch;
	long ret;

	if (addr & ~PAGE_MASK || !count || addr < HANARE_USER_MIN || addr > HANARE_USER_MAX ||
	    count > (HANARE_USER_MAX - addr) >> PAGE_SHIFT)
		return -EINVAL;
	count = min_t(u64, count, RESOLVE_PAGES_MAX);
	frames = kvmalloc_array(count, sizeof(*frames), GFP_KERNEL);
	if (!frames)
		return -ENOMEM;
	down_read(&space->watch_lock);
	watch = watch_over(space, addr, addr + (count << PAGE_SHIFT));
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
out:
	up_read(&space->watch_lock);
	kvfree(frames);
	return ret;
}

/* ---- running one ---- */

static long run(struct job *job, enum hanare_context context)
{
	bool worker = context == CONTEXT_WORKER;

	switch (job->kind) {
	case HANARE_SERVICE_ZAP:
		return zap(job);
	case HANARE_SERVICE_HELD:
		return held(job);
	case HANARE_SERVICE_FILE_PUT:
		return job->space ? file_put(job) : -ENOENT;
	case HANARE_SERVICE_KILL:
		if (job->space)
			hanare_space_kill(job->space);
		return job->space ? 0 : -ENOENT;
	case HANARE_SERVICE_FILL:
		return job->space ? fill(job) : -ENOENT;
	/* These are about the caller's descriptors and memory map. */
	case HANARE_SERVICE_FILE_GET:
		return worker ? file_get(job) : -EPERM;
	case HANARE_SERVICE_RESOLVE:
		return worker ? resolve(job) : -EPERM;
	case HANARE_SERVICE_WATCH:
		return worker ? watch_add(job) : -EPERM;
	case HANARE_SERVICE_UNWATCH:
		return worker ? watch_remove(job) : -EPERM;
	default:
		return -EINVAL;
	}
}

/*
 * 0 when the service was run, whatever came of it. -EPERM: another space's;
 * -EINVAL: none, or not ready.
 */
int hanare_serve(struct hanare_instance *inst, struct hanare_space *space, u32 index,
		 enum hanare_context context)
{
	struct hanare_service *entry;
	struct job job = { .inst = inst, .space = space };
	u32 owner, cpu, i;
	long status;

	if (index >= inst->service_count)
		return -EINVAL;
	entry = &inst->services[index];
	owner = READ_ONCE(entry->space);
	if (space && owner != space->id)
		return -EPERM;
	/* Two executors never run one entry. */
	if (cmpxchg(&entry->state, HANARE_SERVICE_READY, HANARE_SERVICE_RUNNING) !=
	    HANARE_SERVICE_READY)
		return -EINVAL;
	job.kind = READ_ONCE(entry->kind);
	job.count = READ_ONCE(entry->count);
	cpu = READ_ONCE(entry->cpu);
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
	if (job.kind == HANARE_SERVICE_RESOLVE)
		for (i = 0; i < job.count; i++)
			entry->extents[i] = job.extents[i];
	entry->count = job.count;
	entry->held = job.held;
	entry->status = status;
	smp_store_release(&entry->state, HANARE_SERVICE_DONE);
	smp_mb();
	if (READ_ONCE(entry->ring) && cpu < inst->cpu_count && !READ_ONCE(inst->dead))
		hanare_ring_cpu(&inst->cpus[cpu]);
	return 0;
}
