/* io_uring without a library: rings and entries map its descriptor, buffers are any memory. */
#include "guest.h"
#include <linux/io_uring.h>
#include <poll.h>
#include <stdatomic.h>

struct uring {
	int fd;
	struct io_uring_params params;
	char *sq, *cq;
	struct io_uring_sqe *entries;
	unsigned left;
};

static int enter(struct uring *u, unsigned submit, unsigned complete, unsigned flags)
{
	return syscall(SYS_io_uring_enter, u->fd, submit, complete, flags, NULL, 0);
}

static void *area(struct uring *u, size_t size, off_t offset)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd, offset);

	if (p == MAP_FAILED) {
		printf("mmap of the ring: %s\n", strerrorname_np(errno));
		exit(1);
	}
	return p;
}

static int begin(struct uring *u, unsigned entries, unsigned flags)
{
	memset(u, 0, sizeof(*u));
	u->params.flags = flags;
	u->fd = syscall(SYS_io_uring_setup, entries, &u->params);
	if (u->fd < 0)
		return -1;
	u->sq = area(u, u->params.sq_off.array + u->params.sq_entries * 4, IORING_OFF_SQ_RING);
	u->cq = area(u, u->params.cq_off.cqes + u->params.cq_entries * 16, IORING_OFF_CQ_RING);
	u->entries = area(u, u->params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	return 0;
}

static void end(struct uring *u)
{
	munmap(u->sq, u->params.sq_off.array + u->params.sq_entries * 4);
	munmap(u->cq, u->params.cq_off.cqes + u->params.cq_entries * 16);
	munmap(u->entries, u->params.sq_entries * sizeof(struct io_uring_sqe));
	close(u->fd);
}

#define WORD(base, offset) ((_Atomic unsigned *)((base) + (offset)))

static struct io_uring_sqe *entry(struct uring *u, int op, int fd, void *memory, unsigned len, off_t offset, long data)
{
	unsigned tail = atomic_load(WORD(u->sq, u->params.sq_off.tail)), index = tail & (u->params.sq_entries - 1);
	struct io_uring_sqe *e = &u->entries[index];

	memset(e, 0, sizeof(*e));
	e->opcode = op;
	e->fd = fd;
	e->addr = (uintptr_t)memory;
	e->len = len;
	e->off = offset;
	e->user_data = data;
	((unsigned *)(u->sq + u->params.sq_off.array))[index] = index;
	atomic_store(WORD(u->sq, u->params.sq_off.tail), tail + 1);
	return e;
}

/* Takes completions: adds up results, counts data mismatches by the caller's table. */
static int take(struct uring *u, long *sum, long *data)
{
	unsigned head = atomic_load(WORD(u->cq, u->params.cq_off.head));
	int n = 0;

	while (head != atomic_load(WORD(u->cq, u->params.cq_off.tail))) {
		struct io_uring_cqe *c = (void *)(u->cq + u->params.cq_off.cqes);

		c += head & (u->params.cq_entries - 1);
		*sum += c->res;
		*data += c->user_data;
		head++;
		n++;
	}
	atomic_store(WORD(u->cq, u->params.cq_off.head), head);
	return n;
}

static void files(struct uring *u, int file)
{
	char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long sum = 0, data = 0, good = 0;
	struct iovec pieces[2] = { { p, 100 }, { p + (1 << 19), 100 } };

	memset(p, 'x', 1 << 20);
	for (int i = 0; i < 16; i++) {
		memset(p + (i << 16), 'a' + i, 1 << 16);
		entry(u, IORING_OP_WRITE, file, p + (i << 16), 1 << 16, i << 16, i);
	}
	TELL(enter(u, 16, 16, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	printf("written %ld, data %ld\n", sum, data);
	munmap(p, 1 << 20);
	p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sum = data = 0;
	for (int i = 0; i < 16; i++)
		entry(u, IORING_OP_READ, file, p + (i << 16), 1 << 16, i << 16, i);
	TELL(enter(u, 16, 16, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	for (int i = 0; i < 16; i++)
		good += p[i << 16] == 'a' + i && p[(i << 16) + 65535] == 'a' + i;
	printf("read %ld, data %ld, right %ld\n", sum, data, good);
	sum = data = 0;
	pieces[0].iov_base = p;
	pieces[1].iov_base = p + (1 << 19);
	entry(u, IORING_OP_READV, file, pieces, 2, 65486, 5);
	entry(u, IORING_OP_FSYNC, file, NULL, 0, 0, 6);
	entry(u, IORING_OP_READ, 999, p, 10, 0, 7);
	entry(u, IORING_OP_READ, file, (void *)0x10000000000, 10, 0, 8);
	entry(u, IORING_OP_NOP, -1, NULL, 0, 0, 9);
	TELL(enter(u, 5, 5, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	printf("sum of results %ld, data %ld, %c%c\n", sum, data, p[0], p[99]);
	munmap(p, 1 << 20);
}

static void waiting(struct uring *u)
{
	long sum = 0, data = 0;
	int pipes[2];
	char text[10] = "";
	struct __kernel_timespec moment = { 0, 30000000 };

	pipe(pipes);
	/* A read of an empty pipe waits in a thread of Linux', and is answered later. */
	entry(u, IORING_OP_READ, pipes[0], text, 5, 0, 1);
	TELL(enter(u, 1, 0, 0));
	TELL(take(u, &sum, &data));
	TELL(write(pipes[1], "hello", 5));
	TELL(enter(u, 0, 1, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	printf("%s %ld\n", text, sum);
	sum = 0;
	entry(u, IORING_OP_TIMEOUT, -1, &moment, 1, 0, 2);
	TELL(enter(u, 1, 1, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	TELL(sum == -ETIME);
	sum = 0;
	entry(u, IORING_OP_POLL_ADD, pipes[0], NULL, 0, 0, 3)->poll32_events = POLLIN;
	entry(u, IORING_OP_POLL_REMOVE, -1, (void *)3, 0, 0, 4);
	TELL(enter(u, 2, 2, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	TELL(sum == -ECANCELED);
	/* Memory that is gone when the answer comes. */
	char *gone = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sum = 0;
	gone[0] = 1;
	entry(u, IORING_OP_READ, pipes[0], gone, 5, 0, 1);
	TELL(enter(u, 1, 0, 0));
	munmap(gone, PAGE);
	TELL(write(pipes[1], "hello", 5));
	TELL(enter(u, 0, 1, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	TELL(sum == -EFAULT);
	TELL(fcntl(pipes[0], F_SETFL, O_NONBLOCK));
	while (read(pipes[0], text, 10) > 0)
		;
	TELL(fcntl(pipes[0], F_SETFL, 0));
	memset(text, 0, sizeof(text));
	/* Linked: a write, then a read of it. */
	sum = 0;
	entry(u, IORING_OP_WRITE, pipes[1], "linked", 6, 0, 5)->flags = IOSQE_IO_LINK;
	entry(u, IORING_OP_READ, pipes[0], text, 6, 0, 6);
	TELL(enter(u, 2, 2, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	printf("%s %ld\n", text, sum);
}

static void registered(struct uring *u, int file)
{
	char *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec buffer = { p, 1 << 16 };
	int descriptors[2] = { file, -1 };
	long sum = 0, data = 0;

	TELL(syscall(SYS_io_uring_register, u->fd, IORING_REGISTER_FILES, descriptors, 2));
	entry(u, IORING_OP_READ, 0, p, 100, 0, 1)->flags = IOSQE_FIXED_FILE;
	TELL(enter(u, 1, 1, IORING_ENTER_GETEVENTS));
	TELL(take(u, &sum, &data));
	TELL(sum);
	if (syscall(SYS_io_uring_register, u->fd, IORING_REGISTER_BUFFERS, &buffer, 1)) {
		/* Not for the memory of an LWK, on kernels that pin only what has no file. */
		if (getenv("TELL_BUFFERS"))
			printf("buffers: %s\n", strerrorname_np(errno));
		return;
	}
	sum = 0;
	entry(u, IORING_OP_READ_FIXED, file, p + 100, 1000, 65536, 2);
	enter(u, 1, 1, IORING_ENTER_GETEVENTS);
	take(u, &sum, &data);
	if (sum != 1000 || p[100] != 'b')
		printf("fixed: %ld %c\n", sum, p[100]);
	syscall(SYS_io_uring_register, u->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

/* Linux' own thread looks into the ring: no call to submit. */
static void polled(int file)
{
	struct uring u;
	long sum = 0, data = 0;
	char *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int n = 0;

	if (TELL(begin(&u, 8, IORING_SETUP_SQPOLL)))
		return;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 4; i++)
			entry(&u, IORING_OP_READ, file, p + (i << 14), 1 << 14, i << 16, 1);
		if (atomic_load(WORD(u.sq, u.params.sq_off.flags)) & IORING_SQ_NEED_WAKEUP)
			enter(&u, 0, 0, IORING_ENTER_SQ_WAKEUP);
		for (int i = 0; i < 200000 && n < 4 * (round + 1); i++) {
			n += take(&u, &sum, &data);
			usleep(500);
			if (atomic_load(WORD(u.sq, u.params.sq_off.flags)) & IORING_SQ_NEED_WAKEUP)
				enter(&u, 0, 0, IORING_ENTER_SQ_WAKEUP);
		}
	}
	printf("polled %d: %ld %ld %c%c%c%c\n", n, sum, data, p[0], p[1 << 14], p[2 << 14], p[3 << 14]);
	end(&u);
}

int main(void)
{
	struct uring u;
	int file = open("uring-file", O_RDWR | O_CREAT | O_TRUNC, 0644);

	TELL(syscall(SYS_io_uring_setup, 0, &u.params));
	TELL(syscall(SYS_io_uring_setup, 8, NULL));
	if (TELL(begin(&u, 16, 0)))
		return 1;
	TELL(u.params.sq_entries * 1000 + u.params.cq_entries);
	files(&u, file);
	waiting(&u);
	registered(&u, file);
	fflush(stdout);
	if (!fork()) {
		/* The child has the descriptor and its own view of the ring. */
		long sum = 0, data = 0;

		entry(&u, IORING_OP_NOP, -1, NULL, 0, 0, 11);
		TELL(enter(&u, 1, 1, IORING_ENTER_GETEVENTS));
		TELL(take(&u, &sum, &data));
		exit(data);
	}
	int status;
	wait(&status);
	TELL(WEXITSTATUS(status));
	end(&u);
	TOUCH(u.sq, 0);
	polled(file);
	for (int i = 0; i < 10; i++) {
		begin(&u, 4, 0);
		end(&u);
	}
	return 0;
}
