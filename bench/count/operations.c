/*
 * operations NAME N [ARGUMENT]: executes an operation N times between two marks (plugin.c).
 *
 * "nothing 1 -1" is one mark, "nothing" with anything else none.
 *
 * Prints the context switches of Linux meanwhile. The operation is executed some times before, so
 * that what is done once (memory of the program, workers, file content) is not counted.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if_xdp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "marks.h"

#define MIB (1 << 20)
#define PAGE 4096
#define MARK_ALONE -1

static long argument;
static const char *self;

/* ---- operations ---- */

static void call(void)
{
	syscall(argument, 0, 0, 0, 0, 0, 0);
}

static void reap(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		errx(1, "a child failed");
}

static void fork_exit(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	reap(pid);
}

static void spawn(const char *path, char *const argv[])
{
	pid_t pid;

	if (posix_spawn(&pid, path, NULL, NULL, argv, environ))
		errx(1, "posix_spawn of %s", path);
	reap(pid);
}

static void spawn_static(void)
{
	spawn(self, (char *[]){ "operations", "nothing", "1", NULL });
}

static void spawn_dynamic(void)
{
	spawn("/bin/true", (char *[]){ "true", NULL });
}

/* A program that is started on the LWK from Linux: 0 as argument does the same on Linux alone. */
static void run_true(void)
{
	char *const on_lwk[] = { "hanare", "run", "/bin/true", NULL };
	pid_t pid;

	if (!argument)
		return spawn_dynamic();
	if (posix_spawnp(&pid, on_lwk[0], NULL, NULL, on_lwk, environ))
		errx(1, "posix_spawn of hanare");
	reap(pid);
}

static void *thread(void *data)
{
	return data;
}

static void create_join(void)
{
	pthread_t made;

	if (pthread_create(&made, NULL, thread, NULL))
		errx(1, "pthread_create");
	pthread_join(made, NULL);
}

static void handler(int number)
{
	(void)number;
}

static void catch_signal(void)
{
	raise(SIGUSR1);
}

static int file = -1;

/* A private mapping of 1 MiB of the file, each page looked at (argument 0) or written to (1). */
static void map_file(void)
{
	volatile char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

	if (at == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; i < MIB; i += PAGE)
		if (argument)
			at[i] = 1;
		else
			(void)at[i];
	munmap((void *)at, MIB);
}

static char buffer[MIB];

/* read() of `argument` bytes into memory that is used again. */
static void read_again(void)
{
	if (pread(file, buffer, argument, 0) != argument)
		err(1, "pread");
}

/* The same into memory that was not touched before. */
static void read_fresh(void)
{
	void *at = mmap(NULL, argument, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || pread(file, at, argument, 0) != argument)
		err(1, "pread");
	munmap(at, argument);
}

/* `argument` bytes of memory are a device's, and not any more: the frames of an AF_XDP socket. */
static void register_memory(void)
{
	static char memory[MIB] __attribute__((aligned(PAGE)));
	struct xdp_umem_reg frames = { .addr = (unsigned long)memory, .len = argument, .chunk_size = PAGE };
	int fd = socket(AF_XDP, SOCK_RAW, 0);

	if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &frames, sizeof(frames)))
		err(1, "AF_XDP");
	close(fd);
}

static int word;

static void wake_one(void)
{
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 0, NULL, NULL, 0);
}

