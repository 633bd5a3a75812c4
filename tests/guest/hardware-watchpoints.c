/* Debug registers that a tracer sets: watchpoints and breakpoints of the CPU. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGISTER(n) offsetof(struct user, u_debugreg[n])
#define WRITES 1
#define TOUCHES 3
#define BYTES_8 2
#define BYTES_4 3

static volatile long watched[4] __attribute__((aligned(32)));
static volatile short selector __attribute__((aligned(8)));
static pid_t pid;

static long control(int n, int kind, int len)
{
	return 1L << (2 * n) | (long)(kind | len << 2) << (16 + 4 * n);
}

static void set(int n, long value)
{
	errno = 0;
	if (ptrace(PTRACE_POKEUSER, pid, REGISTER(n), value))
		printf("register %d: errno %d\n", n, errno);
}

static unsigned long get(int n)
{
	errno = 0;
	return ptrace(PTRACE_PEEKUSER, pid, REGISTER(n), 0);
}

static void go(int signal)
{
	ptrace(PTRACE_CONT, pid, 0, signal);
}

static int next(const char *what)
{
	siginfo_t info;
	int status;

	waitpid(pid, &status, 0);
	printf("%s: %#x", what, status);
	if (WIFSTOPPED(status) && !ptrace(PTRACE_GETSIGINFO, pid, 0, &info))
		printf(" code %d, DR6 %#lx", info.si_code, get(6));
	putchar('\n');
	set(6, 0);
	return WIFSTOPPED(status);
}

static void __attribute__((noinline)) function(void)
{
	asm volatile("" ::: "memory");
}

static void child(void)
{
	int status;
	long n;

	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	watched[0] = 1;
	n = watched[1];
	watched[1] = n + 1;
	/* What the kernel writes is not the program's doing. */
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, watched);
	syscall(SYS_getcwd, watched, sizeof(watched));
	function();
	raise(SIGSTOP);
	function();
	/* Told of behind the system call, in the kernel, or not at all. */
	asm volatile("mov %%ss, %0" : "=m"(selector));
	asm volatile("mov %1, %%ss; syscall" : "=a"(n) : "m"(selector), "0"(SYS_getpid) : "rcx", "r11", "memory");
	if (n != getpid())
		_exit(9);
	raise(SIGSTOP);
	if (!fork()) {
		watched[0] = 3;	/* a child has none */
		_exit(4);
	}
	wait(&status);
	watched[0] = status;
	execl("/bin/true", "true", NULL);	/* nor has a new program */
}

static void refusals(void)
{
	set(0, (long)0xffffffff81000000);
	set(4, 1);
	set(5, 1);
	set(7, control(0, 2, BYTES_4));
	set(7, control(0, 0, BYTES_8));
	printf("DR0 %#lx, DR4 %#lx, DR6 %#lx, DR7 %#lx\n", get(0), get(4), get(6), get(7));
}

/*
 * What DR7 said of an address last holds for that, on or off; addresses are those of user memory up
 * to its end.
 */
static void odd_values(void)
{
	static const struct {
		int n;
		unsigned long value;
	} sets[] = {
		{ 0, 0x7fffffffe000 }, { 0, 0x7fffffffefff }, { 0, 0x7ffffffff000 }, { 1, 0x7d0000000008 }, { 2, ~0ul },
		{ 7, 0x90001 }, { 0, 0x7fffffffeffc }, { 7, 0x90001 }, { 0, 0x7fffffffeff8 }, { 7, 0x90001 }, { 0, 0x1001 },
		{ 7, 0x90000 }, { 0, 0x1001 }, { 7, 0x20000 }, { 7, 0x40000 }, { 7, 0x60000 }, { 7, 0x700 }, { 0, 0x1001 },
		{ 7, 0x50001 }, { 7, 0x50000 }, { 7, 1UL << 32 | 0x2000 }, { 3, 0 }, { 7, 0x10000040 }, { 7, 0x20000000 }, { 7, 0 },
	};

	for (unsigned int i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		set(sets[i].n, sets[i].value);
		printf("odd %u: %#lx\n", i, get(sets[i].n));
	}
	for (int n = 0; n < 4; n++)
		set(n, 0);
}

int main(void)
{
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pid = fork();
	if (!pid) {
		child();
		_exit(1);
	}
	next("stopped");
	refusals();
	odd_values();
	set(0, (long)&watched[0]);
	set(1, (long)&watched[1]);
	set(2, (long)function);
	set(7, control(0, WRITES, BYTES_8) | control(1, TOUCHES, BYTES_4) | control(2, 0, 0));
	set(0, (long)&watched[0] + 1);
	printf("as set: %d %d %#lx\n", get(0) == (unsigned long)&watched[0], get(2) == (unsigned long)function, get(7));
	go(0);
	for (i = 0; i < 16 && next("met"); i++) {
		struct user_regs_struct regs;

		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		if (regs.rip == (unsigned long)function)
			break;
		go(0);
	}
	go(0);
	next("stopped again");
	set(7, 0);
	set(3, (long)&selector);
	set(7, control(3, TOUCHES, 1));
	go(0);
	for (i = 0; i < 16 && next("selector"); i++) {
		int stopped;
		siginfo_t info;

		stopped = !ptrace(PTRACE_GETSIGINFO, pid, 0, &info) && info.si_signo == SIGSTOP;
		if (stopped)
			break;
		go(0);
	}
	set(0, (long)&watched[0]);
	set(7, control(0, WRITES, BYTES_8));
	go(0);
	while (next("last")) {
		siginfo_t info = {0};

		ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
		go(info.si_signo == SIGCHLD ? SIGCHLD : 0);
	}
	return 0;
}
