/* mremap: shared memory, flags, what Linux sees of what was moved. */
#include "guest.h"

/* glibc's hands over something or other where there is no MREMAP_FIXED. */
#define mremap(old, size, new_size, flags, ...) \
	((char *)syscall(SYS_mremap, old, size, new_size, flags, ##__VA_ARGS__, 0L))

static char *map(long pages, int flags)
{
	return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
	int file = open("mremap-file", O_RDWR | O_CREAT | O_TRUNC, 0644), pipes[2];
	char *p, *q, *r, *s, *hole = map(64, MAP_PRIVATE), text[8] = "";

	pipe(pipes);
	ftruncate(file, 16 * PAGE);
	pwrite(file, "zero", 4, 0);
	pwrite(file, "two", 3, 2 * PAGE);
	/* Shared anonymous memory: moved whole, in part, grown. */
	p = map(8, MAP_SHARED);
	strcpy(p, "first");
	strcpy(p + 3 * PAGE, "fourth");
	q = TELL_MAP(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, hole));
	TELL(q == hole);
	printf("%s %s\n", q, q + 3 * PAGE);
	TOUCH(p, 0);
	r = map(4, MAP_PRIVATE);
	r = TELL_MAP(mremap(q + 2 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, r));
	printf("%s\n", r + PAGE);
	TOUCH(q + 3 * PAGE, 0);
	TOUCH(q + PAGE, 1);
	TOUCH(q + 4 * PAGE, 1);
	/* Beyond its end it can grow, but there is nothing. */
	mmap(q + 8 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	q = TELL_MAP(mremap(q + 4 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	TOUCH(q + 3 * PAGE, 1);
	TOUCH(q + 4 * PAGE, 1);
	/* Shrinks. */
	TELL(mremap(q, 8 * PAGE, 2 * PAGE, 0) == q);
	TOUCH(q + PAGE, 1);
	TOUCH(q + 2 * PAGE, 1);
	/* old_size 0: another mapping of the same. */
	s = map(4, MAP_SHARED);
	s[0] = 'a';
	q = TELL_MAP(mremap(s, 0, 4 * PAGE, MREMAP_MAYMOVE));
	if (q != MAP_FAILED) {
		TELL(q != s);
		q[1] = 'b';
		TELL(q[0] * 1000 + s[1]);
	}
	TELL_MAP(mremap(s, 0, 4 * PAGE, 0));
	TELL_MAP(mremap(hole + 20 * PAGE, 0, 4 * PAGE, MREMAP_MAYMOVE));
	/* A file: grows in place and elsewhere, twice the same. */
	p = mmap(hole + 12 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	TELL_MAP(mremap(p, 2 * PAGE, 4 * PAGE, 0));
	munmap(p + 2 * PAGE, PAGE);
	p = TELL_MAP(mremap(p, 2 * PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	printf("%s %s\n", p, p + 2 * PAGE);
	q = TELL_MAP(mremap(p, 0, 8 * PAGE, MREMAP_MAYMOVE));
	if (q != MAP_FAILED) {
		strcpy(q + PAGE, "one");
		pread(file, text, 4, PAGE);
		printf("%s %s\n", p + PAGE, text);
	}
	TELL(mremap(p, 8 * PAGE, 4 * PAGE, MREMAP_MAYMOVE) == p);
	TOUCH(p + 4 * PAGE, 0);
	/* A private file mapping with a written page. */
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	strcpy(p, "mine");
	q = TELL_MAP(mremap(p, 4 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, hole + 30 * PAGE));
	printf("%s %s %s\n", q, q + PAGE, q + 2 * PAGE);
	pread(file, text, 5, 0);
	printf("file %.5s\n", text);
	/* DONTUNMAP */
	p = map(8, MAP_PRIVATE);
	p[0] = p[7 * PAGE] = 11;
	TELL_MAP(mremap(p, 8 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0L));
	TELL_MAP(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_DONTUNMAP));
	q = TELL_MAP(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0L));
	if (q != MAP_FAILED)
		TELL(q != p ? q[0] + q[7 * PAGE] : -2);
	TELL(p[0] + p[7 * PAGE]);
	TOUCH(p, 1);
	p[PAGE] = 12;
	q = TELL_MAP(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, hole + 40 * PAGE));
	TELL(hole[41 * PAGE] + p[PAGE]);
	s[2] = 'c';
	q = TELL_MAP(mremap(s, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0L));
	if (q != MAP_FAILED)
		TELL(q[2] + s[2]);
	/* What was seen by Linux and moved: the old place is empty for it, the new one right. */
	p = map(4, MAP_PRIVATE);
	pread(file, p, 4 * PAGE, 0);
	q = mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, hole + 50 * PAGE);
	TELL(write(pipes[1], p, 4));
	TELL(write(pipes[1], q + 2 * PAGE, 4));
	TELL(read(pipes[0], text, 4));
	puts(text);
	TELL(read(file, q, 10));
	/* Large pages to an address that is aligned otherwise. */
	p = map(2048, MAP_PRIVATE);
	for (int i = 0; i < 2048; i++)
		p[i * PAGE] = i % 100;
	q = map(4096, MAP_PRIVATE);
	r = TELL_MAP(mremap(p, 2048 * PAGE, 2048 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + PAGE));
	long sum = 0;
	for (int i = 0; i < 2048; i++)
		sum += r[i * PAGE] == i % 100;
	TELL(sum);
	r = TELL_MAP(mremap(r, 2048 * PAGE, 3000 * PAGE, MREMAP_MAYMOVE));
	TELL(r[2047 * PAGE] + r[2999 * PAGE]);
	/* Rights and locks go with it. */
	p = map(4, MAP_PRIVATE);
	p[0] = 1;
	mprotect(p, 4 * PAGE, PROT_READ);
	q = TELL_MAP(mremap(p, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	TOUCH(q, 1);
	TOUCH(q + 7 * PAGE, 0);
	/* Other pages of the file in a shared mapping; nowhere else. */
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	printf("%s %s\n", p, p + 2 * PAGE);
	TELL(remap_file_pages(p, PAGE, 0, 2, 0));
	TELL(remap_file_pages(p + 2 * PAGE, PAGE, 0, 0, 0));
	printf("%s %s\n", p, p + 2 * PAGE);
	strcpy(p, "TWO");
	TELL(pread(file, text, 4, 2 * PAGE));
	puts(text);
	TELL(write(pipes[1], p + 2 * PAGE, 5));
	TELL(read(pipes[0], text, 5));
	puts(text);
	TELL(remap_file_pages(p, PAGE, PROT_READ, 2, 0));
	TELL(remap_file_pages(p, 5 * PAGE, 0, 2, 0));
	TELL(remap_file_pages(p, 0, 0, 2, 0));
	TELL(remap_file_pages(p, 2 * PAGE, 0, -1, 0));
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	TELL(remap_file_pages(q, PAGE, 0, 2, 0));
	q = map(4, MAP_PRIVATE);
	TELL(remap_file_pages(q, PAGE, 0, 2, 0));
	TELL(remap_file_pages(hole + 60 * PAGE, PAGE, 0, 2, 0));
	TELL_MAP(mremap(p, PAGE, 4 * PAGE, MREMAP_MAYMOVE));
	/* Arguments. */
	p = map(4, MAP_PRIVATE);
	TELL_MAP(mremap(p, 4 * PAGE, -PAGE, MREMAP_MAYMOVE));
	TELL_MAP(mremap(p, 4 * PAGE, 1L << 48, MREMAP_MAYMOVE));
	TELL_MAP(mremap(p, 8L << 40, PAGE, MREMAP_MAYMOVE));
	TELL_MAP(mremap(p, PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, 1));
	TELL_MAP(mremap(p, PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, -PAGE));
	TELL_MAP(mremap(p, 100, 200, 0) == p ? 0 : MAP_FAILED);
	/* The LWK has addresses up to there, Linux some more: neither has anything behind them. */
	hole = (char *)(0x7d0000000000 - (long)p);
	TELL_MAP(mremap(p, (long)hole + 2 * PAGE, (long)hole + PAGE, 0) == p ? 0 : MAP_FAILED);
	TELL_MAP(mremap(p, 4 * PAGE, 4 * PAGE, 0) == p ? 0 : MAP_FAILED);
	return 0;
}
