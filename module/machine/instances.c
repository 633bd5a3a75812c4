// SPDX-License-Identifier: GPL-2.0
/* The list of instances, and their names. */
#include "machine/machine.h"

#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/slab.h>

DEFINE_MUTEX(hanare_lock);
LIST_HEAD(hanare_instances);
static u32 instance_count;

static void instance_free(struct kref *ref)
{
	struct hanare_instance *inst = container_of(ref, struct hanare_instance, ref);

	WARN_ON(inst->reach.shared || inst->cpu_count || inst->machine.chunk_count);
	kvfree(inst);
	module_put(THIS_MODULE);
}

void hanare_instance_put(struct hanare_instance *inst)
{
	kref_put(&inst->ref, instance_free);
}

static struct hanare_instance *find_locked(const char *name)
{
	struct hanare_instance *inst;

	list_for_each_entry(inst, &hanare_instances, entry)
		if (!strcmp(inst->name, name))
			return inst;
	return NULL;
}

/* By name; empty: the only one, or the one called "default". */
struct hanare_instance *hanare_instance_get(const char *name)
{
	struct hanare_instance *inst;

	mutex_lock(&hanare_lock);
	if (name[0])
		inst = find_locked(name);
	else if (instance_count == 1)
		inst = list_first_entry(&hanare_instances, struct hanare_instance, entry);
	else
		inst = find_locked("default");
	if (inst)
		kref_get(&inst->ref);
	mutex_unlock(&hanare_lock);
	return inst;
}

static struct hanare_instance *instance_new(const char *name, const struct hanare_transport *transport)
{
	struct hanare_instance *inst = kvzalloc(sizeof(*inst), GFP_KERNEL);

	if (!inst)
		return NULL;
	__module_get(THIS_MODULE);
	strscpy(inst->name, name, sizeof(inst->name));
	kref_init(&inst->ref);
	inst->transport = transport;
	mutex_init(&inst->lock);
	init_rwsem(&inst->live);
	spin_lock_init(&inst->state_lock);
	spin_lock_init(&inst->link.entry_lock);
	INIT_LIST_HEAD(&inst->spaces.list);
	xa_init(&inst->boot.tables);
	init_waitqueue_head(&inst->spaces.wait);
	init_waitqueue_head(&inst->link.service_wait);
	init_waitqueue_head(&inst->link.served_wait);
	inst->state = HANARE_INSTANCE_CREATED;
	return inst;
}

static bool name_ok(const u8 *name)
{
	size_t i;

	for (i = 0; i < HANARE_NAME_SIZE && name[i]; i++)
		if (!isascii(name[i]) || (!isalnum(name[i]) && (!i || !strchr("-_.", name[i]))))
			return false;
	return i < HANARE_NAME_SIZE;
}

/* Lists a new one by its name, and refers to it for the caller. 0, or an error with its message. */
int hanare_instance_create(const u8 *name, const struct hanare_transport *transport, u8 *message,
			   struct hanare_instance **made)
{
	struct hanare_instance *inst;
	int err = 0;

	if (!name_ok(name) || !name[0])
		return refuse(message, -EINVAL,
			"a name has 1 to %d letters, digits, '-', '_' or '.', first a letter or digit",
			HANARE_NAME_SIZE - 1);
	inst = instance_new(name, transport);
	if (!inst)
		return refuse(message, -ENOMEM, "Linux has no memory left");
	mutex_lock(&hanare_lock);
	if (find_locked(inst->name)) {
		err = refuse(message, -EEXIST,
			     "there is an instance %s already: choose another name, or shut it down",
			     inst->name);
	} else if (instance_count >= HANARE_INSTANCES_MAX) {
		err = refuse(message, -ENOSPC, "there are %d instances already: no more fit",
			     HANARE_INSTANCES_MAX);
	} else {
		kref_get(&inst->ref);	/* the list's; the first is the builder's */
		list_add_tail(&inst->entry, &hanare_instances);
		instance_count++;
	}
	mutex_unlock(&hanare_lock);
	if (err) {
		hanare_instance_put(inst);
		return err;
	}
	*made = inst;
	return 0;
}

void hanare_instance_unlist(struct hanare_instance *inst)
{
	mutex_lock(&hanare_lock);
	list_del_init(&inst->entry);
	instance_count--;
	mutex_unlock(&hanare_lock);
	hanare_instance_put(inst);
}

u32 hanare_instance_count(void)
{
	return READ_ONCE(instance_count);
}

struct hanare_instance *hanare_instance_named(const u8 *name)
{
	return name_ok(name) ? hanare_instance_get((const char *)name) : NULL;
}

/* Says which instance is not there; of no name, whether there are none or several. */
int hanare_refuse_unknown(char *message, const u8 *name)
{
	if (!name_ok(name))
		return refuse(message, -ENOENT, "there is no such instance: see hanare ls");
	if (name[0])
		return refuse(message, -ENOENT, "no instance is called '%s': see hanare ls", name);
	if (READ_ONCE(instance_count))
		return refuse(message, -ENOENT,
			      "several instances are booted and none is called default: name one of them (see hanare ls)");
	return refuse(message, -ENOENT,
		      "no instance is booted: hanare boot --cpus LIST --mem SIZE boots one");
}
