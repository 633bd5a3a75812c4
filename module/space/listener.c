// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners of filters of system calls (SECCOMP_FILTER_FLAG_NEW_LISTENER): docs/seccomp.md.
 *
 * A program's filter is its worker's, too, so the listener is Linux' own, with all that it does:
 * its waiters, notifications, descriptors that are added, what becomes of a target or a supervisor
 * that dies. What stands in front of it here only reads and writes what its supervisor gets and
 * gives: of a call that the LWK serves Linux notifies one that stands for it (NR_NOTIFY), and the
 * supervisor reads the call that it stands for.
 *
 * Which call that is comes from the LWK (SERVICE_NOTIFY), and whether it goes on is told to the LWK
 * from here (SERVICE_CONTINUED): a proxy, which a program may have forged, has no say in either.
 */
#include "space/service.h"

#include <linux/anon_inodes.h>
#include <linux/audit.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/seccomp.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define NAME "seccomp notify"

struct listener {
	struct file *of_linux;		/* given back with the file that stands in front of it */
	u64 id;
	refcount_t users;		/* that file, and tasks that found it by its id */
	struct mutex answering;
	spinlock_t lock;
	struct list_head calls;		/* one of each task at most, and of tasks that are gone until the next comes */
};

/* What the LWK has said of a task's call. */
struct call {
	struct list_head list;
	struct pid *pid;
	struct seccomp_data data;
	u64 key;
	u64 id;				/* of Linux' notification of it; valid if `received` */
	bool received, continued, execve;
	bool answered;			/* that notification is */
};

/* By their ids. Neither these nor keys are ever given out twice. */
static DEFINE_XARRAY(listeners);
static atomic64_t last_id, last_key;

static void call_free(struct call *call)
{
	if (!call)
		return;
	put_pid(call->pid);
	kfree(call);
}

static void listener_put(struct listener *listener)
{
	struct call *call, *next;

	if (!refcount_dec_and_test(&listener->users))
		return;
	list_for_each_entry_safe(call, next, &listener->calls, list)
		call_free(call);
	kfree(listener);
}

static struct listener *listener_find(u64 id)
{
	struct listener *listener;

	xa_lock(&listeners);
	listener = xa_load(&listeners, id);
	if (listener && !refcount_inc_not_zero(&listener->users))
		listener = NULL;
	xa_unlock(&listeners);
	return listener;
}

static struct call *call_find(struct listener *listener, u64 key)
{
	struct call *call;

	list_for_each_entry(call, &listener->calls, list)
		if (call->key == key)
			return call;
	return NULL;
}

/* ---- what the supervisor does ---- */

/*
 * Whether a notification is the first one of its call, or the call's once more: Linux makes a call
 * again by itself after a stop (SIGSTOP, a tracer, the freezer), and notifies it anew. One that has
 * gone on has had its decision: after that the same task may make one that the supervisor has not
 * decided about.
 */
static bool may_be_told(const struct call *call, u64 id, const struct pid *pid)
{
	return !call->received || call->id == id || (pid && call->pid == pid && !call->continued);
}

/* The call for which a notification of Linux' stands. */
static int translate(struct listener *listener, const struct seccomp_notif *notif, struct seccomp_data *data)
{
	struct call *call;
	bool stands = notif->data.nr == HANARE_NR_NOTIFY, is_same;
	int err = -ENOENT;
	struct pid *pid;

	rcu_read_lock();
	/*
	 * As the supervisor sees it: it deceives only itself, as the memory is its own. It may see
	 * none.
	 */
	pid = notif->pid ? find_vpid(notif->pid) : NULL;
	spin_lock(&listener->lock);
	list_for_each_entry(call, &listener->calls, list) {
		if (stands)
			is_same = call->key == notif->data.args[0] && !call->execve &&
				  (call->pid == pid || !notif->pid);
		else
			is_same = call->execve && call->pid == pid && call->data.nr == notif->data.nr;
		if (!is_same || !may_be_told(call, notif->id, pid))
			continue;
		*data = call->data;
		if (!call->received || call->id != notif->id)
			call->answered = false;
		call->id = notif->id;
		call->received = true;
		err = 0;
		break;
	}
	spin_unlock(&listener->lock);
	rcu_read_unlock();
	return err;
}

static long pass_on(struct listener *listener, unsigned int cmd, unsigned long arg)
{
	return listener->of_linux->f_op->unlocked_ioctl(listener->of_linux, cmd, arg);
}

/*
 * Of a call that no thread on the LWK waits for: a program has forged it, or a signal has come
 * meanwhile.
 */
static long turn_away(struct listener *listener, void __user *to, u64 id)
{
	struct seccomp_notif_resp resp = { .id = id, .error = -ENOSYS };

	if (copy_to_user(to, &resp, sizeof(resp)))
		return -EFAULT;
	pass_on(listener, SECCOMP_IOCTL_NOTIF_SEND, (unsigned long)to);
	return clear_user(to, sizeof(struct seccomp_notif)) ? -EFAULT : 0;
}

