// SPDX-License-Identifier: GPL-2.0
/*
 * Faults in a proxy's memory on CPU 0, where it can be kept from using what it is answered:
 *   late-answer read PID ADDRESS    prints the first word of each of 8 pages
 *   late-answer write PID ADDRESS   writes a byte
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include "need.h"

#define PAGE 4096
#define PAGES 8

static char pages[PAGES * PAGE];

int main(int argc, char **argv)
{
	struct iovec here = { pages, 1 }, there;
	pid_t pid;
	cpu_set_t set;
	int i;

	if (argc != 4)
		return 2;
	pid = atoi(argv[2]);
	there = (struct iovec){ (void *)strtoul(argv[3], NULL, 0), 1 };
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	need(!sched_setaffinity(0, sizeof(set), &set), "affinity");
	if (!strcmp(argv[1], "write")) {
		need(process_vm_writev(pid, &here, 1, &there, 1, 0) == 1, "write");
		return 0;
	}
	here.iov_len = there.iov_len = sizeof(pages);
	need(process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(pages), "read");
	for (i = 0; i < PAGES; i++)
		printf("%lx\n", *(unsigned long *)(pages + i * PAGE));
	return 0;
}
