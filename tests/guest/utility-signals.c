/*
 * Signals and exceptions of threads whose code executes on a Linux CPU, where the proxy there might
 * make something else of them: ignored ones, blocked ones, steps and breakpoints, flags and bases
 * of the CPU. Linux says what is right.
 */
#include "utility.h"
#include <poll.h>
#include <sys/auxv.h>

static volatile int came, last_code;
static volatile unsigned long last_ip;

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	__atomic_add_fetch(&came, 1, __ATOMIC_RELAXED); /* of several threads */
	last_code = info->si_code;
	last_ip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

static void handle(int signal, int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(signal, &action, NULL);
	came = 0;
}

/* Where a signal that is ignored is not sent, but raised by what the thread does on Linux alone. */
static void *ignores_calls(void *unused)
{
	void *at;

	(void)unused;
	signal(SIGSYS, SIG_IGN);
	at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("mapped: %d\n", at != MAP_FAILED);
	TELL(munmap(at, PAGE));
	return NULL;
}

static void *ignores_faults(void *unused)
{
	static const unsigned char code[] = { 0x8d, 0x47, 0x2a, 0xc3 }; /* lea eax, [rdi + 42]; ret */
	unsigned char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int sum = 0;

	(void)unused;
	signal(SIGSEGV, SIG_IGN);
	signal(SIGBUS, SIG_IGN);
	memcpy(at, code, sizeof(code));
	mprotect(at, PAGE, PROT_READ);
	sum += ((volatile unsigned char *)at)[0];
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	sum += ((int (*)(int))(void *)at)(1);
	printf("sum: %d\n", sum);
	*(volatile char *)8 = 1; /* which no program can ignore */
	return NULL;
}

/* A signal that the CPU raises, too, is sent to a process that blocks it. */
static void *blocks_all(void *unused)
{
	static const int signals[] = { SIGSYS, SIGTRAP, SIGILL, SIGFPE, SIGSEGV, SIGBUS };
	struct timespec no_time = { 0, 0 };
	sigset_t set;

	(void)unused;
	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		sigset_t one;

		sigemptyset(&one);
		sigaddset(&one, signals[i]);
		kill(getpid(), signals[i]);
		for (volatile long n = 0; n < 3000000; n++)
			;
		usleep(20000);
		munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
		printf("%s taken: %d\n", sigabbrev_np(signals[i]),
		       sigtimedwait(&one, NULL, &no_time) == signals[i]);
	}
	return NULL;
}

static void block_all(void)
{
	sigset_t set;

	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	in_thread(blocks_all, NULL);
}

/* ---- the CPU's flags and bases ---- */

