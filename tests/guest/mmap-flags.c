/* Flags of mmap, and memory that is promised but not there (MAP_NORESERVE). */
#include "guest.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#define HUGE_2M (21 << MAP_HUGE_SHIFT)
#define HUGE_1G (30 << MAP_HUGE_SHIFT)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static void *map(long bytes, int prot, int flags)
{
	return mmap(NULL, bytes, prot, flags | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
	char *p, *q, *low = map(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int file = open("mapflags-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	int status;

	ftruncate(file, 4 * PAGE);
	munmap(low, 1 << 20);
	/* A mapping that grows down. */
	p = mmap(low + (512 << 10), 4 * PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	TELL(p == low + (512 << 10));
	TOUCH(p, 1);
	TOUCH(p - 1, 1);
	TOUCH(p - 3 * PAGE, 1);
	TELL(munmap(p - 3 * PAGE, 7 * PAGE));
	p = mmap(low + (512 << 10), 4 * PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	q = mmap(p - 8 * PAGE, PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED, -1, 0);
	TOUCH(p - 1, 1);
	TELL(munmap(p, 4 * PAGE));
	TELL(munmap(q, PAGE));
	p = mmap(low + (512 << 10), 4 * PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	TELL(read(open("/dev/zero", O_RDONLY), p - PAGE, PAGE));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP | PROT_GROWSDOWN));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, file, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));

	/* Fixed, but not over anything. */
	p = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	TELL_MAP(mmap(p + PAGE, PAGE, PROT_READ, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0));
	TELL_MAP(mmap(p - PAGE, 2 * PAGE, PROT_READ, PRIVATE | MAP_FIXED_NOREPLACE | MAP_FIXED, -1, 0));
	munmap(p + PAGE, 2 * PAGE);
	TELL(mmap(p + PAGE, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0) == p + PAGE);
	TELL_MAP(mmap(p + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0));
	TELL_MAP(mmap(p + 1, PAGE, PROT_READ, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0));
	/* Types and unknown flags. */
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS | 4, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_SHARED_VALIDATE, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE, file, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x10000000, file, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | 0x10000000, file, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, PRIVATE | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_NONBLOCK, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, PRIVATE | MAP_32BIT, -1, 0));
	p = mmap(NULL, PAGE, PROT_READ, PRIVATE | MAP_32BIT, -1, 0);
	TELL((uintptr_t)p < 1UL << 32);
	TELL_MAP(mmap(NULL, PAGE, PROT_READ | 0x1000, PRIVATE, -1, 0));
	TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, file, -PAGE));
	TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, file, 1UL << 62));
	/* A wish where something is goes elsewhere. */
	p = map(PAGE, PROT_READ, MAP_PRIVATE);
	q = mmap(p, PAGE, PROT_READ, PRIVATE, -1, 0);
	TELL(q != p && q != MAP_FAILED);
	q = mmap((void *)0x1000, PAGE, PROT_READ, PRIVATE, -1, 0);
	TELL((uintptr_t)q >= 0x10000);

	/* Sparse memory: much more than there is. */
	p = TELL_MAP(map(1L << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE));
	if (p != MAP_FAILED) {
		p[0] = 1;
		p[1L << 39] = 2;
		p[(1L << 40) - 1] = 3;
		TELL(p[0] + p[1L << 39] + p[(1L << 40) - 1]);
		TELL(munmap(p, 1L << 40));
	}
	p = TELL_MAP(map(1L << 42, PROT_NONE, MAP_PRIVATE));
	TELL(mprotect(p + (1L << 41), 16 * PAGE, PROT_READ | PROT_WRITE));
	TOUCH(p + (1L << 41), 1);
	TOUCH(p + (1L << 41) + 16 * PAGE, 1);
	TELL(munmap(p, 1L << 42));
	TELL_MAP(map(1L << 46, PROT_READ | PROT_WRITE, MAP_PRIVATE));
	p = TELL_MAP(map(1L << 36, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE));
	if (p != MAP_FAILED) {
		p[1L << 35] = 2;
		TELL(p[1L << 35]);
		munmap(p, 1L << 36);
	}
	/* The limit of the address space. */
	if (!fork()) {
		struct rlimit limit = { 1L << 30, 1L << 30 };

		TELL(setrlimit(RLIMIT_AS, &limit));
		TELL_MAP(map(2L << 30, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE));
		p = TELL_MAP(map(512 << 20, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE));
		TELL_MAP(map(512 << 20, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE));
		TELL_MAP(map(512 << 20, PROT_NONE, MAP_SHARED | MAP_NORESERVE));
		TELL_MAP(mmap(p, 512 << 20, PROT_NONE, PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0));
		TELL_MAP(mremap(p, 512 << 20, 1L << 30, MREMAP_MAYMOVE));
		TELL(brk((char *)sbrk(0) + (1L << 30)));
		TELL_MAP(malloc(1 << 30) ? 0 : MAP_FAILED);
		/* What the limit allows still works, in a child as well. */
		fflush(stdout);
		if (!fork()) {
			TELL_MAP(map(64 << 20, PROT_READ | PROT_WRITE, MAP_SHARED));
			TELL_MAP(map(1L << 30, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE));
			TELL(getrlimit(RLIMIT_AS, &limit) ?: limit.rlim_cur >> 20);
			limit.rlim_cur = 2L << 30;
			TELL(setrlimit(RLIMIT_AS, &limit));
			limit.rlim_max = limit.rlim_cur;
			TELL(setuid(65534));
			TELL(setrlimit(RLIMIT_AS, &limit));
			TELL(getrlimit(RLIMIT_AS, &limit) ?: limit.rlim_max >> 20);
			TELL(setrlimit(RLIMIT_AS, (void *)0x10000000000));
			exit(0);
		}
		wait(&status);
		exit(status);
	}
	wait(&status);
	TELL(status);
	/* The limit of data. */
	if (!fork()) {
		struct rlimit limit = { 64 << 20, 64 << 20 };

		TELL(setrlimit(RLIMIT_DATA, &limit));
		TELL_MAP(map(128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE));
		TELL_MAP(map(128 << 20, PROT_READ, MAP_PRIVATE));
		p = TELL_MAP(map(128 << 20, PROT_READ | PROT_WRITE, MAP_SHARED));
		p = map(128 << 20, PROT_READ, MAP_PRIVATE);
		TELL(mprotect(p, 128 << 20, PROT_READ | PROT_WRITE));
		TELL(brk((char *)sbrk(0) + (128 << 20)));
		exit(0);
	}
	wait(&status);
	TELL(status);
	/* Rights: none, only execution, only writing. */
	p = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memcpy(p, "\xb8\x2a\0\0\0\xc3", 6);
	TELL(mprotect(p, PAGE, PROT_EXEC));
	TELL(((int (*)(void))p)());
	/* (Whether it can be read depends on the CPU's protection keys.) */
	TELL(mprotect(p + PAGE, PAGE, PROT_WRITE));
	TOUCH(p + PAGE, 1);
	TELL(mprotect(p, PAGE, PROT_NONE));
	TOUCH(p, 0);
	TELL(write(1, p, 1));
	TELL(mprotect(p, PAGE, PROT_READ));
	TELL(p[1]);
	/* Linux sees a page, loses and gets rights to it. */
	int pipes[2];
	char *seen = map(600 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	pipe(pipes);
	seen[0] = 'a';
	TELL(write(pipes[1], seen, 1));
	TELL(mprotect(seen, PAGE, PROT_NONE));
	TELL(write(pipes[1], seen, 1));
	TELL(mprotect(seen, PAGE, PROT_READ));
	TELL(write(pipes[1], seen, 1));
	TELL(read(pipes[0], seen, 1));
	TELL(mprotect(seen, PAGE, PROT_READ | PROT_WRITE));
	TELL(read(pipes[0], seen, 1));
	TELL(seen[0]);
	for (int i = 0; i < 5; i++) {
		mprotect(seen, 600 * PAGE, PROT_READ);
		mprotect(seen, 600 * PAGE, PROT_READ | PROT_WRITE);
		seen[i * 100 * PAGE] = i;
	}
	TELL(seen[400 * PAGE]);
	/* Of shared memory there is what was touched, and no more. */
	for (int of_file = 0; of_file < 2; of_file++) {
		char name[] = "/tmp/sparse-XXXXXX";
		int file = of_file ? mkstemp(name) : -1, there = 0;
		struct stat info = { 0 };
		unsigned char in_core[64];
		char *sparse;

		unlink(name);
		ftruncate(file, 64 * PAGE);
		sparse = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | (of_file ? 0 : MAP_ANONYMOUS), file, 0);
		for (int i = 0; i < 3; i++)
			sparse[(i * 20 + i) * PAGE] = 1;
		memset(sparse + 50 * PAGE, 1, 4 * PAGE);
		msync(sparse, 64 * PAGE, MS_SYNC);
		mincore(sparse, 64 * PAGE, in_core);
		for (int i = 0; i < 64; i++)
			there += in_core[i] & 1;
		fstat(file, &info);
		printf("%d pages of 64, %ld blocks\n", there, (long)info.st_blocks);
		memset(sparse, 2, 64 * PAGE);
		mincore(sparse, 64 * PAGE, in_core);
		for (int i = there = 0; i < 64; i++)
			there += in_core[i] & 1;
		printf("%d pages of 64\n", there);
		munmap(sparse, 64 * PAGE);
	}
	/* A descriptor that is not open comes before other errors. */
	TELL_MAP(mmap(NULL, 0, PROT_READ, MAP_SHARED, 77, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, 0, 77, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, 77, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, 77, 1));
	TELL_MAP(mmap(NULL, 1UL << 60, PROT_READ, MAP_SHARED, 77, 0));
	TELL_MAP(mmap(NULL, 0, PROT_READ, MAP_SHARED, pipes[0], 0));
	TELL_MAP(mmap(NULL, 0, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, 77, 0));
	/* Protection keys of a CPU without them, and calls that are not there. */
	TELL(syscall(SYS_pkey_alloc, 1, 0) == -1);
	TELL(syscall(SYS_pkey_mprotect, seen, PAGE, PROT_READ, -1));
	TELL(syscall(SYS_pkey_mprotect, seen, PAGE, PROT_READ, 3));
	TELL(syscall(462, seen, PAGE, 0));
	return 0;
}
