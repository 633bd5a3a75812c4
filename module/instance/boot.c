// SPDX-License-Identifier: GPL-2.0
/* Starting and stopping an LWK: shared region, CPUs one after the other, the way back. */
#include "instance/instance.h"

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/mempolicy.h>
#include <linux/sched/signal.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#define DEFAULT_BOOT_MS 20000
#define DEFAULT_STOP_MS 5000
#define MAX_TIMEOUT_MS 600000
/*
 * A CPU that has answered is working: the first one lays out all the memory. In
 * an emulator that can take 20 s: pages whose code was translated are slow to write.
 */
#define ONLINE_FACTOR 6
/* ---- starting ---- */

static int start_cpu(struct hanare_instance *inst, const struct hanare_image *image, u32 index,
		     u32 timeout_ms, char *message)
{
	struct hanare_cpu *cpu = &inst->cpus[index];
	struct hanare_trampoline trampoline = {
		.code = inst->reach.shared + inst->reach.shared_size + image->header.trampoline_offset,
		.size = image->header.trampoline_size,
		.args_offset = image->header.args_offset,
		.args = {
			.cr3 = inst->boot.cr3,
			.entry = image->entry,
			.params = HANARE_DIRECT_BASE + inst->reach.shared_phys,
			.cpu = index,
		},
	};
	int err = inst->transport->start_cpu(cpu, &trampoline, ktime_add_ms(ktime_get(), timeout_ms),
					     message);

	if (!err) {
		timeout_ms *= ONLINE_FACTOR;
		err = hanare_await_cpu(cpu, HANARE_CPU_ONLINE, ktime_add_ms(ktime_get(), timeout_ms));
	}
	if (err == -EINTR)
		refuse(message, err, "interrupted while CPU %u started", cpu->linux_cpu);
	else if (err == -EIO)
		refuse(message, err, "the LWK panicked while CPU %u started: see dmesg",
		       cpu->linux_cpu);
	else if (err == -ETIMEDOUT)
		refuse(message, err,
		       "CPU %u did not %s within %u ms: see dmesg, try again, or leave it out",
		       cpu->linux_cpu,
		       hanare_cpu_state(cpu) >= HANARE_CPU_ENTERED ? "come online" : "answer", timeout_ms);
	return err;
}

/* ---- the shared region ---- */

struct layout {
	u64 chunks, cpus, requests, services, log, clock, bells, doorbells, offers, grants, queues, dma, queue_pages, end;
	u32 bell_count, doorbell_count;
};

static struct layout shared_layout(struct hanare_instance *inst, u32 service_count)
{
	u64 queues = (u64)hanare_controllers(inst) * inst->cpu_count;
	struct layout l;

	l.chunks = round_up(sizeof(struct hanare_boot_params), 64);
	l.cpus = round_up(l.chunks + inst->machine.chunk_count * sizeof(struct hanare_memory_chunk),
			  PAGE_SIZE);
	l.requests = l.cpus + inst->cpu_count * sizeof(struct hanare_cpu_shared);
	l.services = round_up(l.requests + HANARE_REQUESTS * sizeof(struct hanare_request), 64);
	l.log = round_up(l.services + service_count * sizeof(struct hanare_service), PAGE_SIZE);
	l.clock = round_up(l.log + HANARE_LOG_TEXT_OFFSET + HANARE_LOG_SIZE, PAGE_SIZE);
	l.bells = l.clock + PAGE_SIZE;
	l.bell_count = min_t(u64, inst->machine.memory_bytes / HANARE_BELL_BYTES, HANARE_BELLS_MAX);
	l.doorbell_count = hanare_doorbells_wanted();
	l.doorbells = round_up(l.bells + l.bell_count * sizeof(struct hanare_bell),
			       sizeof(struct hanare_doorbell_shared));
	l.offers = round_up(l.doorbells + l.doorbell_count * sizeof(struct hanare_doorbell_shared),
			    sizeof(struct hanare_offer));
	l.grants = l.offers + HANARE_OFFERS * sizeof(struct hanare_offer);
	l.queues = l.grants + inst->devices.count * sizeof(struct hanare_grant);
	l.dma = l.queues + queues * sizeof(struct hanare_grant_queue);
	/* A CPU's pages lie in one piece for DMA. */
	l.queue_pages = round_up(l.dma + (u64)inst->devices.count * hanare_dma_pieces(inst) * sizeof(u64),
				 2 * PAGE_SIZE);
	l.end = round_up(l.queue_pages + queues * 2 * PAGE_SIZE, HANARE_LARGE_PAGE_SIZE);
	return l;
}

