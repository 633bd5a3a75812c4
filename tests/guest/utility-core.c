/*
 * Dumps core while threads whose code executes on a Linux CPU are in functions with registers that
 * a debugger knows again.
 * Usage: utility-core segv|quit
 */
#include "utility.h"

static volatile int begun, fault;

#define WITH_REGISTERS(first, body)                                                         \
	asm volatile("mov $" #first "0c, %%r12\n mov $" #first "0d, %%r13\n mov $" #first   \
		     "0e, %%r14\n mov $" #first "0f, %%r15\n movq %%r15, %%xmm9\n"          \
		     "lock incl %0\n" body                                                  \
		     : "+m"(begun) : "m"(fault)                                             \
		     : "r12", "r13", "r14", "r15", "xmm9", "rax", "memory", "cc")

/* Computes until `fault` is set, and stores to address 8 then. */
__attribute__((noinline)) static void spins(void)
{
	WITH_REGISTERS(0x5, "1: cmpl $0, %1\n je 1b\n movl $1, 8");
}

/* Waits in a call of Linux'. */
__attribute__((noinline)) static void sleeps(void)
{
	int ends[2];

	if (pipe(ends))
		abort();
	WITH_REGISTERS(0x6, "");
	begun += read(ends[0], ends, 1);
}

static void *in_spins(void *unused)
{
	spins();
	return unused;
}

static void *in_sleeps(void *unused)
{
	sleeps();
	return unused;
}

int main(int argc, char **argv)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_CORE, &limit);
	outside(in_spins, NULL);
	outside(in_sleeps, NULL);
	while (begun < 2)
		usleep(1000);
	usleep(100000);
	printf("ready\n");
	fflush(stdout);
	fault = argc > 1 && !strcmp(argv[1], "segv");
	for (;;)
		pause();
}
