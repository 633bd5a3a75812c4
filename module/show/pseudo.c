// SPDX-License-Identifier: GPL-2.0
/*
 * Files of procfs, sysfs and cgroups that an LWK program opens: which of them show the
 * LWK's machine, the files that do, and names left out of directories. A file is
 * recognised by where it lies in its file system, not by the path it was opened by.
 * docs/pseudo-files.md has the reasons.
 */
#include "show/pseudo.h"

#include <linux/dcache.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs_context.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/proc_fs.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/statfs.h>

/* ---- recognising ---- */

/* Canonical path in procfs or sysfs; NULL: of another file system, or too long. */
char *hanare_path_in(struct file *file, unsigned long magic, char *buffer)
{
	char *path;

	if (file_inode(file)->i_sb->s_magic != magic)
		return NULL;
	path = dentry_path_raw(file->f_path.dentry, buffer, HANARE_PSEUDO_PATH_MAX);
	return IS_ERR(path) ? NULL : path;
}

char *hanare_component(char **path)
{
	char *name;

	do {
		name = strsep(path, "/");
	} while (name && !*name);
	return name;
}

/*
 * Finds the process on the LWK that a number in procfs means, of a process or a thread. False: it
 * means none.
 */
bool hanare_find_process(struct hanare_pseudo *what, struct super_block *sb, u32 number)
{
	struct task_struct *task;
	struct pid *pid;

	rcu_read_lock();
	pid = find_pid_ns(number, proc_pid_ns(sb));
	task = pid ? pid_task(pid, PIDTYPE_PID) : NULL;
	if (task)
		what->pid = get_pid(task_tgid(task));
	if (what->pid)
		what->tid = pid_nr_ns(pid, ns_of_pid(what->pid));
	rcu_read_unlock();
	if (what->pid)
		what->space = hanare_space_of_process(what->pid);
	return what->space;
}

/* Gives back what that has found. */
void hanare_forget_process(struct hanare_pseudo *what)
{
	if (what->space)
		hanare_space_put(what->space);
	put_pid(what->pid);
}

/*
 * Where a path lies below a process of the LWK's, or a thread of it: PID/NAME or PID/task/TID/NAME,
 * or PID/NAME/ENTRY and the like. The path is cut. False: elsewhere.
 */
static bool find_process(struct hanare_pseudo *what, struct super_block *sb, char *path,
			 const char **name, const char **entry)
{
	char *number = hanare_component(&path);
	u32 value;

	*name = hanare_component(&path);
	what->whole = !*name || strcmp(*name, "task");
	if (!what->whole) {
		number = hanare_component(&path);
		*name = hanare_component(&path);
	}
	*entry = hanare_component(&path);
	if (!*name || hanare_component(&path) || kstrtou32(number, 10, &value))
		return false;
	return hanare_find_process(what, sb, value);
}

/*
 * What Linux has of a thread and takes away when that ends, but keeps for a worker whose thread has
 * ended: the error by which an open fails then. `entry`: what is in such a directory.
 */
static const struct { const char *name; bool entry; int err; } of_living[] = {
	{ "auxv",	false,	HANARE_NO_MEMORY },
	{ "environ",	false,	HANARE_NO_MEMORY },
	{ "mem",	false,	HANARE_NO_MEMORY },
	{ "pagemap",	false,	HANARE_NO_MEMORY },
	{ "mounts",	false,	-EINVAL },
	{ "mountinfo",	false,	-EINVAL },
	{ "mountstats",	false,	-EINVAL },
	{ "cwd",	false,	-ENOENT },
	{ "exe",	false,	-ENOENT },
	{ "root",	false,	-ENOENT },
	{ "fd",		true,	-ENOENT },
	{ "fdinfo",	true,	-ENOENT },
	{ "ns",		true,	-ENOENT },
};

