/* SPDX-License-Identifier: GPL-2.0 */
/* What a forged proxy (forged.c) puts where the LWK reads more than a result. */
#ifndef LIES_H
#define LIES_H

#include "spoil.h"

/* Nonsense in a message: its result, and words anywhere. */
static void spoil_message(unsigned char *message, uint64_t bytes)
{
	int i;

	count(LIES);
	if (bytes < 128)
		return;
	for (i = below(40); i > 0; i--) {
		uint64_t word = value(), at = below(4) ? below(bytes - 8) : below(120);

		memcpy(message + at, &word, sizeof(word));
	}
}

/*
 * A lie about code that the worker was to execute: registers that no thread had, where they belong
 * or anywhere. The result that says where they are, and why the code was left.
 */
static long spoil_registers(const uint64_t *args)
{
	uint64_t *bases = (uint64_t *)args[0], *frame = bases + HANARE_AREA_FRAME / 8;
	uint64_t *fpu = bases + HANARE_AREA_FPU / 8;
	int i;

	for (i = below(6); i; i--)
		frame[below(40)] = value();
	if (!below(3))
		for (i = below(20); i; i--)
			fpu[below(below(2) ? 80 : 300)] = value();
	if (!below(3))
		bases[below(2)] = value();
	switch (below(8)) {
	case 0:
		return value();
	case 1:
		return args[0] + below(args[1]);
	case 2:
		return -(long)below(140);
	default:
		return (long)frame + below(8);
	}
}

/* ---- a process that the LWK does not know ---- */

static int register_as_stranger(void *bell)
{
	return !ioctl(DEVICE_FD, HANARE_IOCTL_WORKER, (uint64_t)thread_id() << HANARE_WORKER_SHIFT | (uintptr_t)bell) ||
	       errno != EPERM;
}

/* A process that has the memory, and that the LWK does not know, says that it serves a slot. */
static int stranger_is_refused(void)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	uint64_t bell = slot_at(0)->bell;
	int status, own = ioctl(DEVICE_FD, HANARE_IOCTL_WORKER, (uint64_t)thread_id() << HANARE_WORKER_SHIFT | bell);
	pid_t pid = clone(register_as_stranger, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD,
			  (void *)(uintptr_t)bell);

	return !own && pid > 0 && waitpid(pid, &status, __WALL) == pid && !status;
}

#endif
