/*
 * Threads blocked in delegated calls do not slow others: a call beside many of them is compared
 * with a call without them.
 */
#include "guest.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#define MOST_BLOCKED 1000
#define CALLS 100

static int gate[2];
/* In `make test` a quarter of them, of which each may cost no more than of all. */
static int blocked, most_times;

static void *wait_at_gate(void *arg)
{
	char c;

	return read(gate[0], &c, 1) == 1 ? arg : NULL;
}

/*
 * Nanoseconds of a delegated call, the best of a few rounds; of more rounds if that is
 * above what is hoped for: a busy machine has slow ones.
 */
static double per_call(double hoped)
{
	double best = 1e18;
	time_t end = time(NULL) + 120;
	int round, i;

	for (round = 0; round < 5 || (best > hoped && time(NULL) < end); round++) {
		struct timespec a, b;
		double ns;

		clock_gettime(CLOCK_MONOTONIC, &a);
		for (i = 0; i < CALLS; i++)
			syscall(SYS_getppid);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / (CALLS);
		if (ns < best)
			best = ns;
	}
	return best;
}

int main(void)
{
	static pthread_t threads[MOST_BLOCKED];
	double alone = per_call(1e18), beside;
	int i, started = 0, woken = 0;
	pthread_attr_t attr;
	void *result;

	blocked = by_tier(MOST_BLOCKED / 4, MOST_BLOCKED);
	most_times = by_tier(6, 20);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	if (pipe(gate))
		return 1;
	for (i = 0; i < blocked; i++)
		started += !pthread_create(&threads[i], &attr, wait_at_gate, &gate);
	usleep(300000);
	beside = per_call(most_times * alone);
	for (i = 0; i < started; i++)
		if (write(gate[1], "x", 1) != 1)
			return 2;
	for (i = 0; i < started; i++)
		woken += !pthread_join(threads[i], &result) && result == &gate;
	printf("%d blocked, %d woken\n", started, woken);
	if (beside < most_times * alone)
		puts("a call beside them costs about as much");
	else
		printf("a call beside them costs %.0f times as much\n", beside / alone);
	return 0;
}
