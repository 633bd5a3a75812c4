/*
 * Threads whose code executes on Linux for ever: one makes only calls of Linux', one computes.
 * Tests watch them from outside.
 */
#include "utility.h"

static volatile unsigned long rounds;

static void *calls(void *unused)
{
	struct timespec pause = { 0, 1000000 };

	for (;;) {
		getpgid(0);
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return unused;
}

static void *computes(void *unused)
{
	for (;;)
		rounds++;
	return unused;
}

int main(void)
{
	outside(calls, NULL);
	outside(computes, NULL);
	while (rounds < 1000)
		usleep(1000);
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
