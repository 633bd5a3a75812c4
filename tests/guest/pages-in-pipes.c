/*
 * One page of each of many large pages is in a pipe (vmsplice); then all are unmapped. Waits to be
 * killed.
 * Usage: pages-in-pipes [COUNT]
 *        pages-in-pipes all MIB MORE   all pages of as many MiB, each MiB unmapped before the next
 *                                      one is mapped; MORE MiB stay mapped
 *        pages-in-pipes into FD...     a MiB into each of these pipes, which have room for it; then
 *                                      ends
 *        pages-in-pipes fork MIB       forks while all pages of as many MiB are in pipes, and again
 *        pages-in-pipes not-inherited  forks beside a large page that is MADV_DONTFORK
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

static void forks(const char *when)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	printf("%s: %s", when, pid < 0 ? strerrorname_np(errno) : "forked");
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status)
		printf(", status %d", status);
	printf("\n");
	fflush(stdout);
}

static int fork_beside_pipes(unsigned long mib)
{
	char *mapped = map(mib << 20);
	int to[64][2];

	for (unsigned long i = 0; i < mib; i++) {
		struct iovec pages = { mapped + (i << 20), PIPE };

		if (pipe(to[i]) || fcntl(to[i][1], F_SETPIPE_SZ, PIPE) != PIPE || vmsplice(to[i][1], &pages, 1, 0) != PIPE)
			return 1;
	}
	forks("in pipes");
	for (unsigned long i = 0; i < mib; i++)
		close(to[i][0]), close(to[i][1]);
	munmap(mapped + LARGE, (mib << 20) - LARGE); /* a page that both have counts twice */
	forks("in none");
	for (unsigned long i = 0; i < LARGE; i += 4096)
		if (mapped[i] != 1)
			return 3;
	return 0;
}

/* KiB of large pages at an address. */
static long large_at(char *at)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long start, end, kib = 0;
	int is_it = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_it = start <= (unsigned long)at && (unsigned long)at < end;
		else if (is_it && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	}
	fclose(maps);
	return kib;
}

static int fork_without(void)
{
	char *mapped = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *large = (char *)(((unsigned long)mapped + LARGE - 1) & ~(LARGE - 1)), *other = map(LARGE);
	struct iovec page = { large + 5 * 4096, 4096 };
	int zero = open("/dev/zero", O_RDONLY), to[2];

	madvise(large, LARGE, MADV_HUGEPAGE);
	madvise(large, LARGE, MADV_DONTFORK);
	/* Linux has both for writing: more than a fork copies at once. */
	if (read(zero, large, LARGE) != LARGE || read(zero, other, LARGE) != LARGE)
		return 1;
	if (pipe(to) || vmsplice(to[1], &page, 1, 0) != 4096)
		return 2;
	printf("before: %ld KiB\n", large_at(large));
	forks("not inherited");
	printf("after: %ld KiB\n", large_at(large));
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

	if (argc > 2 && !strcmp(argv[1], "fork"))
		return fork_beside_pipes(atol(argv[2]));
	if (argc > 1 && !strcmp(argv[1], "not-inherited"))
		return fork_without();

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
