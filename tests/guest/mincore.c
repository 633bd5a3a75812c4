/* What mincore says is there: of files in the page cache, and what another process touched. */
#include "guest.h"

#define RW (PROT_READ | PROT_WRITE)
#define PAGES 8

static char *shared, *own, *of_file;
static int file;

static void show(const char *what, char *p)
{
	unsigned char there[PAGES];
	int result = mincore(p, PAGES * PAGE, there);

	printf("%-32s", what);
	for (int i = 0; !result && i < PAGES; i++)
		putchar('0' + (there[i] & 1));
	puts(result ? strerrorname_np(errno) : "");
	fflush(stdout);
}

static char *map(int prot, int flags, int fd)
{
	return mmap(NULL, PAGES * PAGE, prot, flags, fd, 0);
}

static void touch_all(void)
{
	mlock(shared, PAGES * PAGE);
	mlock(own, PAGES * PAGE);
	mlock(of_file, PAGES * PAGE);
	show("  shared, in the child", shared);
	show("  a file, in the child", of_file);
}

static void as_nobody(void)
{
	setresuid(65534, 65534, 65534);
	show("  somebody else's file", of_file);
	show("  the same, shared", map(PROT_READ, MAP_SHARED, file));
}

int main(void)
{
	static char bytes[PAGES * PAGE];
	char *p;

	file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	write(file, bytes, 3 * PAGE);
	ftruncate(file, PAGES * PAGE);
	file = open("file", O_RDONLY);
	of_file = map(PROT_READ, MAP_PRIVATE, file);
	show("a file with a hole", of_file);
	show("the same, shared", map(PROT_READ, MAP_SHARED, file));
	show("to be written", map(RW, MAP_PRIVATE, file));
	show("from the third page on", mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, file, 2 * PAGE));
	child_of("of another user", 0, as_nobody);
	shared = map(RW, MAP_SHARED | MAP_ANONYMOUS, -1);
	own = map(RW, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	show("shared", shared);
	shared[2 * PAGE] = 1;
	show("shared, one written", shared);
	child_of("a child locks them", 0, touch_all);
	show("shared, after the child", shared);
	show("own, after the child", own);
	/* On a disk, what was not read is not there. */
	file = open("third", O_RDWR | O_CREAT | O_TRUNC, 0644);
	write(file, bytes, PAGES * PAGE);
	fsync(file);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	of_file = map(PROT_READ, MAP_PRIVATE, file);
	show("nothing of a file", of_file);
	child_of("a child locks it", 0, touch_all);
	show("all of the file", of_file);
	/* Read otherwise. */
	file = open("other", O_RDWR | O_CREAT | O_TRUNC, 0644);
	ftruncate(file, PAGES * PAGE);
	p = map(RW, MAP_PRIVATE, file);
	show("a file that is a hole", p);
	pwrite(file, "x", 1, 4 * PAGE);
	pwrite(file, "x", 1, 6 * PAGE + 5);
	show("written in two places", p);
	mlock(p, PAGES * PAGE);
	show("locked", p);
	return 0;
}
