// SPDX-License-Identifier: GPL-2.0
/*
 * PAGEMAP_SCAN of an LWK process, as fs/proc/task_mmu.c does it: which pages are of which
 * categories. No mapping of the LWK's can be write-protected by userfaultfd(2). What Linux itself
 * maps for the process it is asked about by the same ioctl.
 */
#include "show/pseudo.h"

#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define CATEGORIES (PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN | PAGE_IS_FILE | PAGE_IS_PRESENT |	\
		    PAGE_IS_SWAPPED | PAGE_IS_PFNZERO | PAGE_IS_HUGE | PAGE_IS_SOFT_DIRTY |	\
		    HANARE_PAGE_IS_GUARD)
#define FLAGS (PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC)
/* Regions that are made before they are copied: as many as Linux makes. */
#define REGIONS_MAX (PMD_SIZE >> PAGE_SHIFT)

struct scan {
	struct pm_scan_arg arg;
	struct file *linux_file;
	struct page_region *regions;		/* or NULL: not wanted */
	u64 room, used;				/* of `regions`; the last one may be empty */
	struct page_region __user *to;
	u64 pages, told;			/* found; regions copied */
	unsigned long questions;		/* a page of the caller's memory, to ask Linux; or 0 */
};

/* ---- what is found ---- */

static int flush(struct scan *s)
{
	u64 count = s->used;

	if (!s->regions)
		return 0;
	if (s->regions[count].end != s->regions[count].start)
		count++;
	if (count && copy_to_user(s->to, s->regions, count * sizeof(*s->regions)))
		return -EFAULT;
	s->arg.vec_len -= count;
	s->to += count;
	s->told += count;
	s->room = min(s->room, s->arg.vec_len);
	s->used = 0;
	s->regions[0].start = s->regions[0].end = 0;
	return 0;
}

/* False: there is no room. */
static bool push(struct scan *s, u64 start, u64 end, u64 categories)
{
	struct page_region *last = &s->regions[s->used];

	if (last->end == start && last->start != last->end && last->categories == categories) {
		last->end = end;
		return true;
	}
	if (last->start != last->end) {
		if (s->used + 1 >= s->room)
			return false;
		last = &s->regions[++s->used];
	}
	last->start = start;
	last->end = end;
	last->categories = categories;
	return true;
}

/* -ENOSPC: as many as were wanted; walk_end says where. */
static int found(struct scan *s, u64 start, u64 end, u64 categories)
{
	u64 left = s->arg.max_pages - s->pages;
	int err = 0;

	categories ^= s->arg.category_inverted;
	if ((categories & s->arg.category_mask) != s->arg.category_mask ||
	    (s->arg.category_anyof_mask && !(categories & s->arg.category_anyof_mask)))
		return 0;
	categories ^= s->arg.category_inverted;
	if (!s->regions)
		return 0;
	categories &= s->arg.return_mask;
	if ((end - start) >> PAGE_SHIFT > left) {
		end = start + (left << PAGE_SHIFT);
		err = -ENOSPC;
	}
	if (end > start && !push(s, start, end, categories)) {
		err = flush(s);
		if (err)
			return err;
		if (!s->room || !push(s, start, end, categories)) {
			s->arg.walk_end = start;
			return -ENOSPC;
		}
	}
	s->pages += (end - start) >> PAGE_SHIFT;
	if (err)
		s->arg.walk_end = end;
	return err;
}

/* ---- where it is found ---- */

/* Linux looks for nothing but pages that were written. */
static bool is_short(const struct pm_scan_arg *arg)
{
	return !arg->category_anyof_mask && !arg->category_inverted &&
	       arg->category_mask == PAGE_IS_WRITTEN && arg->return_mask == PAGE_IS_WRITTEN;
}

/* Linux' categories of its own mapping. */
static int scan_linux(struct scan *s, u64 start, u64 end)
{
	struct page_region __user *regions;
	struct pm_scan_arg __user *question;
	struct page_region region;
	long count, i;
	int err;

	if (!s->questions)
		s->questions = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(s->questions)) {
		err = s->questions;
		s->questions = 0;
		return err;
	}
	question = (struct pm_scan_arg __user *)s->questions;
	regions = (struct page_region __user *)(question + 1);
	while (start < end) {
		/* It finds more the short way: as it is asked itself. */
		struct pm_scan_arg arg = {
			.category_mask = is_short(&s->arg) ? PAGE_IS_WRITTEN : 0,
			.size = sizeof(arg),
			.start = start,
			.end = end,
			.vec = (u64)(unsigned long)regions,
			.vec_len = (PAGE_SIZE - sizeof(arg)) / sizeof(region),
			.return_mask = is_short(&s->arg) ? PAGE_IS_WRITTEN : CATEGORIES,
		};

		if (copy_to_user(question, &arg, sizeof(arg)))
			return -EFAULT;
		count = s->linux_file->f_op->unlocked_ioctl(s->linux_file, PAGEMAP_SCAN,
							    s->questions);
		if (count < 0)
			return count;
		for (i = 0; i < count; i++) {
			if (copy_from_user(&region, &regions[i], sizeof(region)))
				return -EFAULT;
			err = found(s, region.start, region.end, region.categories);
			if (err)
				return err;
		}
		if (copy_from_user(&arg, question, sizeof(arg)) || arg.walk_end <= start)
			return -EFAULT;
		start = arg.walk_end;
	}
	return 0;
}

