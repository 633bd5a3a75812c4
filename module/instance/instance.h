/* SPDX-License-Identifier: GPL-2.0 */
/* An LWK's image, its start and its end: what the layers above may use. */
#ifndef HANARE_INSTANCE_H
#define HANARE_INSTANCE_H

#include "link/link.h"

/* boot.c */
int hanare_boot(struct hanare_instance *inst, struct hanare_boot *arg);
int hanare_shutdown(struct hanare_instance *inst, struct hanare_shutdown *arg,
		    void (*kill)(struct hanare_instance *inst));
void hanare_stop_cpus(struct hanare_instance *inst, bool ask, u32 timeout_ms);
void hanare_release_all(struct hanare_instance *inst, char *message);
/* For emergencies: no CPU of the instance executes anything any more. */
void hanare_halt_cpus(struct hanare_instance *inst);

/* image.c */
struct hanare_image {
	void *data;				/* kvmalloc'ed copy of the file */
	u64 size;
	u64 memory_size;			/* from KERNEL_BASE, bss included */
	u64 entry;
	struct hanare_image_header header;
};
int hanare_image_verify(struct hanare_image *image, char *message);
int hanare_image_check(struct hanare_image *image, char *message);
void hanare_image_place(struct hanare_instance *inst, const struct hanare_image *image, void *to);
int hanare_boot_tables_make(struct hanare_instance *inst);
void hanare_boot_tables_free(struct hanare_instance *inst);

/* grant.c */
int hanare_grants_init(void);
void hanare_grants_exit(void);
int hanare_add_device(struct hanare_instance *inst, struct hanare_add_device *arg);
u32 hanare_dma_pieces(const struct hanare_instance *inst);
int hanare_grants_begin(struct hanare_instance *inst, struct hanare_grant *grants, u64 *dma, char *message);
void hanare_grants_end(struct hanare_instance *inst);
void hanare_devices_put(struct hanare_instance *inst);

/* sleep.c */
int hanare_sleep_init(void);
void hanare_sleep_exit(void);

#endif
