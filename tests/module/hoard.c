// SPDX-License-Identifier: GPL-2.0
/*
 * A user who takes all that an instance gives, with own proxies. Needs a running
 * instance:
 *   hoard NAME UID BLOCKS SPACES [decoy]
 * BLOCKS processes fill their start blocks, each with another process in its memory of which the
 * LWK hears nothing; then HOARDERS processes open spaces, SPACES each at most. Says how much that
 * was, and what the first refusal said. When its standard input ends, so do they, all at once. With
 * a decoy: one more space, which Linux says is on its way out for ever.
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define HOARDERS 3
/* Instead of a number of spaces. */
#define START_BLOCK -1

struct report {
	int count;
	int error;
	char message[HANARE_MESSAGE_SIZE];
};

static const char *name;
/* Of the process that shares a filler's memory; fillers share none. */
static char stack[65536] __attribute__((aligned(16)));

/* The space's id, or 0, with the reason in the report. */
static unsigned int attach(int *fd, struct report *report)
{
	struct hanare_attach attach = {};

	*fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	if (*fd < 0) {
		report->error = errno;
		return 0;
	}
	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	attach.fd = *fd;
	if (!ioctl(*fd, HANARE_IOCTL_ATTACH, &attach))
		return attach.space;
	report->error = errno;
	memcpy(report->message, attach.message, sizeof(report->message));
	return 0;
}

static int stay(void *unused)
{
	for (;;)
		pause();
	return 0;
}

/* Written to by Linux, which says so where there is no memory. */
static void fill(struct report *report, int zero)
{
	unsigned int space;
	char *block;
	size_t at;
	int fd;

	space = attach(&fd, report);
	if (!space)
		return;
	block = mmap((void *)HANARE_START_BASE, HANARE_START_SIZE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		     (off_t)space << HANARE_SPACE_SHIFT | HANARE_START_BASE);
	need(block != MAP_FAILED, "mmap");
	for (at = 0; at < HANARE_START_SIZE; at += 4096, report->count++) {
		if (pread(zero, block + at, 1, 0) == 1)
			continue;
		report->error = errno;
		break;
	}
	need(clone(stay, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) > 0, "clone");
}

static void open_spaces(struct report *report, int most)
{
	int fd;

	for (; report->count < most; report->count++)
		if (!attach(&fd, report))
			break;
}

/* Its first process ends, one in its memory stays. */
static void lay_decoy(void)
{
	struct hanare_share end = {};
	struct report report = {};
	pid_t pid = fork();
	int fd, status;

	if (!pid) {
		need(attach(&fd, &report), "decoy");
		need(!ioctl(fd, HANARE_IOCTL_SHARE, &end), "share");
		need(clone(stay, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) > 0, "clone");
		_exit(0);
	}
	waitpid(pid, &status, 0);
	need(!status, "the decoy");
}

/* All of them at once, each in a process of its own; the sum of their counts. */
static int in_processes(int processes, int spaces, int zero, struct report *last)
{
	struct report report = {};
	int i, sum = 0, told[2];

	need(!pipe(told), "pipe");
	for (i = 0; i < processes; i++) {
		if (fork())
			continue;
		if (spaces != START_BLOCK)
			open_spaces(&report, spaces);
		else
			fill(&report, zero);
		write(told[1], &report, sizeof(report));
		for (;;)
			pause();
	}
	for (i = 0; i < processes; i++) {
		need(read(told[0], &report, sizeof(report)) == sizeof(report), "a report");
		sum += report.count;
		if (report.error)
			*last = report;
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	struct stat device;
	struct report last = {};
	int pages, spaces, zero = memfd_create("zero", 0);
	uid_t uid;
	char byte;

	if (argc < 5) {
		fprintf(stderr, "usage: see the head of hoard.c\n");
		return 2;
	}
	name = argv[1];
	uid = atoi(argv[2]);
	need(!ftruncate(zero, 4096), "ftruncate");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	need(!uid || (!stat("/dev/hanare", &device) && !setgroups(1, &device.st_gid) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid)), "uid");
	if (argc > 5)
		lay_decoy();
	pages = in_processes(atoi(argv[3]), START_BLOCK, zero, &last);
	spaces = in_processes(HOARDERS, atoi(argv[4]), zero, &last);
	printf("%d pages, %d spaces, refused: %d %s\n", pages, spaces, last.error, last.message);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGKILL);
	return 0;
}
