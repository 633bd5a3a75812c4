// SPDX-License-Identifier: GPL-2.0
/*
 * A proxy that its program has taken over: what it may do to Linux, to others, and to a caller that
 * shuts its instance down. Needs a running instance:
 *   hostile NAME kept      a child keeps the descriptor of a process that is gone
 *   hostile NAME shared    another process keeps its memory map; runs until it is killed
 *   hostile NAME stuck     asks for the status, to memory that waits for ever
 *   hostile NAME copied    children have its mapping; they fault until they are killed
 *   hostile NAME moved     a mapping elsewhere, written to from Linux
 *   hostile NAME memory    a file that shows its memory outlives a real execve
 *   hostile NAME rights    root without capabilities asks for them under a filter of Linux'
 *   hostile NAME cycle     the space keeps a socket that has its descriptor in a message
 *   hostile PID unmapped   has the proxy PID unmap all of its space and close the descriptor
 *   hostile - map          on the LWK: maps descriptor 0 over and over
 *   hostile - written      on the LWK: a thread has Linux read a page of descriptor 3's mapping
 *   hostile - slow         on the LWK: a thread waits for a page of descriptor 3; what is new is
 *                          zero
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

#define PAGE 4096
#define CHILDREN 4

static const char *name, *self;
/* At the same address whenever this program runs: it is static. */
static char text[64] __attribute__((aligned(PAGE)));

static void need(int holds, const char *what)
{
	if (holds)
		return;
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	kill(0, SIGKILL);
}

static int device(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(fd >= 0, "/dev/hanare");
	return fd;
}

