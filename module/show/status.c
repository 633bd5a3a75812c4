// SPDX-License-Identifier: GPL-2.0
/* What is told of an instance, and what it is asked for tests: IOCTL_STATUS, IOCTL_DEBUG. */
#include "show/show.h"

#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* inst->live is held. */
static void cpu_status(const struct hanare_cpu *cpu, struct hanare_cpu_status *status)
{
	const struct hanare_cpu_shared *shared = cpu->shared;
	u32 i;

	status->linux_cpu = cpu->linux_cpu;
	status->node = cpu->node;
	if (!shared)
		return;
	status->state = READ_ONCE(shared->state);
	status->space = READ_ONCE(shared->current_space);
	status->heartbeat = READ_ONCE(shared->heartbeat);
	status->interrupts = READ_ONCE(shared->interrupts);
	status->exceptions = READ_ONCE(shared->exceptions);
	status->page_faults = READ_ONCE(shared->page_faults);
	status->local_calls = READ_ONCE(shared->local_calls);
	status->delegated_calls = READ_ONCE(shared->delegated_calls);
	status->idle_ns = hanare_idle_ns(cpu);
	for (i = 0; i < HANARE_VECTORS; i++)
		status->interrupts_by[i] = READ_ONCE(shared->interrupts_by[i]);
	for (i = 0; i < HANARE_EXCEPTIONS; i++)
		status->exceptions_by[i] = READ_ONCE(shared->exceptions_by[i]);
}

/* What was copied and what was not, of all CPUs. inst->live is held. */
static void arguments_status(const struct hanare_instance *inst, struct hanare_copied_status *status,
			     u64 *mapped_calls)
{
	u32 cpu, i;

	status->copies = inst->cpu_count && inst->cpus[0].shared ? READ_ONCE(inst->cpus[0].shared->copies) : 0;
	status->calls = 0;
	status->bytes_in = 0;
	status->bytes_out = 0;
	memset(status->mapped_by, 0, sizeof(status->mapped_by));
	for (cpu = 0; cpu < inst->cpu_count; cpu++) {
		const struct hanare_cpu_shared *shared = inst->cpus[cpu].shared;

		if (!shared)
			continue;
		status->calls += READ_ONCE(shared->copied_calls);
		status->bytes_in += READ_ONCE(shared->copied_in);
		status->bytes_out += READ_ONCE(shared->copied_out);
		for (i = 0; i < HANARE_MAPPED_REASONS; i++)
			status->mapped_by[i] += READ_ONCE(shared->mapped_by[i]);
		for (i = 0; i < HANARE_MAPPED_CALLS; i++)
			mapped_calls[i] += READ_ONCE(shared->mapped_calls[i]);
	}
}

/* inst->live is held. What the LWK writes is told as it is. */
static void dispatch_status(const struct hanare_instance *inst, struct hanare_dispatch_status *status)
{
	const struct hanare_boot_params *params = inst->reach.shared;
	u32 i;

	status->way = params ? READ_ONCE(params->dispatch) : 0;
	status->servers = params ? READ_ONCE(params->servers) : 0;
	status->boxes = params ? READ_ONCE(params->boxes) : 0;
	status->boxed_calls = 0;
	status->unboxed_calls = 0;
	status->servers_made = 0;
	status->packed_calls = 0;
	status->members_made = 0;
	for (i = 0; params && i < inst->cpu_count; i++) {
		const struct hanare_cpu_shared *shared = inst->cpus[i].shared;

		if (!shared)
			continue;
		status->boxed_calls += READ_ONCE(shared->boxed_calls);
		status->unboxed_calls += READ_ONCE(shared->unboxed_calls);
		status->servers_made += READ_ONCE(shared->servers_made);
		status->packed_calls += READ_ONCE(shared->packed_calls);
		status->members_made += READ_ONCE(shared->members_made);
	}
}

/* inst->live is held. */
static void devices_status(struct hanare_instance *inst, struct hanare_grant_status *status)
{
	const struct hanare_granted *device;
	u32 i;

	memset(status, 0, HANARE_GRANTS_MAX * sizeof(*status));
	for (i = 0; (device = hanare_device_numbered(inst, i)); i++, status++) {
		memcpy(status->driver, device->driver, sizeof(status->driver));
		status->domain = pci_domain_nr(device->pci->bus);
		status->bus = device->pci->bus->number;
		status->function = device->pci->devfn;
		status->state = device->grant ? READ_ONCE(device->grant->state) : 0;
		status->uses = hanare_uses_begun(device);
	}
}

