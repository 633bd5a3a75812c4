/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Instructions that posting and picking up cost the caller: a debugger counts the steps. */
#include "harness.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#define BREAKPOINT() __asm__ volatile("int3" ::: "memory")
#define POST_MOST 40
#define PICK_UP_MOST 20

static long nothing(void)
{
	return 5;
}

/*
 * Between two breakpoints each, 3 times: at first the dynamic linker, page faults and the like may
 * add to it.
 */
static __attribute__((noinline)) void measured(hanare_queue *queue)
{
	for (int i = 0; i < 3; i++) {
		hanare_ticket ticket;
		int64_t result = 0;
		int picked;

		BREAKPOINT();
		ticket = hanare_submit(queue, SYS_getppid);
		BREAKPOINT();
		if (hanare_drain(queue, LATE))
			_exit(2);
		BREAKPOINT();
		picked = hanare_poll(queue, ticket, &result);
		BREAKPOINT();
		if (picked || result != getppid())
			_exit(3);
		BREAKPOINT();
		ticket = hanare_call(queue, 0, nothing);
		BREAKPOINT();
		if (hanare_wait(queue, ticket, &result, LATE) || result != 5)
			_exit(4);
	}
}

static void be_measured(uint32_t flags)
{
	struct hanare_attributes attributes = attributes_of(64, 1);
	hanare_queue *queue;

	attributes.flags = flags;
	/* The worker is awake. */
	attributes.spin_ns = UINT32_MAX;
	queue = queue_of(&attributes);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(77);
	measured(queue);
	_exit(0);
}

static long instruction(pid_t pid)
{
	struct user_regs_struct registers;

	HOLDS(ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0);
	return (long)registers.rip;
}

/* Goes on to the next breakpoint. 0: the process has ended. */
static int reaches_breakpoint(pid_t pid)
{
	int status;

	HOLDS(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status))
		HOLDS(WEXITSTATUS(status) == 0);
	return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

/* From the call to its return, both included; *around: what the caller does as well. */
static int count(pid_t pid, int *around)
{
	int inside = 0, status;
	long start = (long)measured;

	for (*around = 0;; ++*around) {
		long at = instruction(pid), byte = ptrace(PTRACE_PEEKTEXT, pid, (void *)at, NULL) & 0xff;

		if (byte == 0xcc)
			return inside;
		/* The caller is shorter than that. */
		inside += at < start || at > start + 600 || byte == 0xe8;
		HOLDS(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
		HOLDS(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	}
}

struct costs {
	int post, pick_up, call, around;
};

/* 0: it may not be traced. */
static int measure(uint32_t flags, struct costs *costs)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		be_measured(flags);
	/* It stops at its first breakpoint. */
	HOLDS(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return 0;
	HOLDS(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	for (int i = 0; i < 3; i++) {
		int ignored;

		costs->post = count(pid, &costs->around);
		HOLDS(reaches_breakpoint(pid) && reaches_breakpoint(pid));
		costs->pick_up = count(pid, &ignored);
		HOLDS(reaches_breakpoint(pid) && reaches_breakpoint(pid));
		costs->call = count(pid, &ignored);
		HOLDS(reaches_breakpoint(pid));
		if (i < 2)
			HOLDS(reaches_breakpoint(pid));
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 1;
}

static void posting_and_picking_up_take_few_instructions(void)
{
	struct costs one, several;

	/* Once more where the debugger is so slow that the worker sleeps, and has to be woken. */
	for (int tries = 0; tries < 5; tries++) {
		if (!measure(0, &one) || !measure(HANARE_MULTI_PRODUCER, &several))
			return;
		if (one.post <= POST_MOST && one.call <= POST_MOST)
			break;
	}
	printf("instructions: %d to post a call (%d with its arguments), %d to post a function, %d to pick up\n", one.post,
	       one.around, one.call, one.pick_up);
	printf("of several producers: %d, %d, %d\n", several.post, several.call, several.pick_up);
	fflush(NULL);
	HOLDS(one.post > 10 && one.post <= POST_MOST && one.call > 10 && one.call <= POST_MOST);
	HOLDS(one.pick_up > 5 && one.pick_up <= PICK_UP_MOST);
}

#define TEST(name) { #name, name }

const struct test cost_tests[] = {
	TEST(posting_and_picking_up_take_few_instructions),
	{ 0 },
};
