/*
 * perf_event_open of the calling thread and of a child.
 * Usage: perf-event-open [COMMAND...]    counts the command, as perf stat does
 */
#include "guest.h"

#include <linux/perf_event.h>
#include <stdbool.h>

static int count(pid_t pid, bool on_exec)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.disabled = on_exec,
		.enable_on_exec = on_exec,
		.inherit = 1,
	};

	return syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void tell(const char *what, int fd)
{
	printf("%s: %s\n", what, fd < 0 ? strerrorname_np(errno) : "0");
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int go[2], status;
	char byte;
	pid_t child;

	if (argc == 1)
		tell("own", count(0, false));
	fflush(stdout);
	if (pipe(go))
		return 1;
	child = fork();
	if (!child) {
		close(go[1]);
		if (read(go[0], &byte, 1))
			return 2;
		if (argc > 1)
			execvp(argv[1], argv + 1);
		return 0;
	}
	close(go[0]);
	if (argc > 1) {
		if (count(child, true) < 0)
			perror("perf_event_open");
	} else {
		tell("child", count(child, true));
	}
	close(go[1]);
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}
