/* A disk without a file system, by O_DIRECT: what a driver of the LWK's serves is as on Linux. */
#include "guest.h"
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>

enum { MOST = 3 << 20, THREADS = 4 };

static const char *path;

static int opened(int flags)
{
	int fd = open(path, flags | O_DIRECT);

	if (fd < 0) {
		perror(path);
		exit(2);
	}
	return fd;
}

/* Bytes that say where on the disk they belong, and in which round they were written. */
static void fill(uint64_t *to, size_t bytes, uint64_t offset, uint64_t round)
{
	for (size_t i = 0; i < bytes / 8; i++)
		to[i] = (offset + 8 * i) * 0x9e3779b97f4a7c15 ^ round;
}

static long wrong(const uint64_t *there, size_t bytes, uint64_t offset, uint64_t round)
{
	long count = 0;

	for (size_t i = 0; i < bytes / 8; i++)
		count += there[i] != ((offset + 8 * i) * 0x9e3779b97f4a7c15 ^ round);
	return count;
}

/* Lengths from a block to more than a command has, at places of a page and of the disk. */
static void lengths(void)
{
	static const size_t all[] = { 512, 1024, 4096, 4608, 8192, 12288, 65536, 524288, 528384, 1 << 20, MOST };
	char *memory = mmap(NULL, MOST + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		for (int at = 0; at < 4; at++) {
			char *buffer = memory + (const int[]) { 0, 512, 2048, 3584 }[at];
			uint64_t offset = (1 << 20) + 512 * (i * 7 + at);

			fill((void *)buffer, all[i], offset, i + 1);
			printf("%zu at %d: wrote %zd, ", all[i], at, pwrite(fd, buffer, all[i], offset));
			memset(buffer, 0, all[i]);
			printf("read %zd, ", pread(fd, buffer, all[i], offset));
			printf("%ld wrong\n", wrong((void *)buffer, all[i], offset, i + 1));
		}
	}
	TELL(fsync(fd));
	TELL(fdatasync(fd));
	close(fd);
}

/* Several parts, and flags. */
static void vectors(void)
{
	char *memory = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec parts[] = { { memory, PAGE }, { memory + 3 * PAGE, 512 }, { memory + 5 * PAGE, 2 * PAGE } };
	int fd = opened(O_RDWR);
	uint64_t offset = 5 << 20;

	for (int i = 0; i < 3; i++) {
		fill(parts[i].iov_base, parts[i].iov_len, offset, 99);
		offset += parts[i].iov_len;
	}
	TELL(pwritev(fd, parts, 3, 5 << 20));
	memset(memory, 0, 8 * PAGE);
	TELL(preadv(fd, parts, 3, 5 << 20));
	offset = 5 << 20;
	for (int i = 0; i < 3; i++) {
		printf("%ld wrong\n", wrong(parts[i].iov_base, parts[i].iov_len, offset, 99));
		offset += parts[i].iov_len;
	}
	TELL(pwritev2(fd, parts, 1, 6 << 20, RWF_DSYNC));
	TELL(preadv2(fd, parts, 1, 6 << 20, RWF_HIPRI));
	TELL(preadv2(fd, parts, 1, 6 << 20, 0x1000000));
	TELL(pwritev(fd, parts, 0, 6 << 20));
	TELL(preadv(fd, parts, 1025, 6 << 20));
	TELL(preadv(fd, NULL, 2, 6 << 20));
	parts[1].iov_base = (void *)0xffff800000000000;
	TELL(pwritev(fd, parts, 2, 6 << 20));
	parts[1].iov_len = 0;
	TELL(preadv(fd, parts, 2, 6 << 20));
	parts[1].iov_base = memory + 3 * PAGE;
	parts[0].iov_len = 100;
	TELL(preadv(fd, parts, 2, 6 << 20));
	lseek(fd, 5 << 20, SEEK_SET);
	parts[0].iov_len = PAGE;
	TELL(readv(fd, parts, 1));
	TELL(preadv2(fd, parts, 1, -1, 0));
	printf("position %ld, %ld wrong\n", (long)lseek(fd, 0, SEEK_CUR), wrong((void *)memory, PAGE, (5 << 20) + PAGE, 99));
	close(fd);
}

