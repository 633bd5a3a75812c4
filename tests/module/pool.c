// SPDX-License-Identifier: GPL-2.0
/*
 * Joining a pool of proxies by its descriptor alone:
 *   pool [COMMAND...] PROGRAM join    makes a pool, whose descriptor is 77, and runs the rest
 *   pool join                         attaches to the pool with descriptor 77; prints whether it may
 *   pool member                       is a pooled proxy, and prints what it is told that asks as a program's does
 *   pool wrong                        attaches in ways that there are not; prints what is said
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define POOL 77

static void attach(__u32 kind, __u32 fd)
{
	struct hanare_attach attach = { .kind = kind, .pool_fd = fd };
	int device = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(device >= 0, "open");
	attach.fd = device;
	if (!ioctl(device, HANARE_IOCTL_ATTACH, &attach))
		puts("joined");
	else
		printf("%s: %s\n", strerrorname_np(errno), (char *)attach.message);
	close(device);
}

static void make(__u32 limit)
{
	struct hanare_pool_make pool = { .limit = limit };
	int device = open("/dev/hanare", O_RDWR);

	need(device >= 0, "open");
	if (ioctl(device, HANARE_IOCTL_POOL, &pool)) {
		printf("%s: %s\n", strerrorname_np(errno), (char *)pool.message);
		close(device);
		return;
	}
	need(dup2(device, POOL) == POOL, "dup2");
	close(device);
}

/* No program runs in its space. */
static void member(void)
{
	struct hanare_attach attach = { .kind = HANARE_ATTACH_MEMBER, .pool_fd = POOL };
	struct hanare_usage usage;
	struct hanare_child child = { 0 };

	make(1);
	attach.fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	need(!ioctl(attach.fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	child.parent = attach.space;
	printf("%s", ioctl(attach.fd, HANARE_IOCTL_START, NULL) ? strerrorname_np(errno) : "started");
	printf(" %s", ioctl(attach.fd, HANARE_IOCTL_USAGE, &usage) ? strerrorname_np(errno) : "used");
	printf(" %s\n", ioctl(attach.fd, HANARE_IOCTL_CHILD, &child) ? strerrorname_np(errno) : "a child");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "join")) {
		attach(HANARE_ATTACH_MEMBER, POOL);
	} else if (!strcmp(argv[1], "member")) {
		member();
	} else if (!strcmp(argv[1], "wrong")) {
		make(0);
		make(HANARE_POOL_MAX + 1);
		make(1);
		attach(HANARE_ATTACH_MEMBER, 0);
		attach(HANARE_ATTACH_MEMBER, 1000);
		attach(HANARE_ATTACH_MEMBER + 1, POOL);
		attach(HANARE_ATTACH_MEMBER, POOL);
	} else {
		make(1);
		execv(argv[1], argv + 1);
		return 1;
	}
	return 0;
}
