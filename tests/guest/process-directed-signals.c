/*
 * A signal for the process goes to a thread that does not block it.
 * The first thread blocks the signal, of which Linux has not heard; another thread takes it in a
 * delegated call. Also: a signal that all threads block stays pending; threads take signals while
 * their files in /proc are read.
 * Usage: process-directed-signals [read|wait]    prints "ready"; the signal is sent from outside
 */
#include "guest.h"
#include <poll.h>
#include <pthread.h>

static int fds[2], go[2], passes;
static volatile int begun, taken, taker;
static sigset_t interrupt;
static pid_t parent;
/* Of the thread that is to take it; the sender sees it, too. */
static volatile pid_t *taking;

static void on_interrupt(int signal)
{
	(void)signal;
	taken++;
	taker = gettid();
}

static void install(int flags)
{
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = flags };

	sigaction(SIGINT, &action, NULL);
}

static void *reads(void *unused)
{
	char c;
	long result;

	*taking = gettid();
	begun = 1;
	result = read(fds[0], &c, 1);
	printf("read: %ld %s, taken %d, here %d\n", result, result < 0 ? strerrorname_np(errno) : "", taken,
	       taker == gettid());
	return unused;
}

static void *polls(void *unused)
{
	struct timespec long_time = { 200, 0 };
	long result;

	pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
	*taking = gettid();
	begun = 1;
	sigset_t none;
	sigemptyset(&none);
	result = ppoll(NULL, 0, &long_time, &none);
	printf("ppoll: %ld %s, taken %d, here %d\n", result, result < 0 ? strerrorname_np(errno) : "", taken,
	       taker == gettid());
	return unused;
}

static void *waits(void *unused)
{
	struct timespec long_time = { 200, 0 };

	pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
	*taking = gettid();
	begun = 1;
	TELL(sigtimedwait(&interrupt, NULL, &long_time));
	printf("taken %d\n", taken);
	return unused;
}

/* Blocks it as well, and makes no call of Linux' then. */
static void *computes(void *unused)
{
	pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
	while (passes)
		__asm__ volatile("pause");
	return unused;
}

/*
 * A child that sends the signal when it is told that all is ready, once the first thread and the
 * one that is to take it sleep. It ends when it is told so, or when the signal has ended nothing in
 * a minute: its end ends a read, too.
 */
static void make_sender(void)
{
	char c;

	parent = getpid();
	if (pipe(fds) || pipe(go))
		exit(1);
	if (fork() == 0) {
		struct pollfd told = { go[0], POLLIN, 0 };

		close(go[1]);
		if (read(go[0], &c, 1) == 1) {
			until_asleep(parent, parent);
			if (*taking)
				until_asleep(parent, *taking);
			kill(parent, SIGINT);
			poll(&told, 1, 60000);
		}
		_exit(0);
	}
	close(fds[1]);
}

static void end_sender(void)
{
	close(go[1]);
	while (wait(NULL) < 0)
		;
	close(fds[0]);
	close(go[0]);
}

/*
 * The first thread blocks the signal, of which Linux does not hear, and sleeps (`others`: and one
 * computes).
 */
static void passed(void *(*body)(void *), int others, int sends)
{
	pthread_t thread, other;

	install(0);
	begun = taken = taker = *taking = 0;
	passes = others;
	if (sends)
		make_sender();
	if (others)
		pthread_create(&other, NULL, computes, NULL);
	pthread_create(&thread, NULL, body, NULL);
	while (!begun)
		usleep(1000);
	usleep(50000);
	if (!sends)
		printf("ready\n");
	else if (write(go[1], "x", 1) != 1)
		exit(1);
	pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
	pthread_join(thread, NULL);
	passes = 0;
	if (others)
		pthread_join(other, NULL);
	pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
	if (sends)
		end_sender();
}

/* No thread takes it: it waits. */
static void kept(void)
{
	struct timespec wait_for = { 0, 300000000 };
	siginfo_t sender;
	sigset_t pending;

	printf("kept\n");
	install(0);
	taken = *taking = 0;
	make_sender();
	if (write(go[1], "xx", 2) != 2) /* it ends as soon as it has sent it */
		exit(1);
	pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
	TELL(nanosleep(&wait_for, NULL));
	waitid(P_ALL, 0, &sender, WEXITED | WNOWAIT); /* by now it has sent it, however slow */
	sigpending(&pending);
	printf("pending %d, taken %d\n", sigismember(&pending, SIGINT), taken);
	pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
	printf("taken %d\n", taken);
	end_sender();
}

static pid_t tids[3];
static volatile long counts[3];

static void counting(int signal)
{
	(void)signal;
}

static void *raises(void *index)
{
	sigset_t usr1, before;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	tids[(long)index] = gettid();
	while (!taken) {
		raise(SIGUSR1);
		pthread_sigmask(SIG_BLOCK, &usr1, &before);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		counts[(long)index]++;
	}
	return NULL;
}

static void looks(void)
{
	char path[64], text[4096];
	struct timespec begin, now;
	long most_ms = is_on_linux() ? 300 : by_tier(1000, 3000);

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 3; i++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%d/status", parent, tids[i]);
			int fd = open(path, O_RDONLY);

			if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
				_exit(1);
			close(fd);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < most_ms);
	_exit(0);
}

static void looked_at(void)
{
	pthread_t threads[3];
	int status;
	pid_t child;

	printf("looked at\n");
	fflush(stdout);
	parent = getpid();
	taken = 0;
	signal(SIGUSR1, counting);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, raises, (void *)i);
	while (!counts[0] || !counts[1] || !counts[2])
		usleep(1000);
	child = fork();
	if (!child)
		looks();
	waitpid(child, &status, 0);
	taken = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("status %x\n", status);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	taking = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc > 1) { /* the signal is Linux' to send */
		if (pipe(fds))
			return 1;
		passed(strcmp(argv[1], "read") ? waits : reads, 1, 0);
		return 0;
	}
	for (int others = 0; others < 2; others++) {
		passed(reads, others, 1);
		passed(polls, others, 1);
		passed(waits, others, 1);
	}
	kept();
	looked_at();
	return 0;
}
