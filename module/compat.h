/* SPDX-License-Identifier: GPL-2.0 */
/* Every difference between the kernels we support, and nothing else. */
#ifndef HANARE_COMPAT_H
#define HANARE_COMPAT_H

#include <linux/module_signature.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <asm/cpufeature.h>

/* The opener of a file has to notify its watchers; since 6.5 dentry_open does. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define hanare_tell_opened(file) do { } while (0)
#else
#include <linux/fsnotify.h>
#define hanare_tell_opened(file) fsnotify_open(file)
#endif

/* A directory's children behind `child`, the one made last first. Under its lock. */
#include <linux/dcache.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define hanare_for_each_child(child, directory) \
	hlist_for_each_entry(child, &(directory)->d_children, d_sib)
#define hanare_for_each_child_behind(child, directory) \
	hlist_for_each_entry_continue(child, d_sib)
#else
#define hanare_for_each_child(child, directory) \
	list_for_each_entry(child, &(directory)->d_subdirs, d_child)
#define hanare_for_each_child_behind(child, directory) \
	list_for_each_entry_continue(child, &(directory)->d_subdirs, d_child)
#endif

/*
 * Of a thread that has ended, `auxv`, `environ`, `mem` and `pagemap` were empty, then could not be
 * opened any more.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define HANARE_NO_MEMORY (-ESRCH)
#else
#define HANARE_NO_MEMORY 0
#endif

/* The MIGRATE_MOVABLE argument became ACR_FLAGS_NONE. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define hanare_alloc_range(start, end, gfp) \
	alloc_contig_range(start, end, ACR_FLAGS_NONE, gfp)
#else
#define hanare_alloc_range(start, end, gfp) \
	alloc_contig_range(start, end, MIGRATE_MOVABLE, gfp)
#endif

/* MAX_ORDER was exclusive until 6.4; MAX_PAGE_ORDER since 6.8. */
#ifdef MAX_PAGE_ORDER
#define HANARE_MAX_ORDER MAX_PAGE_ORDER
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define HANARE_MAX_ORDER MAX_ORDER
#else
#define HANARE_MAX_ORDER (MAX_ORDER - 1)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void hanare_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#else
#define hanare_vm_flags_set vm_flags_set
#endif

/* Shared mappings of files are in a core dump of this memory; flags have functions since 6.18. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define hanare_dump_shared(mm) mm_flags_set(MMF_DUMP_MAPPED_SHARED, mm)
#else
#include <linux/sched/coredump.h>
#define hanare_dump_shared(mm) set_bit(MMF_DUMP_MAPPED_SHARED, &(mm)->flags)
#endif

/* PR_SET_MDWE came with 6.3. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define hanare_denies_write_exec(mm) mm_flags_test(MMF_HAS_MDWE, mm)
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define hanare_denies_write_exec(mm) test_bit(MMF_HAS_MDWE, &(mm)->flags)
#else
#define hanare_denies_write_exec(mm) false
#endif

/* PAGEMAP_SCAN came with 6.7; without it these only stand for it. */
#include <linux/fs.h>
#ifdef PAGEMAP_SCAN
#define HANARE_HAS_PAGEMAP_SCAN true
#else
#define HANARE_HAS_PAGEMAP_SCAN false
#define PAGEMAP_SCAN 0
enum {
	PAGE_IS_WPALLOWED = 1, PAGE_IS_WRITTEN = 2, PAGE_IS_FILE = 4, PAGE_IS_PRESENT = 8,
	PAGE_IS_SWAPPED = 16, PAGE_IS_PFNZERO = 32, PAGE_IS_HUGE = 64, PAGE_IS_SOFT_DIRTY = 128,
	PM_SCAN_WP_MATCHING = 1, PM_SCAN_CHECK_WPASYNC = 2,
};
struct page_region {
	u64 start, end, categories;
};
struct pm_scan_arg {
	u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
#endif
/*
 * Where small pages have a table, those that are not there are written for PAGEMAP_SCAN (seen of
 * 6.18, not of 6.12).
 */
#define HANARE_MISSING_IS_WRITTEN (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0))
/* Since 6.15. */
#ifdef PAGE_IS_GUARD
#define HANARE_PAGE_IS_GUARD PAGE_IS_GUARD
#else
#define HANARE_PAGE_IS_GUARD 0
#endif

/*
 * Batches of folios have a header of their own in 7.x. Sparse, which checks with older ones, does
 * not know that it can ask.
 */
#ifdef __has_include
#if __has_include(<linux/folio_batch.h>)
#define HANARE_HAS_FOLIO_BATCH
#endif
#endif
#ifdef HANARE_HAS_FOLIO_BATCH
#include <linux/folio_batch.h>
#else
#include <linux/pagevec.h>
#endif

/* Since 6.8 it always adds one. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define hanare_eventfd_signal(eventfd) eventfd_signal(eventfd, 1)
#else
#define hanare_eventfd_signal eventfd_signal
#endif

/* Gone in 7.x, where every interrupt can be moved from process context. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define hanare_irq_move_anywhere(irq) irq_set_status_flags(irq, IRQ_MOVE_PCNTXT)
#else
#define hanare_irq_move_anywhere(irq) do { } while (0)
#endif

/* 6.17 gave some file systems another operation for the same. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define hanare_can_mmap(file) can_mmap_file(file)
#else
#define hanare_can_mmap(file) ((file)->f_op->mmap != NULL)
#endif

/*
 * A bit of an inode's `i_data.flags`, which Linux clears when it makes the inode. None of its own
 * (AS_EIO and so on, up to AS_FOLIO_ORDER_MAX at bit 25) comes near.
 */
#define HANARE_AS_KNOWN 60

/*
 * Whether perf counts in a task. Since 6.2 a task has one context for that; before, it had one for
 * hardware and one for software.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define hanare_is_counted(task) (READ_ONCE((task)->perf_event_ctxp) != NULL)
#else
#define hanare_is_counted(task)						\
	(READ_ONCE((task)->perf_event_ctxp[perf_hw_context]) ||		\
	 READ_ONCE((task)->perf_event_ctxp[perf_sw_context]))
#endif

/* Whose ids a mount shows: 6.3 gave it a type of its own. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define HANARE_IDMAP struct mnt_idmap
#else
#define HANARE_IDMAP struct user_namespace
#endif

/* Which of its ids a mount shows. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define hanare_idmap(mnt) mnt_idmap(mnt)
#else
#define hanare_idmap(mnt) mnt_user_ns(mnt)
#endif

/* splice(2) from a file: generic_file_splice_read() is gone since 6.5. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define hanare_splice_read copy_splice_read
#else
#define hanare_splice_read generic_file_splice_read
#endif

/*
 * Running programs could be written to in 6.11 and in 6.12 at first; its later stable
 * releases forbid it again, so what counts is what this Linux does (`denies`).
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define hanare_exe_denies_writes() true
#define hanare_deny_write(file, denies) exe_file_deny_write_access(file)
#define hanare_allow_write(file, denies) exe_file_allow_write_access(file)
#else
/* Whether the program that loads this module is protected from being written to. */
static inline bool hanare_exe_denies_writes(void)
{
	struct file *exe;
	bool denies;

	rcu_read_lock();
	exe = current->mm ? rcu_dereference(current->mm->exe_file) : NULL;
	denies = exe && atomic_read(&file_inode(exe)->i_writecount) < 0;
	rcu_read_unlock();
	return denies;
}

#define hanare_deny_write(file, denies) ((denies) ? deny_write_access(file) : 0)
#define hanare_allow_write(file, denies) allow_write_access((denies) ? (file) : NULL)
#endif

/*
 * Whether Linux refuses to pin pages for devices, for as long as these like (FOLL_LONGTERM), of a
 * shared mapping that is told of writes ("mm/gup: disallow FOLL_LONGTERM GUP-nonfast writing to
 * file-backed mappings").
 */
#define HANARE_REFUSES_PINS (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0))

/* A page of a mapping that has no struct page, or none for pinning. */
struct hanare_device_page {
	unsigned long pfn;
	pgprot_t prot;		/* as a small page has it */
	bool writable;
};

/* Finds it: 0, -EINVAL. Under mmap_lock, of a VM_PFNMAP or VM_IO mapping. */
static inline int hanare_follow_page(struct vm_area_struct *vma, unsigned long addr,
				     struct hanare_device_page *page)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct follow_pfnmap_args args = { .vma = vma, .address = addr };

