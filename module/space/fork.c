// SPDX-License-Identifier: GPL-2.0
/* A space that comes from another, by fork or execve. */
#include "space/space.h"

#include <linux/cred.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/uaccess.h>

/* The caller's space, with a reference, or an error. */
static struct hanare_space *child_of(struct hanare_space *parent, struct inode *inode,
				     struct hanare_child *arg)
{
	struct hanare_instance *inst = parent->inst;
	u8 message[HANARE_MESSAGE_SIZE];
	struct hanare_space *space;
	int err;

	down_read(&inst->live);
	err = READ_ONCE(inst->dead);
	space = err ? ERR_PTR(err) :
		hanare_space_enter(inst, inode, parent->link.allowed, parent, arg, NULL, false, message);
	up_read(&inst->live);
	if (IS_ERR(space))
		return space;
	space->door.fd = parent->door.fd;
	arg->space = space->id;
	arg->parts = space->memory.parts;
	return space;
}

/*
 * Makes descriptor `fd` of the caller another file, as dup2(2) does but without limits: the
 * program may have lowered its own below the number, and its table may be full. The old
 * file stays until the caller returns to user mode, as ever.
 */
static int replace_file(u32 fd, struct file *old, struct file *new)
{
	struct files_struct *files = current->files;
	struct fdtable *fdt;
	int err = -EBADF;

	spin_lock(&files->file_lock);
	fdt = files_fdtable(files);
	if (fd < fdt->max_fds && rcu_access_pointer(fdt->fd[fd]) == old) {
		rcu_assign_pointer(fdt->fd[fd], new);
		err = 0;
	}
	spin_unlock(&files->file_lock);
	return err ?: filp_close(old, files);
}

/*
 * A child with the descriptor table of its parent, in which the descriptor stays the parent's.
 * The watch over its process (share.c) and what it maps keep its space.
 */
static int enter_through(struct file *door, struct hanare_space *parent, struct hanare_child *arg)
{
	struct hanare_space *space = child_of(parent, file_inode(door), arg);

	if (IS_ERR(space))
		return PTR_ERR(space);
	space->door.file = door;
	WRITE_ONCE(space->door.shares_table, true);
	WRITE_ONCE(parent->door.shares_table, true);
	hanare_space_put(space);
	return 0;
}

/* A space behind a descriptor of its own, which the inherited one of the parent becomes. */
static int enter_own(struct file *file, struct hanare_space *parent, struct hanare_child *arg)
{
	struct hanare_space *space;
	const struct cred *caller;
	struct file *own;
	int err = 0;

	/*
	 * The same inode, so that what is mapped by it is found when it is zapped. With the rights
	 * by which the parent's was opened: it is not the program that opens something, and what it
	 * may open (Landlock) does not matter.
	 */
	caller = override_creds(file->f_cred);
	own = dentry_open(&file->f_path, O_RDWR | O_CLOEXEC, file->f_cred);
	revert_creds(caller);
	if (IS_ERR(own))
		return PTR_ERR(own);
	/*
	 * Before the LWK hears of it: a parent that has waited (vfork) goes on then, and may look.
	 */
	if (arg->program)
		hanare_set_exe(parent, arg->files[0]);
	space = child_of(parent, file_inode(file), arg);
	if (IS_ERR(space)) {
		fput(own);
		return PTR_ERR(space);
	}
	hanare_file_set_space(own, space);
	if (arg->program) {
		err = hanare_space_move_file(space, parent, arg->files[0]) ?:
		      hanare_space_move_file(space, parent, arg->files[1]) ?:
		      hanare_space_move_file(space, parent, arg->files[2]);
		/* Whatever failed: to the LWK it is not one of the parent's any more. */
		hanare_space_leave(parent);
	}
	err = err ?: replace_file(parent->door.fd, file, own);
	if (err)
		fput(own);
	return err;
}

/*
 * The space from which the caller comes, with a reference, if it is served by `file`, a descriptor
 * of `of`. It may have ended, where its maker has gone on (`*keeps`).
 */
static struct hanare_space *parent_by(struct file *file, struct hanare_space *of, const struct hanare_child *arg,
				      bool *keeps)
{
	struct hanare_space *parent = hanare_child_maker(arg);

	*keeps = parent;
	if (!parent)
		parent = hanare_space_find(arg->parent);
	if (!parent || parent == of || parent->door.file == file)
		return parent;
	hanare_space_put(parent);
	return ERR_PTR(-EPERM);
}

/*
 * The child of a fork, or a process that left its space by execve, on a descriptor that it
 * inherited: one of `of`, its parent's space, or of another with the same descriptor table.
 */
long hanare_fork_command(struct file *file, struct hanare_space *of, void __user *to)
{
	struct hanare_space *parent;
	struct hanare_child arg;
	bool keeps;
	int err;

	if (copy_from_user(&arg, to, sizeof(arg)))
		return -EFAULT;
	if (arg.program > 1 || arg.secure > 1 || arg.shares_table > 1 ||
	    (arg.program && arg.shares_table))
		return -EINVAL;
	parent = parent_by(file, of, &arg, &keeps);
	if (IS_ERR_OR_NULL(parent))
		return parent ? PTR_ERR(parent) : -ESRCH;
	if (!current->mm || current->mm == parent->mm)
		err = -EINVAL;
	else if (test_bit(0, &parent->ended) && !keeps)
		err = -ESRCH;
	/*
	 * Other memory is no execve: a child has it, too. Only by one that Linux has judged does
	 * the process itself get it.
	 */
	else if (arg.program && !hanare_space_is_left_by(parent, task_tgid(current)))
		err = -EPERM;
	else if (arg.shares_table)
		err = enter_through(file, parent, &arg);
	else
		err = enter_own(file, parent, &arg);
	if (!err)
		hanare_child_came(task_tgid(current));
	/* The old space may have no descriptor of its own, whose close would end it. */
	if (arg.program)
		hanare_space_flush(parent);
	hanare_space_put(parent);
	if (!err && copy_to_user(to, &arg, sizeof(arg)))
		err = -EFAULT;
	return err;
}
