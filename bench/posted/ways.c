/* Ways to make the calls of a task: by trap, posted, in a function, by io_uring. */
#define _GNU_SOURCE
#include "ways.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char buffer[BYTES_MAX] __attribute__((aligned(4096)));
static int file = -1;
static long bytes = 1;

void set_call(long wanted)
{
	bytes = wanted;
	if (file >= 0)
		return;
	file = memfd_create("hanare-bench-posted", 0);
	memset(buffer, 'h', sizeof(buffer));
	if (file < 0 || pwrite(file, buffer, sizeof(buffer), 0) != sizeof(buffer))
		fail("a file in memory");
}

void check_result(long result)
{
	if (bytes == NULL_CALL ? result < 0 : result != bytes)
		fail("a call");
}

hanare_queue *queue_of_ways(void)
{
	static hanare_queue *queue;
	struct hanare_attributes attributes;

	if (queue)
		return queue;
	hanare_attributes_init(&attributes);
	attributes.depth = 1024;
	/* Waiters poll: the ways differ by what they cost, not by when a thread falls asleep. */
	attributes.spin_ns = attributes.wait_spin_ns = 500000000;
	if (hanare_queue_create(&queue, &attributes))
		fail("hanare_queue_create");
	return queue;
}

int64_t result_of(hanare_ticket ticket)
{
	int64_t result;

	if (ticket < 0 || hanare_wait(queue_of_ways(), ticket, &result, HANARE_FOREVER))
		fail("hanare_wait");
	return result;
}

/* ---- by trap ---- */

int begin_nothing(void)
{
	return 1;
}

void by_trap(int calls)
{
	for (int i = 0; i < calls; i++)
		check_result(bytes == NULL_CALL ? syscall(SYS_getppid) :
						  syscall(SYS_pread64, file, buffer, (size_t)bytes, 0));
}

/* ---- posted: each waited for (FlexSC), and all of a task at once ---- */

int begin_queue(void)
{
	return queue_of_ways() != NULL;
}

void by_post(int calls)
{
	hanare_queue *queue = queue_of_ways();

	for (int i = 0; i < calls; i++) {
		hanare_ticket ticket = bytes == NULL_CALL ?
					       hanare_submit(queue, SYS_getppid) :
					       hanare_submit(queue, SYS_pread64, file, buffer, bytes, 0);

		check_result(result_of(ticket));
	}
}

void by_batch(int calls)
{
	struct hanare_request requests[CALLS_MAX];
	hanare_ticket tickets[CALLS_MAX];

	for (int i = 0; i < calls; i++)
		if (bytes == NULL_CALL)
			requests[i] = (struct hanare_request){ SYS_getppid, { 0 } };
		else
			requests[i] = (struct hanare_request){ SYS_pread64, { (uint64_t)file, (uintptr_t)buffer, (uint64_t)bytes } };
	if (hanare_submit_batch(queue_of_ways(), requests, (size_t)calls, tickets) != calls)
		fail("hanare_submit_batch");
	for (int i = 0; i < calls; i++)
		check_result(result_of(tickets[i]));
}

/* ---- in a function, which makes the calls where it is executed (Sakura Call) ---- */

static long make_calls(long calls)
{
	by_trap((int)calls);
	return calls;
}

void by_function(int calls)
{
	if (result_of(hanare_call(queue_of_ways(), 0, make_calls, calls)) != calls)
		fail("a function");
}

/* The same, with results picked up later. */
#define AHEAD 16
static hanare_ticket ahead[AHEAD];
static unsigned int begun, ended;

static void end_one(void)
{
	if (result_of(ahead[ended++ % AHEAD]) <= 0)
		fail("a function");
}

void by_function_ahead(int calls)
{
	if (begun - ended == AHEAD)
		end_one();
	ahead[begun++ % AHEAD] = hanare_call(queue_of_ways(), 0, make_calls, calls);
}

void end_functions_ahead(void)
{
	while (begun != ended)
		end_one();
}

/* ---- io_uring ---- */

void fill_entry(struct io_uring_sqe *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->opcode = bytes == NULL_CALL ? IORING_OP_NOP : IORING_OP_READ;
	entry->fd = bytes == NULL_CALL ? -1 : file;
	entry->addr = bytes == NULL_CALL ? 0 : (uintptr_t)buffer;
	entry->len = bytes == NULL_CALL ? 0 : (uint32_t)bytes;
}
