/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that logs: log MODE FILE [LINES]
 *
 * trap: a write for each line. posted: the write of each line is posted, in order by a key, and the
 * program goes on. function: lines are collected, and a function writes what has been collected.
 * Lines lie in a ring of the program's, which waits where it is full.
 */
#define _GNU_SOURCE
#include "mode.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINES 1024 /* in the ring */
#define WIDTH 96
#define TOGETHER 64

static char lines[LINES][WIDTH];
static hanare_ticket tickets[LINES];
static int fd;

/* Writes all of it: 0, or an error below 0. */
static long write_all(const char *bytes, size_t size)
{
	while (size) {
		ssize_t written = write(fd, bytes, size);

		if (written <= 0)
			return written ? -errno : -EIO;
		bytes += written;
		size -= (size_t)written;
	}
	return 0;
}

static long write_lines(long first, long count)
{
	char bytes[TOGETHER * WIDTH];
	size_t size = 0;

	for (long i = first; i < first + count; i++) {
		size_t length = strlen(lines[i % LINES]);

		memcpy(bytes + size, lines[i % LINES], length);
		size += length;
	}
	return write_all(bytes, size);
}

/* Waits until what was posted with the line at `i` of the ring has been written. */
static void finish(hanare_queue *queue, enum mode mode, long i)
{
	int64_t result;
	int64_t error = hanare_wait(queue, tickets[i], &result, HANARE_FOREVER);
	size_t length = strlen(lines[i]);

	if (!error && result < 0)
		error = result;
	/*
	 * A short write is no error. Other lines may stand behind it already: writing the rest
	 * shows why it was short, and mends nothing.
	 */
	if (!error && mode == POSTED && (size_t)result < length) {
		error = write_all(lines[i] + result, length - (size_t)result);
		error = error ? error : -EIO;
	}
	if (error)
		fail("write", error);
	tickets[i] = 0;
}

int main(int argc, char **argv)
{
	enum mode mode = mode_of(argv[1]);
	long count = argc > 3 ? atol(argv[3]) : 100000, posted = 0, waited = 0;
	hanare_queue *queue = mode == TRAP ? NULL : queue_with(LINES, 1, 0);
	double start;

	if (argc < 3) {
		fprintf(stderr, "usage: log MODE FILE [LINES]\n");
		return 2;
	}
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		fail("open", 0);
	start = now();
	for (long i = 0; i < count; i++) {
		char *line = lines[i % LINES];
		hanare_ticket ticket = 0;
		long error;
		int length;

		/* The line that stood there before has been written. */
		if (tickets[i % LINES]) {
			finish(queue, mode, i % LINES);
			waited++;
		}
		length = snprintf(line, WIDTH, "line %ld of %ld\n", i + 1, count);
		error = mode == TRAP ? write_all(line, (size_t)length) : 0;
		if (error)
			fail("write", error);
		/* One worker executes what has no key in order, too. */
		if (mode == POSTED)
			tickets[i % LINES] = ticket = hanare_submit(queue, SYS_write, fd, line, length);
		if (mode == FUNCTION && (i + 1 - posted == TOGETHER || i + 1 == count)) {
			/* What follows waits for the last line of the function. */
			tickets[posted % LINES] = ticket = hanare_call(queue, 0, write_lines, posted, i + 1 - posted);
			posted = i + 1;
		}
		if (ticket < 0)
			fail("post", ticket);
	}
	start = now() - start;
	for (int i = 0; i < LINES; i++)
		if (tickets[i])
			finish(queue, mode, i);
	printf("%ld lines: %.3f s of the program, %ld waits\n", count, start, waited);
	hanare_queue_destroy(queue);
	return 0;
}
