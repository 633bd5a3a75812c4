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

/* grant.c: where it puts what the LWK is told, in the shared region that begins at `base`. */
struct hanare_grant_places {
	void *base;
	u32 grants;
	u32 dma;
	u32 queues;			/* a hanare_grant_queue for each CPU, for one controller behind the other */
	u32 queue_pages;		/* two for each */
};

int hanare_grants_init(void);
void hanare_grants_exit(void);
int hanare_add_device(struct hanare_instance *inst, struct hanare_add_device *arg);
u32 hanare_controllers(const struct hanare_instance *inst);
int hanare_grants_begin(struct hanare_instance *inst, const struct hanare_grant_places *places, char *message);
void hanare_grants_end(struct hanare_instance *inst);
void hanare_devices_put(struct hanare_instance *inst);
u64 hanare_uses_begun(const struct hanare_granted *device);
struct hanare_granted *hanare_device_numbered(struct hanare_instance *inst, u64 number);

/* dma.c */
u32 hanare_dma_pieces(const struct hanare_instance *inst);
int hanare_dma_map(struct hanare_granted *device, char *message);
void hanare_dma_unmap(struct hanare_granted *device);
dma_addr_t hanare_dma_address(const struct hanare_granted *device, phys_addr_t at);

/* nvme.c */
int hanare_controller_get(struct hanare_granted *device, struct file *file, u32 queues_of_linux, u64 command,
			  char *message);
void hanare_controller_put(struct hanare_granted *device);
int hanare_controller_begin(struct hanare_granted *device, struct hanare_grant_queue *told, void *pages,
			    phys_addr_t at, char *message);
bool hanare_controller_end(struct hanare_granted *device);
void hanare_controller_forget(struct hanare_granted *device);
long hanare_controller_renew(struct hanare_granted *device, u64 cpu, u64 round);
int hanare_namespace(const struct hanare_granted *device, struct file *file, u64 *words);

/* sleep.c */
int hanare_sleep_init(void);
void hanare_sleep_exit(void);

#endif
