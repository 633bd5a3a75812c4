/*
 * Dies by a signal that makes a core dump, with as many mappings of one page as are asked for, once
 * it is told to.
 */
#include "guest.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 8400;
	char *region = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	setrlimit(RLIMIT_CORE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
	memset(region, 1, count * PAGE);
	for (long i = 0; i < count; i += 2)
		if (mprotect(region + i * PAGE, PAGE, PROT_READ))
			return perror("mprotect"), 1;
	printf("ready\n");
	fflush(stdout);
	getchar();
	abort();
}
