// SPDX-License-Identifier: GPL-2.0
/* Memory of which Linux pins pages for devices: RDMA, VFIO, AF_XDP, buffers of io_uring. */
#include "space/service.h"

#include <linux/file.h>
#include <linux/mman.h>

/*
 * Whether a descriptor of the caller is a device's, whose driver may pin memory: its own, or one
 * that the driver has made (VFIO, KVM).
 */
static bool is_device(u64 descriptor)
{
	struct file *file = descriptor <= INT_MAX ? fget(descriptor) : NULL;
	umode_t mode = file ? file_inode(file)->i_mode : S_IFREG;

	if (file)
		fput(file);
	return S_ISCHR(mode) || !(mode & S_IFMT);
}

/* The space's file, if the window, and nothing else, is mapped in all of a range. */
static struct file *window_at(struct hanare_space *space, u64 start, u64 end)
{
	struct file *file = NULL;
	u64 at;

	mmap_read_lock(current->mm);
	for (at = start; at < end;) {
		struct vm_area_struct *vma = vma_lookup(current->mm, at);

		if (!vma || !vma->vm_file || !hanare_is_device(vma->vm_file) || vma->vm_private_data != space) {
			file = NULL;
			break;
		}
		file = vma->vm_file;
		at = vma->vm_end;
	}
	if (file)
		get_file(file);
	mmap_read_unlock(current->mm);
	return file;
}

/*
 * SERVICE_PINNABLE: maps a range anew, by the worker, so that Linux pins pages of it. Other threads
 * of the program map nothing there meanwhile: the LWK has them wait.
 */
long hanare_pinnable(struct hanare_job *job)
{
	struct hanare_space *space = job->space;
	u64 start = job->args[0], end = job->args[1], offset = (u64)space->id << HANARE_SPACE_SHIFT | start;
	struct file *file;
	unsigned long at;

	if (job->args[3] == HANARE_PINNABLE_IF_REFUSED && !HANARE_REFUSES_PINS)
		return -EOPNOTSUPP;
	if (start & ~PAGE_MASK || end & ~PAGE_MASK || start >= end || start < HANARE_USER_MIN || end > HANARE_USER_MAX)
		return -EINVAL;
	if (job->args[2] && !is_device(job->args[2] - 1))
		return -ENOTTY;
	file = window_at(space, start, end);
	if (!file)
		return -EINVAL;
	at = vm_mmap(file, start, end - start, PROT_WRITE, MAP_SHARED | MAP_FIXED, offset);
	fput(file);
	return IS_ERR_VALUE(at) ? (long)at : 0;
}
