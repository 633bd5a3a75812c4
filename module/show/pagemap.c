// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/PID/pagemap and clear_refs of an LWK process. Both are Linux' own files first, which have
 * the errors, positions and ends of Linux, and what Linux itself maps for the process (files and
 * shared memory); what the LWK maps, it knows.
 */
#include "show/pseudo.h"

#include <linux/capability.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define REQUEST_MS 5000
#define ENTRY_BYTES sizeof(u64)
/* Entries that are made before they are copied. */
#define ENTRIES (PAGE_SIZE / ENTRY_BYTES)

#define FRAME_BITS (BIT_ULL(HANARE_PAGEMAP_RUN_SHIFT) - 1)
/* What is shown of an entry of the LWK's. */
#define SHOWN_BITS ((IS_ENABLED(CONFIG_MEM_SOFT_DIRTY) ? HANARE_PAGEMAP_SOFT_DIRTY : 0) | \
		    HANARE_PAGEMAP_EXCLUSIVE | HANARE_PAGEMAP_FILE | HANARE_PAGEMAP_SWAP | \
		    HANARE_PAGEMAP_PRESENT)

static struct hanare_pseudo *what_of(struct file *file)
{
	return file_inode(file)->i_private;
}

/* ---- reading ---- */

struct reading {
	u64 *entries;
	u32 count;
	u64 __user *to;		/* where those go */
	bool shows_frames;
};

static int flush(struct reading *r)
{
	if (r->count && copy_to_user(r->to, r->entries, r->count * ENTRY_BYTES))
		return -EFAULT;
	r->to += r->count;
	r->count = 0;
	return 0;
}

static int read_run(u64 at, u64 pages, u64 entry, void *data)
{
	struct reading *r = data;
	u64 step = entry & HANARE_PAGEMAP_PRESENT ? 1 : 0, mask = SHOWN_BITS;
	int err = 0;

	if (entry & HANARE_PAGEMAP_LINUX) {
		/* As Linux has filled it in. */
		err = flush(r);
		r->to += pages;
		return err;
	}
	if (r->shows_frames && step)
		mask |= FRAME_BITS;
	for (; pages && !err; pages--, entry += step) {
		r->entries[r->count++] = entry & mask;
		if (r->count == ENTRIES)
			err = flush(r);
	}
	return err;
}

/*
 * Linux says what its own mappings have, and how far the file goes; the LWK the rest, over what
 * Linux says of the proxy's.
 */
static ssize_t pagemap_read(struct file *file, char __user *to, size_t bytes, loff_t *position)
{
	struct hanare_pseudo *what = what_of(file);
	struct file *linux_file = what->linux_file;
	struct reading r = { .to = (u64 __user *)to };
	loff_t before = *position;
	u64 start = (u64)before / ENTRY_BYTES << PAGE_SHIFT;
	ssize_t got = linux_file->f_op->read(linux_file, to, bytes, position);
	int err;

	if (got <= 0)
		return got;
	/* As of Linux' own: physical addresses are not for everybody. */
	r.shows_frames = file_ns_capable(linux_file, &init_user_ns, CAP_SYS_ADMIN);
	r.entries = kmalloc_array(ENTRIES, ENTRY_BYTES, GFP_KERNEL_ACCOUNT);
	if (!r.entries)
		err = -ENOMEM;
	else
		err = hanare_space_pagemap(what->space, start, start + ((u64)got / ENTRY_BYTES << PAGE_SHIFT), read_run, &r) ?:
		      flush(&r);
	kfree(r.entries);
	if (!err)
		return got;
	*position = before;
	/* One that is gone has no memory, and its file ends. */
	return err == -ESRCH ? 0 : err;
}

static loff_t linux_llseek(struct file *file, loff_t offset, int whence)
{
	struct file *linux_file = what_of(file)->linux_file;

	linux_file->f_pos = file->f_pos;
	offset = vfs_llseek(linux_file, offset, whence);
	file->f_pos = linux_file->f_pos;
	return offset;
}

static long pagemap_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct file *linux_file = what_of(file)->linux_file;

	if (HANARE_HAS_PAGEMAP_SCAN && command == PAGEMAP_SCAN)
		return hanare_pagemap_scan(what_of(file), argument);
	return linux_file->f_op->unlocked_ioctl ?
	       linux_file->f_op->unlocked_ioctl(linux_file, command, argument) : -ENOTTY;
}

