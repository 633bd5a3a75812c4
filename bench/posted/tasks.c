/* Times of tasks by the number and the length of their calls, and of functions without calls. */
#include "ways.h"

#include <stdio.h>

#define TASKS 65536
/* The same where a first impression is wanted. */
#define TASKS_QUICK 256
#define CALLS_OF_LENGTHS 4

static long tasks_of(const struct wish *wish)
{
	return wish->tasks ? wish->tasks : wish->quick ? TASKS_QUICK : TASKS;
}

/*
 * The machines that this runs on are shared: what counts is the best of batches, which fall between
 * two disturbances.
 */
#define BATCHES 64

/* us of one of so many tasks. */
static double us_of(const struct way *way, int calls, long tasks)
{
	long each = tasks / BATCHES + 1;
	double best = 1e300;

	/* The first batch is a try. */
	for (int batch = 0; batch <= BATCHES; batch++) {
		uint64_t start = now_ns();
		double us;

		for (long i = 0; i < each; i++)
			way->task(calls);
		if (way->finish)
			way->finish();
		us = (double)(now_ns() - start) / 1e3 / (double)each;
		if (batch && us < best)
			best = us;
	}
	return best;
}

static void report_of(const char *kind, const char *way, long number, double value)
{
	char id[64];

	snprintf(id, sizeof(id), "%s.%s.%ld", kind, way, number);
	report(id, value);
}

void measure_tasks(const struct wish *wish)
{
	set_call(1);
	for (int calls = 1; calls <= CALLS_MAX; calls *= 2)
		for (int i = 0; i < ways_count; i++)
			if (ways[i].begin())
				report_of("calls", ways[i].name, calls, us_of(&ways[i], calls, tasks_of(wish)));
}

/*
 * Tasks of a few calls each, by the bytes that a call reads. "lengths.call": what one takes here,
 * by trap.
 */
void measure_lengths(const struct wish *wish)
{
	static const long sizes[] = { 1, 4096, 16384, 65536, 262144 };

	for (unsigned int size = 0; size < sizeof(sizes) / sizeof(*sizes); size++) {
		/* Long calls are as many as shall take about as long. */
		long tasks = tasks_of(wish) / (1 + sizes[size] / 16384) + 1;

		set_call(sizes[size]);
		for (int i = 0; i < ways_count; i++)
			if (ways[i].begin())
				report_of("length", ways[i].name, sizes[size], us_of(&ways[i], CALLS_OF_LENGTHS, tasks));
	}
}

/* Computes for about as long; the number of its steps is its result. */
static long compute(long steps)
{
	volatile long sum = 0;

	for (long i = 0; i < steps; i++)
		sum += i;
	return steps;
}

static long steps;

static void compute_here(int calls)
{
	(void)calls;
	if (compute(steps) != steps)
		fail("a function");
}

static void compute_there(int calls)
{
	(void)calls;
	if (result_of(hanare_call(queue_of_ways(), 0, compute, steps)) != steps)
		fail("a function");
}

/* ns of a step of `compute`. */
static double step_ns(void)
{
	double best = 1e300;

	for (int i = 0; i < 20; i++) {
		uint64_t start = now_ns();
		double ns;

		compute(20000);
		ns = (double)(now_ns() - start) / 20000;
		best = ns < best ? ns : best;
	}
	return best;
}

/* Functions that make no call: executed by the caller, and posted. */
void measure_functions(const struct wish *wish)
{
	static const long lengths_us[] = { 1, 4, 16, 64, 256 };
	static const struct way here = { "here", NULL, compute_here, NULL }, there = { "posted", NULL, compute_there, NULL };
	double ns = step_ns();

	for (unsigned int i = 0; i < sizeof(lengths_us) / sizeof(*lengths_us); i++) {
		long tasks = tasks_of(wish) / lengths_us[i] + 64;

		steps = (long)((double)lengths_us[i] * 1e3 / ns) + 1;
		report_of("function", "here", lengths_us[i], us_of(&here, 0, tasks));
		report_of("function", "posted", lengths_us[i], us_of(&there, 0, tasks));
	}
}
