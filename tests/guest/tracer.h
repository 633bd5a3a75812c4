/* What programs that trace a child share. */
#include "guest.h"
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

/* A child. One that cannot be made ends the program: as a process id -1 is everybody. */
static inline pid_t forked(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		printf("fork: %s\n", strerrorname_np(errno));
		exit(1);
	}
	return pid;
}

/* What wait(2) says, in words; children have no names. */
static inline int next(pid_t pid)
{
	int status = -1;
	pid_t got = waitpid(pid, &status, __WALL);

	if (got != pid)
		printf("  waitpid: %s\n", got == -1 ? strerrorname_np(errno) : "another one");
	else if (WIFSTOPPED(status))
		printf("  stopped: %#x\n", status >> 8);
	else if (WIFEXITED(status))
		printf("  exited: %d\n", WEXITSTATUS(status));
	else
		printf("  killed: %s\n", sigabbrev_np(WTERMSIG(status)));
	fflush(stdout);
	return status;
}

static inline void go(int request, pid_t pid, long signal)
{
	if (ptrace(request, pid, 0, signal))
		printf("  request %d: %s\n", request, strerrorname_np(errno));
}

static inline void info(pid_t pid)
{
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, pid, 0, &info))
		printf("  no siginfo: %s\n", strerrorname_np(errno));
	else
		printf("  siginfo: %s code %d\n", sigabbrev_np(info.si_signo), info.si_code);
	fflush(stdout);
}

/* A child that is traced, stops, and goes on with `run`. */
static inline pid_t stopping(void (*run)(void))
{
	pid_t pid = forked();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		run();
		_exit(0);
	}
	return pid;
}

/* Like `stopping`, once it has stopped. */
static inline pid_t begun(void (*run)(void))
{
	pid_t pid = stopping(run);

	next(pid);
	return pid;
}

/* As `begun`, with a title. */
static inline pid_t start(const char *what, void (*run)(void))
{
	printf("%s\n", what);
	fflush(stdout);
	return begun(run);
}

/* To the next stop of a call `number`, its beginning or its end. */
static inline void to_call(pid_t pid, long number, int ends)
{
	struct user_regs_struct regs;
	int status, is_end;

	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	do {
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
		if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			printf("  no call: %#x\n", status);
			return;
		}
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		is_end = regs.rax != -(unsigned long long)ENOSYS;
	} while (regs.orig_rax != (unsigned long long)number || is_end != ends);
}
