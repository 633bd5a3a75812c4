/* Signals that a tracer blocks, and those that it gives at the beginning and the end of a call. */
#include "tracer.h"
#include <pthread.h>
#include <sched.h>

static volatile int handled;

static void handler(int signal)
{
	handled += signal;
}

static int is_pending(int signal)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, signal);
}

static void blocks_run(void)
{
	sigset_t set;
	int before;

	signal(SIGUSR1, handler);
	before = is_pending(SIGUSR1);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	_exit(before * 100 + handled);
}

/* A signal that waits, and is blocked before the tracee goes on, waits on. */
static void blocks(void)
{
	for (int thread = 0; thread < 2; thread++) {
		pid_t pid = start(thread ? "blocks a signal to the thread" : "blocks a signal to the process", blocks_run);
		uint64_t mask = 1 << (SIGUSR1 - 1) | 1 << (SIGKILL - 1) | 1 << (SIGSTOP - 1), seen = 0;

		if (thread)
			TELL(syscall(SYS_tgkill, pid, pid, SIGUSR1));
		else
			TELL(kill(pid, SIGUSR1));
		TELL(ptrace(PTRACE_SETSIGMASK, pid, 4, &mask));
		TELL(ptrace(PTRACE_SETSIGMASK, pid, 8, NULL));
		TELL(ptrace(PTRACE_SETSIGMASK, pid, 8, &mask));
		TELL(ptrace(PTRACE_GETSIGMASK, pid, 8, &seen));
		TELL(seen);
		go(PTRACE_CONT, pid, 0);
		next(pid);
		info(pid);
		go(PTRACE_CONT, pid, SIGUSR1);
		next(pid);
	}
}

static void suspends_run(void)
{
	sigset_t set;

	signal(SIGUSR1, handler);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigdelset(&set, SIGUSR1);
	sigsuspend(&set);
	_exit(handled);
}

/* The mask of a tracee in a call with a mask of its own is that which comes back. */
static void suspends(void)
{
	pid_t pid = start("in sigsuspend", suspends_run);
	uint64_t seen = 0;

	to_call(pid, SYS_rt_sigsuspend, 0);
	go(PTRACE_CONT, pid, 0);
	until_asleep(pid, pid);
	kill(pid, SIGUSR1);
	next(pid);
	TELL(ptrace(PTRACE_GETSIGMASK, pid, 8, &seen));
	printf("  %#lx\n", seen & (1 << (SIGUSR1 - 1) | 1 << (SIGUSR2 - 1)));
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);
}

static void given_run(void)
{
	signal(SIGUSR1, handler);
	signal(SIGUSR2, SIG_IGN);
	for (int i = 0; i < 3; i++)
		syscall(SYS_getppid);
	_exit(handled);
}

static void blocked_run(void)
{
	sigset_t set;

	signal(SIGUSR1, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	syscall(SYS_getppid);
	_exit(is_pending(SIGUSR1) * 10 + handled);
}

static void waits_run(void)
{
	signal(SIGUSR1, handler);
	_exit(pause() == -1 && errno == EINTR ? handled : 1);
}

/* The result of a call, as its end shows it. */
static void result(pid_t pid)
{
	struct user_regs_struct regs;

	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	printf("  call %lld gives %s\n", (long long)regs.orig_rax, regs.rax == (unsigned long long)getpid() ? "the parent" : "something else");
}

static void skipped_run(void)
{
	signal(SIGUSR1, handler);
	_exit(syscall(SYS_getppid) == 77 ? handled + 1 : 1);
}

static void given(void)
{
	struct user_regs_struct regs;
	pid_t pid;

	for (int signal = 0; signal <= SIGUSR1; signal += SIGUSR1) {
		pid = start(signal ? "at a call that is not made" : "a call that is not made", skipped_run);
		to_call(pid, SYS_getppid, 0);
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		regs.orig_rax = -1;
		regs.rax = 77;
		TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
		go(PTRACE_SYSCALL, pid, signal);
		next(pid);
		for (int i = 0; i <= !!signal; i++) {
			go(PTRACE_CONT, pid, i ? signal : 0);
			next(pid);
		}
	}

	pid = start("given at the beginning of a call", given_run);
	to_call(pid, SYS_getppid, 0);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);

	pid = start("told behind the end of that call", given_run);
	to_call(pid, SYS_getppid, 0);
	go(PTRACE_SYSCALL, pid, SIGUSR1);
	next(pid);
	result(pid);
	go(PTRACE_SYSCALL, pid, 0);
	next(pid);
	info(pid);
	result(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);

	pid = start("given at the end of a call", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_SYSCALL, pid, SIGUSR1);
	next(pid);
	info(pid);
	result(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);

	pid = start("at the beginning and the end", given_run);
	to_call(pid, SYS_getppid, 0);
	go(PTRACE_SYSCALL, pid, SIGUSR1);
	next(pid);
	go(PTRACE_SYSCALL, pid, SIGUSR2);
	next(pid);
	info(pid);
	go(PTRACE_SYSCALL, pid, SIGUSR1);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGUSR2);
	next(pid);

	pid = start("where it waits", waits_run);
	to_call(pid, SYS_pause, 0);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);

	pid = start("a blocked one", blocked_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);

	pid = start("an ignored one", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_SYSCALL, pid, SIGUSR2);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);

	pid = start("one that stops", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_CONT, pid, SIGTSTP);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGTSTP);
	next(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);

	pid = start("a fatal one", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_CONT, pid, SIGTERM);
	next(pid);
	go(PTRACE_CONT, pid, SIGTERM);
	next(pid);

	pid = start("SIGKILL", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_CONT, pid, SIGKILL);
	next(pid);

	pid = start("none that there is", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_CONT, pid, 65);
	go(PTRACE_CONT, pid, 0);
	next(pid);

	pid = start("with the end of tracing", given_run);
	to_call(pid, SYS_getppid, 1);
	go(PTRACE_DETACH, pid, SIGUSR1);
	next(pid);
}

