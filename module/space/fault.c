// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults of proxies on LWK memory. See "Fault against zap" and
 * "Protection" in docs/architecture.md.
 */
#include "space/space.h"

#include <linux/sched/signal.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/slab.h>

/* A wait with mmap_lock held keeps every sibling from mapping: keep it short. */
#define UNLOCKED_MS 60000
/* Of a task that ends, which no signal wakes: Linux walks its robust futexes. */
#define EXITING_MS 1000
/*
 * For what the LWK has nothing of yet, before the fault begins anew: its mapping may be another, or
 * a signal, which does not end a fault of the kernel's own, be served first.
 */
#define AGAIN_MS 1000
#define AGAIN_SIGNAL_MS 20
#define LOCKED_MS 10000
/* Of that, where somebody waits for the lock, perhaps who is to end the wait. */
#define CONTENDED_MS 1000
/* For what another fault runs, where the lock can be given up instead. */
#define BUSY_LOCKED_MS 100
/* Services a single fault may ask for, and zaps it may lose against. */
#define ROUNDS_MAX 64
/* Before a fault that the LWK has nothing for yet asks again: at first, and at most. */
#define PAUSE_MIN_US 500
#define PAUSE_MAX_US 16000

/* ---- asking ---- */

static struct hanare_answer *answer_new(void)
{
	struct hanare_answer *answer = kmalloc(sizeof(*answer), GFP_KERNEL);

	if (answer) {
		answer->pause_us = 0;
		answer->or_copy = false;
	}
	return answer;
}

/*
 * What is short may be had later. Hundreds of tasks that want it would keep the CPU of the LWK
 * busy with nothing but that question, so each of them asks less and less often.
 */
static void pause_for_more(struct hanare_answer *answer)
{
	answer->pause_us = clamp_t(u32, 2 * answer->pause_us, PAUSE_MIN_US, PAUSE_MAX_US);
	usleep_range(answer->pause_us, 2 * answer->pause_us);
}

/*
 * The answer's status is -EBUSY if another fault has been running its service for `busy_ms`.
 *
 * In a `pinnable` mapping Linux does not tell us of a write to a page that it has for reading, and
 * would let it happen. So it gets each page for writing. One that the program may not write it gets
 * as a copy: what it writes there is lost.
 */
static void ask(struct hanare_space *space, struct hanare_answer *answer, u64 addr, bool write, bool pinnable,
		unsigned int timeout_ms, unsigned int busy_ms)
{
	u64 how = write ? HANARE_FAULT_WRITE : pinnable ? HANARE_FAULT_WRITE | HANARE_FAULT_OR_COPY : 0;
	u32 most = how & HANARE_FAULT_OR_COPY ? 1 : HANARE_PAGES_MAX;
	/* Others reach its memory by access_process_vm: they have no worker there. */
	u64 tid = current->mm == space->mm ? task_pid_vnr(current) : 0;
	u64 served = 0;
	int round;

	answer->task = current;
	answer->addr = addr;
	answer->write = write;
	answer->or_copy = how & HANARE_FAULT_OR_COPY;
	for (round = 0; round < ROUNDS_MAX; round++) {
		struct hanare_call call = {
			.kind = HANARE_REQUEST_FAULT,
			.args = { addr, how, tid << 32 | most, served },
			.pages = answer->pages,
		};
		u64 index;

		answer->sequence = READ_ONCE(space->memory.zap_sequence);
		/* Sampled before the LWK looks. */
		smp_mb();
		answer->status = hanare_request_quietly(space, &call, WAIT_KILLABLE, timeout_ms);
		if (answer->status)
			return;
		answer->status = call.status;
		answer->start = call.args[0];
		answer->count = call.count;
		if (call.status != HANARE_STATUS_SERVE_FIRST) {
			if (call.status == -EAGAIN)
				pause_for_more(answer);
			return;
		}
		index = call.args[3];
		if (index >= space->inst->link.service_count) {
			answer->status = -EIO;
			return;
		}
		/* A service's own error is in its entry; the LWK judges it. */
		served = hanare_serve(space->inst, space, index, CONTEXT_FAULT) ? 0 : index + 1;
		/* Not ready any more: another fault runs the same one, whose pages are ours. */
		answer->status = served ? 0 : hanare_serve_wait(space, index, busy_ms);
		if (fatal_signal_pending(current))
			answer->status = -EINTR;
		if (answer->status)
			return;
	}
	answer->status = -EIO;
}

static const struct vm_operations_struct pinnable_ops;

static bool is_pinnable(const struct vm_area_struct *vma)
{
	return vma->vm_ops == &pinnable_ops;
}

