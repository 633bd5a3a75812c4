/*
 * MAP_HUGETLB: sizes, alignment, and where a mapping may be cut. Linux and the LWK have pools of
 * different sizes.
 */
#include "guest.h"
#include <sys/shm.h>

#define LARGE (2L << 20)
#define HUGE_SHIFT 26

static void *map(long bytes, int flags)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, 0);
}

/* HugePages_Total or another number of Linux' pool. */
static long pool(const char *key)
{
	char line[100];
	long value = -1;
	FILE *meminfo = fopen("/proc/meminfo", "r");

	while (fgets(line, sizeof(line), meminfo))
		if (!strncmp(line, key, strlen(key)))
			value = strtol(line + strlen(key) + 1, NULL, 10);
	fclose(meminfo);
	return value;
}

/* Shared mappings of files of huge pages: Linux maps whole pages. */
static void files(int fd)
{
	long pages = pool("HugePages_Total"), unused = pool("HugePages_Free");
	char *around = mmap(NULL, 8 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p;

	TELL(pages);
	TELL(pool("Hugepagesize"));
	TELL(write(fd, "x", 1));
	memset(around, 5, 8 * LARGE);
	p = (char *)(((uintptr_t)around + 2 * LARGE) & -LARGE);
	TELL_MAP(mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
	TELL(p[PAGE]);
	p = TELL_MAP(mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
	TELL(p[LARGE - 1]); /* a page of the file */
	TELL(p[LARGE]); /* none */
	TELL(p[-1]);
	p[LARGE - 1] = 8;
	TELL(pool("HugePages_Free") - unused);
	TELL(mprotect(p, PAGE, PROT_READ));
	TELL(munmap(p, PAGE));
	TELL(munmap(p, LARGE));
	p = TELL_MAP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	TELL((uintptr_t)p % LARGE);
	TELL(p[LARGE - 1]);
	TELL(munmap(p, LARGE));
	TELL_MAP(mmap(NULL, LARGE, PROT_READ, MAP_SHARED, fd, PAGE));
	fd = memfd_create("too many", MFD_HUGETLB);
	TELL_MAP(mmap(NULL, (pages + 1) * LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	p = TELL_MAP(mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_HUGETLB, fd, 0));
	TELL(p[5] = 6);
}

/*
 * Private mappings of such files: their pages are the pool's, and one that may be written makes the
 * file longer.
 */
static void copies_of_files(void)
{
	int fd = memfd_create("private", MFD_HUGETLB), other = memfd_create("other", MFD_HUGETLB), status;
	long unused = pool("HugePages_Free"), pages = pool("HugePages_Total");
	struct stat stat;
	char *p, *shared;

	p = TELL_MAP(mmap(NULL, LARGE, PROT_READ, MAP_PRIVATE, fd, 0));
	TOUCH(p, 0);
	TELL(munmap(p, LARGE));
	p = TELL_MAP(mmap(NULL, LARGE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
	TELL((uintptr_t)p % LARGE);
	TELL(fstat(fd, &stat));
	TELL(stat.st_size);
	TOUCH(p + LARGE, 1);
	TELL(p[2 * LARGE - 1] = 3);
	TELL(pool("HugePages_Free") - unused);
	TELL(munmap(p, PAGE));
	TELL(munmap(p + LARGE / 4, LARGE));
	TELL(mprotect(p + PAGE, PAGE, PROT_READ));
	shared = TELL_MAP(mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	TELL(shared[2 * LARGE - 1]);
	TELL(shared[1] = 4);
	TELL(p[1]);
	TELL(p[2] = 5);
	TELL(shared[1] = 6);
	TELL(p[1]);
	TELL(shared[2]);
	if (!fork()) {
		TELL(p[2]);
		TELL(p[2] = 7);
		TELL(p[2 * LARGE - 1]);
		exit(0);
	}
	wait(&status);
	TELL(status);
	TELL(p[2]);
	TELL(madvise(p, LARGE, MADV_DONTNEED));
	TELL(p[2]);
	TELL(p[1]);
	TELL_MAP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE));
	TELL_MAP(mmap(NULL, (pages + 1) * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, 0));
	TELL(munmap(p, 2 * LARGE));
	TELL(munmap(shared, 2 * LARGE));
	close(fd);
	unused = pool("HugePages_Free") - pool("HugePages_Rsvd");
	p = TELL_MAP(mmap(NULL, unused * LARGE, PROT_WRITE, MAP_PRIVATE, other, 0));
	TELL_MAP(mmap(NULL, LARGE, 0, MAP_PRIVATE, memfd_create("more", MFD_HUGETLB), 0));
	TELL(munmap(p, unused * LARGE));
	close(other);
	TELL(pool("HugePages_Free") - pool("HugePages_Rsvd") - unused);
}

/* Pages that were promised are there when they are used. */
static void used(void)
{
	unsigned char there[2] = { 9, 9 };
	char *p = TELL_MAP(map(2 * LARGE, MAP_PRIVATE));

	for (int round = 0; round < 3; round++) {
		if (round == 1)
			p[LARGE + PAGE] = 1;
		if (round == 2)
			mprotect(p, 2 * LARGE, PROT_READ);
		for (int i = 0; i < 2; i++)
			mincore(p + i * LARGE, PAGE, there + i);
		printf("there: %d %d\n", there[0], there[1]);
	}
	TELL(p[LARGE + PAGE]);
	TELL(munmap(p, 2 * LARGE));
}

/* A segment of a page and a byte: Linux maps two pages. */
static void segments(void)
{
	int id = shmget(IPC_PRIVATE, LARGE + 1, 0600 | IPC_CREAT | SHM_HUGETLB);
	char *p, *q = mmap(NULL, 4 * LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	TELL(id >= 0);
	q = (char *)(((uintptr_t)q + LARGE - 1) & -LARGE);
	p = TELL_MAP(shmat(id, NULL, 0));
	TELL((uintptr_t)p % LARGE);
	TELL(p[0] = 1);
	TELL(p[2 * LARGE - 1] = 2);
	TELL(munmap(p + PAGE, PAGE));
	TELL_MAP(shmat(id, q + PAGE, SHM_REMAP));
	TELL(shmat(id, q, SHM_REMAP) == q);
	TELL(q[2 * LARGE - 1]);
	TELL(shmdt(p));
	TELL(shmdt(p));
	TELL(q[0]);
	TELL(shmdt(q));
	TELL(shmctl(id, IPC_RMID, NULL));
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
	TELL_MAP(map(LARGE, MAP_PRIVATE | MAP_STACK));
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
	files(fd);
	copies_of_files();
	used();
	segments();
	return 0;
}
