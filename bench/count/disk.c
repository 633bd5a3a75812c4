/*
 * disk WAY N PATH: accesses 4 KiB of a disk N times between two marks (plugin.c).
 *
 * WAY is pread or pwrite, with O_DIRECT, or uring-read or uring-write: by io_uring with a
 * registered file and buffer, polled (IORING_SETUP_IOPOLL), one at a time.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "marks.h"

#define BYTES 4096
/* Accesses before those that are counted. */
#define BEFORE 64
/* Blocks that are accessed in turn. */
#define BLOCKS 1024

static char buffer[BYTES] __attribute__((aligned(BYTES)));
static int disk;
static off_t offset;

static void by_read(void)
{
	if (pread(disk, buffer, BYTES, offset) != BYTES)
		err(1, "pread");
}

static void by_write(void)
{
	if (pwrite(disk, buffer, BYTES, offset) != BYTES)
		err(1, "pwrite");
}

/* ---- io_uring ---- */

static struct {
	int fd;
	_Atomic uint32_t *tail, *head_done, *tail_done;
	struct io_uring_sqe *entry;
	struct io_uring_cqe *done;
	uint32_t mask_done;
} ring;

static char *area(size_t size, off_t of)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, of);

	if (at == MAP_FAILED)
		err(1, "mmap of an io_uring");
	return at;
}

static void begin_ring(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_IOPOLL };
	struct iovec all = { buffer, BYTES };
	char *asked, *done;

	ring.fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring.fd < 0 || syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &disk, 1) ||
	    syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &all, 1))
		err(1, "io_uring");
	asked = area(params.sq_off.array + params.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	done = area(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.entry = (struct io_uring_sqe *)area(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.tail = (_Atomic uint32_t *)(asked + params.sq_off.tail);
	ring.head_done = (_Atomic uint32_t *)(done + params.cq_off.head);
	ring.tail_done = (_Atomic uint32_t *)(done + params.cq_off.tail);
	ring.done = (struct io_uring_cqe *)(done + params.cq_off.cqes);
	ring.mask_done = params.cq_entries - 1;
}

static void by_ring(uint8_t what)
{
	uint32_t head = atomic_load_explicit(ring.head_done, memory_order_relaxed);

	*ring.entry = (struct io_uring_sqe){ .opcode = what, .flags = IOSQE_FIXED_FILE, .off = offset,
					     .addr = (uintptr_t)buffer, .len = BYTES };
	atomic_fetch_add(ring.tail, 1);
	while (atomic_load_explicit(ring.tail_done, memory_order_acquire) == head)
		if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			err(1, "io_uring_enter");
	if (ring.done[head & ring.mask_done].res != BYTES)
		errx(1, "io_uring: %d", ring.done[head & ring.mask_done].res);
	atomic_store_explicit(ring.head_done, head + 1, memory_order_release);
}

static void ring_read(void)
{
	by_ring(IORING_OP_READ_FIXED);
}

static void ring_write(void)
{
	by_ring(IORING_OP_WRITE_FIXED);
}

static const struct way {
	const char *name;
	void (*access)(void);
	void (*prepare)(void);
} ways[] = {
	{ "pread", by_read, NULL },
	{ "pwrite", by_write, NULL },
	{ "uring-read", ring_read, begin_ring },
	{ "uring-write", ring_write, begin_ring },
};

static void access_often(const struct way *way, long count)
{
	for (long i = 0; i < count; i++) {
		offset = i % BLOCKS * BYTES;
		way->access();
	}
}

static void mark(void)
{
	asm volatile(MARK ::: "memory");
}

int main(int argc, char **argv)
{
	const struct way *way = ways, *end = ways + sizeof(ways) / sizeof(*ways);

	if (argc != 4)
		errx(2, "usage: disk WAY N PATH");
	while (way < end && strcmp(way->name, argv[1]))
		way++;
	if (way == end)
		errx(2, "no way is called %s", argv[1]);
	memset(buffer, 1, BYTES);
	disk = open(argv[3], O_RDWR | O_DIRECT);
	if (disk < 0)
		err(1, "%s", argv[3]);
	if (way->prepare)
		way->prepare();
	access_often(way, BEFORE);
	mark();
	access_often(way, atol(argv[2]));
	mark();
	return 0;
}
