/*
 * Memory of the program that devices keep: Linux pins its pages, and what a device writes there, or
 * reads, is the program's, also after it has forked.
 *
 *   pinned-memory xdp NAME PEER       packets from memory of an AF_XDP socket
 *   pinned-memory uring               registered buffers of io_uring
 *   pinned-memory rings               io_uring whose rings and list of buffers the program has made
 *   pinned-memory readonly FILE       what Linux does to memory that is read-only by now
 *   pinned-memory replaced FILE       files that are mapped where memory was registered
 *   pinned-memory together            two threads that register parts of one mapping
 *   pinned-memory refused             registrations of what is not there
 */
#include "guest.h"
#include "pinned.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/io_uring.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* ---- AF_XDP ---- */

enum { FRAMES = 64, FRAME = 2048, TYPE = 0x88b5, TEXT = ETH_HLEN };

static void xdp(char **arguments)
{
	char *memory = fresh(FRAMES * FRAME);
	struct xdp_umem_reg region = { .addr = (unsigned long)memory, .len = FRAMES * FRAME, .chunk_size = FRAME };
	struct sockaddr_xdp here = { .sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(arguments[0]), .sxdp_flags = XDP_COPY };
	struct sockaddr_ll peer = { .sll_family = AF_PACKET, .sll_protocol = htons(TYPE), .sll_ifindex = if_nametoindex(arguments[1]) };
	int fd = socket(AF_XDP, SOCK_RAW, 0), receiver = socket(AF_PACKET, SOCK_RAW, htons(TYPE)), size = FRAMES;
	struct xdp_mmap_offsets offsets;
	socklen_t length = sizeof(offsets);
	char *sent, *done;

	must(fd >= 0 && receiver >= 0, "socket");
	must(!setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &region, sizeof(region)), "XDP_UMEM_REG");
	for (int option = XDP_TX_RING; option <= XDP_UMEM_COMPLETION_RING; option++)
		if (option != XDP_UMEM_REG)
			must(!setsockopt(fd, SOL_XDP, option, &size, sizeof(size)), "rings");
	must(!getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length), "XDP_MMAP_OFFSETS");
	sent = mmap(NULL, offsets.tx.desc + FRAMES * sizeof(struct xdp_desc), RW, MAP_SHARED | MAP_POPULATE, fd, XDP_PGOFF_TX_RING);
	done = mmap(NULL, offsets.cr.desc + FRAMES * sizeof(__u64), RW, MAP_SHARED | MAP_POPULATE, fd, XDP_UMEM_PGOFF_COMPLETION_RING);
	must(sent != MAP_FAILED && done != MAP_FAILED, "mmap of the rings");
	must(!bind(fd, (void *)&here, sizeof(here)) && !bind(receiver, (void *)&peer, sizeof(peer)), "bind");
	for (unsigned i = 0; i < 3; i++) {
		struct xdp_desc *descriptor = (void *)(sent + offsets.tx.desc);
		struct pollfd ready = { .fd = receiver, .events = POLLIN };
		char received[FRAME] = "", *frame = memory + i * FRAME;
		pid_t child = -1;

		memset(frame, 0xff, 2 * ETH_ALEN);
		frame[12] = TYPE >> 8;
		frame[13] = TYPE & 0xff;
		strcpy(frame + TEXT, "before the fork");
		if (i == 1) {
			child = fork();
			if (!child) {
				strcpy(frame + TEXT, "of the child");
				pause();
			}
			strcpy(frame + TEXT, "after the fork");
		}
		descriptor[i] = (struct xdp_desc){ .addr = i * FRAME, .len = 64 };
		__atomic_store_n((unsigned *)(sent + offsets.tx.producer), i + 1, __ATOMIC_RELEASE);
		must(!sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0), "sendto");
		must(poll(&ready, 1, 10000) == 1 && recv(receiver, received, sizeof(received), 0) > 0, "recv");
		printf("packet %u: %s\n", i, received + TEXT);
		for (int looks = 0; looks < 1000 && __atomic_load_n((unsigned *)(done + offsets.cr.producer), __ATOMIC_ACQUIRE) <= i; looks++)
			usleep(1000);
		printf("completed: %u\n", *(unsigned *)(done + offsets.cr.producer));
		if (child > 0) {
			kill(child, SIGKILL);
			wait(NULL);
		}
	}
}

/* ---- io_uring ---- */