static int refusal(struct hanare_pseudo *what, const char *name, const char *entry, bool is_opened)
{
	int i;

	/* Linux' links are those of the proxy's mappings. */
	if (what->whole && !strcmp(name, "map_files"))
		return -ENOENT;
	/* It has these as long as it has a number. */
	if (entry && (!strcmp(entry, "pid") || !strcmp(entry, "user")))
		return 0;
	for (i = 0; i < ARRAY_SIZE(of_living); i++)
		if (!strcmp(name, of_living[i].name) && of_living[i].entry == !!entry)
			/* O_PATH finds a file without opening it. */
			return (is_opened || of_living[i].err == -ENOENT) &&
			       hanare_has_ended(what) ? of_living[i].err : 0;
	return 0;
}

static bool recognise_proc(struct hanare_pseudo *what, struct file *file, char *path)
{
	bool is_opened = S_ISREG(file_inode(file)->i_mode) &&
			 file->f_mode & (FMODE_READ | FMODE_WRITE);
	bool can_read = is_opened && file->f_mode & FMODE_READ;
	const char *name, *entry;

	if (!strchr(path + 1, '/')) {
		if (!is_opened)
			return false;
		name = path + 1;
		/*
		 * kpageflags and the like: of frames, of which Linux knows only what Linux does
		 * with them.
		 */
		what->refusal = strncmp(name, "kpage", 5) ? 0 : -ENOENT;
		what->show = can_read ? hanare_machine_show(name) : NULL;
		return what->show || what->refusal;
	}
	if (!find_process(what, file_inode(file)->i_sb, path, &name, &entry))
		return false;
	what->refusal = refusal(what, name, entry, is_opened);
	if (is_opened && !entry) {
		what->show = can_read ? hanare_process_show(what, name) : NULL;
		what->fops = what->show == hanare_show_nothing ? NULL : hanare_process_fops(name);
	}
	return what->show || what->fops || what->refusal;
}

static bool is_cgroup(unsigned long magic)
{
	return magic == CGROUP2_SUPER_MAGIC || magic == CGROUP_SUPER_MAGIC;
}

/* Below /sys/devices/system; sets what->refusal, also of a directory. */
static bool recognise_system(struct hanare_pseudo *what, const char *path, bool is_file)
{
	/* Once it is not booted, its memory goes, and the list of that. */
	down_read(&what->inst->live);
	what->refusal = hanare_system_hides(what->inst, path) ? -ENOENT : 0;
	up_read(&what->inst->live);
	if (is_file && !what->refusal)
		what->show = hanare_system_show(what->inst, path, &what->node);
	return what->show || what->refusal;
}

static bool recognise(struct hanare_pseudo *what, struct file *file)
{
	bool is_file = S_ISREG(file_inode(file)->i_mode) && file->f_mode & FMODE_READ;
	char buffer[HANARE_PSEUDO_PATH_MAX], *path;

	path = hanare_path_in(file, SYSFS_MAGIC, buffer);
	if (path && !strncmp(path, "/devices/system/", 16))
		return recognise_system(what, path + 16, is_file);
	/* The LWK merges no pages. */
	if (path && !strncmp(path, "/kernel/mm/ksm", 14) && (!path[14] || path[14] == '/')) {
		what->refusal = -ENOENT;
		return true;
	}
	if (path) {
		is_file &= !strncmp(path, "/devices/pci", 12);
		what->show = is_file ? hanare_device_show(file->f_path.dentry, &what->node) : NULL;
		return what->show;
	}
	path = hanare_path_in(file, PROC_SUPER_MAGIC, buffer);
	if (path)
		return recognise_proc(what, file, path);
	if (!is_file)
		return false;
	if (is_cgroup(file_inode(file)->i_sb->s_magic)) {
		what->show = hanare_cgroup_show(file->f_path.dentry->d_name.name);
		what->node = -1;
		return what->show;
	}
	return false;
}

/* ---- our files ---- */

static struct vfsmount *pseudo_mount;

