// SPDX-License-Identifier: GPL-2.0
/*
 * hanare.ko: /dev/hanare, its ioctls, and what the layers below call upward.
 *
 * A descriptor has one role, given by its first call: none (questions, and
 * management by name), builder of one instance, one space, or a pool of proxies.
 */
#include "device/device.h"

#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* ---- ioctls ---- */

static long do_info(struct hanare_file *hf, void *data)
{
	struct hanare_info *arg = data;

	arg->magic = HANARE_MAGIC;
	arg->version = HANARE_VERSION;
	arg->instances = hanare_instance_count();
	return 0;
}

static long do_create(struct hanare_file *hf, void *data)
{
	struct hanare_create *arg = data;
	struct hanare_instance *inst;
	int err;

	if (hf->role != ROLE_NONE)
		return refuse(arg->message, -EBUSY, "this descriptor has a role already: open another");
	err = hanare_instance_create(arg->name, &hanare_local, arg->message, &inst);
	if (err)
		return err;
	hf->inst = inst;
	hf->role = ROLE_BUILDER;
	return 0;
}

static long do_add_memory(struct hanare_file *hf, void *data)
{
	struct hanare_add_memory *arg = data;
	int err;

	if (hf->role != ROLE_BUILDER)
		return refuse(arg->message, -EBADF, "no instance is built here: create one first");
	mutex_lock(&hf->inst->lock);
	err = hf->inst->transport->add_memory(hf->inst, arg);
	mutex_unlock(&hf->inst->lock);
	return err;
}

static long do_add_cpu(struct hanare_file *hf, void *data)
{
	struct hanare_add_cpu *arg = data;
	int err;

	if (hf->role != ROLE_BUILDER)
		return refuse(arg->message, -EBADF, "no instance is built here: create one first");
	mutex_lock(&hf->inst->lock);
	err = hf->inst->transport->add_cpu(hf->inst, arg);
	mutex_unlock(&hf->inst->lock);
	return err;
}

static long do_add_device(struct hanare_file *hf, void *data)
{
	struct hanare_add_device *arg = data;
	int err;

	if (hf->role != ROLE_BUILDER)
		return refuse(arg->message, -EBADF, "no instance is built here: create one first");
	mutex_lock(&hf->inst->lock);
	err = hanare_add_device(hf->inst, arg);
	mutex_unlock(&hf->inst->lock);
	return err;
}

static long do_boot(struct hanare_file *hf, void *data)
{
	struct hanare_boot *arg = data;
	struct hanare_instance *inst = hf->inst;
	int err;

	if (hf->role != ROLE_BUILDER)
		return refuse(arg->message, -EBADF, "no instance is built here: create one first");
	mutex_lock(&inst->lock);
	err = hanare_boot(inst, arg);
	mutex_unlock(&inst->lock);
	if (err)
		return err;
	/* The instance lives on without this descriptor. */
	hf->inst = NULL;
	hf->role = ROLE_NONE;
	hanare_instance_put(inst);
	return 0;
}

static long do_shutdown(struct hanare_file *hf, void *data)
{
	struct hanare_shutdown *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	int err;

	if (!inst)
		return hanare_refuse_unknown(arg->message, arg->name);
	if (mutex_lock_killable(&inst->lock)) {
		hanare_instance_put(inst);
		return refuse(arg->message, -EINTR, "interrupted");
	}
	if (list_empty(&inst->entry))
		err = refuse(arg->message, -ENOENT, "%s was shut down by another caller just now",
			     inst->name);
	else
		err = hanare_shutdown(inst, arg, hanare_spaces_kill);
	if (!err)
		hanare_instance_unlist(inst);
	mutex_unlock(&inst->lock);
	hanare_instance_put(inst);
	return err;
}

struct command {
	unsigned int cmd;
	bool admin;
	bool locked;				/* may change the descriptor's role */
	long (*call)(struct hanare_file *hf, void *data);
};

