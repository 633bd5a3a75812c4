/* io_uring without a library: a thread of Linux' looks for submissions (SQPOLL), waiters poll. */
#define _GNU_SOURCE
#include "ways.h"

#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES CALLS_MAX
/* Until Linux' thread sleeps. */
#define IDLE_MS 2000

typedef _Atomic uint32_t word;

static struct {
	int fd;
	word *sq_tail, *sq_flags, *cq_head, *cq_tail;
	uint32_t *array;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *completions;
	uint32_t sq_mask, cq_mask, tail, head;
} ring = { .fd = -1 };

static char *area(size_t size, off_t offset)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);

	if (at == MAP_FAILED)
		fail("mmap of an io_uring");
	return at;
}

int uring_begin(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SQPOLL, .sq_thread_idle = IDLE_MS };
	char *sq, *cq;

	if (ring.fd >= 0)
		return 1;
	ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring.fd < 0)
		return 0;
	sq = area(params.sq_off.array + params.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	cq = area(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.entries = (struct io_uring_sqe *)area(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.sq_tail = (word *)(sq + params.sq_off.tail);
	ring.sq_flags = (word *)(sq + params.sq_off.flags);
	ring.array = (uint32_t *)(sq + params.sq_off.array);
	ring.cq_head = (word *)(cq + params.cq_off.head);
	ring.cq_tail = (word *)(cq + params.cq_off.tail);
	ring.completions = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	ring.sq_mask = params.sq_entries - 1;
	ring.cq_mask = params.cq_entries - 1;
	return 1;
}

/* Publishes what was filled; wakes Linux' thread if it sleeps. */
static void submit(void)
{
	atomic_store_explicit(ring.sq_tail, ring.tail, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(ring.sq_flags, memory_order_relaxed) & IORING_SQ_NEED_WAKEUP)
		syscall(SYS_io_uring_enter, ring.fd, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
}

static void fill(void)
{
	uint32_t index = ring.tail++ & ring.sq_mask;

	fill_entry(&ring.entries[index]);
	ring.array[index] = index;
}

static void complete(void)
{
	while (atomic_load_explicit(ring.cq_tail, memory_order_acquire) == ring.head)
		__builtin_ia32_pause();
	check_result(ring.completions[ring.head & ring.cq_mask].res);
	ring.head++;
}

static void give_back(void)
{
	atomic_store_explicit(ring.cq_head, ring.head, memory_order_release);
}

void uring_one_by_one(int calls)
{
	for (int i = 0; i < calls; i++) {
		fill();
		submit();
		complete();
		give_back();
	}
}

void uring_batch(int calls)
{
	for (int i = 0; i < calls; i++)
		fill();
	submit();
	for (int i = 0; i < calls; i++)
		complete();
	give_back();
}
