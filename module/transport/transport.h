/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How Linux reaches the machine of an instance: its CPUs, its memory, its clock. One table of
 * functions for each kind of machine. local.c is the only one: CPUs and memory that this Linux had
 * before.  Above this layer no address of the LWK's becomes one of Linux', no interrupt is sent and
 * no TSC is read but by what is declared here; `cargo xtask tidy` looks for it
 * (xtask/src/transport.rs).
 */
#ifndef HANARE_TRANSPORT_H
#define HANARE_TRANSPORT_H

#include "machine/machine.h"

#include <linux/interrupt.h>
#include <asm/io.h>
#include <asm/msr.h>
#include <asm/tsc.h>

/* What start_cpu puts in front of a CPU. */
struct hanare_trampoline {
	const void *code;
	u32 size;				/* bytes, at most a page */
	u32 args_offset;			/* where in it the arguments lie */
	struct hanare_trampoline_args args;
};

/* What the link does when something happens to a doorbell of Linux'. */
struct hanare_doorbell_events {
	/* It rang; called with the struct hanare_doorbell. Hard interrupt. */
	irq_handler_t rang;
	/* `target` gives another word from now on. Any context, interrupts off perhaps. */
	void (*moved)(struct hanare_doorbell *doorbell);
};

/*
 * Physical addresses are the LWK's, sizes are bytes and frames have 4 KiB unless a member says
 * otherwise. "Process context" means that the function may sleep. A function that is given a
 * message explains each error there.
 */
struct hanare_transport {
	u32 number;				/* HANARE_TRANSPORT_LOCAL; the LWK is told it */
	u32 flags;				/* HANARE_TRANSPORT_*; the LWK is told them */

	/*
	 * Memory for an instance that is not booted, and a CPU for it. Process context, under
	 * inst->lock. All or nothing: -EINVAL, -EBUSY, -ENOMEM, -E2BIG, -EINTR, and what Linux says
	 * that does not let go of a CPU.
	 */
	int (*add_memory)(struct hanare_instance *inst, struct hanare_add_memory *arg);
	int (*add_cpu)(struct hanare_instance *inst, struct hanare_add_cpu *arg);
	/*
	 * All memory and CPUs go back where they came from; no CPU runs, no space is left. Process
	 * context, under inst->lock. Cannot fail: what does not go back is told in the log, and in
	 * `message` unless that is NULL.
	 */
	void (*release)(struct hanare_instance *inst, char *message);
	/*
	 * The LWK has found that frame bad: one of its own, or with LINUX_FRAMES one of Linux'. Any
	 * context.
	 */
	void (*bad_memory)(struct hanare_instance *inst, u64 frame);

	/*
	 * A page of zeros for tables that a CPU starts with: below 4 GiB for the LWK, which has it
	 * at *phys. NULL: no memory. It is given back as it was got, by its address here. Process
	 * context.
	 */
	void *(*low_page)(struct hanare_instance *inst, u64 *phys);
	void (*free_low_page)(struct hanare_instance *inst, void *page);

	/*
	 * Has the CPU run the trampoline, in 16-bit mode from the start of a page below 1 MiB. 0
	 * once the CPU has left that page (HANARE_CPU_ENTERED); -ETIMEDOUT at the deadline, -EINTR,
	 * -EIO (a panic), for all of which the CPU is halted again and no message is written;
	 * -ENOMEM. Process context, under inst->lock.
	 */
	int (*start_cpu)(struct hanare_cpu *cpu, const struct hanare_trampoline *trampoline, ktime_t deadline,
			 char *message);
	/*
	 * Afterwards the CPU executes nothing of the LWK's, whatever it did before. Process
	 * context. Cannot fail.
	 */
	void (*halt_cpu)(struct hanare_cpu *cpu);
	/*
	 * An interrupt for the LWK's CPU, on its vector HANARE_IPI_VECTOR: what was stored before
	 * is seen by its handler. Any context. Not inline: the interrupt costs a hundred times what
	 * an indirect call does.
	 */
	void (*ring)(struct hanare_cpu *cpu);

	/*
	 * Starts inst->reach.doorbells, inst->reach.doorbell_count of them, near different CPUs of
	 * Linux. How many there are now, the first ones, or -errno for none. `doorbells_stop` is
	 * for all, also after an error; no handler runs afterwards. Process context, under
	 * inst->lock.
	 */
	int (*doorbells_start)(struct hanare_instance *inst, const struct hanare_doorbell_events *events);
	void (*doorbells_stop)(struct hanare_instance *inst);
	/*
	 * What the LWK needs for ringing that doorbell (DoorbellShared.target), 0: it rings nowhere
	 * now; and the CPU of Linux' that hears it, or HANARE_NOWHERE. In events->moved, or any
	 * context where a doorbell does not move.
	 */
	u64 (*target)(const struct hanare_doorbell *doorbell, unsigned int *cpu);

	/*
	 * The LWK's TSC now. Any context. NULL with ONE_TSC: it is Linux' own. By hanare_tsc()
	 * below.
	 */
	u64 (*tsc)(const struct hanare_instance *inst);
	/* Its rate in kHz. Any context. */
	u32 (*tsc_khz)(const struct hanare_instance *inst);
	/*
	 * HANARE_LEAK_* of the instance's CPUs. What else they can do is what Linux' own can:
	 * SAME_ISA. Process context.
	 */
	u32 (*leaks)(const struct hanare_instance *inst);
	/* What IA32_PAT is to be on them; 0: as after power-on. Process context. */
	u64 (*pat)(const struct hanare_instance *inst);

