/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A proxy in C that serves its program as tools/proxy does, but for terminals and core dumps:
 * attach(), map_around(), write_start(), and execute() for each request of a slot. The program that
 * includes it decides what becomes of the results (worker(), sharer()).
 *
 * It is linked as static-pie: Linux lays it out above the application's addresses, but for its
 * heap, which map_around() leaves out.
 */
#ifndef PROXY_H
#define PROXY_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

#define PAGE 4096UL
#define DEVICE_FD 600

/* What a worker of another process is to do: the tail of clone(2) for a request to share. */
struct sharing {
	uint32_t slot;
	uint64_t flags, pidfd;
	volatile int pid;	/* 0: not made yet */
	char *stack;
};

static unsigned int space;
static char instance[HANARE_NAME_SIZE];
/* What lies among the application's addresses and is this program's own. */
static uint64_t own_start, own_end;
/* The slot that a thread serves, for handlers of signals. */
static __thread uint32_t my_slot;
/* Flags of the start block. */
static uint64_t start_flags;

/* Defined by the including program: a thread, a process that serves a slot; an ioctl. */
static void *worker(void *slot);
static int sharer(void *sharing);
static int call_module(unsigned int command, void *argument);
static void *server(void *own_and_number);

static struct hanare_slot *slot_at(uint32_t slot)
{
	return (struct hanare_slot *)HANARE_SLOT_BASE + slot % HANARE_SLOTS_MAX;
}

static pid_t thread_id(void)
{
	return syscall(SYS_gettid);
}

/* The calling thread serves the slot: the module tells the LWK its id, whatever the slot says. */
static void serve_as_worker(uint32_t slot)
{
	ioctl(DEVICE_FD, HANARE_IOCTL_WORKER, (uint64_t)thread_id() << HANARE_WORKER_SHIFT | slot_at(slot)->bell);
	slot_at(slot)->tid = thread_id();
}

#include "servers.h"

/* ---- becoming a space ---- */

static void find_own(void)
{
	static char text[16384];
	int fd = open("/proc/self/maps", O_RDONLY);
	ssize_t size = 0, more;
	char *line;

	while ((more = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
		size += more;
	close(fd);
	for (line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || start >= HANARE_CONTROL_END)
			continue;
		own_start = own_start ? own_start : start;
		own_end = end;
	}
}

static int map_device(uint64_t start, uint64_t end)
{
	return mmap((void *)start, end - start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		    DEVICE_FD, (off_t)((uint64_t)space << HANARE_SPACE_SHIFT | start)) == MAP_FAILED ? -errno : 0;
}

/* Maps the device over a range, but for what is this program's own. */
static int map_around(uint64_t start, uint64_t end)
{
	int err = 0;

	if (start >= end || start < HANARE_USER_MIN || end > HANARE_CONTROL_END)
		return -EINVAL;
	if (own_start >= end || own_end <= start)
		return map_device(start, end);
	if (start < own_start)
		err = map_device(start, own_start);
	if (!err && end > own_end)
		err = map_device(own_end, end);
	return err;
}

/* Makes a new descriptor of the device the one with the number that is used here. */
static int open_device(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fd != DEVICE_FD) {
		dup3(fd, DEVICE_FD, O_CLOEXEC);
		close(fd);
	}
	return 0;
}

static int attach(struct hanare_attach *how)
{
	if (call_module(HANARE_IOCTL_ATTACH, how))
		return -errno;
	space = how->space;
	memcpy(instance, how->name, sizeof(instance));
	return 0;
}

/* ---- the start block ---- */

static void write_start(char *const *argv, char *const *envp)
{
	struct hanare_start_block block = {
		.magic = HANARE_MAGIC, .version = HANARE_VERSION, .strings_offset = sizeof(block),
		.control_fd = DEVICE_FD, .stack_soft = 8 << 20, .stack_hard = ~0ULL,
		.as_soft = ~0ULL, .data_soft = ~0ULL, .hwcap = getauxval(AT_HWCAP),
		.hwcap2 = getauxval(AT_HWCAP2), .clktck = 100, .cpu_soft = ~0ULL, .cpu_hard = ~0ULL,
		.flags = start_flags,
	};
	char *at = (char *)HANARE_START_BASE + sizeof(block);
	char *const *list[] = { (char *const []){ argv[0], NULL }, argv, envp };
	uint32_t counts[3] = { 0 };
	int i;

	for (i = 0; i < 3; i++)
		for (; list[i][counts[i]]; counts[i]++)
			at = stpcpy(at, list[i][counts[i]]) + 1;
	block.argc = counts[1];
	block.envc = counts[2];
	block.total_size = at - (char *)HANARE_START_BASE;
	syscall(SYS_getrandom, block.random, sizeof(block.random), 0);
	memcpy((void *)HANARE_START_BASE, &block, sizeof(block));
}

