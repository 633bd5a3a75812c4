// SPDX-License-Identifier: GPL-2.0
/*
 * An LWK on CPUs and memory that this Linux had before: one machine, so its frames have the same
 * numbers on both sides, its TSC is Linux' own, and a CPU of one side rings one of the other by its
 * local APIC. machine/ takes CPUs and memory from Linux.
 */
#include "transport/transport.h"

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/slab.h>
#include <asm/apic.h>

/* Marks the end of Linux' own real-mode code below 1 MiB (realmode/rm/header.S). */
#define REALMODE_SIGNATURE 0x65a22c82
#define REALMODE_PAGES 16

/* One CPU at a time starts through the borrowed low page. */
static DEFINE_MUTEX(trampoline_lock);

/* ---- the interrupt command register ---- */

static bool icr_is_busy(void)
{
	return apic->read(APIC_ICR) & APIC_ICR_BUSY;
}

static bool has_x2apic(void)
{
	return native_read_msr(MSR_IA32_APICBASE) & X2APIC_ENABLE;
}

/*
 * Always a physical destination: apic->send_IPI may use logical ones, which
 * an LWK CPU does not have.
 */
static void ring(struct hanare_cpu *cpu)
{
	unsigned long flags;
	int i;

	/* In x2APIC mode the write is not ordered after earlier stores. */
	mb();
	local_irq_save(flags);
	if (!has_x2apic())
		for (i = 0; i < 1000 && icr_is_busy(); i++)
			cpu_relax();
	apic->icr_write(APIC_DM_FIXED | HANARE_IPI_VECTOR, cpu->apicid);
	local_irq_restore(flags);
}

/* As above, and waits until it is sent. */
static void icr_write(u32 low, u32 apicid)
{
	unsigned long flags;
	int i;

	mb();
	local_irq_save(flags);
	apic->icr_write(low, apicid);
	if (!has_x2apic())
		for (i = 0; i < 1000 && icr_is_busy(); i++)
			udelay(1);
	local_irq_restore(flags);
}

static void halt_cpu(struct hanare_cpu *cpu)
{
	icr_write(APIC_INT_LEVELTRIG | APIC_INT_ASSERT | APIC_DM_INIT, cpu->apicid);
	udelay(200);
	icr_write(APIC_INT_LEVELTRIG | APIC_DM_INIT, cpu->apicid);
	/* Some hypervisors do it in the target's own time. */
	usleep_range(1000, 2000);
	cpu->started = false;
}

/* ---- the low page ---- */

static bool page_has_signature(const u32 *words)
{
	size_t i;

	for (i = 0; i < PAGE_SIZE / sizeof(*words); i++)
		if (words[i] == REALMODE_SIGNATURE)
			return true;
	return false;
}

/*
 * Linux reserves all RAM below 1 MiB and uses its own real-mode code there
 * (which ends with the signature). Any other page can be borrowed for a moment.
 * The lowest ones are left to the firmware's habits.
 */
static unsigned long find_low_page(void)
{
	unsigned long pfn, found = 0, blocked_from = ~0UL, blocked_to = 0;

	for (pfn = 1; pfn < 0xa0; pfn++) {
		void *at;

		if (!page_is_ram(pfn))
			continue;
		at = memremap(pfn << PAGE_SHIFT, PAGE_SIZE, MEMREMAP_WB);
		if (!at)
			continue;
		if (page_has_signature(at)) {
			blocked_to = pfn;
			blocked_from = pfn > REALMODE_PAGES ? pfn - REALMODE_PAGES : 0;
		}
		memunmap(at);
	}
	for (pfn = 0x9f; pfn >= 0x10; pfn--)
		if (page_is_ram(pfn) && (pfn < blocked_from || pfn > blocked_to))
			found = pfn;
	return found;
}

