/*
 * Private mappings of files hold what the files hold, page by page: in any order, behind what is
 * not in Linux' page cache, in holes, at the end of the file, after it was made shorter; and hold
 * the files themselves no longer than they are there.
 */
#include "guest.h"

#include <sys/file.h>

#define PAGES 300
#define TAIL 100
#define BYTES (PAGES * PAGE + TAIL)
#define MAPPED ((PAGES + 4) * PAGE)

static const char *name = "private-file-mapping.data";

static int make(int sparse)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	static char page[PAGE];

	if (ftruncate(fd, BYTES))
		perror("ftruncate");
	for (long i = 0; i <= PAGES; i++) {
		if (sparse && i / 40 % 2)
			continue;
		memset(page, 'a' + i % 23, sizeof(page));
		*(long *)page = i;
		if (pwrite(fd, page, i < PAGES ? PAGE : TAIL, i * PAGE) < 0)
			perror("pwrite");
	}
	return fd;
}

static char *map(int fd, int prot)
{
	char *at = mmap(NULL, MAPPED, prot, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		perror("mmap");
	return at;
}

static int is_right(const char *at, long i, int sparse)
{
	int empty = sparse && i / 40 % 2, last = i == PAGES ? TAIL - 1 : PAGE - 1;

	return *(const long *)(at + i * PAGE) == (empty ? 0 : i) && at[i * PAGE + last] == (empty ? 0 : 'a' + i % 23);
}

/* Looks at each page, the n-th of which is at `step` times n. */
static void look(const char *what, int fd, int sparse, long step, int prot)
{
	char *at = map(fd, prot);
	long right = 0, n = PAGES + 1;

	for (long i = 0; i < n; i++) {
		long page = (i * step % n + n) % n;

		right += is_right(at, page, sparse);
		if (prot & PROT_WRITE)
			at[page * PAGE + 8] = '!';
	}
	printf("%s, step %ld: %ld pages are right, behind the end %d\n", what, step, right, at[BYTES]);
	TOUCH(at + BYTES, 0);
	TOUCH(at + (PAGES + 1) * PAGE, 0);
	TOUCH(at + (PAGES + 3) * PAGE, 0);
	munmap(at, MAPPED);
}

static void orders(const char *what, int fd, int sparse)
{
	static const long steps[] = { 1, -1, 2, 7, 100 };

	for (unsigned int i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		for (int write = 0; write < 2; write++) {
			/* Some of it goes from Linux' page cache, where it can. */
			fsync(fd);
			posix_fadvise(fd, (i + 1) * 50 * PAGE, 37 * PAGE, POSIX_FADV_DONTNEED);
			look(what, fd, sparse, steps[i], PROT_READ | (write ? PROT_WRITE : 0));
		}
}

/* Pages that were not looked at are gone with the file's end. */
static void shorter(int fd)
{
	char *at = map(fd, PROT_READ);

	printf("shorter: %d\n", ftruncate(fd, 20 * PAGE + 5));
	printf("%d %d %d\n", is_right(at, 3, 0), at[20 * PAGE + 4], at[20 * PAGE + 5]);
	TOUCH(at + 21 * PAGE, 0);
	TOUCH(at + 200 * PAGE, 0);
	printf("longer: %d\n", ftruncate(fd, BYTES));
	printf("%d %d\n", at[21 * PAGE], at[250 * PAGE]);
	munmap(at, MAPPED);
}

/* So are pages that were looked at, or written to. */
static void used_and_shorter(int fd)
{
	char *at = map(fd, PROT_READ | PROT_WRITE), *behind = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 40 * PAGE);

	printf("%d %d\n", is_right(at, 3, 0), is_right(at, 30, 0));
	printf("%d\n", *(long *)behind == 40);
	at[10 * PAGE] = at[50 * PAGE] = '!';
	TELL(ftruncate(fd, 20 * PAGE));
	printf("%d %d\n", is_right(at, 3, 0), at[10 * PAGE]);
	TOUCH(at + 30 * PAGE, 0);
	TOUCH(at + 50 * PAGE, 1);
	TOUCH(at + 20 * PAGE, 0);
	TOUCH(behind, 0);
	TELL(truncate(name, 5 * PAGE + 1));
	printf("%d %d\n", is_right(at, 3, 0), at[5 * PAGE] == 'a' + 5 || at[5 * PAGE] == 5);
	TOUCH(at + 10 * PAGE, 1);
	TELL(ftruncate(fd, BYTES));
	printf("%d %d %d\n", at[10 * PAGE], at[50 * PAGE], *behind);
	munmap(at, MAPPED);
	munmap(behind, 2 * PAGE);
}

/*
 * The only mapping of a file goes, and its last descriptor after it: so do its lock and its open
 * for writing.
 */
static void let_go(void)
{
	int fd = open(name, O_RDWR), other;
	char *at;

	TELL(flock(fd, LOCK_EX));
	at = map(fd, PROT_READ);
	printf("%d\n", is_right(at, 1, 0));
	munmap(at, MAPPED);
	at = map(fd, PROT_READ);
	printf("%d\n", is_right(at, 2, 0));
	munmap(at, MAPPED);
	close(fd);
	other = open(name, O_RDONLY);
	TELL(flock(other, LOCK_EX | LOCK_NB));
	TELL(fcntl(other, F_SETLEASE, F_RDLCK));
	TELL(fcntl(other, F_SETLEASE, F_UNLCK));
	close(other);
}

/* A descriptor that was mapped becomes another file's. */
static void another_file(int fd)
{
	int other = memfd_create("other", 0);
	char *at = map(fd, PROT_READ);

	printf("%d\n", is_right(at, 1, 0));
	munmap(at, MAPPED);
	if (write(other, "other", 5) != 5 || dup2(other, fd) != fd)
		perror("dup2");
	at = map(fd, PROT_READ);
	printf("%.5s\n", at);
	TOUCH(at + PAGE, 0);
	munmap(at, MAPPED);
}

int main(void)
{
	int fd = make(1);

	orders("sparse", fd, 1);
	close(fd);
	fd = make(0);
	orders("full", fd, 0);
	shorter(fd);
	close(fd);
	fd = make(0);
	used_and_shorter(fd);
	close(fd);
	fd = make(0);
	let_go();
	for (int advice = MADV_NORMAL; advice <= MADV_SEQUENTIAL; advice++) {
		char *at = map(fd, PROT_READ);

		TELL(madvise(at, MAPPED, advice));
		printf("%d %d %d\n", is_right(at, 0, 0), is_right(at, 77, 0), is_right(at, PAGES, 0));
		munmap(at, MAPPED);
	}
	another_file(fd);
	unlink(name);
	return 0;
}
