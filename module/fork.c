// SPDX-License-Identifier: GPL-2.0
/* A space that comes from another by fork, and what becomes of a space's CPU time. */
#include "hanare.h"

#include <linux/cred.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

static int child_of(struct hanare_space *parent, struct file *file, struct hanare_child *arg)
{
	struct hanare_instance *inst = parent->inst;
	u8 message[HANARE_MESSAGE_SIZE];
	struct hanare_space *space;
	int err;

	down_read(&inst->live);
	err = READ_ONCE(inst->dead) ?:
	      hanare_space_enter(inst, file, parent->allowed, parent, arg->token, message);
	up_read(&inst->live);
	if (err)
		return err;
	space = ((struct hanare_file *)file->private_data)->space;
	space->control_fd = parent->control_fd;
	arg->space = space->id;
	arg->whole = space->whole;
	return 0;
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
 * The child of a fork, on the descriptor of its parent that it inherited, which becomes
 * one of its own.
 */
long hanare_fork_command(struct file *file, struct hanare_space *parent, void __user *to)
{
	const struct cred *caller;
	struct hanare_child arg;
	struct file *own;
	int err;

	if (copy_from_user(&arg, to, sizeof(arg)))
		return -EFAULT;
	if (!current->mm || current->mm == parent->mm)
		return -EINVAL;
	if (test_bit(0, &parent->ended))
		return -ESRCH;
	/*
	 * The same inode, so that what is mapped by it is found when it is zapped. With
	 * the rights of whoever opened the parent's: it is not the program that opens
	 * something, and what it may open (Landlock) does not matter.
	 */
	caller = override_creds(file->f_cred);
	own = dentry_open(&file->f_path, O_RDWR | O_CLOEXEC, file->f_cred);
	revert_creds(caller);
	if (IS_ERR(own))
		return PTR_ERR(own);
	err = child_of(parent, own, &arg);
	if (!err && copy_to_user(to, &arg, sizeof(arg)))
		err = -EFAULT;
	err = err ?: replace_file(parent->control_fd, file, own);
	if (err)
		fput(own);
	return err;
}

/*
 * What the program has used counts as the proxy's own: for whoever waits for it,
 * for getrusage(RUSAGE_CHILDREN) and process accounting. No thread of the proxy is
 * left but this one, which is about to end.
 */
void hanare_account(struct hanare_space *space, const struct hanare_call *call)
{
	struct signal_struct *sig = current->signal;
	u64 user = call->args[0], system = call->args[1];
	unsigned long peak = min_t(u64, call->args[2] >> PAGE_SHIFT, LONG_MAX);
	/* An LWK gone mad must not make Linux' sums overflow. */
	const u64 limit = 1ULL << 60;

	if (task_tgid(current) != space->pid || !(current->flags & PF_EXITING) ||
	    user > limit || system > limit)
		return;
	write_seqlock_irq(&sig->stats_lock);
	sig->utime += user;
	sig->stime += system;
	sig->sum_sched_runtime += user + system;
	sig->maxrss = max(sig->maxrss, peak);
	write_sequnlock_irq(&sig->stats_lock);
}