/* What is not served, or not all of it. */
static void edges(void)
{
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR), readable = opened(O_RDONLY), writable = opened(O_WRONLY);
	uint64_t size = 0;

	TELL(ioctl(fd, BLKGETSIZE64, &size));
	TELL(pread(fd, memory, 100, 0));
	TELL(pread(fd, memory, PAGE, 100));
	TELL(pread(fd, memory + 1, PAGE, 0));
	TELL(pread(fd, memory + 4, PAGE, 0));
	TELL(pread(fd, memory, 0, 0));
	TELL(pread(fd, memory, PAGE, -PAGE));
	TELL(pread(fd, memory, PAGE, size - PAGE));
	TELL(pread(fd, memory, 2 * PAGE, size - PAGE));
	TELL(pread(fd, memory, PAGE, size));
	TELL(pread(fd, memory, PAGE, size + PAGE));
	TELL(pwrite(fd, memory, PAGE, size));
	TELL(pwrite(fd, memory, 2 * PAGE, size - PAGE));
	TELL(pwrite(readable, memory, PAGE, 0));
	TELL(pread(writable, memory, PAGE, 0));
	TELL(pread(fd, NULL, PAGE, 0));
	TELL(pread(fd, constant, PAGE, 0));
	TELL(pwrite(fd, constant, PAGE, 7 << 20));
	TELL(pwrite(fd, "text", PAGE, 7 << 20) == -1);
	memset(shared, 5, PAGE);
	TELL(pwrite(fd, shared, PAGE, 7 << 20));
	memset(shared, 0, PAGE);
	TELL(pread(fd, shared, PAGE, 7 << 20));
	printf("shared: %d\n", shared[17]);
	munmap(memory + PAGE, PAGE);
	TELL(pread(fd, memory, 2 * PAGE, 0));
	TELL(pread(fd, memory, PAGE, 7 << 20));
	printf("%d\n", memory[17]);
	close(fd);
}

/* Another process of the machine, whose writes go through Linux' page cache. */
static void cached(void)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR), other = open(path, O_RDWR);

	for (int i = 1; i < 20; i++) {
		memset(memory, i, PAGE);
		pwrite(other, memory, PAGE, 8 << 20);
		memset(memory, 0, PAGE);
		pread(fd, memory, PAGE, 8 << 20);
		printf("%d ", memory[5]);
		memset(memory, 100 + i, PAGE);
		pwrite(fd, memory, PAGE, 8 << 20);
		pread(other, memory, PAGE, 8 << 20);
		printf("%d\n", memory[5]);
	}
	close(other);
}

/* Threads, each with a part of its own, while others map, unmap and fork. */
static volatile int ends;

static void *accesses(void *argument)
{
	long number = (long)argument, bad = 0, rounds = by_tier(300, 1000);
	uint64_t seed = number + 1;
	int fd = opened(O_RDWR);

	for (long round = 0; round < rounds; round++) {
		size_t bytes = PAGE * (1 + round % 3);
		uint64_t offset = (16 << 20) + number * (1 << 20);
		char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		seed = seed * 6364136223846793005 + 1442695040888963407;
		offset += (seed >> 40) % 200 * PAGE;
		fill((void *)buffer, bytes, offset, round);
		bad += pwrite(fd, buffer, bytes, offset) != (ssize_t)bytes;
		memset(buffer, 0, bytes);
		bad += pread(fd, buffer, bytes, offset) != (ssize_t)bytes;
		bad += wrong((void *)buffer, bytes, offset, round);
		munmap(buffer, bytes);
	}
	close(fd);
	return (void *)bad;
}

