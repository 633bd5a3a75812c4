// SPDX-License-Identifier: GPL-2.0
/* Asking the LWK about its processes: for /proc, and for hanare ps. */
#include "hanare.h"

#include <linux/pid.h>

/* The space of a process, with a reference; NULL: none of ours. */
struct hanare_space *hanare_space_of_pid(struct pid *pid)
{
	struct hanare_space *space, *found = NULL;
	struct hanare_instance *inst;

	mutex_lock(&hanare_lock);
	list_for_each_entry(inst, &hanare_instances, link) {
		spin_lock_irq(&inst->state_lock);
		/* After an execve of the proxy's own there may be an older one. */
		list_for_each_entry(space, &inst->space_list, link)
			if (space->pid == pid && !test_bit(0, &space->ended) &&
			    kref_get_unless_zero(&space->ref)) {
				found = space;
				break;
			}
		spin_unlock_irq(&inst->state_lock);
		if (found)
			break;
	}
	mutex_unlock(&hanare_lock);
	return found;
}

/* The space of an instance with the lowest id above `id`, with a reference. */
struct hanare_space *hanare_space_after(struct hanare_instance *inst, u32 id)
{
	struct hanare_space *space, *found = NULL;

	spin_lock_irq(&inst->state_lock);
	list_for_each_entry(space, &inst->space_list, link)
		if (space->id > id && (!found || space->id < found->id))
			found = space;
	if (found && !kref_get_unless_zero(&found->ref))
		found = NULL;
	spin_unlock_irq(&inst->state_lock);
	return found;
}

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

/* Up to HANARE_THREADS_AT_ONCE threads behind the first `skip`. How many, or -errno. */
int hanare_space_threads(struct hanare_space *space, u32 skip, struct hanare_thread_info *threads)
{
	u64 words[HANARE_PAGES_MAX];
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_THREADS, skip },
		.pages = words,
	};
	int err = hanare_request_about(space, &call, WAIT_KILLABLE, INFO_MS);
	u32 count = min_t(u32, call.count * sizeof(u64) / sizeof(*threads), HANARE_THREADS_AT_ONCE);

	if (err || call.status)
		return err ?: min(call.status, 0) ?: -EIO;
	memcpy(threads, words, count * sizeof(*threads));
	return count;
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
		arg->pid = pid_vnr(space->pid);
		err = hanare_space_info(space, 0, &arg->info);
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
	if (space && space->inst == inst)
		ret = hanare_space_threads(space, arg->skip, arg->threads);
	if (space)
		hanare_space_put(space);
	hanare_instance_put(inst);
	arg->count = max(ret, 0);
	return min(ret, 0);
}