/* inst->live is held for writing. */
static int shared_make(struct hanare_instance *inst, const struct hanare_image *image,
		       const struct hanare_boot *arg, char *message)
{
	u32 service_count = HANARE_SERVICES_PER_CPU * inst->cpu_count;
	struct layout l = shared_layout(inst, service_count);
	const struct hanare_chunk *best = NULL;
	struct hanare_boot_params *params;
	struct hanare_memory_chunk *chunks;
	struct hanare_cpu_shared *cpus;
	u64 need = l.end + round_up(image->memory_size, HANARE_LARGE_PAGE_SIZE);
	u32 i;

	for (i = 0; i < inst->machine.chunk_count; i++)
		if (!best || inst->machine.chunks[i].pages > best->pages)
			best = &inst->machine.chunks[i];
	if (!best || (u64)best->pages << PAGE_SHIFT < need + (4 << 20))
		return refuse(message, -ENOMEM,
			"the largest piece of memory has %llu MiB, %llu MiB in one piece are needed to start: give more memory",
			best ? (u64)best->pages >> (20 - PAGE_SHIFT) : 0, (need >> 20) + 4);

	inst->reach.shared_phys = (u64)best->pfn << PAGE_SHIFT;
	inst->reach.shared_size = l.end;
	inst->reach.image_phys = inst->reach.shared_phys + l.end;
	inst->reach.image_size = image->memory_size;
	params = hanare_virt(best, inst->reach.shared_phys);
	memset(params, 0, l.end);
	hanare_image_place(inst, image, hanare_virt(best, inst->reach.image_phys));

	params->magic = HANARE_MAGIC;
	params->version = HANARE_VERSION;
	params->params_size = sizeof(*params);
	params->shared_base = inst->reach.shared_phys;
	params->shared_size = l.end;
	params->image_base = inst->reach.image_phys;
	params->image_size = image->memory_size;
	params->chunk_count = inst->machine.chunk_count;
	params->chunks_offset = l.chunks;
	params->cpu_count = inst->cpu_count;
	params->cpus_offset = l.cpus;
	params->request_count = HANARE_REQUESTS;
	params->requests_offset = l.requests;
	params->service_count = service_count;
	params->services_offset = l.services;
	params->log_offset = l.log;
	params->log_size = HANARE_LOG_SIZE;
	params->clock_offset = l.clock;
	params->bell_count = l.bell_count;
	params->bells_offset = l.bells;
	params->doorbell_count = l.doorbell_count;
	params->doorbells_offset = l.doorbells;
	params->offers_offset = l.offers;
	params->grant_count = inst->devices.count;
	params->grants_offset = l.grants;
	params->dma_pieces = hanare_dma_pieces(inst);
	params->dma_offset = l.dma;
	params->tsc_khz = inst->transport->tsc_khz(inst);
	params->tick_ns = TICK_NSEC;
	params->transport = inst->transport->number;
	params->transport_flags = inst->transport->flags;
	params->leaks = inst->transport->leaks(inst);
	params->pat = inst->transport->pat(inst);
	params->linux_cpu_ids = nr_cpu_ids;
	params->linux_node_ids = nr_node_ids;
	params->linux_cpumask_size = cpumask_size();
	params->linux_policy_modes = MPOL_MAX;
	memcpy(params->name, inst->name, sizeof(params->name));
	memcpy(params->cmdline, arg->cmdline, sizeof(params->cmdline));
	scnprintf(params->banner, sizeof(params->banner), "%s %s %s", utsname()->sysname,
		  utsname()->release, utsname()->version);

	chunks = (void *)params + l.chunks;
	for (i = 0; i < inst->machine.chunk_count; i++)
		chunks[i] = (struct hanare_memory_chunk){
			.base = (u64)inst->machine.chunks[i].pfn << PAGE_SHIFT,
			.size = (u64)inst->machine.chunks[i].pages << PAGE_SHIFT,
			.node = inst->machine.chunks[i].node,
		};
	cpus = (void *)params + l.cpus;
	for (i = 0; i < inst->cpu_count; i++) {
		struct hanare_cpu *cpu = &inst->cpus[i];

		atomic_set(&cpu->link.asked, 0);
		cpus[i].apic_id = cpu->apicid;
		cpus[i].linux_cpu = cpu->linux_cpu;
		cpus[i].node = cpu->node;
		cpus[i].ipi_vector = HANARE_IPI_VECTOR;
		cpu->shared = &cpus[i];
		cpu->link.inbound = (struct hanare_producer){};
		cpu->link.outbound_head = 0;
		cpu->link.spaces = 0;
	}
	inst->link.requests = (void *)params + l.requests;
	inst->link.services = (void *)params + l.services;
	inst->link.service_count = service_count;
	inst->link.log = (void *)params + l.log;
	inst->link.clock = (void *)params + l.clock;
	inst->link.clock_phys = inst->reach.shared_phys + l.clock;
	inst->link.bells = (void *)params + l.bells;
	inst->link.bell_count = l.bell_count;
	inst->link.offers = (void *)params + l.offers;
	inst->reach.shared = params;
	return hanare_grants_begin(inst, &(struct hanare_grant_places) {
		.base = params,
		.grants = l.grants,
		.dma = l.dma,
		.queues = l.queues,
		.queue_pages = l.queue_pages,
	}, message);
}

