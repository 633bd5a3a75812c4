/*
 * Signals reach threads whose calls wait for a server of the request box, or are being executed by
 * one: a handler runs on the thread that the signal was sent to, and the call ends with EINTR or is
 * made again, as SA_RESTART says. SIGPIPE comes to the thread that wrote, or stays pending where
 * that blocks it. After fork and execve calls are as before.
 */
#include "guest.h"
#include <pthread.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define READERS 8

static __thread volatile int handled;
static volatile int pipes_broken;
static int gate[2], never[2];

static void on_signal(int number)
{
	(void)number;
	handled++;
}

static void on_pipe(int number)
{
	(void)number;
	handled++;
	__atomic_add_fetch(&pipes_broken, 1, __ATOMIC_SEQ_CST);
}

struct reader {
	pthread_t thread;
	volatile int tid, is_done;
	int result, error, handled;
};

static void *reads(void *arg)
{
	struct reader *r = arg;
	char c;

	r->tid = syscall(SYS_gettid);
	r->result = read(never[0], &c, 1);
	r->error = r->result < 0 ? errno : 0;
	r->handled = handled;
	r->is_done = 1;
	return NULL;
}

static void *waits_for_events(void *arg)
{
	struct reader *r = arg;
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	epoll_ctl(epoll, EPOLL_CTL_ADD, never[0], &event);
	r->tid = syscall(SYS_gettid);
	r->result = epoll_wait(epoll, &event, 1, -1);
	r->error = r->result < 0 ? errno : 0;
	r->handled = handled;
	r->is_done = 1;
	return NULL;
}

static void install(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

/*
 * All of them are blocked, so some of the calls wait and some are executed. Each gets a signal of
 * its own.
 */
static void interrupts(const char *what, void *(*body)(void *))
{
	struct reader readers[READERS] = { 0 };
	int i, eintr = 0, handlers = 0;

	for (i = 0; i < READERS; i++) {
		pthread_create(&readers[i].thread, NULL, body, &readers[i]);
		while (!readers[i].tid)
			usleep(1000);
	}
	usleep(50000);
	for (i = 0; i < READERS; i++) {
		/* It may not be in the call yet. */
		while (!readers[i].is_done) {
			syscall(SYS_tgkill, getpid(), readers[i].tid, SIGUSR1);
			usleep(30000);
		}
		pthread_join(readers[i].thread, NULL);
		eintr += readers[i].result == -1 && readers[i].error == EINTR;
		handlers += readers[i].handled > 0;
	}
	printf("%s: %d interrupted, %d handlers\n", what, eintr, handlers);
}

static void *sends_sigbus(void *tid)
{
	int i;

	for (i = 0; i < 3; i++) {
		usleep(50000);
		syscall(SYS_tgkill, getpid(), (int)(long)tid, SIGBUS);
	}
	return NULL;
}

/* SIGBUS, which interrupts servers, in a call that no server executes. */
static void restarts_after_sigbus(const char *where)
{
	pthread_t thread;
	int status = -1, child, result;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		usleep(400000);
		_exit(5);
	}
	handled = 0;
	pthread_create(&thread, NULL, sends_sigbus, (void *)syscall(SYS_gettid));
	result = waitpid(child, &status, 0);
	pthread_join(thread, NULL);
	printf("%s, SIGBUS: %d, status %d, handled %d\n", where, result == child, status, handled > 0);
}

/* With SA_RESTART the handler runs and the call goes on until there is something to read. */
static void restarts(void)
{
	struct reader readers[READERS] = { 0 };
	int i, ok = 0, handlers = 0;

	never[0] = gate[0];
	for (i = 0; i < READERS; i++) {
		pthread_create(&readers[i].thread, NULL, reads, &readers[i]);
		while (!readers[i].tid)
			usleep(1000);
	}
	usleep(50000);
	for (i = 0; i < READERS; i++)
		syscall(SYS_tgkill, getpid(), readers[i].tid, SIGUSR2);
	usleep(50000);
	for (i = 0; i < READERS; i++)
		ok += write(gate[1], "x", 1) == 1;
	for (i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		ok += readers[i].result == 1;
		handlers += readers[i].handled == 1;
	}
	printf("restarted: %d of %d, %d handlers\n", ok, 2 * READERS, handlers);
}

static void *writes_to_nobody(void *blocks)
{
	sigset_t set, pending;
	int fds[2];
	long result;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (blocks)
		pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pipe(fds))
		return NULL;
	close(fds[0]);
	getppid();
	result = write(fds[1], "x", 1) == -1 && errno == EPIPE;
	close(fds[1]);
	sigpending(&pending);
	result |= sigismember(&pending, SIGPIPE) << 1 | handled << 2;
	return (void *)result;
}

int main(int argc, char **argv)
{
	struct pollfd polled = { .events = POLLIN };
	pthread_t thread;
	void *result;
	int status;

	if (argc > 1) {
		char text[16] = "";
		int fds[2];

		if (pipe(fds) || write(fds[1], "after execve", 13) != 13 || read(fds[0], text, 13) != 13)
			return 2;
		puts(text);
		return 0;
	}
	alarm(600);
	if (pipe(gate) || pipe(never))
		return 2;
	install(SIGUSR1, on_signal, 0);
	install(SIGUSR2, on_signal, SA_RESTART);
	install(SIGPIPE, on_pipe, SA_RESTART);
	install(SIGBUS, on_signal, SA_RESTART);
	interrupts("read", reads);
	interrupts("epoll_wait", waits_for_events);
	restarts();
	restarts_after_sigbus("beside servers");
	pthread_create(&thread, NULL, writes_to_nobody, NULL);
	pthread_join(thread, &result);
	printf("SIGPIPE: %ld\n", (long)result);
	pthread_create(&thread, NULL, writes_to_nobody, (void *)1);
	pthread_join(thread, &result);
	printf("SIGPIPE blocked: %ld\n", (long)result);
	polled.fd = gate[0];
	printf("poll: %d\n", poll(&polled, 1, 10));
	fflush(stdout);
	if (fork() == 0) {
		restarts_after_sigbus("in the child");
		pthread_create(&thread, NULL, writes_to_nobody, NULL);
		pthread_join(thread, &result);
		printf("in the child: %ld\n", (long)result);
		fflush(stdout);
		execl(argv[0], argv[0], "again", NULL);
		_exit(3);
	}
	wait(&status);
	printf("the child's status: %d\n", status);
	/* Exits with calls that wait and calls that are executed. */
	fflush(stdout);
	pipe(never);
	for (status = 0; status < READERS; status++) {
		static struct reader readers[READERS];

		pthread_create(&readers[status].thread, NULL, reads, &readers[status]);
	}
	usleep(20000);
	return 7;
}
