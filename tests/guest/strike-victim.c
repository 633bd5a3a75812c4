/*
 * Short programs of one kind each, for the group `strikes` to kill, stop and crash at every moment.
 * Usage: strike-victim fork|exec|table|thread|map|block|signal|exit|noop
 *        strike-victim doomed    a thread crashes while another thread's execve ends it
 *        strike-victim hidden    the old program cannot be looked into until execve has replaced it
 *        strike-victim beside    a process shares the descriptor table during another thread's
 *                                execve
 *        strike-victim left      processes are killed as they leave shared memory, then the last
 *                                one leaves
 */
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

static void forks(void)
{
	char *pages = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int zero = open("/dev/zero", O_RDONLY);

	read(zero, pages, 64 * PAGE); /* more than a child gets copies of */
	for (int n = 0; n < 3; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (n == 2 && fork() == 0)
				_exit(4);
			_exit(3);
		}
		waitpid(pid, NULL, 0);
	}
}

static void execs(const char *self)
{
	for (int n = 0; n < 2; n++) {
		pid_t pid = n ? vfork() : fork();

		if (pid == 0) {
			execl(self, self, "noop", NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
	}
	execl(self, self, "noop", NULL);
}

static pid_t with_table(void)
{
	return syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static void tables(const char *self)
{
	for (int n = 0; n < 3; n++) {
		pid_t pid = with_table();

		if (pid == 0) {
			close(open("/dev/null", O_RDONLY));
			if (n == 1 && (with_table() == 0 || fork() == 0))
				_exit(4);
			if (n == 2)
				execl(self, self, "noop", NULL);
			_exit(3);
		}
		waitpid(pid, NULL, 0);
	}
	execl(self, self, "noop", NULL);
}

static void *sleeper(void *argument)
{
	usleep((long)argument * 3000);
	getppid();
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	for (int round = 0; round < 2; round++) {
		for (long n = 0; n < 4; n++)
			pthread_create(&thread[n], NULL, sleeper, (void *)n);
		for (long n = 0; n < 4; n++)
			pthread_join(thread[n], NULL);
	}
}

static void maps(void)
{
	/* Without a name: a killed process leaves no file. */
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	char *anonymous = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ftruncate(fd, 64 * PAGE);
	for (int n = 0; n < 3; n++) {
		char *shared = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		char *private = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		memset(shared, n, 64 * PAGE);
		memset(private, n + 1, 32 * PAGE);
		memset(anonymous, n, 64 * PAGE);
		pwrite(fd, anonymous, 64 * PAGE, 0);
		pread(fd, private, 16 * PAGE, 0);
		mprotect(anonymous, 16 * PAGE, PROT_READ);
		pread(fd, anonymous, 16 * PAGE, 0);
		mprotect(anonymous, 16 * PAGE, PROT_READ | PROT_WRITE);
		madvise(anonymous, 8 * PAGE, MADV_DONTNEED);
		private = mremap(private, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
		shared = mremap(shared, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, private + 64 * PAGE);
		ftruncate(fd, 32 * PAGE);
		ftruncate(fd, 64 * PAGE);
		munmap(shared, 64 * PAGE);
		munmap(private, 64 * PAGE);
	}
}

static int ends[2];

static void *writer(void *argument)
{
	(void)argument;
	usleep(20000);
	write(ends[1], "x", 1);
	return NULL;
}

static void blocks(void)
{
	struct pollfd wait;
	pthread_t thread;
	char byte;

	pipe(ends);
	wait = (struct pollfd){ .fd = ends[0], .events = POLLIN };
	poll(&wait, 1, 10);
	for (int n = 0; n < 2; n++) {
		pthread_create(&thread, NULL, writer, NULL);
		read(ends[0], &byte, 1);
		pthread_join(thread, NULL);
	}
	usleep(10000);
}

static volatile int caught;

static void catch(int number)
{
	(void)number;
	caught++;
}

static void signals(void)
{
	struct itimerval timer = { { 0, 0 }, { 0, 5000 } };
	struct sigaction action = { .sa_handler = catch };
	char byte;
	pid_t pid;

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_RESTART | SA_SIGINFO;
	sigaction(SIGCHLD, &action, NULL);
	pipe(ends);
	for (int n = 0; n < 3; n++) {
		/* Should it come before the read, the next one does not. */
		timer.it_interval.tv_sec = 1;
		setitimer(ITIMER_REAL, &timer, NULL);
		read(ends[0], &byte, 1);
	}
	timer = (struct itimerval){ 0 };
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int n = 0; n < 3; n++)
		raise(SIGUSR1);
	pid = fork();
	if (pid == 0) {
		for (int n = 0; n < 3; n++) {
			kill(getppid(), SIGUSR1);
			usleep(2000);
		}
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
}

static void *forever(void *argument)
{
	if (argument)
		pause();
	for (;;)
		caught++;
	return NULL;
}

static void ends_now(void)
{
	pthread_t thread;

	if (fork() == 0) {
		/* An orphan. */
		usleep(30000);
		_exit(0);
	}
	pthread_create(&thread, NULL, forever, NULL);
	pthread_create(&thread, NULL, forever, "pause");
	usleep(5000);
	exit(7);
}

static volatile int executes;

static void *crashes(void *after_ms)
{
	struct timespec begin, now;

	while (!executes)
		;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < (long)after_ms);
	*(volatile int *)NULL = 1;
	return NULL;
}

/* A thread crashes while another one's execve ends it. */
static void doomed(const char *self)
{
	struct rlimit no_core = {};
	pthread_t thread;

	setrlimit(RLIMIT_CORE, &no_core);
	for (long n = 0; n < 8; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_create(&thread, NULL, crashes, (void *)(n * 12));
			executes = 1;
			execl(self, self, "noop", NULL);
		}
		waitpid(pid, NULL, 0);
	}
}

#define CLOSED_BY_EXEC 9

/* A child with the table of its parent, where another thread's execve may come first. */
static void *makes_child(void *after_us)
{
	usleep((long)after_us);
	if (with_table() == 0) {
		usleep(200000);
		_exit(fcntl(CLOSED_BY_EXEC, F_GETFD) == -1);
	}
	pause();
	return NULL;
}

/* What execve closes it closes for its own process. */
static int beside(const char *self)
{
	pthread_t thread;
	int status, bad = 0;

	dup3(1, CLOSED_BY_EXEC, O_CLOEXEC);
	for (long n = 0; n < 60; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_create(&thread, NULL, makes_child, (void *)(n * 700));
			execl(self, self, "reap", NULL);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			printf("%ld: %x\n", n, status), bad++;
	}
	return bad;
}

/* What `beside` executes: 2 where a child has lost a descriptor, 4 one that was lost itself,
 * 1 where this program has the descriptor. */
static int reap(void)
{
	int status, bad = fcntl(CLOSED_BY_EXEC, F_GETFD) != -1;

	while (wait(&status) > 0)
		bad |= status == 0x100 ? 2 : status ? 4 : 0;
	return bad;
}

static int executing(void *self)
{
	execl(self, self, "noop", NULL);
	return 127;
}

/* Others are killed on their way out of the memory; then this process leaves it, too. What it
 * leaves ends, though another process keeps the descriptor of it. */
static void left(char *self)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct timespec begin, end;
	pid_t me = getpid(), pid = with_table();
	long took_us = 0;

	if (pid == 0) {
		while (getppid() == me)
			usleep(50000);
		_exit(0);
	}
	for (int n = 60; n > 0; n--) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		pid = clone(executing, stack + sizeof(stack), CLONE_VM | SIGCHLD, self);
		if (n < 60) {
			usleep(took_us * n / 60);
			kill(pid, SIGKILL);
		}
		waitpid(pid, NULL, 0);
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (n == 60)
			took_us = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
	}
	execl(self, self, "waiting", NULL);
}

