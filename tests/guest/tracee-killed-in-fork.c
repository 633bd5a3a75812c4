/*
 * A tracee is killed at any moment of a fork that its tracer follows: its last child ends by
 * itself.
 */
#include "guest.h"
#include <poll.h>
#include <sys/ptrace.h>

enum { MOST_US = 40000 };

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void forks(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	for (;;) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

/* Has whatever stops go on. */
static void serve(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		int signal = WIFSTOPPED(status) && !(status >> 16) ? WSTOPSIG(status) : 0;

		if (WIFSTOPPED(status))
			ptrace(PTRACE_CONT, pid, 0, (long)(signal == SIGSTOP ? 0 : signal));
	}
}

/* Whether all processes end that have the pipe. */
static int all_end(int from, pid_t pid, int after_us)
{
	long long end = now() + after_us;
	struct pollfd one = { from, POLLIN, 0 };
	int status;

	while (now() < end)
		serve();
	kill(pid, SIGKILL);
	end = now() + 100000000;
	do {
		serve();
		if (poll(&one, 1, 1) == 1)
			return 1;
	} while (now() < end);
	while (waitpid(-1, &status, __WALL | WNOHANG) > 0)
		;
	return 0;
}

int main(void)
{
	int hung = 0, tries = is_on_linux() ? 10 : by_tier(30, 120);

	srand(1);
	/* A proxy complains that is killed before it begins. */
	dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
	for (int i = 0; i < tries && !hung; i++) {
		int ends[2], status;
		pid_t pid;

		pipe(ends);
		pid = fork();
		if (!pid) {
			close(ends[0]);
			forks();
		}
		close(ends[1]);
		waitpid(pid, &status, 0);
		ptrace(PTRACE_SETOPTIONS, pid, 0, (long)PTRACE_O_TRACEFORK);
		ptrace(PTRACE_CONT, pid, 0, 0);
		hung += !all_end(ends[0], pid, rand() % MOST_US);
		close(ends[0]);
	}
	printf("%d hung\n", hung);
	return 0;
}
