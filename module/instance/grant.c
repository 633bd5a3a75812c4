// SPDX-License-Identifier: GPL-2.0
/*
 * Devices of Linux' of which drivers of the LWK have a part: where their registers lie, and which
 * addresses the instance's memory has for their DMA. See docs/drivers.md.
 */
#include "instance/instance.h"

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/pci.h>
#include <linux/slab.h>

/* How long Linux' driver waits at its end for uses of the LWK's. */
#define GONE_MS 1000

/*
 * Devices of all instances. The lock is taken with that of a device held, and before inst->live;
 * nothing of Linux' is asked for with it.
 */
static LIST_HEAD(granted);
static DEFINE_MUTEX(granted_lock);

static bool is_text(const u8 *text, size_t size)
{
	size_t i;

	for (i = 0; i < size && text[i]; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return i && i < size;
}

/* The device that a descriptor of the caller is. NULL: it is none. */
static struct file *device_of(u32 descriptor)
{
	struct file *file = descriptor <= INT_MAX ? fget(descriptor) : NULL;

	if (!file || S_ISCHR(file_inode(file)->i_mode) || S_ISBLK(file_inode(file)->i_mode))
		return file;
	fput(file);
	return NULL;
}

/* The device is locked: Linux' driver does not come or go meanwhile. */
static int check_driver(const struct pci_dev *pci, char *message)
{
	struct device_driver *driver = pci->dev.driver;

	if (!driver)
		return refuse(message, -ENODEV, "no driver of Linux' has %s: bind one", pci_name(pci));
	if (to_pci_driver(driver)->driver_managed_dma)
		return refuse(message, -EBUSY, "Linux' driver of %s has an IOMMU domain of its own: bind another",
			      pci_name(pci));
	return 0;
}

static bool is_given(const struct pci_dev *pci)
{
	const struct hanare_granted *device;

	list_for_each_entry(device, &granted, entry)
		if (device->pci == pci)
			return true;
	return false;
}

/* Gives the device's function, which there is, if it can be given. */
static int give(struct hanare_granted *device, struct file *file, struct hanare_add_device *arg)
{
	int err;

	device_lock(&device->pci->dev);
	err = check_driver(device->pci, arg->message);
	if (!err && arg->queues_of_linux)
		err = hanare_controller_get(device, file, arg->queues_of_linux, arg->command, arg->message);
	mutex_lock(&granted_lock);
	if (!err && is_given(device->pci))
		err = refuse(arg->message, -EBUSY, "%s is given to a driver already", pci_name(device->pci));
	if (!err)
		list_add(&device->entry, &granted);
	mutex_unlock(&granted_lock);
	if (err)
		hanare_controller_put(device);
	device_unlock(&device->pci->dev);
	return err;
}

/* inst->lock is held. */
int hanare_add_device(struct hanare_instance *inst, struct hanare_add_device *arg)
{
	struct hanare_granted *device = &inst->devices.all[inst->devices.count];
	struct file *file;
	int err = -ENODEV;

	if (inst->state != HANARE_INSTANCE_CREATED)
		return refuse(arg->message, -EBUSY, "%s is booted: devices can only be given before boot", inst->name);
	if (inst->devices.count >= HANARE_GRANTS_MAX)
		return refuse(arg->message, -ENOSPC, "%s has %d devices already: no more fit", inst->name,
			      HANARE_GRANTS_MAX);
	if (!is_text(arg->driver, sizeof(arg->driver)))
		return refuse(arg->message, -EINVAL, "the driver's name must be printable and end with a zero");
	memset(device, 0, sizeof(*device));
	device->inst = inst;
	memcpy(device->driver, arg->driver, sizeof(device->driver));
	if (arg->reserved)
		return refuse(arg->message, -EINVAL, "what is reserved must be zero");
	file = device_of(arg->descriptor);
	if (!file)
		return refuse(arg->message, -EINVAL, "the file is no device");
	device->number = new_encode_dev(file_inode(file)->i_rdev);
	device->is_block = S_ISBLK(file_inode(file)->i_mode);
	device->pci = pci_get_domain_bus_and_slot(arg->domain, arg->bus, arg->function);
	if (device->pci)
		err = give(device, file, arg);
	else
		refuse(arg->message, err, "there is no PCI function %04x:%02x:%02x.%u", arg->domain, arg->bus,
		       PCI_SLOT(arg->function), PCI_FUNC(arg->function));
	fput(file);
	if (err)
		pci_dev_put(device->pci);
	else
		inst->devices.count++;
	return err;
}

/* A device by its number. NULL: there is none. */
struct hanare_granted *hanare_device_numbered(struct hanare_instance *inst, u64 number)
{
	return number < inst->devices.count ? &inst->devices.all[number] : NULL;
}

/* Devices that are controllers with queues. */
u32 hanare_controllers(const struct hanare_instance *inst)
{
	u32 count = 0, i;

	for (i = 0; i < inst->devices.count; i++)
		count += inst->devices.all[i].controller != NULL;
	return count;
}

/* ---- what the LWK is told ---- */

static void describe(const struct hanare_granted *device, struct hanare_grant *grant)
{
	u32 i;

	grant->is_block = device->is_block;
	grant->device = device->number;
	memcpy(grant->driver, device->driver, sizeof(grant->driver));
	for (i = 0; i < HANARE_GRANT_REGIONS; i++) {
		resource_size_t base = pci_resource_start(device->pci, i), size = pci_resource_len(device->pci, i);

		if (!(pci_resource_flags(device->pci, i) & IORESOURCE_MEM) || !base || base & ~PAGE_MASK)
			continue;
		grant->regions[i].base = base;
		grant->regions[i].size = min_t(u64, size, HANARE_GRANT_REGION_MAX);
	}
}

/* Uses since boot, of all CPUs. inst->live is held. */
u64 hanare_uses_begun(const struct hanare_granted *device)
{
	const struct hanare_instance *inst = device->inst;
	u32 number = device - inst->devices.all, i;
	u64 begun = 0;

	for (i = 0; device->grant && i < inst->cpu_count; i++)
		begun += READ_ONCE(inst->cpus[i].shared->uses[number].begun);
	return begun;
}

/* Has a controller, the `number`th one, make its queues. */
static int begin_queues(struct hanare_granted *device, const struct hanare_grant_places *places, u32 number,
			char *message)
{
	struct hanare_instance *inst = device->inst;
	struct hanare_grant_queues *queues = &device->grant->queues;
	u32 first = number * inst->cpu_count;

	queues->offset = places->queues + first * sizeof(struct hanare_grant_queue);
	queues->pages_offset = places->queue_pages + first * 2 * PAGE_SIZE;
	return hanare_controller_begin(device, places->base + queues->offset, places->base + queues->pages_offset,
				       inst->reach.shared_phys + queues->pages_offset, message);
}

static int begin(struct hanare_granted *device, const struct hanare_grant_places *places, u32 number, char *message)
{
	struct hanare_instance *inst = device->inst;
	u32 pieces = hanare_dma_pieces(inst), index = device - inst->devices.all;
	struct hanare_grant *grant = (struct hanare_grant *)(places->base + places->grants) + index;
	int err;

	if (READ_ONCE(device->is_gone))
		return refuse(message, -ENODEV, "Linux' driver has let go of %s: give it again", pci_name(device->pci));
	device->dma = kvmalloc_array(pieces, sizeof(*device->dma), GFP_KERNEL);
	if (!device->dma)
		return refuse(message, -ENOMEM, "Linux has no memory left");
	err = hanare_dma_map(device, message);
	if (err)
		return err;
	memcpy((u64 *)(places->base + places->dma) + (u64)index * pieces, device->dma, pieces * sizeof(*device->dma));
	describe(device, grant);
	WRITE_ONCE(grant->state, HANARE_GRANT_THERE);
	/* From here on its end is told: who lets go meanwhile waits for inst->live. */
	device->grant = grant;
	return device->controller ? begin_queues(device, places, number, message) : 0;
}

/* Before boot. The shared region is there already. */
int hanare_grants_begin(struct hanare_instance *inst, const struct hanare_grant_places *places, char *message)
{
	u32 controllers = 0, i;

	for (i = 0; i < inst->devices.count; i++) {
		struct hanare_granted *device = &inst->devices.all[i];
		int err = begin(device, places, controllers, message);

		if (err) {
			hanare_grants_end(inst);
			return err;
		}
		controllers += device->controller != NULL;
	}
	return 0;
}

static bool is_in_use(const struct hanare_granted *device)
{
	const struct hanare_instance *inst = device->inst;
	u32 number = device - inst->devices.all, uses = 0, i;

	for (i = 0; i < inst->cpu_count; i++) {
		const struct hanare_grant_uses *cpu = &inst->cpus[i].shared->uses[number];

		uses += hanare_uses(&cpu->begun, &cpu->ended);
	}
	return uses;
}

/* Nothing is to come to the instance's memory any more that was under way. */
static void switch_off(const struct hanare_granted *device)
{
	pr_warn("%s: commands of a driver may be under way on %s: its DMA is switched off\n", device->inst->name,
		pci_name(device->pci));
	pci_clear_master(device->pci);
	pci_wait_for_pending_transaction(device->pci);
}

/* No use is begun any more. */
static void end_commands(struct hanare_granted *device, bool may_be_used)
{
	/* A use of a controller is over when its queues are gone. */
	if (!hanare_controller_end(device) || (may_be_used && !device->controller))
		switch_off(device);
	hanare_controller_forget(device);
}

/* No CPU of the instance runs, or is about to. */
void hanare_grants_end(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->devices.count; i++) {
		struct hanare_granted *device = &inst->devices.all[i];

		/* The memory goes back to Linux. While it has addresses its end was not told. */
		if (device->mapped)
			end_commands(device, device->grant && is_in_use(device));
		device->grant = NULL;
		hanare_dma_unmap(device);
		kvfree(device->dma);
		device->dma = NULL;
	}
}

