/*
 * Memory that a control group is charged for.
 * Usage: cgroup-charges forks MIB N     N children read MIB that the parent has touched: charged
 *                                       once
 *        cgroup-charges copies MIB N    N children write to it: each copy is charged
 *        cgroup-charges reads PATH      reads a private mapping of the whole file
 *        cgroup-charges writes PATH     writes to it
 *        cgroup-charges grows           touches as many MiB more as each line of standard input
 *                                       says
 *        cgroup-charges computes N      N threads compute for as many ms as each line of its input
 *                                       says; it says how much CPU time they had, and the one that
 *                                       had least
 *        cgroup-charges owes MIB N      N threads compute for ever, after the first one has spent
 *                                       much time in one system call
 */
#include "guest.h"
#include <pthread.h>

static char *touched(long mib)
{
	char *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (long at = 0; at < mib << 20; at += PAGE)
		p[at] = 1;
	return p;
}

/* All of them have it at the same time. */
static int forks(long mib, int children, int writes)
{
	volatile char *p = touched(mib);
	int go[2], ready[2], status, sum = 0, failed = 0;
	char byte;

	pipe(go);
	pipe(ready);
	for (int i = 0; i < children; i++) {
		if (fork())
			continue;
		close(go[1]);
		for (long at = 0; at < mib << 20; at += PAGE) {
			if (writes)
				p[at]++;
			sum += p[at];
		}
		write(ready[1], "x", 1);
		read(go[0], &byte, 1);
		_exit(sum != (mib << 20) / PAGE * (1 + writes));
	}
	close(ready[1]);
	for (int i = 0; i < children; i++)
		read(ready[0], &byte, 1);
	close(go[1]);
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%d failed\n", failed);
	return failed != 0;
}

static int maps(const char *path, int writes)
{
	int fd = open(path, O_RDONLY);
	long size = lseek(fd, 0, SEEK_END), sum = 0;
	volatile char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	for (long at = 0; at < size; at += PAGE)
		sum += p[at];
	if (writes) {
		mprotect((void *)p, size, PROT_READ | PROT_WRITE);
		for (long at = 0; at < size; at += PAGE)
			p[at]++;
	}
	printf("%ld pages, sum %ld\n", size / PAGE, sum);
	return 0;
}

static int grows(void)
{
	char line[32];
	long has = 0;

	while (fgets(line, sizeof(line), stdin)) {
		touched(atol(line));
		has += atol(line);
		printf("%ld MiB\n", has);
		fflush(stdout);
	}
	return 0;
}

static long us_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void *compute_until(void *end)
{
	volatile long x = 0;

	while (us_of(CLOCK_MONOTONIC) < *(long *)end)
		for (int i = 0; i < 2000; i++)
			x += i;
	return NULL;
}

static long least; /* CPU time of the thread that had least, us */

static void *compute_and_tell(void *end)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	long had = us_of(CLOCK_THREAD_CPUTIME_ID);

	compute_until(end);
	had = us_of(CLOCK_THREAD_CPUTIME_ID) - had;
	pthread_mutex_lock(&lock);
	if (had < least)
		least = had;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int computes(int threads)
{
	pthread_t others[16];
	char line[32];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long had = us_of(CLOCK_PROCESS_CPUTIME_ID), start = us_of(CLOCK_MONOTONIC), end = start + 1000 * atol(line);

		least = LONG_MAX;
		for (int i = 1; i < threads; i++)
			pthread_create(&others[i], NULL, compute_and_tell, &end);
		compute_and_tell(&end);
		for (int i = 1; i < threads; i++)
			pthread_join(others[i], NULL);
		had = us_of(CLOCK_PROCESS_CPUTIME_ID) - had;
		printf("%ld us of %ld, least %ld\n", had, us_of(CLOCK_MONOTONIC) - start, least);
		fflush(stdout);
	}
	return 0;
}

static int owes(long mib, int threads)
{
	long end = LONG_MAX;
	pthread_t other;
	char line[32];

	for (int i = 1; i < threads; i++)
		pthread_create(&other, NULL, compute_until, &end);
	printf("ready\n");
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	compute_until(&end);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "forks"))
		return forks(atol(argv[2]), atoi(argv[3]), 0);
	if (argc == 4 && !strcmp(argv[1], "copies"))
		return forks(atol(argv[2]), atoi(argv[3]), 1);
	if (argc == 3 && !strcmp(argv[1], "reads"))
		return maps(argv[2], 0);
	if (argc == 3 && !strcmp(argv[1], "writes"))
		return maps(argv[2], 1);
	if (argc == 2 && !strcmp(argv[1], "grows"))
		return grows();
	if (argc == 3 && !strcmp(argv[1], "computes"))
		return computes(atoi(argv[2]));
	if (argc == 4 && !strcmp(argv[1], "owes"))
		return owes(atol(argv[2]), atoi(argv[3]));
	return 2;
}
