// SPDX-License-Identifier: GPL-2.0
/* The calls of a proxy: its descriptor becomes a space's, and what is asked of that. */
#include "device/device.h"

#include <linux/slab.h>
#include <linux/uaccess.h>

/*
 * The space that a descriptor of `space` serves for the caller, with a reference: `space`
 * itself, or that of a process which has the descriptor in the same table (CLONE_FILES).
 * NULL: the caller is a process that inherited the descriptor or was sent it.
 */
static struct hanare_space *served(struct hanare_space *space, struct file *file)
{
	struct hanare_space *own;

	if (current->mm == space->mm) {
		kref_get(&space->ref);
		return space;
	}
	own = hanare_space_of_caller();
	if (own && own->door.file != file) {
		hanare_space_put(own);
		own = NULL;
	}
	return own;
}

struct space_command {
	unsigned int cmd;
	long (*call)(struct hanare_space *space, void *data);
};

static const struct space_command space_commands[] = {
	{ HANARE_IOCTL_SERVE, hanare_serve_own },
	{ HANARE_IOCTL_SIGNAL, hanare_signal },
	{ HANARE_IOCTL_USAGE, hanare_usage },
	{ HANARE_IOCTL_START, hanare_start },
	{ HANARE_IOCTL_DUMP, hanare_dump },
	{ HANARE_IOCTL_DUMP_THREAD, hanare_dump_thread },
	{ HANARE_IOCTL_OPENED, hanare_opened },
	{ HANARE_IOCTL_LISTED, hanare_listed },
	{ HANARE_IOCTL_EXECED, hanare_execed },
	{ HANARE_IOCTL_RIGHTS, hanare_rights },
	{ HANARE_IOCTL_SUCCEED, hanare_succeed },
	{ HANARE_IOCTL_SHARE, hanare_share },
	{ HANARE_IOCTL_LAST, hanare_last },
	{ HANARE_IOCTL_SEND, hanare_send },
	{ HANARE_IOCTL_COPY, hanare_copy },
	{ HANARE_IOCTL_FORWARD, hanare_forward },
	{ HANARE_IOCTL_EXECUTE, hanare_execute },
	{ HANARE_IOCTL_EVENTFD, hanare_eventfd },
};

/*
 * Those that a worker makes between calls: no table, and no argument in memory. The
 * descriptor keeps its own space; that of another descriptor's owner needs a reference.
 */
long hanare_space_wake(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_space *space = smp_load_acquire(&hf->space), *own = NULL;
	long err;

	if (!space)
		return -EBADF;
	if (current->mm != space->mm) {
		space = own = served(space, file);
		if (!own)
			return -EPERM;
	}
	if (cmd == HANARE_IOCTL_WAIT)
		err = hanare_wait(space, arg);
	else if (cmd == HANARE_IOCTL_RING)
		err = hanare_ring(space, arg);
	else if (cmd == HANARE_IOCTL_WORKER)
		err = hanare_worker(space, arg);
	else
		err = hanare_pool_serves(space, arg);
	if (own)
		hanare_space_put(own);
	return err;
}

static long attach_command(struct file *file, void __user *arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_attach *data = memdup_user(arg, sizeof(*data));
	long err;

	if (IS_ERR(data))
		return PTR_ERR(data);
	if (mutex_lock_killable(&hf->lock)) {
		kfree(data);
		return -EINTR;
	}
	err = hanare_attach(file, data);
	mutex_unlock(&hf->lock);
	if (copy_to_user(arg, data, sizeof(*data)) && !err)
		err = -EFAULT;
	kfree(data);
	return err;
}

long hanare_space_ioctl(struct file *file, unsigned int cmd, void __user *arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_space *space = smp_load_acquire(&hf->space);
	/* The largest argument of these calls. */
	union {
		struct hanare_signal signal;
		struct hanare_dump_thread dump_thread;
		struct hanare_send send;
	} data;
	size_t size = _IOC_SIZE(cmd), i;
	long err;

	if (cmd == HANARE_IOCTL_ATTACH)
		return attach_command(file, arg);
	for (i = 0; i < ARRAY_SIZE(space_commands); i++)
		if (space_commands[i].cmd == cmd)
			break;
	if (i == ARRAY_SIZE(space_commands) && cmd != HANARE_IOCTL_CHILD)
		return -ENOTTY;
	if (!space)
		return -EBADF;
	/* No program runs in the space of a pooled proxy. */
	if (space->is_member)
		return -EINVAL;
	if (cmd == HANARE_IOCTL_CHILD)
		return hanare_fork_command(file, space, arg);
	BUILD_BUG_ON(sizeof(data) < sizeof(struct hanare_usage));
	space = served(space, file);
	if (!space)
		return -EPERM;
	err = copy_from_user(&data, arg, size) ? -EFAULT : space_commands[i].call(space, &data);
	hanare_space_put(space);
	if ((cmd == HANARE_IOCTL_USAGE || cmd == HANARE_IOCTL_OPENED ||
	     cmd == HANARE_IOCTL_LISTED || cmd == HANARE_IOCTL_RIGHTS) && !err && copy_to_user(arg, &data, size))
		err = -EFAULT;
	return err;
}
