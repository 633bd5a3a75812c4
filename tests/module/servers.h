/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The servers of a request box, as tools/proxy has them (worker/server.rs): threads that execute
 * calls of any slot. Part of proxy.h; the program that includes that executes and answers the calls
 * (answer_boxed()).
 */
#ifndef SERVERS_H
#define SERVERS_H

static struct {
	volatile int tid;
	/* The slot whose call it executes, plus 1. */
	volatile uint32_t serving;
} servers[HANARE_ALL_SERVERS];

/* Defined by the including program: executes and answers a server's call; a slot's answer. */
static void answer_boxed(struct hanare_slot *slot, uint32_t nr, const uint64_t *args);
static void publish_state(struct hanare_slot *slot, uint32_t state);

static struct hanare_request_box *request_box(uint32_t number)
{
	return (struct hanare_request_box *)HANARE_BOX_BASE + number;
}

/* Takes the call of a slot out of a box; the taker owns it. */
static int take_out(struct hanare_request_box *box, uint32_t slot)
{
	uint64_t bit = 1ULL << slot % 64;

	return !!(__atomic_fetch_and(&box->waiting[slot / 64 % HANARE_BOX_WORDS], ~bit, __ATOMIC_SEQ_CST) & bit);
}

/* A slot whose call waits, from `from` on; -1: none. */
static int waiting_slot(struct hanare_request_box *box, uint32_t from)
{
	uint32_t i;

	for (i = 0; i < HANARE_BOX_SLOTS; i++) {
		uint32_t slot = (from + i) % HANARE_BOX_SLOTS;

		if (__atomic_load_n(&box->waiting[slot / 64], __ATOMIC_ACQUIRE) >> slot % 64 & 1)
			return slot;
	}
	return -1;
}

/*
 * In a signal's handler, on the worker of a slot: its call in the box is not begun, or its server
 * leaves it.
 */
static void interrupt_boxed(uint32_t slot)
{
	int i;

	if (slot >= HANARE_BOX_SLOTS || slot_at(slot)->state != HANARE_SLOT_BOXED)
		return;
	for (i = 0; i < HANARE_BOXES; i++)
		if (take_out(request_box(i), slot)) {
			publish_state(slot_at(slot), HANARE_SLOT_NOT_STARTED);
			return;
		}
	for (i = 0; i < HANARE_ALL_SERVERS; i++)
		if (servers[i].serving == slot + 1)
			syscall(SYS_tgkill, getpid(), servers[i].tid, SIGUSR1);
}

static void sleep_in_box(struct hanare_request_box *box, uint32_t own, uint32_t number)
{
	uint64_t bit = 1ULL << number;

	__atomic_fetch_or(&box->idle, bit, __ATOMIC_SEQ_CST);
	if (waiting_slot(box, 0) < 0 && !(__atomic_load_n(&slot_at(own)->state, __ATOMIC_ACQUIRE) & HANARE_SLOT_ASKED) &&
	    call_module(HANARE_IOCTL_WAIT, (void *)(unsigned long)own) && errno != EINTR) {
		if (errno == EIO)
			_exit(122);
		usleep(10000); /* the descriptor is not what it was */
	}
	__atomic_fetch_and(&box->idle, ~bit, __ATOMIC_SEQ_CST);
}

/* Serves the box, and its own slot, in which it is told to end. */
static void serve_box(uint32_t own, uint32_t number)
{
	struct hanare_request_box *box = request_box(number / HANARE_SERVERS_MAX);
	uint32_t from = 0, first, in_box = number % HANARE_SERVERS_MAX;
	uint64_t args[6];
	int slot;

	for (;;) {
		if (__atomic_load_n(&slot_at(own)->state, __ATOMIC_ACQUIRE) & HANARE_SLOT_ASKED) {
			slot_at(own)->tid = 0;
			return;
		}
		first = box->first[in_box];
		box->first[in_box] = 0;
		slot = waiting_slot(box, first ? first - 1 : from);
		if (slot < 0) {
			sleep_in_box(box, own, in_box);
			continue;
		}
		servers[number].serving = slot + 1;
		if (take_out(box, slot)) {
			memcpy(args, slot_at(slot)->args, sizeof(args));
			answer_boxed(slot_at(slot), slot_at(slot)->nr, args);
			from = slot + 1;
		}
		servers[number].serving = 0;
	}
}

#endif