/* ---- inserting ---- */

static void zap_page(struct hanare_space *space, u64 addr)
{
	unmap_mapping_range(space->memory.inode->i_mapping, (u64)space->id << HANARE_SPACE_SHIFT | addr,
			    PAGE_SIZE, 1);
}

#define PAGE_RIGHTS (HANARE_PAGE_WRITABLE | HANARE_PAGE_EXECUTABLE)

/*
 * Insert a run with one protection: `rights`, as in an answer. Pages that are there already are
 * left alone, but for `replace`: that one is the reason of the fault.
 */
static int insert_run(struct hanare_space *space, struct vm_area_struct *vma, u64 addr,
		      struct page **pages, unsigned long count, u64 rights, u64 replace)
{
	bool executable = rights & HANARE_PAGE_EXECUTABLE && vma->vm_flags & VM_EXEC;
	bool writable = rights & HANARE_PAGE_WRITABLE;
	struct vm_area_struct copy;
	int replaced = 0;

	if (writable || executable) {
		/*
		 * With page_mkwrite the VMA's own protection is read-only, so
		 * that a write to such a page asks us. These pages need not
		 * ask: same VMA, but for the protection. Only that is taken
		 * from the copy; nothing keeps a pointer to it.
		 */
		memcpy(&copy, vma, sizeof(copy));
		copy.vm_page_prot = vm_get_page_prot(VM_READ | VM_SHARED |
						     (writable ? VM_WRITE : 0) |
						     (executable ? VM_EXEC : 0));
		vma = &copy;
	}
	while (count) {
		unsigned long left = count, done;
		int err = vm_insert_pages(vma, addr, pages, &left);

		if (!err)
			return 0;
		if (err != -EBUSY || !left)
			return err;
		done = count - left;
		addr += done << PAGE_SHIFT;
		pages += done;
		count -= done;
		/* Another thread may put it there again, but not for ever. */
		if (addr == replace && replaced++ < 3) {
			zap_page(space, addr);
			continue;
		}
		addr += PAGE_SIZE;
		pages++;
		count--;
	}
	return 0;
}

/*
 * The pages of the control window that every proxy touches at once. What cannot be
 * inserted is asked for when it is touched.
 */
static void insert_control(struct hanare_space *space, struct vm_area_struct *vma)
{
	static const u64 addresses[] = { HANARE_SLOT_BASE, HANARE_SCRATCH_END - PAGE_SIZE };
	size_t i;

	BUILD_BUG_ON(ARRAY_SIZE(addresses) != ARRAY_SIZE(space->memory.control));
	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		u64 addr = addresses[i], frame = space->memory.control[i];
		const struct hanare_chunk *chunk;
		struct page *page;

		if (!frame || addr < vma->vm_start || addr >= vma->vm_end)
			continue;
		chunk = hanare_own_chunk(space->inst, frame, 1);
		if (!chunk)
			continue;
		page = hanare_page(chunk, frame);
		insert_run(space, vma, addr, &page, 1, HANARE_PAGE_WRITABLE, ~0ULL);
	}
}

static vm_fault_t error_fault(int status)
{
	switch (status) {
	case -EFAULT:
	case -EACCES:
		return VM_FAULT_SIGSEGV;
	case -EAGAIN:
	case -EINTR:
		/* Nothing inserted: it faults again, or the signal is served first. */
		return VM_FAULT_NOPAGE;
	default:
		/* Not VM_FAULT_OOM: that is retried forever. */
		return VM_FAULT_SIGBUS;
	}
}

/*
 * A frame of the instance, or its clock page, which is what every program of the LWK reads.
 * NULL: it may not be mapped.
 */
static struct page *page_of(struct hanare_instance *inst, u64 entry)
{
	u64 frame = entry & PAGE_MASK;
	const struct hanare_chunk *chunk = hanare_own_chunk(inst, frame, 1);

	if (!chunk && !(entry & HANARE_PAGE_WRITABLE) && inst->link.clock && frame == inst->link.clock_phys)
		chunk = hanare_chunk_at(inst, frame, 1);
	return chunk ? hanare_page(chunk, frame) : NULL;
}

/* A copy of a page, which Linux may do with as it likes, in `page`. -EIO: its memory is broken. */
static int insert_copy(struct hanare_space *space, struct vm_area_struct *vma, u64 addr, struct page *original, u64 rights,
		       struct page *page)
{
	if (!page)
		return -ENOMEM;
	if (copy_mc_to_kernel(page_address(page), page_address(original), PAGE_SIZE))
		return -EIO;
	return insert_run(space, vma, addr, &page, 1, rights, ~0ULL);
}

