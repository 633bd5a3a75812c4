/*
 * Signal masks, pending signals, nested handlers, alternate stacks, SA_RESETHAND, queueing,
 * sigtimedwait.
 */
#include "guest.h"

static volatile int depth, deepest, count[65];
static char *alternate;
static sigjmp_buf back;

static void handler(int signal)
{
	sigset_t mask;

	count[signal]++;
	if (++depth > deepest)
		deepest = depth;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	printf("%s at depth %d, blocked: USR1 %d USR2 %d\n", sigabbrev_np(signal), depth,
	       sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2));
	if (signal == SIGUSR1 && count[SIGUSR1] < 3)
		raise(SIGUSR1);
	depth--;
}

static void on_stack(int signal, siginfo_t *info, void *context)
{
	char here;
	stack_t now;

	sigaltstack(NULL, &now);
	printf("%s on the alternate stack: %d, flags %d, code %d\n", sigabbrev_np(signal),
	       &here > alternate && &here < alternate + 64 * 1024, now.ss_flags, info->si_code);
	(void)context;
	if (signal == SIGSEGV)
		siglongjmp(back, 1);
}

static int overflow(volatile char *p)
{
	volatile char frame[4096];

	frame[0] = *p;
	return overflow(frame) + frame[100];
}

static void queued(int signal, siginfo_t *info, void *context)
{
	(void)context;
	printf("signal %d code %d value %d from me: %d\n", signal - SIGRTMIN, info->si_code,
	       info->si_value.sival_int, info->si_pid == getpid());
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler }, old;
	stack_t stack, previous;
	sigset_t set, pending;
	siginfo_t info;
	struct timespec short_time = { .tv_nsec = 50000000 };

	setvbuf(stdout, NULL, _IONBF, 0);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	printf("plain: %d times, deepest %d\n", count[SIGUSR1], deepest);
	count[SIGUSR1] = deepest = 0;
	action.sa_flags = SA_NODEFER;
	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, &old);
	printf("old flags %x\n", old.sa_flags & ~0x04000000);
	raise(SIGUSR1);
	printf("nodefer: %d times, deepest %d\n", count[SIGUSR1], deepest);
	action.sa_flags = SA_RESETHAND;
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	sigaction(SIGUSR2, NULL, &old);
	printf("one-shot: default again %d\n", old.sa_handler == SIG_DFL);

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	count[SIGUSR1] = 5;
	raise(SIGUSR1);
	kill(getpid(), SIGUSR1);
	sigpending(&pending);
	printf("pending %d, handled %d\n", sigismember(&pending, SIGUSR1), count[SIGUSR1]);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("handled %d\n", count[SIGUSR1]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	sigemptyset(&pending);
	TELL(sigsuspend(&pending));
	sigprocmask(SIG_BLOCK, NULL, &pending);
	printf("mask restored: %d\n", sigismember(&pending, SIGUSR1));
	raise(SIGUSR1);
	TELL(sigtimedwait(&set, &info, &short_time));
	printf("info: signal %d code %d\n", info.si_signo, info.si_code);
	TELL(sigtimedwait(&set, &info, &short_time));
	TELL(sigaction(SIGKILL, &action, NULL));
	TELL(sigaction(65, &action, NULL));
	TELL(kill(getpid(), 100));
	TELL(kill(getpid(), 0));
	TELL(kill(999999, 0));
	TELL(sigprocmask(77, &set, NULL));

	/* Realtime signals queue, in order, with their values; the lowest first. */
	action.sa_sigaction = queued;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGRTMIN, &action, NULL);
	sigaction(SIGRTMIN + 1, &action, NULL);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, &pending);
	for (int i = 0; i < 3; i++) {
		sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = 10 + i });
		sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i });
	}
	sigprocmask(SIG_SETMASK, &pending, NULL);

	/* Stack overflow on an alternate stack. */
	alternate = malloc(64 * 1024);
	stack = (stack_t){ .ss_sp = alternate, .ss_size = 64 * 1024 };
	TELL(sigaltstack(&stack, &previous));
	printf("previous: flags %d\n", previous.ss_flags);
	action.sa_sigaction = on_stack;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	if (!sigsetjmp(back, 1)) {
		struct rlimit limit = { 1 << 20, RLIM_INFINITY };

		setrlimit(RLIMIT_STACK, &limit);
		printf("%d\n", overflow((volatile char *)&limit));
	}
	puts("overflow survived");
	stack.ss_size = 100;
	TELL(sigaltstack(&stack, NULL));
	stack = (stack_t){ .ss_flags = SS_DISABLE };
	TELL(sigaltstack(&stack, &previous));
	printf("previous size %zu\n", previous.ss_size);
	return 0;
}
