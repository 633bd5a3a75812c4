/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What happens while the library starts its worker: starts CASE. The first thread opens a file, for which the library makes a thread.
 * The second thread writes another file in the middle of that. CASE: "slow", the thread is made; "fails", it cannot be made.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int is_prepared, is_in_the_middle, has_written;
static const char *which;

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

/* The C library's, and that which the preloaded library calls. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	if (!atomic_load(&is_prepared))
		return real(thread, attributes, run, argument);
	atomic_store(&is_in_the_middle, 1);
	for (int i = 0; i < 1000 && !atomic_load(&has_written); i++)
		nap();
	return strcmp(which, "fails") ? real(thread, attributes, run, argument) : EAGAIN;
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
	for (int i = 0; i < 100 && !atomic_load(&is_in_the_middle); i++)
		nap();
	printf("second: %d errors\n", writes("second"));
	atomic_store(&has_written, 1);
	return none;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	which = argc > 1 ? argv[1] : "";
	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	atomic_store(&is_prepared, 1);
	printf("first: %d errors\n", writes("first"));
	pthread_join(thread, NULL);
	printf("first: %d errors\n", writes("again"));
	return 0;
}