static void *changes(void *argument)
{
	while (!ends) {
		char *memory = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pid_t child;

		memset(memory, 1, 64 * PAGE);
		child = fork();
		if (!child)
			_exit(0);
		mprotect(memory, 8 * PAGE, PROT_READ);
		munmap(memory, 64 * PAGE);
		waitpid(child, NULL, 0);
	}
	return argument;
}

static void threads(void)
{
	pthread_t all[THREADS], changer;
	long bad = 0;

	pthread_create(&changer, NULL, changes, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_create(all + i, NULL, accesses, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *more;

		pthread_join(all[i], &more);
		bad += (long)more;
	}
	ends = 1;
	pthread_join(changer, NULL);
	printf("%ld wrong\n", bad);
}

/* Memory that goes, is shared or replaced while the device writes to it. */
static char *moving;

static void *reads(void *argument)
{
	int fd = opened(O_RDONLY);

	while (!ends)
		pread(fd, moving, 16 * PAGE, 1 << 20);
	close(fd);
	return argument;
}

static void gone(void)
{
	pthread_t reader;
	long rounds = by_tier(200, 600), bad = 0;

	moving = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&reader, NULL, reads, NULL);
	for (long round = 0; round < rounds; round++) {
		/* What had its frames before must not show what the device writes. */
		munmap(moving, 16 * PAGE);
		char *other = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(other, 77, 16 * PAGE);
		for (int i = 0; i < 16 * PAGE; i += 64)
			bad += other != moving && other[i] != 77;
		munmap(other, 16 * PAGE);
		mmap(moving, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (round % 4 == 0) {
			pid_t child = fork();

			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
		}
	}
	ends = 1;
	pthread_join(reader, NULL);
	printf("%ld wrong\n", bad);
}

/* How many accesses Linux has counted for a hundred of each kind. */
static long counted(const char *stat, int which)
{
	long numbers[8] = { 0 };
	FILE *file = fopen(stat, "r");

	for (int i = 0; i < 8; i++)
		fscanf(file, "%ld", numbers + i);
	fclose(file);
	return numbers[which];
}

static void counts(const char *stat)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);
	long read = counted(stat, 0), written = counted(stat, 4);

	for (int i = 0; i < 100; i++) {
		pwrite(fd, memory, PAGE, (9 << 20) + i * PAGE);
		pread(fd, memory, PAGE, (9 << 20) + i * PAGE);
	}
	printf("Linux read %ld times and wrote %ld times\n", counted(stat, 0) - read, counted(stat, 4) - written);
}

/* A disk that answers late: an older write does not land on a newer one. */
static void late(void)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);

	for (int round = 1; round < 4; round++) {
		memset(memory, round, PAGE);
		printf("wrote %zd\n", pwrite(fd, memory, PAGE, 1 << 20));
	}
	for (int look = 0; look < 3; look++) {
		memset(memory, 0, PAGE);
		printf("read %zd: ", pread(fd, memory, PAGE, 1 << 20));
		printf("%d\n", memory[100]);
		sleep(1);
	}
	close(fd);
}

/* Goes on until told to end, and counts what was wrong. */
static void for_long(void)
{
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);
	long done = 0, bad = 0, failed = 0, slowest = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, (void (*)(int))(void *)exit);
	puts("begins");
	for (char byte; fcntl(0, F_SETFL, O_NONBLOCK) == 0 && read(0, &byte, 1) != 0;) {
		struct timespec from, to;
		uint64_t offset = (32 << 20) + done % 500 * 4 * PAGE;

		fill((void *)memory, 4 * PAGE, offset, done);
		clock_gettime(CLOCK_MONOTONIC, &from);
		failed += pwrite(fd, memory, 4 * PAGE, offset) != 4 * PAGE;
		memset(memory, 0, 4 * PAGE);
		if (pread(fd, memory, 4 * PAGE, offset) == 4 * PAGE)
			bad += wrong((void *)memory, 4 * PAGE, offset, done);
		else
			failed++;
		clock_gettime(CLOCK_MONOTONIC, &to);
		long ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
		if (ms > slowest)
			slowest = ms;
		done++;
	}
	printf("%ld %ld %ld %ld\n", done, bad, failed, slowest);
}

