/* mlock and its relatives: results, RLIMIT_MEMLOCK, and what is resident afterwards. */
#include "guest.h"

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

static int resident(char *p, int pages)
{
	unsigned char vector[4096];
	int count = 0;

	if (mincore(p, pages * PAGE, vector))
		return -1;
	for (int i = 0; i < pages; i++)
		count += vector[i] & 1;
	return count;
}

/* From smaps: pages of a mapping that count as locked, or of the process. */
static long locked_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[200];
	long kb = -1;

	while (fgets(line, sizeof(line), status))
		sscanf(line, "VmLck: %ld", &kb);
	fclose(status);
	return kb;
}

static void limited(long bytes)
{
	struct rlimit limit = { bytes, bytes };
	char *p, *s;

	TELL(setrlimit(RLIMIT_MEMLOCK, &limit));
	TELL(setuid(65534));
	p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TELL(mlock(p, PAGE));
	TELL(mlock(p, bytes));
	TELL(mlock(p, bytes + PAGE));
	TELL(mlock(p + 32 * PAGE, PAGE));
	TELL(mlock(p, PAGE));
	TELL(munlock(p, 8 * PAGE));
	TELL(mlock(s, PAGE));
	TELL(mlock(s, bytes + PAGE));
	TELL(munlock(s, 64 * PAGE));
	TELL(munlock(p, 64 * PAGE));
	TELL(mlock2(p, bytes, MLOCK_ONFAULT));
	TELL(mlock2(p, bytes + PAGE, MLOCK_ONFAULT));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
	TELL(mlockall(MCL_CURRENT));
	TELL(mlockall(MCL_FUTURE));
	TELL_MAP(mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TELL(munlockall());
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
	TELL_MAP(mremap(p, PAGE, 64 * PAGE, MREMAP_MAYMOVE));
	exit(0);
}

int main(void)
{
	struct rlimit limit;
	char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	char *none = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char vector[8];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	TELL(resident(p, 64));
	TELL(mlock(p, 32 * PAGE));
	TELL(resident(p, 32));
	TELL(mlock(p + 1, 1));
	TELL(mlock(p + 40 * PAGE - 1, 2));
	TELL(resident(p + 39 * PAGE, 2));
	TELL(mlock(p, 0));
	TELL(mlock(p, -1));
	TELL(mlock((void *)0x10000000000, PAGE));
	TELL(mlock((void *)0x10000000000, 0));
	TELL(mlock(none, PAGE));
	TELL(munlock(none, PAGE));
	munmap(p + 50 * PAGE, PAGE);
	TELL(mlock(p + 48 * PAGE, 4 * PAGE));
	TELL(munlock(p + 48 * PAGE, 4 * PAGE));
	TELL(munlock(p, 40 * PAGE));
	TELL(munlock((void *)0x10000000000, PAGE));
	TELL(mlock2(p, PAGE, 2));
	q = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL(mlock2(q, 64 * PAGE, MLOCK_ONFAULT));
	TELL(munlock(q, 64 * PAGE));
	TELL(mlock2(q, 64 * PAGE, 0));
	TELL(resident(q, 64));
	TELL(munlock(q, 64 * PAGE));
	q = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	TELL(resident(q, 16));
	q = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	TELL(resident(q, 16));
	TELL(mlockall(0));
	TELL(mlockall(8));
	TELL(mlockall(MCL_ONFAULT));
	TELL(mlockall(MCL_CURRENT | MCL_ONFAULT));
	TELL(mlockall(MCL_CURRENT));
	TELL(mlockall(MCL_FUTURE));
	q = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL(resident(q, 16));
	TELL(madvise(q, PAGE, MADV_DONTNEED));
	TELL(mlockall(MCL_FUTURE | MCL_ONFAULT));
	TELL(munlockall());
	TELL(madvise(q, PAGE, MADV_DONTNEED));
	q = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL(resident(q, 16));
	TELL(locked_kb());
	/* mincore */
	TELL(mincore(q, 0, vector));
	TELL(mincore(q + 1, PAGE, vector));
	TELL(mincore(q, PAGE, NULL));
	TELL(mincore(q, PAGE, (void *)0x10000000000));
	TELL(mincore((void *)0x10000000000, PAGE, vector));
	TELL(mincore((void *)0xffff800000000000, PAGE, vector));
	TELL(mincore(q, -PAGE, vector));
	TELL(mincore(q, 1, vector));
	TELL(mincore(none, PAGE, vector) ?: vector[0]);
	q[3 * PAGE] = 1;
	mprotect(q + 3 * PAGE, PAGE, PROT_NONE);
	TELL(mincore(q + 3 * PAGE, PAGE, vector) ?: vector[0] & 1);
	TELL(mlock(q, 4 * PAGE));
	fflush(stdout);
	if (!fork())
		limited(8 * PAGE);
	wait(NULL);
	if (!fork())
		limited(0);
	wait(NULL);
	return 0;
}