static void execve_run(void)
{
	signal(SIGUSR1, handler);
	execl("/bin/true", "true", NULL);
}

/* It shares its tracer's memory. */
static int shares_run(void *unused)
{
	(void)unused;
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	kill(getpid(), SIGSTOP);
	execl("/bin/true", "true", NULL);
	_exit(9);
}

static volatile int is_seized;

static int seized_run(void *unused)
{
	(void)unused;
	while (!is_seized)
		;
	execl("/bin/true", "true", NULL);
	_exit(9);
}

static void *replaces(void *unused)
{
	execve_run();
	return unused;
}

static void thread_run(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, replaces, NULL);
	for (;;)
		pause();
}

/*
 * Every stop from the execve `tid` is about to make, where it is given two signals, to the end of
 * its new program.
 */
static void replaced(pid_t tid, pid_t pid, long options)
{
	struct user_regs_struct regs;
	long request = PTRACE_SYSCALL;
	int status, given = SIGUSR2;

	if (options >= 0)
		TELL(ptrace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD | options));
	go(PTRACE_SYSCALL, tid, given);
	for (int stops = 0; stops < 6; stops++) {
		status = next(pid);
		if (!WIFSTOPPED(status))
			break;
		info(pid);
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		printf("  call %lld gives %lld\n", (long long)regs.orig_rax, (long long)regs.rax);
		given = 0;
		if (status >> 8 == (SIGTRAP | 0x80)) {
			given = SIGUSR1;
			request = PTRACE_CONT;
		} else if (WSTOPSIG(status) == SIGUSR2) {
			given = SIGUSR2;
		}
		go(request, pid, given);
	}
}

static void at_execve(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	unsigned long message = 0;
	int status;
	pid_t pid;

	for (int tells = 0; tells < 2; tells++) {
		long options = tells ? PTRACE_O_TRACEEXEC : 0;

		pid = start(tells ? "at an execve that is told" : "at an execve", execve_run);
		to_call(pid, SYS_execve, 0);
		replaced(pid, pid, options);

		puts("at that of a process that shares memory");
		pid = clone(shares_run, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
		next(pid);
		to_call(pid, SYS_execve, 0);
		replaced(pid, pid, options);

		pid = start("at that of another thread", thread_run);
		TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE | options));
		go(PTRACE_CONT, pid, 0);
		next(pid);
		ptrace(PTRACE_GETEVENTMSG, pid, 0, &message);
		waitpid(message, &status, __WALL);
		go(PTRACE_CONT, pid, 0);
		to_call(message, SYS_execve, 0);
		replaced(message, pid, options);
	}

	puts("of one that is seized and shares memory");
	pid = clone(seized_run, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	TELL(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD));
	TELL(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
	next(pid);
	is_seized = 1;
	to_call(pid, SYS_execve, 0);
	replaced(pid, pid, -1);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	blocks();
	suspends();
	given();
	at_execve();
	return 0;
}
