/* SPDX-License-Identifier: GPL-2.0 */
/* Messages between the kernels: what the layers above may use. */
#ifndef HANARE_LINK_H
#define HANARE_LINK_H

#include "transport/transport.h"

/* ikc.c */
/* What the layers above do about each event of the LWK. */
struct hanare_link_ops {
	/*
	 * From a doorbell's handler or of a task that looks itself, several CPUs at once: under the
	 * ring's outbound_lock, interrupts off.
	 */
	void (*slot_rung)(struct hanare_instance *inst, u64 space, u32 slot);
	void (*eventfd_rung)(struct hanare_instance *inst, u64 space, u32 slot);
	void (*answered)(struct hanare_instance *inst, u64 request);
	void (*observed)(struct hanare_instance *inst, u64 session);
	/* Called by the instance's service thread. */
	void (*serve)(struct hanare_instance *inst, u32 service);
	/*
	 * The instance died, and no CPU of it rings any more; `tell`: its programs, too. Any
	 * context.
	 */
	void (*died)(struct hanare_instance *inst, bool tell);
};
void hanare_link_init(const struct hanare_link_ops *ops);
int hanare_ikc_start(struct hanare_instance *inst);
void hanare_ikc_stop(struct hanare_instance *inst);
void hanare_die(struct hanare_instance *inst, u32 state, int err);
void hanare_ring_cpu(struct hanare_cpu *cpu);
void hanare_ring_bell(struct hanare_space *space, u32 bell);
void hanare_drain(struct hanare_instance *inst);
void hanare_look_for_lost(struct hanare_instance *inst);
void hanare_look_for_gone(struct hanare_instance *inst);
/* Whether the interrupt that is about to be sent, or was taken, is lost: for tests. */
bool hanare_loses(void);
void hanare_drain_rung(struct hanare_instance *inst, struct hanare_doorbell *doorbell);
int hanare_push(struct hanare_cpu *cpu, u32 index);

/* doorbell.c */
u32 hanare_doorbells_wanted(void);
int hanare_doorbells_start(struct hanare_instance *inst);
void hanare_doorbells_stop(struct hanare_instance *inst);

/* The doorbell next to the caller, plus 1. A hint: the caller may be moved. */
static inline u32 hanare_doorbell_here(const struct hanare_instance *inst)
{
	return READ_ONCE(inst->link.nearest[raw_smp_processor_id()]);
}

/* request.c */
void hanare_request_event(struct hanare_instance *inst, u64 index);
/* The user to whom the caller's requests are charged. */
kuid_t hanare_user_of_caller(void);

enum hanare_patience { WAIT_KILLABLE, WAIT_BOUNDED };
struct hanare_call {
	u32 kind, space;
	u64 args[4];
	const u64 *data;			/* HANARE_PAGES_MAX words or fewer in */
	u32 data_words;
	const unsigned long *cpus;		/* SPACE_OPEN: HANARE_CPU_SET_CPUS bits; or NULL */
	int status;				/* of the LWK */
	u32 count;
	u64 *pages;				/* HANARE_PAGES_MAX words out, or NULL */
	const struct hanare_space *charged;	/* to its user, if not by the kind */
	bool at_once;				/* -EBUSY if no entry is free now */
	struct hanare_over *over;		/* -EALREADY once it is while no entry is free; or NULL */
	int *kept;				/* out, or NULL: the entry, with -ETIMEDOUT (hanare_asked) */
	bool in_order;				/* SPACE_GROUPS, SPACE_PAUSE: not before, or beside, an earlier request */
};
/* A request of a CPU, if there was one, needs no answer any more. */
static inline void hanare_count_answer(struct hanare_request_wait *wait)
{
	struct hanare_cpu *cpu = wait->cpu;

	wait->cpu = NULL;
	if (!cpu)
		return;
	WRITE_ONCE(cpu->link.silent_since, jiffies);
	atomic_dec(&cpu->link.asked);
}

int hanare_request(struct hanare_instance *inst, struct hanare_cpu *cpu,
		   struct hanare_call *call, enum hanare_patience patience,
		   unsigned int timeout_ms);
/*
 * The same, of the CPU that it disturbs least: faults, observations and pauses one after the other.
 * inst->live is held, or the space has not ended.
 */
int hanare_request_quietly(struct hanare_space *space, struct hanare_call *call,
			   enum hanare_patience patience, unsigned int timeout_ms);
/*
 * In two steps: posts a request whose `at_once` is set, and gives its entry, or an error; then
 * waits for the answer. -ETIMEDOUT: the entry stays the caller's, which waits once more later.
 */
int hanare_ask(struct hanare_instance *inst, struct hanare_cpu *cpu, const struct hanare_call *call);
int hanare_asked(struct hanare_instance *inst, int entry, struct hanare_call *call, unsigned int timeout_ms);
int hanare_post(struct hanare_instance *inst, struct hanare_cpu *cpu, u32 kind);
/* As hanare_request_quietly, without an answer. -EBUSY, at once: no entry is left. */
int hanare_post_quietly(struct hanare_space *space, struct hanare_call *call);

/* choice.c */
struct hanare_cpu *hanare_cpu_to_ask(struct hanare_space *space, const struct hanare_call *call);
/* For what is about no space. inst->live is held. */
struct hanare_cpu *hanare_quiet_cpu(struct hanare_instance *inst);
int hanare_disturbance(struct hanare_cpu *cpu, u32 space);

/* closes.c */
/* `confirmed`: the LWK has nothing of a space any more, or is gone. Drops the end's references. */
void hanare_closes_init(void (*confirmed)(struct hanare_unconfirmed *end));
void hanare_closes_start(struct hanare_instance *inst);
void hanare_closes_stop(struct hanare_instance *inst);
/* The space's end is not confirmed by the LWK: it is asked until it does, or is stopped. */
void hanare_close_later(struct hanare_instance *inst, struct hanare_unconfirmed *end);
/*
 * The request by which its holder asked that CPU, too, is over: its end is confirmed only after
 * this. 0: the space's use is in call->args, as that request was answered, or another one.
 * `awaited`: its entry, if it is not answered, or -1.
 */
int hanare_close_asked(struct hanare_instance *inst, struct hanare_unconfirmed *end, struct hanare_cpu *cpu, int awaited,
		       struct hanare_call *call, int err);

long hanare_do_end(struct hanare_file *hf, void *data);

/* ping.c */
void hanare_ping_all(struct hanare_instance *inst, u64 *slowest);
void hanare_does_not_answer(struct hanare_instance *inst);

/* load.c */
u64 hanare_idle_ns(const struct hanare_cpu *cpu);
u64 hanare_idle_sum_ns(const struct hanare_instance *inst);
void hanare_load_update(struct hanare_instance *inst);

/* clock.c */
void hanare_clock_start(struct hanare_instance *inst);
void hanare_clock_stop(struct hanare_instance *inst);

/* log.c: the last lines into dmesg, before they are gone. */
void hanare_log_tail(struct hanare_instance *inst);
long hanare_do_log(struct hanare_file *hf, void *data);

#endif