/* Each step of a program that steps through itself is seen. */
static void *steps(void *unused)
{
	(void)unused;
	handle(SIGTRAP, 0);
	asm volatile("pushfq; orl $0x100, (%%rsp); popfq; nop; nop; nop; nop; nop; nop\n"
		     "pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	printf("steps: %d, code %d\n", came, last_code);
	return NULL;
}

static void *breakpoints(void *unused)
{
	extern char after_one[], after_two[];

	(void)unused;
	handle(SIGTRAP, 0);
	asm volatile("int3; .globl after_one; after_one:");
	printf("int3: %d, behind it: %d\n", came, last_ip == (unsigned long)after_one);
	asm volatile(".byte 0xcd, 3; .globl after_two; after_two:");
	printf("int $3: %d, behind it: %d\n", came, last_ip == (unsigned long)after_two);
	return NULL;
}

static void *overflow(void *unused)
{
	(void)unused;
	handle(SIGSEGV, 0);
	asm volatile(".byte 0xcd, 4");
	printf("int $4: %d\n", came);
	return NULL;
}

/* Alignment checks are for the program's code, not for the one that takes its signals. */
static void *checks_alignment(void *unused)
{
	static volatile long words[4];

	(void)unused;
	asm volatile("pushfq; orl $0x40000, (%%rsp); popfq" ::: "memory", "cc");
	for (int i = 0; i < 20; i++) {
		syscall(SYS_munmap, 0x10000, PAGE);
		syscall(SYS_access, "/none", 0);
	}
	asm volatile("pushfq; andl $~0x40000, (%%rsp); popfq" ::: "memory", "cc");
	*(volatile long *)((char *)words + 1) = 5;
	printf("aligned: %ld\n", *(volatile long *)((char *)words + 1));
	return NULL;
}

static void *sets_bases(void *unused)
{
	static unsigned long words[2] = { 77, 78 };
	unsigned long before = 0, after = 0, base = 0;

	(void)unused;
	if (!(getauxval(AT_HWCAP2) & 2)) {
		printf("bases: 77 77\nset\n");
		return NULL;
	}
	asm volatile("wrgsbase %0" :: "r"(words));
	asm volatile("movq %%gs:0, %0" : "=r"(before));
	syscall(SYS_munmap, 0x10000, PAGE);
	syscall(SYS_access, "/none", 0);
	for (int i = 0; i < 5; i++) {
		usleep(1000);
		munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	}
	asm volatile("movq %%gs:0, %0" : "=r"(after));
	asm volatile("rdgsbase %0" : "=r"(base));
	printf("bases: %lu %lu\n%s\n", before, after, base == (unsigned long)words ? "set" : "lost");
	asm volatile("wrgsbase %0" :: "r"(0L));
	return NULL;
}

/* ---- calls that Linux makes again ---- */

static void *polls(void *tid)
{
	int fds[2], result;
	struct pollfd one;
	struct timespec pause = { 0, 700000000 }, left = { 0, 0 };

	*(volatile pid_t *)tid = gettid();
	pipe(fds);
	one = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	errno = 0;
	result = poll(&one, 1, 1000);
	printf("poll: %d %s\n", result, errno ? strerrorname_np(errno) : "");
	errno = 0;
	result = nanosleep(&pause, &left);
	printf("nanosleep: %d %s\n", result, errno ? strerrorname_np(errno) : "");
	return NULL;
}

/* The process is stopped and continued while its thread waits. */
static void stopped(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		pid_t tid;

		in_thread(polls, &tid);
		fflush(stdout);
		_exit(0);
	}
	usleep(300000);
	for (int i = 0; i < 10; i++) {
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		usleep(20000);
		kill(pid, SIGCONT);
		usleep(130000);
	}
	waitpid(pid, &status, 0);
	printf("status %#x\n", status);
}

/* ---- many signals ---- */

static volatile int over;

static void *computes(void *unused)
{
	long wrong = 0;
	unsigned long sum = 0;

	(void)unused;
	while (!over) {
		double a = 1.25, b = 2.5, c = 5;
		unsigned long r12 = 0x1234567890abcdef;

		asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+r"(r12));
		for (volatile int i = 0; i < 200; i++)
			;
		asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+r"(r12));
		wrong += a != 1.25 || b != 2.5 || c != 5 || r12 != 0x1234567890abcdef;
		sum++;
		if (sum % 64 == 0)
			munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
		if (sum % 64 == 1)
			wrong += access("/tmp", X_OK) != 0 && errno != EINTR;
	}
	return (void *)wrong;
}

static void *on_own_stack(void *argument)
{
	static char stack[3][64 << 10];
	static int used;
	stack_t own = { .ss_sp = stack[__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED)], .ss_size = sizeof(*stack) };
	stack_t after;
	void *wrong;

	sigaltstack(&own, NULL);
	wrong = computes(argument);
	sigaltstack(NULL, &after);
	return (void *)((long)wrong + (after.ss_sp != own.ss_sp) + (after.ss_size != own.ss_size));
}

static void many(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	pthread_t threads[3];
	long wrong = 0;
	void *result;

	handle(SIGALRM, SA_RESTART | SA_ONSTACK);
	handle(SIGRTMIN + 3, SA_RESTART | SA_ONSTACK);
	for (int i = 0; i < 3; i++)
		threads[i] = outside(on_own_stack, NULL);
	usleep(200000);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 300; i++) {
		pthread_kill(threads[i % 3], SIGRTMIN + 3);
		usleep(3000);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	over = 1;
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		wrong += (long)result;
	}
	printf("wrong: %ld, signals: %d\n", wrong, came >= 300);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	in_child("ignored SIGSYS", ignores_calls);
	in_child("ignored SIGSEGV", ignores_faults);
	child_of("blocked signals", 0, block_all);
	in_child("steps", steps);
	in_child("breakpoints", breakpoints);
	in_child("overflow", overflow);
	in_child("alignment", checks_alignment);
	in_child("bases", sets_bases);
	stopped();
	child_of("many signals", 0, many);
	return 0;
}