static void pseudo_free(struct hanare_pseudo *what)
{
	if (!what)
		return;
	if (what->linux_file)
		fput(what->linux_file);
	hanare_forget_process(what);
	if (what->inst)
		hanare_instance_put(what->inst);
	kfree(what);
}

/* False: the process is gone, and its parent has waited for it. */
static bool is_there(const struct hanare_pseudo *what)
{
	bool is_there;

	rcu_read_lock();
	is_there = !what->space || pid_task(what->pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return is_there;
}

/* A position behind every part. */
#define BEHIND LLONG_MAX

static void *first_part(struct seq_file *m, loff_t *at)
{
	return *at == BEHIND ? NULL : m->private;
}

static void *part_behind(struct seq_file *m, void *shown, loff_t *at)
{
	struct hanare_reading *reading = m->private;

	/* Never backwards, so that the loop ends whatever the LWK answers. */
	*at = reading->next > *at && reading->next < BEHIND ? reading->next : BEHIND;
	return first_part(m, at);
}

static void end_parts(struct seq_file *m, void *shown)
{
}

static int show_part(struct seq_file *m, void *unused)
{
	struct hanare_reading *reading = m->private;
	struct hanare_pseudo *what = reading->what;
	int err = -EIO;

	reading->next = 0;
	if (!is_there(what))
		return -ESRCH;
	/*
	 * Of a process: takes inst->live where it asks, not while it waits for that process' memory
	 * map or memory, which may be a file whose server does not answer.
	 */
	if (what->space)
		return what->show(m, what);
	down_read(&what->inst->live);
	if (what->inst->reach.shared)
		err = what->show(m, what);
	up_read(&what->inst->live);
	return err;
}

static const struct seq_operations parts = {
	.start	= first_part,
	.next	= part_behind,
	.stop	= end_parts,
	.show	= show_part,
};

static int pseudo_open(struct inode *inode, struct file *file)
{
	struct hanare_reading *reading = __seq_open_private(file, &parts, sizeof(*reading));

	if (!reading)
		return -ENOMEM;
	reading->what = inode->i_private;
	return 0;
}

static int pseudo_release(struct inode *inode, struct file *file)
{
	/* Without private data it could not be opened. */
	return file->private_data ? seq_release_private(inode, file) : 0;
}

static struct file *linux_file_of(struct file *file)
{
	struct hanare_pseudo *what = file_inode(file)->i_private;

	return what->linux_file;
}

/* Where the end is, if anywhere, Linux' file knows. */
static loff_t pseudo_llseek(struct file *file, loff_t offset, int whence)
{
	if (whence != SEEK_SET && whence != SEEK_CUR) {
		offset = vfs_llseek(linux_file_of(file), offset, whence);
		if (offset < 0)
			return offset;
		whence = SEEK_SET;
	}
	return seq_lseek(file, offset, whence);
}

/* As procfs says it of files that only show something. */
static ssize_t pseudo_write(struct file *file, const char __user *from, size_t bytes,
			    loff_t *position)
{
	return -EIO;
}

/* Where Linux' file has nothing to write back, it says whether that is an error. */
static int pseudo_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return vfs_fsync_range(linux_file_of(file), start, end, datasync);
}

/* poll(2) never reports a change. */
static __poll_t pseudo_poll(struct file *file, poll_table *table)
{
	return DEFAULT_POLLMASK;
}

#define PSEUDO_FOPS					\
	.owner		= THIS_MODULE,			\
	.open		= pseudo_open,			\
	.read		= seq_read,			\
	.read_iter	= seq_read_iter,		\
	.write		= pseudo_write,			\
	.fsync		= pseudo_fsync,			\
	.splice_read	= hanare_splice_read,		\
	.llseek		= pseudo_llseek,		\
	.release	= pseudo_release

