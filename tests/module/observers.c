// SPDX-License-Identifier: GPL-2.0
/*
 * Takes what observers of LWK processes may have, until it is refused:
 *   observers rings MOST PROGRAM               traces, each of another process, which then ends,
 *                                              and whose records are not read
 *   observers read 1 PROGRAM                   one trace of a process which then ends, and whose
 *                                              records are all read
 *   observers breakpoints MOST PID ADDRESS...  so many breakpoints in each process, one after the
 *                                              other from its address on
 * Says how many it has and why it got no more; goes on with what it has, and ends with its standard
 * input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

static int observer(const char *pid)
{
	struct hanare_observe observe = {};
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/mem", pid);
	observe.memory = open(path, O_RDWR | O_CLOEXEC);
	need(observe.memory >= 0, path);
	fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	need(fd >= 0, "/dev/hanare");
	need(!ioctl(fd, HANARE_IOCTL_OBSERVE, &observe), "observe");
	close(observe.memory);
	return fd;
}

static int ask(int fd, unsigned int op, unsigned long long a, unsigned long long b)
{
	struct hanare_observation observation = { .op = op, .args = { a, b } };

	return ioctl(fd, HANARE_IOCTL_OBSERVATION, &observation) ? errno : 0;
}

/* Reads what is there; how many bytes. */
static unsigned long long read_trace(int fd)
{
	static char buffer[65536];
	struct hanare_trace_read records = { .buffer = (unsigned long)buffer, .size = sizeof(buffer) };

	need(!ioctl(fd, HANARE_IOCTL_TRACE_READ, &records), "read of a trace");
	return records.size;
}

/* Until nothing is traced any more, and nothing is left. */
static void read_all(int fd)
{
	struct hanare_observation status;

	do {
		status = (struct hanare_observation){ .op = HANARE_OBSERVE_STATUS };
		need(!ioctl(fd, HANARE_IOCTL_OBSERVATION, &status), "status");
	} while (read_trace(fd) || status.args[0]);
	need(!read_trace(fd), "something more");
}

/* Traces a process that ends at once: the trace is all that is left. */
static int trace_one(const char *program, int reads)
{
	char pid[32] = {};
	int out[2], error, child, fd;

	need(!pipe2(out, O_CLOEXEC), "pipe");
	child = fork();
	if (!child) {
		dup2(out[1], 1);
		execlp("hanare", "hanare", "run", "--", program, NULL);
		_exit(127);
	}
	close(out[1]);
	need(read(out[0], pid, sizeof(pid) - 1) > 0, program);
	close(out[0]);
	*strchrnul(pid, ' ') = 0;
	fd = observer(pid);
	error = ask(fd, HANARE_OBSERVE_TRACE, 0, 0);
	kill(child, SIGKILL);
	kill(atoi(pid), SIGKILL);
	waitpid(child, NULL, 0);
	if (error)
		close(fd);
	else if (reads)
		read_all(fd);
	return error;
}

static int breakpoints(int fd, unsigned long address, long most, long *count)
{
	int error = ask(fd, HANARE_OBSERVE_DEBUG, 0, 0);

	for (long i = 0; !error && i < most; i++) {
		error = ask(fd, HANARE_OBSERVE_BREAK, address + i, 1);
		*count += !error;
	}
	return error;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	long most, count = 0;
	int error = 0;
	char byte;

	need(argc > 3, "usage");
	most = atol(argv[2]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (strcmp(argv[1], "breakpoints")) {
		for (; !error && count < most; count += !error)
			error = trace_one(argv[3], !strcmp(argv[1], "read"));
	} else {
		for (int i = 3; i + 1 < argc && !error; i += 2)
			error = breakpoints(observer(argv[i]), strtoul(argv[i + 1], NULL, 0), most, &count);
	}
	printf("%ld, refused: %d %s\n", count, error, strerror(error));
	fflush(stdout);
	read(0, &byte, 1);
	return 0;
}
