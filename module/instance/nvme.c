// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of the LWK's own on an NVMe controller that Linux' driver goes on using. They are made and
 * deleted by commands on the admin queue, which stays Linux'. See docs/nvme.md.
 */
#include "instance/instance.h"

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/nvme.h>
#include <linux/nvme_ioctl.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

/* What a status is about, without what to do then. */
#define STATUS_CODE 0x7ff
#define SUBMIT "nvme_submit_sync_cmd"
/* Commands are sent by the thread itself; if the queue was busy, once more. */
#define TRIES 3

typedef int (*submit_fn)(struct request_queue *queue, struct nvme_command *command, void *buffer,
			 unsigned int bytes);

/* A pair of queues, for a CPU. */
struct pair {
	struct hanare_granted *device;
	struct work_struct renewal;
	u32 id;
	u32 round;				/* as the LWK was told last */
	bool is_there;				/* the controller may have it */
	struct hanare_grant_queue *told;	/* in the shared region */
	u8 *pages;				/* of commands, and of answers */
	dma_addr_t address;			/* that the controller has for them */
};

struct hanare_controller {
	struct request_queue *admin;	/* Linux' queue for commands to the controller, with a reference */
	submit_fn submit;		/* with a reference to its module */
	u32 queues;			/* ids of pairs of queues are up to here */
	u32 of_linux;			/* up to here they may be Linux' */
	u32 stride;
	u32 transfer_max;
	struct mutex lock;		/* of what follows */
	struct request_queue *disk;	/* of a namespace, with a reference; NULL: nobody has used one */
	struct pair *pairs;		/* of each CPU, while the instance runs */
};

/* ---- the admin queue ---- */

/*
 * It is in a structure of Linux' driver. So a request is made that is known to go there, and looked
 * at as it goes. One at a time.
 */
static DEFINE_MUTEX(finding);
static struct task_struct *finder;
static struct request_queue *found;

static void on_issue(void *data, struct request *request)
{
	struct request_queue *queue = request->q;

	if (in_task() && READ_ONCE(finder) == current && !found && blk_rq_is_passthrough(request) && !queue->disk &&
	    blk_get_queue(queue))
		found = queue;
}

static void take_issue(struct tracepoint *tracepoint, void *issue)
{
	if (!strcmp(tracepoint->name, "block_rq_issue"))
		*(struct tracepoint **)issue = tracepoint;
}

/* Makes the request: Get Features of the number of queues, which `result` is. */
static int ask(struct file *file, u64 at, u32 *result)
{
	struct nvme_passthru_cmd command = {
		.opcode = nvme_admin_get_features,
		.cdw10 = NVME_FEAT_NUM_QUEUES,
	};
	struct nvme_passthru_cmd __user *to = u64_to_user_ptr(at);
	long status;

	if (copy_to_user(to, &command, sizeof(command)))
		return -EFAULT;
	status = file->f_op->unlocked_ioctl(file, NVME_IOCTL_ADMIN_CMD, (unsigned long)at);
	if (status)
		return status < 0 ? status : -EIO;
	return get_user(*result, &to->result) ? -EFAULT : 0;
}

/* The admin queue behind a controller's file, with a reference. */
static int find_admin(struct file *file, u64 at, struct request_queue **admin, u32 *result)
{
	struct tracepoint *issue = NULL;
	int err, i;

	for_each_kernel_tracepoint(take_issue, &issue);
	if (!issue)
		return -ENOENT;
	mutex_lock(&finding);
	err = tracepoint_probe_register(issue, on_issue, NULL);
	if (!err) {
		found = NULL;
		WRITE_ONCE(finder, current);
		for (i = 0; !err && !found && i < TRIES; i++)
			err = ask(file, at, result);
		WRITE_ONCE(finder, NULL);
		tracepoint_probe_unregister(issue, on_issue, NULL);
		tracepoint_synchronize_unregister();
		if (!err && !found)
			err = -ENOENT;
		if (err && found)
			blk_put_queue(found);
		*admin = found;
	}
	mutex_unlock(&finding);
	return err;
}

/* A status of the controller's, or -errno. */
static int send(const struct hanare_controller *controller, struct nvme_command *command, void *buffer,
		unsigned int bytes)
{
	return controller->submit(controller->admin, command, buffer, bytes);
}

static int identify(const struct hanare_controller *controller, u32 namespace, u8 what, void *buffer)
{
	struct nvme_command command = {
		.identify = {
			.opcode = nvme_admin_identify,
			.nsid = cpu_to_le32(namespace),
			.cns = what,
		},
	};
	int status = send(controller, &command, buffer, NVME_IDENTIFY_DATA_SIZE);

	return status > 0 ? -EIO : status;
}

