// SPDX-License-Identifier: GPL-2.0
#include "hanare.h"
long hanare_space_ioctl(struct file *file, unsigned int cmd, void __user *arg) { return -ENOTTY; }
void hanare_space_close(struct hanare_space *space) {}
int hanare_space_mmap(struct hanare_space *space, struct file *file, struct vm_area_struct *vma) { return -ENODEV; }
void hanare_space_ring_slot(struct hanare_instance *inst, u64 id, u32 slot) {}
void hanare_spaces_wake(struct hanare_instance *inst) {}
void hanare_spaces_exit(void) {}
int hanare_serve(struct hanare_instance *inst, struct hanare_space *space, u32 index,
		 enum hanare_context context) { return 0; }
