/* Clocks: monotonic, no system call needed, in agreement with each other. Prints raw values last,
 * for the caller to compare with Linux. */
#include "guest.h"

static long long now(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		return -1;
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
					    CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE,
					    CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID,
					    CLOCK_THREAD_CPUTIME_ID, CLOCK_TAI };
	long long start = now(CLOCK_MONOTONIC), last, cpu;
	struct timespec sleep = { .tv_nsec = 300000000 }, resolution, t;
	struct timeval day;
	int agrees = 0;

	for (unsigned i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
		long long before = now(clocks[i]), back = 0;

		for (int n = 0; n < 20000; n++) {
			long long value = now(clocks[i]);

			back += value < before;
			before = value;
		}
		printf("clock %d: went back %lld times, valid %d\n", clocks[i], back, before > 0);
	}
	TELL(clock_gettime(77, &t));
	TELL(clock_getres(CLOCK_MONOTONIC, &resolution));
	printf("resolution %ld\n", resolution.tv_nsec);
	TELL(clock_settime(CLOCK_MONOTONIC, &t));
	/*
	 * A CPU that stands still meanwhile takes longer, and computes as far as it knows: the best
	 * of some tries.
	 */
	for (int tries = 0; tries < 40; tries++) {
		last = now(CLOCK_MONOTONIC);
		nanosleep(&sleep, NULL);
		last = now(CLOCK_MONOTONIC) - last;
		if (last < 3000000000)
			break;
	}
	printf("slept long enough %d, not much longer %d\n", last >= 300000000, last < 3000000000);
	for (int tries = 0; tries < 40; tries++) {
		cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		nanosleep(&sleep, NULL);
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		if (cpu < 250000000)
			break;
	}
	printf("asleep costs little time of the CPU: %d\n", cpu < 250000000);
	for (int tries = 0; tries < 40; tries++) {
		gettimeofday(&day, NULL);
		last = now(CLOCK_REALTIME) / 1000 - (day.tv_sec * 1000000LL + day.tv_usec);
		agrees = labs(time(NULL) - day.tv_sec) <= 2;
		if (last < 2000000 && agrees)
			break;
	}
	printf("gettimeofday agrees %d, time() agrees %d\n", last >= 0 && last < 2000000,
	       agrees);
	if (argc > 1)
		printf("raw %lld %lld %lld %lld\n", now(CLOCK_REALTIME), now(CLOCK_MONOTONIC),
		       now(CLOCK_BOOTTIME), now(CLOCK_MONOTONIC) - start);
	(void)argv;
	return 0;
}