static struct hanare_instance *instance_at(u32 index)
{
	struct hanare_instance *inst, *found = NULL;

	mutex_lock(&hanare_lock);
	list_for_each_entry(inst, &hanare_instances, entry)
		if (!index--) {
			found = inst;
			kref_get(&inst->ref);
			break;
		}
	mutex_unlock(&hanare_lock);
	return found;
}

long hanare_do_status(struct hanare_file *hf, void *data)
{
	struct hanare_status *arg = data;
	struct hanare_instance *inst = arg->name[0] ? hanare_instance_named(arg->name) : instance_at(arg->index);
	u32 room = arg->cpus ? min_t(u32, arg->cpu_count, HANARE_CPUS_MAX) : 0, count, i;
	struct hanare_cpu_status *cpus;
	u64 *mapped_calls;
	int err = 0;

	if (!inst)
		return -ENOENT;
	cpus = kcalloc(HANARE_CPUS_MAX, sizeof(*cpus), GFP_KERNEL);
	mapped_calls = kcalloc(HANARE_MAPPED_CALLS, sizeof(*mapped_calls), GFP_KERNEL);
	if (!cpus || !mapped_calls) {
		kfree(cpus);
		kfree(mapped_calls);
		hanare_instance_put(inst);
		return -ENOMEM;
	}
	arg->ping_ns = 0;
	arg->uptime_ns = 0;
	arg->log_head = 0;
	down_read(&inst->live);
	if (inst->reach.shared && arg->ping && (inst->state == HANARE_INSTANCE_RUNNING ||
					  inst->state == HANARE_INSTANCE_HUNG))
		hanare_ping_all(inst, &arg->ping_ns);
	memcpy(arg->name, inst->name, sizeof(arg->name));
	if (inst->reach.shared) {
		hanare_drain(inst);
		arg->log_head = READ_ONCE(inst->link.log->head);
	}
	if (inst->boot.ns)
		arg->uptime_ns = ktime_get_ns() - inst->boot.ns;
	arg->state = READ_ONCE(inst->state);
	arg->spaces = READ_ONCE(inst->spaces.count) - READ_ONCE(inst->spaces.members);
	arg->cpu_count = inst->cpu_count;
	arg->memory_bytes = inst->machine.memory_bytes;
	arg->chunks = inst->machine.chunk_count;
	memcpy(arg->node_bytes, inst->machine.node_bytes, sizeof(arg->node_bytes));
	dispatch_status(inst, &arg->dispatch);
	devices_status(inst, arg->devices);
	count = min(room, inst->cpu_count);
	for (i = 0; i < count; i++)
		cpu_status(&inst->cpus[i], &cpus[i]);
	arguments_status(inst, &arg->copied, mapped_calls);
	up_read(&inst->live);
	/* May wait for the users of that memory, so no lock is held that the LWK's end takes. */
	if (copy_to_user(u64_to_user_ptr(arg->cpus), cpus, count * sizeof(*cpus)))
		err = -EFAULT;
	if (arg->copied.mapped_calls && copy_to_user(u64_to_user_ptr(arg->copied.mapped_calls), mapped_calls,
					      HANARE_MAPPED_CALLS * sizeof(*mapped_calls)))
		err = -EFAULT;
	kfree(cpus);
	kfree(mapped_calls);
	hanare_instance_put(inst);
	return err;
}

long hanare_do_debug(struct hanare_file *hf, void *data)
{
	struct hanare_debug *arg = data;
	struct hanare_instance *inst = hanare_instance_named(arg->name);
	u64 words[HANARE_PAGES_MAX] = { 0 };
	struct hanare_call call = {
		.kind = HANARE_REQUEST_DEBUG,
		.args = { arg->op, arg->args[0], arg->args[1] },
		.pages = words,
	};
	int err = -ENODEV;

	if (!inst)
		return -ENOENT;
	down_read(&inst->live);
	if (arg->cpu >= inst->cpu_count)
		err = -EINVAL;
	else if (inst->reach.shared && inst->state == HANARE_INSTANCE_RUNNING)
		err = hanare_request(inst, &inst->cpus[arg->cpu], &call, WAIT_KILLABLE, 5000);
	up_read(&inst->live);
	memcpy(arg->args, call.args, sizeof(arg->args));
	memcpy(arg->words, words, sizeof(arg->words));
	hanare_instance_put(inst);
	return err ?: call.status;
}
