/*
 * Pages of the vDSO may be touched and given back by madvise any number of times: the count of
 * resident pages stays right.
 */
#include "guest.h"
#include <sys/mman.h>

#define MIB (1UL << 20)

static unsigned long resident_kib(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		sscanf(line, "VmRSS: %lu", &kib);
	fclose(status);
	return kib;
}

int main(void)
{
	unsigned long start, end, vdso = 0;
	char line[256], *memory;
	FILE *maps = fopen("/proc/self/maps", "r");
	volatile char byte;

	memory = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(memory, 1, 8 * MIB);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (strstr(line, "[vdso]"))
			vdso = start;
		else if (strstr(line, "[vvar]"))
			printf("vvar: %d %d\n", madvise((void *)start, end - start, 4), madvise((void *)start, end - start, 24));
	}
	for (int i = 0; i < 4000; i++) {
		byte = *(volatile char *)vdso;
		if (madvise((void *)vdso, 4096, i % 2 ? 4 /* DONTNEED */ : 24 /* DONTNEED_LOCKED */)) {
			perror("madvise");
			return 1;
		}
	}
	(void)byte;
	printf("resident: %s\n", resident_kib() >= 8 << 10 ? "all" : "less than there is");
	return 0;
}
