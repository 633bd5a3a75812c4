// SPDX-License-Identifier: GPL-2.0
/* The LWK's ELF image, and the page tables it starts with. */
#include "instance/instance.h"

#include <linux/elf.h>

/* ---- the image ---- */

int hanare_image_check(struct hanare_image *image, char *message)
{
	const Elf64_Ehdr *eh = image->data;
	const Elf64_Phdr *ph;
	u64 end = HANARE_KERNEL_BASE, first_size = 0, first_offset = 0;
	bool entry_ok = false;
	int i, loads = 0;

	if (image->size < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return refuse(message, -ENOEXEC, "not an ELF file: give the LWK image hanare-lwk");
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_machine != EM_X86_64 ||
	    eh->e_type != ET_EXEC)
		return refuse(message, -ENOEXEC,
			"not an LWK image: a 64-bit x86 ELF executable is needed (class %u, machine %u, type %u)",
			eh->e_ident[EI_CLASS], eh->e_machine, eh->e_type);
	if (eh->e_phentsize != sizeof(*ph) || !eh->e_phnum || eh->e_phnum > 64 ||
	    eh->e_phoff % 8 || eh->e_phoff > image->size ||
	    (u64)eh->e_phnum * sizeof(*ph) > image->size - eh->e_phoff)
		return refuse(message, -ENOEXEC,
			"the image is damaged: its program headers lie outside the file");
	ph = image->data + eh->e_phoff;
	for (i = 0; i < eh->e_phnum; i++, ph++) {
		if (ph->p_type != PT_LOAD || !ph->p_memsz)
			continue;
		if (ph->p_filesz > ph->p_memsz || ph->p_offset > image->size ||
		    ph->p_filesz > image->size - ph->p_offset)
			return refuse(message, -ENOEXEC,
				"the image is damaged or cut short: segment %d lies outside the file", i);
		if (ph->p_vaddr < end || ph->p_memsz > HANARE_IMAGE_MAX ||
		    ph->p_vaddr - HANARE_KERNEL_BASE > HANARE_IMAGE_MAX - ph->p_memsz)
			return refuse(message, -ENOEXEC,
				"not an LWK image: segment %d at %#llx overlaps another or is not within %lu MiB from %#llx",
				i, (u64)ph->p_vaddr, HANARE_IMAGE_MAX >> 20, HANARE_KERNEL_BASE);
		if (!loads) {
			if (ph->p_vaddr != HANARE_KERNEL_BASE)
				return refuse(message, -ENOEXEC,
					"not an LWK image: it is linked at %#llx, not at %#llx",
					(u64)ph->p_vaddr, HANARE_KERNEL_BASE);
			first_offset = ph->p_offset;
			first_size = ph->p_filesz;
		}
		if (eh->e_entry >= ph->p_vaddr && eh->e_entry < ph->p_vaddr + ph->p_memsz)
			entry_ok = true;
		end = ph->p_vaddr + ph->p_memsz;
		loads++;
	}
	if (!loads || first_size < sizeof(image->header))
		return refuse(message, -ENOEXEC, "not an LWK image: nothing to load in it");
	memcpy(&image->header, image->data + first_offset, sizeof(image->header));
	if (image->header.magic != HANARE_MAGIC)
		return refuse(message, -ENOEXEC,
			"not an LWK image: magic %#llx where %#llx is expected",
			image->header.magic, HANARE_MAGIC);
	if (image->header.version != HANARE_VERSION)
		return refuse(message, -ENOEXEC,
			"the image speaks version %#x, this module version %#x: build both from one source",
			image->header.version, HANARE_VERSION);
	if (image->header.header_size != sizeof(image->header))
		return refuse(message, -ENOEXEC,
			"the image's header has %u bytes, this module's %zu: build both from one source",
			image->header.header_size, sizeof(image->header));
	if (!entry_ok)
		return refuse(message, -ENOEXEC,
			"the image is damaged: its entry point %#llx is outside of it",
			(u64)eh->e_entry);
	if (!image->header.trampoline_size || image->header.trampoline_size > PAGE_SIZE ||
	    image->header.trampoline_offset > first_size ||
	    image->header.trampoline_size > first_size - image->header.trampoline_offset ||
	    image->header.args_offset > image->header.trampoline_size ||
	    image->header.args_offset % 8 ||
	    sizeof(struct hanare_trampoline_args) >
		image->header.trampoline_size - image->header.args_offset)
		return refuse(message, -ENOEXEC,
			"the image is damaged: its trampoline does not fit into one page of the first segment");
	image->entry = eh->e_entry;
	image->memory_size = round_up(end - HANARE_KERNEL_BASE, PAGE_SIZE);
	return 0;
}