/* ---- threads and processes ---- */

static long start_thread(void *(*what)(void *), void *argument)
{
	pthread_attr_t small;
	pthread_t thread;
	int err;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &small, what, argument);
	return -err;
}

/* A thread that says its id itself (in its slot). Result of a request for one. */
static long start_of(uint32_t slot, void *(*what)(void *), uintptr_t argument)
{
	struct hanare_slot *s = slot_at(slot);
	int looks;
	long err;

	s->tid = 0;
	err = start_thread(what, (void *)argument);
	for (looks = 0; !err && looks < 2000; looks++) {
		if (__atomic_load_n(&s->tid, __ATOMIC_ACQUIRE))
			return s->tid;
		usleep(500);
	}
	return err ? err : -EAGAIN;
}

static long start_worker(uint32_t slot)
{
	return start_of(slot, worker, slot);
}

static long start_server(uint32_t slot, uint32_t number)
{
	return number < HANARE_ALL_SERVERS ? start_of(slot, server, (uintptr_t)number << 32 | slot) : -EINVAL;
}

/* The thread whose thread-local data a process with the same memory uses: it waits for its end. */
static void *carry(void *argument)
{
	struct sharing *how = argument;
	siginfo_t info;
	int pid;

	pid = clone(sharer, how->stack + (128 << 10), CLONE_VM | (how->flags & ~(uint64_t)(CLONE_VFORK | CLONE_SETTLS)),
		    how, &how->pidfd);
	how->pid = pid < 0 ? -errno : pid;
	/*
	 * The program waits for it. A process that is no child of this one (CLONE_PARENT) may still
	 * use the data.
	 */
	if (pid < 0 || !waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL))
		return NULL;
	for (;;)
		pause();
	return NULL;
}

