/* SPDX-License-Identifier: GPL-2.0 */
/* The start of an instance: what the layer instance keeps in it. */
#ifndef HANARE_INSTANCE_STATE_H
#define HANARE_INSTANCE_STATE_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/xarray.h>
#include "hanare_abi.h"

struct hanare_controller;
struct pci_dev;

/* A device of which a driver of the LWK's has a part. */
struct hanare_granted {
	struct list_head entry;			/* of all instances' */
	struct hanare_instance *inst;
	struct pci_dev *pci;			/* with a reference */
	u64 number;
	bool is_block;
	u8 driver[HANARE_GRANT_NAME_BYTES];
	bool is_gone;				/* Linux' driver has let go since it was given */
	struct hanare_grant *grant;		/* in the shared region, or NULL */
	u64 *dma;				/* address of each piece of memory, as far as `mapped` */
	u32 mapped;
	struct hanare_controller *controller;	/* nvme.c, or NULL */
};

/* Under inst->lock. */
struct hanare_instance_devices {
	struct hanare_granted all[HANARE_GRANTS_MAX];
	u32 count;
};

struct hanare_instance_boot {
	struct xarray tables;			/* pages of the boot page tables, by frame */
	phys_addr_t cr3;
	u64 ns;					/* when it was booted */
};

#endif
