/* Linux' asynchronous I/O: io_setup and so on, and the ring in memory that libaio reads. */
#include "guest.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>

struct ring {
	unsigned id, nr, head, tail, magic, compat, incompat, header_length;
};

static long setup(unsigned n, aio_context_t *c) { return syscall(SYS_io_setup, n, c); }
static long destroy(aio_context_t c) { return syscall(SYS_io_destroy, c); }
static long submit(aio_context_t c, long n, struct iocb **b) { return syscall(SYS_io_submit, c, n, b); }
static long events(aio_context_t c, long low, long n, struct io_event *e, struct timespec *t)
{
	return syscall(SYS_io_getevents, c, low, n, e, t);
}

int main(void)
{
	aio_context_t context = 0, other = 0;
	struct io_event done[64];
	struct timespec moment = { 0, 50000000 };
	int file = open("aio-file", O_RDWR | O_CREAT | O_TRUNC, 0644), direct, event = eventfd(0, 0), pipes[2];
	char *memory = NULL;
	struct iocb blocks[32], *list[32];
	struct ring *ring;
	uint64_t count;
	long bytes = 0, n;

	TELL(setup(0, &context));
	TELL(setup(100, (void *)0x10000000000));
	TELL(setup(100, &context));
	TELL(context != 0);
	other = context;
	TELL(setup(1, &other));
	ring = (struct ring *)context;
	TELL(ring->magic == 0xa10a10a1);
	TELL(ring->nr >= 100);
	TELL(ring->head == ring->tail);
	posix_memalign((void **)&memory, 1 << 16, 1 << 20);
	memset(memory, 'm', 1 << 20);
	TELL(ftruncate(file, 1 << 20));
	direct = open("aio-file", O_RDWR | O_DIRECT);
	printf("O_DIRECT: %s\n", direct < 0 ? strerrorname_np(errno) : "yes");
	if (direct < 0)
		direct = file;
	/* 32 writes of 32 KiB. */
	for (int i = 0; i < 32; i++) {
		memset(memory + (i << 15), 'A' + i, 1 << 15);
		blocks[i] = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = direct,
			.aio_buf = (uintptr_t)memory + (i << 15), .aio_nbytes = 1 << 15,
			.aio_offset = i << 15, .aio_data = i, .aio_flags = IOCB_FLAG_RESFD, .aio_resfd = event };
		list[i] = &blocks[i];
	}
	TELL(submit(context, 32, list));
	while (bytes < 1 << 20 && (n = events(context, 1, 64, done, NULL)) > 0)
		for (int i = 0; i < n; i++)
			bytes += done[i].res;
	TELL(bytes);
	TELL(read(event, &count, 8) + count);
	TELL(ring->head == ring->tail);
	TELL(events(context, 1, 1, done, &moment));
	/* Reads into memory that was not touched, and that moved meanwhile. */
	free(memory);
	memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 32; i++)
		blocks[i] = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = direct,
			.aio_buf = (uintptr_t)memory + (i << 15), .aio_nbytes = 1 << 15, .aio_offset = i << 15, .aio_data = i };
	TELL(submit(context, 32, list));
	bytes = n = 0;
	while (n < 32) {
		long got = events(context, 1, 64, done, NULL);

		if (got <= 0)
			break;
		n += got;
		for (int i = 0; i < got; i++)
			bytes += done[i].res == 1 << 15 && memory[done[i].data << 15] == 'A' + (int)done[i].data;
	}
	TELL(bytes);
	/* Errors in a block, polling a pipe, cancelling. */
	blocks[0].aio_fildes = 999;
	TELL(submit(context, 1, list));
	TELL(submit(context + 1, 1, list));
	TELL(submit(context, -1, list));
	TELL(submit(context, 1, NULL));
	list[1] = (void *)0x10000000000;
	blocks[0].aio_fildes = file;
	TELL(submit(context, 2, list));
	TELL(events(context, 1, 1, done, NULL));
	pipe(pipes);
	blocks[2] = (struct iocb){ .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = pipes[0], .aio_buf = 1, .aio_data = 77 };
	list[0] = &blocks[2];
	TELL(submit(context, 1, list));
	TELL(events(context, 1, 1, done, &moment));
	write(pipes[1], "x", 1);
	TELL(events(context, 1, 1, done, NULL));
	TELL(done[0].data * 100 + done[0].res);
	TELL(events(context, 0, 1, (void *)0x10000000000, NULL));
	/* The ring survives a fork in the parent only. */
	fflush(stdout);
	if (!fork()) {
		TELL(submit(context, 0, list));
		exit(0);
	}
	wait(NULL);
	TELL(submit(context, 0, list));
	TELL(destroy(context));
	TELL(destroy(context));
	TOUCH((char *)ring, 0);
	other = 0;
	TELL(setup(2000, &other));
	TELL(((struct ring *)other)->magic == 0xa10a10a1);
	for (int i = 0; i < 20; i++) {
		context = 0;
		if (setup(10, &context) || destroy(context))
			puts("not again");
	}
	return 0;
}