static long receive(struct listener *listener, unsigned long arg)
{
	struct seccomp_notif __user *to = (struct seccomp_notif __user *)arg;
	struct seccomp_notif notif;
	struct seccomp_data data;
	long err;

	err = pass_on(listener, SECCOMP_IOCTL_NOTIF_RECV, arg);
	if (err)
		return err;
	if (copy_from_user(&notif, to, sizeof(notif)))
		return -EFAULT;
	if (!translate(listener, &notif, &data))
		return copy_to_user(&to->data, &data, sizeof(data)) ? -EFAULT : 0;
	if (notif.data.nr != HANARE_NR_NOTIFY)
		return 0;
	/*
	 * As Linux says of a call that ended before it was told. No next one is waited for: it was
	 * there, poll(2) says.
	 */
	return turn_away(listener, to, notif.id) ?: -ENOENT;
}

/* The call of a notification that is not answered yet; under the lock. */
static struct call *unanswered(struct listener *listener, u64 id)
{
	struct call *call;

	list_for_each_entry(call, &listener->calls, list)
		if (call->received && call->id == id && !call->answered)
			return call;
	return NULL;
}

static void set_continued(struct listener *listener, u64 id, bool continued)
{
	struct call *call;

	spin_lock(&listener->lock);
	call = unanswered(listener, id);
	if (call)
		call->continued = continued;
	spin_unlock(&listener->lock);
}

static void set_answered(struct listener *listener, u64 id)
{
	struct call *call;

	spin_lock(&listener->lock);
	call = unanswered(listener, id);
	if (call)
		call->answered = true;
	spin_unlock(&listener->lock);
}

static long answer(struct listener *listener, unsigned long arg)
{
	struct seccomp_notif_resp resp;
	bool goes_on;
	long err;

	if (copy_from_user(&resp, (void __user *)arg, sizeof(resp)))
		return -EFAULT;
	/* Linux refuses others. */
	goes_on = resp.flags == SECCOMP_USER_NOTIF_FLAG_CONTINUE && !resp.error && !resp.val;
	/* One after the other: none takes back what another has said. */
	if (mutex_lock_killable(&listener->answering))
		return -EINTR;
	/* Before the answer: with it the call goes on at once. */
	if (goes_on)
		set_continued(listener, resp.id, true);
	err = pass_on(listener, SECCOMP_IOCTL_NOTIF_SEND, arg);
	if (!err)
		set_answered(listener, resp.id);
	else if (goes_on)
		set_continued(listener, resp.id, false);
	mutex_unlock(&listener->answering);
	return err;
}

static long listener_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct listener *listener = file->private_data;

	switch (cmd) {
	case SECCOMP_IOCTL_NOTIF_RECV:
		return receive(listener, arg);
	case SECCOMP_IOCTL_NOTIF_SEND:
		return answer(listener, arg);
	default:
		return pass_on(listener, cmd, arg);
	}
}

static __poll_t listener_poll(struct file *file, poll_table *table)
{
	struct listener *listener = file->private_data;

	return vfs_poll(listener->of_linux, table);
}

static int listener_release(struct inode *inode, struct file *file)
{
	struct listener *listener = file->private_data;

	xa_erase(&listeners, listener->id);
	fput(listener->of_linux);
	listener_put(listener);
	return 0;
}

static const struct file_operations listener_ops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = listener_ioctl,
	.compat_ioctl = listener_ioctl,
	.poll = listener_poll,
	.release = listener_release,
};

/* ---- what the LWK asks for ---- */

/*
 * Linux shows what its operations are nowhere; no user gives files of that file system their names.
 */
static bool is_of_linux(const struct file *file)
{
	return file->f_path.dentry->d_sb->s_magic == ANON_INODE_FS_MAGIC &&
	       !strcmp(file->f_path.dentry->d_name.name, NAME) &&
	       file->f_op != &listener_ops && file->f_op->unlocked_ioctl;
}

static struct file *listener_open(struct file *of_linux, u64 *id)
{
	struct listener *listener = kzalloc(sizeof(*listener), GFP_KERNEL_ACCOUNT);
	struct file *file;
	int err;

	if (!listener)
		return ERR_PTR(-ENOMEM);
	listener->of_linux = of_linux;
	listener->id = atomic64_inc_return(&last_id);
	refcount_set(&listener->users, 1);
	mutex_init(&listener->answering);
	spin_lock_init(&listener->lock);
	INIT_LIST_HEAD(&listener->calls);
	file = anon_inode_getfile(NAME, &listener_ops, listener, O_RDWR);
	if (IS_ERR(file)) {
		kfree(listener);
		return file;
	}
	*id = listener->id;
	get_file(of_linux);		/* given back with this file */
	err = xa_err(xa_store(&listeners, listener->id, listener, GFP_KERNEL_ACCOUNT));
	if (err) {
		fput(file);
		return ERR_PTR(err);
	}
	return file;
}

