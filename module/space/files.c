// SPDX-License-Identifier: GPL-2.0
/* Files that a space maps or runs: taking, reading, giving back. */
#include "space/service.h"

#include <linux/cred.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/stat.h>
#include <linux/user_namespace.h>

#define FILES_MAX 65536

static bool run_unreadable = true;
module_param(run_unreadable, bool, 0644);
MODULE_PARM_DESC(run_unreadable,
	"Users may run programs that they may not read, though a proxy of their own sees their memory");

/* Whether a file is one of procfs, or ours in its place. Set once, before there is a space. */
static bool (*shows_procfs)(struct file *file) __ro_after_init;

void hanare_files_init(bool (*shows)(struct file *file))
{
	shows_procfs = shows;
}

/* A program that runs: no task may write to it meanwhile. */
#define RUNS XA_MARK_1
/* A descriptor that a driver of the LWK has claimed: none of a child's. */
#define CLAIMED XA_MARK_2

/* The mount or the file system forbids execution. */
static bool is_noexec(const struct path *path)
{
	return path->mnt->mnt_flags & MNT_NOEXEC ||
	       path->dentry->d_sb->s_iflags & SB_I_NOEXEC;
}

/*
 * Whether the pages of a private mapping have what can be read from the file. Not so on these file
 * systems, where mmap(2) has another meaning for each file: most cannot be mapped, and some map
 * memory of a device or of the kernel, which a private mapping shares until it is written to. Pages
 * of hugetlbfs are of Linux' pool.
 */
static bool is_read(const struct file *file)
{
	switch (file_inode(file)->i_sb->s_magic) {
	case HUGETLBFS_MAGIC:
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SELINUX_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
		return false;
	default:
		return true;
	}
}

/* Enters a file, whose reference is taken over, with what the LWK is told of it. */
static long file_keep(struct hanare_job *job, struct file *file, bool runs, bool is_claimed)
{
	struct kstat stat;
	u32 id;
	int err = vfs_getattr(&file->f_path, &stat, STATX_INO | STATX_SIZE | STATX_TYPE | STATX_CTIME,
			      AT_STATX_SYNC_AS_STAT);

	if (!err && runs)
		err = deny_write_access(file);
	if (err)
		goto put;
	mutex_lock(&job->space->files.lock);
	err = xa_alloc(&job->space->files.table, &id, file, XA_LIMIT(1, FILES_MAX), GFP_KERNEL);
	if (!err && runs)
		xa_set_mark(&job->space->files.table, id, RUNS);
	if (!err && is_claimed)
		xa_set_mark(&job->space->files.table, id, CLAIMED);
	mutex_unlock(&job->space->files.lock);
	if (err) {
		if (runs)
			allow_write_access(file);
		err = -ENFILE;
		goto put;
	}
	job->args[1] = stat.ino;
	job->args[2] = stat.size;
	job->args[3] = 0;
	if (file->f_mode & FMODE_READ)
		job->args[3] |= HANARE_FILE_READABLE;
	if (file->f_mode & FMODE_WRITE)
		job->args[3] |= HANARE_FILE_WRITABLE;
	if (S_ISREG(stat.mode) && is_read(file))
		job->args[3] |= HANARE_FILE_REGULAR;
	if (is_noexec(&file->f_path))
		job->args[3] |= HANARE_FILE_NOEXEC;
	job->args[4] = new_encode_dev(stat.dev);
	job->held = hanare_file_version(file, &stat);
	return id;
put:
	fput(file);
	return err;
}

static long drop(struct hanare_space *space, u64 id)
{
	struct file *file = NULL;
	bool denied = false;

	mutex_lock(&space->files.lock);
	if (id <= FILES_MAX) {
		denied = xa_get_mark(&space->files.table, id, RUNS);
		file = xa_erase(&space->files.table, id);
	}
	mutex_unlock(&space->files.lock);
	if (!file)
		return -EBADF;
	if (denied)
		allow_write_access(file);
	fput(file);
	return 0;
}