/* Copy the checked image to where KERNEL_BASE will be mapped. */
void hanare_image_place(struct hanare_instance *inst, const struct hanare_image *image, void *to)
{
	const Elf64_Ehdr *eh = image->data;
	const Elf64_Phdr *ph = image->data + eh->e_phoff;
	int i;

	memset(to, 0, image->memory_size);
	for (i = 0; i < eh->e_phnum; i++, ph++)
		if (ph->p_type == PT_LOAD && ph->p_memsz)
			inst->transport->copy(inst, to + (ph->p_vaddr - HANARE_KERNEL_BASE),
					      image->data + ph->p_offset, ph->p_filesz);
}

/* ---- boot page tables ---- */

/* CR3 is loaded in 32-bit mode: below 4 GiB. */
static u64 *table_page(struct hanare_instance *inst, u64 *phys)
{
	void *page = inst->transport->low_page(inst, phys);

	if (page && xa_err(xa_store(&inst->boot.tables, *phys >> PAGE_SHIFT, page, GFP_KERNEL))) {
		inst->transport->free_low_page(inst, page);
		return NULL;
	}
	return page;
}

static u64 *table_at(struct hanare_instance *inst, u64 phys)
{
	return xa_load(&inst->boot.tables, phys >> PAGE_SHIFT);
}

static u64 *table_next(struct hanare_instance *inst, u64 *table, u64 addr, int shift)
{
	u64 *entry = &table[addr >> shift & 511];
	u64 *next, phys;

	if (*entry)
		return table_at(inst, *entry & PTE_PFN_MASK);
	next = table_page(inst, &phys);
	if (next)
		*entry = phys | _PAGE_PRESENT | _PAGE_RW;
	return next;
}

static int map_large(struct hanare_instance *inst, u64 addr, u64 phys, u64 size)
{
	u64 *top = table_at(inst, inst->boot.cr3);
	u64 end = phys + size;

	for (; phys < end; phys += PMD_SIZE, addr += PMD_SIZE) {
		u64 *upper = table_next(inst, top, addr, 39);
		u64 *middle = upper ? table_next(inst, upper, addr, 30) : NULL;

		if (!middle)
			return -ENOMEM;
		middle[addr >> 21 & 511] = phys | _PAGE_PRESENT | _PAGE_RW | _PAGE_PSE;
	}
	return 0;
}

/* First 2 MiB 1:1, all memory at DIRECT_BASE, the image at KERNEL_BASE. */
int hanare_boot_tables_make(struct hanare_instance *inst)
{
	u64 top;
	int err;
	u32 i;

	if (!table_page(inst, &top))
		return -ENOMEM;
	inst->boot.cr3 = top;
	err = map_large(inst, 0, 0, PMD_SIZE);
	for (i = 0; !err && i < inst->machine.chunk_count; i++) {
		u64 phys = (u64)inst->machine.chunks[i].pfn << PAGE_SHIFT;

		err = map_large(inst, HANARE_DIRECT_BASE + phys, phys,
				(u64)inst->machine.chunks[i].pages << PAGE_SHIFT);
	}
	if (!err)
		err = map_large(inst, HANARE_KERNEL_BASE, inst->reach.image_phys,
				round_up(inst->reach.image_size, PMD_SIZE));
	return err;
}

void hanare_boot_tables_free(struct hanare_instance *inst)
{
	unsigned long frame;
	void *page;

	xa_for_each(&inst->boot.tables, frame, page)
		inst->transport->free_low_page(inst, page);
	xa_destroy(&inst->boot.tables);
	inst->boot.cr3 = 0;
}
