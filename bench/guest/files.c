/* read() of a file in memory, into a buffer that is used again or touched first by the read. */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_BYTES (10 << 20)
#define MIB 1048576.0

static const struct size {
	const char *name;
	size_t bytes;
	int count;		/* reads in a batch */
} sizes[] = {
	{ "1k", 1 << 10, 100 },
	{ "64k", 64 << 10, 10 },
	{ "1m", 1 << 20, 1 },
	{ "10m", 10 << 20, 1 },
};

static void read_whole(int fd, char *to, size_t bytes)
{
	if (pread(fd, to, bytes, 0) != (ssize_t)bytes)
		fail("pread");
}

static char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

/* ns for `count` reads; `fresh`: each into memory that was not touched before. */
static double batch(int fd, size_t bytes, int count, int fresh, char *buffer)
{
	uint64_t time = 0;

	for (int i = 0; i < count; i++) {
		char *to = fresh ? map(bytes) : buffer;
		uint64_t start = ticks();

		read_whole(fd, to, bytes);
		time += ticks() - start;
		if (fresh)
			munmap(to, bytes);
	}
	return ticks_ns(time);
}

static void throughput(const struct wish *wish, int fd, const struct size *size, int fresh)
{
	char *buffer = map(size->bytes), id[32];
	struct best best;

	memset(buffer, 1, size->bytes);
	for (best_begin(&best, wish); best_more(&best);)
		best_add(&best, batch(fd, size->bytes, size->count, fresh, buffer));
	munmap(buffer, size->bytes);
	snprintf(id, sizeof(id), "read.%s%s", size->name, fresh ? "-first" : "");
	report(id, (double)size->bytes * size->count / MIB / (best.best / 1e9));
}

/* 1 MB in 1,024 calls, as a program that reads a file with a small buffer does. */
static void in_pieces(const struct wish *wish, int fd)
{
	static char buffer[1024];
	struct best best;

	for (best_begin(&best, wish); best_more(&best);) {
		uint64_t start = now_ns();

		if (lseek(fd, 0, SEEK_SET) != 0)
			fail("lseek");
		for (int piece = 0; piece < 1024; piece++)
			if (read(fd, buffer, sizeof(buffer)) != sizeof(buffer))
				fail("read");
		best_add(&best, (double)(now_ns() - start) / 1e6);
	}
	report("read.1m-by-1k", best.best);
}

void group_files(const struct wish *wish)
{
	int fd = open(wish->file ? wish->file : "/dev/shm/hanare-bench", O_RDWR | O_CREAT, 0600);
	char *content = map(FILE_BYTES);

	if (fd < 0)
		fail("open");
	memset(content, 'h', FILE_BYTES);
	if (pwrite(fd, content, FILE_BYTES, 0) != FILE_BYTES)
		fail("pwrite");
	munmap(content, FILE_BYTES);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		throughput(wish, fd, &sizes[i], 0);
		throughput(wish, fd, &sizes[i], 1);
	}
	in_pieces(wish, fd);
	close(fd);
}
