/* A program that only computes, while the harness counts what disturbs it. */
#define _GNU_SOURCE
#include "guest.h"

#include <sched.h>
#include <stdio.h>

void group_compute(const struct wish *wish)
{
	uint64_t start, ns = (uint64_t)(wish->seconds * 1e9);
	volatile uint64_t sum = 0;

	if (wish->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(wish->cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			fail("sched_setaffinity");
	}
	start = now_ns();
	printf("begin 0\n");
	fflush(stdout);
	/* The clock is read without a trap. */
	while (now_ns() - start < ns)
		for (int i = 0; i < 100000; i++)
			sum = sum + (uint64_t)i * (uint64_t)i;
	printf("end 0\n");
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