static int attach(unsigned int *space)
{
	struct hanare_attach attach = {};
	int fd = device();

	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	attach.fd = fd;
	need(!ioctl(fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	*space = attach.space;
	return fd;
}

static char *map(int fd, unsigned int space)
{
	char *at = mmap((void *)(HANARE_SCRATCH_END - PAGE), PAGE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
			(off_t)space << HANARE_SPACE_SHIFT | (HANARE_SCRATCH_END - PAGE));

	need(at != MAP_FAILED, "mmap");
	return at;
}

static int spaces(void)
{
	struct hanare_status status = {};
	int fd = device();

	strncpy((char *)status.name, name, sizeof(status.name) - 1);
	need(!ioctl(fd, HANARE_IOCTL_STATUS, &status), "status");
	close(fd);
	return status.spaces;
}

static int wait_for_spaces(int wanted)
{
	int i;

	for (i = 0; i < 20000 && spaces() != wanted; i++)
		usleep(10000);
	return spaces() == wanted;
}

/* ---- kept, shared ---- */

static void kept(void)
{
	unsigned int space;
	pid_t pid = fork();

	if (!pid) {
		int fd = attach(&space);

		if (!fork())
			pause();
		close(fd);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	need(wait_for_spaces(0), "the space does not end with its process");
	printf("ended\n");
}

static int use(void *unused)
{
	for (;;)
		pause();
	return 0;
}

static void shared(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	unsigned int space;
	pid_t pid = fork();

	if (!pid) {
		attach(&space);
		need(clone(use, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) > 0, "clone");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	need(spaces() == 1, "a space of a memory map in use has ended");
	printf("ready\n");
	fflush(stdout);
	pause();
}

/* ---- stuck ---- */

static void stuck(void)
{
	struct hanare_status status = { .cpu_count = 1 };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffd_msg message;
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fault = syscall(SYS_userfaultfd, O_CLOEXEC), fd = device();

	range.range.start = status.cpus = (unsigned long)at;
	range.range.len = PAGE;
	need(!ioctl(fault, UFFDIO_API, &api) && !ioctl(fault, UFFDIO_REGISTER, &range), "userfaultfd");
	strncpy((char *)status.name, name, sizeof(status.name) - 1);
	/* The map that is watched is this process'; a child's is not. */
	if (!fork()) {
		need(read(fault, &message, sizeof(message)) == sizeof(message), "no fault");
		printf("ready\n");
		fflush(stdout);
		pause();
	}
	ioctl(fd, HANARE_IOCTL_STATUS, &status);
}

/* ---- copied, moved ---- */

static sigjmp_buf back;

static void faulted(int number)
{
	siglongjmp(back, number);
}

/* Whether it can be read; not from what is mapped already. */
static int readable(char *at)
{
	madvise(at, PAGE, MADV_DONTNEED);
	if (sigsetjmp(back, 1))
		return 0;
	*(volatile char *)at;
	return 1;
}

static void copied(void)
{
	int told[2], i, byte = 0;
	unsigned int space;
	char *at;
	pid_t pid;

	need(!pipe(told), "pipe");
	signal(SIGBUS, faulted);
	pid = fork();
	if (!pid) {
		int fd = attach(&space);

		at = map(fd, space);
		need(readable(at), "own memory is not there");
		need(!madvise(at, PAGE, MADV_DOFORK), "madvise");
		for (i = 0; i < CHILDREN; i++) {
			if (fork())
				continue;
			close(fd);
			need(!readable(at), "a child reads the space");
			write(told[1], "r", 1);
			for (;;)
				readable(at);
		}
		pause();
	}
	for (i = 0; i < CHILDREN; i++)
		read(told[0], &byte, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	need(wait_for_spaces(0), "the space does not end");
	printf("ready\n");
	fflush(stdout);
	pause();
}

/* A page that is there for reading only, elsewhere: a write has Linux ask for it. */
static void moved(void)
{
	unsigned int space;
	int fd = attach(&space), zero = open("/dev/zero", O_RDONLY);
	char *at = map(fd, space), *to = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	signal(SIGBUS, faulted);
	need(readable(at), "own memory is not there");
	need(!mprotect(at, PAGE, PROT_READ) && !mprotect(at, PAGE, PROT_READ | PROT_WRITE), "mprotect");
	need(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
	alarm(100);
	need(read(zero, to, 1) == -1 && errno == EFAULT, "what was moved is not gone");
	printf("ended\n");
}

/* ---- memory ---- */

static int shown(int fd)
{
	char buffer[sizeof(text)] = "";

	return pread(fd, buffer, sizeof(buffer) - 1, 0) > 0 ? buffer[0] : 0;
}

static void memory(void)
{
	struct hanare_execed execed = {
		.env_start = (unsigned long)text, .env_end = (unsigned long)text + sizeof(text),
	};
	struct hanare_opened opened = { .replace = 1 };
	unsigned int space;
	int ready[2], fd, byte;
	pid_t pid = fork();

	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	fd = attach(&space);
	need(!ioctl(fd, HANARE_IOCTL_EXECED, &execed), "execed");
	opened.fd = open("/proc/self/environ", O_RDONLY);
	need(!ioctl(fd, HANARE_IOCTL_OPENED, &opened) && opened.shows == 1, "opened");
	need(!pipe(ready), "pipe");
	text[0] = 'm';
	need(shown(opened.fd) == 'm', "own memory is not shown");
	pid = getpid();
	if (fork()) {
		dup2(ready[1], 1);
		execl(self, self, "-", "secret", NULL);
		need(0, "execl");
	}
	close(ready[1]);
	need(read(ready[0], &byte, 1) == 1, "the program with the secret does not run");
	need(shown(opened.fd) != 's', "another program's memory is shown");
	printf("ended\n");
	fflush(stdout);
	kill(pid, SIGKILL);
}

static void secret(void)
{
	text[0] = 's';
	write(1, "r", 1);
	for (;;)
		pause();
}

/* ---- rights ---- */

/*
 * Keeps those of its capabilities only, of which the call that stands for execve gives root none
 * back.
 */
static void lowers(int fd, unsigned int effective, unsigned int permitted)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct sets[2] = { { effective, permitted, 0 } };
	struct hanare_rights rights = {};

	need(!syscall(SYS_capset, &header, sets), "capset");
	need(ioctl(fd, HANARE_IOCTL_RIGHTS, &rights) && errno == EAGAIN, "root gets rights without an execve of Linux'");
	rights.keeps = 1;
	need(!ioctl(fd, HANARE_IOCTL_RIGHTS, &rights), "rights");
	need(!syscall(SYS_capget, &header, sets), "capget");
	need(sets[0].effective == effective && sets[0].permitted == permitted && !sets[1].permitted, "a capability is back");
	rights.keeps = 2;
	need(ioctl(fd, HANARE_IOCTL_RIGHTS, &rights) && errno == EINVAL, "what does not exist is asked for");
}

static void rights(void)
{
	unsigned int space;
	int fd = attach(&space);

	lowers(fd, 1 << CAP_CHOWN, 1 << CAP_CHOWN | 1 << CAP_KILL);
	lowers(fd, 0, 1 << CAP_KILL);
	lowers(fd, 0, 0);
	printf("ended\n");
}

/* ---- cycle ---- */

static void send_descriptor(int to, pid_t pid, int number)
{
	char space[CMSG_SPACE(sizeof(int))] = "", byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int handle = syscall(SYS_pidfd_open, pid, 0);
	int copy = syscall(SYS_pidfd_getfd, handle, number, 0);

	need(copy >= 0, "pidfd_getfd");
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &copy, sizeof(copy));
	need(sendmsg(to, &message, 0) == 1, "sendmsg");
	close(copy);
	close(handle);
}

/* Stops all threads of a proxy; it goes on by system calls. */
static void trace(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	need(tasks != NULL, path);
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		need(!ptrace(PTRACE_SEIZE, atoi(entry->d_name), 0, PTRACE_O_TRACESYSGOOD), "seize");
		need(!ptrace(PTRACE_INTERRUPT, atoi(entry->d_name), 0, 0), "interrupt");
	}
	closedir(tasks);
}

/* The program maps a socket; the proxy has taken it for the LWK, and dies before it says so. */
static void cycle(void)
{
	int pair[2], said[2], begun = 0;
	char byte;
	pid_t pid;

	need(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) && !pipe(said), "socketpair");
	pid = fork();
	if (!pid) {
		dup2(pair[1], 0);
		dup2(said[1], 1);
		close(pair[0]);
		close(pair[1]);
		execlp("hanare", "hanare", "run", "--on", name, "--", self, "-", "map", NULL);
		need(0, "hanare");
	}
	close(pair[1]);
	need(read(said[0], &byte, 1) == 1, "the program does not begin");
	trace(pid);
	for (;;) {
		struct user_regs_struct regs;
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		need(tid > 0, "waitpid");
		if (WIFSIGNALED(status))
			break;
		if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) &&
		    !ptrace(PTRACE_GETREGS, tid, 0, &regs) && regs.orig_rax == SYS_ioctl &&
		    (unsigned int)regs.rsi == HANARE_IOCTL_SERVE) {
			if (begun && (long)regs.rax == 0)
				kill(pid, SIGKILL);
			else if (!begun++)
				send_descriptor(pair[0], pid, regs.rdi);
		}
		ptrace(PTRACE_SYSCALL, tid, 0, 0);
	}
	close(pair[0]);
	printf("ended\n");
}

