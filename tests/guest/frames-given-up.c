/*
 * Frames that go from one user to another one.
 * Usage: frames-given-up share    a child has pages, too, whose address is printed, and unmaps them
 *                                 on a byte of input
 *        frames-given-up write    on a byte of input a child unmaps them; while it does, its parent
 *                                 writes to its own
 *        frames-given-up fill     fills 40 MiB with a word
 */
#include "guest.h"

#define PAGES 8
#define WORD 0x214d49544349560aUL

static char *small_pages(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

static void share(void)
{
	char *p = small_pages(PAGES * PAGE), byte;

	memset(p, 0xaa, PAGES * PAGE);
	if (!fork()) {
		if (read(0, &byte, 1) == 1 && !munmap(p, PAGES * PAGE))
			printf("unmapped\n");
		fflush(stdout);
		pause();
	}
	printf("%#lx\n", (unsigned long)p);
	fflush(stdout);
	pause();
}

static void write_beside(void)
{
	char *p = small_pages(PAGES * PAGE), byte;
	volatile int *begins = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int go[2];
	pid_t child;

	memset(p, 0xaa, PAGES * PAGE);
	if (pipe(go))
		exit(2);
	child = fork();
	if (!child) {
		if (read(go[0], &byte, 1) != 1)
			exit(2);
		*begins = 1;
		munmap(p, PAGES * PAGE);
		printf("unmapped\n");
		fflush(stdout);
		pause();
	}
	printf("%d %#lx\n", child, (unsigned long)p);
	fflush(stdout);
	if (read(0, &byte, 1) != 1 || write(go[1], &byte, 1) != 1)
		exit(2);
	while (!*begins)
		usleep(1000);
	usleep(300000); /* the LWK holds the child for longer */
	memset(p, 0xbb, PAGES * PAGE);
	printf("written\n");
	fflush(stdout);
	pause();
}

static void fill(void)
{
	size_t size = 40 << 20, i;
	unsigned long *p = (void *)small_pages(size);

	for (i = 0; i < size / sizeof(*p); i++)
		p[i] = WORD;
	printf("filled\n");
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "share"))
		share();
	if (argc == 2 && !strcmp(argv[1], "write"))
		write_beside();
	if (argc == 2 && !strcmp(argv[1], "fill"))
		fill();
	return 2;
}
