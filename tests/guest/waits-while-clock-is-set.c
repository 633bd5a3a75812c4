/*
 * Sleeps until an absolute time end at that time, also where the clock is set meanwhile; no sleep
 * ends too early.
 */
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum { REALTIME, TAI, FUTEX, WAITV, KINDS };
static const char *const names[] = { "clock_nanosleep", "clock_nanosleep of TAI", "futex", "futex_waitv" };

static struct timespec until[KINDS];
static long result[KINDS];
static volatile int over[KINDS];
static uint32_t word;

static void *waits(void *argument)
{
	long kind = (long)argument;
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} words = { 0, (uintptr_t)&word, 2 | FUTEX_PRIVATE_FLAG, 0 };

	if (kind <= TAI)
		result[kind] = clock_nanosleep(kind == TAI ? CLOCK_TAI : CLOCK_REALTIME,
					       TIMER_ABSTIME, until + kind, NULL);
	else if (kind == FUTEX)
		result[kind] = syscall(SYS_futex, &word,
				       FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME,
				       0, until + kind, NULL, ~0u) ? errno : 0;
	else
		result[kind] = syscall(SYS_futex_waitv, &words, 1, 0, until + kind, CLOCK_REALTIME) < 0 ? errno : 0;
	over[kind] = 1;
	return NULL;
}

static void step(int seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += seconds;
	if (clock_settime(CLOCK_REALTIME, &now))
		puts("the clock cannot be set");
}

static long long monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void begin(pthread_t *threads, int seconds)
{
	for (long kind = 0; kind < KINDS; kind++) {
		clock_gettime(kind == TAI ? CLOCK_TAI : CLOCK_REALTIME, until + kind);
		until[kind].tv_sec += seconds;
		over[kind] = 0;
		pthread_create(threads + kind, NULL, waits, (void *)kind);
	}
	usleep(500000);
}

static void end(pthread_t *threads, const char *what)
{
	long long start = monotonic();

	for (int kind = 0; kind < KINDS; kind++) {
		pthread_join(threads[kind], NULL);
		printf("%s: %s gives %ld\n", what, names[kind], result[kind]);
	}
	printf("in time %d\n", monotonic() - start < 60000000000);
}

/* Of many short waits none ends before its time. */
static void early(void)
{
	struct timespec time = { 0, 20000000 };
	int failed = 0, too_early = 0;

	for (int i = 0; i < 100; i++) {
		long long start = monotonic();

		failed += syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) != -1 || errno != ETIMEDOUT;
		too_early += monotonic() - start < 20000000;
	}
	printf("failed %d, too early %d\n", failed, too_early);
}

int main(void)
{
	pthread_t threads[KINDS];

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	begin(threads, 500);
	step(1000);
	end(threads, "set to later");
	for (;;) {
		long long start = monotonic();

		begin(threads, 2);
		step(-1000);
		if (monotonic() - start < 1900000000)
			break;
		/* A slow machine: the time had come before the clock was set. Once more. */
		step(1000);
		for (int kind = 0; kind < KINDS; kind++)
			pthread_join(threads[kind], NULL);
	}
	sleep(3);
	for (int kind = 0; kind < KINDS; kind++)
		printf("set to earlier: %s ended %d\n", names[kind], over[kind]);
	step(1000);
	end(threads, "and to later again");
	step(-1000);
	early();
	return 0;
}
