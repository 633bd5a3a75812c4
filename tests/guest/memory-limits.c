/*
 * Sizes of memory: a stack that grows, resource limits, memory written through /proc/PID/mem, and
 * what /proc tells of it.
 */
#include "guest.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define CHILD(...)                                                                          \
	do {                                                                                \
		int status_;                                                                \
		fflush(stdout);                                                             \
		if (!fork()) {                                                              \
			__VA_ARGS__;                                                        \
			fflush(stdout);                                                     \
			_exit(0);                                                           \
		}                                                                           \
		wait(&status_);                                                             \
		TELL(status_);                                                              \
	} while (0)

static char *anonymous(long pages, int prot)
{
	return mmap(NULL, pages * PAGE, prot, ANON, -1, 0);
}

/* The number behind `key`, which may be sought behind `after`. */
static long number(const char *path, const char *after, const char *key)
{
	static char text[1 << 18];
	int fd = open(path, O_RDONLY);
	long n = 0, r;
	char *at;

	while ((r = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += r;
	text[n] = 0;
	close(fd);
	at = strstr(text, after);
	at = at ? strstr(at, key) : NULL;
	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

#define STATUS(key) number("/proc/self/status", "", "\n" key ":")

__attribute__((noinline)) static int deep(int kib)
{
	volatile char frame[1024];

	frame[0] = kib;
	return kib ? deep(kib - 1) + frame[0] : 0;
}

static void over(int signal)
{
	(void)signal;
	write(1, "over\n", 5);
	_exit(3);
}

static void limited_deep(long limit, int kib)
{
	static char other[65536];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction action = { .sa_handler = over, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	setrlimit(RLIMIT_STACK, &(struct rlimit){ limit, RLIM_INFINITY });
	deep(kib);
	puts("fits");
}

static void stack(void)
{
	char *top = (char *)((uintptr_t)&top & -PAGE), *buffer;

	TELL(STATUS("VmStk") < 1024);
	TELL(STATUS("VmSize") < 8192);
	TELL_MAP(mmap(top - (6 << 20), PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	munmap(top - (6 << 20), PAGE);
	/* Linux writes where the stack has not been yet. */
	buffer = top - (2 << 20);
	TELL(read(open("/dev/zero", O_RDONLY), buffer, 3 * PAGE));
	TELL(STATUS("VmStk") >= 2048);
	CHILD(limited_deep(4 << 20, 6144));
	CHILD(limited_deep(32 << 20, 20480));
	CHILD(mmap(top - (3 << 20), PAGE, RW, ANON | MAP_FIXED, -1, 0); limited_deep(8 << 20, 4096));
	CHILD(setrlimit(RLIMIT_AS, &(struct rlimit){ 9 << 20, 9 << 20 });
	      TELL_MAP(anonymous(256, RW)); TELL_MAP(anonymous(2048, PROT_NONE));
	      TELL(number("/proc/self/limits", "Max address space", "space")));
}

/* The strings of 100 KiB fit into a quarter of a large stack, and not into a small one. */
static void arguments(void)
{
	char *big = malloc(100000), *argv[] = { "sizes", "x", big, NULL };

	memset(big, 'a', 99999);
	big[99999] = 0;
	CHILD(setrlimit(RLIMIT_STACK, &(struct rlimit){ 65536, RLIM_INFINITY });
	      TELL(execv("/proc/self/exe", argv)));
	CHILD(TELL(execv("/proc/self/exe", argv)));
	free(big);
}

static void limits(void)
{
	struct rlimit limit = { 256 << 20, 256 << 20 };
	int go[2], pid, status;
	char c;

	/* As Valgrind sets it. */
	CHILD(setrlimit(RLIMIT_DATA, &(struct rlimit){ 0, RLIM_INFINITY });
	      TELL_MAP(anonymous(16, RW)); TELL(sbrk(1 << 20) == (void *)-1));
	CHILD(setrlimit(RLIMIT_DATA, &(struct rlimit){ 0, 0 }); TELL_MAP(anonymous(16, RW));
	      TELL_MAP(mmap(NULL, PAGE, RW, ANON | MAP_GROWSDOWN, -1, 0)));
	pipe(go);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		read(go[0], &c, 1);
		getrlimit(RLIMIT_AS, &limit);
		TELL(limit.rlim_cur >> 20);
		TELL_MAP(mmap(NULL, 300 << 20, PROT_NONE, ANON, -1, 0));
		TELL_MAP(mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		TELL_MAP(mmap(NULL, 150 << 20, RW, ANON | MAP_NORESERVE, -1, 0));
		CHILD(puts("a child of its own"));
		_exit(0);
	}
	TELL(prlimit(pid, RLIMIT_AS, &limit, NULL));
	limit.rlim_cur = limit.rlim_max = 100 << 20;
	TELL(prlimit(pid, RLIMIT_DATA, &limit, NULL));
	TELL(prlimit(pid, RLIMIT_AS, NULL, &limit));
	TELL(limit.rlim_cur >> 20);
	write(go[1], "x", 1);
	waitpid(pid, &status, 0);
	TELL(status);
}

/* What a process may not write or read itself, its mem file does: as JIT compilers use it. */
static void memory_file(void)
{
	int fd = open("/proc/self/mem", O_RDWR), other, pid;
	struct iovec parts[] = { { "hi", 2 }, { "jk", 2 } };
	char *p = anonymous(4, RW), *fresh = anonymous(1, PROT_READ | PROT_EXEC), *s, b[8], path[40];

	memset(p, 7, 2 * PAGE);
	mprotect(p, PAGE, PROT_READ);
	mprotect(p + PAGE, 2 * PAGE, PROT_NONE);
	TELL(pwrite(fd, "abcd", 4, (off_t)p));
	TELL(p[3]);
	TOUCH(p, 1);
	TELL(pread(fd, b, 8, (off_t)p + PAGE));
	TELL(b[7]);
	TELL(pread(fd, b, 8, (off_t)p + 2 * PAGE)); /* never touched */
	TELL(b[7]);
	TELL(lseek(fd, (off_t)p + PAGE - 3, SEEK_SET) == (off_t)p + PAGE - 3);
	TELL(write(fd, "efghij", 6)); /* across a page's end */
	TELL(p[PAGE - 1]);
	TELL(lseek(fd, 0, SEEK_CUR) == (off_t)p + PAGE + 3);
	TELL(read(fd, b, 2));
	TELL(pwritev(fd, parts, 2, (off_t)p));
	TELL(preadv(fd, &(struct iovec){ b, 4 }, 1, (off_t)p));
	TELL(b[3]);
	TELL(pwrite(fd, "\xb8\7\0\0\0\xc3", 6, (off_t)fresh));
	TELL(((int (*)(void))fresh)());
	s = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TELL(pwrite(fd, "x", 1, (off_t)s));
	munmap(p + 3 * PAGE, PAGE);
	TELL(pread(fd, b, 1, (off_t)p + 3 * PAGE));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	other = open(path, O_RDWR);
	TELL(pwrite(other, "cc", 2, (off_t)p));
	TELL(pread(other, b, 4, (off_t)p));
	TELL(b[0] == 'c' && b[2] == 'j' && p[0] == 'h');
	kill(pid, SIGKILL);
	wait(NULL);
}

static void shown(void)
{
	struct rusage before, after;
	char *p = anonymous(512, PROT_NONE) + 16 * PAGE, head[40];
	long n;

#define SMAPS(key) number("/proc/self/smaps", head, "\n" key ":")
	mprotect(p, 256 * PAGE, RW); /* between others, so that nothing merges */
	snprintf(head, sizeof(head), "%lx-", (long)p);
	getrusage(RUSAGE_SELF, &before);
	memset(p, 1, 256 * PAGE);
	getrusage(RUSAGE_SELF, &after);
	TELL(after.ru_minflt > before.ru_minflt);
	TELL(SMAPS("Private_Dirty"));
	TELL(SMAPS("Shared_Dirty"));
	CHILD(TELL(SMAPS("Private_Dirty")); TELL(SMAPS("Shared_Dirty")); TELL(SMAPS("Pss"));
	      memset(p, 2, 64 * PAGE); TELL(SMAPS("Private_Dirty")); TELL(SMAPS("Pss")));
	p = mmap(NULL, 256 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	n = STATUS("RssShmem");
	memset(p, 1, 256 * PAGE);
	TELL(STATUS("RssShmem") - n >= 760); /* Linux counts 64 pages at a time */
	TELL(number("/proc/self/smaps_rollup", "", "Pss_Anon:") > 0);
	munmap(mmap(NULL, 64 << 20, PROT_NONE, ANON, -1, 0), 64 << 20);
	TELL(STATUS("VmPeak") - STATUS("VmSize") > 60000);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return 0;
	stack();
	arguments();
	limits();
	memory_file();
	shown();
	return 0;
}