static const struct file_operations pseudo_fops = { PSEUDO_FOPS };
/* In place of one that can be polled: epoll(7) takes no others. */
static const struct file_operations pseudo_poll_fops = { PSEUDO_FOPS, .poll = pseudo_poll };

/* Whether a file is one of procfs, or ours in its place. */
bool hanare_shows_procfs(struct file *file)
{
	if (file_inode(file)->i_sb == pseudo_mount->mnt_sb)
		file = linux_file_of(file);
	return file_inode(file)->i_sb->s_magic == PROC_SUPER_MAGIC;
}

/* Every reader sees Linux' file: its number, device, owner, times. */
static int pseudo_getattr(HANARE_IDMAP *idmap, const struct path *path, struct kstat *stat,
			  u32 mask, unsigned int flags)
{
	struct hanare_pseudo *what = d_inode(path->dentry)->i_private;

	/* 6.12 has flags of its own there that this function must not be given. */
	return vfs_getattr(&what->linux_file->f_path, stat, mask, flags & AT_STATX_SYNC_TYPE);
}

/*
 * Mode and owner are Linux' file's to change, or to keep. Our inode has the same, by which it is
 * opened again.
 */
static int pseudo_setattr(HANARE_IDMAP *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry), *of_linux;
	struct hanare_pseudo *what = inode->i_private;
	const struct path *path = &what->linux_file->f_path;
	int err = mnt_want_write(path->mnt);

	if (err)
		return err;
	of_linux = d_inode(path->dentry);
	attr->ia_valid &= ~(ATTR_FILE | ATTR_OPEN);
	/* Linux has made a mode of these already, of our inode's: it does so again, of its own. */
	if (attr->ia_valid & (ATTR_KILL_SUID | ATTR_KILL_SGID))
		attr->ia_valid &= ~ATTR_MODE;
	inode_lock(of_linux);
	err = notify_change(hanare_idmap(path->mnt), path->dentry, attr, NULL);
	inode_unlock(of_linux);
	mnt_drop_write(path->mnt);
	if (err)
		return err;
	inode->i_mode = of_linux->i_mode;
	inode->i_uid = of_linux->i_uid;
	inode->i_gid = of_linux->i_gid;
	return 0;
}

static const struct inode_operations pseudo_iops = {
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
};

static int pseudo_statfs(struct dentry *dentry, struct kstatfs *buf)
{
	struct hanare_pseudo *what = d_inode(dentry)->i_private;

	return what ? vfs_statfs(&what->linux_file->f_path, buf) : simple_statfs(dentry, buf);
}

static void pseudo_evict(struct inode *inode)
{
	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	pseudo_free(inode->i_private);
}

static const struct super_operations pseudo_sops = {
	.statfs		= pseudo_statfs,
	.evict_inode	= pseudo_evict,
};

static char *pseudo_name(struct dentry *dentry, char *buffer, int size)
{
	struct hanare_pseudo *what = d_inode(dentry)->i_private;

	return d_path(&what->linux_file->f_path, buffer, size);
}

static const struct dentry_operations pseudo_dops = { .d_dname = pseudo_name };

static int pseudo_context(struct fs_context *fc)
{
	struct pseudo_fs_context *ctx = init_pseudo(fc, HANARE_MAGIC & 0xffffffff);

	if (!ctx)
		return -ENOMEM;
	ctx->ops = &pseudo_sops;
	ctx->dops = &pseudo_dops;
	return 0;
}

/* No owner: its one mount would keep the module for ever; open files hold it. */
static struct file_system_type pseudo_type = {
	.name			= "hanare",
	.init_fs_context	= pseudo_context,
	.kill_sb		= kill_anon_super,
};

int hanare_pseudo_init(void)
{
	pseudo_mount = kern_mount(&pseudo_type);
	return PTR_ERR_OR_ZERO(pseudo_mount);
}

void hanare_pseudo_exit(void)
{
	kern_unmount(pseudo_mount);
}

