/*
 * madvise(2): what each advice does to private, shared and file-backed memory, and what a fork
 * copies of it.
 */
#include "guest.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static char *anonymous(long pages, int flags)
{
	return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

/* Forks; the child prints what a byte of it says, or how touching it ends. */
static void child_sees(const char *what, char *p)
{
	int status;

	fflush(stdout);
	if (!fork()) {
		printf("child: %s %s", what, touch(p, 0));
		if (!touch_signal)
			printf(" %d", *p);
		puts("");
		exit(0);
	}
	wait(&status);
	touch_signal = 0;
}

int main(void)
{
	int file = open("advise-file", O_RDWR | O_CREAT | O_TRUNC, 0644), readonly;
	char *p = anonymous(16, MAP_PRIVATE), *s = anonymous(8, MAP_SHARED), *f, *g, *big;
	unsigned char vector[16];
	char text[PAGE];
	int hole[2];

	ftruncate(file, 8 * PAGE);
	memset(text, 'f', PAGE);
	for (int i = 0; i < 8; i++)
		pwrite(file, text, PAGE, i * PAGE);
	readonly = open("advise-file", O_RDONLY);
	for (int i = 0; i < 16; i++)
		p[i * PAGE] = 1;
	/* Each advice there is, and some there are not. To merge pages: same-page-merging.c. */
	for (int advice = -1; advice < 30; advice++)
		if (advice != MADV_MERGEABLE && advice != MADV_UNMERGEABLE && advice != MADV_DONTNEED && advice != MADV_REMOVE && advice != MADV_FREE &&
		    advice != MADV_DONTFORK && advice != MADV_WIPEONFORK && advice != MADV_COLLAPSE) {
			printf("%d ", advice);
			TELL(madvise(p, 4 * PAGE, advice));
		}
	TELL(madvise(p, PAGE, 99));
	TELL(madvise(p, PAGE, 102));
	TELL(madvise(p + 1, PAGE, MADV_DONTNEED));
	TELL(madvise(p, -1, MADV_DONTNEED));
	TELL(madvise(p, -PAGE, MADV_DONTNEED));
	TELL(madvise(p, 0, MADV_DONTNEED));
	TELL(madvise(p, 0, 99));
	TELL(madvise((void *)0x10000000000, 0, MADV_DONTNEED));
	TELL(madvise((void *)0x10000000000, PAGE, MADV_DONTNEED));
	TELL(madvise(p, 1, MADV_DONTNEED));
	TELL(p[0] + p[PAGE]);
	TELL(madvise(p, 16 * PAGE, MADV_DOFORK));
	TELL(madvise(p, 16 * PAGE, MADV_KEEPONFORK));
	TELL(madvise(p, 16 * PAGE, MADV_DODUMP));

	/* A hole: what lies on both sides is done all the same. */
	p[0] = p[3 * PAGE] = 9;
	munmap(p + PAGE, PAGE);
	TELL(madvise(p, 4 * PAGE, MADV_DONTNEED));
	TELL(p[0] + p[3 * PAGE]);
	p[0] = p[3 * PAGE] = 9;
	TELL(madvise(p, 4 * PAGE, MADV_WILLNEED));
	TELL(madvise(p, 4 * PAGE, MADV_POPULATE_READ));
	TELL(madvise(p, 4 * PAGE, MADV_DONTFORK));
	TELL(madvise(p, 4 * PAGE, MADV_DOFORK));
	TELL(mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + PAGE);

	/* Memory that Linux has seen: by read() into it, then thrown away, then read again. */
	pread(file, p, 4 * PAGE, 0);
	TELL(p[3 * PAGE]);
	TELL(madvise(p, 4 * PAGE, MADV_DONTNEED));
	TELL(p[0] + p[3 * PAGE]);
	pread(file, p, PAGE, 0);
	pread(file, p + PAGE, PAGE, 0);
	TELL(p[0] + p[PAGE]);
	/* FREE: old or zero, but a write after it stays. */
	TELL(madvise(p, 4 * PAGE, MADV_FREE));
	p[0] = 5;
	TELL(p[0]);
	TELL(madvise(s, PAGE, MADV_FREE));
	f = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	g = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	TELL(madvise(f, PAGE, MADV_FREE));
	TELL(madvise(g, PAGE, MADV_FREE));

	/* DONTNEED of shared memory keeps what is in it, of a private file mapping not. */
	s[0] = 7;
	TELL(madvise(s, PAGE, MADV_DONTNEED));
	TELL(s[0]);
	f[0] = 'F';
	TELL(madvise(f, PAGE, MADV_DONTNEED));
	TELL(f[0]);
	g[PAGE] = 'G';
	TELL(madvise(g, 2 * PAGE, MADV_DONTNEED));
	TELL(g[PAGE]);

	/* REMOVE punches a hole into shared memory only. */
	TELL(madvise(p, PAGE, MADV_REMOVE));
	TELL(madvise(g, PAGE, MADV_REMOVE));
	s[PAGE] = 8;
	TELL(madvise(s, 2 * PAGE, MADV_REMOVE));
	TELL(s[0] + s[PAGE]);
	TELL(madvise(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, readonly, 0), PAGE, MADV_REMOVE));

	/* What a child gets. */
	p[0] = p[PAGE] = p[2 * PAGE] = 3;
	s[0] = 3;
	TELL(madvise(p, PAGE, MADV_WIPEONFORK));
	TELL(madvise(p + PAGE, PAGE, MADV_DONTFORK));
	TELL(madvise(s, PAGE, MADV_WIPEONFORK));
	TELL(madvise(f, PAGE, MADV_WIPEONFORK));
	TELL(madvise(g, PAGE, MADV_WIPEONFORK));
	TELL(madvise(s + PAGE, PAGE, MADV_DONTFORK));
	TELL(madvise(f + PAGE, PAGE, MADV_DONTFORK));
	child_sees("wiped", p);
	child_sees("not copied", p + PAGE);
	child_sees("copied", p + 2 * PAGE);
	child_sees("shared", s);
	child_sees("shared, not copied", s + PAGE);
	child_sees("file", f);
	child_sees("file, not copied", f + PAGE);
	child_sees("file behind it", f + 2 * PAGE);
	TELL(p[0] + p[PAGE]);
	TELL(madvise(p, 2 * PAGE, MADV_KEEPONFORK));
	TELL(madvise(p, 2 * PAGE, MADV_DOFORK));
	TELL(madvise(s, 2 * PAGE, MADV_DOFORK));
	TELL(madvise(f, 2 * PAGE, MADV_DOFORK));
	child_sees("kept", p);
	child_sees("copied again", p + PAGE);
	child_sees("shared again", s + PAGE);
	child_sees("file again", f + PAGE);

	/* POPULATE brings pages in, as rights allow. */
	big = anonymous(16, MAP_PRIVATE);
	TELL(mincore(big, 16 * PAGE, vector) ?: vector[0] & 1);
	TELL(madvise(big, 16 * PAGE, MADV_POPULATE_WRITE));
	TELL(mincore(big, 16 * PAGE, vector) ?: vector[0] & vector[15] & 1);
	mprotect(big, PAGE, PROT_READ);
	TELL(madvise(big, PAGE, MADV_POPULATE_WRITE));
	TELL(madvise(big, PAGE, MADV_POPULATE_READ));
	mprotect(big, PAGE, PROT_NONE);
	TELL(madvise(big, PAGE, MADV_POPULATE_READ));
	TELL(madvise(big, PAGE, MADV_DONTNEED));
	TELL(madvise(f, 8 * PAGE, MADV_POPULATE_WRITE));
	TELL(madvise(f, 8 * PAGE, MADV_POPULATE_READ));
	TELL(madvise(g, 8 * PAGE, MADV_POPULATE_READ));
	ftruncate(file, 4 * PAGE);
	TELL(madvise(f, 8 * PAGE, MADV_POPULATE_READ));
	/* (A private mapping made before keeps its pages on the LWK.) */
	g = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	TELL(madvise(g + 4 * PAGE, 4 * PAGE, MADV_POPULATE_READ));

	/* Locked memory is not thrown away, unless one says so. */
	TELL(mlock(p, PAGE));
	p[0] = 4;
	TELL(madvise(p, PAGE, MADV_DONTNEED));
	TELL(madvise(p, PAGE, MADV_FREE));
	TELL(madvise(p, PAGE, MADV_COLD));
	TELL(madvise(p, PAGE, MADV_PAGEOUT));
	TELL(p[0]);
	TELL(madvise(p, PAGE, MADV_DONTNEED_LOCKED));
	TELL(p[0]);
	/* Large pages: throwing away some of one. */
	big = anonymous(2048, MAP_PRIVATE);
	for (int i = 0; i < 2048; i++)
		big[i * PAGE] = i % 100 + 1;
	TELL(madvise(big + 700 * PAGE, PAGE, MADV_DONTNEED));
	TELL(big[699 * PAGE] * 1000000 + big[700 * PAGE] * 1000 + big[701 * PAGE]);
	TELL(madvise(big, 2048 * PAGE, MADV_NOHUGEPAGE));
	TELL(madvise(big, 2048 * PAGE, MADV_HUGEPAGE));
	TELL(madvise(f, PAGE, MADV_HUGEPAGE));
	/* A system call finds the new page, not the old one. */
	pipe(hole);
	p[PAGE] = 6;
	write(hole[1], p + PAGE, 1);
	TELL(madvise(p + PAGE, PAGE, MADV_DONTNEED));
	write(hole[1], p + PAGE, 1);
	read(hole[0], text, 2);
	TELL(text[0] * 100 + text[1]);
	return 0;
}
