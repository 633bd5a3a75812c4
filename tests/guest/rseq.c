/* Restartable sequences: registration, CPU number, sections left by preemption and signals. */
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/time.h>

#define SIGNATURE 0x53053053

static struct rseq *own(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static long call(void *area, unsigned int len, int flags, unsigned int signature)
{
	return syscall(SYS_rseq, area, len, flags, signature);
}

static void registration(void)
{
	static struct rseq other __attribute__((aligned(64)));

	printf("size %u, cpu %d\n", __rseq_size, (int)own()->cpu_id >= 0);
	TELL(call(own(), 32, 0, SIGNATURE));
	TELL(call(own(), 32, 0, 1));
	TELL(call(&other, 32, 0, SIGNATURE));
	TELL(call(&other, 32, 1, SIGNATURE));
	TELL(call(own(), 32, 1, 1));
	TELL(call(own(), 32, 2, SIGNATURE));
	TELL(call(own(), 32, 1, SIGNATURE));
	printf("unregistered: %d %d\n", (int)own()->cpu_id_start, (int)own()->cpu_id);
	TELL(call((char *)&other + 4, 32, 0, SIGNATURE));
	TELL(call(&other, 24, 0, SIGNATURE));
	TELL(call((void *)0xffffffffffff0000, 32, 0, SIGNATURE));
	TELL(call(&other, 32, 0, SIGNATURE));
	/* It may go to another CPU between the two. */
	for (int tries = 0; tries < 100 && other.cpu_id != (unsigned int)sched_getcpu(); tries++)
		;
	printf("registered: %d\n", other.cpu_id == (unsigned int)sched_getcpu());
	TELL(call(&other, 32, 1, SIGNATURE));
	TELL(call(own(), 32, 0, SIGNATURE));
}

static void moves(void)
{
	cpu_set_t all, one;
	unsigned int cpu, wrong = 0;

	sched_getaffinity(0, sizeof(all), &all);
	for (int round = 0; round < 20; round++)
		for (int n = 0; n < CPU_SETSIZE; n++) {
			if (!CPU_ISSET(n, &all))
				continue;
			CPU_ZERO(&one);
			CPU_SET(n, &one);
			sched_setaffinity(0, sizeof(one), &one);
			syscall(SYS_getcpu, &cpu, NULL, NULL);
			wrong += own()->cpu_id != (unsigned int)n || cpu != (unsigned int)n ||
				 own()->cpu_id_start != (unsigned int)n;
		}
	sched_setaffinity(0, sizeof(all), &all);
	printf("wrong numbers: %u\n", wrong);
}

/* Spins in a critical section until that is aborted; how often it was entered. */
static void __attribute__((noinline)) spin(int bad_signature)
{
	struct rseq_cs section __attribute__((aligned(32))) = { 0 };
	void *start, *end, *abort;

	__asm__ volatile("lea 1f(%%rip), %0\n lea 2f(%%rip), %1\n lea 4f(%%rip), %2\n"
			 "test %3, %3\n jz 6f\n lea 5f(%%rip), %2\n 6:\n"
			 : "=&r"(start), "=&r"(end), "=&r"(abort) : "r"(bad_signature));
	section.start_ip = (uintptr_t)start;
	section.post_commit_offset = (char *)end - (char *)start;
	section.abort_ip = (uintptr_t)abort;
	own()->rseq_cs = (uintptr_t)&section;
	__asm__ volatile("1: pause\n jmp 1b\n 2:\n"
			 ".byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n 4: jmp 3f\n"
			 ".long 1\n 5: nop\n 3:\n" : : : "memory");
	own()->rseq_cs = 0;
}

static volatile int stop, handled;
static volatile uintptr_t place;

static void *computing(void *unused)
{
	while (!stop)
		;
	return unused;
}

static void handler(int signal, siginfo_t *info, void *context)
{
	place = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	handled = signal;
}

static void sections(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	/* Again and again: one may come just before a section begins. */
	struct itimerval soon = { { 0, 50000 }, { 0, 50000 } }, off = { 0 };
	cpu_set_t all, one;
	pthread_t other;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	/* Leaves the section at whatever comes first. */
	while (!handled)
		spin(0);
	setitimer(ITIMER_REAL, &off, NULL);
	printf("signal %d, section %d\n", handled, (int)own()->rseq_cs);
	/* Two threads on one CPU. */
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (int n = 0; n < CPU_SETSIZE; n++)
		if (CPU_ISSET(n, &all)) {
			CPU_SET(n, &one);
			break;
		}
	sched_setaffinity(0, sizeof(one), &one);
	pthread_create(&other, NULL, computing, NULL);
	for (int n = 0; n < 5; n++)
		spin(0);
	printf("preempted\n");
	stop = 1;
	pthread_join(other, NULL);
	sched_setaffinity(0, sizeof(all), &all);
	fflush(stdout);
	int status, pid = fork();

	if (pid == 0) {
		printf("in the child: %d\n", own()->cpu_id == (unsigned int)sched_getcpu());
		TELL(call(own(), 32, 0, SIGNATURE));
		fflush(stdout);
		setitimer(ITIMER_REAL, &soon, NULL);
		spin(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("a wrong signature: signal %d\n", WTERMSIG(status));
}

static void segv(int signal, siginfo_t *info, void *context)
{
	own()->rseq_cs = 0;
	printf("handler: signal %d, code %d, trap %lld\n", signal, info->si_code,
	       ((ucontext_t *)context)->uc_mcontext.gregs[REG_TRAPNO]);
	fflush(stdout);
}

/* Sections that Linux takes and that it ends a process for, though no thread is in them. */
static void forged(void)
{
	static struct rseq_cs section __attribute__((aligned(32)));
	static unsigned int code[] = { 0, SIGNATURE, 0 };
	static const struct {
		const char *name;
		unsigned int version, flags;
		unsigned long at, start, len, abort;
	} cases[] = {
		{ "right", 0, 0, 0, 0x1000, 16, 0 },
		{ "flags", 0, 5, 0, 0x1000, 16, 0 },
		{ "nothing in it", 0, 0, 0, 0x1000, 0, 0 },
		{ "beyond the last page", 0, 0, 0, 0x7fffffffe000, 0x1000, 0 },
		{ "up to the last page", 0, 0, 0, 0x7fffffffe000, 0xfff, 0 },
		{ "version", 1, 0, 0, 0x1000, 16, 0 },
		{ "of the kernel", 0, 0, 0xffffffff81000000, 0, 0, 0 },
		{ "not mapped", 0, 0, 8, 0, 0, 0 },
		{ "handler not mapped", 0, 0, 0, 0x1000, 16, 0x10000 },
		{ "handler inside", 0, 0, 0, 0x1000, 16, 0x1004 },
	};

	for (unsigned int i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
		char said[200] = "";
		int status = 0, tries = 0;

		/*
		 * Where a handler of SIGSEGV runs first, a thread that loses its CPU just before it
		 * does is ended without: so what says nothing is tried again.
		 */
		do {
			int to[2], pid;

			if (pipe(to))
				exit(1);
			fflush(stdout);
			pid = fork();
			if (!pid) {
				dup2(to[1], 1);
				sigaction(SIGUSR1, &action, NULL);
				action.sa_sigaction = segv;
				if (i % 2)
					sigaction(SIGSEGV, &action, NULL);
				section.version = cases[i / 2].version;
				section.flags = cases[i / 2].flags;
				section.start_ip = cases[i / 2].start;
				section.post_commit_offset = cases[i / 2].len;
				section.abort_ip = cases[i / 2].abort ?: (uintptr_t)&code[2];
				own()->rseq_cs = cases[i / 2].at ?: (uintptr_t)&section;
				raise(SIGUSR1);
				printf("alive, section %d\n", own()->rseq_cs != 0);
				fflush(stdout);
				_exit(0);
			}
			close(to[1]);
			waitpid(pid, &status, 0);
			said[read(to[0], said, sizeof(said) - 1) > 0 ? sizeof(said) - 1 : 0] = 0;
			close(to[0]);
		} while (!said[0] && i % 2 && ++tries < 5);
		printf("%s%s: signal %d\n", said, cases[i / 2].name, WTERMSIG(status));
	}
}

int main(void)
{
	registration();
	forged();
	moves();
	sections();
	return 0;
}
