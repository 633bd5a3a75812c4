// SPDX-License-Identifier: GPL-2.0
/*
 * Devices of Linux' of which drivers of the LWK have a part: where their registers lie, and which
 * addresses the instance's memory has for their DMA. See docs/drivers.md.
 */
#include "instance/instance.h"

#include <linux/delay.h>
#include <linux/dma-mapping.h>
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

/* The number of the device that a descriptor of the caller is, and whether it is a block device. */
static int device_of(u32 descriptor, struct hanare_granted *device)
{
	struct file *file = descriptor <= INT_MAX ? fget(descriptor) : NULL;
	struct inode *inode = file ? file_inode(file) : NULL;
	int err = 0;

	if (!file)
		return -EBADF;
	if (S_ISCHR(inode->i_mode) || S_ISBLK(inode->i_mode)) {
		device->number = new_encode_dev(inode->i_rdev);
		device->is_block = S_ISBLK(inode->i_mode);
	} else {
		err = -EINVAL;
	}
	fput(file);
	return err;
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

/* inst->lock is held. */
int hanare_add_device(struct hanare_instance *inst, struct hanare_add_device *arg)
{
	struct hanare_granted *device = &inst->devices.all[inst->devices.count];
	int err;

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
	if (device_of(arg->descriptor, device))
		return refuse(arg->message, -EINVAL, "the file is no device");
	device->pci = pci_get_domain_bus_and_slot(arg->domain, arg->bus, arg->function);
	if (!device->pci)
		return refuse(arg->message, -ENODEV, "there is no PCI function %04x:%02x:%02x.%u", arg->domain, arg->bus,
			      PCI_SLOT(arg->function), PCI_FUNC(arg->function));
	device_lock(&device->pci->dev);
	err = check_driver(device->pci, arg->message);
	mutex_lock(&granted_lock);
	if (!err && is_given(device->pci))
		err = refuse(arg->message, -EBUSY, "%s is given to a driver already", pci_name(device->pci));
	if (!err)
		list_add(&device->entry, &granted);
	mutex_unlock(&granted_lock);
	device_unlock(&device->pci->dev);
	if (err)
		pci_dev_put(device->pci);
	else
		inst->devices.count++;
	return err;
}

/* ---- DMA ---- */

u32 hanare_dma_pieces(const struct hanare_instance *inst)
{
	return inst->devices.count ? inst->machine.memory_bytes / HANARE_DMA_PIECE : 0;
}

static void unmap(struct hanare_granted *device)
{
	for (; device->mapped; cond_resched())
		dma_unmap_page_attrs(&device->pci->dev, device->dma[--device->mapped], HANARE_DMA_PIECE, DMA_BIDIRECTIONAL,
				     DMA_ATTR_SKIP_CPU_SYNC);
}

/* An address for DMA of each piece of the instance's memory. */
static int map(struct hanare_instance *inst, struct hanare_granted *device, char *message)
{
	struct device *dev = &device->pci->dev;
	u32 i;

	for (i = 0; i < inst->machine.chunk_count; i++) {
		const struct hanare_chunk *chunk = &inst->machine.chunks[i];
		u64 end = (u64)(chunk->pfn + chunk->pages) << PAGE_SHIFT, at = 0;

		/* Of memory out of reach Linux makes copies, which no driver of the LWK sees. */
		if (!device_iommu_mapped(dev) && end - 1 > dma_get_mask(dev))
			return refuse(message, -EFAULT, "%s reaches memory below %#llx only, and %s has some above: give it other memory",
				      pci_name(device->pci), dma_get_mask(dev) + 1, inst->name);
		for (; at < (u64)chunk->pages << PAGE_SHIFT; at += HANARE_DMA_PIECE) {
			struct page *page = hanare_page(chunk, ((u64)chunk->pfn << PAGE_SHIFT) + at);
			dma_addr_t address = dma_map_page_attrs(dev, page, 0, HANARE_DMA_PIECE, DMA_BIDIRECTIONAL,
								DMA_ATTR_SKIP_CPU_SYNC);

			if (dma_mapping_error(dev, address))
				return refuse(message, -ENOMEM, "%s has no address for DMA left", pci_name(device->pci));
			device->dma[device->mapped++] = address;
			cond_resched();
		}
	}
	return 0;
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

/* Before boot: `grants` and `dma` lie in the shared region, which is there already. */
int hanare_grants_begin(struct hanare_instance *inst, struct hanare_grant *grants, u64 *dma, char *message)
{
	u32 pieces = hanare_dma_pieces(inst), i;

	for (i = 0; i < inst->devices.count; i++) {
		struct hanare_granted *device = &inst->devices.all[i];
		int err;

		if (READ_ONCE(device->is_gone)) {
			hanare_grants_end(inst);
			return refuse(message, -ENODEV, "Linux' driver has let go of %s: give it again", pci_name(device->pci));
		}
		device->dma = kvmalloc_array(pieces, sizeof(*device->dma), GFP_KERNEL);
		err = device->dma ? map(inst, device, message) :
				    refuse(message, -ENOMEM, "Linux has no memory left");
		if (err) {
			hanare_grants_end(inst);
			return err;
		}
		memcpy(dma + (u64)i * pieces, device->dma, pieces * sizeof(*dma));
		describe(device, &grants[i]);
		WRITE_ONCE(grants[i].state, HANARE_GRANT_THERE);
		/* From here on its end is told: who lets go meanwhile waits for inst->live. */
		device->grant = &grants[i];
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

/* No CPU of the instance runs, or is about to. */
void hanare_grants_end(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->devices.count; i++) {
		struct hanare_granted *device = &inst->devices.all[i];

		/* The memory goes back to Linux: nothing is to come there that was under way. */
		if (device->grant && !device->is_gone && is_in_use(device)) {
			pr_warn("%s: stopped while a driver used %s: its DMA is switched off\n", inst->name,
				pci_name(device->pci));
			pci_clear_master(device->pci);
			pci_wait_for_pending_transaction(device->pci);
		}
		device->grant = NULL;
		unmap(device);
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
		pci_dev_put(device->pci);
	}
}

/* ---- the end of Linux' driver ---- */

static void over(struct hanare_granted *device)
{
	struct hanare_instance *inst = device->inst;
	unsigned long end = jiffies + msecs_to_jiffies(GONE_MS);

	WRITE_ONCE(device->is_gone, true);
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
		/* Later it may be another's, or not be there. */
		unmap(device);
	}
	up_read(&inst->live);
}

/* Before Linux' driver lets go of a device, which is locked. */
static int pci_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct hanare_granted *device;

	if (event != BUS_NOTIFY_UNBIND_DRIVER)
		return NOTIFY_DONE;
	mutex_lock(&granted_lock);
	list_for_each_entry(device, &granted, entry)
		if (&device->pci->dev == data)
			over(device);
	mutex_unlock(&granted_lock);
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