/* The descriptor closes by execve(2), as Linux' own does. */
long hanare_listener(struct hanare_job *job)
{
	struct file *of_linux = fget(job->args[0]), *file;
	u64 id = 0;
	int fd;

	if (!of_linux)
		return -EBADF;
	file = is_of_linux(of_linux) ? listener_open(of_linux, &id) : ERR_PTR(-EINVAL);
	fput(of_linux);
	if (IS_ERR(file))
		return PTR_ERR(file);
	close_fd(job->args[0]);
	fd = get_unused_fd_flags(O_CLOEXEC);	/* mostly the same one */
	if (fd < 0) {
		fput(file);
		return fd;
	}
	job->args[0] = id;
	fd_install(fd, file);
	return fd;
}

/* Takes what is known of the caller out of the list, and of tasks that are gone. */
static void forget_old(struct listener *listener, struct pid *pid, struct list_head *old)
{
	struct call *call, *next;

	list_for_each_entry_safe(call, next, &listener->calls, list)
		if (call->pid == pid || !pid_task(call->pid, PIDTYPE_PID))
			list_move(&call->list, old);
}

/*
 * The thread of the calling process that calls, with a reference. Whose worker runs the service
 * proves nothing: processes that share their memory may have been made to run each other's.
 */
static struct pid *pid_of_caller(const struct hanare_job *job)
{
	struct task_struct *task = hanare_task_of(job->args[3], job->space->mm);
	struct pid *pid = NULL;

	if (!task)
		return NULL;
	if (job->args[2] <= U32_MAX && hanare_space_is_process(job->space, task_tgid(task), job->args[2]))
		pid = get_pid(task_pid(task));
	put_task_struct(task);
	return pid;
}

long hanare_notify(struct hanare_job *job)
{
	struct listener *listener = listener_find(job->args[0]);
	struct call *call, *next;
	LIST_HEAD(old);
	long key;
	u32 i;

	BUILD_BUG_ON(HANARE_CALL_WORDS != 2 + ARRAY_SIZE(call->data.args));
	if (!listener)
		return -ENOSYS;
	call = job->count == HANARE_CALL_WORDS ? kzalloc(sizeof(*call), GFP_KERNEL_ACCOUNT) : NULL;
	if (!call) {
		listener_put(listener);
		return -ENOMEM;
	}
	call->pid = job->space ? pid_of_caller(job) : NULL;
	if (!call->pid) {
		listener_put(listener);
		kfree(call);
		return -ESRCH;
	}
	key = atomic64_inc_return(&last_key);
	call->key = key;
	call->execve = job->args[1] == HANARE_NOTIFY_EXECVE;
	call->data.nr = job->extents[0];
	call->data.arch = AUDIT_ARCH_X86_64;
	call->data.instruction_pointer = job->extents[1];
	for (i = 0; i < ARRAY_SIZE(call->data.args); i++)
		call->data.args[i] = job->extents[2 + i];
	rcu_read_lock();
	spin_lock(&listener->lock);
	forget_old(listener, call->pid, &old);
	list_add(&call->list, &listener->calls);
	spin_unlock(&listener->lock);
	rcu_read_unlock();
	list_for_each_entry_safe(call, next, &old, list)
		call_free(call);
	listener_put(listener);
	return key;
}

/*
 * Once: the next one of this thread, or of the program that it begins, may be one without a
 * decision.
 */
u64 hanare_take_execve_let_on(void)
{
	struct listener *listener;
	struct call *call, *next;
	LIST_HEAD(taken);
	unsigned long id;
	u64 key = 0;

	if (xa_empty(&listeners))
		return 0;
	xa_lock(&listeners);
	xa_for_each(&listeners, id, listener) {
		spin_lock(&listener->lock);
		list_for_each_entry_safe(call, next, &listener->calls, list)
			if (call->execve && call->continued && call->pid == task_pid(current))
				list_move(&call->list, &taken);
		spin_unlock(&listener->lock);
	}
	xa_unlock(&listeners);
	list_for_each_entry_safe(call, next, &taken, list) {
		key = max(key, call->key);
		call_free(call);
	}
	return key;
}

long hanare_continued(struct hanare_job *job)
{
	struct listener *listener = listener_find(job->args[0]);
	struct call *call;
	long continued = 0;

	if (!listener)
		return 0;
	if (!job->args[1]) {
		listener_put(listener);
		return 1;
	}
	spin_lock(&listener->lock);
	call = call_find(listener, job->args[1]);
	if (call) {
		continued = call->continued;
		list_del(&call->list);
	}
	spin_unlock(&listener->lock);
	call_free(call);
	listener_put(listener);
	return continued;
}
