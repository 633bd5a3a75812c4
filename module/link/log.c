// SPDX-License-Identifier: GPL-2.0
/* The LWK's log, for hanare log, and its last lines for Linux' own. */
#include "link/link.h"

#include <linux/slab.h>
#include <linux/uaccess.h>

#define LOG_PIECE 65536U

static u32 log_copy(struct hanare_instance *inst, u64 *position, char *to, u32 room)
{
	const char *text = (const char *)inst->link.log + HANARE_LOG_TEXT_OFFSET;
	u64 from = *position;
	u32 bytes = hanare_log_begin(&inst->link.log->head, HANARE_LOG_SIZE, &from, room), lost;
	u32 at = from % HANARE_LOG_SIZE, first = min(bytes, HANARE_LOG_SIZE - at);

	inst->transport->copy(inst, to, text + at, first);
	inst->transport->copy(inst, to + first, text, bytes - first);
	lost = hanare_log_end(&inst->link.log->head, HANARE_LOG_SIZE, from, bytes);
	memmove(to, to + lost, bytes - lost);
	*position = from + bytes;
	return bytes - lost;
}

void hanare_log_tail(struct hanare_instance *inst)
{
	u64 head = READ_ONCE(inst->link.log->head);
	u64 position = head > 1024 ? head - 1024 : 0;
	char *text = kzalloc(1025, GFP_KERNEL), *at = text, *line;

	if (!text)
		return;
	text[log_copy(inst, &position, text, 1024)] = 0;
	while ((line = strsep(&at, "\n")))
		if (*line)
			pr_info("%s: lwk: %s\n", inst->name, line);
	kfree(text);
}

long hanare_do_log(struct hanare_file *hf, void *data)
{
	struct hanare_log *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	u32 room = min_t(u64, arg->size, LOG_PIECE);
	char *piece;
	int err = 0;

	if (!inst)
		return -ENOENT;
	/* Addresses and other users' programs stand in it: as dmesg where dmesg_restrict is set. */
	if (!capable(CAP_SYSLOG) && !capable(CAP_SYS_ADMIN)) {
		hanare_instance_put(inst);
		return -EPERM;
	}
	arg->size = 0;
	piece = kvmalloc(LOG_PIECE, GFP_KERNEL);
	if (!piece) {
		hanare_instance_put(inst);
		return -ENOMEM;
	}
	down_read(&inst->live);
	if (inst->reach.shared)
		arg->size = log_copy(inst, &arg->position, piece, room);
	up_read(&inst->live);
	if (copy_to_user(u64_to_user_ptr(arg->buffer), piece, arg->size))
		err = -EFAULT;
	kvfree(piece);
	hanare_instance_put(inst);
	return err;
}