/* ---- a controller that is given ---- */

static int is_numbered(struct device *dev, void *number)
{
	return dev->devt == *(dev_t *)number;
}

static bool is_file_of(struct file *file, struct pci_dev *pci)
{
	dev_t number = file_inode(file)->i_rdev;

	return S_ISCHR(file_inode(file)->i_mode) && file->f_op->unlocked_ioctl &&
	       device_for_each_child(&pci->dev, &number, is_numbered);
}

/* A path to a namespace that programs have by another disk, is called nvme0c1n1. */
static int is_path(struct device *dev, void *unused)
{
	const char *name = dev_name(dev);

	return str_has_prefix(name, "nvme") && strchr(name, 'c');
}

static int has_paths(struct device *dev, void *unused)
{
	return device_for_each_child(dev, NULL, is_path);
}

/* What of it is not as it has to be is said. */
static int look(struct hanare_controller *controller, struct pci_dev *pci, char *message)
{
	struct nvme_id_ctrl *about = kzalloc(sizeof(*about), GFP_KERNEL);
	void __iomem *registers;
	u64 capabilities;
	int err = about ? identify(controller, 0, NVME_ID_CNS_CTRL, about) : -ENOMEM;

	if (err) {
		err = refuse(message, err, "%s does not say what it is", pci_name(pci));
		goto out;
	}
	if (le16_to_cpu(about->oacs) & NVME_CTRL_OACS_DBBUF_SUPP) {
		err = refuse(message, -EOPNOTSUPP,
			     "%s has shadow doorbells (OACS bit 8), which are Linux' alone: queues beside them get no answer",
			     pci_name(pci));
		goto out;
	}
	if (device_for_each_child(&pci->dev, NULL, has_paths)) {
		err = refuse(message, -EOPNOTSUPP,
			     "%s is one of several ways to its disks (multipath): load nvme_core with multipath=N if it is the only one",
			     pci_name(pci));
		goto out;
	}
	registers = ioremap(pci_resource_start(pci, 0), sizeof(u64));
	if (!registers) {
		err = refuse(message, -ENOMEM, "Linux has no memory left");
		goto out;
	}
	capabilities = readq(registers);
	iounmap(registers);
	controller->stride = 4 << NVME_CAP_STRIDE(capabilities);
	/* In its smallest pages. */
	if (about->mdts)
		controller->transfer_max = min_t(u64, 1ULL << min(about->mdts + 12 + (int)NVME_CAP_MPSMIN(capabilities), 30),
						 U32_MAX);
	if (NVME_CAP_MQES(capabilities) + 1 < HANARE_QUEUE_ENTRIES)
		err = refuse(message, -EOPNOTSUPP, "queues of %s are too short", pci_name(pci));
out:
	kfree(about);
	return err;
}

/* For a device that is given with this file. The device is locked. */
int hanare_controller_get(struct hanare_granted *device, struct file *file, u32 queues_of_linux, u64 command,
			  char *message)
{
	struct pci_dev *pci = device->pci;
	struct hanare_controller *controller;
	u32 result = 0;
	int err;

	if (!is_file_of(file, pci))
		return refuse(message, -EINVAL, "the file is none of an NVMe controller's (/dev/nvme0 is one)");
	controller = kzalloc(sizeof(*controller), GFP_KERNEL);
	if (!controller)
		return refuse(message, -ENOMEM, "Linux has no memory left");
	mutex_init(&controller->lock);
	err = find_admin(file, command, &controller->admin, &result);
	if (err) {
		refuse(message, err, "the queue for commands to %s was not found", pci_name(pci));
		goto free;
	}
	controller->submit = (submit_fn)__symbol_get(SUBMIT);
	if (!controller->submit) {
		err = refuse(message, -EOPNOTSUPP, "Linux' NVMe driver does not take commands (" SUBMIT ")");
		goto put;
	}
	err = look(controller, pci, message);
	if (err)
		goto symbol;
	/* Both counts, from 0 on; pairs are numbered from 1 on. */
	controller->queues = min(result & 0xffff, result >> 16) + 1;
	controller->of_linux = queues_of_linux;
	device->controller = controller;
	return 0;
symbol:
	__symbol_put(SUBMIT);
put:
	blk_put_queue(controller->admin);
free:
	kfree(controller);
	return err;
}

