// SPDX-License-Identifier: GPL-2.0
/*
 * Forged proxies: each attaches to the instance, starts a program, and serves it, truthfully for the most
 * part, so that it gets far, while threads and other processes spoil what they can reach: answers, slots,
 * start block, scratch pages, mappings, the descriptor, every ioctl in any order, signals. One after the
 * other, each with odds of its own, until the time is up; at the end of each no process of it is left.
 *   forged SECONDS SEED FOLDER [INSTANCE]     FOLDER: the programs (tests/guest/static)
 *   forged corrupt SECONDS SEED               writes into the control windows of other proxies of its user
 *   forged serve PROGRAM [ARGUMENT...]        serves a program and spoils nothing
 * Prints what was tried, by kind. Exit status 3: a call or an end took more than 60 s.
 * Run it as a user whose processes may all be killed.
 */
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
	BAD_ATTACHES, IOCTLS, OBSERVATIONS, KINDS
};

static const char *const kind_names[KINDS] = {
	"requests served", "programs begun", "images by execve", "lies", "double answers", "answers not asked for",
	"no answers", "slot words", "start block words", "scratch words", "mappings", "touches of memory", "signals",
	"descriptors", "outsiders by fork", "outsiders with the memory", "children by a token",
	"words in windows of others", "bad start blocks", "bad attaches", "ioctls", "observations",
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
	pid_t supervisor, leader;
	/* What is worth to be said again, of this proxy or of one before it. */
	uint64_t remembered[REMEMBERED], tokens[8];
	uint32_t spaces[8];
	struct mark marks[MARKS];
} *shared;

static const unsigned int commands[] = {
	HANARE_IOCTL_INFO, HANARE_IOCTL_CREATE, HANARE_IOCTL_ADD_MEMORY, HANARE_IOCTL_ADD_CPU, HANARE_IOCTL_BOOT,
	HANARE_IOCTL_SHUTDOWN, HANARE_IOCTL_STATUS, HANARE_IOCTL_LOG, HANARE_IOCTL_DEBUG, HANARE_IOCTL_ATTACH,
	HANARE_IOCTL_START, HANARE_IOCTL_WAIT, HANARE_IOCTL_RING, HANARE_IOCTL_SERVE, HANARE_IOCTL_SIGNAL,
	HANARE_IOCTL_USAGE, HANARE_IOCTL_DUMP, HANARE_IOCTL_POSE, HANARE_IOCTL_CHILD, HANARE_IOCTL_OBSERVE,
	HANARE_IOCTL_OBSERVATION, HANARE_IOCTL_TRACE_READ, HANARE_IOCTL_OPENED, HANARE_IOCTL_LISTED,
	HANARE_IOCTL_EXECED, HANARE_IOCTL_RIGHTS, HANARE_IOCTL_SUCCEED, HANARE_IOCTL_SHARE, HANARE_IOCTL_LAST,
	HANARE_IOCTL_SEND, HANARE_IOCTL_COPY, HANARE_IOCTL_PROCESS, HANARE_IOCTL_THREADS, 0,
};

static const char *const command_names[] = {
	"INFO", "CREATE", "ADD_MEMORY", "ADD_CPU", "BOOT", "SHUTDOWN", "STATUS", "LOG", "DEBUG", "ATTACH", "START",
	"WAIT", "RING", "SERVE", "SIGNAL", "USAGE", "DUMP", "POSE", "CHILD", "OBSERVE", "OBSERVATION", "TRACE_READ",
	"OPENED", "LISTED", "EXECED", "RIGHTS", "SUCCEED", "SHARE", "LAST", "SEND", "COPY", "PROCESS", "THREADS",
	"unknown",
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static const char *const programs[] = {
	"hello", "children", "sleepers 30", "map", "remap", "smp", "clones", "sharers", "vforks", "waits", "sigs",
	"threads-exec", "execs", "robust", "robust-shared", "mremap", "memfd", "futexops", "ptrace", "seccomp", "sysv",
	"huge", "lock", "advise", "aio", "uring", "raced", "hollow", "crowd 20", "own", "vfork-shared", "vfork-killed",
	"vfork-execed", "file-table", "fulltable", "die null", "die pause", "rights", "confined", "mincore", "manymaps",
	"pi", "tids", "takers", "wraps", "clocktimers", "namespaced", "segv", "blocked", "heldchild", "traced",
	"fuzz 3 SEED 4", "fuzz 3 SEED 4", "fuzz 3 SEED 4", "/bin/sh -c /bin/true|/bin/cat;exec</dev/zero;/bin/ls", "/bin/true",
};

static char *folder;
static __thread uint64_t state;
static __thread sigjmp_buf back;
static __thread volatile int is_armed;

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
		HANARE_USER_MAX, HANARE_CONTROL_BASE, HANARE_START_BASE, HANARE_SCRATCH_BASE, HANARE_CONTROL_END,
		HANARE_DIRECT_BASE, HANARE_STACKS_BASE, HANARE_CPU_STACKS_BASE, HANARE_KERNEL_BASE, 1ULL << 63, ~0ULL,
		~0ULL - 4095, -HANARE_RESULT_NOT_STARTED, -1ULL - 38, 0x400000, 0x401000,
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
		return HANARE_CONTROL_BASE + below(4) * PAGE + below(512) * 8;
	case 2:
		return below(HANARE_CONTROL_END >> 12) << 12;
	default:
		return shared->remembered[below(REMEMBERED)] + below(16) * PAGE - 8 * PAGE;
	}
}