	/*
	 * Whether the machine is still there: 0, or -errno, after which nothing of it is believed
	 * any more. Once a second while an instance is booted, process context. NULL: it cannot go
	 * away without this Linux.
	 */
	int (*alive)(struct hanare_instance *inst);

	/*
	 * Copies much between Linux' memory and the LWK's, either of which is `to`, in whatever
	 * pieces are fast. Process context. Cannot fail; of a machine that is gone the bytes are
	 * all ones.
	 */
	void (*copy)(struct hanare_instance *inst, void *to, const void *from, size_t bytes);
};

/* local.c */
extern const struct hanare_transport hanare_local;
int hanare_local_init(void);
void hanare_local_exit(void);

/* local_doorbell.c: what local.c's table has of it. */
#define HANARE_NOWHERE UINT_MAX
int hanare_local_doorbell_init(void);
void hanare_local_doorbell_exit(void);
int hanare_local_doorbells_start(struct hanare_instance *inst, const struct hanare_doorbell_events *events);
void hanare_local_doorbells_stop(struct hanare_instance *inst);
u64 hanare_local_target(const struct hanare_doorbell *doorbell, unsigned int *cpu);

/* reach.c */
/*
 * The chunk that has these frames, or NULL. The instance has its memory: it is not shut down
 * meanwhile.
 */
const struct hanare_chunk *hanare_chunk_at(const struct hanare_instance *inst, u64 phys, u64 pages);
/*
 * Likewise, but NULL if something of it must not be shown to others: the shared region and the
 * LWK's image.
 */
const struct hanare_chunk *hanare_own_chunk(const struct hanare_instance *inst, u64 phys, u64 pages);
bool hanare_owns_frames(const struct hanare_instance *inst, u64 phys, u64 pages);
u32 hanare_cpu_state(const struct hanare_cpu *cpu);
/*
 * Waits until the CPU has come to this HANARE_CPU_*: 0, -ETIMEDOUT, -EINTR (killed), -EIO (a
 * panic).
 */
int hanare_await_cpu(const struct hanare_cpu *cpu, u32 state, ktime_t deadline);

/* IA32_PAT of Linux' CPUs: what the bits of their page tables mean. */
static inline u64 hanare_pat(void)
{
	u32 low, high;

	rdmsr(MSR_IA32_CR_PAT, low, high);
	return (u64)high << 32 | low;
}

/* ---- memory: every frame of an LWK has a page of Linux', in the chunk's window ---- */

static inline struct page *hanare_page(const struct hanare_chunk *chunk, u64 phys)
{
	return pfn_to_page(chunk->window + ((phys >> PAGE_SHIFT) - chunk->pfn));
}

/* Good up to the end of the chunk. */
static inline void *hanare_virt(const struct hanare_chunk *chunk, u64 phys)
{
	return phys_to_virt(((u64)chunk->window << PAGE_SHIFT) + (phys - ((u64)chunk->pfn << PAGE_SHIFT)));
}

/*
 * Where an instance's CPUs find memory of Linux' own, which is not the instance's: for looks at
 * words of Linux'. Only where they may map Linux' frames (HANARE_TRANSPORT_LINUX_FRAMES).
 */
static inline u64 hanare_linux_phys(const void *at)
{
	return virt_to_phys((void *)at);
}

/*
 * Whether Linux holds one of these frames beside the instance: a pin, a pipe, a device that reads
 * into it.
 */
static inline bool hanare_frames_held(const struct hanare_chunk *chunk, u64 phys, u64 pages)
{
	struct page *page = hanare_page(chunk, phys);

	for (; pages; pages--, page++)
		if (page_count(page) > 1)
			return true;
	return false;
}

/* Where the LWK finds a page of Linux'. Only with LINUX_FRAMES. */
static inline u64 hanare_linux_frame(struct page *page)
{
	return page_to_phys(page);
}

static inline bool hanare_has(const struct hanare_instance *inst, u32 flag)
{
	return inst->transport->flags & flag;
}

/* ---- clocks ---- */

/* The LWK's TSC: what compares with times that it has written. Not ordered with anything. */
static inline u64 hanare_tsc(const struct hanare_instance *inst)
{
	return likely(hanare_has(inst, HANARE_TRANSPORT_ONE_TSC)) ? rdtsc() : inst->transport->tsc(inst);
}

/* The same, after all loads before. */
static inline u64 hanare_tsc_ordered(const struct hanare_instance *inst)
{
	return likely(hanare_has(inst, HANARE_TRANSPORT_ONE_TSC)) ? rdtsc_ordered() : inst->transport->tsc(inst);
}

/* Cycles of the calling CPU of Linux', for waits of some microseconds: no time of the LWK's. */
static inline u64 hanare_cycles(void)
{
	return rdtsc();
}

static inline u64 hanare_cycles_of_us(u64 us)
{
	return us * tsc_khz / 1000;
}

#endif
