/*
 * One page of each of many large pages is in a pipe (vmsplice); then all are unmapped. Waits to be killed.
 * Usage: pages-in-pipes [COUNT]
 *        pages-in-pipes all MIB MORE   all pages of as many MiB, each MiB unmapped before the next one is mapped; MORE MiB
 *                                      stay mapped
 *        pages-in-pipes into FD...     a MiB into each of these pipes, which have room for it; then ends
 */
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define LARGE (2UL << 20)

#define PIPE (1UL << 20)

static char *map(unsigned long bytes)
{
	char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		exit(1);
	memset(mapped, 1, bytes);
	return mapped;
}

static void fill(int to)
{
	struct iovec pages = { map(PIPE), PIPE };

	if (vmsplice(to, &pages, 1, 0) != PIPE)
		exit(2);
	munmap(pages.iov_base, PIPE);
}

static int all_pages(unsigned long mib, unsigned long more)
{
	for (unsigned long i = 0; i < mib; i++) {
		int to[2];

		if (pipe(to) || fcntl(to[1], F_SETPIPE_SZ, PIPE) != PIPE)
			return 1;
		fill(to[1]);
	}
	map(more << 20);
	printf("%lu MiB\n", mib);
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "all"))
		return all_pages(atol(argv[2]), atol(argv[3]));
	if (argc > 1 && !strcmp(argv[1], "into")) {
		for (char **to = argv + 2; *to; to++)
			fill(atoi(*to));
		return 0;
	}

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