static uint64_t window_word(enum kind *kind)
{
	switch (below(8)) {
	case 0:
		*kind = START_WORDS;
		return HANARE_START_BASE + below(below(4) ? 40 : HANARE_START_SIZE / 8) * 8;
	case 1:
		*kind = SCRATCH_WORDS;
		return HANARE_SCRATCH_BASE + any_slot() * PAGE + below(512) * 8;
	default:
		*kind = SLOT_WORDS;
		return HANARE_SLOT_BASE + any_slot() * 128ULL + below(16) * 8;
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

/* ---- serving, and lying ---- */

static void on_fault(int number)
{
	if (is_armed)
		siglongjmp(back, 1);
	_exit(123);
}

static void on_interrupt(int number)
{
}

static void publish(struct hanare_slot *slot, long result)
{
	struct hanare_ring ring = { 0 };

	slot->result = result;
	__atomic_store_n(&slot->state, HANARE_SLOT_DONE, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&slot->lwk_wait, __ATOMIC_RELAXED) == HANARE_WAIT_AWAKE)
		return;
	ring.bell = slot->bell;
	call_module(HANARE_IOCTL_RING, &ring);
}

static void take_request(struct hanare_slot *slot, uint32_t number)
{
	struct hanare_wait wait = { .slot = number };

	for (;;) {
		int looks;

		for (looks = 0; looks < 20; looks++) {
			if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == HANARE_SLOT_REQUESTED)
				return;
			sched_yield();
		}
		slot->worker_wait = HANARE_WAIT_ASLEEP;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != HANARE_SLOT_REQUESTED &&
		    call_module(HANARE_IOCTL_WAIT, &wait) && errno != EINTR) {
			if (errno == EIO)
				_exit(122);
			usleep(10000); /* the descriptor is not what it was */
		}
		slot->worker_wait = HANARE_WAIT_AWAKE;
	}
}

/* A lie about a request; `result`: what would be true. */
static void lie(struct hanare_slot *slot, long result)
{
	count(LIES);
	switch (below(8)) {
	case 0:
		publish(slot, HANARE_RESULT_NOT_STARTED);
		break;
	case 1:
		publish(slot, -(long)below(140));
		break;
	case 2:
		count(DOUBLES);
		publish(slot, result);
		usleep(below(2000));
		publish(slot, value());
		break;
	case 3:
		count(SILENCES);
		usleep(below(300000));
		publish(slot, result);
		break;
	case 4:
		slot->state = value();
		usleep(below(1000));
		publish(slot, value());
		break;
	case 5:
		slot->nr = value();
		slot->args[below(6)] = value();
		publish(slot, result);
		break;
	case 6:
		publish(slot, thread_id() + below(3) - 1);
		break;
	default:
		publish(slot, value());
	}
}

static void *spoiler(void *unused);

