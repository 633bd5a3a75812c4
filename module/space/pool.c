// SPDX-License-Identifier: GPL-2.0
/*
 * Pools of proxies, which execute the calls of native tasks (abi/src/pooled.rs). A process with the
 * descriptor of a pool may join it if it is as confined as the pool's maker and no less: a task's
 * calls are never executed by a process that may do what the task's own may not.
 */
#include "space/space.h"

#include <linux/file.h>
#include <linux/slab.h>

/* ---- coming and going ---- */

static void pool_release(struct kref *ref)
{
	struct hanare_pool *pool = container_of(ref, struct hanare_pool, ref);

	hanare_confinement_put(&pool->made);
	hanare_instance_put(pool->inst);
	kfree(pool);
}

void hanare_pool_put(struct hanare_pool *pool)
{
	kref_put(&pool->ref, pool_release);
}

struct hanare_pool *hanare_pool_get(struct hanare_pool *pool)
{
	kref_get(&pool->ref);
	return pool;
}

static struct hanare_pool *pool_new(const struct hanare_pool_make *arg, struct hanare_instance *inst)
{
	static atomic_t last_id;
	struct hanare_pool *pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);

	if (!pool)
		return NULL;
	kref_init(&pool->ref);
	kref_get(&inst->ref);
	pool->inst = inst;
	do {
		pool->id = atomic_inc_return(&last_id);
	} while (!pool->id);
	pool->limit = arg->limit;
	pool->idle = arg->idle_ms ? msecs_to_jiffies(arg->idle_ms) : MAX_SCHEDULE_TIMEOUT;
	hanare_confinement_take(&pool->made);
	return pool;
}

/* The caller's descriptor becomes a pool. */
long hanare_do_pool(struct hanare_file *hf, void *data)
{
	struct hanare_pool_make *arg = data;
	struct hanare_instance *inst;
	struct hanare_pool *pool;

	if (hf->role != ROLE_NONE)
		return refuse(arg->message, -EBUSY, "this descriptor has a role already: open another");
	if (!arg->limit || arg->limit > HANARE_POOL_MAX)
		return refuse(arg->message, -EINVAL, "a pool has 1 to %u proxies, not %u", HANARE_POOL_MAX,
			      arg->limit);
	inst = hanare_instance_named(arg->name);
	if (!inst)
		return hanare_refuse_unknown(arg->message, arg->name);
	memcpy(arg->name, inst->name, sizeof(arg->name));
	pool = pool_new(arg, inst);
	hanare_instance_put(inst);
	if (!pool)
		return refuse(arg->message, -ENOMEM, "Linux has no memory left");
	hf->role = ROLE_POOL;
	smp_store_release(&hf->pool, pool);
	return 0;
}

/* ---- joining ---- */

/*
 * The pool behind a descriptor of the caller, with a reference, if the caller may join it; or an
 * error.
 */
struct hanare_pool *hanare_pool_join(u32 fd, u8 *message)
{
	struct file *file = fget(fd);
	struct hanare_pool *pool = NULL;
	struct hanare_file *hf;

	if (file && hanare_is_device(file)) {
		hf = file->private_data;
		pool = smp_load_acquire(&hf->pool);
	}
	if (!pool)
		pool = ERR_PTR(refuse(message, -EBADF, "descriptor %u is no pool of proxies", fd));
	else if (!hanare_confinement_is_own(&pool->made))
		pool = ERR_PTR(refuse(message, -EPERM,
				      "the pool of proxies was made with other rights than yours"));
	else
		kref_get(&pool->ref);
	if (file)
		fput(file);
	return pool;
}

struct hanare_instance *hanare_pool_instance(struct hanare_pool *pool)
{
	kref_get(&pool->inst->ref);
	return pool->inst;
}

/* What the LWK is told of a space when it is opened. */
u64 hanare_pool_words(const struct hanare_space *space)
{
	u64 kind = space->is_member ? HANARE_ATTACH_MEMBER : HANARE_ATTACH_NATIVE;

	if (!space->pool)
		return 0;
	return kind | (u64)space->pool->limit << HANARE_POOLED_LIMIT_SHIFT |
	       (u64)space->pool->id << HANARE_POOLED_POOL_SHIFT;
}

/* How long a worker of the space may sleep. */
unsigned long hanare_pool_patience(const struct hanare_space *space)
{
	return space->is_member ? space->pool->idle : MAX_SCHEDULE_TIMEOUT;
}
