/* mmap, munmap, mprotect, madvise, msync, mincore and mlock: results and errors. */
#include "guest.h"

static int through_linux(char *at)
{
	int ends[2];
	char byte = 0;

	pipe(ends);
	write(ends[1], at, 1);
	read(ends[0], &byte, 1);
	close(ends[0]);
	close(ends[1]);
	return byte;
}

/* What Linux has mapped of the vDSO goes with it. */
static void replaced_vdso(void)
{
	char *start = NULL, *end = NULL, line[256];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "[vdso]"))
			sscanf(line, "%p-%p", (void **)&start, (void **)&end);
	fclose(maps);
	TELL(*(volatile char *)start);
	TELL(through_linux(start));
	TELL(munmap(start, end - start));
	TELL_MAP(mmap(start, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	*start = 'n';
	TELL(through_linux(start));
}

int main(void)
{
	int file = open("map-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	int readonly, writeonly, directory = open(".", O_RDONLY);
	char *p, *q, *shared, text[4] = "";
	unsigned char vector[8];

	ftruncate(file, 3 * PAGE + 100);
	pwrite(file, "first", 5, 0);
	pwrite(file, "third", 5, 2 * PAGE);
	readonly = open("map-file", O_RDONLY);
	writeonly = open("map-file", O_WRONLY);

	TELL_MAP(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 999, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, directory, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 100));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writeonly, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, readonly, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE, readonly, 0));
	TELL_MAP(mmap(NULL, -PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TELL_MAP(mmap((void *)1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	TELL_MAP(mmap((void *)0xffff800000000000, PAGE, PROT_READ,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	TELL_MAP(mmap((void *)0x7ffffffff000, 2 * PAGE, PROT_READ,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));

	p = TELL_MAP(mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TELL(((uintptr_t)p & (PAGE - 1)));
	p[0] = p[8 * PAGE - 1] = 1;
	TELL(p[PAGE] + p[3 * PAGE]);
	TELL(munmap(p + 2 * PAGE, PAGE));
	TELL(munmap(p + 2 * PAGE, PAGE));
	TELL(munmap(p + 1, PAGE));
	TELL(munmap(p, 0));
	TELL(munmap((void *)0xffff800000000000, PAGE));
	TOUCH(p + PAGE, 1);
	TOUCH(p + 2 * PAGE, 0);
	TOUCH(p + 3 * PAGE, 1);
	TELL(mprotect(p, 4 * PAGE, PROT_READ));
	TOUCH(p, 1);
	TOUCH(p + 3 * PAGE, 1);
	TELL(mprotect(p + 4 * PAGE, PAGE, PROT_NONE));
	TOUCH(p + 4 * PAGE, 0);
	TELL(mprotect(p + 1, PAGE, PROT_READ));
	TELL(mprotect(p, PAGE, 0x100));
	TELL(mprotect(p, 0, PROT_READ));
	TELL(mprotect(NULL, PAGE, PROT_READ));
	TELL(mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE));
	TELL(p[0]);
	TELL_MAP(mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	TELL(mmap(p + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == p + 2 * PAGE);
	TELL(mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	TELL(p[0]);
	TELL(madvise(p, 2 * PAGE, MADV_DONTNEED));
	TELL(p[0]);
	TELL(madvise(p + 1, PAGE, MADV_DONTNEED));
	TELL(madvise(p, PAGE, 12345));
	TELL(madvise(p, PAGE, MADV_WILLNEED));
	TELL(madvise(p, 0, MADV_NORMAL));
	TELL(madvise((void *)0x10000000000, PAGE, MADV_NORMAL));

	/* Private file mapping: copy on write; the file does not change. */
	q = TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
	printf("%.5s %.5s\n", q, q + 2 * PAGE);
	memcpy(q, "FIRST", 5);
	pread(file, text, 3, 0);
	printf("%.5s, file %s\n", q, text);
	TOUCH(q + 3 * PAGE + 200, 1);
	TELL(q[3 * PAGE + 99] + q[4 * PAGE - 1]);
	TELL(madvise(q, PAGE, MADV_DONTNEED));
	printf("%.5s\n", q);
	TELL(munmap(q, 4 * PAGE));
	/* Beyond the end of the file. */
	q = TELL_MAP(mmap(NULL, 6 * PAGE, PROT_READ, MAP_PRIVATE, file, PAGE));
	printf("%.5s\n", q + PAGE);
	TOUCH(q + 2 * PAGE, 0);
	TOUCH(q + 3 * PAGE, 0);
	/* Shared, both ways, with read and write. */
	shared = TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	memcpy(shared + PAGE, "mapped", 6);
	pread(file, text, 3, PAGE);
	printf("file %s\n", text);
	pwrite(file, "WRI", 3, PAGE);
	/* What q, private, shows of it is unspecified: Linux the new text, Hanare the old. */
	printf("map %.6s\n", shared + PAGE);
	TELL(msync(shared, 4 * PAGE, MS_SYNC));
	TELL(msync(shared, 4 * PAGE, MS_ASYNC));
	TELL(msync(shared, PAGE, MS_SYNC | MS_ASYNC));
	TELL(msync(shared + 1, PAGE, MS_SYNC));
	TELL(msync((void *)0x10000000000, PAGE, MS_SYNC));
	close(file);
	TELL(shared[0]);
	TELL(mprotect(shared, PAGE, PROT_READ));
	TOUCH(shared, 1);
	TELL(munmap(shared, 4 * PAGE));
	TOUCH(shared, 0);
	shared = TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, readonly, 0));
	TELL(mprotect(shared, PAGE, PROT_READ | PROT_WRITE));
	shared = TELL_MAP(mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	/* To be written only means to be read, too; pages that are there and such that are not. */
	shared[PAGE] = 7;
	TELL(mprotect(shared, 8 * PAGE, PROT_WRITE));
	TOUCH(shared, 0);
	TOUCH(shared + PAGE, 0);
	TELL(shared[PAGE]);
	TOUCH(shared + PAGE, 1);
	TOUCH(shared + 2 * PAGE, 1);
	TELL(mprotect(shared, 3 * PAGE, PROT_NONE));
	TOUCH(shared + PAGE, 0);
	TELL(mprotect(shared, 8 * PAGE, PROT_WRITE));
	TOUCH(shared + PAGE, 0);
	TOUCH(shared + 6 * PAGE, 0);
	TELL(munmap(shared, 8 * PAGE));

	TELL(mlock(p, PAGE));
	TELL(munlock(p, PAGE));
	TELL(mlock((void *)0x10000000000, PAGE));
	TELL(mlockall(0x100));
	TELL(mincore(p, 2 * PAGE, vector));
	TELL(vector[0] & 1);
	TELL(mincore(p + 1, PAGE, vector));
	TELL(mincore((void *)0x10000000000, PAGE, vector));
	/* Large: huge pages inside, holes at odd places. */
	p = TELL_MAP(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	for (long i = 0; i < 64 << 20; i += 1 << 20)
		p[i] = i >> 20;
	TELL(munmap(p + (5 << 20) + PAGE, PAGE));
	TELL(mprotect(p + (9 << 20) + PAGE, PAGE, PROT_READ));
	TOUCH(p + (5 << 20) + PAGE, 1);
	TOUCH(p + (9 << 20) + PAGE, 1);
	TOUCH(p + (9 << 20) + 2 * PAGE, 1);
	TELL(p[4 << 20] + p[6 << 20] + p[9 << 20] + p[63 << 20]);
	TELL(munmap(p, 64 << 20));
	p = TELL_MAP(mmap(NULL, 1L << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	TELL(mprotect(p + (1L << 39), PAGE, PROT_READ | PROT_WRITE));
	TOUCH(p + (1L << 39), 1);
	TOUCH(p, 0);
	TELL(munmap(p, 1L << 40));
	/* No execution without PROT_EXEC. */
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, "\xb8\x2a\0\0\0\xc3", 6);
	TELL(mprotect(p, PAGE, PROT_READ | PROT_EXEC));
	TELL(((int (*)(void))p)());
	replaced_vdso();
	return 0;
}
