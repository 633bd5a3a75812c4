/* MAP_HUGETLB: sizes, alignment, what may be cut where. (How many pages there are differs.) */
#include "guest.h"

#define LARGE (2L << 20)
#define HUGE_SHIFT 26

static void *map(long bytes, int flags)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, 0);
}

int main(void)
{
	char *p, *q;
	int status, fd;

	TELL_MAP(map(LARGE, MAP_PRIVATE | 22 << HUGE_SHIFT));
	p = TELL_MAP(map(4 * LARGE, MAP_PRIVATE));
	TELL((uintptr_t)p % LARGE);
	for (int i = 0; i < 4; i++)
		p[i * LARGE] = i + 1;
	TELL(p[3 * LARGE]);
	TELL(munmap(p + PAGE, PAGE));
	TELL(munmap(p + LARGE, PAGE));
	TELL(mprotect(p + PAGE, PAGE, PROT_READ));
	TELL(mprotect(p + LARGE, LARGE, PROT_READ));
	TOUCH(p + LARGE, 1);
	TOUCH(p + 2 * LARGE, 1);
	TELL(madvise(p + PAGE, PAGE, MADV_DONTNEED));
	TELL(madvise(p + 3 * LARGE, LARGE, MADV_DONTNEED));
	TELL(p[3 * LARGE]);
	TELL_MAP(mremap(p + 2 * LARGE, LARGE, 2 * LARGE, MREMAP_MAYMOVE));
	TELL_MAP(mremap(p + 2 * LARGE + PAGE, LARGE, LARGE, MREMAP_MAYMOVE));
	q = mmap(NULL, 4 * LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	q = (char *)(((uintptr_t)q + LARGE - 1) & -LARGE);
	TELL(mremap(p + 2 * LARGE, LARGE, LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	TELL(q[0]);
	TELL(munmap(p + LARGE, LARGE));
	fflush(stdout);
	if (!fork()) {
		q[0] = 9;
		TELL(q[0]);
		exit(0);
	}
	wait(&status);
	TELL(q[0]);
	TELL_MAP(map(PAGE, MAP_PRIVATE));
	TELL_MAP(map(400 * LARGE, MAP_PRIVATE));
	p = TELL_MAP(map(2 * LARGE, MAP_SHARED));
	if (p != MAP_FAILED) {
		p[0] = 1;
		p[LARGE] = 2;
		if (!fork()) {
			p[1] = p[0] + p[LARGE];
			exit(0);
		}
		wait(&status);
		TELL(p[1]);
		TELL((uintptr_t)p % LARGE);
	}
	fd = memfd_create("huge", MFD_HUGETLB);
	TELL(fd >= 0);
	TELL(ftruncate(fd, 2 * LARGE));
	p = TELL_MAP(mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	if (p != MAP_FAILED) {
		p[LARGE] = 3;
		TELL(p[LARGE]);
		TELL((uintptr_t)p % LARGE);
	}
	p = TELL_MAP(mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
	if (p != MAP_FAILED) {
		TELL(p[LARGE]);
		p[LARGE] = 4;
		TELL(p[LARGE]);
	}
	TELL(ftruncate(fd, PAGE));
	return 0;
}