static long share(uint32_t slot, uint64_t flags, uint64_t pidfd)
{
	char *stack = mmap(NULL, 132 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sharing *how = (void *)(stack + (128 << 10));
	int looks;
	long err;

	if (stack == MAP_FAILED)
		return -ENOMEM;
	*how = (struct sharing){ slot, flags, pidfd, 0, stack };
	err = start_thread(carry, how);
	for (looks = 0; !err && !how->pid && looks < 2000; looks++)
		usleep(500);
	if (!err && how->pid > 0 && flags & CLONE_PIDFD && pidfd)
		*(int *)pidfd = how->pidfd;
	return err ? err : how->pid ? how->pid : -EAGAIN;
}

/* Becomes the child with this token; the caller serves slot 0 of it from then on. */
static int become_child(struct hanare_child *child)
{
	int err;

	child->parent = space;
	if (call_module(HANARE_IOCTL_CHILD, child))
		return -errno;
	space = child->space;
	memset(servers, 0, sizeof(servers));
	err = map_around(child->parts ? HANARE_USER_MIN : HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	my_slot = 0;
	return err;
}

#define EXIT_SIGNAL 0x7fULL

/* A request to fork: the result, or 1 with `*is_child` set: there is a slot to serve. */
static long fork_for(const uint64_t *args, int *is_child)
{
	uint64_t clone_args[11] = {
		args[1] & ~EXIT_SIGNAL, args[2], 0, 0, args[1] & EXIT_SIGNAL, 0, 0, 0, args[3], args[4], args[5],
	};
	struct hanare_child child = { .token = args[0], .shares_table = !!(args[1] & CLONE_FILES) };
	long pid = syscall(SYS_clone3, clone_args, sizeof(clone_args));

	if (pid)
		return pid < 0 ? -errno : pid;
	if (become_child(&child))
		_exit(125);
	*is_child = 1;
	return 0;
}

/* ---- signals ---- */

static void forward(int number, siginfo_t *info, void *context)
{
	struct hanare_signal said = { .signal = number, .slot = my_slot };
	int saved = errno;

	(void)context;
	memcpy(said.info, info, sizeof(said.info));
	if (!call_module(HANARE_IOCTL_SIGNAL, &said))
		interrupt_boxed(my_slot);
	errno = saved;
}

/* Not those by which this program itself goes on. */
static int is_kept(uint64_t number)
{
	return number < 1 || number > 64 || number == SIGKILL || number == SIGSTOP || number == SIGSEGV ||
	       number == SIGBUS || number == SIGUSR1;
}

static long mirror(uint64_t number, uint64_t how)
{
	struct sigaction action = { .sa_handler = how == HANARE_MIRROR_IGNORE ? SIG_IGN : SIG_DFL };

	if (is_kept(number))
		return 0;
	if (how == HANARE_MIRROR_FORWARD) {
		action.sa_sigaction = forward;
		action.sa_flags = SA_SIGINFO;
	}
	sigaction(number, &action, NULL);
	return 0;
}

static void apply_mask(uint64_t mask)
{
	static __thread uint64_t applied;

	mask &= ~(1ULL << (SIGSEGV - 1) | 1ULL << (SIGBUS - 1) | 1ULL << (SIGUSR1 - 1));
	if (mask != applied)
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
	applied = mask;
}

static void end_by(uint64_t number)
{
	signal(number, SIG_DFL);
	apply_mask(0);
	syscall(SYS_kill, getpid(), number);
	_exit(124);
}

/* ---- requests ---- */

/* Signals reach only the session that they come from, and never the one above it. */
static int may_send(long pid)
{
	if (pid == 0)
		return 1;
	return pid != -1 && syscall(SYS_getsid, pid < 0 ? -pid : pid) == syscall(SYS_getsid, 0);
}

static long linux_call(uint32_t nr, const uint64_t *args)
{
	long result;

	switch (nr) {
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_ptrace:
	case SYS_pidfd_open:
	case SYS_prlimit64:
		if (!may_send((int)args[nr == SYS_ptrace]))
			return -EPERM;
		break;
	}
	result = syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	return result < 0 ? -errno : result;
}

static long execed(const uint64_t *args)
{
	struct hanare_execed said = { .file = args[1] };
	const uint64_t *words = (void *)args[2];

	if (words) {
		said.arg_start = words[7];
		said.arg_end = words[8];
		said.env_start = words[9];
		said.env_end = words[10];
	}
	call_module(HANARE_IOCTL_EXECED, &said);
	return 0;
}

static long rights(uint64_t random)
{
	struct hanare_rights got = { 0 };

	if (random)
		syscall(SYS_getrandom, random, HANARE_RANDOM_BYTES, 0);
	if (call_module(HANARE_IOCTL_RIGHTS, &got))
		return -errno;
	return got.changed | got.secure << 1;
}

/* `more`: what the next image needs besides. */
static long exec_for(const uint64_t *args, const char *more)
{
	char option[256], name[64];
	char *const envp[] = { option, name, (char *)more, NULL };
	char *const alone[] = { (char *)args[2], NULL };

	snprintf(option, sizeof(option), "HANARE_RESUME=%lu:%d:%u:%u:%u", (unsigned long)args[0], DEVICE_FD, space,
		 (uint32_t)args[4], (uint32_t)(args[4] >> 32));
	snprintf(name, sizeof(name), "HANARE_INSTANCE=%s", instance);
	fcntl(DEVICE_FD, F_SETFD, 0);
	syscall(SYS_execveat, args[1], args[2], args[5] ? (char *const *)args[5] : alone, envp, args[3]);
	return -errno;
}

/* In the image that exec_for() has loaded: the new space. */
static int resume(const char *option)
{
	struct hanare_child child = { .program = 1, .secure = getauxval(AT_SECURE) != 0 };
	unsigned long token;
	unsigned int left, files[2];
	int fd;

	if (sscanf(option, "%lu:%d:%u:%u:%u", &token, &fd, &left, &files[0], &files[1]) != 5 || fd != DEVICE_FD)
		return -EINVAL;
	child.token = token;
	child.files[0] = files[0];
	child.files[1] = files[1];
	child.parent = left;
	if (call_module(HANARE_IOCTL_CHILD, &child))
		return -errno;
	space = child.space;
	strncpy(instance, getenv("HANARE_INSTANCE") ? getenv("HANARE_INSTANCE") : "", sizeof(instance) - 1);
	return map_around(HANARE_USER_MIN, HANARE_CONTROL_END);
}

/* What becomes of the worker after a request. */
enum after { ANSWERS, IS_CHILD, ENDS };

/* `is_call`: a system call; else a control request. */
static enum after execute(uint32_t slot, int is_call, uint32_t nr, const uint64_t *args, const char *more,
			  long *result)
{
	struct hanare_serve serve = { .index = args[0] };
	struct hanare_succeed succeed = { .tid = args[0] };
	int is_child = 0, ignored;

	*result = 0;
	if (is_call) {
		*result = linux_call(nr, args);
		return ANSWERS;
	}
	switch (nr) {
	case HANARE_CONTROL_SERVE:
		*result = call_module(HANARE_IOCTL_SERVE, &serve) ? -errno : 0;
		break;
	case HANARE_CONTROL_EXIT_SIGNAL:
		end_by(args[0]);
		break;
	case HANARE_CONTROL_START_FAILED:
		_exit(126);
	case HANARE_CONTROL_SIGNAL_ACTION:
		for (ignored = 0; ignored < 64; ignored++)
			if (args[3] >> ignored & 1)
				mirror(ignored + 1, HANARE_MIRROR_IGNORE);
		*result = mirror(args[0], args[1]);
		break;
	case HANARE_CONTROL_EXECED:
		*result = execed(args);
		break;
	case HANARE_CONTROL_RIGHTS:
		*result = rights(args[0]);
		break;
	case HANARE_CONTROL_SUCCEED:
		*result = call_module(HANARE_IOCTL_SUCCEED, &succeed) ? -errno : 0;
		break;
	case HANARE_CONTROL_REMAP:
		*result = map_around(args[0], args[1]);
		break;
	case HANARE_CONTROL_THREAD:
		*result = start_worker(args[0]);
		break;
	case HANARE_CONTROL_SERVER:
		*result = start_server(args[0], args[1]);
		break;
	case HANARE_CONTROL_THREAD_RENEW:
		start_thread(worker, (void *)(uintptr_t)(slot | 1ULL << 32));
		if (args[0])
			start_thread(worker, (void *)(uintptr_t)(args[0] | 1ULL << 32));
		return ENDS;
	case HANARE_CONTROL_THREAD_EXIT:
		slot_at(slot)->tid = 0;
		return ENDS;
	case HANARE_CONTROL_SHARE:
		*result = share(args[0], args[1], args[2]);
		break;
	case HANARE_CONTROL_FORK:
		*result = fork_for(args, &is_child);
		return is_child ? IS_CHILD : ANSWERS;
	case HANARE_CONTROL_EXEC:
		*result = exec_for(args, more);
		break;
	case HANARE_CONTROL_INTERRUPT:
		*result = syscall(SYS_tgkill, getpid(), args[0], SIGUSR1) ? -errno : 0;
		break;
	case HANARE_CONTROL_DUMP_THREAD:
		*result = call_module(HANARE_IOCTL_DUMP_THREAD, (void *)args[0]) ? -errno : 0;
		break;
	case HANARE_CONTROL_DUMP:
	case HANARE_CONTROL_DUMP_RANGE:
	case HANARE_CONTROL_STOP_SIGNAL:
	case HANARE_CONTROL_REQUEUE_SIGNAL:
	case HANARE_CONTROL_TRAP:
	case HANARE_CONTROL_FILTER:
	case HANARE_CONTROL_TAKE_MASK:
		break;
	case HANARE_CONTROL_MAP_PART: /* all is mapped but messages */
		if (args[0] == HANARE_MESSAGES_PART)
			*result = map_device(HANARE_MESSAGES_BASE, HANARE_MESSAGES_END);
		break;
	default:
		*result = -ENOSYS;
	}
	return ANSWERS;
}

#endif
