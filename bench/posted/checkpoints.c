/* A solver that writes checkpoints: what its computation loses by that. */
#define _GNU_SOURCE
#include "ways.h"
#include "../count/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The grid that is read, the one that is written, the one of the checkpoint. */
#define GRIDS 3
#define CHECKPOINTS 4
/* Pieces in which a checkpoint is written. */
#define PIECES 16

static struct {
	double *grids[GRIDS];
	int edge, steps_between;
	size_t bytes;
	int now, frozen; /* which grid is the newest, which must stay; -1: none */
	int file;
} solver = { .frozen = -1 };

/* One step of a heat equation: 7 points, Jacobi. */
static __attribute__((noinline)) void step(const double *restrict from, double *restrict to, int edge)
{
	long row = edge, plane = row * edge;

	for (long z = 1; z < edge - 1; z++)
		for (long y = 1; y < edge - 1; y++)
			for (long x = 1, at = z * plane + y * row + 1; x < edge - 1; x++, at++)
				to[at] = 0.4 * from[at] + 0.1 * (from[at - 1] + from[at + 1] + from[at - row] + from[at + row] +
								 from[at - plane] + from[at + plane]);
}

static void advance(void)
{
	int next = 0;

	while (next == solver.now || next == solver.frozen)
		next++;
	step(solver.grids[solver.now], solver.grids[next], solver.edge);
	solver.now = next;
}

static void write_piece(const char *grid, int piece)
{
	size_t bytes = solver.bytes / PIECES;

	if (pwrite(solver.file, grid + (size_t)piece * bytes, bytes, (off_t)((size_t)piece * bytes)) != (ssize_t)bytes)
		fail("a checkpoint");
}

static long write_grid(const char *grid)
{
	for (int piece = 0; piece < PIECES; piece++)
		write_piece(grid, piece);
	return 0;
}

/* ---- ways to write a checkpoint: `start` of grid, `await` its end ---- */

static void nothing(const char *grid)
{
	(void)grid;
}

static void await_nothing(void)
{
}

static void blocking(const char *grid)
{
	write_grid(grid);
}

static sem_t wanted, written;
static const char *to_write;

static void *helper(void *data)
{
	for (;;) {
		while (sem_wait(&wanted))
			;
		write_grid(to_write);
		sem_post(&written);
	}
	return data;
}

static void by_thread(const char *grid)
{
	static pthread_t thread;

	if (!thread) {
		sem_init(&wanted, 0, 0);
		sem_init(&written, 0, 0);
		if ((errno = pthread_create(&thread, NULL, helper, NULL)))
			fail("pthread_create");
	}
	to_write = grid;
	sem_post(&wanted);
}

static void await_thread(void)
{
	while (sem_wait(&written))
		;
}

static hanare_ticket pieces[PIECES], whole;
static hanare_queue *queue;

static void posted(const char *grid)
{
	size_t bytes = solver.bytes / PIECES;

	for (int piece = 0; piece < PIECES; piece++)
		pieces[piece] = hanare_submit(queue, SYS_pwrite64, solver.file, grid + (size_t)piece * bytes, bytes,
					      (size_t)piece * bytes);
}

static int64_t result(hanare_ticket ticket)
{
	int64_t result;

	if (ticket < 0 || hanare_wait(queue, ticket, &result, HANARE_FOREVER))
		fail("hanare_wait");
	return result;
}

static void await_posted(void)
{
	for (int piece = 0; piece < PIECES; piece++)
		if (result(pieces[piece]) != (int64_t)(solver.bytes / PIECES))
			fail("a checkpoint");
}

static void function(const char *grid)
{
	whole = hanare_call(queue, 0, write_grid, grid);
}

static void await_function(void)
{
	if (result(whole))
		fail("a checkpoint");
}

static const struct writer {
	const char *name;
	void (*start)(const char *grid);
	void (*await)(void);
} writers[] = {
	{ "none", nothing, await_nothing },
	{ "blocking", blocking, await_nothing },
	{ "thread", by_thread, await_thread },
	{ "posted", posted, await_posted },
	{ "function", function, await_function },
};
#define WRITERS (sizeof(writers) / sizeof(*writers))

/* ---- the solver ---- */

static void solve(const struct writer *writer, int checkpoints)
{
	for (int checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
		solver.frozen = solver.now;
		writer->start((const char *)solver.grids[solver.now]);
		for (int i = 0; i < solver.steps_between; i++)
			advance();
		writer->await();
		solver.frozen = -1;
	}
}

static void prepare(const struct wish *wish)
{
	struct hanare_attributes attributes;
	char path[4096];

	solver.edge = wish->quick ? 48 : 96;
	solver.steps_between = 10;
	solver.bytes = sizeof(double) * (size_t)solver.edge * (size_t)solver.edge * (size_t)solver.edge;
	for (int i = 0; i < GRIDS; i++) {
		solver.grids[i] = mmap(NULL, solver.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (solver.grids[i] == MAP_FAILED)
			fail("mmap");
		for (size_t j = 0; j < solver.bytes / sizeof(double); j++)
			solver.grids[i][j] = (double)(j % 1009);
	}
	snprintf(path, sizeof(path), "%s/hanare-checkpoint-%d", wish->folder, (int)getpid());
	solver.file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (solver.file < 0)
		fail(path);
	unlink(path);
	/* Usual attributes: between checkpoints the worker sleeps. */
	hanare_attributes_init(&attributes);
	if (hanare_queue_create(&queue, &attributes))
		fail("hanare_queue_create");
}

static void mark(void)
{
	asm volatile(MARK ::: "memory");
}

/* Between two marks if it is counted: ms. */
static double run_with(const struct writer *writer, int is_counted)
{
	uint64_t start;

	if (is_counted)
		mark();
	start = now_ns();
	solve(writer, CHECKPOINTS);
	if (is_counted)
		mark();
	return (double)(now_ns() - start) / 1e6;
}

/* The best of some turns, as all that is measured here. */
static void run(const struct wish *wish, int is_counted)
{
	int turns = is_counted ? 1 : wish->quick ? 5 : 11;
	double best[WRITERS];

	prepare(wish);
	for (unsigned int i = 0; i < WRITERS; i++) {
		solve(&writers[i], 1);
		best[i] = 1e300;
	}
	for (int turn = 0; turn < turns; turn++)
		for (unsigned int i = 0; i < WRITERS; i++) {
			double ms = run_with(&writers[i], is_counted);

			best[i] = ms < best[i] ? ms : best[i];
		}
	for (unsigned int i = 0; i < WRITERS; i++) {
		char id[64];

		snprintf(id, sizeof(id), "checkpoint.%s", writers[i].name);
		report(id, best[i]);
	}
	fflush(stdout);
	_exit(0);
}

/* ms of so many steps and checkpoints, by each way to write them. */
void measure_checkpoints(const struct wish *wish)
{
	run(wish, 0);
}

/* The same between two marks each. */
void count_checkpoints(const struct wish *wish)
{
	run(wish, 1);
}