/* On the LWK. By turns by two descriptors: the last one is known. */
static void map_over_and_over(void)
{
	int other = dup(0);

	printf("ready\n");
	fflush(stdout);
	for (;;) {
		mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 0, 0);
		mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, other, 0);
	}
}

/* ---- slow ---- */

static volatile char *slow_file;
static volatile int slow_byte;

static int touch(void *unused)
{
	slow_byte = *slow_file;
	for (;;)
		syscall(SYS_nanosleep, &(struct timespec){ .tv_sec = 1000 }, NULL);
	return 0;
}

/* The first line is read when memory is to be taken, the second when it is to be looked at. */
static void slow(void)
{
	enum { NEW = 24 << 20, FILE_SIZE = 64 << 20 };
	static char stack[65536] __attribute__((aligned(16)));
	size_t i, wrong = 0;
	char line[8], *new;

	slow_file = mmap(NULL, FILE_SIZE, PROT_READ, MAP_PRIVATE, 3, 0);
	new = mmap(NULL, NEW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(slow_file != MAP_FAILED && new != MAP_FAILED, "mmap");
	madvise(new, NEW, MADV_NOHUGEPAGE);
	need(clone(touch, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
		   CLONE_THREAD | CLONE_SYSVSEM, NULL) > 0, "clone");
	printf("ready %lx\n", (unsigned long)slow_file);
	fflush(stdout);
	read(0, line, sizeof(line));
	for (i = 0; i < NEW; i += PAGE)
		new[i] = 0;
	printf("taken\n");
	fflush(stdout);
	read(0, line, sizeof(line));
	for (i = 0; i < NEW; i += PAGE)
		wrong += new[i] != 0;
	for (i = 0; i < 30000 && !slow_byte; i++)
		usleep(10000);
	printf("%zu pages written to, the file begins with %c\n", wrong, slow_byte ?: '-');
}

/* ---- written, unmapped ---- */

static int to_pipe[2];

static int write_slow(void *unused)
{
	write(to_pipe[1], (const void *)slow_file, 1);
	for (;;)
		syscall(SYS_nanosleep, &(struct timespec){ .tv_sec = 1000 }, NULL);
	return 0;
}

/* Its second worker waits inside a page fault, the first one in a system call. */
static void written(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	char byte;

	slow_file = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 3, 0);
	need(slow_file != MAP_FAILED && !pipe(to_pipe), "mmap");
	need(clone(write_slow, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES |
		   CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL) > 0, "clone");
	printf("ready %lx\n", (unsigned long)slow_file);
	fflush(stdout);
	read(0, &byte, 1);
}

