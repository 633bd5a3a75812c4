/* Null calls: served by the LWK itself, without a trap, or delegated. */
#define _GNU_SOURCE
#include "guest.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void local(void *data)
{
	(void)data;
	syscall(SYS_getpid);
}

static void delegated(void *data)
{
	(void)data;
	syscall(SYS_getppid);
}

static void clock_read(void *data)
{
	struct timespec now;

	(void)data;
	clock_gettime(CLOCK_REALTIME, &now);
}

void group_calls(const struct wish *wish)
{
	report("call.local", best_ns(wish, 1000, local, NULL));
	report("call.clock", best_ns(wish, 1000, clock_read, NULL));
	report("call.delegated", best_ns(wish, 1000, delegated, NULL));
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A call after `idle_ns` of other work: the best median of 15. */
static double after(const struct wish *wish, void (*call)(void *), double idle_ns)
{
	uint64_t times[15];
	struct best best;

	for (best_begin(&best, wish); best_more(&best);) {
		for (int i = 0; i < 15; i++) {
			uint64_t start = ticks();

			while (ticks_ns(ticks() - start) < idle_ns)
				;
			start = ticks();
			call(NULL);
			times[i] = ticks() - start;
		}
		qsort(times, 15, sizeof(*times), ascending);
		best_add(&best, ticks_ns(times[7]));
	}
	return best.best;
}

/* 20 us lie within the spin window; after 1 ms the worker sleeps and has to be rung. */
void group_after(const struct wish *wish)
{
	report("call.after-20us", after(wish, delegated, 20000));
	report("call.after-1ms", after(wish, delegated, 1000000));
}

/* prctl(2): whether a native task keeps the pooled proxy that executes its calls. */
#define PR_HANARE_PROXY 0x484e5058

/* What no pooled proxy answers for itself. */
static void packed(void *data)
{
	(void)data;
	syscall(SYS_getpgrp);
}

/* For a native task: by whichever proxy of its pool, and by one that it keeps. */
void group_packed(const struct wish *wish)
{
	report("packed.pooled", best_ns(wish, 1000, packed, NULL));
	prctl(PR_HANARE_PROXY, 1, 0, 0, 0);
	report("packed.kept", best_ns(wish, 1000, packed, NULL));
	report("packed.kept-20us", after(wish, packed, 20000));
	report("packed.kept-1ms", after(wish, packed, 1000000));
	prctl(PR_HANARE_PROXY, 0, 0, 0, 0);
}

/* For a native task whose proxies end after an idle second: the call that has a new one made. */
void group_packed_new(const struct wish *wish)
{
	double least = 1e300;

	for (int i = 0; i < (wish->quick ? 1 : 3); i++) {
		struct timespec time = { 2, 0 };
		uint64_t start;
		double taken;

		nanosleep(&time, NULL);
		start = now_ns();
		packed(NULL);
		taken = (double)(now_ns() - start);
		least = taken < least ? taken : least;
	}
	report("packed.new", least);
}

/* For an LWK booted with spin_us=0: neither side polls, each rings the other. */
void group_doorbell(const struct wish *wish)
{
	report("call.doorbell", best_ns(wish, 50, delegated, NULL));
}
