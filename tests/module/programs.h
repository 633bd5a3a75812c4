/* SPDX-License-Identifier: GPL-2.0 */
/* The programs of forged proxies (forged.c). */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "forged.h"

static const char *const programs[] = {
	"hello", "children-rusage", "sleeping-threads 30", "mmap", "mremap-and-brk", "smp", "clone-flags",
	"clone-vm", "vfork-shares-memory", "waiting-for-children", "signals", "execve-with-threads", "execve",
	"robust-mutexes", "robust-futex-clone-vm", "mremap", "memfd", "futex-operations", "ptrace", "seccomp",
	"sysv-shm", "hugetlb", "mlock", "madvise", "aio", "io-uring", "concurrent-memory-calls", "refused-mappings",
	"many-processes 20", "proc-self", "vfork-beside-threads", "vfork-killed-in-execve", "vfork-then-execve",
	"file-table", "full-descriptor-table", "die null", "die pause", "execve-credentials", "confinement",
	"mincore", "many-mappings", "pi-mutexes", "thread-ids", "signal-delivery", "size-overflow",
	"cpu-clock-timers", "namespaces", "fault-signals", "calls-beside-blocked-threads", "tracee-killed-in-fork",
	"trace-target", "fuzz 3 SEED 4", "fuzz 3 SEED 4", "fuzz 3 SEED 4",
	"utility-again 1000000", "utility-again 1000000", "utility-signals",
	"/bin/sh -c /bin/true|/bin/cat;exec</dev/zero;/bin/ls", "/bin/true",
};

/* Of many threads, for the request box. */
static const char *const threaded[] = {
	"calls-made-once endless /dev/null", "calls-made-once endless /dev/null", "calls-made-once endless /dev/null",
	"calls-beside-blocked-servers", "signals-into-boxed-calls", "calls-made-once", "concurrent-io", "execve-with-threads",
};

/* Where they are. */
static char *folder;

static char *const environment[] = { "HOME=/", "PATH=/bin:/usr/bin", "LC_ALL=C", NULL };

static void choose_program(void)
{
	static char text[256], path[512], seed[32];
	char *argv[8] = { 0 };
	int argc = 0;

	if (shared->spoils_registers)
		strcpy(text, below(4) ? "utility-again 1000000" : "utility-signals");
	else if (shared->spoils_box && below(4))
		strcpy(text, threaded[below(sizeof(threaded) / sizeof(*threaded))]);
	else
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

#endif
