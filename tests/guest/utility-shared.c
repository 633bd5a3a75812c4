/*
 * What threads whose code executes on a Linux CPU share with others: files mapped shared, memory of
 * parent and child, large pages that are taken apart, robust mutexes, credentials that one thread
 * changes for all. Linux says what is right.
 *   utility-shared fills      touches more memory there than an LWK of the tests has
 */
#include "utility.h"
#include <sched.h>

/* ---- one thread there, which does what this one asks ---- */

static void *(*volatile wanted)(void);
static void *volatile result;
static unsigned char *volatile place;

static void *serves(void *unused)
{
	void *(*body)(void);

	while ((body = wanted) != (void *(*)(void))-1L) {
		if (body) {
			result = body();
			wanted = NULL;
		}
	}
	return unused;
}

static void *there(void *(*body)(void))
{
	wanted = body;
	while (wanted)
		sched_yield();
	return result;
}

static void *touches(void)
{
	return (void *)touch((volatile char *)place, 0);
}

static void *touches_to_write(void)
{
	return (void *)touch((volatile char *)place, 1);
}

static void *adds_one(void)
{
	return (void *)(long)++*place;
}

static void *fills(void)
{
	for (size_t i = 0; i < (8 << 20); i += PAGE)
		place[i] = 1 + i / PAGE % 200;
	return NULL;
}

static void *sums(void)
{
	unsigned long sum = 0;

	for (size_t i = 0; i < (8 << 20); i += PAGE)
		sum = sum * 3 + place[i];
	return (void *)sum;
}

/* ---- a file that is mapped shared ---- */

static void a_file(int fd)
{
	unsigned char byte = 0, *at;

	TELL(ftruncate(fd, 3 * PAGE));
	at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	place = at + PAGE + 5;
	there(adds_one);
	TELL(pread(fd, &byte, 1, PAGE + 5));
	printf("in the file: %d\n", byte);
	byte = 41;
	TELL(pwrite(fd, &byte, 1, PAGE + 5));
	printf("there: %ld\n", (long)there(adds_one));
	printf("here: %d\n", *place);
	TELL(msync(at, 3 * PAGE, MS_SYNC));
	TELL(ftruncate(fd, PAGE));
	printf("behind the end: %s\n", (char *)there(touches));
	TELL(ftruncate(fd, 2 * PAGE));
	printf("longer again: %s\n", (char *)there(touches_to_write));
	printf("there: %ld\n", (long)there(adds_one));
	TELL(mprotect(at, 2 * PAGE, PROT_READ));
	printf("only to read: %s\n", (char *)there(touches_to_write));
	TELL(madvise(at, 2 * PAGE, MADV_DONTNEED));
	printf("read anew: %s, %d\n", (char *)there(touches), *place);
	TELL(munmap(at, 3 * PAGE));
	printf("unmapped: %s\n", (char *)there(touches));
	TELL(close(fd));
}

/* ---- parent and child ---- */

