/*
 * Programs that do with the area of a thread whose code executes on Linux what they are told not
 * to: they harm themselves alone. How each of them ends is not said, since on Linux nothing happens
 * to them.
 */
#include "utility.h"
#include "../../module/hanare_abi.h"

/*
 * Runs `body` in a process for 3 s at most, in `make test` for 0.7 s, on Linux for 0.1 s; its end
 * is not judged.
 */
static void try(const char *what, void (*body)(void))
{
	pid_t pid;

	printf("%s\n", what);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct rlimit none = { 0, 0 };
		long ms = is_on_linux() ? 100 : by_tier(700, 3000);
		struct itimerval most = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

		setrlimit(RLIMIT_CORE, &none);
		setitimer(ITIMER_REAL, &most, NULL);
		freopen("/dev/null", "w", stdout);
		freopen("/dev/null", "w", stderr);
		body();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static sigjmp_buf back;
static char *volatile area_of_thread;
static volatile unsigned long rounds;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* Faults, and makes calls, for ever. */
static void *faults(void *unused)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	(void)unused;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	area_of_thread = own_area;
	for (;;) {
		if (!sigsetjmp(back, 1)) {
			if (rounds++ % 2)
				asm volatile("ud2");
			*(volatile char *)0x123456;
		}
		munmap((void *)0x10000, PAGE);
	}
	return NULL;
}

static void *word(unsigned long offset)
{
	return area_of_thread + offset;
}

/* Every word of the area that may be `from` becomes `to`. */
static void rewrite(unsigned long least, unsigned long most, unsigned long to)
{
	outside(faults, NULL);
	while (!area_of_thread)
		;
	usleep(20000);
	for (unsigned long n = 0;; n++) {
		for (unsigned long at = 0; at < AREA; at += 8) {
			volatile unsigned long *here = word(at);
			unsigned long value = *here;

			if (value >= least && value <= most)
				*here = to ? to : value ^ 1UL << (n * 7 + at) % 64;
		}
	}
}

static unsigned long here(void)
{
	return (unsigned long)faults & ~0xfffUL;
}

static void no_canonical_ip(void)
{
	rewrite(here(), here() + 0x2000, 0x8000123456789abc);
}

static void kernel_ip(void)
{
	rewrite(here(), here() + 0x2000, 0xffffffff81000000);
}

static void edge_ip(void)
{
	rewrite(here(), here() + 0x2000, 0x7fffffffffff);
}

static void any_bit(void)
{
	rewrite(0, ~0UL, 0);
}

/* The bases, which the LWK takes from the area by itself. */
static void no_canonical_base(void)
{
	outside(faults, NULL);
	while (!area_of_thread)
		;
	for (;;) {
		*(volatile unsigned long *)word(HANARE_AREA_FS_BASE) = 0x8000123456789abc;
		*(volatile unsigned long *)word(HANARE_AREA_GS_BASE) = 1UL << 47;
	}
}

static void all_ones(void)
{
	rewrite(1, ~1UL, ~0UL);
}

static void *unmaps(void *unused)
{
	(void)unused;
	munmap(own_area, AREA);
	munmap((void *)0x10000, PAGE);
	for (;;)
		rounds++;
	return NULL;
}

static void *protects(void *unused)
{
	(void)unused;
	mprotect(own_area, AREA, PROT_READ);
	munmap((void *)0x10000, PAGE);
	for (;;)
		rounds++;
	return NULL;
}

static void *on_its_stack(void *unused)
{
	char here;
	char *area = (char *)((unsigned long)&here & ~0xfffUL) - 8 * PAGE;

	(void)unused;
	prctl(PR_HANARE_RUN_ON, 1, area, 16 * PAGE, -1L);
	for (;;)
		munmap((void *)0x10000, PAGE);
	return NULL;
}

static void *in_nothing(void *unused)
{
	(void)unused;
	prctl(PR_HANARE_RUN_ON, 1, 0x7ffff0000000, AREA, -1L);
	for (;;)
		munmap((void *)0x10000, PAGE);
	return NULL;
}

static void *in_code(void *unused)
{
	(void)unused;
	prctl(PR_HANARE_RUN_ON, 1, here(), AREA, -1L);
	for (;;)
		munmap((void *)0x10000, PAGE);
	return NULL;
}

static void *in_file(void *unused)
{
	int fd = memfd_create("area", 0);
	void *at;

	(void)unused;
	ftruncate(fd, AREA);
	at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	prctl(PR_HANARE_RUN_ON, 1, at, AREA, -1L);
	for (int i = 0; i < 20; i++)
		munmap((void *)0x10000, PAGE);
	ftruncate(fd, 0);
	for (;;)
		munmap((void *)0x10000, PAGE);
	return NULL;
}

static void *of_another(void *area)
{
	prctl(PR_HANARE_RUN_ON, 1, area, AREA, -1L);
	for (;;)
		munmap((void *)0x10000, PAGE);
	return NULL;
}

#define OUTSIDE(body)                                                                       \
	static void run_##body(void)                                                        \
	{                                                                                   \
		outside(body, NULL);                                                        \
		pause();                                                                    \
	}
OUTSIDE(unmaps)
OUTSIDE(protects)
OUTSIDE(on_its_stack)
OUTSIDE(in_nothing)
OUTSIDE(in_code)
OUTSIDE(in_file)

static void two_in_one(void)
{
	void *area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	outside(of_another, area);
	outside(of_another, area);
	pause();
}

/* All at once, ended by a signal that nothing catches. */
static void *computes(void *unused)
{
	(void)unused;
	for (;;)
		rounds++;
	return NULL;
}

static void hundred(void)
{
	for (int i = 0; i < 100; i++)
		outside(computes, NULL);
	usleep(300000);
	kill(getpid(), SIGKILL);
}

/* Another thread's execve ends those that compute, and those that wait in a call of Linux'. */
static void *waits(void *unused)
{
	int fds[2];
	char byte;

	(void)unused;
	pipe(fds);
	read(fds[0], &byte, 1);
	return NULL;
}

static void executes(void)
{
	for (int i = 0; i < 8; i++)
		outside(i % 2 ? computes : waits, NULL);
	usleep(200000);
	execl("/bin/true", "true", NULL);
}

int main(void)
{
	try("ip is no address", no_canonical_ip);
	try("ip is a kernel's", kernel_ip);
	try("ip is the last one", edge_ip);
	try("bases are not canonical", no_canonical_base);
	try("any bit", any_bit);
	try("all ones", all_ones);
	try("area unmapped", run_unmaps);
	try("area read-only", run_protects);
	try("area on the stack", run_on_its_stack);
	try("area in nothing", run_in_nothing);
	try("area in code", run_in_code);
	try("area in a file", run_in_file);
	try("two in one area", two_in_one);
	try("a hundred", hundred);
	try("execve", executes);
	printf("over\n");
	return 0;
}
