// SPDX-License-Identifier: GPL-2.0
/*
 * Entries of binfmt_misc, which say what executes a file that is no program by itself. Linux keeps
 * them to itself, but for a file each where that file system is mounted: there the LWK reads them.
 */
#include "space/service.h"

#include <linux/binfmts.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/namei.h>
#include <linux/sched/task.h>

/* Files that are no entries: `status` and `register`. */
#define OWN_FILES 2

/* The directory, where the caller has it mounted. An automount that nobody has used yet stays one. */
static int find_directory(struct path *path)
{
	int err = kern_path("/proc/sys/fs/binfmt_misc", 0, path);

	if (err)
		return err;
	if (path->dentry->d_sb->s_magic == BINFMTFS_MAGIC)
		return 0;
	path_put(path);
	return -ENOENT;
}

/*
 * File number `n` of the directory, with a reference; NULL: there are fewer. The last one that was
 * made comes first, as in Linux' own list of entries.
 */
static struct dentry *nth_file(struct dentry *directory, u64 n)
{
	struct dentry *child, *found = NULL;

	spin_lock(&directory->d_lock);
	hanare_for_each_child(child, directory) {
		spin_lock_nested(&child->d_lock, DENTRY_D_LOCK_NESTED);
		if (simple_positive(child) && !n--)
			found = dget_dlock(child);
		spin_unlock(&child->d_lock);
		if (found)
			break;
	}
	spin_unlock(&directory->d_lock);
	return found;
}

/* Whether there are entries. */
bool hanare_has_binfmt(void)
{
	struct dentry *file;
	struct path path;

	if (find_directory(&path))
		return false;
	file = nth_file(path.dentry, OWN_FILES);
	dput(file);
	path_put(&path);
	return file;
}

/* A file's text, into the caller's memory. How long it is; 0: it is not for reading. */
static ssize_t read_text(const struct path *directory, struct dentry *dentry, char __user *to,
			 size_t room)
{
	struct path path = { .mnt = directory->mnt, .dentry = dentry };
	/* Linux looks at a list of its own: what the program may open (Landlock) does not matter. */
	struct cred *own = prepare_kernel_cred(&init_task);
	const struct cred *caller;
	loff_t position = 0;
	struct file *file;
	ssize_t bytes = 0;

	if (!own)
		return -ENOMEM;
	caller = override_creds(own);
	file = dentry_open(&path, O_RDONLY, own);
	revert_creds(caller);
	put_cred(own);
	if (IS_ERR(file))
		return PTR_ERR(file);
	if (file->f_op->read)
		bytes = file->f_op->read(file, to, room, &position);
	fput(file);
	return bytes;
}

long hanare_binfmt(struct hanare_job *job)
{
	char __user *to = u64_to_user_ptr(job->args[0]);
	u64 room = min_t(u64, job->args[1], PAGE_SIZE), n = job->args[2], used = 0;
	struct dentry *file;
	struct path path;
	long err = find_directory(&path);

	job->args[0] = 0;
	job->args[1] = 0;
	if (err)
		return err;
	for (; !err && (file = nth_file(path.dentry, n)); n++) {
		ssize_t bytes = read_text(&path, file, to + used, room - used);

		dput(file);
		if (bytes == room - used) {
			/* It may be longer, and comes first the next time. */
			job->args[1] = n;
			break;
		}
		if (bytes < 0)
			err = bytes;
		else if (bytes)
			err = put_user(0, to + used + bytes);
		if (bytes > 0)
			used += bytes + 1;
	}
	path_put(&path);
	job->args[0] = used;
	return err;
}
