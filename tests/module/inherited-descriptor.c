// SPDX-License-Identifier: GPL-2.0
/*
 * The descriptor of a space in another process: what a child may do with the one that it inherited
 * by fork, and what becomes of a space whose process ends while a child still has it. Needs a
 * running instance:
 *   inherited-descriptor NAME
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

#define ROUNDS 100

static int fails, checks;
static const char *name;

#define EXPECT(what, wanted) do {						\
	long got_ = (what), wanted_ = (wanted);					\
										\
	checks++;								\
	if (got_ != wanted_) {							\
		printf("line %d: %s: %ld, wanted %ld\n", __LINE__, #what, got_, wanted_); \
		fails++;							\
	}									\
} while (0)

static int call(int fd, unsigned int cmd, void *arg)
{
	return ioctl(fd, cmd, arg) < 0 ? errno : 0;
}

static int new_fd(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("/dev/hanare");
		exit(1);
	}
	return fd;
}

static int spaces(void)
{
	struct hanare_status status = {};
	int fd = new_fd(), err;

	strncpy((char *)status.name, name, sizeof(status.name) - 1);
	err = call(fd, HANARE_IOCTL_STATUS, &status);
	close(fd);
	return err ? -err : (int)status.spaces;
}

static int attach(unsigned int *space)
{
	struct hanare_attach attach = {};
	int fd = new_fd();

	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	if (call(fd, HANARE_IOCTL_ATTACH, &attach)) {
		printf("attach: %s\n", (char *)attach.message);
		exit(1);
	}
	*space = attach.space;
	return fd;
}

static int map(int fd, unsigned int space)
{
	void *at = mmap((void *)HANARE_SLOT_BASE, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
			(off_t)space << HANARE_SPACE_SHIFT | HANARE_SLOT_BASE);

	return at == MAP_FAILED ? errno : 0;
}

/* Everything but IOCTL_CHILD is refused, and that without a fork of the LWK's. */
static void in_the_child(int fd, unsigned int space)
{
	struct hanare_serve serve = {};
	struct hanare_signal signal = { .signal = SIGTERM };
	struct hanare_usage usage = {};
	struct hanare_attach again = {};
	struct hanare_child child = { .token = 1ULL << 63, .parent = space };
	unsigned int foreign;
	int lowest = dup(0), before = spaces(), other = attach(&foreign);

	close(lowest);
	EXPECT(call(fd, HANARE_IOCTL_WAIT, NULL), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_RING, NULL), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_SERVE, &serve), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_SIGNAL, &signal), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_USAGE, &usage), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_START, NULL), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_ATTACH, &again), EBUSY);
	EXPECT(map(fd, space), EPERM);
	EXPECT(call(fd, HANARE_IOCTL_CHILD, NULL), EFAULT);
	EXPECT(call(fd, HANARE_IOCTL_CHILD, (void *)8), EFAULT);
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), ESRCH);
	child.shares_table = 1;
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), ESRCH);
	child.program = 1;
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), EINVAL);
	/* Linux has executed nothing: this is no program that has left the space. */
	child.shares_table = 0;
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), EPERM);
	/* A space of which this is no descriptor, and one that there is not. */
	child = (struct hanare_child){ .parent = foreign };
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), EPERM);
	EXPECT(map(fd, foreign), EPERM);
	child.parent = 0xffffff;
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), ESRCH);
	close(other);
	EXPECT(dup(0), lowest);
	EXPECT(spaces(), before);
}

static int ended_with(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static void inherited(void)
{
	struct hanare_child child = { .token = 1 };
	unsigned int space;
	int fd = attach(&space);
	pid_t pid;

	child.parent = space;
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), EINVAL);
	EXPECT(map(fd, space), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		fails = 0;
		in_the_child(fd, space);
		fflush(stdout);
		_exit(fails != 0);
	}
	EXPECT(ended_with(pid), 0);
	/* The parent's is what it was. */
	EXPECT(spaces(), 1);
	/* No such slot; no such bell. */
	EXPECT(call(fd, HANARE_IOCTL_WAIT, (void *)HANARE_SLOTS_MAX), EINVAL);
	EXPECT(call(fd, HANARE_IOCTL_WAIT, (void *)(-1UL << HANARE_WAIT_RING_SHIFT)), EINVAL);
	EXPECT(call(fd, HANARE_IOCTL_RING, (void *)-1UL), EINVAL);
	munmap((void *)HANARE_SLOT_BASE, 4096);
	close(fd);
	EXPECT(spaces(), 0);
}

/*
 * The space's process is killed while its child asks for a space over and over:
 * an error each time, and the space ends although the child has the descriptor.
 */
static void orphan(int round)
{
	struct timespec pause = { .tv_nsec = round * 7919 % 3000 * 1000 };
	int told[2], hold[2];
	char byte;
	pid_t pid;

	if (pipe(told) || pipe(hold))
		exit(1);
	pid = fork();
	if (!pid) {
		struct hanare_child child = { .token = 1ULL << 63 };
		unsigned int space;
		int fd = attach(&space), i, wrong = 0;

		map(fd, space);
		child.parent = space;
		if (fork())
			pause.tv_nsec = 0, write(told[1], "p", 1), sleep(100);
		for (i = 0; i < 200; i++)
			wrong |= call(fd, HANARE_IOCTL_CHILD, &child) != ESRCH;
		write(told[1], wrong ? "n" : "y", 1);
		/* Keeps the descriptor until it is let go. */
		close(hold[1]);
		read(hold[0], &byte, 1);
		_exit(0);
	}
	close(told[1]);
	close(hold[0]);
	EXPECT(read(told[0], &byte, 1), 1);
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	EXPECT(ended_with(pid), SIGKILL);
	while (byte == 'p' && read(told[0], &byte, 1) == 1)
		;
	EXPECT(byte, 'y');
	EXPECT(spaces(), 0);
	close(told[0]);
	close(hold[1]);
}

int main(int argc, char **argv)
{
	struct hanare_child child = {};
	int fd = new_fd(), i;

	if (argc != 2) {
		fprintf(stderr, "usage: inherited-descriptor NAME\n");
		return 2;
	}
	name = argv[1];
	EXPECT(call(fd, HANARE_IOCTL_CHILD, &child), EBADF);
	EXPECT(spaces(), 0);
	inherited();
	for (i = 0; i < ROUNDS; i++)
		orphan(i);
	printf("%d checks, %d failed\n", checks, fails);
	return fails != 0;
}