/* Put an answer into the page table. -EAGAIN: a zap came in between, ask again. */
static int insert_answer(struct hanare_space *space, struct vm_area_struct *vma,
			 struct hanare_answer *answer, bool write, vm_fault_t *ret)
{
	struct page *pages[HANARE_PAGES_MAX], *copy;
	u64 asked = answer->addr, run = 0;
	bool covered = false, dropped = false;
	u32 i, count = 0;
	int err = 0;

	if (answer->status) {
		*ret = error_fault(answer->status);
		return 0;
	}
	*ret = VM_FAULT_SIGBUS;
	if (answer->start & ~PAGE_MASK || answer->start > asked ||
	    asked - answer->start >= (u64)answer->count << PAGE_SHIFT)
		return 0;

	copy = answer->or_copy ? alloc_page(GFP_KERNEL_ACCOUNT) : NULL;
	down_read(&space->memory.zap_lock);
	if (answer->sequence != space->memory.zap_sequence) {
		up_read(&space->memory.zap_lock);
		if (copy)
			put_page(copy);
		return -EAGAIN;
	}
	for (i = 0; i <= answer->count && !err; i++) {
		u64 addr = answer->start + ((u64)i << PAGE_SHIFT);
		u64 entry = i < answer->count ? answer->pages[i] : 0;
		u64 rights = entry & PAGE_RIGHTS;
		bool copies = is_pinnable(vma) && !(rights & HANARE_PAGE_WRITABLE);
		struct page *page = NULL;

		if (entry && (addr < vma->vm_start || addr >= vma->vm_end))
			entry = 0;
		/* It was asked for before the mapping was pinnable, or comes along with another. */
		if (entry && copies && !answer->or_copy) {
			dropped |= addr == asked;
			entry = 0;
		}
		if (entry)
			page = page_of(space->inst, entry);
		if (entry && !page) {
			pr_warn_ratelimited("%s: the LWK named a frame that is not its own: %#llx\n",
					    space->inst->name, entry);
			entry = 0;
		}
		/* A run ends at a hole or where the protection changes. */
		if (count && (!entry || rights != (run & PAGE_RIGHTS))) {
			err = insert_run(space, vma, run & PAGE_MASK, pages, count, run & PAGE_RIGHTS,
					 write && run & HANARE_PAGE_WRITABLE ? asked : ~0ULL);
			count = 0;
		}
		if (!entry)
			continue;
		if (copies) {
			err = insert_copy(space, vma, addr, page, rights, addr == asked ? copy : NULL);
			covered |= addr == asked;
			continue;
		}
		if (addr == asked)
			covered = !write || rights & HANARE_PAGE_WRITABLE;
		if (entry & HANARE_PAGE_REPLACED)
			zap_page(space, addr);
		if (!count)
			run = addr | rights;
		pages[count++] = page;
	}
	up_read(&space->memory.zap_lock);
	if (copy)
		put_page(copy);		/* the mapping has a reference of its own */
	if (dropped)
		return -EAGAIN;
	if (!err)
		*ret = covered ? VM_FAULT_NOPAGE : write ? VM_FAULT_SIGSEGV : VM_FAULT_SIGBUS;
	return 0;
}

/* Without mmap_lock; the answer is for the next pass. */
static vm_fault_t ask_unlocked(struct vm_area_struct *vma, struct hanare_answer *answer, u64 addr,
			       bool write)
{
	struct hanare_space *space = vma->vm_private_data;
	bool exiting = current->flags & PF_EXITING, pinnable = is_pinnable(vma);
	unsigned int timeout_ms = exiting ? EXITING_MS : UNLOCKED_MS;
	unsigned long begun = jiffies;
	unsigned int again_ms;
	struct file *file;

	/*
	 * From here on the VMA may go away, and its descriptor. The space must not end by that
	 * (hanare_release): the LWK would take back the frames that a service is filling for us.
	 */
	kref_get(&space->ref);
	file = get_file(vma->vm_file);
	mmap_read_unlock(vma->vm_mm);
	/*
	 * A worker that ends looks at its robust futexes. Their page may be one that the LWK is
	 * taking away, for which the LWK waits for just this worker, which serves nothing any more:
	 * the LWK learns that from the end of the memory map. So the worker goes on without the
	 * page after a while.
	 */
	do {
		ask(space, answer, addr, write, pinnable, timeout_ms, timeout_ms);
		again_ms = exiting || !signal_pending(current) ? AGAIN_MS : AGAIN_SIGNAL_MS;
	} while (answer->status == -EAGAIN && time_before(jiffies, begun + msecs_to_jiffies(again_ms)));
	if (exiting && answer->status == -EAGAIN)
		answer->status = -EIO;
	/* A task that does not end, and can be killed, waits on for a file that is slow. */
	if (answer->status == -EINTR || answer->status == -EAGAIN ||
	    (answer->status == -EBUSY && !exiting))
		kfree(answer);
	else
		hanare_answer_store(space, answer);
	fput(file);
	hanare_space_put(space);
	return VM_FAULT_RETRY;
}