/* Serves a slot; returns where its worker ends. */
static void serve(uint32_t number)
{
	static char more[64];
	volatile int faults = 0;

	my_slot = number;
	snprintf(more, sizeof(more), "FORGED=%s", folder);
	if (sigsetjmp(back, 1)) {
		is_armed = 0;
		faults = faults + 1;
		if (faults > 50)
			_exit(121);
		/* Somebody took the window away: here it is again. */
		usleep(below(20000));
		map_device(HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	}
	for (;;) {
		struct hanare_slot *slot = slot_at(my_slot);
		uint64_t args[6];
		enum after after;
		int lies, i;
		uint32_t nr;
		long result;

		is_armed = 1;
		take_request(slot, my_slot);
		nr = slot->nr;
		memcpy(args, slot->args, sizeof(args));
		apply_mask(slot->sigmask);
		count(SERVED);
		for (i = 0; i < 6; i++)
			if (args[i] > PAGE && args[i] < HANARE_CONTROL_END && !below(4))
				remember(args[i]);
		if (nr == HANARE_OP_FORK || nr == HANARE_OP_EXEC)
			shared->tokens[below(8)] = args[0];
		lies = shared->lies_one_in && !below(shared->lies_one_in);
		if (lies && !below(4)) {
			lie(slot, value()); /* without having done it */
			continue;
		}
		after = execute(my_slot, nr, args, more, &result);
		if (after == ENDS)
			return;
		if (after == IS_CHILD) {
			count(CHILDREN);
			shared->spaces[below(8)] = space;
			if (below(2))
				start_thread(spoiler, NULL);
			continue;
		}
		if (lies)
			lie(slot, result);
		else
			publish(slot, result);
	}
}

static void *worker(void *argument)
{
	uint32_t number = (uintptr_t)argument;

	if (sigsetjmp(back, 1))
		return NULL;
	is_armed = 1;
	slot_at(number)->tid = thread_id();
	if ((uintptr_t)argument >> 32)
		publish(slot_at(number), 0);
	serve(number);
	is_armed = 0;
	return NULL;
}

static int sharer(void *argument)
{
	struct sharing *how = argument;
	struct hanare_share share = { .slot = how->slot, .begin = 1 };

	my_slot = how->slot;
	slot_at(how->slot)->tid = thread_id();
	if (call_module(HANARE_IOCTL_SHARE, &share))
		_exit(120);
	serve(how->slot);
	return 0;
}

/* ---- what spoilers do ---- */

static union {
	uint64_t words[512];
	struct hanare_attach attach;
	struct hanare_wait wait;
	struct hanare_signal signal;
	struct hanare_pose pose;
	struct hanare_opened opened;
	struct hanare_listed listed;
	struct hanare_execed execed;
	struct hanare_share share;
	struct hanare_send send;
	struct hanare_copy copy;
	struct hanare_child child;
	struct hanare_status status;
	struct hanare_log log;
	struct hanare_process_status process;
	struct hanare_threads threads;
	struct hanare_observation observation;
	struct hanare_trace_read read;
} buffers[16];

static int any_signal(void)
{
	static const int mild[] = { SIGUSR2, SIGCHLD, SIGALRM, SIGCONT, SIGURG, SIGWINCH, SIGIO, 34, 40, SIGUSR1, SIGHUP };

	return below(12) ? mild[below(sizeof(mild) / sizeof(*mild))] : below(6) ? SIGCONT : (int)below(66);
}

/* What could be meant. */
static void make_plausible(unsigned int command, void *at)
{
	typeof(*buffers) *b = at;
	int i;

	memset(b, 0, 1024);
	switch (command) {
	case HANARE_IOCTL_ATTACH:
		b->attach.fd = DEVICE_FD;
		if (!below(3))
			b->attach.cpus[0] = below(16);
		break;
	case HANARE_IOCTL_WAIT:
	case HANARE_IOCTL_RING:
	case HANARE_IOCTL_SERVE:
		b->wait.slot = below(3) ? any_slot() : below(512);
		break;
	case HANARE_IOCTL_SIGNAL:
		b->signal = (struct hanare_signal){ any_signal(), any_slot(), { 0 } };
		for (i = 0; i < 6; i++)
			b->signal.info[i] = value();
		b->signal.info[0] = b->signal.signal;
		break;
	case HANARE_IOCTL_POSE:
		b->pose.signal = below(2) ? any_signal() : 0;
		b->pose.others = below(3);
		for (i = 0; i < HANARE_POSE_REGS; i++)
			b->pose.regs[i] = value();
		break;
	case HANARE_IOCTL_CHILD:
		b->child.token = below(6) ? shared->tokens[below(8)] : value();
		b->child.program = !below(3);
		b->child.shares_table = !b->child.program && !below(3);
		b->child.secure = !below(4);
		b->child.parent = below(4) ? space : shared->spaces[below(8)];
		for (i = 0; i < 2; i++)
			b->child.files[i] = below(6);
		break;
	case HANARE_IOCTL_OBSERVE:
		b->opened.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		break;
	case HANARE_IOCTL_OBSERVATION:
		b->observation.op = 1 + below(HANARE_OBSERVE_LAST + 1);
		b->observation.args[0] = below(3) ? (uint64_t)getpid() : below(2) ? address() : value();
		b->observation.args[1] = below(2) ? below(64) : value();
		for (i = 0; i < 64; i++)
			b->observation.data[i] = below(2) ? 0 : value();
		break;
	case HANARE_IOCTL_TRACE_READ:
		b->read.buffer = below(2) ? (uint64_t)b + 2048 : address();
		b->read.size = below(8192);
		break;
	case HANARE_IOCTL_OPENED:
		b->opened.fd = open(below(2) ? "/proc/self/maps" : "/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
		b->opened.replace = below(2);
		b->opened.close_on_exec = below(2);
		break;
	case HANARE_IOCTL_LISTED:
		b->listed.fd = open("/proc", O_RDONLY | O_CLOEXEC);
		b->listed.old = below(2);
		b->listed.buffer = below(2) ? (uint64_t)b + 1024 : address();
		b->listed.bytes = below(2) ? (uint64_t)syscall(SYS_getdents64, b->listed.fd, (char *)b + 1024, 1024) : value();
		break;
	case HANARE_IOCTL_EXECED:
		b->execed.file = below(6);
		b->execed.arg_start = address() & 0x7cffffffffff;
		b->execed.arg_end = b->execed.arg_start + below(1 << 14);
		b->execed.env_start = b->execed.arg_end;
		b->execed.env_end = b->execed.env_start + below(1 << 14);
		break;
	case HANARE_IOCTL_SUCCEED:
		b->wait.slot = getpid() + below(4);
		break;
	case HANARE_IOCTL_SHARE:
		b->share.slot = any_slot();
		b->share.begin = below(2);
		break;
	case HANARE_IOCTL_LAST:
		b->wait.slot = any_signal();
		break;
	case HANARE_IOCTL_SEND:
		b->send.signal = any_signal();
		b->send.tid = below(2) ? 0 : getpid() + below(4);
		for (i = 0; i < 6; i++)
			b->send.info[i] = value();
		b->send.info[0] = b->send.signal;
		break;
	case HANARE_IOCTL_COPY:
		b->copy.from = address();
		b->copy.to = address();
		b->copy.bytes = below(8) ? below(3 * PAGE) : value();
		break;
	case HANARE_IOCTL_STATUS:
		b->status.ping = !below(16);
		b->status.cpu_count = below(4);
		b->status.cpus = below(2) ? (uint64_t)b + 1024 : address();
		break;
	case HANARE_IOCTL_LOG:
		b->log.position = below(2) ? 0 : value();
		b->log.buffer = below(2) ? (uint64_t)b + 1024 : address();
		b->log.size = below(3000);
		break;
	case HANARE_IOCTL_PROCESS:
	case HANARE_IOCTL_THREADS:
		/* The instance's name; then a space. */
		memcpy(b->threads.name, instance, sizeof(instance));
		b->threads.space = below(3) ? space : below(3) ? shared->spaces[below(8)] : 0;
		b->threads.skip = below(3);
		break;
	default:
		for (i = 0; i < 16; i++)
			b->words[i] = value();
	}
}

static void spoil_by_ioctl(void)
{
	unsigned int at = below(COMMANDS), command = commands[at], i;
	typeof(*buffers) *b = &buffers[below(16)];
	void *argument = b;
	int fd = DEVICE_FD, opened = -1;

	/* These end or hold who calls them. */
	if ((command == HANARE_IOCTL_POSE && below(30)) || (command == HANARE_IOCTL_WAIT && below(8)))
		return;
	/* Programs that are killed all the time do not get far. */
	if (command == HANARE_IOCTL_SIGNAL && below(3))
		return;
	if (below(4))
		make_plausible(command, b);
	else
		for (i = 0; i < 64; i++)
			if (below(2))
				b->words[i] = value();
	if (!below(4))
		b->words[below(16)] = value();
	opened = command == HANARE_IOCTL_OPENED || command == HANARE_IOCTL_LISTED || command == HANARE_IOCTL_OBSERVE ?
		b->opened.fd : -1;
	if (command == HANARE_IOCTL_SHUTDOWN || command == HANARE_IOCTL_DEBUG || !command)
		command = command ? command : below(2) ? value() : 0x4800 | below(256);
	switch (below(16)) {
	case 0:
		argument = (void *)address();
		break;
	case 1:
		argument = (void *)value();
		break;
	case 2:
		argument = (char *)(buffers + 16) - below(64);
		break;
	}
	/* Descriptors without a role, and those that somebody left open. */
	if (command == HANARE_IOCTL_OBSERVE || command == HANARE_IOCTL_OBSERVATION || !below(12))
		fd = SHARED_FD + 1 + below(4);
	count(IOCTLS);
	__atomic_add_fetch(&shared->ioctls[at], 1, __ATOMIC_RELAXED);
	call_by(fd, command, argument);
	if (opened > 2 && opened < DEVICE_FD)
		close(opened);
}

/* Looks at a process as tracers and debuggers do. */
static void spoil_by_observing(void)
{
	struct hanare_observe observe = { 0 };
	struct hanare_observation *about = &buffers[below(16)].observation;
	char path[32];
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC), i;

	snprintf(path, sizeof(path), "/proc/%d/mem", below(2) ? getpid() : getppid());
	observe.memory = open(path, O_RDWR | O_CLOEXEC);
	call_by(fd, HANARE_IOCTL_OBSERVE, &observe);
	for (i = below(12); i; i--) {
		make_plausible(HANARE_IOCTL_OBSERVATION, about);
		if (!below(3))
			about->op = below(2) ? HANARE_OBSERVE_TRACE : HANARE_OBSERVE_DEBUG;
		if (about->op == HANARE_OBSERVE_TRACE)
			about->args[0] = below(2);
		call_by(fd, HANARE_IOCTL_OBSERVATION, about);
		count(OBSERVATIONS);
		if (!below(3)) {
			make_plausible(HANARE_IOCTL_TRACE_READ, about);
			call_by(fd, HANARE_IOCTL_TRACE_READ, about);
		}
		usleep(below(3000));
	}
	close(observe.memory);
	if (below(8))
		close(fd);
}

static void spoil_words(void)
{
	enum kind kind;
	uint64_t at = window_word(&kind);
	int burst = below(8) ? 1 : below(32);

	while (burst--) {
		count(kind);
		if (kind == SLOT_WORDS && below(2))
			/* State, or what follows it. */
			*(volatile uint32_t *)(at & -128) = below(2) ? below(4) : value();
		else if (below(2))
			*(volatile uint32_t *)(at + 4 * below(2)) = value();
		else
			*(volatile uint64_t *)at = value();
		if (!below(3))
			at = window_word(&kind);
	}
}

/* A result that nobody has asked for, or not yet. */
static void spoil_answer(void)
{
	count(UNASKED);
	publish(slot_at(any_slot()), value());
}

static void spoil_mapping(void)
{
	static const uint64_t places[] = { HANARE_SLOT_BASE, HANARE_START_BASE, HANARE_SCRATCH_BASE, 0x400000, HANARE_USER_MIN };
	uint64_t start = below(2) ? places[below(5)] : address() & -PAGE, size = PAGE << below(below(8) ? 6 : 20);
	void *at = (void *)start;

	if (start < HANARE_USER_MIN || start + size > HANARE_CONTROL_END || (start < own_end && start + size > own_start))
		return;
	count(MAPPINGS);
	switch (below(10)) {
	case 0:
		munmap(at, size);
		break;
	case 1:
		mprotect(at, size, below(8));
		break;
	case 2:
		mremap(at, size, size << below(2), MREMAP_MAYMOVE | (below(4) ? 0 : MREMAP_DONTUNMAP));
		break;
	case 3:
		madvise(at, size, below(30));
		break;
	case 4:
		mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)at + PAGE * (below(64) - 32));
		break;
	case 5: /* another space, another address, other rights */
		mmap(below(2) ? NULL : at, size, below(8), (below(4) ? MAP_SHARED : MAP_PRIVATE) | (below(2) ? MAP_FIXED : 0),
		     DEVICE_FD, (off_t)((uint64_t)(below(2) ? space : shared->spaces[below(8)]) << HANARE_SPACE_SHIFT |
					(below(2) ? start : address() & -PAGE)));
		break;
	case 6:
		mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 7:
		syscall(below(2) ? SYS_mlock : SYS_munlock, at, size);
		break;
	default:
		break;
	}
	/* Most of the time it is soon as it should be. */
	usleep(below(3000));
	if (below(8))
		map_around(start, start + size);
}

