/* The program that `hanare bench` measures: on Linux and, unchanged, on an LWK. */
#ifndef HANARE_BENCH_GUEST_H
#define HANARE_BENCH_GUEST_H

#include <stdint.h>

/* What the harness asked for. */
struct wish {
	int quick;		/* small batches: for demonstrations */
	const char *file;	/* a file on tmpfs that may be written over */
	double seconds;		/* how long to compute */
	int cpu;		/* CPU to stay on, or -1 */
	double quantum_us;	/* how long a quantum of work takes, about */
	uint64_t loops;		/* its work, or 0: to be found */
	int callers, calls;	/* threads that make calls at once, and how many each */
};

/* One group of figures, one file each. main.c has the table. */
void group_calls(const struct wish *wish);
void group_after(const struct wish *wish);
void group_doorbell(const struct wish *wish);
void group_packed(const struct wish *wish);
void group_packed_new(const struct wish *wish);
void group_files(const struct wish *wish);
void group_transfer(const struct wish *wish);
void group_device(const struct wish *wish);
void group_service(const struct wish *wish);
void group_mixed(const struct wish *wish);
void group_memory(const struct wish *wish);
void group_signals(const struct wish *wish);
void group_processes(const struct wish *wish);
void group_nothing(const struct wish *wish);
void group_compute(const struct wish *wish);
void group_quanta(const struct wish *wish);
void group_first(const struct wish *wish);

/* CLOCK_MONOTONIC, which is the same clock on both kernels. */
uint64_t now_ns(void);

/*
 * For what is as short as a reading of the clock (Linux' may be a system call): the time stamp
 * counter, and ticks of it as ns.
 */
uint64_t ticks(void);
double ticks_ns(uint64_t ticks);

/* One sample: "ID VALUE" on stdout, for `hanare bench`. */
void report(const char *id, double value);

/* Ends the program: what could not be done, and errno. */
void fail(const char *what) __attribute__((noreturn));

/*
 * The machines that this runs on are shared and emulated, so a figure is the best of many batches,
 * each short enough to fall between two disturbances: as many as fit into the budget, at least 5.
 */
struct best {
	uint64_t until_ns;
	int batches;
	double best;
};

void best_begin(struct best *best, const struct wish *wish);
int best_more(const struct best *best);
void best_add(struct best *best, double value);

/* The best batch of `count` calls of `call(data)`; ns per call. */
double best_ns(const struct wish *wish, int count, void (*call)(void *), void *data);

#endif