/* inst->live is held for writing. */
static void shared_drop(struct hanare_instance *inst)
{
	u32 i;

	hanare_grants_end(inst);
	for (i = 0; i < inst->cpu_count; i++)
		inst->cpus[i].shared = NULL;
	inst->reach.shared = NULL;
	inst->link.requests = NULL;
	inst->link.services = NULL;
	inst->link.log = NULL;
	inst->link.clock = NULL;
	inst->link.bells = NULL;
	inst->link.offers = NULL;
}

/* ---- stopping ---- */

/*
 * Afterwards no CPU of the instance executes anything of the LWK's. With `ask`
 * each is first asked to park; one that does not is stopped by INIT alone.
 */
void hanare_stop_cpus(struct hanare_instance *inst, bool ask, u32 timeout_ms)
{
	u32 i;

	for (i = inst->cpu_count; i-- > 0;) {
		struct hanare_cpu *cpu = &inst->cpus[i];

		if (!cpu->started)
			continue;
		if (ask && hanare_cpu_state(cpu) == HANARE_CPU_ONLINE) {
			ktime_t deadline = ktime_add_ms(ktime_get(), timeout_ms);
			int err = hanare_post(inst, cpu, HANARE_REQUEST_STOP);

			/* No answer is waited for: a parked CPU gives none. */
			while (!err && hanare_cpu_state(cpu) != HANARE_CPU_PARKED &&
			       ktime_before(ktime_get(), deadline) &&
			       !READ_ONCE(((struct hanare_boot_params *)inst->reach.shared)->panicked))
				usleep_range(50, 200);
			if (hanare_cpu_state(cpu) != HANARE_CPU_PARKED)
				pr_warn("%s: CPU %u did not park within %u ms: stopped by INIT\n",
					inst->name, cpu->linux_cpu, timeout_ms);
		}
		inst->transport->halt_cpu(cpu);
	}
}

void hanare_halt_cpus(struct hanare_instance *inst)
{
	u32 i;

	for (i = 0; i < inst->cpu_count; i++)
		if (inst->cpus[i].started)
			inst->transport->halt_cpu(&inst->cpus[i]);
}

/*
 * Also after a begin that failed half-way. No CPU of it runs, and inst->live is held for writing.
 */
static void end_sharing(struct hanare_instance *inst)
{
	hanare_closes_stop(inst);
	hanare_doorbells_stop(inst);
	hanare_ikc_stop(inst);
	shared_drop(inst);
	hanare_boot_tables_free(inst);
}

/* No CPU of it runs any more: take down what boot put up. */
static void undo_boot(struct hanare_instance *inst)
{
	/* A ping or a debug request may be waiting with inst->live held. */
	hanare_die(inst, HANARE_INSTANCE_STOPPING, -EIO);
	hanare_clock_stop(inst);
	down_write(&inst->live);
	end_sharing(inst);
	up_write(&inst->live);
}

/* Everything goes back where it came from. inst->lock is held; no space is left. */
void hanare_release_all(struct hanare_instance *inst, char *message)
{
	if (inst->reach.shared)
		undo_boot(inst);
	inst->transport->release(inst, message);
	hanare_devices_put(inst);
}

