/*
 * smaps of many mappings, opened and read for one byte many times, is not kept whole; maps lists
 * each of them once, in order.
 */
#include "guest.h"

#define MAPPINGS 20000
#define READERS 10

int main(void)
{
	char *region = mmap(NULL, MAPPINGS * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned long start, end, lines = 0, last = 0;
	FILE *maps;
	char line[300];

	for (long i = 0; i < MAPPINGS; i += 2)
		if (mprotect(region + i * PAGE, PAGE, PROT_READ | PROT_WRITE))
			return 1;
	for (int i = 0; i < READERS; i++) {
		char byte;

		if (read(open("/proc/self/smaps", O_RDONLY), &byte, 1) != 1)
			return 2;
	}
	maps = fopen("/proc/self/maps", "r");
	setvbuf(maps, NULL, _IOFBF, 1000);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || start < last || end <= start)
			return printf("after %lx: %s", last, line), 3;
		last = end;
		lines += start >= (unsigned long)region && end <= (unsigned long)region + MAPPINGS * PAGE;
	}
	printf("%lu\n", lines);
	fflush(stdout);
	getchar();
	return 0;
}
