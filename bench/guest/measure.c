/* What the groups share: clocks, reports, and the best of many batches. */
#include "guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t ticks(void)
{
	return __rdtsc();
}

double ticks_ns(uint64_t ticks)
{
	static double ns_per_tick;

	if (!ns_per_tick) {
		uint64_t tsc = __rdtsc(), start = now_ns(), end;

		do
			end = now_ns();
		while (end - start < 20000000);
		ns_per_tick = (double)(end - start) / (double)(__rdtsc() - tsc);
	}
	return (double)ticks * ns_per_tick;
}

void report(const char *id, double value)
{
	printf("%s %.3f\n", id, value);
}

void fail(const char *what)
{
	fprintf(stderr, "hanare-bench-guest: %s: %s\n", what, strerror(errno));
	exit(1);
}

void best_begin(struct best *best, const struct wish *wish)
{
	best->until_ns = now_ns() + (wish->quick ? 100000000 : 500000000);
	best->batches = 0;
	best->best = 1e300;
}

int best_more(const struct best *best)
{
	return best->batches < 5 || now_ns() < best->until_ns;
}

void best_add(struct best *best, double value)
{
	best->batches++;
	if (value < best->best)
		best->best = value;
}

double best_ns(const struct wish *wish, int count, void (*call)(void *), void *data)
{
	struct best best;

	for (best_begin(&best, wish); best_more(&best);) {
		uint64_t start = now_ns();

		for (int i = 0; i < count; i++)
			call(data);
		best_add(&best, (double)(now_ns() - start) / count);
	}
	return best.best;
}
