/* A program that only computes, while the harness counts what disturbs it. */
#define _GNU_SOURCE
#include "guest.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stay(const struct wish *wish)
{
	cpu_set_t set;

	if (wish->cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(wish->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

/* From when to when a program computes, ns by CLOCK_MONOTONIC. */
struct span {
	uint64_t start, end;
};

/* Says that it computes from now on, and until when, s. The answer may come later than the word. */
static struct span begin(uint64_t ns)
{
	struct span span = { .end = now_ns() + ns };

	printf("until %.9f\n", (double)span.end / 1e9);
	fflush(stdout);
	span.start = now_ns();
	return span;
}

/* Says since when it has computed. */
static void end(struct span span)
{
	printf("since %.9f\n", (double)span.start / 1e9);
	printf("end 0\n");
}

void group_compute(const struct wish *wish)
{
	uint64_t ns = (uint64_t)(wish->seconds * 1e9);
	struct span span;
	volatile uint64_t sum = 0;

	stay(wish);
	span = begin(ns);
	/* The clock is read without a trap. */
	while (now_ns() < span.end)
		for (int i = 0; i < 100000; i++)
			sum = sum + (uint64_t)i * (uint64_t)i;
	end(span);
}

/* A quantum of work: registers only, always the same, and the same code wherever it is called. */
static __attribute__((noinline)) void work(uint64_t loops)
{
	while (loops--)
		__asm__ volatile("" : "+r"(loops));
}

/* The shortest of some quanta; ns. */
static double shortest(uint64_t loops)
{
	double best = 1e300;

	for (int i = 0; i < 16; i++) {
		uint64_t start = ticks();
		double ns;

		work(loops);
		ns = ticks_ns(ticks() - start);
		if (ns < best)
			best = ns;
	}
	return best;
}

/* Work that takes as long as a quantum where nothing disturbs it. */
static uint64_t calibrated(double ns)
{
	uint64_t loops = 1000;
	double best;

	while ((best = shortest(loops)) < ns / 2)
		loops *= 2;
	/* Once more at full length: a CPU that was idle has become faster meanwhile. */
	for (int i = 0; i < 3; i++) {
		loops = (uint64_t)((double)loops * ns / best) + 1;
		best = shortest(loops);
	}
	return loops;
}

/*
 * Fixed work quantum: the same work again and again, and how long it took each time. One begins
 * where the last one ended, so their sum is the time. Nothing is printed until the end.
 */
void group_quanta(const struct wish *wish)
{
	uint64_t *ends, ns = (uint64_t)(wish->seconds * 1e9), loops;
	struct span span;
	/*
	 * Twice as many as fit: the work may have been found on a slower kernel. Beyond that the
	 * rest is not kept.
	 */
	size_t most = (size_t)(wish->seconds * 2e6 / wish->quantum_us) + 64, count = 0;

	stay(wish);
	ends = malloc(most * sizeof(*ends));
	if (!ends)
		fail("malloc");
	/* What is touched now does not fault later. */
	memset(ends, 1, most * sizeof(*ends));
	loops = wish->loops ? wish->loops : calibrated(wish->quantum_us * 1e3);
	printf("loops %llu\n", (unsigned long long)loops);
	ticks_ns(0);
	span = begin(ns);
	ends[count++] = ticks();
	while (now_ns() < span.end) {
		work(loops);
		if (count < most)
			ends[count++] = ticks();
	}
	for (size_t i = 1; i < count; i++)
		printf("q %.1f\n", ticks_ns(ends[i] - ends[i - 1]));
	end(span);
	free(ends);
}

/*
 * The program's first instruction: reads the TSC, then goes on to the C library's start. The
 * linker is told to begin here (bench/guest/Makefile).
 */
uint64_t first_tsc;

__asm__(".globl guest_start\n"
	"guest_start:\n"
	"	mov %rdx, %r15\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	mov %rax, first_tsc(%rip)\n"
	"	mov %r15, %rdx\n"
	"	jmp _start\n");

/* When the first instruction ran, by the clock: s since its start. */
void group_first(const struct wish *wish)
{
	uint64_t tsc = ticks(), now = now_ns();

	(void)wish;
	printf("first %.9f\n", ((double)now - ticks_ns(tsc - first_tsc)) / 1e9);
}
