/*
 * Limits that others set (prlimit(2)): for each line of standard input, the number of a resource,
 * it says what limit there is, and what it lets it do. With `compute` it makes no calls until
 * SIGXCPU comes; with `own` it sets limits itself and says so. With `profile` one thread computes,
 * the others wait. With `again` it is executed once more first.
 */
#include "guest.h"
#include <linux/capability.h>
#include <pthread.h>

static sigjmp_buf too_deep;
static volatile sig_atomic_t came;

static void on_signal(int signal)
{
	(void)signal;
	came++;
}

static void over(int signal)
{
	siglongjmp(too_deep, signal);
}

static const char *yes(int does)
{
	return does ? "yes" : "no";
}

static void maps(long bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	printf(" maps %ldM %s", bytes >> 20, yes(at != MAP_FAILED));
	if (at != MAP_FAILED)
		munmap(at, bytes);
}

static void breaks(long bytes)
{
	void *at = sbrk(bytes);

	printf(" heap %ldM %s", bytes >> 20, yes(at != (void *)-1));
	if (at != (void *)-1)
		sbrk(-bytes);
}

static void writes(int fd, long at)
{
	printf(" writes at %ldK %s", at >> 10, yes(pwrite(fd, "x", 1, at) == 1));
}

__attribute__((noinline)) static int deep(int kib)
{
	volatile char frame[1024];

	frame[0] = kib;
	return kib ? deep(kib - 1) + frame[0] : 0;
}

static void recurses(int kib)
{
	static char other[65536];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction action = { .sa_handler = over, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	if (!sigsetjmp(too_deep, 1)) {
		deep(kib);
		printf(" stack of %dK yes", kib);
	} else {
		printf(" stack of %dK no", kib);
	}
}

static void opens(int most)
{
	int fds[64], count = 0;

	while (count < most && (fds[count] = dup(0)) >= 0)
		count++;
	printf(" opens %d", count);
	while (count)
		close(fds[--count]);
}

static void locks(long bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	printf(" locks %ldK %s", bytes >> 10, yes(mlock(at, bytes) == 0));
	munmap(at, bytes);
}

static void does(int resource, int fd)
{
	switch (resource) {
	case RLIMIT_AS:
		maps(32 << 20);
		maps(64 << 20);
		break;
	case RLIMIT_DATA:
		maps(32 << 20);
		breaks(32 << 20);
		break;
	case RLIMIT_STACK:
		recurses(1024);
		break;
	case RLIMIT_FSIZE:
		writes(fd, 8192);
		writes(fd, 1 << 20);
		break;
	case RLIMIT_NOFILE:
		opens(64);
		break;
	case RLIMIT_MEMLOCK:
		locks(256 << 10);
		break;
	}
}

static void tell(int resource)
{
	struct rlimit by_getrlimit = { 0 }, by_prlimit = { 0 };

	getrlimit(resource, &by_getrlimit);
	prlimit(getpid(), resource, NULL, &by_prlimit);
	printf("%d: %ld %ld", resource, (long)by_getrlimit.rlim_cur, (long)by_getrlimit.rlim_max);
	if (memcmp(&by_getrlimit, &by_prlimit, sizeof(by_prlimit)))
		printf(", but %ld %ld", (long)by_prlimit.rlim_cur, (long)by_prlimit.rlim_max);
}

static void obey(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	int fd = memfd_create("limited", 0);
	char line[16];

	/* What root may do past limits it may not any more. */
	syscall(SYS_capset, &header, none);
	signal(SIGXFSZ, SIG_IGN);
	puts("ready");
	fflush(stdout);
	/* Not by stdio, whose buffer would be more memory. */
	for (;;) {
		long size = read(0, line, sizeof(line) - 1);

		if (size <= 0)
			return;
		line[size] = 0;
		tell(atoi(line));
		does(atoi(line), fd);
		puts("");
		fflush(stdout);
	}
}

static void compute(void)
{
	signal(SIGXCPU, on_signal);
	puts("ready");
	fflush(stdout);
	alarm(100);
	while (!came)
		;
	puts("told");
}

static void own(void)
{
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		struct rlimit limit;

		getrlimit(resource, &limit);
		limit.rlim_max = limit.rlim_max > 5000000 ? 5000000 : limit.rlim_max;
		limit.rlim_cur = limit.rlim_max > 1000 ? limit.rlim_max - 1000 : limit.rlim_max;
		if (setrlimit(resource, &limit))
			printf("%d: %s\n", resource, strerrorname_np(errno));
		tell(resource);
		puts("");
	}
	fflush(stdout);
	read(0, (char[1]){ 0 }, 1);
}

static volatile int is_over;

static void *computes(void *argument)
{
	while (!is_over)
		;
	return argument;
}

static void *waits(void *argument)
{
	for (;;)
		pause();
	return argument;
}

static long long cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* ITIMER_PROF goes on with the time of computing threads, and of no others. */
static void profile(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval timer = { { 0, 20000 }, { 0, 20000 } };
	struct timespec nap = { 0, 50000000 };
	pthread_t thread, other;
	long long used, left;
	int ticks;

	sigaction(SIGPROF, &action, NULL);
	pthread_create(&other, NULL, waits, NULL);
	setitimer(ITIMER_PROF, &timer, NULL);
	pthread_create(&thread, NULL, computes, NULL);
	used = cpu_us();
	while (cpu_us() - used < 600000)
		nanosleep(&nap, NULL);
	is_over = 1;
	pthread_join(thread, NULL);
	used = cpu_us() - used;
	ticks = came;
	/* Expiries that come together are one signal; Linux counts in ticks of its clock. */
	printf("as many as time %d\n", ticks >= used / 20000 / 3 && ticks <= used / 20000 * 2);
	/* The last expiries of the thread that computed may come after it has ended. */
	nanosleep(&nap, NULL);
	came = 0;
	used = cpu_us();
	for (int i = 0; i < 10; i++)
		nanosleep(&nap, NULL);
	left = cpu_us() - used;
	printf("none of those that sleep %d\n", came <= left / 20000 + 1);
	fflush(stdout);
	_exit(0);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";

	if (!strcmp(what, "compute"))
		compute();
	else if (!strcmp(what, "own"))
		own();
	else if (!strcmp(what, "profile"))
		profile();
	else if (!strcmp(what, "again"))
		execl("/proc/self/exe", arguments[0], NULL);
	else
		obey();
	return 0;
}
