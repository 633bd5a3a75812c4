// SPDX-License-Identifier: GPL-2.0
/*
 * What a user may try against the other users of an instance. Needs a running one:
 *   stranger NAME ring N       a forged proxy rings other CPUs and bells, N times
 *   stranger NAME own-ring N   a proxy in which a thread sleeps rings that thread's bell, N times
 *   stranger NAME hold FILE    threads wait for pages of a file, and their workers are stopped
 *   stranger NAME crowd FILE   likewise; then the first thread wants one, and SIGTERM comes
 *   stranger NAME ask N CPU    reads a line; then N threads of a forged proxy ask a CPU over and
 *                              over
 *   stranger NAME spaces N     N forged proxies with a space each
 *   stranger NAME keep N       as root: N threads ask over and over for what takes a CPU of the LWK
 *                              1 ms
 *   stranger NAME look         asks over and over for the instance's state and ends
 *   stranger NAME outlive N    observes N processes of its own until others may have their spaces'
 *                              ids; reads a line; then says what it gets by its descriptors
 *   stranger NAME answers      looks for what others have left in the device's answers
 *   stranger - readers FILE    on the LWK: threads that read a page each when they are told
 *   stranger - sleep           on the LWK: sleeps in a call of Linux'
 *   stranger - barriers N      on the LWK: N barriers for all processes
 *   stranger - rounds N M      on the LWK: N processes, each a child of the one before, with M
 *                              threads that have ended; says how many threads it got
 *   stranger - count MS        on the LWK: computes for so long, and says how far it came
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define READERS 64
/* Beyond what is read with one page. */
#define APART (1 << 20)

static const char *name, *self;

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* `cpu`: of Linux' numbers, the only one where the space is; -1: all. */
static int attach_on(int cpu)
{
	struct hanare_attach attach = {};
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(fd >= 0, "/dev/hanare");
	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	attach.fd = fd;
	if (cpu >= 0)
		attach.cpus.words[cpu / 64] = 1UL << cpu % 64;
	need(!ioctl(fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	return fd;
}

static int attach(void)
{
	return attach_on(-1);
}

/* ---- bells ---- */

static void ring(int times)
{
	int fd = attach(), i;

	for (i = 0; i < times; i++)
		ioctl(fd, HANARE_IOCTL_RING, (unsigned long)(i % 64));
	say("rung");
}

/* Starts a program on the LWK; what it says comes from the descriptor. */
static pid_t start(int *from, const char *what, const char *argument)
{
	int said[2], silence[2];
	pid_t pid;

	need(!pipe(said) && !pipe(silence), "pipe");
	pid = fork();
	if (!pid) {
		dup2(silence[0], 0);
		dup2(said[1], 1);
		execlp("hanare", "hanare", "run", "--on", name, "--", self, "-", what, argument, NULL);
		need(0, "hanare");
	}
	close(said[1]);
	*from = said[0];
	return pid;
}

/* The program's word when it is ready: an address. */
static unsigned long ready(int from)
{
	char line[64] = "";
	unsigned long at = 0;
	size_t have = 0;

	while (have < sizeof(line) - 1 && !strchr(line, '\n') &&
	       read(from, line + have, 1) == 1)
		have++;
	need(sscanf(line, "ready %lx", &at) == 1, "the program does not begin");
	return at;
}

static void stop_task(pid_t tid)
{
	int status;

	need(!ptrace(PTRACE_SEIZE, tid, 0, 0), "seize");
	need(!ptrace(PTRACE_INTERRUPT, tid, 0, 0), "interrupt");
	need(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status), "stop");
}

/* Stops the tasks of a proxy, all or all but the first one. */
static void stop_tasks(pid_t pid, int all)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	need(tasks != NULL, path);
	while ((entry = readdir(tasks)))
		if (entry->d_name[0] != '.' && (all || atoi(entry->d_name) != pid))
			stop_task(atoi(entry->d_name));
	closedir(tasks);
}

static int device_of(pid_t pid)
{
	char path[64], to[64];
	struct dirent *entry;
	int fd = -1;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	files = opendir(path);
	need(files != NULL, path);
	while (fd < 0 && (entry = readdir(files))) {
		ssize_t size = readlinkat(dirfd(files), entry->d_name, to, sizeof(to) - 1);

		if (size > 0 && !strncmp(to, "/dev/hanare", size))
			fd = atoi(entry->d_name);
	}
	closedir(files);
	need(fd >= 0, "no device");
	return fd;
}

