/*
 * One page of each of many large pages is in a pipe (vmsplice); then all are unmapped. Waits to be killed.
 * Usage: pages-in-pipes [COUNT]
 */
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define LARGE (2UL << 20)

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? atol(argv[1]) : 1, i;
	char *mapped = mmap(NULL, (count + 1) * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *first = (char *)(((unsigned long)mapped + LARGE - 1) & ~(LARGE - 1));
	int to[2] = {};

	madvise(mapped, (count + 1) * LARGE, MADV_HUGEPAGE);
	for (i = 0; i < count; i++) {
		struct iovec page = { first + i * LARGE + 5 * 4096, 4096 };

		if (i % 8 == 0 && pipe(to))
			return 1;
		*(char *)page.iov_base = 1;
		if (vmsplice(to[1], &page, 1, 0) != 4096)
			return 2;
	}
	munmap(mapped, (count + 1) * LARGE);
	printf("%lu pages\n", i);
	fflush(stdout);
	pause();
	return 0;
}
