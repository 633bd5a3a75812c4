// SPDX-License-Identifier: GPL-2.0
/*
 * What a program's standard error output is told of its end where the proxy cannot: it is
 * killed, and says nothing any more.
 */
#include "space/service.h"

#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/net.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define STDERR 2

/* How long a process that is to be killed may be kept for its line. */
#define PATIENCE_MS 500

struct line {
	struct kref ref;
	struct work_struct work;
	struct completion written;
	struct file *to;
	const struct cred *cred;
	size_t length;
	char text[256];
};

/* A file may be slow: only its own work waits for it. */
static struct workqueue_struct *queue;

static void free_line(struct kref *ref)
{
	struct line *line = container_of(ref, struct line, ref);

	if (line->to)
		fput(line->to);
	put_cred(line->cred);
	kfree(line);
}

static void write_message(const struct line *line, struct socket *socket)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec part = { .iov_base = (char *)line->text, .iov_len = line->length };

	kernel_sendmsg(socket, &message, &part, 1, line->length);
}

/* Writes the line behind what was written to the file before. */
static void write_text(const struct line *line)
{
	struct file *file = line->to;

	mutex_lock(&file->f_pos_lock);
	kernel_write(file, line->text, line->length, &file->f_pos);
	mutex_unlock(&file->f_pos_lock);
}

/* By a description of its own, since the program's may block: a full pipe, a stopped terminal. */
static void write_stream(const struct line *line)
{
	struct file *own = dentry_open(&line->to->f_path, O_WRONLY | O_NONBLOCK | O_NOCTTY,
				       line->cred);

	if (IS_ERR(own))
		return;
	kernel_write(own, line->text, line->length, NULL);
	fput(own);
}

static void write_line(struct work_struct *work)
{
	struct line *line = container_of(work, struct line, work);
	const struct cred *own = override_creds(line->cred);
	umode_t mode = file_inode(line->to)->i_mode;
	struct socket *socket = sock_from_file(line->to);

	if (socket)
		write_message(line, socket);
	else if (!(line->to->f_mode & FMODE_WRITE))
		;
	else if (S_ISREG(mode))
		write_text(line);
	else if (S_ISCHR(mode) || S_ISFIFO(mode))
		write_stream(line);
	revert_creds(own);
	complete_all(&line->written);
	kref_put(&line->ref, free_line);
}

static int take_stderr(const void *to, struct file *file, unsigned int fd)
{
	if (fd == STDERR)
		*(struct file **)to = get_file(file);
	return 1;
}

static const char *memory_of(u64 whose)
{
	switch (whose) {
	case HANARE_OUT_GROUP:
		return "its control group has all the memory that it may have";
	case HANARE_OUT_NODES:
		return "there is no memory left on the NUMA nodes of a policy";
	case HANARE_OUT_USER:
		return "its user has all the memory that one may have";
	default:
		return "there is no memory left";
	}
}

/* A process that shares the space has the same name, or is close to it. */
static struct line *line_of(struct hanare_space *space, u64 used, u64 total, u64 whose)
{
	struct task_struct *task = get_pid_task(space->pid, PIDTYPE_TGID);
	const char *instance = space->inst->name;
	char name[TASK_COMM_LEN], *c;
	struct line *line;

	if (!task)
		return NULL;
	line = kzalloc(sizeof(*line), GFP_KERNEL);
	if (!line)
		goto put;
	kref_init(&line->ref);
	init_completion(&line->written);
	INIT_WORK(&line->work, write_line);
	line->cred = get_task_cred(task);
	get_task_comm(name, task);
	for (c = name; *c; c++)
		if (!isascii(*c) || !isprint(*c))
			*c = '?';
	line->length = scnprintf(line->text, sizeof(line->text),
		"hanare: %s was killed: %s on the instance '%s' (%llu of %llu MiB used); see: hanare log %s\n",
		name, memory_of(whose), instance, used >> 20, total >> 20, instance);
	task_lock(task);
	if (task->files)
		iterate_fd(task->files, STDERR, take_stderr, &line->to);
	task_unlock(task);
put:
	put_task_struct(task);
	return line;
}

void hanare_say_killed(struct hanare_space *space, u64 used, u64 total, u64 whose)
{
	struct line *line = line_of(space, used, total, whose);

	if (!line)
		return;
	if (line->to) {
		kref_get(&line->ref);
		queue_work(queue, &line->work);
		wait_for_completion_timeout(&line->written, msecs_to_jiffies(PATIENCE_MS));
	}
	kref_put(&line->ref, free_line);
}

int hanare_stderr_init(void)
{
	queue = alloc_workqueue("hanare_stderr", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

void hanare_stderr_exit(void)
{
	destroy_workqueue(queue);
}
