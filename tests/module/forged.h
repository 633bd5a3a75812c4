/* SPDX-License-Identifier: GPL-2.0 */
/* Common to the parts of forged.c: counters, chance, and calls of the module that are watched. */
#ifndef FORGED_H
#define FORGED_H

#include "proxy.h"
#include <dirent.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#define SHARED_FD 601
#define LATE_MS 20000
#define TOO_LATE_MS 60000
#define SPOILERS 3
#define REMEMBERED 64

/* What is tried. */
enum kind {
	SERVED, PROGRAMS, IMAGES, LIES, DOUBLES, UNASKED, SILENCES, SLOT_WORDS, START_WORDS, SCRATCH_WORDS,
	MAPPINGS, TOUCHES, SIGNALS, DESCRIPTORS, OUTSIDERS, SHARERS, CHILDREN, WINDOWS_OF_OTHERS, BAD_STARTS,
	BAD_ATTACHES, IOCTLS, OBSERVATIONS, BOX_WORDS, BOXED, SERVERS, UTILITIES, KINDS
};

static const char *const kind_names[KINDS] = {
	"requests served", "programs begun", "images by execve", "lies", "double answers", "answers not asked for",
	"no answers", "slot words", "start block words", "scratch words", "mappings", "touches of memory", "signals",
	"descriptors", "outsiders by fork", "outsiders with the memory", "children by a token",
	"words in windows of others", "bad start blocks", "bad attaches", "ioctls", "observations",
	"request box words", "calls by servers", "servers", "threads to execute",
};

struct mark {
	volatile int tid;
	volatile unsigned int command;
	volatile uint64_t since_ms;
};

#define MARKS 1024
/* Known to the supervisor and to all that it has started, also past an execve. */
static struct shared {
	uint64_t counts[KINDS], ioctls[64];
	uint64_t seed, stream, end_ms, until_ms;
	uint32_t lies_one_in, pace_us;
	/*
	 * Programs go by the request box; most of the spoiled words are the box', slots' and
	 * bells'.
	 */
	uint32_t spoils_box;
	/* Programs go to Linux all the time, and little but their registers is spoiled. */
	uint32_t spoils_registers;
	pid_t supervisor, leader;
	/* What is worth to be said again, of this proxy or of one before it. */
	uint64_t remembered[REMEMBERED], tokens[8];
	uint32_t spaces[8];
	struct mark marks[MARKS];
} *shared;

static const unsigned int commands[] = {
	HANARE_IOCTL_INFO, HANARE_IOCTL_CREATE, HANARE_IOCTL_ADD_MEMORY, HANARE_IOCTL_ADD_CPU, HANARE_IOCTL_BOOT,
	HANARE_IOCTL_SHUTDOWN, HANARE_IOCTL_STATUS, HANARE_IOCTL_LOG, HANARE_IOCTL_DEBUG, HANARE_IOCTL_ATTACH,
	HANARE_IOCTL_START, HANARE_IOCTL_WAIT, HANARE_IOCTL_RING, HANARE_IOCTL_WORKER, HANARE_IOCTL_SERVE, HANARE_IOCTL_SIGNAL,
	HANARE_IOCTL_USAGE, HANARE_IOCTL_DUMP, HANARE_IOCTL_DUMP_THREAD, HANARE_IOCTL_CHILD, HANARE_IOCTL_OBSERVE,
	HANARE_IOCTL_OBSERVATION, HANARE_IOCTL_TRACE_READ, HANARE_IOCTL_OPENED, HANARE_IOCTL_LISTED,
	HANARE_IOCTL_EXECED, HANARE_IOCTL_RIGHTS, HANARE_IOCTL_SUCCEED, HANARE_IOCTL_SHARE, HANARE_IOCTL_LAST,
	HANARE_IOCTL_SEND, HANARE_IOCTL_COPY, HANARE_IOCTL_FORWARD, HANARE_IOCTL_EVENTFD, HANARE_IOCTL_PROCESS, HANARE_IOCTL_THREADS, 0,
};