void hanare_controller_put(struct hanare_granted *device)
{
	struct hanare_controller *controller = device->controller;

	if (!controller)
		return;
	__symbol_put(SUBMIT);
	blk_put_queue(controller->admin);
	if (controller->disk)
		blk_put_queue(controller->disk);
	kfree(controller);
	device->controller = NULL;
}

/* ---- its queues ---- */

static int delete_one(const struct hanare_controller *controller, u8 opcode, u32 id)
{
	struct nvme_command command = {
		.delete_queue = {
			.opcode = opcode,
			.qid = cpu_to_le16(id),
		},
	};
	int status = send(controller, &command, NULL, 0);

	/* One that it does not have, since Linux has reset it, has no command under way, either. */
	switch (status & STATUS_CODE) {
	case NVME_SC_QID_INVALID:
	case NVME_SC_CQ_INVALID:	/* so says QEMU */
		return status < 0 ? status : 0;
	default:
		return status > 0 ? -EIO : status;
	}
}

/*
 * Linux has switched it off, or it is not there any more. So it accesses no memory, and what it was
 * told before is over.
 */
static bool is_off(const struct hanare_granted *device)
{
	return !pci_is_enabled(device->pci) || !pci_device_is_present(device->pci);
}

/*
 * When this returns 0 no command of the pair is under way, and the controller touches no page of
 * it.
 */
static int delete(const struct hanare_controller *controller, const struct pair *pair)
{
	int err = 0;

	if (!pair->is_there || is_off(pair->device))
		return 0;
	err = delete_one(controller, nvme_admin_delete_sq, pair->id);
	if (!err)
		err = delete_one(controller, nvme_admin_delete_cq, pair->id);
	return err && is_off(pair->device) ? 0 : err;
}

static int create(const struct hanare_controller *controller, struct pair *pair)
{
	struct nvme_command answers = {
		.create_cq = {
			.opcode = nvme_admin_create_cq,
			.prp1 = cpu_to_le64(pair->address + PAGE_SIZE),
			.cqid = cpu_to_le16(pair->id),
			.qsize = cpu_to_le16(HANARE_QUEUE_ENTRIES - 1),
			.cq_flags = cpu_to_le16(NVME_QUEUE_PHYS_CONTIG),	/* no interrupt: polled */
		},
	};
	struct nvme_command queue = {
		.create_sq = {
			.opcode = nvme_admin_create_sq,
			.prp1 = cpu_to_le64(pair->address),
			.sqid = cpu_to_le16(pair->id),
			.qsize = cpu_to_le16(HANARE_QUEUE_ENTRIES - 1),
			.sq_flags = cpu_to_le16(NVME_QUEUE_PHYS_CONTIG),
			.cqid = cpu_to_le16(pair->id),
		},
	};
	int status;

	memset(pair->pages, 0, 2 * PAGE_SIZE);
	status = send(controller, &answers, NULL, 0);
	if (status)
		return status;
	pair->is_there = true;
	status = send(controller, &queue, NULL, 0);
	if (status && !delete_one(controller, nvme_admin_delete_cq, pair->id))
		pair->is_there = false;
	return status;
}

/* What the LWK sees: first the id, then that the commands of the pair before are over. */
static void tell(struct pair *pair, bool is_usable)
{
	WRITE_ONCE(pair->told->id, is_usable ? pair->id : 0);
	smp_store_release(&pair->told->round, ++pair->round);
}

/* Whether Linux has taken a pair's id, as after a change of its parameters and a reset. */
static bool is_linuxs(const struct hanare_controller *controller, const struct pair *pair)
{
	return controller->disk && READ_ONCE(controller->disk->tag_set->nr_hw_queues) >= pair->id;
}

/*
 * Whether Linux is resetting the controller. From its beginning to its end no request of a disk is
 * let in. Commands of others in between would disturb Linux' own: a controller with queues does not
 * say how many it has. To one of a namespace that is gone no request is let in for ever.
 */
static bool is_being_reset(const struct hanare_controller *controller)
{
	struct request_queue *disk = controller->disk;

	return disk && !blk_queue_dying(disk) && !list_empty(&disk->tag_set_list) && READ_ONCE(disk->mq_freeze_depth);
}