static const struct command commands[] = {
	{ HANARE_IOCTL_INFO, false, false, do_info },
	{ HANARE_IOCTL_CREATE, true, true, do_create },
	{ HANARE_IOCTL_ADD_MEMORY, true, true, do_add_memory },
	{ HANARE_IOCTL_ADD_CPU, true, true, do_add_cpu },
	{ HANARE_IOCTL_ADD_DEVICE, true, true, do_add_device },
	{ HANARE_IOCTL_BOOT, true, true, do_boot },
	{ HANARE_IOCTL_SHUTDOWN, true, false, do_shutdown },
	{ HANARE_IOCTL_STATUS, false, false, hanare_do_status },
	{ HANARE_IOCTL_LOG, false, false, hanare_do_log },
	{ HANARE_IOCTL_PROCESS, false, false, hanare_do_process },
	{ HANARE_IOCTL_THREADS, false, false, hanare_do_threads },
	{ HANARE_IOCTL_END, false, false, hanare_do_end },
	{ HANARE_IOCTL_DEBUG, true, false, hanare_do_debug },
	{ HANARE_IOCTL_OBSERVE, false, true, hanare_do_observe },
	{ HANARE_IOCTL_OBSERVATION, false, false, hanare_do_observation },
	{ HANARE_IOCTL_TRACE_READ, false, false, hanare_do_trace_read },
	{ HANARE_IOCTL_POOL, false, true, hanare_do_pool },
};

static long run_command(struct hanare_file *hf, const struct command *c, void __user *arg)
{
	size_t size = _IOC_SIZE(c->cmd);
	void *data = memdup_user(arg, size);
	long err;

	if (IS_ERR(data))
		return PTR_ERR(data);
	if (c->locked && mutex_lock_killable(&hf->lock)) {
		kfree(data);
		return -EINTR;
	}
	err = c->call(hf, data);
	if (c->locked)
		mutex_unlock(&hf->lock);
	/* Also after a failure, because the message is in the structure. */
	if (copy_to_user(arg, data, size) && !err)
		err = -EFAULT;
	kfree(data);
	return err;
}

static long hanare_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct hanare_file *hf = file->private_data;
	size_t i;

	if (cmd == HANARE_IOCTL_WAIT || cmd == HANARE_IOCTL_RING || cmd == HANARE_IOCTL_SERVES ||
	    cmd == HANARE_IOCTL_WORKER)
		return hanare_space_wake(file, cmd, arg);
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].cmd != cmd)
			continue;
		/*
		 * A proxy manages nothing and observes no process, whichever user it has: what has
		 * its worker call may be its program, which a filter of system calls keeps from
		 * opening a descriptor of its own.
		 */
		if (smp_load_acquire(&hf->space) || (commands[i].admin && !capable(CAP_SYS_ADMIN)))
			return -EPERM;
		return run_command(hf, &commands[i], (void __user *)arg);
	}
	return hanare_space_ioctl(file, cmd, (void __user *)arg);
}

/* ---- the device ---- */

static int hanare_open(struct inode *inode, struct file *file)
{
	struct hanare_file *hf = kzalloc(sizeof(*hf), GFP_KERNEL_ACCOUNT);

	if (!hf)
		return -ENOMEM;
	mutex_init(&hf->lock);
	file->private_data = hf;
	return nonseekable_open(inode, file);
}

/* One descriptor is closed; others may still be open. */
static int hanare_flush(struct file *file, fl_owner_t id)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_space *space = smp_load_acquire(&hf->space);

	if (space)
		hanare_space_flush(space);
	return 0;
}

static int hanare_release(struct inode *inode, struct file *file)
{
	struct hanare_file *hf = file->private_data;

	if (hf->space) {
		hanare_children_end(file, hf->space);
		hanare_space_end(hf->space);
		hanare_space_put(hf->space);
	}
	hanare_observer_end(hf);
	if (hf->pool)
		hanare_pool_end(hf->pool);
	if (hf->inst) {
		/* Closed before boot succeeded: all of it goes back. */
		mutex_lock(&hf->inst->lock);
		hanare_release_all(hf->inst, NULL);
		hanare_instance_unlist(hf->inst);
		mutex_unlock(&hf->inst->lock);
		hanare_instance_put(hf->inst);
	}
	kfree(hf);
	return 0;
}

static int hanare_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct hanare_file *hf = file->private_data;
	struct hanare_space *space = smp_load_acquire(&hf->space);
	int err;

	if (!space)
		return -EBADF;
	if (current->mm == space->mm)
		return hanare_space_mmap(space, vma);
	/* A process in another's descriptor table has no mapping yet by which it is known. */
	space = hanare_space_find(vma->vm_pgoff >> (HANARE_SPACE_SHIFT - PAGE_SHIFT));
	if (!space)
		return -EPERM;
	err = space->door.file == file ? hanare_space_mmap(space, vma) : -EPERM;
	hanare_space_put(space);
	return err;
}