static void own_ring(int times)
{
	struct user_regs_struct regs, call;
	int from, status, i;
	pid_t pid = start(&from, "sleep", NULL);

	ready(from);
	sleep(2); /* until it sleeps on both sides */
	stop_task(pid);
	need(!ptrace(PTRACE_GETREGS, pid, 0, &regs), "registers");
	while ((long)regs.orig_rax < 0) { /* it is in no call yet */
		need(!ptrace(PTRACE_CONT, pid, 0, 0), "continue");
		usleep(100000);
		need(!ptrace(PTRACE_INTERRUPT, pid, 0, 0), "interrupt");
		need(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "stop");
		need(!ptrace(PTRACE_GETREGS, pid, 0, &regs), "registers");
	}
	call = regs;
	call.rip -= 2; /* the instruction `syscall`, by which it sleeps */
	call.orig_rax = -1;
	call.rdi = device_of(pid);
	call.rsi = HANARE_IOCTL_RING;
	for (i = 0; i < times; i++) {
		call.rax = SYS_ioctl;
		call.rdx = i % 8;
		need(!ptrace(PTRACE_SETREGS, pid, 0, &call), "set");
		need(!ptrace(PTRACE_SINGLESTEP, pid, 0, 0), "step");
		need(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "stepped");
	}
	say("rung");
	kill(pid, SIGKILL);
}

static void sleep_for_ever(void)
{
	char byte;

	printf("ready 1\n");
	fflush(stdout);
	read(0, &byte, 1);
}

/* ---- services ---- */

/* Set from Linux. */
static volatile long told_readers, told_first;
static char *file;

static void wait_for(volatile long *told)
{
	struct timespec while_ms = { .tv_nsec = 50000000 };

	/* A futex: the LWK serves it without Linux. */
	while (!*told)
		syscall(SYS_futex, told, FUTEX_WAIT_PRIVATE, 0, &while_ms, NULL, 0);
}