static const struct file_operations pagemap_fops = {
	.owner		= THIS_MODULE,
	.read		= pagemap_read,
	.llseek		= linux_llseek,
	.unlocked_ioctl	= pagemap_ioctl,
};

/* ---- clear_refs ---- */

static int ask_about(struct hanare_space *space, struct hanare_call *call)
{
	int err = hanare_request_about(space, call, WAIT_KILLABLE, REQUEST_MS);

	return err ?: min(call->status, 0);
}

/* Whether a user beside the instance has a page of these frames: a device that reads into them. */
static bool is_held(struct hanare_space *space, u64 frame, u64 pages)
{
	struct hanare_instance *inst = space->inst;
	const struct hanare_chunk *chunk;
	bool is_held;

	/* A shutdown gives the memory back meanwhile, and forgets which it was. */
	down_read(&inst->live);
	chunk = inst->reach.shared ? hanare_own_chunk(inst, frame, pages) : NULL;
	is_held = chunk && hanare_frames_held(chunk, frame, pages);
	up_read(&inst->live);
	return is_held;
}

/*
 * Linux has no mapping any more by which it could write. What it has pinned a device may write to
 * all the same; as on Linux, such a page stays soft-dirty.
 */
static int keep_pinned(struct hanare_space *space)
{
	u64 words[HANARE_PAGES_MAX];
	u64 from = 0, last;
	int err;
	u32 i;

	do {
		struct hanare_call call = {
			.kind = HANARE_REQUEST_INFO,
			.args = { HANARE_INFO_WRITTEN_BY_LINUX, from },
			.pages = words,
		};

		err = ask_about(space, &call);
		if (err)
			return err;
		for (i = 0; i + 1 < min_t(u32, call.count, HANARE_PAGES_MAX); i += 2) {
			struct hanare_call dirty = {
				.kind = HANARE_REQUEST_INFO,
				.args = { HANARE_INFO_SOFT_DIRTY, words[i] },
			};
			u64 pages = (words[i + 1] & ~PAGE_MASK) + 1;

			if (!is_held(space, words[i + 1] & PAGE_MASK, pages))
				continue;
			err = ask_about(space, &dirty);
			/* Unmapped meanwhile. */
			if (err && err != -EFAULT)
				return err;
		}
		last = from;
		from = call.args[1];
	} while (from > last);
	return 0;
}

/*
 * What the LWK forgets; what Linux has of those pages goes, so that what it does to them from now
 * on is seen.
 */
static int clear_refs(struct hanare_space *space, u64 type)
{
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_CLEAR_REFS, type },
	};
	int err;

	/* One at a time: what Linux could write to is looked at when it cannot any more. */
	if (mutex_lock_killable(&space->show.refs_lock))
		return -EINTR;
	err = ask_about(space, &call);
	if (!err && call.args[1]) {
		hanare_zap(space, HANARE_USER_MIN, HANARE_USER_MAX);
		if (type == 4)
			err = keep_pinned(space);
	}
	mutex_unlock(&space->show.refs_lock);
	return err;
}

static ssize_t clear_refs_write(struct file *file, const char __user *from, size_t bytes,
				loff_t *position)
{
	struct hanare_pseudo *what = what_of(file);
	struct hanare_space *space;
	char text[13] = {};
	ssize_t done;
	int type, err;

	if (copy_from_user(text, from, min(bytes, sizeof(text) - 1)))
		return -EFAULT;
	/* Its errors, and its own mappings of the process. */
	done = what->linux_file->f_op->write(what->linux_file, from, bytes, position);
	if (done < 0)
		return done;
	err = kstrtoint(strstrip(text), 10, &type);
	if (err)
		return err;
	/* Of the program that the process has now, as Linux does. */
	space = hanare_space_of_process(what->pid);
	if (!space)
		return done;
	err = clear_refs(space, type);
	hanare_space_put(space);
	return err && err != -ESRCH ? err : done;
}

static const struct file_operations clear_refs_fops = {
	.owner		= THIS_MODULE,
	.write		= clear_refs_write,
	.llseek		= linux_llseek,
};

const struct file_operations *hanare_process_fops(const char *name)
{
	if (!strcmp(name, "pagemap"))
		return &pagemap_fops;
	if (!strcmp(name, "clear_refs"))
		return &clear_refs_fops;
	return NULL;
}