/* One of the waiters wakes, and waits again. */
static void wake_a_waiter(void)
{
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A page: mapped, touched, unmapped. */
static void map_page(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		err(1, "mmap");
	*at = 1;
	munmap(at, PAGE);
}

static void open_close(void)
{
	close(open("/dev/null", O_RDONLY));
}

static void call_getppid(void)
{
	syscall(SYS_getppid);
}

/* Threads that each do EACH things whenever the first one asks them to. */
#define EACH 100
static int round_begun, callers_done;
static void (*thing)(char *memory, int i);

static void make_call(char *memory, int i)
{
	(void)memory, (void)i;
	syscall(SYS_getppid);
}

static void touch_page(char *memory, int i)
{
	memory[i * PAGE] = 1;
	if (i == EACH - 1)
		madvise(memory, EACH * PAGE, MADV_DONTNEED);
}

/* read() of 1 KiB into a page that was not touched before. */
static void read_page(char *memory, int i)
{
	if (pread(file, memory + i * PAGE, 1024, 0) != 1024)
		err(1, "pread");
	if (i == EACH - 1)
		madvise(memory, EACH * PAGE, MADV_DONTNEED);
}

/* The same, with a mapping of its own for each. */
static void read_mapped(char *memory, int i)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)memory, (void)i;
	if (at == MAP_FAILED || pread(file, at, 1024, 0) != 1024)
		err(1, "pread");
	munmap(at, PAGE);
}

