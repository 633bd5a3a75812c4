/* SPDX-License-Identifier: GPL-2.0 */
/* The start of an instance: what the layer instance keeps in it. */
#ifndef HANARE_INSTANCE_STATE_H
#define HANARE_INSTANCE_STATE_H

#include <linux/types.h>
#include <linux/xarray.h>

struct hanare_instance_boot {
	struct xarray tables;			/* pages of the boot page tables, by frame */
	phys_addr_t cr3;
	u64 ns;					/* when it was booted */
};

#endif