static void uring(char **arguments)
{
	enum { BUFFERS = 3, BYTES = 64 * 1024 };
	struct io_uring_params params = {};
	int fd = syscall(SYS_io_uring_setup, 8, &params), file = memfd_create("data", 0);
	struct iovec buffers[BUFFERS];
	struct io_uring_sqe *entries;
	unsigned *tail, *head;
	char *ring;

	(void)arguments;
	must(fd >= 0 && file >= 0, "io_uring_setup");
	ring = mmap(NULL, params.sq_off.array + params.sq_entries * 4 + PAGE, RW, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	entries = mmap(NULL, params.sq_entries * sizeof(*entries), RW, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
	must(ring != MAP_FAILED && entries != MAP_FAILED, "mmap of the rings");
	for (int i = 0; i < BUFFERS; i++)
		buffers[i] = (struct iovec){ fresh(BYTES), BYTES };
	TELL(syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, buffers, BUFFERS));
	tail = (unsigned *)(ring + params.sq_off.tail);
	head = (unsigned *)(ring + params.cq_off.head);
	for (unsigned i = 0; i < BUFFERS; i++) {
		struct io_uring_cqe *done = (void *)(ring + params.cq_off.cqes);
		char text[64];

		sprintf(text, "contents %u", i);
		must(pwrite(file, text, sizeof(text), 0) == sizeof(text), "pwrite");
		if (i == 1 && !fork()) {
			strcpy(buffers[i].iov_base, "of the child");
			_exit(0);
		}
		if (i == 1) {
			wait(NULL);
			strcpy(buffers[i].iov_base, "of the parent");
		}
		memset(&entries[0], 0, sizeof(entries[0]));
		entries[0].opcode = IORING_OP_READ_FIXED;
		entries[0].fd = file;
		entries[0].addr = (unsigned long)buffers[i].iov_base;
		entries[0].len = sizeof(text);
		entries[0].buf_index = i;
		((unsigned *)(ring + params.sq_off.array))[*tail & (params.sq_entries - 1)] = 0;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		TELL(syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
		printf("read %d: %s\n", done[*head & (params.cq_entries - 1)].res, (char *)buffers[i].iov_base);
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	TELL(syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
}

/*
 * Rings that are memory of the program (IORING_SETUP_NO_MMAP, Linux 6.5), and a ring of buffers in
 * such memory. Linux goes on writing there when the program has forked.
 */
static void rings(char **arguments)
{
	enum { NO_MMAP = 1 << 14, GROUP = 7, ENTRIES = 4 };
	char *ring = fresh(PAGE), *entries = fresh(PAGE), *list = fresh(PAGE), *memory = fresh(PAGE);
	struct io_uring_params params = { .flags = NO_MMAP, .sq_off.resv2 = (unsigned long)entries, .cq_off.resv2 = (unsigned long)ring };
	int fd = syscall(SYS_io_uring_setup, ENTRIES, &params), file = memfd_create("data", 0);
	struct io_uring_buf_reg buffers = { .ring_addr = (unsigned long)list, .ring_entries = 1, .bgid = GROUP };
	struct io_uring_buf *buffer = (void *)list;

	(void)arguments;
	must(fd >= 0 && file >= 0, "io_uring_setup");
	must(pwrite(file, "into the buffer", 16, 0) == 16, "pwrite");
	TELL(syscall(SYS_io_uring_register, fd, IORING_REGISTER_PBUF_RING, &buffers, 1));
	for (unsigned i = 0; i < 3; i++) {
		unsigned *tail = (unsigned *)(ring + params.sq_off.tail), *head = (unsigned *)(ring + params.cq_off.head);
		struct io_uring_sqe *entry = (struct io_uring_sqe *)entries + (*tail & (params.sq_entries - 1));
		struct io_uring_cqe *done = (struct io_uring_cqe *)(ring + params.cq_off.cqes) + (*head & (params.cq_entries - 1));
		pid_t child = i == 1 ? with_child(ring, list) : -1;

		memset(memory, 0, PAGE);
		memset(entry, 0, sizeof(*entry));
		buffer->addr = (unsigned long)memory;
		buffer->len = 16;
		buffer->bid = i;
		__atomic_store_n(&((struct io_uring_buf_ring *)list)->tail, i + 1, __ATOMIC_RELEASE);
		entry->opcode = IORING_OP_READ;
		entry->flags = IOSQE_BUFFER_SELECT;
		entry->buf_group = GROUP;
		entry->fd = file;
		entry->len = 16;
		((unsigned *)(ring + params.sq_off.array))[*tail & (params.sq_entries - 1)] = entry - (struct io_uring_sqe *)entries;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		TELL(syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
		printf("read %d, buffer %d: %s\n", done->res, (int)(done->flags >> IORING_CQE_BUFFER_SHIFT), memory);
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
		fflush(stdout);
		if (child > 0) {
			kill(child, SIGKILL);
			wait(NULL);
		}
	}
}

/* A write of Linux' to memory that the program may not write is EFAULT. */
static void attempt(int file, char *memory, const char *other, const char *what)
{
	char before[64];
	ssize_t done;

	memcpy(before, memory, sizeof(before));
	done = pread(file, memory, sizeof(before), 0);
	if (done >= 0 || errno != EFAULT)
		fprintf(stderr, "%s: %zd instead of EFAULT\n", what, done);
	printf("%s: %s, elsewhere %s\n", what, memcmp(before, memory, sizeof(before)) ? "changed" : "as before",
	       memcmp(before, other, sizeof(before)) ? "changed" : "as before");
}

/* Linux' view of memory: what it writes to a file. */
static void told(int file, const char *memory, const char *what)
{
	char text[64] = "";

	must(pwrite(file, memory, sizeof(text), PAGE) == sizeof(text) && pread(file, text, sizeof(text), PAGE) == sizeof(text), "pwrite");
	printf("%s: %s\n", what, text);
}

static void readonly(char **arguments)
{
	enum { BYTES = 16 * PAGE };
	struct io_uring_params params = {};
	int fd = syscall(SYS_io_uring_setup, 8, &params), file = memfd_create("data", 0), program = open(arguments[0], O_RDONLY);
	char *memory = fresh(BYTES), copy[64] = "at first", *elsewhere;
	struct iovec buffer = { memory, BYTES };

	must(fd >= 0 && file >= 0 && program >= 0, "open");
	must(pwrite(file, (char[64]){ "by Linux" }, 64, 0) == 64, "pwrite");
	strcpy(memory, copy);
	TELL(syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &buffer, 1));
	TELL(syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	told(file, memory, "registered");
	TELL(mprotect(memory, BYTES, PROT_READ));
	told(file, memory, "read-only");
	attempt(file, memory, copy, "read-only memory");
	told(file, memory, "read-only still");
	TELL(mprotect(memory, BYTES, RW));
	strcpy(memory, "written again");
	told(file, memory, "writable");
	/* Pages that other processes have, too. */
	elsewhere = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, program, 0);
	must(elsewhere != MAP_FAILED, "mmap");
	must(mmap(memory, BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, program, 0) == memory, "mmap");
	attempt(file, memory, elsewhere, "pages of a program");
	told(file, memory + 1, "a program");
	must(mmap(memory, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, program, 0) == memory, "mmap");
	attempt(file, memory, elsewhere, "its code");
	/* Read-only memory that comes there from elsewhere. */
	elsewhere = fresh(BYTES);
	strcpy(elsewhere, "moved");
	must(mmap(memory, BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
	TELL(syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &buffer, 1));
	TELL(syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	TELL(mprotect(elsewhere, BYTES, PROT_READ));
	must(mremap(elsewhere, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == memory, "mremap");
	attempt(file, memory, "moved", "moved");
	told(file, memory, "moved there");
	must(mmap(memory, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
	TELL(pread(file, memory, 64, 0));
	TELL(pwrite(file, memory, 64, 0));
	TELL(munmap(memory, BYTES));
	TELL(pread(file, memory, 64, 0));
}

/* ---- what is mapped there later ---- */

enum { SPACE = 16 * PAGE };

struct race {
	int ring, file;
	char *memory;
	atomic_int stops;
	atomic_long registered;
};

/* Registers what is there, whatever that is. */
static void *registers(void *argument)
{
	struct race *race = argument;
	struct iovec buffer = { race->memory, SPACE };

	while (!race->stops)
		if (!syscall(SYS_io_uring_register, race->ring, IORING_REGISTER_BUFFERS, &buffer, 1)) {
			race->registered++;
			syscall(SYS_io_uring_register, race->ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
		}
	return NULL;
}

static void replaced(char **arguments)
{
	struct io_uring_params params = {};
	struct race race = { .ring = syscall(SYS_io_uring_setup, 8, &params), .file = open(arguments[0], O_RDONLY), .memory = fresh(SPACE) };
	struct iovec buffer = { race.memory, SPACE };
	const long rounds = by_tier(100, 1000);
	char *memory = race.memory, contents[SPACE];
	pthread_t thread;
	long seen = 0, kept = 0;

	must(race.ring >= 0 && race.file >= 0 && pread(race.file, contents, SPACE, 0) == SPACE, "open");
	TELL(syscall(SYS_io_uring_register, race.ring, IORING_REGISTER_BUFFERS, &buffer, 1));
	TELL(syscall(SYS_io_uring_register, race.ring, IORING_UNREGISTER_BUFFERS, NULL, 0));
	for (int writable = 0; writable < 2; writable++) {
		int file = memfd_create("data", 0);

		must(!ftruncate(file, SPACE) && pwrite(file, "of the file", 12, 0) == 12, "memfd");
		must(mmap(memory, SPACE, writable ? RW : PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == memory, "mmap");
		printf("%s\n", memory);
		if (writable)
			strcpy(memory, "written");
		TELL(mprotect(memory, SPACE, PROT_READ));
		printf("%s\n", memory);
		must(mmap(memory, SPACE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
		TELL(syscall(SYS_io_uring_register, race.ring, IORING_REGISTER_BUFFERS, &buffer, 1));
		TELL(syscall(SYS_io_uring_register, race.ring, IORING_UNREGISTER_BUFFERS, NULL, 0));
	}
	/* While another thread registers what is there. */
	must(!pthread_create(&thread, NULL, registers, &race), "pthread_create");
	for (long i = 0; i < rounds; i++) {
		must(mmap(memory, SPACE, PROT_READ, MAP_SHARED | MAP_FIXED, race.file, 0) == memory, "mmap");
		for (long at = 0; at < SPACE; at += PAGE)
			seen += *(volatile char *)(memory + at + 1) == contents[at + 1];
		must(mmap(memory, SPACE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
		memory[i % SPACE] = 1;
		/* Now and then the other one gets that far. */
		for (long before = race.registered, looks = 0; i % 10 == 0 && race.registered == before && looks < 1000; looks++)
			usleep(100);
		kept += memory[i % SPACE];
	}
	race.stops = 1;
	pthread_join(thread, NULL);
	printf("%s, %s, %s\n", race.registered >= rounds / 10 ? "registered" : "hardly registered", seen == rounds * (SPACE / PAGE) ? "all of the file" : "something else",
	       kept == rounds ? "all kept" : "some lost");
}

/* Two threads that register their parts of one mapping, which is new each time. */
static atomic_int at_once;

static void *registers_part(void *argument)
{
	struct race *race = argument;
	struct iovec buffer = { race->memory, SPACE / 2 };

	for (at_once++; at_once % 2;)
		;
	race->registered += !syscall(SYS_io_uring_register, race->ring, IORING_REGISTER_BUFFERS, &buffer, 1);
	syscall(SYS_io_uring_register, race->ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
	return NULL;
}

static void together(char **arguments)
{
	const long rounds = by_tier(20, 200);
	struct io_uring_params params[2] = {};
	struct race parts[2] = {};
	pthread_t thread;

	(void)arguments;
	for (int i = 0; i < 2; i++)
		must((parts[i].ring = syscall(SYS_io_uring_setup, 8, &params[i])) >= 0, "io_uring_setup");
	for (long round = 0; round < rounds; round++) {
		char *memory = fresh(SPACE);

		parts[0].memory = memory;
		parts[1].memory = memory + SPACE / 2;
		must(!pthread_create(&thread, NULL, registers_part, &parts[0]), "pthread_create");
		registers_part(&parts[1]);
		pthread_join(thread, NULL);
		munmap(memory, SPACE);
	}
	printf("%s\n", parts[0].registered == rounds && parts[1].registered == rounds ? "each time" : "not each time");
}

/* What is not there is EFAULT, and what was there before is as before. */
static void refused(char **arguments)
{
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 8, &params), terminal = posix_openpt(O_RDWR);
	char *memory = fresh(SPACE), *hole = fresh(SPACE);
	struct iovec buffers[] = { { memory, SPACE }, { hole, SPACE } };
	int word = 0, ends[2];

	(void)arguments;
	must(ring >= 0 && terminal >= 0 && !pipe(ends), "open");
	strcpy(memory, "as before");
	munmap(hole, SPACE);
	for (int i = 0; i < 2; i++) {
		TELL(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, 2));
		TELL(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, hole, 2));
		TELL(ioctl(terminal, TIOCGPTN, hole));
		TELL(ioctl(ends[0], FIONREAD, hole));
	}
	TELL(mprotect(memory, SPACE, PROT_READ));
	TELL(ioctl(terminal, TIOCGPTN, memory));
	TELL(ioctl(terminal, TIOCSPTLCK, &word));
	puts(memory);
	TELL(mprotect(memory, SPACE, RW));
	TELL(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, 1));
	puts(memory);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(char **arguments);
	} cases[] = { { "xdp", xdp }, { "uring", uring }, { "rings", rings }, { "readonly", readonly },
		      { "replaced", replaced }, { "together", together }, { "refused", refused } };

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].body(argv + 2);
			return 0;
		}
	fprintf(stderr, "pinned-memory: no such case\n");
	return 1;
}
