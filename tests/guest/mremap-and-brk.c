/* mremap of private and of file mappings, and brk. */
#include "guest.h"

/* A policy of what lies behind the heap, where the heap may not grow. */
static void policy(char *at)
{
	unsigned long nodes = 1;
	int mode = -1;

	TELL(syscall(SYS_mbind, at, PAGE, 2 /* MPOL_BIND */, &nodes, 64, 0));
	TELL(brk(at + PAGE));
	TELL(syscall(SYS_get_mempolicy, &mode, NULL, 0, at, 2 /* MPOL_F_ADDR */));
	TELL(mode);
}

int main(void)
{
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q, *r;
	char *start, *top;
	int file = open("remap-file", O_RDWR | O_CREAT | O_TRUNC, 0644);

	for (int i = 0; i < 8; i++)
		p[i * PAGE] = i + 1;
	TELL(mremap(p, 8 * PAGE, 4 * PAGE, 0) == p);
	TOUCH(p + 4 * PAGE, 0);
	/* Something behind it, so that it cannot grow where it is. */
	mmap(p + 4 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	TELL_MAP(mremap(p, 4 * PAGE, 16 * PAGE, 0));
	q = TELL_MAP(mremap(p, 4 * PAGE, 16 * PAGE, MREMAP_MAYMOVE));
	TELL(q != p);
	TELL(q[0] + q[PAGE] + q[3 * PAGE] + q[15 * PAGE]);
	TOUCH(p, 0);
	TOUCH(q + 15 * PAGE, 1);
	/* To a given place, over what was there. */
	r = mmap(NULL, 16 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL(mremap(q, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, r) == r);
	TELL(r[PAGE]);
	TOUCH(r, 1);
	TOUCH(q, 0);
	TELL_MAP(mremap(r, PAGE, PAGE, MREMAP_FIXED, q));
	TELL_MAP(mremap(r + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	TELL_MAP(mremap(r, PAGE, 0, MREMAP_MAYMOVE));
	TELL_MAP(mremap((void *)0x10000000000, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	TELL_MAP(mremap(r, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, r + PAGE));
	TELL_MAP(mremap(r, PAGE, PAGE, 0x80));
	/* Part of a mapping. */
	q = TELL_MAP(mremap(r + 2 * PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE));
	TELL(q[0]);
	TOUCH(r + 2 * PAGE, 0);
	TOUCH(r + PAGE, 1);
	TOUCH(r + 3 * PAGE, 1);
	/* Over two mappings. */
	mprotect(r + 8 * PAGE, PAGE, PROT_READ);
	TELL_MAP(mremap(r + 7 * PAGE, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE));
	/* A shared file mapping grows and moves. */
	ftruncate(file, 8 * PAGE);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, PAGE);
	strcpy(p, "shared");
	mmap(p + 2 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	q = TELL_MAP(mremap(p, 2 * PAGE, 6 * PAGE, MREMAP_MAYMOVE));
	if (q != MAP_FAILED) {
		puts(q);
		strcpy(q + 5 * PAGE, "end");
		pread(file, r, 10, 6 * PAGE);
		puts(r);
	}
	/* brk */
	start = sbrk(0);
	TELL((uintptr_t)start != 0);
	TELL(brk(start + 10 * PAGE));
	memset(start, 7, 10 * PAGE);
	TELL((char *)sbrk(0) - start);
	TELL(brk(start + PAGE));
	TOUCH(start + PAGE - 1, 1);
	TOUCH(start + 2 * PAGE, 1);
	TELL(brk(start + 10 * PAGE));
	TELL(start[5 * PAGE]);
	TELL(start[0]);
	TELL(brk((void *)0x1000));
	TELL((char *)sbrk(0) - start);
	top = mmap((void *)(((uintptr_t)start + 64 * PAGE) & -PAGE), PAGE, PROT_READ,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	TELL(top != MAP_FAILED);
	TELL(brk(start + 100 * PAGE));
	TELL((char *)sbrk(0) - start);
	policy(top);
	TELL(brk(start));
	return 0;
}
