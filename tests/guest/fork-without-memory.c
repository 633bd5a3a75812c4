/*
 * A fork fails half way for lack of memory (ENOMEM); a later one succeeds. What Linux writes to the
 * parent's memory after that is not the child's. Made for the LWK: Linux has too much memory.
 */
#include "guest.h"
#include <sys/sysinfo.h>

#define PAGES 6000L
#define APART (2L << 20) /* each has a page table of its own, in a child, too */
#define STEP (1L << 20)

static int zero;

static char *page(long i)
{
	return (char *)0x100000000000 + i * APART;
}

static void map(char *at, long bytes)
{
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) != at) {
		printf("mmap: %s\n", strerrorname_np(errno));
		exit(1);
	}
}

/* Linux writes to all of them. */
static void receive(void)
{
	struct iovec parts[1000];

	for (long i = 0; i < PAGES;) {
		int n = 0;

		for (; n < 1000 && i < PAGES; i++)
			parts[n++] = (struct iovec){ page(i), 1 };
		if (readv(zero, parts, n) != n)
			printf("readv: %s\n", strerrorname_np(errno));
	}
}

/* Bytes that are free beyond those that it takes to fork at all. */
static long spare(void)
{
	struct sysinfo info;

	sysinfo(&info);
	return ((long)info.freeram - (long)info.totalram / 16) * info.mem_unit;
}

int main(void)
{
	char *eaten = (char *)0x200000000000, *top = eaten, *one = page(100), byte = 0;
	int go[2], text[2];
	pid_t pid;

	zero = open("/dev/zero", O_RDONLY);
	for (long i = 0; i < PAGES; i++)
		map(page(i), PAGE);
	receive();
	/*
	 * Until a child has no room for its page tables. A fork that has none gets the LWK to ask
	 * Linux about pages that it may have let go since, of programs before this one: those are
	 * free only then, and are to be used up, too.
	 */
	for (int tries = 0; tries < 3; tries++) {
		for (; spare() > 4 * STEP; top += STEP) {
			map(top, STEP);
			for (long at = 0; at < STEP; at += PAGE)
				top[at] = 1;
		}
		pid = fork();
		if (pid < 0)
			break;
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	printf("refused: %s\n", pid < 0 ? strerrorname_np(errno) : "no");
	fflush(stdout);
	munmap(eaten, top - eaten);
	/* Not of interest: what that one did not get to, and what it copied at once. */
	for (long i = 0; i < PAGES; i++)
		if (i < 64 || i > PAGES / 4)
			munmap(page(i), PAGE);

	pipe(go);
	pipe(text);
	write(text[1], "after", 6);
	pid = fork();
	if (!pid) {
		read(go[0], &byte, 1);
		printf("child %s\n", *one ? one : "before");
		fflush(stdout);
		_exit(0);
	}
	read(text[0], one, 6);
	printf("parent %s, ", one);
	fflush(stdout);
	write(go[1], "g", 1);
	waitpid(pid, NULL, 0);
	return 0;
}
