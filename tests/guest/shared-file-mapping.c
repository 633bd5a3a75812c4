/*
 * A shared file mapping beside another process that uses the file: does what lines of standard
 * input say.
 *   w OFFSET TEXT | r OFFSET LENGTH | t SIZE | s | u (unmap and map again) | q
 */
#include "guest.h"

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR);
	long size = argc > 2 ? atol(argv[2]) : 8 * PAGE, offset, length;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), line[200], text[100];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s\n", map == MAP_FAILED ? strerrorname_np(errno) : "mapped");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "w %ld %99s", &offset, text) == 2) {
			const char *seen = touch(map + offset, 1);

			if (!strcmp(seen, "fine"))
				memcpy(map + offset, text, strlen(text));
			puts(seen);
		} else if (sscanf(line, "r %ld %ld", &offset, &length) == 2) {
			const char *seen = touch(map + offset, 0);

			if (!strcmp(seen, "fine"))
				printf("%.*s\n", (int)length, map + offset);
			else
				puts(seen);
		} else if (sscanf(line, "t %ld", &offset) == 1) {
			printf("%d\n", ftruncate(file, offset));
		} else if (*line == 's') {
			printf("%d\n", msync(map, size, MS_SYNC));
		} else if (*line == 'u') {
			munmap(map, size);
			map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
			puts("again");
		} else {
			break;
		}
	}
	puts("end");
	return 0;
}