/* Memory of the program, by faults of user mode and of Linux. */
static void spoil_memory(void)
{
	uint64_t at = address();
	char byte[64];
	int fd, pipes[2];
	struct iovec here = { byte, sizeof(byte) }, there = { (void *)at, sizeof(byte) };

	count(TOUCHES);
	switch (below(8)) {
	case 0:
		*(volatile char *)at = value();
		break;
	case 1:
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		syscall(SYS_read, fd, at, 1 + below(3 * PAGE));
		close(fd);
		break;
	case 2:
		if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
			break;
		syscall(SYS_write, pipes[1], at, 1 + below(2 * PAGE));
		syscall(SYS_vmsplice, pipes[1], &there, 1, below(4));
		close(pipes[0]);
		close(pipes[1]);
		break;
	case 3:
		process_vm_readv(below(2) ? getpid() : getppid(), &here, 1, &there, 1, 0);
		break;
	case 4:
		process_vm_writev(below(2) ? getpid() : getppid(), &here, 1, &there, 1, 0);
		break;
	case 5:
		fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		if (below(2))
			pread(fd, byte, sizeof(byte), at);
		else
			pwrite(fd, byte, 1, at);
		close(fd);
		break;
	default:
		byte[0] = *(volatile char *)at;
	}
}

static void spoil_by_signal(void)
{
	int number = any_signal();

	if (!number)
		return;
	count(SIGNALS);
	switch (below(6)) {
	case 0:
		syscall(SYS_tgkill, getpid(), getpid() + below(6), number);
		break;
	case 1:
		if (may_send(getppid()))
			kill(getppid(), number);
		break;
	case 2:
		kill(0, below(6) ? SIGCONT : number);
		break;
	default:
		kill(getpid(), number);
	}
}

