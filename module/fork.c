// SPDX-License-Identifier: GPL-2.0
/* A space that comes from another by fork, and what becomes of a space's CPU time. */
#include "hanare.h"

#include <linux/cred.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

/*
 * The child of a fork, on the descriptor of its parent that it inherited: a
 * descriptor of its own. The caller closes the inherited one.
 */
static int child_of(struct hanare_space *parent, struct file *file, struct hanare_child *arg)
{
	struct hanare_instance *inst = parent->inst;
	u8 message[HANARE_MESSAGE_SIZE];
	int err;

	down_read(&inst->live);
	err = READ_ONCE(inst->dead) ?:
	      hanare_space_enter(inst, file, parent->allowed, parent, arg->token, message);
	up_read(&inst->live);
	if (err)
		return err;
	arg->space = ((struct hanare_file *)file->private_data)->space->id;
	arg->whole = ((struct hanare_file *)file->private_data)->space->whole;
	arg->reserved = 0;
	return 0;
}

long hanare_fork_command(struct file *file, struct hanare_space *parent, void __user *to)
{
	const struct cred *caller;
	struct hanare_child arg;
	struct file *own;
	int fd, err;

	if (copy_from_user(&arg, to, sizeof(arg)))
		return -EFAULT;
	if (!current->mm || current->mm == parent->mm)
		return -EINVAL;
	if (test_bit(0, &parent->ended))
		return -ESRCH;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	/*
	 * The same inode, so that what is mapped by it is found when it is zapped. With
	 * the rights of whoever opened the parent's: it is not the program that opens
	 * something, and what it may open (Landlock) does not matter.
	 */
	caller = override_creds(file->f_cred);
	own = dentry_open(&file->f_path, O_RDWR | O_CLOEXEC, file->f_cred);
	revert_creds(caller);
	if (IS_ERR(own)) {
		err = PTR_ERR(own);
		goto put_fd;
	}
	err = child_of(parent, own, &arg);
	if (err)
		goto put;
	arg.fd = fd;
	if (copy_to_user(to, &arg, sizeof(arg))) {
		err = -EFAULT;
		goto put;
	}
	fd_install(fd, own);
	return 0;
put:
	fput(own);
put_fd:
	put_unused_fd(fd);
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