/* A stopped task makes a system call at the place where it made its last one. */
static void begin_call(pid_t tid, struct user_regs_struct *regs, long number, long first, long second)
{
	need(!ptrace(PTRACE_GETREGS, tid, 0, regs), "GETREGS");
	regs->rip -= 2;
	regs->orig_rax = -1;
	regs->rax = number;
	regs->rdi = first;
	regs->rsi = second;
	need(!ptrace(PTRACE_SETREGS, tid, 0, regs), "SETREGS");
}

static long call(pid_t tid, long number, long first, long second)
{
	struct user_regs_struct regs;
	int status, stops;

	begin_call(tid, &regs, number, first, second);
	for (stops = 0; stops < 2; stops++) {
		need(!ptrace(PTRACE_SYSCALL, tid, 0, 0), "SYSCALL");
		need(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status), "a stop");
	}
	need(!ptrace(PTRACE_GETREGS, tid, 0, &regs), "GETREGS");
	return regs.rax;
}

static void unmapped(void)
{
	pid_t pid = atoi(name);
	struct user_regs_struct regs;
	int number, status;

	need(!ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD), "seize");
	need(!ptrace(PTRACE_INTERRUPT, pid, 0, 0) && waitpid(pid, &status, __WALL) == pid, "interrupt");
	need(!call(pid, SYS_munmap, HANARE_USER_MIN, HANARE_CONTROL_END - HANARE_USER_MIN), "munmap");
	for (number = 0; number < PAGE; number++) {
		char path[64], target[64] = "";

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
		if (readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, "/dev/hanare"))
			need(!call(pid, SYS_close, number, 0), "close");
	}
	/* The descriptor's end comes before this call begins. */
	begin_call(pid, &regs, SYS_pause, 0, 0);
	need(!ptrace(PTRACE_SYSCALL, pid, 0, 0) && waitpid(pid, &status, __WALL) == pid, "pause");
	printf("ended\n");
	fflush(stdout);
	ptrace(PTRACE_DETACH, pid, 0, 0);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } modes[] = {
		{ "kept", kept }, { "shared", shared }, { "stuck", stuck }, { "copied", copied }, { "moved", moved },
		{ "memory", memory }, { "rights", rights },
		{ "cycle", cycle }, { "secret", secret }, { "map", map_over_and_over },
		{ "slow", slow }, { "written", written }, { "unmapped", unmapped },
	};
	size_t i;

	self = argv[0];
	if (argc == 3) {
		name = argv[1];
		for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
			if (!strcmp(argv[2], modes[i].name))
				return modes[i].run(), 0;
	}
	fprintf(stderr, "usage: see the head of hostile.c\n");
	return 2;
}