/* Printable and ended by a zero inside the field. */
static bool text_ok(const u8 *text, size_t size)
{
	size_t i;

	for (i = 0; i < size && text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return i < size;
}

static void set_state(struct hanare_instance *inst, u32 state, int dead)
{
	spin_lock_irq(&inst->state_lock);
	inst->state = state;
	inst->dead = dead;
	spin_unlock_irq(&inst->state_lock);
}

/*
 * What the kernels share, and whatever of Linux' uses it: one step for a task that holds
 * inst->live, which finds either nothing or all of it. An error: nothing.
 */
static int begin_boot(struct hanare_instance *inst, const struct hanare_image *image, struct hanare_boot *arg)
{
	int err;

	down_write(&inst->live);
	err = shared_make(inst, image, arg, arg->message);
	if (err && inst->reach.shared)
		shared_drop(inst);
	if (err)
		goto unlock;
	err = hanare_boot_tables_make(inst);
	if (err) {
		refuse(arg->message, err, "no memory below 4 GiB for boot page tables");
		goto undo;
	}
	hanare_closes_start(inst);
	err = hanare_ikc_start(inst) ?: hanare_doorbells_start(inst);
	if (err)
		refuse(arg->message, err, "no interrupt for the doorbell (error %d)", err);
	else
		set_state(inst, HANARE_INSTANCE_BOOTING, 0);
undo:
	if (err)
		end_sharing(inst);
unlock:
	up_write(&inst->live);
	return err;
}

int hanare_boot(struct hanare_instance *inst, struct hanare_boot *arg)
{
	struct hanare_image image = { .size = arg->image_size };
	u32 timeout_ms = arg->timeout_ms ?: DEFAULT_BOOT_MS, i;
	u64 start = ktime_get_ns(), now;
	int err;

	if (inst->state != HANARE_INSTANCE_CREATED)
		return refuse(arg->message, -EBUSY, "%s is booted already", inst->name);
	if (!inst->cpu_count)
		return refuse(arg->message, -EINVAL, "%s has no CPU: give it one", inst->name);
	if (!inst->machine.chunk_count)
		return refuse(arg->message, -EINVAL, "%s has no memory: give it some", inst->name);
	if (arg->reserved)
		return refuse(arg->message, -EINVAL, "a reserved field is not zero");
	if (timeout_ms > MAX_TIMEOUT_MS)
		return refuse(arg->message, -EINVAL, "timeout of %u ms: at most %u", timeout_ms,
			      MAX_TIMEOUT_MS);
	if (!text_ok(arg->cmdline, sizeof(arg->cmdline)))
		return refuse(arg->message, -EINVAL,
			      "the boot options must be printable and end with a zero");
	if (!arg->image_size || arg->image_size > HANARE_IMAGE_MAX)
		return refuse(arg->message, -ENOEXEC,
			"the image has %llu bytes; an LWK image has some, and at most %lu MiB",
			arg->image_size, HANARE_IMAGE_MAX >> 20);
	image.data = kvmalloc(arg->image_size, GFP_KERNEL);
	if (!image.data)
		return refuse(arg->message, -ENOMEM, "Linux has no memory for a copy of the image");
	err = -EFAULT;
	if (copy_from_user(image.data, u64_to_user_ptr(arg->image), arg->image_size)) {
		refuse(arg->message, err, "the image cannot be read at %#llx", arg->image);
		goto free_image;
	}
	err = hanare_image_verify(&image, arg->message);
	if (!err)
		err = hanare_image_check(&image, arg->message);
	if (err)
		goto free_image;
	err = begin_boot(inst, &image, arg);
	if (err)
		goto free_image;
	hanare_clock_start(inst);
	now = ktime_get_ns();
	arg->load_ns = now - start;

	for (i = 0; i < inst->cpu_count; i++) {
		start = now;
		err = start_cpu(inst, &image, i, timeout_ms, arg->message);
		if (err)
			goto stop;
		now = ktime_get_ns();
		*(i ? &arg->other_cpus_ns : &arg->first_cpu_ns) += now - start;
	}
	spin_lock_irq(&inst->state_lock);
	if (inst->state == HANARE_INSTANCE_BOOTING)
		inst->state = HANARE_INSTANCE_RUNNING;
	inst->boot.ns = now;
	spin_unlock_irq(&inst->state_lock);
	kvfree(image.data);
	pr_info("%s: running on %u CPU%s with %llu MiB\n", inst->name, inst->cpu_count,
		inst->cpu_count == 1 ? "" : "s",
		inst->machine.memory_bytes >> 20);
	return 0;
stop:
	hanare_stop_cpus(inst, false, 0);
	/* What the LWK said last goes to dmesg: its own log is gone with it. */
	pr_err("%s: boot failed: %s\n", inst->name, (char *)arg->message);
	hanare_log_tail(inst);
	undo_boot(inst);
	set_state(inst, HANARE_INSTANCE_CREATED, 0);
free_image:
	kvfree(image.data);
	return err;
}

/*
 * No more answers are waited for. Then its CPUs must not run any more either:
 * they could still write to pages of files that Linux takes back meanwhile.
 */
static void give_up(struct hanare_instance *inst)
{
	hanare_halt_cpus(inst);
	hanare_die(inst, HANARE_INSTANCE_STOPPING, -EIO);
}

/* Kills the processes that are left, and waits for their ends. Returns how many remain. */
static u32 kill_spaces(struct hanare_instance *inst, void (*kill)(struct hanare_instance *inst),
		       u32 timeout_ms)
{
	kill(inst);
	wait_event_killable_timeout(inst->spaces.wait, !READ_ONCE(inst->spaces.count),
				    msecs_to_jiffies(timeout_ms));
	return READ_ONCE(inst->spaces.count);
}

/*
 * inst->lock is held; `kill` kills each program of the instance. On success everything is back
 * with Linux.
 */
int hanare_shutdown(struct hanare_instance *inst, struct hanare_shutdown *arg,
		    void (*kill)(struct hanare_instance *inst))
{
	u32 timeout_ms = arg->timeout_ms ?: DEFAULT_STOP_MS, was, left, programs;
	bool ask;

	if (arg->force > 1)
		return refuse(arg->message, -EINVAL, "force must be 0 or 1");
	if (timeout_ms > MAX_TIMEOUT_MS)
		return refuse(arg->message, -EINVAL, "timeout of %u ms: at most %u", timeout_ms,
			      MAX_TIMEOUT_MS);
	if (inst->state == HANARE_INSTANCE_CREATED || inst->state == HANARE_INSTANCE_BOOTING)
		return refuse(arg->message, -EBUSY,
			"%s is under construction: end the command that builds it", inst->name);

	spin_lock_irq(&inst->state_lock);
	was = inst->state;
	left = inst->spaces.count;
	programs = left - inst->spaces.members;
	if (!left || arg->force)
		inst->state = HANARE_INSTANCE_STOPPING;
	spin_unlock_irq(&inst->state_lock);
	/* Those of a task that has just ended go by themselves. */
	if (left && !programs && !arg->force)
		return refuse(arg->message, -EBUSY,
			"pooled proxies on %s have not ended yet: try again, or use --force",
			inst->name);
	if (left && !arg->force)
		return refuse(arg->message, -EBUSY,
			"%u %s on %s: end %s, or use --force", programs,
			programs == 1 ? "program runs" : "programs run", inst->name,
			programs == 1 ? "it" : "them");
	if (left) {
		/* A dead or mute LWK answers nothing: do not let its proxies wait. */
		if (was != HANARE_INSTANCE_RUNNING)
			give_up(inst);
		left = kill_spaces(inst, kill, timeout_ms);
		if (left) {
			give_up(inst);
			left = kill_spaces(inst, kill, timeout_ms);
		}
	}
	if (left) {
		spin_lock_irq(&inst->state_lock);
		inst->state = HANARE_INSTANCE_HUNG;
		spin_unlock_irq(&inst->state_lock);
		return refuse(arg->message, -EBUSY,
			"%u %s of programs on %s not ended although killed: see hanare doctor, then try again",
			left, left == 1 ? "process has" : "processes have", inst->name);
	}
	ask = was == HANARE_INSTANCE_RUNNING || was == HANARE_INSTANCE_HUNG;
	hanare_stop_cpus(inst, ask, was == HANARE_INSTANCE_HUNG ? min(timeout_ms, 1000U) :
			 timeout_ms);
	hanare_release_all(inst, arg->message);
	pr_info("%s: stopped\n", inst->name);
	return 0;
}