static const struct file_operations hanare_fops = {
	.owner		= THIS_MODULE,
	.open		= hanare_open,
	.flush		= hanare_flush,
	.release	= hanare_release,
	.unlocked_ioctl	= hanare_ioctl,
	.mmap		= hanare_mmap,
	.poll		= hanare_observer_poll,
};

static struct miscdevice hanare_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hanare",
	/* The group is the administrator's to say, by udev. */
	.mode	= 0660,
	.fops	= &hanare_fops,
};

/*
 * A reboot or kexec must not leave CPUs running in memory that is about to
 * get another owner. Nothing is freed: there is no one left to need it.
 */
static int on_reboot(struct notifier_block *nb, unsigned long code, void *data)
{
	struct hanare_instance *inst;

	mutex_lock(&hanare_lock);
	list_for_each_entry(inst, &hanare_instances, entry) {
		/*
		 * A shutdown frees what the end of an instance wakes. While that is, no CPU of it
		 * runs any more.
		 */
		if (!down_read_trylock(&inst->live))
			continue;
		if (inst->reach.shared) {
			hanare_halt_cpus(inst);
			hanare_die(inst, HANARE_INSTANCE_STOPPING, -EIO);
		}
		up_read(&inst->live);
	}
	mutex_unlock(&hanare_lock);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_nb = { .notifier_call = on_reboot };

/* Functions that a doorbell's handler calls, from the lowest to the highest layer. */
static const struct hanare_link_ops link_ops = {
	.answered	= hanare_request_event,
	.slot_rung	= hanare_space_ring_slot,
	.eventfd_rung	= hanare_space_ring_eventfd,
	.serve		= hanare_serve_alone,
	.died		= hanare_spaces_wake,
	.observed	= hanare_observe_event,
};

static int __init hanare_init(void)
{
	int err = hanare_local_init();

	if (err)
		return err;
	hanare_link_init(&link_ops);
	hanare_stop_init();
	err = hanare_pseudo_init();
	if (err)
		goto local;
	err = hanare_topology_init();
	if (err)
		goto pseudo;
	hanare_files_init(hanare_shows_procfs);
	hanare_ends_init(hanare_observers_wake);
	hanare_closes_init(hanare_space_end_confirmed);
	err = hanare_eventfds_init();
	if (err)
		goto topology;
	err = hanare_share_init(hanare_space_flush);
	if (err)
		goto eventfds;
	err = hanare_stderr_init();
	if (err)
		goto share;
	err = hanare_observers_init();
	if (err)
		goto stderr;
	err = hanare_sleep_init();
	if (err)
		goto observers;
	err = hanare_grants_init();
	if (err)
		goto sleep;
	err = register_reboot_notifier(&reboot_nb);
	if (err)
		goto grants;
	hanare_program_init();
	err = misc_register(&hanare_device);
	if (err)
		goto program;
	return 0;
program:
	hanare_program_exit();
	unregister_reboot_notifier(&reboot_nb);
grants:
	hanare_grants_exit();
sleep:
	hanare_sleep_exit();
observers:
	hanare_observers_exit();
stderr:
	hanare_stderr_exit();
share:
	hanare_share_exit();
eventfds:
	hanare_eventfds_exit();
topology:
	hanare_topology_exit();
pseudo:
	hanare_pseudo_exit();
local:
	hanare_stop_exit();
	hanare_local_exit();
	return err;
}

static void __exit hanare_exit(void)
{
	/* Instances and descriptors hold the module, so there are none. */
	hanare_program_exit();
	misc_deregister(&hanare_device);
	unregister_reboot_notifier(&reboot_nb);
	hanare_grants_exit();
	hanare_sleep_exit();
	hanare_observers_exit();
	hanare_stderr_exit();
	hanare_share_exit();
	/* After everything that ends spaces. */
	hanare_space_exit();
	hanare_spaces_exit();
	hanare_eventfds_exit();
	hanare_topology_exit();
	hanare_pseudo_exit();
	hanare_stop_exit();
	hanare_local_exit();
}

module_init(hanare_init);
module_exit(hanare_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Hanare: runs a lightweight kernel beside Linux");
