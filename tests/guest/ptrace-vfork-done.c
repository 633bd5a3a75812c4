/* The end of a vfork's wait is told before the signal of the child's end. */
#include "tracer.h"
#include <sched.h>

#define TIMES 20

static int flags;

static void run(void)
{
	for (int i = 0; i < TIMES; i++) {
		int status;
		pid_t pid = flags & CLONE_VM ? vfork() : syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

		if (!pid)
			_exit(1);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			_exit(2);
	}
	_exit(3);
}

static void traced(const char *what, int with, int request)
{
	int status, done = 0, told = 0, early = 0, calls = 0;
	pid_t pid;

	flags = with;
	pid = start(what, run);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACESYSGOOD);
	for (;;) {
		go(request, pid, 0);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_VFORK_DONE << 8)) {
			done++;
		} else if (WSTOPSIG(status) == SIGCHLD) {
			told++;
			early += told > done;
		} else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			calls++;
		} else {
			printf("  stopped: %#x\n", status >> 8);
		}
	}
	printf("  %d done, %d children's ends, %d of them early; %s; status %#x\n", done, told, early,
	       calls ? "calls" : "no calls", status);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	traced("vfork", CLONE_VFORK | CLONE_VM, PTRACE_CONT);
	traced("vfork and its calls", CLONE_VFORK | CLONE_VM, PTRACE_SYSCALL);
	traced("with memory of its own", CLONE_VFORK, PTRACE_CONT);
	return 0;
}
