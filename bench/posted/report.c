/* What the measured parts share: the clock, reports, and the end where something fails. */
#include "ways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void report(const char *id, double value)
{
	printf("%s %.3f\n", id, value);
	fflush(stdout);
}

void fail(const char *what)
{
	fprintf(stderr, "hanare-bench-posted: %s: %s\n", what, strerror(errno));
	exit(1);
}