long hanare_file_put(struct hanare_job *job)
{
	long err = 0;
	u32 i;

	for (i = 0; i < job->count; i++)
		err = drop(job->space, job->extents[i]) ?: err;
	return err;
}

/* Of our files, those in place of procfs' are none of a device. */
bool hanare_is_device(const struct file *file)
{
	return file->f_op->owner == THIS_MODULE && S_ISCHR(file_inode(file)->i_mode);
}

long hanare_file_get(struct hanare_job *job)
{
	struct file *file;
	int err;

	if (job->args[0] > INT_MAX)
		return -EBADF;
	file = fget(job->args[0]);
	if (!file)
		return -EBADF;
	/* What mmap(2) says of files of procfs; to execve(2) they are like others. */
	if (shows_procfs(file))
		err = -EIO;
	/* Our own device would keep its space, and so itself, alive for ever. */
	else if (!hanare_can_mmap(file) || hanare_is_device(file))
		err = -ENODEV;
	else if (!(file->f_mode & FMODE_READ))
		err = -EACCES;
	else
		err = hanare_file_refresh(file);
	if (!err)
		return file_keep(job, file, false, false);
	fput(file);
	return err;
}

/* 0: it is the device that a driver of the LWK's asks about. */
static int is_driven(struct hanare_job *job, struct file *file, u64 *words)
{
	struct inode *inode = file_inode(file);
	const struct hanare_granted *device;

	/* To a driver, reads and writes may be anywhere. */
	if (hanare_is_device(file) || !(file->f_mode & FMODE_PREAD) || !(file->f_mode & FMODE_PWRITE))
		return -ENODEV;
	if (!job->args[3])
		return (job->args[2] ? S_ISBLK(inode->i_mode) : S_ISCHR(inode->i_mode)) &&
		       new_encode_dev(inode->i_rdev) == job->args[1] ? 0 : -ENODEV;
	device = hanare_device_numbered(job->inst, job->args[3] - 1);
	return device && S_ISBLK(inode->i_mode) ? hanare_namespace(device, file, words) : -ENODEV;
}

/* SERVICE_CLAIM: a forged proxy gains nothing, since the file is one that it has opened. */
long hanare_file_claim(struct hanare_job *job)
{
	u64 words[HANARE_CLAIM_WORDS];
	struct file *file;
	u64 flags;
	long id;
	int err;

	if (job->args[0] > INT_MAX)
		return -EBADF;
	file = fget(job->args[0]);
	if (!file)
		return -EBADF;
	err = is_driven(job, file, words);
	if (err) {
		fput(file);
		return err;
	}
	if (job->args[3]) {
		memcpy(job->extents, words, sizeof(words));
		job->count = HANARE_CLAIM_WORDS;
	}
	flags = READ_ONCE(file->f_flags);
	id = file_keep(job, file, false, true);
	job->args[0] = flags;
	return id;
}

/* Whether execve(2) of the caller takes the file. */
static int may_run(const struct path *path)
{
	struct inode *inode = d_backing_inode(path->dentry);

	if (S_ISLNK(inode->i_mode))
		return -ELOOP;
	if (!S_ISREG(inode->i_mode) || is_noexec(path))
		return -EACCES;
	return inode_permission(hanare_idmap(path->mnt), inode, MAY_EXEC);
}

/*
 * A program that its user may run and not read. As on Linux its process is not to be looked into,
 * which root of a user namespace of its own could do all the same: Linux moves such a process to
 * another namespace, we refuse.
 */
static int look_at_rights(struct file *file, u64 *bits)
{
	if (!file_permission(file, MAY_READ))
		return 0;
	*bits |= HANARE_FILE_UNREADABLE;
	return READ_ONCE(run_unreadable) && current_user_ns() == &init_user_ns ? 0 : -EACCES;
}

/*
 * A program as execve(2) opens it: watchers and restrictions of executions (fanotify, Landlock) see
 * it.
 */