static void *waits(void *arg)
{
	pause();
	return arg;
}

/* No process may look into the old program, all of the same user into the new one. */
static void hidden(void)
{
	pthread_t thread;

	prctl(PR_SET_DUMPABLE, 0);
	pthread_create(&thread, NULL, waits, NULL);
	execl("/bin/sleep", "sleep", "1000", NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "noop";

	if (!strcmp(what, "fork"))
		forks();
	else if (!strcmp(what, "exec"))
		execs(argv[0]);
	else if (!strcmp(what, "table"))
		tables(argv[0]);
	else if (!strcmp(what, "thread"))
		threads();
	else if (!strcmp(what, "map"))
		maps();
	else if (!strcmp(what, "block"))
		blocks();
	else if (!strcmp(what, "signal"))
		signals();
	else if (!strcmp(what, "exit"))
		ends_now();
	else if (!strcmp(what, "doomed"))
		doomed(argv[0]);
	else if (!strcmp(what, "hidden"))
		hidden();
	else if (!strcmp(what, "beside"))
		return beside(argv[0]);
	else if (!strcmp(what, "reap"))
		return reap();
	else if (!strcmp(what, "left"))
		left(argv[0]);
	else if (!strcmp(what, "waiting"))
		return puts("waiting") < 0 || fflush(stdout) || pause();
	return 0;
}
