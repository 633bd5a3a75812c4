/* argv[1] processes that have one memory (CLONE_VM, not as threads), and sleep. */
#include "guest.h"
#include <sched.h>

#define STACK 16384

static int sleeps(void *unused)
{
	for (;;)
		pause();
	return 0;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	char *stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < count; i++)
		if (clone(sleeps, stacks + (size_t)(i + 1) * STACK, CLONE_VM | SIGCHLD, NULL) < 0) {
			perror("clone");
			return 1;
		}
	printf("there\n");
	fflush(stdout);
	for (;;)
		pause();
}