	if (follow_pfnmap_start(&args))
		return -EINVAL;
	page->pfn = args.pfn;
	page->writable = args.writable;
	page->prot = args.pgprot;
	/* Of a large page it is as that has it (seen of 6.12 and 7.2). */
	if (!args.ptep)
		page->prot = pgprot_large_2_4k(args.pgprot);
	follow_pfnmap_end(&args);
#else
	spinlock_t *lock;
	pte_t *pte;

	if (follow_pte(vma->vm_mm, addr, &pte, &lock))
		return -EINVAL;
	__acquire(lock);	/* what sparse does not see of follow_pte() */
	page->pfn = pte_pfn(*pte);
	page->writable = pte_write(*pte);
	page->prot = pte_pgprot(*pte);
	pte_unmap_unlock(pte, lock);
#endif
	return 0;
}

/* Where a block device says that it may not be written to, and the bits of that. */
#include <linux/blk_types.h>
#ifdef BD_READ_ONLY
#define hanare_read_only(bdev) (&(bdev)->__bd_flags)
#define HANARE_READ_ONLY_MASK ((u64)BD_READ_ONLY)
#else
#define hanare_read_only(bdev) (&(bdev)->bd_read_only)
#define HANARE_READ_ONLY_MASK 0xffULL
#endif

/* Leaks of CPUs that a kernel does not know; it has no file that tells of them, either. */
#define X86_BUG_NONE X86_BUG_F00F	/* a Pentium's: no 64-bit CPU has it */
#ifndef X86_BUG_SRSO
#define X86_BUG_SRSO X86_BUG_NONE
#endif
#ifndef X86_BUG_BHI
#define X86_BUG_BHI X86_BUG_NONE
#endif
#ifndef X86_BUG_RFDS
#define X86_BUG_RFDS X86_BUG_NONE
#endif
#ifndef X86_BUG_ITS
#define X86_BUG_ITS X86_BUG_NONE
#endif
#ifndef X86_BUG_TSA
#define X86_BUG_TSA X86_BUG_NONE
#endif

/* Linux renamed them after 6.12. */
#ifndef MODULE_SIGNATURE_MARKER
#define MODULE_SIGNATURE_MARKER MODULE_SIG_STRING
#define MODULE_SIGNATURE_TYPE_PKCS7 PKEY_ID_PKCS7
#endif

#endif
