// SPDX-License-Identifier: GPL-2.0
/*
 * execve(2) by a proxy itself (control request Exec). The proxy makes the one that its program
 * asked for, so that Linux checks, tells and changes what it does for any program: permissions,
 * security modules, audit, credentials, descriptors, thread ids. Only so does a process leave
 * memory and descriptors that it shares with others. What is loaded in the program's place is the
 * proxy once more.
 */
#include "space/space.h"

#include <linux/binfmts.h>
#include <linux/elf.h>
#include <linux/file.h>
#include <linux/mount.h>
#include <linux/sched.h>

/* Programs that run are not written to on this Linux. Set once, before there is a space. */
static bool denies_writes __ro_after_init;

struct hanare_space *hanare_space_of_caller(void)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct hanare_space *space = NULL;

	if (!mm || !hanare_spaces_any())
		return NULL;
	mmap_read_lock(mm);
	vma = vma_lookup(mm, HANARE_SLOT_BASE);
	if (vma && hanare_is_window(vma))
		space = vma->vm_private_data;
	if (space && space->mm == mm)
		kref_get(&space->ref);
	else
		space = NULL;
	mmap_read_unlock(mm);
	return space;
}

/* Whether Linux' own loaders of ELF files look at more of a file than at this. */
static bool is_native(const struct linux_binprm *bprm)
{
	const struct elfhdr *header = (const void *)bprm->buf;

	if (memcmp(header->e_ident, ELFMAG, SELFMAG))
		return false;
	switch (header->e_machine) {
	case EM_X86_64:
	case EM_386:
	case EM_486:
		return true;
	}
	return false;
}

/*
 * What binfmt_misc has its interpreter get open (AT_EXECFD) the LWK opens. Nor is anything gained
 * by it.
 */
static void take_open_file(struct linux_binprm *bprm)
{
	if (bprm->executable) {
		would_dump(bprm, bprm->executable);
		fput(bprm->executable);
	}
	bprm->executable = NULL;
	bprm->have_execfd = 0;
	bprm->execfd_creds = 0;
}

/*
 * Linux goes on with the proxy's file in the place of the program's. As its interpreter it would
 * count to those that Linux allows one after the other, which are the program's.
 */
static int take_place(struct linux_binprm *bprm, struct file *proxy)
{
	struct file *program = bprm->file;
	loff_t position = 0;
	ssize_t bytes;

	memset(bprm->buf, 0, BINPRM_BUF_SIZE);
	bytes = kernel_read(proxy, bprm->buf, BINPRM_BUF_SIZE, &position);
	if (bytes < 0)
		return bytes;
	bprm->file = get_file(proxy);
	hanare_allow_write(program, denies_writes);
	fput(program);
	/* Not ours to load: that is for the formats that come next. */
	return -ENOEXEC;
}

static int load_binary(struct linux_binprm *bprm)
{
	struct hanare_space *space = hanare_space_of_caller();
	int err = -ENOEXEC;

	if (!space) {
		/* The child of a proxy, which has no space. */
		hanare_lower_limits(current);
		return err;
	}
	/* Asked once more, where no format has loaded it. */
	if (!space->program.proxy || bprm->file == space->program.proxy)
		goto put;
	/*
	 * Linux finds the interpreter, of a script or by binfmt_misc, which is another program to
	 * look at.
	 */
	if (!is_native(bprm))
		goto put;
	would_dump(bprm, bprm->file);
	err = hanare_deny_write(space->program.proxy, denies_writes);
	if (err)
		goto put;
	/* The new image comes by the space's descriptor, when its memory may be gone already. */
	hanare_space_prepare_leave(space, hanare_take_execve_let_on());
	take_open_file(bprm);
	err = take_place(bprm, space->program.proxy);
	if (err != -ENOEXEC)
		hanare_allow_write(space->program.proxy, denies_writes);
put:
	hanare_space_put(space);
	return err;
}

static struct linux_binfmt format = {
	.module		= THIS_MODULE,
	.load_binary	= load_binary,
};

void hanare_program_init(void)
{
	denies_writes = hanare_exe_denies_writes();
	/* Before all others, which would take the file for what it is. */
	__register_binfmt(&format, 1);
}

