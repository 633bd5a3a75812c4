/*
 * Pages that a child shares and that no process may write are discarded (MADV_DONTNEED) while
 * another thread reads them all the time. Each call ends, and what was discarded is zero.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 20, PAGES = 4, SMALL = 4096 };

static volatile char *pages;
static atomic_int ends;

static void *read_all(void *unused)
{
	while (!ends)
		for (int i = 0; i < PAGES; i++)
			(void)pages[i * SMALL];
	return unused;
}

int main(void)
{
	size_t bytes = PAGES * SMALL;
	pthread_t reader;

	alarm(200);
	pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || pthread_create(&reader, NULL, read_all, NULL))
		return 1;
	for (int round = 0; round < ROUNDS; round++) {
		pid_t child;

		if (mprotect((void *)pages, bytes, PROT_READ | PROT_WRITE))
			return 2;
		memset((void *)pages, 'x', bytes);
		child = fork();
		if (child == 0) {
			pause();
			_exit(0);
		}
		if (child < 0 || mprotect((void *)pages, bytes, PROT_READ))
			return 3;
		usleep(1000);
		if (madvise((void *)pages, bytes, MADV_DONTNEED))
			return 4;
		for (int i = 0; i < PAGES; i++)
			if (pages[i * SMALL])
				return 5;
		kill(child, SIGKILL);
		if (waitpid(child, NULL, 0) != child)
			return 6;
	}
	ends = 1;
	pthread_join(reader, NULL);
	printf("%d times discarded\n", ROUNDS);
	return 0;
}