/*
 * The LWK has not answered in time: a CPU that stands still may go on. A task that lets go of
 * mmap_lock, and can be killed, waits on; one that ends does not.
 */
static bool waits_on(const struct hanare_answer *answer, const struct vm_fault *vmf)
{
	return (answer->status == -ETIMEDOUT || answer->status == -EBUSY) &&
	       vmf->flags & FAULT_FLAG_ALLOW_RETRY && !(current->flags & PF_EXITING);
}

static vm_fault_t space_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct hanare_space *space = vma->vm_private_data;
	u64 addr = vmf->address & PAGE_MASK;
	bool write = vmf->flags & FAULT_FLAG_WRITE;
	bool may_unlock = vmf->flags & FAULT_FLAG_ALLOW_RETRY;
	unsigned long begun = jiffies, end = begun + msecs_to_jiffies(LOCKED_MS);
	struct hanare_answer *answer;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	int round;

	/*
	 * A child has the mapping, too, after madvise(MADV_DOFORK). It is not the space's
	 * process and does not keep it.
	 */
	if (vma->vm_mm != space->mm)
		return VM_FAULT_SIGBUS;
	/* mremap can move a mapping, not its meaning. */
	if (((u64)vmf->pgoff << PAGE_SHIFT) != ((u64)space->id << HANARE_SPACE_SHIFT | addr))
		return VM_FAULT_SIGBUS;
	if (hanare_space_use_slot(space, addr))
		return VM_FAULT_SIGBUS;
	answer = hanare_answer_take(space, addr, write, vmf->flags & FAULT_FLAG_TRIED);
	if (answer && waits_on(answer, vmf)) {
		kfree(answer);
		return VM_FAULT_NOPAGE;
	}
	/*
	 * That nothing is mapped there counts only if the LWK says so with mmap_lock held: since
	 * this was asked without, another mapping may have come.
	 */
	if (answer && answer->status != -EFAULT &&
	    !insert_answer(space, vma, answer, write, &ret)) {
		kfree(answer);
		return ret;
	}
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT) {
		kfree(answer);
		return VM_FAULT_RETRY;
	}
	if (!answer)
		answer = answer_new();
	if (!answer)
		return VM_FAULT_SIGBUS;

	answer->or_copy = false;
	if (hanare_offer_take(space, addr, write || is_pinnable(vma), answer) &&
	    !insert_answer(space, vma, answer, write, &ret) && ret == VM_FAULT_NOPAGE) {
		kfree(answer);
		return ret;
	}
	ret = VM_FAULT_SIGBUS;
	if (fault_flag_allow_retry_first(vmf->flags))
		return ask_unlocked(vma, answer, addr, write);
	for (round = 0; round < ROUNDS_MAX; round++) {
		ask(space, answer, addr, write, is_pinnable(vma), LOCKED_MS, may_unlock ? BUSY_LOCKED_MS : LOCKED_MS);
		/*
		 * What is being replaced there may need mmap_lock for that, which get_user_pages
		 * keeps while it faults again: so it is let go, or, where it must be kept, there is
		 * no page after a while.
		 */
		if ((answer->status == -EBUSY || answer->status == -EAGAIN) && may_unlock)
			return ask_unlocked(vma, answer, addr, write);
		if (mmap_lock_is_contended(vma->vm_mm))
			end = min(end, begun + msecs_to_jiffies(CONTENDED_MS));
		if (answer->status == -EAGAIN && time_before(jiffies, end) &&
		    !fatal_signal_pending(current)) {
			round = 0;
			continue;
		}
		if (answer->status == -EAGAIN)
			answer->status = -EIO;
		if (waits_on(answer, vmf)) {
			ret = VM_FAULT_NOPAGE;
			break;
		}
		if (!insert_answer(space, vma, answer, write, &ret))
			break;
	}
	kfree(answer);
	/* Zaps came in between each time: it faults again. */
	return round < ROUNDS_MAX ? ret : VM_FAULT_NOPAGE;
}

/*
 * As space_fault for a write, with mmap_lock held all the time. The page has been taken away
 * before.
 */
