/*
 * Threads and children inherit the CPU affinity: which CPUs they ran on and which they may use.
 * The group `command` starts it with `hanare run --cpus` and with taskset.
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>

static unsigned long *seen, wanted;

static void *runs(void *argument)
{
	time_t end = time(NULL) + 2, late = end + 100;

	/* Two seconds, and until each CPU that they may use was seen, as one may stand still. */
	while (time(NULL) < end || ((__atomic_load_n(seen, __ATOMIC_RELAXED) & wanted) != wanted && time(NULL) < late))
		__atomic_or_fetch(seen, 1ul << sched_getcpu(), __ATOMIC_RELAXED);
	return argument;
}

int main(void)
{
	cpu_set_t allowed;
	pthread_t threads[4];
	pid_t child;

	seen = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	wanted = allowed.__bits[0];
	child = fork();
	for (int i = 0; i < 4; i++)
		pthread_create(threads + i, NULL, runs, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	if (!child)
		return 0;
	waitpid(child, NULL, 0);
	printf("ran on %#lx, may run on %#lx\n", *seen, allowed.__bits[0]);
	return 0;
}
