/*
 * Pages of executable files that several processes map stay right while the file is changed,
 * replaced or truncated.
 * Usage: library-pages [FOLDER]    where the file is made (/tmp)
 */
#include "guest.h"

#define PAGES 40
#define BYTES (PAGES * 4096)

static char name[64];

static void fill(char letter)
{
	static char bytes[BYTES];
	int fd = open(name, O_WRONLY | O_CREAT, 0755);

	memset(bytes, letter, sizeof(bytes));
	if (fd < 0 || pwrite(fd, bytes, sizeof(bytes), 0) != sizeof(bytes))
		perror(name);
	close(fd);
}

/*
 * The LWK keeps pages of a file that has not changed for two seconds (module/space/version.c):
 * waits for that, where there is one.
 */
static void settle(void)
{
	struct stat stat;
	struct timespec now;

	if (is_on_linux())
		return;
	do {
		usleep(50000);
		if (lstat(name, &stat))
			perror(name);
		clock_gettime(CLOCK_REALTIME, &now);
	} while (now.tv_sec <= stat.st_ctime + 2);
}

static char *map(int prot)
{
	int fd = open(name, O_RDONLY);
	char *at = mmap(NULL, BYTES, prot, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		perror("mmap");
	close(fd);
	return at;
}

/* What a process of its own sees; it writes, too, which no other process sees. */
static void look(const char *when)
{
	fflush(stdout);
	if (!fork()) {
		char *at = map(PROT_READ | PROT_EXEC), *data = map(PROT_READ | PROT_WRITE);

		printf("%s: %c %c %c\n", when, at[0], data[17 * 4096], at[BYTES - 1]);
		data[17 * 4096] = '!';
		mprotect(at, BYTES, PROT_READ | PROT_WRITE);
		memset(at, '?', BYTES);
		printf("%s, written: %c %c %c\n", when, at[0], data[17 * 4096], data[18 * 4096]);
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

int main(int argc, char **argv)
{
	int data[2], fd;
	char *mine, *again, *stored;
	char letters[3];

	snprintf(name, sizeof(name), "%s/libraries-%d", argc > 1 ? argv[1] : "/tmp", getpid());
	fill('a');
	settle();
	mine = map(PROT_READ | PROT_EXEC);
	printf("mine: %c %c\n", mine[0], mine[5 * 4096]);
	look("first");
	look("second");
	/* What Linux writes into a page that is shared. */
	again = map(PROT_READ | PROT_WRITE);
	if (pipe(data) || write(data[1], "xyz", 3) != 3 || read(data[0], again + 4096, 3) != 3)
		perror("pipe");
	printf("again: %.4s %c\n", again + 4096, mine[4096]);
	if (write(data[1], mine + 2 * 4096, 3) != 3 || read(data[0], letters, 3) != 3)
		perror("pipe");
	printf("sent: %.3s\n", letters);
	fill('b');
	look("changed");
	/* Another file of the same name, and the same one cut short. */
	unlink(name);
	fill('c');
	look("another");
	settle();
	look("another, settled");
	fd = open(name, O_RDWR);
	look("open for writing");
	if (pwrite(fd, "d", 1, 17 * 4096) != 1)
		perror("pwrite");
	look("written to");
	close(fd);
	look("closed");
	/* Stores to a shared mapping, while another process has the file as it was. */
	settle();
	mine = map(PROT_READ | PROT_EXEC);
	printf("held: %c %c\n", mine[0], mine[BYTES - 1]);
	fd = open(name, O_RDWR);
	stored = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(stored, 's', BYTES);
	munmap(stored, BYTES);
	close(fd);
	look("stored");
	unlink(name);
	return 0;
}
