// SPDX-License-Identifier: GPL-2.0
/* Asking the LWK about its processes: for /proc, and for hanare ps. */
#include "show/show.h"

#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/magic.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/proc_fs.h>
#include <linux/sched/signal.h>

#define INFO_MS 5000

/* About thread `tid`, or the first one if that is not there or 0. */
int hanare_space_info(struct hanare_space *space, u32 tid, struct hanare_process_info *info)
{
	u64 words[HANARE_PAGES_MAX];
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_PROCESS, tid },
		.pages = words,
	};
	int err = hanare_request_about(space, &call, WAIT_KILLABLE, INFO_MS);

	BUILD_BUG_ON(sizeof(*info) > sizeof(words));
	if (err || call.status)
		return err ?: min(call.status, 0) ?: -EIO;
	if (call.count * sizeof(u64) < sizeof(*info))
		return -EIO;
	memcpy(info, words, sizeof(*info));
	return 0;
}

/*
 * Up to HANARE_THREADS_AT_ONCE threads of the process with that number, or of the first one, and in
 * `from`, 0 at first, where to go on. How many, or -errno.
 */
int hanare_space_threads(struct hanare_space *space, u32 pid, u32 *from, struct hanare_thread_info *threads)
{
	u64 words[HANARE_PAGES_MAX];
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_THREADS, *from, pid },
		.pages = words,
	};
	int err = hanare_request_about(space, &call, WAIT_KILLABLE, INFO_MS);
	u32 count = min_t(u32, call.count * sizeof(u64) / sizeof(*threads), HANARE_THREADS_AT_ONCE);

	if (err || call.status)
		return err ?: min(call.status, 0) ?: -EIO;
	*from = call.args[1];
	memcpy(threads, words, count * sizeof(*threads));
	return count;
}

#define COUNT_BITS ((HANARE_PAGEMAP_RUN_MAX - 1) << HANARE_PAGEMAP_RUN_SHIFT)

/* Calls `each` for the pages of start..end, by address, until it fails. -ESRCH: no such process. */
int hanare_space_pagemap(struct hanare_space *space, u64 start, u64 end, hanare_pages_seen each, void *data)
{
	u64 words[HANARE_PAGES_MAX];
	u64 at = start;
	int err;
	u32 i;

	while (at < end) {
		struct hanare_call call = {
			.kind = HANARE_REQUEST_INFO,
			.args = { HANARE_INFO_PAGEMAP, at, end },
			.pages = words,
		};
		u64 last = at;

		if (fatal_signal_pending(current))
			return -EINTR;
		err = hanare_request_about(space, &call, WAIT_KILLABLE, INFO_MS);
		if (err || call.status)
			return err ?: min(call.status, 0) ?: -EIO;
		for (i = 0; i < min_t(u32, call.count, HANARE_PAGES_MAX) && at < end; i++) {
			u64 pages = ((words[i] & COUNT_BITS) >> HANARE_PAGEMAP_RUN_SHIFT) + 1;

			pages = min(pages, (end - at) >> PAGE_SHIFT);
			err = each(at, pages, words[i] & ~COUNT_BITS, data);
			if (err)
				return err;
			at += pages << PAGE_SHIFT;
		}
		/* So the loop ends, whatever the LWK answers. */
		if (at == last)
			return -EIO;
		cond_resched();
	}
	return 0;
}

/* Whether a path is what procfs itself has at PID/stat, in the caller's namespace of processes. */
static bool is_of_procfs(const struct path *path, u32 pid)
{
	struct super_block *sb = path->dentry->d_sb;
	char name[24], buffer[32], *found;

	if (sb->s_magic != PROC_SUPER_MAGIC || proc_pid_ns(sb) != task_active_pid_ns(current))
		return false;
	snprintf(name, sizeof(name), "/%u/stat", pid);
	found = dentry_path_raw(path->dentry, buffer, sizeof(buffer));
	return !IS_ERR(found) && !strcmp(found, name);
}

/* Without procfs: one's own, and what one may trace anyway. */
static bool is_own(struct hanare_space *space)
{
	struct task_struct *task = get_pid_task(space->pid, PIDTYPE_TGID);
	const struct cred *cred;
	bool own;

	if (!task)
		return false;
	cred = get_task_cred(task);
	own = uid_eq(current_euid(), cred->uid) || ns_capable(cred->user_ns, CAP_SYS_PTRACE);
	put_cred(cred);
	put_task_struct(task);
	return own;
}

/*
 * Whether the caller may see the space's process: as procfs answers (hidepid, pid namespace). A
 * caller with a mount namespace of its own may have anything else at /proc.
 */
static bool is_seen(struct hanare_space *space)
{
	u32 pid = hanare_space_pid_vnr(space);
	char name[32];
	struct path path;
	bool seen;

	if (!pid)
		return false;
	snprintf(name, sizeof(name), "/proc/%u/stat", pid);
	if (kern_path(name, 0, &path))
		return is_own(space);
	seen = is_of_procfs(&path, pid);
	path_put(&path);
	return seen || is_own(space);
}

long hanare_do_process(struct hanare_file *hf, void *data)
{
	struct hanare_process_status *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	struct hanare_space *space;
	int err = -ENOENT;

	if (!inst)
		return -ENOENT;
	/* One that ends just now is passed over. */
	while ((space = hanare_space_after(inst, arg->after))) {
		arg->after = space->id;
		arg->pid = hanare_space_pid_vnr(space);
		err = is_seen(space) ? hanare_space_info(space, 0, &arg->info) : -ESRCH;
		hanare_space_put(space);
		if (err != -ESRCH)
			break;
		err = -ENOENT;
	}
	hanare_instance_put(inst);
	return err;
}

long hanare_do_threads(struct hanare_file *hf, void *data)
{
	struct hanare_threads *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	struct hanare_space *space;
	int ret = -ENOENT;

	if (!inst)
		return -ENOENT;
	space = hanare_space_find(arg->space);
	if (space && space->inst == inst && is_seen(space))
		ret = hanare_space_threads(space, 0, &arg->from, arg->threads);
	if (space)
		hanare_space_put(space);
	hanare_instance_put(inst);
	arg->count = max(ret, 0);
	return min(ret, 0);
}
