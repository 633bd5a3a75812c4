/*
 * Threads that count in a shared file mapping and make no system call.
 * Usage: computing-threads FILE COUNT
 */
#include "guest.h"
#include <pthread.h>

static volatile uint64_t *count;

static void *counting(void *unused)
{
	for (;;)
		__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);

	ftruncate(fd, 4096);
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	printf("ready\n");
	fflush(stdout);
	for (int i = 1; i < atoi(argv[2]); i++)
		pthread_create(&thread, NULL, counting, NULL);
	counting(NULL);
}