static const char *const command_names[] = {
	"INFO", "CREATE", "ADD_MEMORY", "ADD_CPU", "BOOT", "SHUTDOWN", "STATUS", "LOG", "DEBUG", "ATTACH", "START",
	"WAIT", "RING", "WORKER", "SERVE", "SIGNAL", "USAGE", "DUMP", "DUMP_THREAD", "CHILD", "OBSERVE", "OBSERVATION", "TRACE_READ",
	"OPENED", "LISTED", "EXECED", "RIGHTS", "SUCCEED", "SHARE", "LAST", "SEND", "COPY", "FORWARD", "EVENTFD", "PROCESS", "THREADS",
	"unknown",
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static __thread uint64_t state;
static __thread sigjmp_buf back;
static __thread volatile int is_armed;
/* Publishes a result as the worker of a slot does. */
static void publish(struct hanare_slot *slot, long result);
/* A thread that spoils what it can until the time of its proxy is up. */
static void *spoiler(void *unused);

/* ---- chance ---- */

static uint64_t any(void)
{
	if (!state)
		state = (shared->seed * 1000003 + __atomic_add_fetch(&shared->stream, 1, __ATOMIC_RELAXED)) *
			0x9e3779b97f4a7c15ULL | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(uint64_t limit)
{
	return (any() >> 8) % limit;
}

static void count(enum kind kind)
{
	__atomic_add_fetch(&shared->counts[kind], 1, __ATOMIC_RELAXED);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void remember(uint64_t value)
{
	shared->remembered[below(REMEMBERED)] = value;
}

static uint32_t any_slot(void)
{
	switch (below(8)) {
	case 0:
		return below(64);
	case 1:
		return below(HANARE_SLOTS_MAX + 2);
	case 2 ... 4:
		return below(6);
	default:
		return 0;
	}
}

static uint64_t value(void)
{
	static const uint64_t values[] = {
		0, 1, 2, 3, 7, 8, 63, 64, 255, 256, 4095, 4096, 1 << 20, 1 << 21, 0x7fffffff, 0x80000000, 0xffffffff,
		1ULL << 32, 1ULL << 40, 0x7fffffffffff, 0x800000000000, 0xffff888000000000, HANARE_USER_MIN,
		HANARE_USER_MAX, HANARE_CONTROL_BASE, HANARE_SLOT_BASE, HANARE_START_BASE, HANARE_SCRATCH_END - PAGE, HANARE_CONTROL_END,
		HANARE_DIRECT_BASE, HANARE_STACKS_BASE, HANARE_CPU_STACKS_BASE, HANARE_KERNEL_BASE, 1ULL << 63, ~0ULL,
		~0ULL - 4095, ~0ULL - 512, -1ULL - 38, 0x400000, 0x401000,
	};

	switch (below(8)) {
	case 0:
		return below(16);
	case 1:
		return values[below(sizeof(values) / sizeof(*values))] + below(3) - 1;
	case 2:
		return values[below(sizeof(values) / sizeof(*values))];
	case 3:
		return any() >> below(64);
	case 4:
		return -below(600);
	case 5:
		return shared->tokens[below(8)] + (below(3) ? 0 : below(3) - 1);
	case 6:
		return below(2) ? shared->spaces[below(8)] : (uint64_t)getpid() + below(4);
	default:
		return shared->remembered[below(REMEMBERED)] + (below(3) ? 0 : below(64) * 8 - 256);
	}
}

/* An address of the program's, likely one that is mapped. */
static uint64_t address(void)
{
	switch (below(6)) {
	case 0:
		return 0x400000 + below(1 << 20);
	case 1:
		return HANARE_SLOT_BASE - 4 * PAGE + below(8) * PAGE + below(512) * 8;
	case 2:
		return below(HANARE_CONTROL_END >> 12) << 12;
	default:
		return shared->remembered[below(REMEMBERED)] + below(16) * PAGE - 8 * PAGE;
	}
}

/* A word of the request box, or of the rest of its page. */
static uint64_t box_word(void)
{
	return HANARE_BOX_BASE + below(below(8) ? HANARE_BOXES * sizeof(struct hanare_request_box) / 8 : HANARE_BOX_SIZE / 8) * 8;
}

static uint64_t window_word(enum kind *kind)
{
	if (shared->spoils_box ? below(16) : !below(8)) {
		*kind = BOX_WORDS;
		return box_word();
	}
	switch (below(8)) {
	case 0:
		*kind = START_WORDS;
		return HANARE_START_BASE + below(below(4) ? 40 : HANARE_START_SIZE / 8) * 8;
	case 1:
		*kind = SCRATCH_WORDS;
		return HANARE_SCRATCH_END - (any_slot() + 1) * PAGE + below(512) * 8;
	default:
		*kind = SLOT_WORDS;
		return HANARE_SLOT_BASE + any_slot() * sizeof(struct hanare_slot) + below(32) * 8;
	}
}

/* ---- calls of the module ---- */

static int call_by(int fd, unsigned int command, void *argument)
{
	int tid = thread_id(), result, error;
	struct mark *mark = &shared->marks[tid % MARKS];

	mark->tid = tid;
	mark->command = command;
	mark->since_ms = now_ms();
	result = ioctl(fd, command, argument);
	error = errno;
	mark->since_ms = 0;
	errno = error;
	return result;
}

static int call_module(unsigned int command, void *argument)
{
	return call_by(DEVICE_FD, command, argument);
}

#endif