/* SERVICE_QUEUE, in a thread of its own: Linux' driver may let a command wait for a minute. */
static void renew(struct work_struct *work)
{
	struct pair *pair = container_of(work, struct pair, renewal);
	struct hanare_controller *controller = pair->device->controller;

	mutex_lock(&controller->lock);
	if (READ_ONCE(pair->device->is_gone) || is_being_reset(controller))
		goto out;
	if (is_linuxs(controller, pair)) {
		pair->is_there = false;
		tell(pair, false);
		goto out;
	}
	if (delete(controller, pair))
		goto out;
	pair->is_there = false;
	/* One that is off gets none, as one that is just being reset: until the LWK asks again. */
	tell(pair, !is_off(pair->device) && !is_being_reset(controller) && !create(controller, pair));
out:
	mutex_unlock(&controller->lock);
}

/* SERVICE_QUEUE: the LWK uses the pair no more until it is told of another one. */
long hanare_controller_renew(struct hanare_granted *device, u64 cpu, u64 round)
{
	struct hanare_controller *controller = device->controller;
	struct pair *pair;

	if (!controller || cpu >= device->inst->cpu_count)
		return -EINVAL;
	if (!mutex_trylock(&controller->lock))
		return -EAGAIN; /* another pair's commands, which may last: the LWK asks again */
	pair = controller->pairs && !READ_ONCE(device->is_gone) ? &controller->pairs[cpu] : NULL;
	if (pair && pair->round == round)
		queue_work(system_unbound_wq, &pair->renewal);
	mutex_unlock(&controller->lock);
	return pair ? 0 : -ENODEV;
}

/* Before the LWK begins. `told`: of each CPU; `pages`: two for each, at that physical address. */
int hanare_controller_begin(struct hanare_granted *device, struct hanare_grant_queue *told, void *pages,
			    phys_addr_t at, char *message)
{
	struct hanare_controller *controller = device->controller;
	u32 cpus = device->inst->cpu_count, cpu;

	if (controller->queues < (u64)controller->of_linux + cpus)
		return refuse(message, -EOPNOTSUPP,
			      "%s has %u pairs of queues, of which Linux may take %u: too few for %u CPUs of the LWK's",
			      pci_name(device->pci), controller->queues, controller->of_linux, cpus);
	controller->pairs = kvcalloc(cpus, sizeof(*controller->pairs), GFP_KERNEL);
	if (!controller->pairs)
		return refuse(message, -ENOMEM, "Linux has no memory left");
	for (cpu = 0; cpu < cpus; cpu++) {
		struct pair *pair = &controller->pairs[cpu];

		pair->device = device;
		INIT_WORK(&pair->renewal, renew);
		pair->id = controller->queues - cpu;
		pair->told = told + cpu;
		pair->pages = pages + 2 * PAGE_SIZE * cpu;
		pair->address = hanare_dma_address(device, at + 2 * PAGE_SIZE * cpu);
	}
	for (cpu = 0; cpu < cpus; cpu++) {
		struct pair *pair = &controller->pairs[cpu];
		int status = create(controller, pair);

		if (status)
			return refuse(message, status < 0 ? status : -EIO,
				      "%s does not make a pair of queues with the id %u (status %#x): Linux' driver may have it",
				      pci_name(device->pci), pair->id, status);
		tell(pair, true);
	}
	device->grant->queues.doorbell_stride = controller->stride;
	device->grant->queues.transfer_max = controller->transfer_max;
	return 0;
}

/*
 * No CPU of the LWK begins a use of the controller any more. False: commands may be under way all
 * the same, until it is switched off.
 */
bool hanare_controller_end(struct hanare_granted *device)
{
	struct hanare_controller *controller = device->controller;
	u32 cpus = device->inst->cpu_count, cpu;
	bool is_over = true;

	if (!controller || !controller->pairs)
		return true;
	for (cpu = 0; cpu < cpus; cpu++)
		cancel_work_sync(&controller->pairs[cpu].renewal);
	mutex_lock(&controller->lock);
	for (cpu = 0; cpu < cpus; cpu++) {
		struct pair *pair = &controller->pairs[cpu];

		if (!delete(controller, pair)) {
			pair->is_there = false;
			tell(pair, false);
		}
		is_over &= !pair->is_there;
	}
	mutex_unlock(&controller->lock);
	return is_over;
}

/* After its end, and after it was switched off if that was needed. */
void hanare_controller_forget(struct hanare_granted *device)
{
	struct hanare_controller *controller = device->controller;
	struct pair *pairs;
	u32 cpu;

	if (!controller)
		return;
	mutex_lock(&controller->lock);
	pairs = controller->pairs;
	controller->pairs = NULL;
	for (cpu = 0; pairs && cpu < device->inst->cpu_count; cpu++)
		if (pairs[cpu].is_there)
			tell(&pairs[cpu], false);
	mutex_unlock(&controller->lock);
	/* One may have been asked for since the end. */
	for (cpu = 0; pairs && cpu < device->inst->cpu_count; cpu++)
		cancel_work_sync(&pairs[cpu].renewal);
	kvfree(pairs);
}

