/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the examples share: three ways of doing the same, and the time. */
#ifndef MODE_H
#define MODE_H

#include <errno.h>
#include <hanare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum mode {
	TRAP, /* calls as ever */
	POSTED, /* each call is posted */
	FUNCTION, /* what belongs together is a function, which is posted */
};

static inline void fail(const char *what, int64_t error)
{
	fprintf(stderr, "cannot %s: %s\n", what, strerror(error < 0 ? (int)-error : errno));
	exit(1);
}

static inline enum mode mode_of(const char *name)
{
	static const char *const names[] = { "trap", "posted", "function" };

	for (int i = 0; i < 3; i++)
		if (name && strcmp(name, names[i]) == 0)
			return (enum mode)i;
	fprintf(stderr, "the mode is one of: trap, posted, function\n");
	exit(2);
}

static inline hanare_queue *queue_with(uint32_t depth, uint32_t workers, uint32_t flags)
{
	struct hanare_attributes attributes;
	hanare_queue *queue;
	int error;

	hanare_attributes_init(&attributes);
	attributes.depth = depth;
	attributes.workers_min = attributes.workers_max = workers;
	attributes.flags = flags;
	error = hanare_queue_create(&queue, &attributes);
	if (error)
		fail("make a queue", error);
	return queue;
}

static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#endif