/* Takes `what` over, also when it fails. */
static struct file *pseudo_file(struct hanare_pseudo *what)
{
	struct inode *from = file_inode(what->linux_file);
	const struct file_operations *fops = what->fops ?:
		(file_can_poll(what->linux_file) ? &pseudo_poll_fops : &pseudo_fops);
	struct inode *inode = new_inode(pseudo_mount->mnt_sb);
	struct file *file;
	int err;

	if (!inode) {
		pseudo_free(what);
		return ERR_PTR(-ENOMEM);
	}
	inode->i_ino = from->i_ino;
	inode->i_mode = from->i_mode;
	inode->i_uid = from->i_uid;
	inode->i_gid = from->i_gid;
	inode->i_op = &pseudo_iops;
	inode->i_fop = fops;
	inode->i_private = what;
	file = alloc_file_pseudo(inode, pseudo_mount, "file", what->linux_file->f_flags, fops);
	if (IS_ERR(file)) {
		iput(inode);
		return file;
	}
	/* Given back when the file is closed. */
	__module_get(THIS_MODULE);
	file->f_mode |= FMODE_LSEEK | FMODE_PREAD | (what->fops ? FMODE_PWRITE : 0);
	err = what->fops ? 0 : pseudo_open(inode, file);
	if (err) {
		fput(file);
		return ERR_PTR(err);
	}
	return file;
}

static long replace(struct hanare_pseudo *what, struct hanare_opened *arg)
{
	struct file *file = pseudo_file(what);
	int fd;

	if (IS_ERR(file))
		return PTR_ERR(file);
	/* The program knows neither number yet; freed first, so that one is there. */
	close_fd(arg->fd);
	fd = get_unused_fd_flags(arg->close_on_exec ? O_CLOEXEC : 0);
	if (fd < 0) {
		fput(file);
		return fd;
	}
	fd_install(fd, file);
	arg->fd = fd;
	return 0;
}

/*
 * /dev/userfaultfd: faults of the program are the LWK's, and its memory is none that a
 * userfaultfd(2) may register. It is known by its name; another number it has on each machine.
 */
static bool is_userfaultfd(struct file *file)
{
	return S_ISCHR(file_inode(file)->i_mode) && imajor(file_inode(file)) == MISC_MAJOR &&
	       !strcmp(file->f_path.dentry->d_name.name, "userfaultfd");
}

long hanare_opened(struct hanare_space *space, void *data)
{
	struct hanare_opened *arg = data;
	struct hanare_pseudo *what;
	unsigned long magic;
	struct file *file;
	long err = 0;

	arg->shows = 0;
	/* Also of O_PATH: what is not there cannot be named, either. */
	file = fget_raw(arg->fd);
	if (!file)
		return 0;
	if (is_userfaultfd(file)) {
		arg->shows = HANARE_OPENED_NOTHING;
		fput(file);
		return 0;
	}
	magic = file_inode(file)->i_sb->s_magic;
	if (magic != PROC_SUPER_MAGIC && magic != SYSFS_MAGIC && !is_cgroup(magic)) {
		fput(file);
		return 0;
	}
	what = kzalloc(sizeof(*what), GFP_KERNEL_ACCOUNT);
	if (!what) {
		fput(file);
		return -ENOMEM;
	}
	what->linux_file = file;
	what->inst = space->inst;
	kref_get(&what->inst->ref);
	if (!recognise(what, file)) {
		pseudo_free(what);
		return 0;
	}
	/* Of a process on another instance: that one is asked. */
	if (what->space && what->space->inst != what->inst) {
		hanare_instance_put(what->inst);
		what->inst = what->space->inst;
		kref_get(&what->inst->ref);
	}
	arg->shows = HANARE_OPENED_OURS;
	if (arg->replace && !what->refusal)
		return replace(what, arg);
	if (arg->replace) {
		close_fd(arg->fd);
		err = what->refusal;
	}
	pseudo_free(what);
	return err;
}
