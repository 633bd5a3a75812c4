/*
 * PTRACE_SINGLEBLOCK: steps to the next branch. A CPU of an emulator may know no such steps, and
 * stop after each instruction.
 */
#include "tracer.h"

static void run(void)
{
	asm volatile("int3\n nop\n nop\n jmp 1f\n nop\n 1: nop\n nop\n jmp 2f\n 2: nop\n int3" ::: "memory");
	_exit(4);
}

int main(void)
{
	int status = 0, steps;
	siginfo_t now;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	pid = start("blocks", run);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	for (steps = 0; steps < 20; steps++) {
		go(33 /* PTRACE_SINGLEBLOCK */, pid, 0);
		waitpid(pid, &status, 0);
		ptrace(PTRACE_GETSIGINFO, pid, 0, &now);
		if (now.si_code != TRAP_TRACE)
			break;
	}
	printf("  %d steps, then %#x code %d\n", steps, status, now.si_code);
	/* A single step after them is one instruction. */
	go(PTRACE_SINGLESTEP, pid, 0);
	next(pid);
	info(pid);
	TELL(ptrace(33, pid, 0, 65));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	TELL(ptrace(33, pid, 0, 0));
	return 0;
}
