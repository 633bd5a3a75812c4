/* The table of groups, and what they share. */
#include "guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

static const struct group {
	const char *name;
	void (*run)(const struct wish *wish);
} groups[] = {
	{ "calls", group_calls },
	{ "after", group_after },
	{ "doorbell", group_doorbell },
	{ "packed", group_packed },
	{ "packed-new", group_packed_new },
	{ "files", group_files },
	{ "transfer", group_transfer },
	{ "device", group_device },
	{ "service", group_service },
	{ "mixed", group_mixed },
	{ "memory", group_memory },
	{ "signals", group_signals },
	{ "processes", group_processes },
	{ "nothing", group_nothing },
	{ "compute", group_compute },
	{ "quanta", group_quanta },
	{ "first", group_first },
};

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

/* Between 1 and `most`. */
static int number(const char *text, int most)
{
	int value = atoi(text);

	return value < 1 ? 1 : value < most ? value : most;
}

int main(int argc, char **argv)
{
	struct wish wish = { .seconds = 1, .cpu = -1, .quantum_us = 100, .callers = 1, .calls = 16 };

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "quick"))
			wish.quick = 1;
		else if (!strncmp(argv[i], "file=", 5))
			wish.file = argv[i] + 5;
		else if (!strncmp(argv[i], "seconds=", 8))
			wish.seconds = atof(argv[i] + 8);
		else if (!strncmp(argv[i], "cpu=", 4))
			wish.cpu = atoi(argv[i] + 4);
		else if (!strncmp(argv[i], "quantum=", 8))
			wish.quantum_us = atof(argv[i] + 8);
		else if (!strncmp(argv[i], "loops=", 6))
			wish.loops = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "callers=", 8))
			wish.callers = number(argv[i] + 8, 64);
		else if (!strncmp(argv[i], "calls=", 6))
			wish.calls = number(argv[i] + 6, 1000000);
		else
			argc = 0;
	}
	for (unsigned i = 0; argc > 1 && i < sizeof(groups) / sizeof(*groups); i++)
		if (!strcmp(argv[1], groups[i].name)) {
			groups[i].run(&wish);
			return 0;
		}
	fprintf(stderr, "usage: hanare-bench-guest GROUP [quick] [file=PATH] [seconds=S] [cpu=N]\n"
			"       [quantum=US] [loops=N] [callers=N] [calls=N]\n"
			"groups:");
	for (unsigned i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		fprintf(stderr, " %s", groups[i].name);
	fprintf(stderr, "\n");
	return 2;
}
