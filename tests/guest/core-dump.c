/*
 * Dumps core in a function `innermost`, while another thread sleeps in `waiting`, for gdb to find.
 * Usage: core-dump segv|abort|quit
 */
#include "guest.h"
#include <pthread.h>

struct thing {
	int number;
	const char *text;
	double fraction;
};

static struct thing global = { 17, "seventeen", 0.25 };
static int *volatile nowhere;
static char *volatile heap;

static volatile int begun;

static void *waiting(void *unused)
{
	begun = 1;
	sleep(1000);
	return NULL;
}

__attribute__((noinline)) static int innermost(struct thing *thing, const char *how)
{
	heap = malloc(100000);
	strcpy(heap, "on the heap");
	/* A reader of the dump finds the thread in this function. */
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "quit"))
		for (;;)
			*(volatile int *)&thing->number;
	*nowhere = thing->number;
	return heap[0];
}

__attribute__((noinline)) static int middle(const char *how)
{
	return innermost(&global, how) + 1;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_CORE, &limit);
	pthread_create(&thread, NULL, waiting, NULL);
	while (!begun)
		usleep(1000);
	return middle(argc > 1 ? argv[1] : "segv");
}