static struct file *open_to_run(u32 directory, u64 name, u64 flags)
{
	unsigned int lookup = (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
			      (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0);
	struct file *file;
	struct path path;
	long err = user_path_at(directory, u64_to_user_ptr(name), lookup, &path);

	if (err)
		return ERR_PTR(err);
	err = may_run(&path);
	file = err ? ERR_PTR(err) :
	       dentry_open(&path, O_RDONLY | O_LARGEFILE | __FMODE_EXEC, current_cred());
	path_put(&path);
	if (IS_ERR(file))
		return file;
	hanare_tell_opened(file);
	err = hanare_can_mmap(file) ? hanare_file_refresh(file) : -EACCES;
	if (!err)
		return file;
	fput(file);
	return ERR_PTR(err);
}

/* A file's name into a page of the LWK's. How long it is. */
static long write_name(struct file *file, char *page)
{
	const char *name = d_path(&file->f_path, page, PAGE_SIZE);
	size_t length;

	if (IS_ERR(name))
		return PTR_ERR(name);
	length = strlen(name);
	memmove(page, name, length);
	return length;
}

/* The first bytes of a program and its name, into the two pages of the LWK's. */
static long look_at(struct hanare_job *job, struct file *file)
{
	char *to = hanare_extent_virt(job, job->extents[0]);
	u64 bytes = 0;
	loff_t position = 0;
	ssize_t ret;

	do {
		ret = kernel_read(file, to + bytes, PAGE_SIZE - bytes, &position);
		if (ret < 0)
			return ret;
		bytes += ret;
	} while (ret && bytes < PAGE_SIZE);
	job->args[0] = bytes | (u64)max(write_name(file, to + PAGE_SIZE), 0L) << 32;
	return 0;
}

long hanare_program_get(struct hanare_job *job)
{
	struct file *program;
	long id, err;

	if (job->count != 1 || extent_pages(job->extents[0]) != 2 || !hanare_extents_ok(job))
		return -EINVAL;
	program = open_to_run(job->args[0], job->args[1], job->args[2]);
	if (IS_ERR(program)) {
		err = PTR_ERR(program);
		/* The LWK knows no codes of restarting. */
		return err <= -ERESTARTSYS ? -EINTR : err;
	}
	id = file_keep(job, get_file(program), true, false);
	if (id > 0) {
		if (hanare_has_binfmt())
			job->args[3] |= HANARE_FILE_BINFMT;
		err = look_at_rights(program, &job->args[3]) ?: look_at(job, program);
		if (err) {
			drop(job->space, id);
			id = err;
		}
	}
	fput(program);
	return id;
}

static struct file *file_of(struct hanare_space *space, u64 id)
{
	struct file *file;