static void spoil_descriptor(void)
{
	int other;

	count(DESCRIPTORS);
	switch (below(8)) {
	case 0: /* away for a while */
		other = fcntl(DEVICE_FD, F_DUPFD_CLOEXEC, 610);
		close(DEVICE_FD);
		usleep(below(3000));
		dup3(other, DEVICE_FD, O_CLOEXEC);
		close(other);
		break;
	case 1: /* one without a role, for good */
		if (!below(8))
			open_device();
		break;
	case 2:
		if (!below(20))
			close(DEVICE_FD);
		break;
	default:
		other = open("/dev/hanare", O_RDWR | O_CLOEXEC);
		dup3(other, SHARED_FD + 1 + below(4), O_CLOEXEC);
		close(other);
	}
}

static void spoil_window_of_others(void)
{
	struct dirent *entry;
	DIR *processes = opendir("/proc");
	uint64_t word = value();
	enum kind kind;
	char path[300];
	int fd;

	/* One of all processes, of those that Linux lets this one write to. */
	while (processes && (entry = readdir(processes))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || below(8) ||
		    atoi(entry->d_name) == shared->supervisor)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/mem", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (pwrite(fd, &word, below(2) ? 4 : 8, window_word(&kind)) > 0)
			count(WINDOWS_OF_OTHERS);
		close(fd);
	}
	closedir(processes);
}

