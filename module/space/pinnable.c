// SPDX-License-Identifier: GPL-2.0
/* Memory of which Linux pins pages for devices: RDMA, VFIO, AF_XDP, buffers of io_uring. */
#include "space/service.h"

#include <linux/file.h>
#include <linux/mman.h>

/* Whether a descriptor of the caller is a device's, whose driver may pin memory. */
static bool is_device(u64 descriptor)
{
	struct file *file = descriptor <= INT_MAX ? fget(descriptor) : NULL;
	bool is = file && S_ISCHR(file_inode(file)->i_mode);

	if (file)
		fput(file);
	return is;
}

/*
 * SERVICE_PINNABLE: maps a range anew, by the worker, so that Linux pins pages of it. What other
 * threads of the program map there meanwhile they lose.
 */
long hanare_pinnable(struct hanare_job *job)
{
	struct hanare_space *space = job->space;
	u64 start = job->args[0], end = job->args[1], offset = (u64)space->id << HANARE_SPACE_SHIFT | start;
	struct vm_area_struct *vma;
	struct file *file = NULL;
	unsigned long at;

	if (!HANARE_REFUSES_PINS)
		return -EOPNOTSUPP;
	if (start & ~PAGE_MASK || end & ~PAGE_MASK || start >= end || start < HANARE_USER_MIN || end > HANARE_USER_MAX)
		return -EINVAL;
	if (job->args[2] && !is_device(job->args[2] - 1))
		return -ENOTTY;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, start);
	if (vma && vma->vm_file && hanare_is_device(vma->vm_file) && vma->vm_private_data == space)
		file = get_file(vma->vm_file);
	mmap_read_unlock(current->mm);
	if (!file)
		return -EINVAL;
	at = vm_mmap(file, start, end - start, PROT_WRITE, MAP_SHARED | MAP_FIXED, offset);
	fput(file);
	return IS_ERR_VALUE(at) ? (long)at : 0;
}