void hanare_devices_put(struct hanare_instance *inst)
{
	while (inst->devices.count) {
		struct hanare_granted *device = &inst->devices.all[--inst->devices.count];

		mutex_lock(&granted_lock);
		list_del(&device->entry);
		mutex_unlock(&granted_lock);
		hanare_controller_put(device);
		pci_dev_put(device->pci);
	}
}

/* ---- the end of Linux' driver ---- */

static void over(struct hanare_granted *device)
{
	struct hanare_instance *inst = device->inst;
	unsigned long end = jiffies + msecs_to_jiffies(GONE_MS);

	down_read(&inst->live);
	if (device->grant) {
		hanare_grant_over(&device->grant->state);
		while (is_in_use(device) && time_before(jiffies, end))
			usleep_range(50, 200);
		if (is_in_use(device))
			pr_err("%s: a driver of the LWK's does not let go of %s within %d ms\n", inst->name,
			       pci_name(device->pci), GONE_MS);
		else
			pr_info("%s: Linux' driver lets go of %s: the LWK uses it no more\n", inst->name,
				pci_name(device->pci));
		end_commands(device, false);
		/* Later it may be another's, or not be there. */
		hanare_dma_unmap(device);
	}
	up_read(&inst->live);
}

/* The device that is given to an instance, with a reference to that. */
static struct hanare_granted *find_given(const struct device *dev)
{
	struct hanare_granted *device, *found = NULL;

	mutex_lock(&granted_lock);
	list_for_each_entry(device, &granted, entry)
		if (&device->pci->dev == dev && kref_get_unless_zero(&device->inst->ref)) {
			WRITE_ONCE(device->is_gone, true);
			found = device;
			break;
		}
	mutex_unlock(&granted_lock);
	return found;
}

/* Before Linux' driver lets go of a device, which is locked. */
static int pci_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct hanare_granted *device = event == BUS_NOTIFY_UNBIND_DRIVER ? find_given(data) : NULL;

	if (!device)
		return NOTIFY_DONE;
	over(device);
	hanare_instance_put(device->inst);
	return NOTIFY_OK;
}

static struct notifier_block pci_nb = { .notifier_call = pci_event };

int hanare_grants_init(void)
{
	return bus_register_notifier(&pci_bus_type, &pci_nb);
}

void hanare_grants_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &pci_nb);
}