static int outsider(void *unused)
{
	spoiler(unused);
	_exit(0);
}

static void *carry_outsider(void *flags)
{
	char *stack = mmap(NULL, 128 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;

	if (stack == MAP_FAILED || clone(outsider, stack + (128 << 10), (int)(uintptr_t)flags | SIGCHLD, NULL) < 0)
		return NULL;
	while (waitpid(-1, &status, __WALL | __WNOTHREAD) > 0 || errno == EINTR)
		;
	return NULL;
}

/* Processes that have the descriptor, the descriptor table, or the memory. */
static void spoil_by_process(void)
{
	static const int with_memory[] = { CLONE_VM, CLONE_VM | CLONE_FILES, CLONE_VM | CLONE_FILES | CLONE_FS };
	struct hanare_child child;
	long pid;

	if (below(3) == 0) {
		count(SHARERS);
		start_thread(carry_outsider, (void *)(uintptr_t)with_memory[below(3)]);
		return;
	}
	count(OUTSIDERS);
	pid = syscall(SYS_clone, (below(2) ? CLONE_FILES : 0) | SIGCHLD, 0, 0, 0, 0);
	if (pid)
		return;
	state = 0;
	if (below(2)) {
		make_plausible(HANARE_IOCTL_CHILD, buffers);
		child = buffers->child;
		if (!become_child(&child)) {
			count(CHILDREN);
			start_thread(spoiler, NULL);
			worker(NULL);
		}
	}
	outsider(NULL);
}

static void end_of_process(void)
{
	switch (below(8)) {
	case 0:
		kill(getpid(), SIGKILL);
		break;
	case 1:
		close(DEVICE_FD);
		break;
	case 2:
		munmap((void *)HANARE_CONTROL_BASE, HANARE_CONTROL_SIZE);
		break;
	case 3:
		execl("/bin/true", "true", NULL);
		break;
	case 4:
		kill(getpid(), any_signal());
		break;
	case 5: /* this thread alone */
		syscall(SYS_exit, 0);
	}
	_exit(0);
}

static void spoil(void)
{
	switch (below(64)) {
	case 0 ... 23:
		spoil_by_ioctl();
		break;
	case 24 ... 39:
		spoil_words();
		break;
	case 40 ... 41:
		spoil_answer();
		break;
	case 42 ... 46:
		spoil_mapping();
		break;
	case 47 ... 54:
		spoil_memory();
		break;
	case 55 ... 56:
		spoil_by_signal();
		break;
	case 57:
		spoil_descriptor();
		break;
	case 58:
		if (!below(4))
			spoil_window_of_others();
		break;
	case 59:
		spoil_by_process();
		break;
	case 60 ... 61:
		if (!below(3))
			spoil_by_observing();
		break;
	default:
		usleep(below(20000));
	}
}

static void *spoiler(void *unused)
{
	if (shared->pace_us == UINT32_MAX)
		return unused;
	sigsetjmp(back, 1);
	while (now_ms() < shared->until_ms) {
		int actions = below(4) ? 1 : below(12);

		is_armed = 1;
		while (actions--)
			spoil();
		is_armed = 0;
		usleep(below(2 * shared->pace_us));
	}
	end_of_process();
	return unused;
}

/* ---- a proxy ---- */

static void limit(int what, unsigned long value)
{
	struct rlimit limit = { value, value };

	setrlimit(what, &limit);
}

static void prepare(void)
{
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct sigaction interrupt = { .sa_handler = on_interrupt };

	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGUSR1, &interrupt, NULL);
	signal(SIGPIPE, SIG_IGN);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 1 << 20);
	limit(RLIMIT_NPROC, 600);
	find_own();
}

