/*
 * Three threads go to Linux and come back as often as they can, and compute, call and fault there.
 *   utility-again [ROUNDS]     200
 */
#include "utility.h"

static __thread sigjmp_buf back;
static int rounds;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* How many rounds had the right results. */
static void *again(void *unused)
{
	volatile long sum, right = 0;
	volatile int round;
	int i;

	for (round = 0; round < rounds; round++) {
		if (sigsetjmp(back, 1)) {
			right += round % 4 == 3;
			continue;
		}
		if (!own_area)
			go_out();
		else
			prctl(PR_HANARE_RUN_ON, round % 8 != 7, own_area, AREA, -1L);
		for (sum = 0, i = 0; i < 100; i++)
			sum += i;
		if (round % 4 == 3)
			*(volatile char *)0x123456 = 1;
		right += sum == 4950 && syscall(SYS_getpgid, 0) == getpgrp() && syscall(SYS_gettid) != getpid();
	}
	(void)unused;
	return (void *)right;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	pthread_t threads[3];
	void *right;
	int i;

	rounds = argc > 1 ? atoi(argv[1]) : 200;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, again, NULL);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &right);
		printf("%ld rounds\n", (long)right);
	}
	return 0;
}