static vm_fault_t write_locked(struct vm_area_struct *vma, u64 addr)
{
	struct hanare_space *space = vma->vm_private_data;
	struct hanare_answer *answer = answer_new();
	vm_fault_t ret = VM_FAULT_NOPAGE;
	int round;

	if (!answer)
		return VM_FAULT_SIGBUS;
	for (round = 0; round < ROUNDS_MAX; round++) {
		ask(space, answer, addr, true, false, LOCKED_MS, BUSY_LOCKED_MS);
		/* It faults again, and waits for the other one without the lock. */
		if (answer->status == -EBUSY || !insert_answer(space, vma, answer, true, &ret))
			break;
		ret = VM_FAULT_NOPAGE;
	}
	kfree(answer);
	return ret;
}

/*
 * A write to a page that was inserted read-only. Linux does not let this
 * function drop mmap_lock, so it takes the page away instead: the write faults
 * again, as one to a missing page, and asks the LWK from there. What counts is what
 * the page means, not where it is: a mapping that was moved must not fault for ever.
 *
 * An instruction of the program's (utility threads) may need the page to be read, too, as
 * `push (%rsp)` does or one that lies on it: that would bring the page back read-only, and so on
 * for ever. So it gets the page here.
 */
static vm_fault_t space_mkwrite(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct hanare_space *space = vma->vm_private_data;
	u64 addr = vmf->address & PAGE_MASK;

	unmap_mapping_range(space->memory.inode->i_mapping, (u64)vmf->pgoff << PAGE_SHIFT, PAGE_SIZE, 1);
	/* Linux does not tell here whether it comes from user mode. */
	if (vma->vm_flags & VM_EXEC && vma->vm_mm == space->mm && current->mm == space->mm &&
	    ((u64)vmf->pgoff << PAGE_SHIFT) == ((u64)space->id << HANARE_SPACE_SHIFT | addr))
		return write_locked(vma, addr);
	return VM_FAULT_NOPAGE;
}

/* A part of a mapping that was split, or a copy: madvise(MADV_DOFORK), mremap(2). */
static void space_vma_open(struct vm_area_struct *vma)
{
	struct hanare_space *space = vma->vm_private_data;

	kref_get(&space->ref);
}

static void space_vma_close(struct vm_area_struct *vma)
{
	struct hanare_space *space = vma->vm_private_data;

	/*
	 * The process ends. Where another has its descriptor table no descriptor closes by
	 * that: what happens then happens now.
	 */
	if (READ_ONCE(space->door.shares_table) && vma->vm_mm == space->mm)
		hanare_space_flush(space);
	hanare_space_put(space);
}

static const struct vm_operations_struct space_vm_ops = {
	.open		= space_vma_open,
	.close		= space_vma_close,
	.fault		= space_fault,
	.page_mkwrite	= space_mkwrite,
};

/*
 * Of memory that devices may keep. Linux pins no page for long of a mapping that is told of writes
 * (`vma_needs_dirty_tracking`). Where it has no page for reading, there is no such write.
 */
static const struct vm_operations_struct pinnable_ops = {
	.open		= space_vma_open,
	.close		= space_vma_close,
	.fault		= space_fault,
};

bool hanare_is_window(const struct vm_area_struct *vma)
{
	return vma->vm_ops == &space_vm_ops || is_pinnable(vma);
}

static bool is_within(const struct vm_area_struct *vma, u64 start, u64 end)
{
	return vma->vm_start >= start && vma->vm_end <= end;
}

int hanare_space_mmap(struct hanare_space *space, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (current->mm != space->mm)
		return -EPERM;
	/* Same address on both sides; the space's number keeps spaces apart. */
	if (offset != ((u64)space->id << HANARE_SPACE_SHIFT | vma->vm_start) ||
	    !(is_within(vma, HANARE_USER_MIN, HANARE_CONTROL_END) ||
	      is_within(vma, HANARE_MESSAGES_BASE, HANARE_MESSAGES_END)))
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	hanare_vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTCOPY |
				 (READ_ONCE(space->program.dumps) ? 0 : VM_DONTDUMP));
	if (space->program.executes && is_within(vma, HANARE_USER_MIN, HANARE_USER_MAX))
		hanare_vm_flags_set(vma, VM_EXEC);
	kref_get(&space->ref);		/* space_vma_close puts it */
	vma->vm_private_data = space;
	vma->vm_ops = &space_vm_ops;
	/* Nobody else maps it without PROT_READ. */
	if (!(vma->vm_flags & VM_READ) && is_within(vma, HANARE_USER_MIN, HANARE_USER_MAX)) {
		hanare_vm_flags_set(vma, VM_READ);
		vma->vm_ops = &pinnable_ops;
	}
	insert_control(space, vma);
	return 0;
}