static u64 categories_of(const struct scan *s, u64 entry)
{
	u64 categories = 0;

	if (IS_ENABLED(CONFIG_MEM_SOFT_DIRTY) && entry & HANARE_PAGEMAP_SOFT_DIRTY)
		categories |= PAGE_IS_SOFT_DIRTY;
	if (entry & HANARE_PAGEMAP_PRESENT)
		categories |= PAGE_IS_PRESENT | PAGE_IS_WRITTEN;
	if (entry & HANARE_PAGEMAP_SWAP)
		categories |= PAGE_IS_SWAPPED | PAGE_IS_WRITTEN;
	/* By the short way of a scan for written pages, whose table it reads, on each kernel. */
	if (entry & HANARE_PAGEMAP_TABLE && (HANARE_MISSING_IS_WRITTEN || is_short(&s->arg)))
		categories |= PAGE_IS_WRITTEN;
	if (entry & HANARE_PAGEMAP_FILE)
		categories |= PAGE_IS_FILE;
	if (entry & HANARE_PAGEMAP_LARGE)
		categories |= PAGE_IS_HUGE;
	return categories;
}

static int scan_run(u64 at, u64 pages, u64 entry, void *data)
{
	u64 end = at + (pages << PAGE_SHIFT);
	struct scan *s = data;

	if (entry & HANARE_PAGEMAP_UNMAPPED)
		return 0;
	if (s->arg.flags & PM_SCAN_CHECK_WPASYNC)
		return -EPERM;
	/* Nothing here could be write-protected. */
	if (s->arg.flags & PM_SCAN_WP_MATCHING ||
	    (s->arg.category_mask & ~s->arg.category_inverted & PAGE_IS_WPALLOWED))
		return 0;
	if (entry & HANARE_PAGEMAP_LINUX)
		return scan_linux(s, at, end);
	return found(s, at, end, categories_of(s, entry));
}

/* ---- the call ---- */

static int check(struct pm_scan_arg *arg)
{
	u64 bytes;

	if (arg->size != sizeof(*arg) || arg->flags & ~(u64)FLAGS ||
	    (arg->category_inverted | arg->category_mask | arg->category_anyof_mask |
	     arg->return_mask) & ~(u64)CATEGORIES || !PAGE_ALIGNED(arg->start))
		return -EINVAL;
	if (!access_ok((void __user *)arg->start, arg->end - arg->start))
		return -EFAULT;
	if (!arg->vec && arg->vec_len)
		return -EINVAL;
	if (check_mul_overflow(arg->vec_len, (u64)sizeof(struct page_region), &bytes))
		bytes = U64_MAX;
	if (arg->vec && !access_ok((void __user *)arg->vec, bytes))
		return -EFAULT;
	arg->end = ALIGN(arg->end, PAGE_SIZE);
	arg->walk_end = 0;
	if (!arg->max_pages)
		arg->max_pages = U64_MAX;
	return 0;
}

long hanare_pagemap_scan(struct hanare_pseudo *what, unsigned long argument)
{
	struct pm_scan_arg __user *user = (struct pm_scan_arg __user *)argument;
	struct scan s = { .linux_file = what->linux_file };
	int err, last;

	if (copy_from_user(&s.arg, user, sizeof(s.arg)))
		return -EFAULT;
	err = check(&s.arg);
	if (err)
		return err;
	s.to = (struct page_region __user *)(unsigned long)s.arg.vec;
	s.room = min_t(u64, s.arg.vec_len, REGIONS_MAX);
	if (s.room) {
		s.regions = kvcalloc(s.room, sizeof(*s.regions), GFP_KERNEL_ACCOUNT);
		if (!s.regions)
			return -ENOMEM;
	}
	err = hanare_space_pagemap(what->space, s.arg.start, s.arg.end, scan_run, &s);
	/* What is found is told, wherever it ended. */
	last = flush(&s);
	if (!s.arg.walk_end)
		s.arg.walk_end = s.arg.end;
	if (s.questions)
		vm_munmap(s.questions, PAGE_SIZE);
	kvfree(s.regions);
	if (put_user(s.arg.walk_end, &user->walk_end))
		return -EFAULT;
	if (err && err != -ENOSPC && err != -ESRCH)
		return err;
	return last ?: (long)s.told;
}