	mutex_lock(&space->files.lock);
	file = id <= FILES_MAX ? xa_load(&space->files.table, id) : NULL;
	if (file)
		get_file(file);
	mutex_unlock(&space->files.lock);
	return file;
}

/* What execve(2) closes, but for the space's own. Linux' own function is not for modules. */
void hanare_close_for_exec(const struct hanare_space *space)
{
	u32 control = space->door.fd;
	struct files_struct *files = current->files;
	struct fdtable *fdt;
	u32 fd = 0, end;

	for (;; fd++) {
		spin_lock(&files->file_lock);
		fdt = files_fdtable(files);
		end = fdt->max_fds;
		fd = find_next_bit(fdt->close_on_exec, end, fd);
		spin_unlock(&files->file_lock);
		if (fd >= end)
			break;
		/* The bit of a number that is not in use means nothing. */
		if (fd != control)
			close_fd(fd);
	}
}

long hanare_exec_file(struct hanare_job *job)
{
	struct file *file = file_of(job->space, job->args[0]);
	int fd;

	if (!file)
		return -EBADF;
	hanare_close_for_exec(job->space);
	fd = get_unused_fd_flags(0);
	if (fd < 0)
		fput(file);
	else
		fd_install(fd, file);
	return fd;
}

long hanare_file_name(struct hanare_job *job)
{
	struct file *file;
	long ret;

	if (job->count != 1 || !hanare_extents_ok(job))
		return -EINVAL;
	file = file_of(job->space, job->args[0]);
	if (!file)
		return -EBADF;
	ret = write_name(file, hanare_extent_virt(job, job->extents[0]));
	fput(file);
	return ret;
}

long hanare_file_size(struct hanare_job *job)
{
	struct file *file = file_of(job->space, job->args[0]);
	loff_t size;

	if (!file)
		return -EBADF;
	size = i_size_read(file_inode(file));
	fput(file);
	return size;
}

long hanare_file_cached(struct hanare_job *job)
{
	struct file *file = file_of(job->space, job->args[0]);
	u64 first = job->args[1] >> PAGE_SHIFT, i;
	struct inode *inode;
	bool may_know;

	if (!file)
		return -EBADF;
	job->count = min_t(u64, DIV_ROUND_UP(job->args[2], 64), HANARE_EXTENTS_MAX);
	inode = file_inode(file);
	/* Of others' files it would tell what others do. */
	may_know = inode_owner_or_capable(hanare_idmap(file->f_path.mnt), inode) || !file_permission(file, MAY_WRITE);
	memset(job->extents, may_know ? 0 : 0xff, job->count * sizeof(u64));
	inode = d_real_inode(file->f_path.dentry);
	for (i = 0; may_know && i < job->count * 64; i++)
		if (hanare_is_cached(inode->i_mapping, first + i))
			job->extents[i / 64] |= 1ULL << (i % 64);
	fput(file);
	return 0;
}

long hanare_fill(struct hanare_job *job)
{
	struct file *file;
	long ret;

	if ((loff_t)job->args[1] < 0 || !hanare_extents_ok(job))
		return -EINVAL;
	file = file_of(job->space, job->args[0]);
	if (!file)
		return -EBADF;
	ret = hanare_file_fill(file, job);
	fput(file);
	return ret;
}

/* For the child of a fork: what its parent maps, by the same ids. */
int hanare_space_copy_files(struct hanare_space *to, struct hanare_space *from)
{
	struct file *file;
	unsigned long id;
	int err = 0;

	mutex_lock(&from->files.lock);
	xa_for_each(&from->files.table, id, file) {
		if (xa_get_mark(&from->files.table, id, CLAIMED))
			continue;
		err = xa_err(xa_store(&to->files.table, id, get_file(file), GFP_KERNEL_ACCOUNT));
		if (err) {
			fput(file);
			break;
		}
		/* It cannot fail: the parent's is there. */
		if (xa_get_mark(&from->files.table, id, RUNS) && !deny_write_access(file))
			xa_set_mark(&to->files.table, id, RUNS);
	}
	mutex_unlock(&from->files.lock);
	return err;
}

/* The new program of a process that leaves the space `from`. 0: there is none. */
int hanare_space_move_file(struct hanare_space *to, struct hanare_space *from, u64 id)
{
	struct file *file = NULL;
	int err = 0;

	if (!id)
		return 0;
	mutex_lock(&from->files.lock);
	if (id <= FILES_MAX)
		file = xa_load(&from->files.table, id);
	if (file)
		err = xa_err(xa_store(&to->files.table, id, file, GFP_KERNEL_ACCOUNT));
	if (file && !err) {
		if (xa_get_mark(&from->files.table, id, RUNS))
			xa_set_mark(&to->files.table, id, RUNS);
		xa_erase(&from->files.table, id);
	}
	mutex_unlock(&from->files.lock);
	return file ? err : -EBADF;
}

/*
 * The program runs no more: its files go, and may be written again. Not only with the space's
 * last reference: a file may hold what holds the space (a socket, in a message, its descriptor).
 */
void hanare_space_put_files(struct hanare_space *space)
{
	struct file *file;
	unsigned long id;

	mutex_lock(&space->files.lock);
	xa_for_each(&space->files.table, id, file) {
		if (xa_get_mark(&space->files.table, id, RUNS))
			allow_write_access(file);
		xa_erase(&space->files.table, id);
		fput(file);
	}
	mutex_unlock(&space->files.lock);
}
