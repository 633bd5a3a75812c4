/* write(2) and pwrite(2) to a file from an untouched mapping of that file. */
#include "guest.h"

#define PAGES 16

static void tell(const char *what, int file, long result)
{
	static char all[2 * PAGES * PAGE];
	long size = pread(file, all, sizeof(all), 0), sum = 0;

	for (long i = 0; i < size; i++)
		sum = sum * 31 + all[i];
	printf("%-20s %ld, %ld bytes, %lx\n", what, result, size, sum);
	fflush(stdout);
}

static int made(const char *name)
{
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char page[PAGE];

	for (int i = 0; i < PAGES; i++) {
		memset(page, 'a' + i, sizeof(page));
		if (write(file, page, sizeof(page)) != sizeof(page))
			exit(1);
	}
	return file;
}

int main(void)
{
	static const struct { const char *name; int flags; } kinds[] = {
		{ "private", MAP_PRIVATE }, { "shared", MAP_SHARED },
	};

	for (int i = 0; i < 2; i++) {
		int file = made(kinds[i].name);
		char *map = mmap(NULL, PAGES * PAGE, PROT_READ, kinds[i].flags, file, 0);

		printf("%s\n", kinds[i].name);
		tell("the same place", file, pwrite(file, map, 4 * PAGE, 0));
		tell("pages further", file, pwrite(file, map + 4 * PAGE, 2 * PAGE, 9 * PAGE));
		tell("behind the end", file, write(file, map + 12 * PAGE + 100, 5000));
		ftruncate(file, 3 * PAGE + 10);
		tell("of a shorter one", file, pwrite(file, map + PAGE, 100, 0));
	}
	return 0;
}