static char *const environment[] = { "HOME=/", "PATH=/bin:/usr/bin", "LC_ALL=C", NULL };

static void choose_program(void)
{
	static char text[256], path[512], seed[32];
	char *argv[8] = { 0 };
	int argc = 0;

	strcpy(text, programs[below(sizeof(programs) / sizeof(*programs))]);
	for (argv[argc] = strtok(text, " "); argv[argc] && argc < 6; argv[argc] = strtok(NULL, " "))
		argc++;
	snprintf(seed, sizeof(seed), "%u", (uint32_t)any());
	for (argc = 0; argv[argc]; argc++)
		if (!strcmp(argv[argc], "SEED"))
			argv[argc] = seed;
	snprintf(path, sizeof(path), "%s/%s", argv[0][0] == '/' ? "" : folder, argv[0]);
	argv[0] = path;
	write_start(argv, environment);
}

static void damage_start(void)
{
	volatile uint64_t *block = (void *)HANARE_START_BASE;
	int words;

	count(BAD_STARTS);
	for (words = 1 + below(3); words; words--)
		switch (below(3)) {
		case 0:
			block[below(5)] = value();
			break;
		case 1:
			((volatile uint32_t *)block)[below(sizeof(struct hanare_start_block) / 4)] = value();
			break;
		default:
			block[below(64)] = value();
		}
}

static void proxy(void)
{
	struct hanare_attach how = { .fd = DEVICE_FD };
	int i;

	int null = open("/dev/null", O_RDWR);

	state = 0;
	setsid();
	prctl(PR_SET_DUMPABLE, 1);
	for (i = 0; i < 3; i++)
		dup2(null, i);
	close(null);
	prepare();
	if (!below(12)) {
		count(BAD_ATTACHES);
		make_plausible(HANARE_IOCTL_ATTACH, buffers);
		how = buffers->attach;
		for (i = below(3); i; i--)
			((volatile uint64_t *)&how)[below(sizeof(how) / 8)] = value();
	}
	if (open_device())
		_exit(119);
	attach(&how);
	shared->spaces[below(8)] = space;
	is_armed = 1;
	if (sigsetjmp(back, 1))
		map_around(HANARE_USER_MIN, HANARE_CONTROL_END);
	else if (below(10))
		map_around(HANARE_USER_MIN, HANARE_CONTROL_END);
	else if (below(2))
		map_around(HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	choose_program();
	for (i = 0; i < SPOILERS; i++)
		start_thread(spoiler, NULL);
	slot_at(0)->tid = thread_id();
	if (!below(5))
		damage_start();
	if (!call_module(HANARE_IOCTL_START, NULL))
		count(PROGRAMS);
	serve(0);
	_exit(0);
}

/* The proxy goes on as another image, which Linux has loaded in place of a program. */
static void go_on(const char *option)
{
	prepare();
	if (resume(option))
		_exit(118);
	count(IMAGES);
	shared->spaces[below(8)] = space;
	is_armed = 0;
	if (below(2))
		start_thread(spoiler, NULL);
	worker(NULL);
	_exit(0);
}

static int serve_well(char **argv)
{
	struct hanare_attach how = { .fd = DEVICE_FD };

	shared->pace_us = UINT32_MAX;
	prepare();
	if (open_device() || attach(&how) || map_around(HANARE_USER_MIN, HANARE_CONTROL_END)) {
		perror((char *)how.message);
		return 1;
	}
	write_start(argv, environment);
	slot_at(0)->tid = thread_id();
	if (call_module(HANARE_IOCTL_START, NULL)) {
		perror("START");
		return 1;
	}
	serve(0);
	return 1;
}

/* ---- the supervisor ---- */

static int stat_of(const char *pid, char *kind, int *parent, int *session)
{
	char path[64], text[512] = "", *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	read(fd, text, sizeof(text) - 1);
	close(fd);
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %c %d %*d %d", kind, parent, session) == 3;
}

/* Kills all that the proxy has left, in its session or orphaned; answers how many are there. */
static int kill_left(int tells)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	int left = 0, parent, session;
	char kind;

	while ((entry = readdir(processes))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || !stat_of(entry->d_name, &kind, &parent, &session))
			continue;
		if (session != shared->leader && parent != getpid())
			continue;
		left++;
		kill(pid, SIGKILL);
		if (tells)
			printf("process %d is still there, state %c, parent %d\n", pid, kind, parent);
	}
	closedir(processes);
	return left;
}

