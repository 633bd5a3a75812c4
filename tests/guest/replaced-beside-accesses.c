/*
 * A mapping takes the place of another one while threads use the addresses: to them that is one
 * step. They find the one or the other, never nothing, and so does Linux in their calls.
 */
#include "guest.h"
#include <pthread.h>
#include <sys/shm.h>

#define PAGES 24L
#define BYTES (PAGES * PAGE)
#define RW (PROT_READ | PROT_WRITE)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
static long rounds;

enum { TOUCHERS = 4, USERS = TOUCHERS + 3 };

static char *place;
static const char *way;
static int zeros, segment, files[2];
static volatile int ends, with_calls, refusals, last_refusal;

static void signalled(int number, siginfo_t *info, void *context)
{
	(void)context;
	dprintf(1, "%s: signal %d, page %ld\n", way, number, (long)((char *)info->si_addr - place) / PAGE);
	_exit(3);
}

static void *touch_pages(void *seed)
{
	unsigned int state = (long)seed;

	while (!ends) {
		((volatile char *)place)[rand_r(&state) % PAGES * PAGE] = 1;
		if (rand_r(&state) % 8 == 0)
			usleep(100);
	}
	return NULL;
}

/* What a call of a user's says; the other calls of this program are of the one that replaces. */
static void expect(long result, long wanted)
{
	if (result != wanted) {
		last_refusal = errno;
		refusals++;
	}
}

/* Linux writes to the memory, in a call that another thread makes. */
static void *have_linux_write(void *seed)
{
	unsigned int state = (long)seed;

	while (!ends) {
		expect(read(zeros, place + rand_r(&state) % (PAGES - 1) * PAGE, 2 * PAGE), 2 * PAGE);
		usleep(500);
	}
	return NULL;
}

/* What is mapped all the time can be asked about, and changed. */
static void *call(void *unused)
{
	unsigned char there[PAGES];

	while (!ends) {
		if (with_calls) {
			expect(madvise(place, BYTES, MADV_WILLNEED), 0);
			expect(madvise(place + PAGE, PAGE, MADV_DONTNEED), 0);
			expect(mprotect(place, BYTES, RW), 0);
			expect(mincore(place, BYTES, there), 0);
			expect(msync(place, BYTES, MS_ASYNC), 0);
			expect(mlock(place + 3 * PAGE, PAGE), 0);
			expect(munlock(place + 3 * PAGE, PAGE), 0);
		}
		usleep(1000);
	}
	return unused;
}

/* Replaces the mapping time and again. */
static void replaces(const char *what, int calls, long (*replace)(long round))
{
	pthread_t users[USERS];
	void *(*const bodies[])(void *) = { have_linux_write, have_linux_write, call };

	way = what;
	ends = refusals = 0;
	with_calls = calls;
	for (long i = 0; i < USERS; i++)
		pthread_create(&users[i], NULL, i < TOUCHERS ? touch_pages : bodies[i - TOUCHERS], (void *)(i + 1));
	for (long round = 0; round < rounds; round++)
		if (replace(round) == -1) {
			printf("%s, round %ld: %s\n", what, round, strerrorname_np(errno));
			break;
		}
	ends = 1;
	for (int i = 0; i < USERS; i++)
		pthread_join(users[i], NULL);
	printf("%s: %d calls refused %s\n", what, refusals, refusals ? strerrorname_np(last_refusal) : "");
}

static long map(void *at, int flags, int fd)
{
	return (long)mmap(at, BYTES, RW, flags, fd, 0);
}

static long by_memory(long round)
{
	(void)round;
	return map(place, ANONYMOUS | MAP_FIXED, -1);
}

static long by_private_file(long round)
{
	return map(place, MAP_PRIVATE | MAP_FIXED, files[round % 2]);
}

static long by_shared_file(long round)
{
	return map(place, MAP_SHARED | MAP_FIXED, files[round % 2]);
}

static long by_either(long round)
{
	return round % 2 ? by_memory(round) : by_shared_file(round);
}

/* In pieces with rights of their own, more of them than are unmapped at once. */
static long by_pieces(long round)
{
	static const long pieces = 100;
	char *at = place + BYTES;

	for (long i = 0; i < pieces && round % 8 == 0; i++)
		if (mprotect(at + 2 * i * PAGE, PAGE, PROT_READ))
			return -1;
	return (long)mmap(place, BYTES + 2 * pieces * PAGE, RW, ANONYMOUS | MAP_FIXED, -1, 0);
}

static long by_segment(long round)
{
	(void)round;
	return (long)shmat(segment, place, SHM_REMAP);
}

static long by_moving(long round)
{
	char *from = (char *)map(NULL, ANONYMOUS, -1);

	from[round % PAGES * PAGE] = 1;
	return (long)mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
}