void hanare_program_exit(void)
{
	unregister_binfmt(&format);
}

/* ---- /proc/PID/exe ---- */

/* As prctl(PR_SET_MM_EXE_FILE), for the program of the caller's space. */
long hanare_set_exe(struct hanare_space *space, u64 id)
{
	struct mm_struct *mm = current->mm;
	struct file *file, *old;
	long err = -EACCES;

	mutex_lock(&space->files.lock);
	file = id <= U32_MAX ? xa_load(&space->files.table, id) : NULL;
	if (file)
		get_file(file);
	mutex_unlock(&space->files.lock);
	if (!file)
		return -EBADF;
	if (!S_ISREG(file_inode(file)->i_mode) || file->f_path.mnt->mnt_flags & MNT_NOEXEC ||
	    file_permission(file, MAY_EXEC))
		goto put;
	err = hanare_deny_write(file, denies_writes);
	if (err)
		goto put;
	mmap_write_lock(mm);
	old = unrcu_pointer(xchg(&mm->exe_file, RCU_INITIALIZER(file)));
	if (old)
		hanare_allow_write(old, denies_writes);
	mmap_write_unlock(mm);
	if (old)
		fput(old);
	return 0;
put:
	fput(file);
	return err;
}

/* ---- the end of an execve by the LWK ---- */

/* What read(2) and write(2) of a pipe would do; filters of system calls forbid more than that. */
long hanare_copy(struct hanare_space *space, void *data)
{
	const struct hanare_copy *arg = data;
	void *page = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
	long err = page ? 0 : -ENOMEM;
	u64 done, part;

	for (done = 0; !err && done < arg->bytes; done += part) {
		part = min_t(u64, arg->bytes - done, PAGE_SIZE);
		if (copy_from_user(page, (void __user *)(arg->from + done), part) ||
		    copy_to_user((void __user *)(arg->to + done), page, part))
			err = -EFAULT;
		else if (fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	free_page((unsigned long)page);
	return err;
}

long hanare_execed(struct hanare_space *space, void *data)
{
	struct hanare_execed *arg = data;
	long err;

	if (arg->arg_start > arg->arg_end || arg->env_start > arg->env_end ||
	    arg->arg_end > HANARE_USER_MAX || arg->env_end > HANARE_USER_MAX)
		return -EINVAL;
	WRITE_ONCE(space->program.arg_start, arg->arg_start);
	WRITE_ONCE(space->program.arg_end, arg->arg_end);
	WRITE_ONCE(space->program.env_start, arg->env_start);
	WRITE_ONCE(space->program.env_end, arg->env_end);
	/* A child with a program of its own is not moved to another group by its parent. */
	current->flags &= ~PF_FORKNOEXEC;
	err = arg->file ? hanare_set_exe(space, arg->file) : 0;
	hanare_close_for_exec(space);
	return err;
}

/*
 * The proxy may execute what its program may, for utility threads (abi/src/utility.rs). Of a VMA
 * only the flag changes, which says so in /proc/PID/maps: pages are executable one by one, those of
 * which the LWK says that the program may execute them. A page that the program may write as well
 * is both here, too. mmap(2) with PROT_EXEC would need the device on a mount without noexec, and
 * mprotect(2) would make what is there executable, whatever it is.
 */
long hanare_execute(struct hanare_space *space, void *data)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	VMA_ITERATOR(vmi, mm, HANARE_USER_MIN);

	if (mm != space->mm)
		return -EPERM;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (space->program.executes) {
		mmap_write_unlock(mm);
		return 0;
	}
	space->program.executes = true;
	for_each_vma_range(vmi, vma, HANARE_USER_MAX)
		if (hanare_is_window(vma) && vma->vm_private_data == space)
			hanare_vm_flags_set(vma, VM_EXEC);
	mmap_write_unlock(mm);
	/* What is there is not executable. */
	unmap_mapping_range(space->memory.inode->i_mapping,
			    (u64)space->id << HANARE_SPACE_SHIFT | HANARE_USER_MIN,
			    HANARE_USER_MAX - HANARE_USER_MIN, 1);
	return 0;
}
