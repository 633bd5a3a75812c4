// SPDX-License-Identifier: GPL-2.0
/* A proxy becomes a space of an instance: IOCTL_ATTACH. */
#include "space/space.h"

#include <linux/bitops.h>
#include <linux/sched.h>

/* Instance CPUs the caller may use, as a mask of indices; 0: message is set. */
static u64 allowed_cpus(struct hanare_instance *inst, struct hanare_attach *arg)
{
	u64 allowed = 0;
	bool any = false;
	u32 i, cpu;

	for (cpu = 0; cpu < HANARE_CPU_WORDS * 64; cpu++) {
		if (!(arg->cpus[cpu / 64] >> cpu % 64 & 1))
			continue;
		any = true;
		for (i = 0; i < inst->cpu_count && inst->cpus[i].linux_cpu != cpu; i++)
			;
		if (i == inst->cpu_count) {
			refuse(arg->message, -EINVAL, "CPU %u does not belong to %s: see hanare ls",
			       cpu, inst->name);
			return 0;
		}
		allowed |= 1ULL << i;
	}
	return any ? allowed : HANARE_ALLOWED_ALL;
}

static int attach_to(struct hanare_instance *inst, struct hanare_pool *pool, struct file *file,
		     struct hanare_attach *arg)
{
	struct hanare_space *space;
	u64 allowed, ns;

	/* A machine that stood still for a while is no reason to refuse for ever. */
	if (READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG)
		hanare_ping_all(inst, &ns);
	if (READ_ONCE(inst->state) == HANARE_INSTANCE_HUNG)
		return refuse(arg->message, -ENODEV,
			      "%s does not answer: see hanare log %s; hanare shutdown %s --force ends it",
			      inst->name, inst->name, inst->name);
	if (READ_ONCE(inst->state) != HANARE_INSTANCE_RUNNING)
		return refuse(arg->message, -ENODEV, "%s is not running: see hanare status",
			      inst->name);
	allowed = allowed_cpus(inst, arg);
	if (!allowed)
		return -EINVAL;
	space = hanare_space_enter(inst, file_inode(file), allowed, NULL, NULL, pool,
				   arg->kind == HANARE_ATTACH_MEMBER, arg->message);
	if (IS_ERR(space))
		return PTR_ERR(space);
	memcpy(arg->name, inst->name, sizeof(arg->name));
	space->control_fd = arg->fd;
	arg->space = space->id;
	hanare_file_set_space(file, space);
	arg->cpu_count = allowed == HANARE_ALLOWED_ALL ? inst->cpu_count : hweight64(allowed);
	arg->counted = hanare_is_counted(current);
	return 0;
}

int hanare_attach(struct file *file, struct hanare_attach *arg)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_pool *pool = NULL;
	struct hanare_instance *inst;
	int err;

	if (hf->role != ROLE_NONE)
		return refuse(arg->message, -EBUSY, "this descriptor has a role already: open another");
	if (!current->mm || arg->fd > INT_MAX || arg->counted || arg->kind > HANARE_ATTACH_MEMBER)
		return -EINVAL;
	if (arg->kind != HANARE_ATTACH_PROGRAM) {
		pool = hanare_pool_join(arg->pool_fd, arg->message);
		if (IS_ERR(pool))
			return PTR_ERR(pool);
	}
	inst = pool ? hanare_pool_instance(pool) : hanare_instance_named(arg->name);
	if (!inst)
		return hanare_refuse_unknown(arg->message, arg->name);
	down_read(&inst->live);
	err = attach_to(inst, pool, file, arg);
	up_read(&inst->live);
	hanare_instance_put(inst);
	if (pool)
		hanare_pool_put(pool);
	return err;
}
