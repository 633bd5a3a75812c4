/* Reads of one size after the other: the cost of moving a call's data, by mapping or by copying. */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB 1024ul

/* In KiB; up to 64 MiB. */
static const size_t sizes_kib[] = { 1, 4, 16, 64, 256, 1024, 4096, 16384, 65536 };
#define SIZES (sizeof(sizes_kib) / sizeof(*sizes_kib))
/* Read in a batch at least: a batch is to be longer than a reading of the clock. */
#define BATCH_KIB 256ul

static char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

/* us of one read of `bytes`; with `fresh`, into memory that was not touched before. */
static double read_us(const struct wish *wish, int fd, size_t bytes, int fresh)
{
	int count = bytes < BATCH_KIB * KIB ? (int)(BATCH_KIB * KIB / bytes / 4) : 1;
	char *buffer = map(bytes);
	struct best best;

	memset(buffer, 1, bytes);
	for (best_begin(&best, wish); best_more(&best);) {
		uint64_t time = 0;

		for (int i = 0; i < count; i++) {
			char *to = fresh ? map(bytes) : buffer;
			uint64_t start = ticks();

			if (pread(fd, to, bytes, 0) != (ssize_t)bytes)
				fail("pread");
			time += ticks() - start;
			if (fresh)
				munmap(to, bytes);
		}
		best_add(&best, ticks_ns(time) / 1e3 / count);
	}
	munmap(buffer, bytes);
	return best.best;
}

/*
 * 1 MB of a device, past the page cache, in 1,024 calls: ms. `file`: the device, or a file on it of
 * 1 MiB at least.
 */
void group_device(const struct wish *wish)
{
	int fd = open(wish->file ? wish->file : "", O_RDONLY | O_DIRECT);
	uint64_t start;
	void *buffer;

	if (fd < 0)
		fail("the device");
	if (posix_memalign(&buffer, 4096, KIB))
		fail("posix_memalign");
	memset(buffer, 1, KIB);
	start = now_ns();
	for (int piece = 0; piece < 1024; piece++)
		if (read(fd, buffer, KIB) != (ssize_t)KIB)
			fail("read");
	report("device", (double)(now_ns() - start) / 1e6);
	close(fd);
	free(buffer);
}

void group_transfer(const struct wish *wish)
{
	size_t most = sizes_kib[SIZES - 1] * KIB;
	int fd = open(wish->file ? wish->file : "/dev/shm/hanare-bench", O_RDWR | O_CREAT, 0600);
	char *content = map(KIB * KIB);

	if (fd < 0)
		fail("open");
	memset(content, 'h', KIB * KIB);
	for (size_t at = 0; at < most; at += KIB * KIB)
		if (pwrite(fd, content, KIB * KIB, (off_t)at) != (ssize_t)(KIB * KIB))
			fail("pwrite");
	munmap(content, KIB * KIB);
	for (unsigned i = 0; i < SIZES; i++)
		for (int fresh = 0; fresh < 2; fresh++) {
			char id[32];

			snprintf(id, sizeof(id), "%zuk%s", sizes_kib[i], fresh ? "-first" : "");
			report(id, read_us(wish, fd, sizes_kib[i] * KIB, fresh));
		}
	if (ftruncate(fd, 0))
		fail("ftruncate");
	close(fd);
}