static void name_late(uint64_t now)
{
	int i;
	size_t at;

	for (i = 0; i < MARKS; i++) {
		struct mark mark = shared->marks[i];

		if (!mark.since_ms || now < mark.since_ms + LATE_MS || mark.command == HANARE_IOCTL_WAIT)
			continue;
		for (at = 0; at < COMMANDS - 1 && commands[at] != mark.command; at++)
			;
		printf("%s (%x) of thread %d has not returned in %lu ms\n", command_names[at], mark.command, mark.tid,
		       (unsigned long)(now - mark.since_ms));
	}
}

/* One proxy from its beginning until nothing of it is left; answers how long its end took. */
static uint64_t one(uint64_t life_ms)
{
	static const uint32_t odds[] = { 0, 300, 100, 30, 10 }, paces[] = { 20000, 5000, 1000, 200, 50 };
	uint64_t began, told = 0;
	pid_t leader;

	shared->lies_one_in = odds[below(5)];
	shared->pace_us = paces[below(5)];
	shared->until_ms = now_ms() + life_ms;
	memset(shared->marks, 0, sizeof(shared->marks));
	fflush(stdout);
	leader = fork();
	if (!leader)
		proxy();
	shared->leader = leader;
	/* Often without its first process, too. */
	while (now_ms() < shared->until_ms + 300 && (waitpid(leader, NULL, WNOHANG | __WALL) != leader || !below(4)))
		usleep(10000);
	began = now_ms();
	do {
		uint64_t now = now_ms();
		int tells = now > began + LATE_MS && now > told + LATE_MS;

		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
		if (!kill_left(tells) && waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
			return now - began;
		if (tells) {
			told = now;
			name_late(now);
			fflush(stdout);
		}
		usleep(5000);
	} while (now_ms() < began + TOO_LATE_MS);
	printf("no end in %d ms\n", TOO_LATE_MS);
	fflush(stdout);
	_exit(3);
}

static void report(unsigned int proxies, uint64_t slowest)
{
	size_t i;

	printf("seed %lu: %u proxies, slowest end %lu ms", (unsigned long)shared->seed, proxies, (unsigned long)slowest);
	for (i = 0; i < KINDS; i++)
		printf(", %lu %s", (unsigned long)shared->counts[i], kind_names[i]);
	printf("\nioctls of seed %lu:", (unsigned long)shared->seed);
	for (i = 0; i < COMMANDS; i++)
		printf(" %s %lu", command_names[i], (unsigned long)shared->ioctls[i]);
	printf("\n");
}

static void share_with_all(int fd)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		_exit(117);
}

static void supervise(uint64_t seconds)
{
	uint64_t slowest = 0, end, took;
	unsigned int proxies = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Nobody of this user may stop or trace it. */
	prctl(PR_SET_DUMPABLE, 0);
	for (end = now_ms() + 1000 * seconds; now_ms() < end; proxies++) {
		took = one(200 + below(below(4) ? 2000 : 7000));
		slowest = took > slowest ? took : slowest;
	}
	report(proxies, slowest);
}

static void corrupt(uint64_t seconds)
{
	uint64_t end = now_ms() + 1000 * seconds;

	while (now_ms() < end) {
		spoil_window_of_others();
		usleep(below(20000));
	}
	printf("seed %lu: %lu words in windows of others\n", (unsigned long)shared->seed,
	       (unsigned long)shared->counts[WINDOWS_OF_OTHERS]);
}

int main(int argc, char **argv)
{
	int fd, corrupts = argc == 4 && !strcmp(argv[1], "corrupt");

	if (getenv("HANARE_RESUME")) {
		share_with_all(SHARED_FD);
		folder = getenv("FORGED") ? getenv("FORGED") : "";
		go_on(getenv("HANARE_RESUME"));
	}
	if (argc < 3) {
		fprintf(stderr, "usage: see the head of forged.c\n");
		return 2;
	}
	fd = memfd_create("forged", 0);
	ftruncate(fd, sizeof(*shared));
	dup2(fd, SHARED_FD);
	share_with_all(SHARED_FD);
	shared->seed = atol(argv[2]);
	shared->supervisor = getpid();
	if (!strcmp(argv[1], "serve"))
		return serve_well(argv + 2);
	if (corrupts) {
		shared->seed = atol(argv[3]);
		corrupt(atol(argv[2]));
		return 0;
	}
	folder = argv[3];
	supervise(atol(argv[1]));
	return 0;
}
