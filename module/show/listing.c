// SPDX-License-Identifier: GPL-2.0
/* Names that an LWK program is not to see in directories of procfs and sysfs. */
#include "show/pseudo.h"

#include <linux/file.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/threads.h>
#include <linux/uaccess.h>

#define ENTRIES_MAX (1U << 20)

/* What is left out of a directory. */
struct hidden {
	char folder[HANARE_PSEUDO_PATH_MAX];	/* below /devices/system; empty: of procfs */
	struct hanare_instance *inst;		/* for which instance */
	const char *name;			/* this one alone */
	const char *prefix;			/* of names with a number behind it */
	int only;				/* this number, or -1: all not in `seen` */
	unsigned long *seen;			/* bitmap */
	unsigned long limit;			/* its bits */
};

static bool hides(const struct hidden *h, const char *name)
{
	size_t length = strlen(h->prefix);
	char path[HANARE_PSEUDO_PATH_MAX];
	u32 number;

	if (h->name)
		return !strcmp(name, h->name);
	if (*h->folder)
		return snprintf(path, sizeof(path), "%s/%s", h->folder, name) < sizeof(path) &&
		       hanare_system_hides(h->inst, path);
	if (strncmp(name, h->prefix, length) || kstrtou32(name + length, 10, &number))
		return false;
	if (h->only >= 0)
		return number == h->only;
	return number >= h->limit || !test_bit(number, h->seen);
}

static bool hidden_threads(struct hidden *h, const struct hanare_pseudo *what)
{
	struct hanare_thread_info threads[HANARE_THREADS_AT_ONCE];
	/* Its first thread, which is there as long as the process is. */
	u32 first = pid_nr_ns(what->pid, ns_of_pid(what->pid)), from = 0;
	bool any = false;
	int i, n;

	h->limit = PID_MAX_LIMIT;
	h->seen = kvcalloc(BITS_TO_LONGS(h->limit), sizeof(long), GFP_KERNEL);
	if (!h->seen)
		return false;
	/*
	 * Not those that have ended since Linux listed them; any other one is told of, whichever
	 * threads end meanwhile.
	 */
	while ((n = hanare_space_threads(what->space, first, &from, threads)) > 0)
		for (i = 0; i < n; i++)
			if (threads[i].tid < h->limit) {
				set_bit(threads[i].tid, h->seen);
				any = true;
			}
	if (first < h->limit)
		set_bit(first, h->seen);
	return n == 0 && any;
}

/*
 * What is hidden of a process in its directory `name`, or, without a name, in that itself. False:
 * nothing.
 */
static bool hidden_of(struct hidden *h, struct hanare_pseudo *what, const char *name)
{
	if (!name)
		h->name = "map_files";
	else if (!strcmp(name, "task"))
		return hidden_threads(h, what);
	else if (!hanare_has_ended(what))
		h->only = what->space->door.fd;
	/* Else all descriptors are: it has none any more, and its worker has. */
	return true;
}

/* Below /proc: PID itself, PID/task, and fd and fdinfo of PID and PID/task/TID. */
static bool hidden_proc(struct hidden *h, struct super_block *sb, char *path)
{
	char *number = hanare_component(&path), *name = hanare_component(&path);
	char *thread = hanare_component(&path);
	struct hanare_pseudo what = { .inst = h->inst };
	bool some = false;
	u32 value;

	if (thread) {
		if (strcmp(name, "task"))
			return false;
		number = thread;
		name = hanare_component(&path);
		if (!name || !strcmp(name, "task"))
			return false;
	}
	if (!number || hanare_component(&path) || kstrtou32(number, 10, &value))
		return false;
	if (name && strcmp(name, "task") && strcmp(name, "fd") && strcmp(name, "fdinfo"))
		return false;
	if (hanare_find_process(&what, sb, value))
		some = hidden_of(h, &what, name);
	hanare_forget_process(&what);
	return some;
}

static bool hidden_in(struct hidden *h, struct file *file)
{
	char buffer[HANARE_PSEUDO_PATH_MAX], *path;

	if (!S_ISDIR(file_inode(file)->i_mode))
		return false;
	path = hanare_path_in(file, PROC_SUPER_MAGIC, buffer);
	if (path)
		return hidden_proc(h, file_inode(file)->i_sb, path);
	path = hanare_path_in(file, SYSFS_MAGIC, buffer);
	if (path && !strcmp(path, "/kernel/mm")) {
		h->name = "ksm";
		return true;
	}
	if (!path || strncmp(path, "/devices/system/", 16))
		return false;
	strscpy(h->folder, path + 16, sizeof(h->folder));
	return *h->folder;
}

/* Moves the entries that stay to the front; how many bytes they are. */
static size_t leave_out(const struct hidden *h, char *entries, size_t bytes, bool old)
{
	/* struct linux_dirent and linux_dirent64: both have the length at 16. */
	size_t name = old ? 18 : 19, from = 0, to = 0;
	u16 length;

	while (bytes - from > name) {
		memcpy(&length, entries + from + 16, sizeof(length));
		if (length <= name || length > bytes - from)
			break;
		if (!memchr(entries + from + name, 0, length - name) ||
		    !hides(h, entries + from + name)) {
			memmove(entries + to, entries + from, length);
			to += length;
		}
		from += length;
	}
	return to;
}

long hanare_listed(struct hanare_space *space, void *data)
{
	struct hanare_listed *arg = data;
	struct hidden h = { .inst = space->inst, .prefix = "", .only = -1 };
	struct file *file;
	unsigned long magic;
	char *entries;
	long err = 0;

	if (arg->old > 1 || arg->bytes > ENTRIES_MAX)
		return -EINVAL;
	file = fget(arg->fd);
	if (!file)
		return -EBADF;
	magic = file_inode(file)->i_sb->s_magic;
	if ((magic != PROC_SUPER_MAGIC && magic != SYSFS_MAGIC) ||
	    !hidden_in(&h, file))
		goto out;
	entries = vmemdup_user(u64_to_user_ptr(arg->buffer), arg->bytes);
	if (IS_ERR(entries)) {
		err = PTR_ERR(entries);
		goto out;
	}
	/* Once it is not booted, its memory goes, and the list of that. */
	down_read(&h.inst->live);
	arg->bytes = leave_out(&h, entries, arg->bytes, arg->old);
	up_read(&h.inst->live);
	if (copy_to_user(u64_to_user_ptr(arg->buffer), entries, arg->bytes))
		err = -EFAULT;
	kvfree(entries);
out:
	kvfree(h.seen);
	fput(file);
	return err;
}