/* What moves is longer: the rest goes. */
static long by_moving_shared(long round)
{
	char *from = mmap(NULL, BYTES + 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	from[round % PAGES * PAGE] = 1;
	return (long)mremap(from, BYTES + 2 * PAGE, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
}

/* What moves away leaves an empty mapping behind. */
static long by_leaving(long round)
{
	char *to = mremap(place, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	(void)round;
	return to == MAP_FAILED ? -1 : munmap(to, BYTES);
}

/* A child has what is mapped all the time. */
static void *fork_children(void *unused)
{
	while (!ends) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			((volatile char *)place)[5 * PAGE] = 1;
			_exit(7);
		}
		waitpid(pid, &status, 0);
		expect(status, 7 << 8);
	}
	return unused;
}

static void inherited(void)
{
	pthread_t forker;

	way = "fork";
	ends = refusals = 0;
	pthread_create(&forker, NULL, fork_children, NULL);
	for (long round = 0; round < rounds; round++) {
		/* Not by memory of Linux' own: docs/coherence.md, "What is not handled". */
		if (round % 2)
			by_memory(round);
		else
			by_private_file(round);
		usleep(1000);
	}
	ends = 1;
	pthread_join(forker, NULL);
	printf("fork: %d children without it\n", refusals);
}

/* Two mappings, and threads that move each to where the other one is. */
static char *places[2];

static void *swap(void *which)
{
	char *from = places[(long)which], *to = places[!which];

	for (long round = 0; round < rounds; round++)
		if (mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED && errno != EFAULT)
			expect(-1, 0);
		else if (mmap(from, BYTES, RW, ANONYMOUS | MAP_FIXED, -1, 0) != from)
			expect(-1, 0);
	return NULL;
}

static void swapped(void)
{
	pthread_t other;

	refusals = 0;
	for (int i = 0; i < 2; i++)
		places[i] = (char *)map(NULL, ANONYMOUS, -1);
	pthread_create(&other, NULL, swap, (void *)1);
	swap(NULL);
	pthread_join(other, NULL);
	printf("swap: %d refused\n", refusals);
}

/* A stack that is made anew all the time, and is as far down as it is used. */
#define BELOW (8 * PAGE)

static void *use_stack(void *seed)
{
	unsigned int state = (long)seed;

	while (!ends) {
		place[-(long)(rand_r(&state) % 8 * PAGE) - 1] = 1;
		if (rand_r(&state) % 16 == 0)
			usleep(100);
	}
	return NULL;
}

static void stack(void)
{
	char *room = mmap(NULL, 1024 * PAGE, PROT_NONE, ANONYMOUS, -1, 0), *top = room + 1024 * PAGE;
	const int flags = ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
	pthread_t users[TOUCHERS];

	way = "stack";
	ends = 0;
	munmap(room, 1024 * PAGE);
	mmap(top - PAGE, PAGE, RW, flags, -1, 0);
	place = top;
	for (long i = 0; i < TOUCHERS; i++)
		pthread_create(&users[i], NULL, use_stack, (void *)(i + 1));
	for (long round = 0; round < rounds; round++) {
		read(zeros, top - PAGE - 100, 200); /* Linux has it */
		if (round % 2)
			munmap(top - BELOW, BELOW - PAGE);
		else if (mmap(top - PAGE, PAGE, RW, flags, -1, 0) == MAP_FAILED)
			printf("stack, round %ld: %s\n", round, strerrorname_np(errno));
	}
	ends = 1;
	for (int i = 0; i < TOUCHERS; i++)
		pthread_join(users[i], NULL);
	printf("stack: fine\n");
}

/* The end of the heap goes up and down, by several threads: none is refused. */
static char *heap;

static void *move_end(void *seed)
{
	unsigned int state = (long)seed;

	for (long round = 0; round < rounds; round++) {
		char *end = heap + (4 + rand_r(&state) % 28) * PAGE;

		expect(syscall(SYS_brk, end), (long)end);
		((volatile char *)heap)[rand_r(&state) % 4 * PAGE] = 1;
		if (round % 4 == 0)
			expect(read(zeros, heap, 4 * PAGE), 4 * PAGE);
	}
	return NULL;
}

static void ends_of_heap(void)
{
	pthread_t users[TOUCHERS];

	way = "brk";
	refusals = 0;
	heap = (char *)((syscall(SYS_brk, 0) + PAGE - 1) & -PAGE);
	for (long i = 0; i < TOUCHERS; i++)
		pthread_create(&users[i], NULL, move_end, (void *)(i + 1));
	for (int i = 0; i < TOUCHERS; i++)
		pthread_join(users[i], NULL);
	printf("brk: %d refused\n", refusals);
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atol(argv[1]) : by_tier(100, 500);
	struct sigaction action = { .sa_sigaction = signalled, .sa_flags = SA_SIGINFO };

	alarm(300);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	zeros = open("/dev/zero", O_RDONLY);
	segment = shmget(IPC_PRIVATE, BYTES, 0600 | IPC_CREAT);
	for (int i = 0; i < 2; i++) {
		files[i] = memfd_create("file", 0);
		ftruncate(files[i], BYTES);
	}
	place = mmap(NULL, 16 * BYTES, RW, ANONYMOUS, -1, 0);
	replaces("memory", 1, by_memory);
	replaces("a private file", 1, by_private_file);
	replaces("a shared file", 1, by_shared_file);
	replaces("either", 1, by_either);
	replaces("pieces", 1, by_pieces);
	replaces("a segment", 1, by_segment);
	replaces("moving", 1, by_moving);
	replaces("moving shared memory", 1, by_moving_shared);
	by_memory(0);
	replaces("leaving", 0, by_leaving); /* of one mapping alone: no call divides it */
	shmctl(segment, IPC_RMID, NULL);
	inherited();
	swapped();
	ends_of_heap();
	stack();
	return 0;
}
