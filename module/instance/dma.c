// SPDX-License-Identifier: GPL-2.0
/* Addresses that devices have for memory of an instance: what Linux' DMA interface gives. */
#include "instance/instance.h"

#include <linux/dma-mapping.h>
#include <linux/pci.h>

u32 hanare_dma_pieces(const struct hanare_instance *inst)
{
	return inst->devices.count ? inst->machine.memory_bytes / HANARE_DMA_PIECE : 0;
}

void hanare_dma_unmap(struct hanare_granted *device)
{
	for (; device->mapped; cond_resched())
		dma_unmap_page_attrs(&device->pci->dev, device->dma[--device->mapped], HANARE_DMA_PIECE, DMA_BIDIRECTIONAL,
				     DMA_ATTR_SKIP_CPU_SYNC);
}

/* The address that a device has for memory of the instance's. */
dma_addr_t hanare_dma_address(const struct hanare_granted *device, phys_addr_t at)
{
	const struct hanare_instance *inst = device->inst;
	u64 before = 0;
	u32 i;

	for (i = 0; i < inst->machine.chunk_count; i++) {
		const struct hanare_chunk *chunk = &inst->machine.chunks[i];
		u64 offset = at - ((u64)chunk->pfn << PAGE_SHIFT), size = (u64)chunk->pages << PAGE_SHIFT;

		if (offset < size)
			return device->dma[(before + offset) / HANARE_DMA_PIECE] + (before + offset) % HANARE_DMA_PIECE;
		before += size;
	}
	return DMA_MAPPING_ERROR;
}

/* An address for DMA of each piece of the instance's memory. */
int hanare_dma_map(struct hanare_granted *device, char *message)
{
	const struct hanare_instance *inst = device->inst;
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
