// SPDX-License-Identifier: GPL-2.0
/*
 * A forged proxy, which lies to its LWK. Needs a running instance:
 *   forged-proxy NAME steal PID   a program of user nobody asks the LWK for process PID; its proxy
 *                                 says that Linux has granted whatever it was asked about others
 *   forged-proxy NAME manage      asks its descriptor for all that manages instances and looks at
 *                                 others
 *   forged-proxy NAME fill        start blocks as large as they may be, in an instance of 64 MiB
 *   forged-proxy NAME opened FILE opens it, and asks after a line of input whether it shows the
 *                                 LWK's machine
 *   forged-proxy - steal PID      on the LWK: says what it got
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define NOBODY 65534

static const char *name, *self;

/* ---- steal ---- */

/* On the LWK, in the hands of a proxy to which Linux seems to allow all. */
static int thief(pid_t pid)
{
	struct rlimit low = { 0, 0 };
	unsigned long word = 0;
	struct user_regs_struct regs;
	cpu_set_t set;
	int got = 0;

	CPU_ZERO(&set);
	CPU_SET(2, &set);
	if (!sched_setaffinity(pid, sizeof(set), &set))
		got += printf("affinity\n");
	prlimit(pid, RLIMIT_DATA, &low, NULL);
	if (!prlimit(pid, RLIMIT_AS, &low, NULL))
		got += printf("limit\n");
	if (!syscall(SYS_ptrace, PTRACE_ATTACH, pid, 0, 0))
		got += printf("attached\n");
	if (!syscall(SYS_ptrace, PTRACE_GETREGS, pid, 0, &regs))
		got += printf("registers\n");
	if (!syscall(SYS_ptrace, PTRACE_PEEKUSER, pid, 0, &word))
		got += printf("a register\n");
	if (!got)
		printf("nothing\n");
	fflush(stdout);
	return 0;
}

/* What a call returns that the proxy makes for its program. */
static void forge(pid_t tid)
{
	static long asked[1 << 16];
	struct __ptrace_syscall_info info;
	struct user_regs_struct regs;
	long *number = &asked[tid & 0xffff];

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		*number = info.entry.nr;
	if (info.op != PTRACE_SYSCALL_INFO_EXIT || !info.exit.is_error)
		return;
	if (*number != SYS_ptrace && *number != SYS_prlimit64)
		return;
	need(!ptrace(PTRACE_GETREGS, tid, 0, &regs), "GETREGS");
	regs.rax = 0;
	need(!ptrace(PTRACE_SETREGS, tid, 0, &regs), "SETREGS");
}

static int steal(const char *pid)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			     PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	struct stat device;
	pid_t child = fork();
	int status;

	if (!child) {
		need(!stat("/dev/hanare", &device) && !setgroups(1, &device.st_gid), "group");
		need(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY), "nobody");
		need(!ptrace(PTRACE_TRACEME, 0, 0, 0), "TRACEME");
		raise(SIGSTOP);
		execlp("hanare", "hanare", "run", "--on", name, "--", self, "-", "steal", pid, NULL);
		need(0, "hanare");
	}
	waitpid(child, &status, 0);
	need(!ptrace(PTRACE_SETOPTIONS, child, 0, options), "SETOPTIONS");
	ptrace(PTRACE_SYSCALL, child, 0, 0);
	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);
		int given = 0;

		if (tid < 0 || (tid == child && !WIFSTOPPED(status)))
			return 0;
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			forge(tid);
		else if (WSTOPSIG(status) != SIGSTOP && !(status >> 16))
			given = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, tid, 0, given);
	}
}

/* ---- fill ---- */

#define FILLERS 3

static struct hanare_start_block *attach(int *fd)
{
	struct hanare_attach attach = {};
	struct hanare_start_block *block;

	*fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	need(*fd >= 0, "/dev/hanare");
	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	attach.fd = *fd;
	need(!ioctl(*fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	block = mmap((void *)HANARE_START_BASE, HANARE_START_SIZE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED_NOREPLACE, *fd,
		     (off_t)attach.space << HANARE_SPACE_SHIFT | HANARE_START_BASE);
	need(block != MAP_FAILED, "mmap");
	return block;
}

/* By Linux, which says so where there is no memory. */
static void filler(int zero, int told)
{
	int fd;
	char *block = (char *)attach(&fd);
	size_t at;

	for (at = 0; at < HANARE_START_SIZE; at += 4096)
		if (pread(zero, block + at, 1, 0) != 1)
			break;
	write(told, "f", 1);
	pause();
}

static void starter(void)
{
	int fd;
	struct hanare_start_block *block = attach(&fd);

	block->magic = HANARE_MAGIC;
	block->version = HANARE_VERSION;
	block->strings_offset = sizeof(*block);
	block->total_size = HANARE_START_SIZE;
	need(!ioctl(fd, HANARE_IOCTL_START, NULL), "start");
	pause();
}

static int fill(void)
{
	int i, told[2], zero = memfd_create("zero", 0);
	char byte;

	ftruncate(zero, 4096);
	need(!pipe(told), "pipe");
	for (i = 0; i < FILLERS; i++)
		if (!fork())
			filler(zero, told[1]);
	for (i = 0; i < FILLERS; i++)
		read(told[0], &byte, 1);
	if (!fork())
		starter();
	sleep(2);
	printf("filled\n");
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	return 0;
}

/* ---- manage ---- */

/*
 * Whichever its user is: its program could have its worker ask, past a filter that lets it open no
 * descriptor of its own.
 */
static int manage(void)
{
	static const struct { unsigned int command; const char *name; } all[] = {
#define COMMAND(name) { HANARE_IOCTL_##name, #name }
		COMMAND(INFO), COMMAND(CREATE), COMMAND(ADD_MEMORY), COMMAND(ADD_CPU), COMMAND(BOOT), COMMAND(STATUS), COMMAND(LOG),
		COMMAND(PROCESS), COMMAND(THREADS), COMMAND(DEBUG), COMMAND(OBSERVE), COMMAND(OBSERVATION), COMMAND(TRACE_READ),
		COMMAND(POOL), COMMAND(SHUTDOWN),
	};
	static char argument[1 << 16];
	int fd, served = 0;
	size_t i;

	attach(&fd);
	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!ioctl(fd, all[i].command, argument) || errno != EPERM)
			served += printf("%s\n", all[i].name);
	if (!served)
		printf("nothing\n");
	fflush(stdout);
	return 0;
}

/* ---- opened ---- */

static int opened(const char *path)
{
	struct hanare_opened opened = { .fd = open(path, O_RDONLY) };
	int fd;

	need((int)opened.fd >= 0, path);
	attach(&fd);
	puts("open");
	fflush(stdout);
	getchar();
	need(!ioctl(fd, HANARE_IOCTL_OPENED, &opened), "OPENED");
	puts(opened.shows == HANARE_OPENED_OURS ? "ours" : "as Linux' own");
	return 0;
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 2)
		name = argv[1];
	if (argc == 4 && !strcmp(argv[2], "steal"))
		return strcmp(name, "-") ? steal(argv[3]) : thief(atoi(argv[3]));
	if (argc == 4 && !strcmp(argv[2], "opened"))
		return opened(argv[3]);
	if (argc == 3 && !strcmp(argv[2], "fill"))
		return fill();
	if (argc == 3 && !strcmp(argv[2], "manage"))
		return manage();
	fprintf(stderr, "usage: see the head of forged-proxy.c\n");
	return 2;
}
