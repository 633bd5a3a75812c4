/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A solver that writes checkpoints: checkpoint MODE FILE [SIDE] [STEPS] [EVERY]
 *
 * It relaxes a square of numbers. Every so many steps the square is saved. trap: the solver writes,
 * and waits for the disk. posted: it copies the square and posts writes and an fsync, in order by a
 * key; each has a ticket, because a write may be short. function: it copies, and posts one function
 * that does the rest. Prints how long it computed, and how long it was kept from that.
 */
#define _GNU_SOURCE
#include "mode.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK (1UL << 20) /* bytes of a posted write, or more where there would be too many */
#define CHUNKS_MAX 32UL

struct checkpoint {
	int fd;
	char *bytes;
	size_t size;
	/* What is posted of it: writes, then an fsync; or one function. */
	hanare_ticket tickets[CHUNKS_MAX + 1];
	size_t posted;
};

static int save(struct checkpoint *checkpoint)
{
	for (size_t at = 0; at < checkpoint->size;) {
		ssize_t written = pwrite(checkpoint->fd, checkpoint->bytes + at, checkpoint->size - at, (off_t)at);

		if (written <= 0)
			return written ? -errno : -EIO;
		at += (size_t)written;
	}
	return fsync(checkpoint->fd) ? -errno : 0;
}

static size_t chunk_of(const struct checkpoint *checkpoint)
{
	size_t size = (checkpoint->size + CHUNKS_MAX - 1) / CHUNKS_MAX;

	return size > CHUNK ? size : CHUNK;
}

static void posted(struct checkpoint *checkpoint, hanare_ticket ticket)
{
	if (ticket < 0)
		fail("post", ticket);
	checkpoint->tickets[checkpoint->posted++] = ticket;
}

/* Key 1: the calls of a checkpoint are made in order. */
static void post(hanare_queue *queue, struct checkpoint *checkpoint)
{
	const uint64_t flags = HANARE_KEY(1) | HANARE_BLOCK;
	const size_t chunk = chunk_of(checkpoint);

	for (size_t at = 0; at < checkpoint->size; at += chunk) {
		size_t size = checkpoint->size - at < chunk ? checkpoint->size - at : chunk;

		posted(checkpoint, hanare_submit(queue, SYS_pwrite64 | flags, checkpoint->fd, checkpoint->bytes + at, size, at));
	}
	posted(checkpoint, hanare_submit(queue, SYS_fsync | flags, checkpoint->fd));
}

static void relax(const double *from, double *to, size_t side)
{
	for (size_t y = 1; y + 1 < side; y++)
		for (size_t x = 1; x + 1 < side; x++) {
			const double *at = from + y * side + x;

			to[y * side + x] = (at[-1] + at[1] + at[-(ptrdiff_t)side] + at[side]) / 4;
		}
}

static void finish(hanare_queue *queue, enum mode mode, struct checkpoint *checkpoint)
{
	size_t written = 0;
	int error;

	for (size_t i = 0; i < checkpoint->posted; i++) {
		int64_t result;

		error = hanare_wait(queue, checkpoint->tickets[i], &result, HANARE_FOREVER);
		/* Functions return an int. */
		if (!error && mode == FUNCTION)
			result = (int)result;
		if (error || result < 0)
			fail("save", error ? error : result);
		written += (size_t)result;
	}
	/* A short write is no error: writing again tells why it was short, or succeeds. */
	if (mode == POSTED && checkpoint->posted && written != checkpoint->size) {
		error = save(checkpoint);
		if (error)
			fail("save", error);
	}
	checkpoint->posted = 0;
}

int main(int argc, char **argv)
{
	enum mode mode = mode_of(argv[1]);
	size_t side = argc > 3 ? (size_t)atol(argv[3]) : 1024, size = side * side * sizeof(double);
	int steps = argc > 4 ? atoi(argv[4]) : 200, every = argc > 5 ? atoi(argv[5]) : 50, saved = 0;
	double *grids[2], kept = 0, start;
	struct checkpoint checkpoint = { .size = size };
	hanare_queue *queue = mode == TRAP ? NULL : queue_with(64, 1, 0);

	if (argc < 3 || side < 3 || every < 1) {
		fprintf(stderr, "usage: checkpoint MODE FILE [SIDE] [STEPS] [EVERY]\n");
		return 2;
	}
	checkpoint.fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (checkpoint.fd < 0)
		fail("open", 0);
	for (int i = 0; i < 2; i++) {
		grids[i] = calloc(side * side, sizeof(double));
		for (size_t x = 0; x < side; x++)
			grids[i][x] = 1;
	}
	checkpoint.bytes = malloc(size);
	memset(checkpoint.bytes, 0, size);
	start = now();
	for (int step = 1; step <= steps; step++) {
		double before;
		int error;

		relax(grids[step % 2 ? 0 : 1], grids[step % 2], side);
		if (step % every)
			continue;
		before = now();
		/* The one before has to be on the disk: its bytes are in use until then. */
		finish(queue, mode, &checkpoint);
		memcpy(checkpoint.bytes, grids[step % 2], size);
		error = mode == TRAP ? save(&checkpoint) : 0;
		if (error)
			fail("save", error);
		if (mode == POSTED)
			post(queue, &checkpoint);
		if (mode == FUNCTION)
			posted(&checkpoint, hanare_call(queue, 0, save, &checkpoint));
		saved++;
		kept += now() - before;
	}
	start = now() - start - kept;
	finish(queue, mode, &checkpoint);
	printf("%d checkpoints of %zu bytes: computed %.3f s, kept from it %.3f s (%.1f %%)\n", saved, size, start, kept,
	       100 * kept / (start + kept));
	hanare_queue_destroy(queue);
	return 0;
}