static void *reader(void *number)
{
	wait_for(&told_readers);
	*(volatile char *)(file + (long)number * APART);
	for (;;)
		syscall(SYS_futex, &told_readers, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	return NULL;
}

static void readers(const char *path)
{
	int fd = open(path, O_RDONLY);
	pthread_t thread;
	long i;

	file = mmap(NULL, (READERS + 1L) * APART, PROT_READ, MAP_PRIVATE, fd, 0);
	need(file != MAP_FAILED, path);
	for (i = 0; i < READERS; i++)
		need(!pthread_create(&thread, NULL, reader, (void *)i), "thread");
	printf("ready 1\n");
	fflush(stdout);
	wait_for(&told_first);
	*(volatile char *)(file + i * APART);
	for (;;)
		syscall(SYS_futex, &told_readers, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

/* The program is this one, static, so the word has the same address. */
static void tell(pid_t stopped, volatile long *what)
{
	char path[64];
	long one = 1;
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", stopped);
	memory = open(path, O_RDWR);
	need(memory >= 0 && pwrite(memory, &one, sizeof(one), (long)what) == sizeof(one), path);
	close(memory);
}

static pid_t hold(const char *path, int all)
{
	int from;
	pid_t pid = start(&from, "readers", path);

	ready(from);
	stop_tasks(pid, all);
	tell(pid, &told_readers);
	sleep(3);
	return pid;
}

static void crowd(const char *path)
{
	pid_t pid = hold(path, 0), ended;
	int status;

	tell(pid, &told_first);
	sleep(2);
	kill(pid, SIGTERM);
	alarm(200);
	/* Stopped threads are to be waited for, too. */
	while ((ended = waitpid(-1, &status, __WALL)) != pid || WIFSTOPPED(status))
		need(ended > 0, "wait");
	printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

#include "outlive.h"

/* ---- requests ---- */

static int asked_fd;

/* What is asked of the space's own CPU, whatever others are at. */
static void *asker(void *unused)
{
	for (;;)
		ioctl(asked_fd, HANARE_IOCTL_START, 0);
	return unused;
}

static void *keeper(void *unused)
{
	for (;;) {
		struct hanare_debug hang = { .op = HANARE_DEBUG_HANG, .args = { 1 } };

		strncpy((char *)hang.name, name, sizeof(hang.name) - 1);
		need(!ioctl(asked_fd, HANARE_IOCTL_DEBUG, &hang), "debug");
	}
	return unused;
}

/* A descriptor with a space asks what its programs may; one without it commands the instance. */
static void ask(int count, void *(*what)(void *), int fd)
{
	pthread_attr_t small;
	pthread_t thread;

	asked_fd = fd;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	while (count--)
		need(!pthread_create(&thread, &small, what, NULL), "thread");
	say("asking");
	for (;;)
		pause();
}

/* They end with their session. */
static void spaces(int count)
{
	int said[2];
	char byte;

	need(!pipe(said), "pipe");
	for (int i = 0; i < count; i++)
		if (!fork()) {
			attach();
			need(write(said[1], "", 1) == 1, "write");
			for (;;)
				pause();
		}
	for (int i = 0; i < count; i++)
		need(read(said[0], &byte, 1) == 1, "read");
	say("there");
	for (;;)
		pause();
}

/* ---- answers ---- */

/* The complement of the word that `canary plant` has everywhere (tests/guest/canary.c). */
#define COMPLEMENT 0xa53c0ff1ce0ddba1UL

static void show_answer(const char *what, const void *answer, size_t bytes)
{
	unsigned long word, count = 0;

	for (size_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, (const char *)answer + at, sizeof(word));
		count += ~word == COMPLEMENT;
	}
	printf("%s: %s\n", what, count ? "found" : "clean");
}

/* What the device answers, with what is between its fields and behind what is told. */
#define ANSWER(fd, number, argument) do {					\
	ioctl(fd, HANARE_IOCTL_##number, &(argument));				\
	show_answer(#number, &(argument), sizeof(argument));			\
} while (0)

static void answers(void)
{
	static struct hanare_info info;
	static struct hanare_status status;
	static struct hanare_process_status process;
	static struct hanare_threads threads;
	static struct hanare_log lines;
	struct hanare_usage usage = {};
	struct hanare_opened opened = {};
	struct hanare_rights rights = {};
	int manager = open("/dev/hanare", O_RDWR | O_CLOEXEC), own;

	need(manager >= 0, "/dev/hanare");
	strcpy((char *)status.name, name);
	strcpy((char *)process.name, name);
	strcpy((char *)threads.name, name);
	strcpy((char *)lines.name, name);
	ANSWER(manager, INFO, info);
	ANSWER(manager, STATUS, status);
	ANSWER(manager, LOG, lines);
	ANSWER(manager, PROCESS, process);
	threads.space = process.after;
	ANSWER(manager, THREADS, threads);
	own = attach();
	ANSWER(own, USAGE, usage);
	ANSWER(own, OPENED, opened);
	ANSWER(own, RIGHTS, rights);
}

/* ---- computing ---- */

static void count(int ms)
{
	struct timespec now;
	volatile unsigned long steps = 0;
	long end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
	do {
		for (int i = 0; i < 1000; i++)
			steps++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
	printf("%lu\n", steps);
}

/* ---- of all processes ---- */

static void barriers(int times)
{
	while (times--)
		need(!syscall(SYS_membarrier, 1 /* GLOBAL */, 0, 0), "membarrier");
	say("done");
}

/* ---- threads that were ---- */

static void *passing(void *all)
{
	pthread_barrier_wait(all);
	return NULL;
}

/* Returns how many there were. */
static int threads(int count)
{
	pthread_barrier_t all;
	pthread_attr_t small;
	pthread_t thread[1024];
	int made = 0, i;

	need(count < 1024, "threads");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	/* All at once: one that has ended would leave its place to the next. */
	pthread_barrier_init(&all, NULL, count + 1);
	while (made < count && !pthread_create(&thread[made], &small, passing, &all))
		made++;
	if (made < count)
		return made; /* the rest of them wait for ever */
	pthread_barrier_wait(&all);
	for (i = 0; i < made; i++)
		pthread_join(thread[i], NULL);
	return made;
}

static void rounds(int count, int each)
{
	int sum = 0, made = each;

	while (count-- && made == each) {
		made = threads(each);
		sum += made;
		if (made == each) {
			pid_t child = fork();

			/* The user may have no memory left for one: then it says so itself. */
			if (child && (child < 0 || waitpid(child, NULL, 0) == child))
				break;
		}
	}
	printf("%d\n", sum);
	fflush(stdout);
	for (;;)
		pause();
}

/* Whether there is such an instance or not. */
static void look(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(fd >= 0, "/dev/hanare");
	say("there");
	for (;;) {
		struct hanare_end_status end = {};
		struct hanare_status status = { .ping = 1 };

		strncpy((char *)end.name, name, sizeof(end.name) - 1);
		strncpy((char *)status.name, name, sizeof(status.name) - 1);
		ioctl(fd, HANARE_IOCTL_END, &end);
		ioctl(fd, HANARE_IOCTL_STATUS, &status);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "", *how = argc > 3 ? argv[3] : "";

	self = argv[0];
	name = argv[1];
	if (!strcmp(what, "ring"))
		return ring(atoi(how)), 0;
	if (!strcmp(what, "own-ring"))
		return own_ring(atoi(how)), 0;
	if (!strcmp(what, "sleep"))
		return sleep_for_ever(), 0;
	if (!strcmp(what, "readers"))
		return readers(how), 0;
	if (!strcmp(what, "count"))
		return count(atoi(how)), 0;
	if (!strcmp(what, "barriers"))
		return barriers(atoi(how)), 0;
	if (!strcmp(what, "rounds") && argc > 4)
		return rounds(atoi(how), atoi(argv[4])), 0;
	if (!strcmp(what, "hold"))
		return hold(how, 1), say("held"), pause();
	if (!strcmp(what, "crowd"))
		return crowd(how), 0;
	if (!strcmp(what, "ask") && argc > 4) {
		int fd = attach_on(atoi(argv[4]));

		say("there");
		need(getchar() == '\n', "a line");
		return ask(atoi(how), asker, fd), 0;
	}
	if (!strcmp(what, "answers"))
		return answers(), 0;
	if (!strcmp(what, "look"))
		return look(), 0;
	if (!strcmp(what, "outlive"))
		return outlive(atoi(how)), 0;
	if (!strcmp(what, "spaces"))
		return spaces(atoi(how)), 0;
	if (!strcmp(what, "keep"))
		return ask(atoi(how), keeper, open("/dev/hanare", O_RDWR | O_CLOEXEC)), 0;
	fprintf(stderr, "usage: see the head of stranger.c\n");
	return 2;
}