/* ---- its namespaces ---- */

/* Whether a disk is a namespace of this controller, and not of several at once. */
static bool is_namespace_of(struct gendisk *disk, const struct pci_dev *pci)
{
	const struct device *parent = disk_to_dev(disk)->parent;

	return parent && parent->parent == &pci->dev;
}

/* Its number, and the logarithm of its blocks' bytes. */
static int describe(const struct hanare_controller *controller, struct block_device *bdev, u64 *words)
{
	int number = bdev->bd_disk->fops->ioctl(bdev, 0, NVME_IOCTL_ID, 0);
	struct nvme_id_ns *about;
	struct nvme_lbaf format;
	int err;

	/* Zones are written in order: a call cannot be made again. */
	if (number <= 0 || bdev_is_zoned(bdev))
		return -ENODEV;
	about = kzalloc(sizeof(*about), GFP_KERNEL);
	if (!about)
		return -ENOMEM;
	err = identify(controller, number, NVME_ID_CNS_NS, about);
	format = about->lbaf[nvme_lbaf_index(about->flbas)];
	kfree(about);
	/* Data beside the blocks have no place in our commands. */
	if (!err && (format.ms || format.ds < SECTOR_SHIFT || format.ds > PAGE_SHIFT ||
		     1U << format.ds != bdev_logical_block_size(bdev)))
		err = -ENODEV;
	words[HANARE_CLAIM_NAMESPACE] = number;
	words[HANARE_CLAIM_BLOCK_SHIFT] = format.ds;
	return err;
}

/* A word of Linux', of which a part of up to eight bytes counts. */
static void name(u64 *words, const void *part, u64 mask)
{
	u64 at = hanare_linux_phys(part), bits = 8 * (at % sizeof(u64));

	words[0] = at - bits / 8;
	words[1] = mask << bits;
}

/* The words that the LWK looks at before each access. */
static void name_words(struct block_device *bdev, struct address_space *mapping, u64 *words)
{
	name(words + HANARE_CLAIM_CACHED, &mapping->nrpages, ~0ULL);
	name(words + HANARE_CLAIM_SECTORS, &bdev->bd_nr_sectors, ~0ULL);
	name(words + HANARE_CLAIM_DISK_SECTORS, &bdev_whole(bdev)->bd_nr_sectors, ~0ULL);
	name(words + HANARE_CLAIM_HOLDER, &bdev->bd_holder, ~0ULL);
	name(words + HANARE_CLAIM_READ_ONLY, hanare_read_only(bdev), HANARE_READ_ONLY_MASK);
	name(words + HANARE_CLAIM_DISK_READ_ONLY, hanare_read_only(bdev_whole(bdev)), HANARE_READ_ONLY_MASK);
	name(words + HANARE_CLAIM_ERROR, &mapping->wb_err, U32_MAX);
}

/* This disk says whether Linux resets the controller: others may be gone. */
static void use_disk(struct hanare_controller *controller, struct request_queue *disk)
{
	mutex_lock(&controller->lock);
	if (disk != controller->disk && blk_get_queue(disk))
		swap(controller->disk, disk);
	else
		disk = NULL;
	mutex_unlock(&controller->lock);
	if (disk)
		blk_put_queue(disk);
}

/*
 * SERVICE_CLAIM of a block device: CLAIM_WORDS words about the part of a namespace that it is. For
 * one who may write, what Linux has of it in its page cache is written, and gone if nobody uses it.
 */
int hanare_namespace(const struct hanare_granted *device, struct file *file, u64 *words)
{
	struct block_device *bdev = I_BDEV(file->f_mapping->host);
	struct hanare_controller *controller = device->controller;
	int err;

	if (!controller || READ_ONCE(device->is_gone) || !(READ_ONCE(file->f_flags) & O_DIRECT) ||
	    !is_namespace_of(bdev->bd_disk, device->pci))
		return -ENODEV;
	err = describe(controller, bdev, words);
	if (err)
		return err;
	use_disk(controller, bdev_get_queue(bdev));
	/* A reader may not take pages from others. */
	if (file->f_mode & FMODE_WRITE) {
		sync_blockdev(bdev);
		invalidate_bdev(bdev);
	}
	words[HANARE_CLAIM_FIRST] = (u64)bdev->bd_start_sect << SECTOR_SHIFT;
	name_words(bdev, file->f_mapping, words);
	return 0;
}
