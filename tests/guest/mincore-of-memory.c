/* What mincore says is there of a process's own memory: pages that were used, and no others. */
#include "guest.h"

#define RW (PROT_READ | PROT_WRITE)
#define PAGES 40

static char *map(int flags)
{
	return mmap(NULL, PAGES * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void show(const char *what, char *p)
{
	unsigned char there[PAGES];
	int result = mincore(p, PAGES * PAGE, there);

	printf("%-28s", what);
	for (int i = 0; !result && i < PAGES; i++)
		putchar('0' + (there[i] & 1));
	puts(result ? strerrorname_np(errno) : "");
	fflush(stdout);
}

/* Of the mapping at this address, from smaps. */
static long rss_kb(const char *p)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	int is_it = 0;
	char line[300];
	long kb = -1;

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_it = start <= (uintptr_t)p && (uintptr_t)p < end;
		if (is_it && sscanf(line, "Rss: %ld", &kb) == 1)
			break;
	}
	fclose(maps);
	return kb;
}

static char *memory;

static void in_child(void)
{
	show("  in a child", memory);
	memory[30 * PAGE] = 1;
	show("  written by the child", memory);
}

int main(void)
{
	char *p = memory = map(0);
	int zeros = open("/dev/zero", O_RDONLY);

	show("nothing", p);
	p[5 * PAGE] = 1;
	show("one written", p);
	printf("%d\n", p[17 * PAGE]);
	p[6 * PAGE] = 1;
	show("one read, one written", p);
	/* One: for writes to several, Linux may be given more of them ahead (docs/memory.md). */
	TELL(read(zeros, p + 25 * PAGE, PAGE));
	show("one by Linux", p);
	child_of("a child", 0, in_child);
	show("the parent", p);
	mprotect(p, PAGES * PAGE, PROT_READ);
	show("read only", p);
	mprotect(p, PAGES * PAGE, PROT_NONE);
	show("no rights", p);
	mprotect(p, PAGES * PAGE, RW);
	show("all rights", p);
	p = mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map(0));
	show("moved", p);
	madvise(p + 5 * PAGE, PAGE, MADV_DONTNEED);
	show("one discarded", p);
	mlock(p + 8 * PAGE, 4 * PAGE);
	show("four locked", p);
	madvise(p + 33 * PAGE, 3 * PAGE, MADV_POPULATE_WRITE);
	show("three populated", p);
	p = map(MAP_POPULATE);
	show("all populated", p);
	p = map(0);
	TELL(mlock2(p, PAGES * PAGE, MLOCK_ONFAULT));
	show("locked when used", p);
	p[9 * PAGE] = 1;
	show("locked, one written", p);
	TELL(rss_kb(p));
	TELL(munlock(p, PAGES * PAGE));
	return 0;
}
