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

/* The directory, where the caller has it mounted. An automount that was not used yet stays one. */
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

static struct dentry *hold_file(struct dentry *child)
{
	struct dentry *held = NULL;

	spin_lock_nested(&child->d_lock, DENTRY_D_LOCK_NESTED);
	if (simple_positive(child))
		held = dget_dlock(child);
	spin_unlock(&child->d_lock);
	return held;
}

/*
 * The file of the directory behind `last`, of which the reference is taken over; NULL: the first
 * one. The last one that was made comes first, as in Linux' own list of entries. With a reference,
 * by which it stays in its place when it is removed.
 */
static struct dentry *file_behind(struct dentry *directory, struct dentry *last)
{
	struct dentry *child = last, *found = NULL;

	spin_lock(&directory->d_lock);
	if (last) {
		hanare_for_each_child_behind(child, directory) {
			found = hold_file(child);
			if (found)
				break;
		}
	} else {
		hanare_for_each_child(child, directory) {
			found = hold_file(child);
			if (found)
				break;
		}
	}
	spin_unlock(&directory->d_lock);
	dput(last);
	return found;
}

/* The file with that number, or the first one: it has been removed, or none is meant. */
static struct dentry *first_file(struct dentry *directory, u64 number)
{
	struct dentry *file = NULL;

	if (number) {
		do {
			file = file_behind(directory, file);
		} while (file && d_inode(file)->i_ino != number);
	}
	return file ?: file_behind(directory, NULL);
}

/* Whether there are entries. */
bool hanare_has_binfmt(void)
{
	struct dentry *file = NULL;
	struct path path;
	int n = 0;

	if (find_directory(&path))
		return false;
	do {
		file = file_behind(path.dentry, file);
	} while (file && n++ < OWN_FILES);
	dput(file);
	path_put(&path);
	return n > OWN_FILES;
}

/* A file's text, into the caller's memory. How long it is; 0: it is not for reading. */
static ssize_t read_text(const struct path *directory, struct dentry *dentry, char __user *to,
			 size_t room)
{
	struct path path = { .mnt = directory->mnt, .dentry = dentry };
	/* Linux looks at its own list: what the program may open (Landlock) does not matter. */
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
	u64 room = min_t(u64, job->args[1], PAGE_SIZE), used = 0;
	struct dentry *file;
	struct path path;
	long err = find_directory(&path);

	job->args[0] = 0;
	job->args[1] = 0;
	if (err)
		return err;
	for (file = first_file(path.dentry, job->args[2]); file; file = file_behind(path.dentry, file)) {
		ssize_t bytes = read_text(&path, file, to + used, room - used);

		if (bytes == room - used) {
			/* It may be longer, and comes first the next time. */
			job->args[1] = d_inode(file)->i_ino;
			break;
		}
		if (bytes < 0)
			err = bytes;
		else if (bytes)
			err = put_user(0, to + used + bytes);
		if (err)
			break;
		if (bytes)
			used += bytes + 1;
	}
	dput(file);
	path_put(&path);
	job->args[0] = used;
	return err;
}