static void *adds_many(void *counter)
{
	for (int i = 0; i < 20000; i++)
		__atomic_fetch_add((long *)counter, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void a_child(void)
{
	long *counter = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t thread = outside(adds_many, counter);
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		in_thread(adds_many, counter);
		_exit(0);
	}
	adds_many(counter);
	pthread_join(thread, NULL);
	waitpid(pid, &status, 0);
	printf("counted by three: %ld, status %#x\n", *counter, status);
	munmap(counter, PAGE);
}

/* ---- large pages ---- */

static void large_pages(void)
{
	const size_t size = 8 << 20, large = 2 << 20;
	unsigned char *raw = mmap(NULL, size + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *at = (unsigned char *)(((uintptr_t)raw + large - 1) & -large);
	unsigned char *moved;
	int status = -1;
	pid_t pid;

	madvise(at, size, MADV_HUGEPAGE);
	place = at;
	there(fills);
	printf("large: %lx\n", (long)there(sums));
	TELL(mprotect(at + large + 7 * PAGE, PAGE, PROT_READ));
	place = at + large + 7 * PAGE;
	printf("one page only to read: %s", (char *)there(touches));
	printf(", %s\n", (char *)there(touches_to_write));
	place += PAGE;
	printf("the next one: %s\n", (char *)there(touches_to_write));
	TELL(munmap(at + 2 * large + 100 * PAGE, PAGE));
	place = at + 2 * large + 100 * PAGE;
	printf("one page unmapped: %s\n", (char *)there(touches));
	TELL_MAP(mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	printf("another in its place: %s\n", (char *)there(touches_to_write));
	TELL(madvise(at + 3 * large, large, MADV_DONTNEED));
	place = at;
	printf("a quarter is zero: %lx\n", (long)there(sums));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		memset(at, 9, large);
		_exit(at[5] == 9 && at[large] == 1 + 512 % 200 ? 0 : 1);
	}
	there(adds_one);
	waitpid(pid, &status, 0);
	printf("beside a child: %d, status %#x\n", at[0], status);
	moved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL(mremap(at, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
	printf("where it was: %s\n", (char *)there(touches));
	place = moved;
	printf("where it is: %ld\n", (long)there(adds_one));
	munmap(raw, size + large);
	munmap(moved, size);
}

/* ---- robust mutexes ---- */

static pthread_mutex_t *mutex;
static volatile int *taken;

static void *takes(void *how)
{
	pthread_mutex_lock(mutex);
	*taken = 1;
	while (how)
		;
	return NULL;
}

static void owners(void)
{
	pthread_mutexattr_t robust;
	int status = -1;
	pid_t pid;

	mutex = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	taken = (int *)((char *)mutex + 1024);
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(mutex, &robust);
	in_thread(takes, NULL);
	printf("its thread has ended: %s\n", strerrorname_np(pthread_mutex_lock(mutex)));
	TELL(pthread_mutex_consistent(mutex));
	TELL(pthread_mutex_unlock(mutex));
	*taken = 0;
	pid = fork();
	if (!pid) {
		in_thread(takes, "");
		_exit(1);
	}
	while (!*taken)
		sched_yield();
	TELL(pthread_mutex_trylock(mutex));
	kill(pid, SIGKILL);
	printf("its process was killed: %s\n", strerrorname_np(pthread_mutex_lock(mutex)));
	waitpid(pid, &status, 0);
	printf("status %#x\n", status);
}

/* ---- credentials ---- */

static volatile int changed;

static void *computes_until_changed(void *unused)
{
	while (!changed)
		;
	printf("of who computed: %ld\n", syscall(SYS_getuid));
	return unused;
}

static void *reads_until_changed(void *pipe)
{
	char byte;

	TELL(read(*(int *)pipe, &byte, 1));
	printf("of who read: %ld\n", syscall(SYS_getuid));
	return NULL;
}

static void credentials(void)
{
	int ends[2], status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		pthread_t computing, reading;

		alarm(200);
		TELL(pipe(ends));
		computing = outside(computes_until_changed, NULL);
		reading = outside(reads_until_changed, &ends[0]);
		usleep(200000);
		/* glibc has each thread change its own, by a signal. */
		TELL(setresuid(1234, 1234, 1234));
		changed = 1;
		pthread_join(computing, NULL);
		/* The other thread prints as soon as it has read. */
		if (write(ends[1], "x", 1) != 1)
			printf("nothing written\n");
		pthread_join(reading, NULL);
		TELL(open("/root/none", O_RDONLY | O_CREAT, 0600));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("credentials: status %#x\n", status);
}

/* ---- cancellation ---- */

static void *cleans(void *how)
{
	char byte;

	pthread_setcanceltype(how ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	changed = 2;
	if (how)
		printf("read %zd\n", read(*(int *)how, &byte, 1));
	for (;;)
		;
	return NULL;
}

static void cancellation(void)
{
	int ends[2];
	void *how;

	TELL(pipe(ends));
	for (int round = 0; round < 2; round++) {
		pthread_t thread;

		changed = 0;
		thread = outside(cleans, round ? &ends[0] : NULL);
		while (!changed)
			sched_yield();
		usleep(50000);
		pthread_cancel(thread);
		pthread_join(thread, &how);
		printf("%s: cancelled %d\n", round ? "in a call" : "computing", how == PTHREAD_CANCELED);
	}
}

static void *touches_much(void *unused)
{
	const size_t size = 16UL << 30;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	TELL(at != MAP_FAILED);
	for (size_t i = 0; i < size; i += PAGE)
		at[i] = 1;
	return unused;
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/utility-shared-XXXXXX";
	pthread_t thread;
	int fd;

	if (argc > 1 && !strcmp(argv[1], "fills")) {
		in_thread(touches_much, NULL);
		return 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(600);
	thread = outside(serves, NULL);
	fd = mkstemp(path);
	unlink(path);
	a_file(fd);
	a_file(memfd_create("utility", 0));
	large_pages();
	wanted = (void *(*)(void))-1L;
	pthread_join(thread, NULL);
	a_child();
	owners();
	credentials();
	cancellation();
	return 0;
}
