/* Ways to make the calls of a task, and what the measured parts share. */
#ifndef HANARE_BENCH_POSTED_H
#define HANARE_BENCH_POSTED_H

#include <hanare.h>
#include <stddef.h>
#include <stdint.h>

#define CALLS_MAX 64
#define BYTES_MAX (1 << 20)
/* Instead of a number of bytes: the call is getppid(2), of io_uring a NOP. */
#define NULL_CALL -1

/* A way to make calls. */
struct way {
	const char *name;
	/* Makes what it needs. 0: the kernel does not have it. */
	int (*begin)(void);
	/* One task of so many calls, to its end. */
	void (*task)(int calls);
	/* All tasks are done when it returns. NULL: each is at its end. */
	void (*finish)(void);
};

/* table.c has it. */
extern const struct way ways[];
extern const int ways_count;

/* NULL: there is none of that name. */
const struct way *way_of(const char *name);

/* Which call the ways make: pread(2) of so many bytes, or NULL_CALL. */
void set_call(long bytes);

/* The queue that all ways use which need one. */
hanare_queue *queue_of_ways(void);

/* Result of a ticket, which is waited for. */
int64_t result_of(hanare_ticket ticket);

/*
 * By trap; posted, each waited for, and all of a task at once; in a function, and in one whose
 * result is picked up later.
 */
int begin_nothing(void);
void by_trap(int calls);
int begin_queue(void);
void by_post(int calls);
void by_batch(int calls);
void by_function(int calls);
void by_function_ahead(int calls);
void end_functions_ahead(void);

/*
 * io_uring with SQPOLL (uring.c): a task with each call waited for, and with all calls posted
 * first.
 */
int uring_begin(void);
void uring_one_by_one(int calls);
void uring_batch(int calls);

/* The call as an io_uring executes it (ways.c has the file and the memory). */
struct io_uring_sqe;
void fill_entry(struct io_uring_sqe *entry);
void check_result(long result);

uint64_t now_ns(void);
void report(const char *id, double value);
void fail(const char *what) __attribute__((noreturn));

/* What is measured: main.c has the table. */
struct wish {
	int quick;
	long tasks; /* 0: as many as it has by itself */
	int rounds;
	const char *folder; /* for files */
	const char *way; /* the only one that is counted; NULL: all */
};
void measure_tasks(const struct wish *wish);
void measure_lengths(const struct wish *wish);
void measure_functions(const struct wish *wish);
void measure_checkpoints(const struct wish *wish);
void count_phases(const struct wish *wish);
void count_tasks(const struct wish *wish);
void count_checkpoints(const struct wish *wish);

#endif