static void *caller(void *data)
{
	char *memory = mmap(NULL, EACH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, EACH * PAGE, MADV_NOHUGEPAGE))
		err(1, "mmap");
	for (int round = 1;; round++) {
		while (__atomic_load_n(&round_begun, __ATOMIC_ACQUIRE) < round)
			syscall(SYS_futex, &round_begun, FUTEX_WAIT_PRIVATE, round - 1, NULL, NULL, 0);
		for (int i = 0; i < EACH; i++)
			thing(memory, i);
		if (__atomic_add_fetch(&callers_done, 1, __ATOMIC_ACQ_REL) % argument == 0)
			syscall(SYS_futex, &callers_done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return data;
}

static void all_do(void)
{
	int until = __atomic_load_n(&callers_done, __ATOMIC_ACQUIRE) / argument * argument + argument, now;

	__atomic_add_fetch(&round_begun, 1, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, &round_begun, FUTEX_WAKE_PRIVATE, (int)argument, NULL, NULL, 0);
	while ((now = __atomic_load_n(&callers_done, __ATOMIC_ACQUIRE)) < until)
		syscall(SYS_futex, &callers_done, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void nothing(void)
{
}

/* ---- what some operations need ---- */

static void make_file(void)
{
	file = memfd_create("operations", 0);
	if (file < 0 || ftruncate(file, MIB))
		err(1, "memfd_create");
	memset(buffer, 1, sizeof(buffer));
	if (pwrite(file, buffer, sizeof(buffer), 0) != sizeof(buffer))
		err(1, "pwrite");
}

static void handle(void)
{
	signal(SIGUSR1, handler);
}

/* `argument` MiB of memory are touched. */
static void touch_memory(void)
{
	char *at = mmap(NULL, (size_t)argument << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < (size_t)argument << 20; i += PAGE)
		at[i] = 1;
}

/* `argument` mappings of a page, each touched, that do not join. */
static void make_mappings(void)
{
	for (long i = 0; i < argument; i++) {
		char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | (i & 1 ? PROT_EXEC : 0),
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			err(1, "mmap");
		*at = 1;
	}
}

static void *waiter(void *data)
{
	do
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	while (data);
	return data;
}

static void make_waiting(void *again)
{
	pthread_attr_t attributes;
	pthread_t made;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	for (long i = 0; i < argument; i++)
		if (pthread_create(&made, &attributes, waiter, again))
			errx(1, "pthread_create");
	usleep(300000);
}

/* `argument` threads wait. */
static void make_waiters(void)
{
	make_waiting(NULL);
}

/* `argument` threads wait again and again. */
static void make_lasting_waiters(void)
{
	make_waiting(&word);
}

/* `argument` mappings that were not touched, and that do not join. */
static void make_untouched_mappings(void)
{
	for (long i = 0; i < argument; i++)
		if (mmap(NULL, PAGE, PROT_READ | (i & 1 ? PROT_EXEC : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		    MAP_FAILED)
			err(1, "mmap");
}

static void open_files(void)
{
	for (long i = 0; i < argument; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			err(1, "open");
}

static void make_threads(void (*what)(char *, int))
{
	pthread_attr_t attributes;
	pthread_t made;

	thing = what;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	for (long i = 0; i < argument; i++)
		if (pthread_create(&made, &attributes, caller, NULL))
			errx(1, "pthread_create");
}

static void make_callers(void)
{
	make_threads(make_call);
}

static void make_touchers(void)
{
	make_threads(touch_page);
}

static void make_readers(void)
{
	make_file();
	make_threads(read_page);
}

static void make_mappers(void)
{
	make_file();
	make_threads(read_mapped);
}

/* `argument` processes sleep until this one ends. */
static void make_processes(void)
{
	static int silence[2];
	char byte;

	if (pipe(silence))
		err(1, "pipe");
	for (long i = 0; i < argument; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			close(silence[1]);
			_exit(read(silence[0], &byte, 1) != 0);
		}
	}
	usleep(500000);
}

static const struct operation {
	const char *name;
	void (*execute)(void);
	void (*prepare)(void);
} operations[] = {
	{ "nothing", nothing, NULL },
	{ "call", call, NULL },
	{ "fork", fork_exit, NULL },
	{ "fork-touched", fork_exit, touch_memory },
	{ "fork-mappings", fork_exit, make_mappings },
	{ "spawn-static", spawn_static, NULL },
	{ "spawn-dynamic", spawn_dynamic, NULL },
	{ "spawn-touched", spawn_static, touch_memory },
	{ "thread", create_join, NULL },
	{ "signal", catch_signal, handle },
	{ "map-file", map_file, make_file },
	{ "read", read_again, make_file },
	{ "read-fresh", read_fresh, make_file },
	{ "register", register_memory, NULL },
	{ "futex-wake", wake_one, make_waiters },
	{ "wake-among-waiters", wake_a_waiter, make_lasting_waiters },
	{ "map-among-mappings", map_page, make_untouched_mappings },
	{ "open-among-files", open_close, open_files },
	{ "call-among-files", call_getppid, open_files },
	{ "call-among-processes", call_getppid, make_processes },
	{ "fork-among-processes", fork_exit, make_processes },
	{ "calls-of-threads", all_do, make_callers },
	{ "touches-of-threads", all_do, make_touchers },
	{ "reads-of-threads", all_do, make_readers },
	{ "mappings-of-threads", all_do, make_mappers },
	{ "run-true", run_true, NULL },
};

/* ---- the program ---- */

/* Context switches of Linux since its boot. */
static long switches(void)
{
	static char text[65536];
	int stat = open("/proc/stat", O_RDONLY);
	ssize_t length = read(stat, text, sizeof(text) - 1);
	char *line;

	close(stat);
	text[length > 0 ? length : 0] = 0;
	line = strstr(text, "\nctxt ");
	return line ? atol(line + 6) : -1;
}

static void mark(void)
{
	asm volatile(MARK ::: "memory");
}

int main(int argc, char **argv)
{
	const struct operation *operation = operations, *end = operations + sizeof(operations) / sizeof(*operations);
	long count, before;

	if (argc < 3)
		errx(2, "usage: operations NAME N [ARGUMENT]");
	self = "/proc/self/exe";
	count = atol(argv[2]);
	argument = argc > 3 ? atol(argv[3]) : 0;
	while (operation < end && strcmp(operation->name, argv[1]))
		operation++;
	if (operation == end)
		errx(2, "no operation is called %s", argv[1]);
	if (operation->prepare)
		operation->prepare();
	if (operation->execute == nothing) {
		if (argument == MARK_ALONE)
			mark();
		return 0;
	}
	for (long i = 0; i < 3; i++)
		operation->execute();
	before = switches();
	mark();
	for (long i = 0; i < count; i++)
		operation->execute();
	mark();
	printf("%ld\n", switches() - before);
	fflush(stdout);
	_exit(0);
}
