/*
 * PTRACE_PEEKSIGINFO: what waits for a tracee, in order, for the thread and for the process. Some
 * of it the tracee's kernel may have had to fetch before it knew that the signal is blocked.
 */
#include "tracer.h"

#define SHARED PTRACE_PEEKSIGINFO_SHARED

static volatile int *ready;

static void peek(pid_t pid, unsigned flags, unsigned long off, int nr)
{
	struct __ptrace_peeksiginfo_args args = { off, flags, nr };
	siginfo_t seen[16];
	long count;

	errno = 0;
	count = ptrace(PTRACE_PEEKSIGINFO, pid, &args, seen);
	printf("  %s from %lu, %d: %ld %s:", flags & SHARED ? "shared" : "own", off, nr, count, count < 0 ? strerrorname_np(errno) : "");
	for (int i = 0; i < count; i++)
		printf(" %s code %d value %d", sigabbrev_np(seen[i].si_signo) ?: "RT", seen[i].si_code,
		       seen[i].si_code == SI_USER || seen[i].si_code == SI_TKILL ? 0 : seen[i].si_int);
	puts("");
}

static void queue(pid_t pid, int to_thread, int signal, int code, int value)
{
	siginfo_t info = { .si_code = code };

	info.si_int = value;
	if (to_thread ? syscall(SYS_rt_tgsigqueueinfo, pid, pid, signal, &info) : syscall(SYS_rt_sigqueueinfo, pid, signal, &info))
		printf("  queue: %s\n", strerrorname_np(errno));
}

static void until_ready(int number)
{
	while (*ready != number)
		usleep(1000);
}

/*
 * `late`: the child blocks the signals itself. Between that, or the fork, and its computing it asks
 * its kernel for nothing more, not even for a page.
 */
static pid_t computing(int late)
{
	sigset_t set, before;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGBUS);
	*ready = 0;
	if (!late)
		sigprocmask(SIG_BLOCK, &set, &before);
	pid = forked();
	if (!pid) {
		if (late) {
			*ready = 1;
			sigprocmask(SIG_BLOCK, &set, NULL);
			*ready = 2;
		}
		for (;;)
			;
	}
	if (late) {
		until_ready(2);
	} else {
		sigprocmask(SIG_SETMASK, &before, NULL);
		usleep(200000);		/* it computes by then, as a rule */
	}
	return pid;
}

static void stop(pid_t pid)
{
	usleep(100000);		/* what is to be fetched is by then */
	if (ptrace(PTRACE_ATTACH, pid, 0, 0))
		printf("  attach: %s\n", strerrorname_np(errno));
	next(pid);
}

static void ends(pid_t pid)
{
	kill(pid, SIGKILL);
	next(pid);
}

static void in_order(int late, int thread_first)
{
	pid_t pid = computing(late);

	printf("queued to one that %s, first to the %s\n", late ? "blocks late" : "inherits its mask", thread_first ? "thread" : "process");
	for (int i = 0; i < 4; i++) {
		queue(pid, thread_first, SIGRTMIN, thread_first ? -1 : -2, i);
		queue(pid, !thread_first, SIGRTMIN, thread_first ? -2 : -1, i);
	}
	stop(pid);
	peek(pid, 0, 0, 8);
	peek(pid, SHARED, 0, 8);
	peek(pid, SHARED, 1, 2);
	peek(pid, 0, 3, 8);
	peek(pid, 0, 4, 8);
	peek(pid, 0, -1UL, 8);
	peek(pid, 0, 0, 0);
	peek(pid, 0, 0, -1);
	peek(pid, 2, 0, 1);
	TELL(ptrace(PTRACE_PEEKSIGINFO, pid, NULL, NULL));
	ends(pid);
}

/* Signals that come one by one. */
static void one_by_one(void)
{
	struct __ptrace_peeksiginfo_args args = { 0, 0, 1 };
	siginfo_t seen;
	pid_t pid = computing(0);

	puts("one by one");
	TELL(ptrace(PTRACE_PEEKSIGINFO, pid, &args, &seen));
	syscall(SYS_tgkill, pid, pid, SIGBUS);
	usleep(20000);
	syscall(SYS_tgkill, pid, pid, SIGUSR1);
	usleep(20000);
	kill(pid, SIGBUS);
	usleep(20000);
	kill(pid, SIGUSR1);
	stop(pid);
	peek(pid, 0, 0, 8);
	peek(pid, 0, 1, 8);
	peek(pid, SHARED, 0, 8);
	peek(pid, SHARED, 1, 8);
	TELL(ptrace(PTRACE_PEEKSIGINFO, pid, &args, NULL));
	TELL(ptrace(PTRACE_PEEKSIGINFO, pid, &args, 8));
	ends(pid);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	ready = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int late = 0; late < 2; late++)
		for (int thread_first = 0; thread_first < 2; thread_first++)
			in_order(late, thread_first);
	one_by_one();
	return 0;
}