static int start_cpu(struct hanare_cpu *cpu, const struct hanare_trampoline *trampoline, ktime_t deadline,
		     char *message)
{
	unsigned long pfn;
	void *low, *saved;
	int err, try;

	saved = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!saved)
		return refuse(message, -ENOMEM, "Linux has no memory left");
	mutex_lock(&trampoline_lock);
	/* No CPU of Linux' own starts meanwhile. */
	cpus_read_lock();
	pfn = find_low_page();
	low = pfn ? memremap(pfn << PAGE_SHIFT, PAGE_SIZE, MEMREMAP_WB) : NULL;
	if (!low) {
		cpus_read_unlock();
		mutex_unlock(&trampoline_lock);
		kfree(saved);
		return refuse(message, -ENOMEM, "no usable page of memory below 1 MiB");
	}
	memcpy(saved, low, PAGE_SIZE);
	memcpy(low, trampoline->code, trampoline->size);
	memcpy(low + trampoline->args_offset, &trampoline->args, sizeof(trampoline->args));

	smp_store_release(&cpu->shared->state, HANARE_CPU_STARTING);
	halt_cpu(cpu);
	cpu->started = true;
	for (try = 0; try < 2 && hanare_cpu_state(cpu) < HANARE_CPU_ENTERED; try++) {
		icr_write(APIC_DM_STARTUP | pfn, cpu->apicid);
		udelay(200);
	}
	err = hanare_await_cpu(cpu, HANARE_CPU_ENTERED, deadline);
	if (err)
		halt_cpu(cpu);
	memcpy(low, saved, PAGE_SIZE);
	memunmap(low);
	cpus_read_unlock();
	mutex_unlock(&trampoline_lock);
	kfree(saved);
	return err;
}

/* ---- memory ---- */

static void *low_page(struct hanare_instance *inst, u64 *phys)
{
	void *page = (void *)__get_free_page(GFP_KERNEL | GFP_DMA32 | __GFP_ZERO);

	if (page)
		*phys = virt_to_phys(page);
	return page;
}

static void free_low_page(struct hanare_instance *inst, void *page)
{
	free_page((unsigned long)page);
}

static void release(struct hanare_instance *inst, char *message)
{
	hanare_release_cpus(inst, message);
	hanare_release_memory(inst);
}

static void copy(struct hanare_instance *inst, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

/* ---- CPUs ---- */

static u32 khz(const struct hanare_instance *inst)
{
	return tsc_khz;
}

static u32 leaks(const struct hanare_instance *inst)
{
	return hanare_cpu_leaks();
}

/* The CPUs were Linux', and will be. */
static u64 pat(const struct hanare_instance *inst)
{
	return hanare_pat();
}

/* ---- the table ---- */

const struct hanare_transport hanare_local = {
	.number		= HANARE_TRANSPORT_LOCAL,
	.flags		= HANARE_TRANSPORT_LINUX_FRAMES | HANARE_TRANSPORT_ATOMICS | HANARE_TRANSPORT_ONE_TSC |
			  HANARE_TRANSPORT_SAME_ISA | HANARE_TRANSPORT_OFFERS | HANARE_TRANSPORT_REACH_ALL,
	.add_memory	= hanare_add_memory,
	.add_cpu	= hanare_add_cpu,
	.release	= release,
	.bad_memory	= hanare_bad_memory,
	.low_page	= low_page,
	.free_low_page	= free_low_page,
	.start_cpu	= start_cpu,
	.halt_cpu	= halt_cpu,
	.ring		= ring,
	.doorbells_start = hanare_local_doorbells_start,
	.doorbells_stop	= hanare_local_doorbells_stop,
	.target		= hanare_local_target,
	.tsc_khz	= khz,
	.leaks		= leaks,
	.pat		= pat,
	.copy		= copy,
};

int hanare_local_init(void)
{
	int err = hanare_partition_init();

	if (err)
		return err;
	err = hanare_local_doorbell_init();
	if (err)
		hanare_partition_exit();
	return err;
}

void hanare_local_exit(void)
{
	hanare_local_doorbell_exit();
	hanare_partition_exit();
}
