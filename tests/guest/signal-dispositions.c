/*
 * Dispositions that change while signals arrive and calls block: SA_RESTART, SIG_IGN and SIG_DFL
 * count as they are when the signal arrives.
 */
#include "guest.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

static volatile sig_atomic_t caught;
static volatile int word, stop, again;
static int pipes[2];

static void count(int signal)
{
	caught++;
}

/*
 * The second one feeds what was restarted after the first one; or, if not `again`, it ends the
 * call.
 */
static void count_and_feed(int signal)
{
	if (++caught == 2 && again) {
		write(pipes[1], "x", 1);
		word = 1;
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	} else if (again) {
		ualarm(50000, 0);
	}
}

/*
 * Once, if the handler asks for another one; or again and again: on a slow machine the first may
 * come before the call that it is to end.
 */
static void alarms(void)
{
	ualarm(50000, again ? 0 : 50000);
}

static void on(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(signal, &action, NULL);
	caught = 0;
}

static void restarts(void)
{
	struct timeval second = { 200, 0 };
	struct timespec later = { 200, 0 };
	char byte;
	int pair[2];

	/* Each change of SA_RESTART counts, though the handler stays. */
	for (int i = 0; i < 4; i++) {
		again = i % 2;
		on(SIGALRM, count_and_feed, i % 2 ? SA_RESTART : 0);
		alarms();
		TELL(read(pipes[0], &byte, 1));
		alarm(0);
		TELL(again ? caught : caught > 0);
		if (!(i % 2))
			continue;
		siginterrupt(SIGALRM, 1);
		again = caught = 0;
		alarms();
		TELL(read(pipes[0], &byte, 1));
		alarm(0);
	}
	/* A receive with a timeout is not restarted. */
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	on(SIGALRM, count, SA_RESTART);
	again = 0;
	alarms();
	TELL(recv(pair[0], &byte, 1, 0));
	alarm(0);
	close(pair[0]);
	close(pair[1]);
	/* A futex without a timeout is, one with a timeout is not. */
	for (int i = 0; i < 4; i++) {
		word = 0;
		again = i == 1;
		on(SIGALRM, count_and_feed, i & 1 ? SA_RESTART : 0);
		alarms();
		TELL(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, i & 2 ? &later : NULL, NULL, 0));
		alarm(0);
		TELL(again ? caught : caught > 0);
	}
	read(pipes[0], &byte, 1);
	on(SIGALRM, SIG_DFL, 0);
}

static volatile unsigned long sent;

static void *raises(void *argument)
{
	while (!stop) {
		raise(SIGUSR1);
		sent++;
	}
	return argument;
}

static void *reads(void *argument)
{
	char byte;

	return (void *)(read(pipes[0], &byte, 1) == 1 ? 1L : (long)errno);
}

static int status_of(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return status & ~0x80;
}

static void to_and_fro(void)
{
	pthread_t thread, reader;
	void *result;
	pid_t pid;

	stop = 0;
	signal(SIGUSR1, SIG_IGN);
	pthread_create(&thread, NULL, raises, NULL);
	while (!sent)
		sched_yield();
	/* At least so often, and until one was caught: both threads may share a CPU. */
	for (int i = 0; i < 20000 || (!caught && i < 20000000); i++) {
		signal(SIGUSR1, count);
		signal(SIGUSR1, SIG_IGN);
	}
	stop = 1;
	pthread_join(thread, NULL);
	printf("%d sent, %d caught\n", sent > 0, caught > 0);
	/* It is ignored now, by everybody. */
	fflush(stdout);
	if ((pid = fork()) == 0) {
		execlp("sh", "sh", "-c", "kill -USR1 $$; echo alive", NULL);
		_exit(9);
	}
	printf("%#x\n", status_of(pid));
	pthread_create(&reader, NULL, reads, NULL);
	usleep(50000);
	if ((pid = fork()) == 0) {
		for (int i = 0; i < 5; i++) {
			kill(getppid(), SIGUSR1);
			usleep(10000);
		}
		_exit(write(pipes[1], "x", 1) != 1);
	}
	printf("%#x\n", status_of(pid));
	pthread_join(reader, &result);
	printf("the reader: %ld\n", (long)result);
	/* And caught again. */
	signal(SIGUSR1, count);
	caught = 0;
	if ((pid = fork()) == 0) {
		kill(getppid(), SIGUSR1);
		raise(SIGUSR1);
		_exit(caught);
	}
	printf("%#x\n", status_of(pid));
	printf("caught %d\n", caught);
	signal(SIGUSR1, SIG_DFL);
	if ((pid = fork()) == 0) {
		raise(SIGUSR1);
		_exit(0);
	}
	printf("%#x\n", status_of(pid));
	/* Children of one that ignores SIGCHLD leave nothing to wait for. */
	for (int i = 0; i < 20; i++) {
		signal(SIGCHLD, SIG_DFL);
		signal(SIGCHLD, SIG_IGN);
	}
	if ((pid = fork()) == 0)
		_exit(0);
	TELL(waitpid(pid, NULL, 0));
	signal(SIGCHLD, SIG_DFL);
	if ((pid = fork()) == 0)
		_exit(3);
	printf("%#x\n", status_of(pid));
}

/* A thread that makes no call gets its signals, too. */
static int computes(void *argument)
{
	while (!caught)
		;
	return 0;
}

static void quiet_thread(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int tid;

	on(SIGUSR1, count, 0);
	tid = clone(computes, stack + sizeof(stack),
		    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
	usleep(20000);
	syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
	for (int i = 0; i < 20000 && !caught; i++)
		usleep(10000);
	printf("a thread that computes caught %d\n", caught);
}

/* A handler for once, of a signal whose default is nothing. */
static void once(void)
{
	on(SIGWINCH, count, SA_RESETHAND);
	raise(SIGWINCH);
	raise(SIGWINCH);
	printf("once: %d\n", caught);
	on(SIGWINCH, count, 0);
	kill(getpid(), SIGWINCH);
	printf("again: %d\n", caught);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	pipe(pipes);
	restarts();
	to_and_fro();
	once();
	quiet_thread();
	return 0;
}