/* ---- two kernels on one disk ---- */

enum { STRIPES = 512, ROUNDS = 4 };

/* Every second block of 4 KiB, again and again; and then those of the other one. */
static void stripes(int which)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);
	long bad = 0;

	for (int round = 0; round < ROUNDS; round++)
		for (uint64_t i = which; i < 2 * STRIPES; i += 2) {
			fill((void *)memory, PAGE, i * PAGE, round);
			bad += pwrite(fd, memory, PAGE, i * PAGE) != PAGE;
			memset(memory, 0, PAGE);
			bad += pread(fd, memory, PAGE, i * PAGE) != PAGE || wrong((void *)memory, PAGE, i * PAGE, round);
		}
	printf("%ld bad\n", bad);
}

static void verify(int which)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDONLY);
	long bad = 0;

	for (uint64_t i = which; i < 2 * STRIPES; i += 2)
		bad += pread(fd, memory, PAGE, i * PAGE) != PAGE || wrong((void *)memory, PAGE, i * PAGE, ROUNDS - 1);
	printf("%ld bad\n", bad);
}

static void even(void)
{
	stripes(0);
}

static void odd(void)
{
	stripes(1);
}

static void verify_even(void)
{
	verify(0);
}

static void verify_odd(void)
{
	verify(1);
}

/* ---- beside many readers ---- */

enum { READERS = 30, SECONDS = 3 };

static void *reads_a_page(void *argument)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDONLY);

	for (long round = (long)argument; !ends; round++)
		pread(fd, memory, PAGE, round % 5000 * PAGE);
	close(fd);
	return NULL;
}

static long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A thread computes on the CPU of the readers: the longest time for which it did not, ms. */
static void beside_readers(void)
{
	pthread_t all[READERS];
	cpu_set_t cpus;
	long longest = 0, from, before, now;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus) && found++)
			CPU_CLR(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (long i = 0; i < READERS; i++)
		pthread_create(all + i, NULL, reads_a_page, (void *)(i * 100));
	from = before = milliseconds();
	do {
		now = milliseconds();
		if (now - before > longest)
			longest = now - before;
		before = now;
	} while (now - from < SECONDS * 1000);
	ends = 1;
	for (int i = 0; i < READERS; i++)
		pthread_join(all[i], NULL);
	printf("%ld\n", longest);
}

/* ---- what becomes of an open disk ---- */

/* One write of many commands, up to the end. */
static void to_the_end(void)
{
	char *memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);
	uint64_t size = 0;

	memset(memory, 'w', MOST);
	ioctl(fd, BLKGETSIZE64, &size);
	puts("begins");
	fflush(stdout);
	printf("%zd\n", pwrite(fd, memory, MOST, size - MOST));
}

/* A line for each one that is read: what a read and a write are then, at a place and at another. */
static void asked(void)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = opened(O_RDWR);
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t offset = strtoull(line, NULL, 0) * PAGE;
		ssize_t got = pread(fd, memory, PAGE, offset);
		int error = got < 0 ? errno : 0;
		ssize_t put = pwrite(fd, memory, PAGE, offset);

		printf("%zd %d %zd %d\n", got, error, put, put < 0 ? errno : 0);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "lengths", lengths }, { "vectors", vectors }, { "edges", edges }, { "cached", cached },
		{ "threads", threads }, { "gone", gone }, { "for-long", for_long },
		{ "late", late }, { "even", even }, { "odd", odd }, { "verify-even", verify_even },
		{ "verify-odd", verify_odd }, { "asked", asked },
		{ "beside-readers", beside_readers }, { "to-the-end", to_the_end },
	};

	path = argv[2];
	if (!strcmp(argv[1], "counts"))
		counts(argv[3]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name))
			cases[i].run();
	return 0;
}
