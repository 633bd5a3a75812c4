/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What happens while the library starts its worker, which takes 50 ms where it is asked to be slow:
 * starts CASE. The first thread opens a file, for which the library makes a thread. The second
 * thread writes another file in the middle of that. CASE: "slow", the thread is made; "fails",
 * there is no address space for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static atomic_int is_prepared, has_begun;

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

static int writes(const char *name)
{
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int errors = file < 0;

	for (int i = 0; i < 10; i++)
		errors += write(file, "some text\n", 10) != 10;
	return errors + (close(file) != 0);
}

static void *second(void *none)
{
	free(malloc(100)); /* its memory is there before there is no more */
	atomic_store(&has_begun, 1);
	while (!atomic_load(&is_prepared))
		nap();
	/* The library begins when the first thread's file is open. */
	for (int i = 0; i < 1000 && access("first", F_OK); i++)
		nap();
	printf("second: %d errors\n", writes("second"));
	return none;
}

/* No more than a little address space is left: not enough for the library's buffer. */
static int limit(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	struct rlimit limit;

	if (!file || fscanf(file, "%ld", &pages) != 1 || fclose(file))
		return -1;
	limit.rlim_cur = pages * 4096 + (2 << 20);
	limit.rlim_max = RLIM_INFINITY;
	return setrlimit(RLIMIT_AS, &limit);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	printf("starts\n");
	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	while (!atomic_load(&has_begun))
		nap();
	if (argc > 1 && !strcmp(argv[1], "fails") && limit())
		return 2;
	atomic_store(&is_prepared, 1);
	printf("first: %d errors\n", writes("first"));
	pthread_join(thread, NULL);
	printf("first: %d errors\n", writes("again"));
	return 0;
}
