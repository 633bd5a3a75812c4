/*
 * A call that is blocked for ever holds up no other thread: while threads are blocked in read() on
 * pipes into which nothing is written, other threads fork, run programs, unmap and protect memory
 * that Linux has seen, take signals, change dispositions and masks, and create and end threads.
 * Each step of theirs has to end within its time. At last an execve, whose process' other threads
 * are blocked still.
 *
 * And no result of a call is taken for "not made": lseek of a file of memory returns any offset.
 */
#include "guest.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>

#define BLOCKED 24
#define STEP_SECONDS 180
#define ROUNDS by_tier(4, 20)
#define PAGES 16

extern char **environ;

static int gate[2];
static volatile int taken, entered;
static const char *volatile step = "start";

/* The watchdog: another thread's step took too long. */
static void *watch(void *unused)
{
	const char *last = NULL;
	int seconds = 0;

	(void)unused;
	for (;;) {
		sleep(1);
		seconds = step == last ? seconds + 1 : 0;
		last = step;
		if (seconds > STEP_SECONDS) {
			printf("%s: no end within %d s\n", last, STEP_SECONDS);
			fflush(stdout);
			_exit(3);
		}
	}
	return NULL;
}

static void *blocks(void *unused)
{
	char c;

	__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
	return read(gate[0], &c, 1) == 1 ? unused : NULL;
}

static void on_signal(int number)
{
	(void)number;
	__atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}

static void on_other_signal(int number)
{
	(void)number;
}

static void *ends(void *unused)
{
	syscall(SYS_getppid);
	return unused;
}

static int fork_and_wait(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(getppid() > 0 ? 7 : 8);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int spawn_and_wait(char *self)
{
	char *argv[] = { self, "child", NULL };
	int status = -1;
	pid_t pid;

	if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
		return -1;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Linux has the pages before they are changed or go. */
static int change_seen_memory(int zero)
{
	int right = 0, i;

	for (i = 0; i < PAGES; i++) {
		char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED || read(zero, p, 8 * PAGE) != 8 * PAGE)
			continue;
		memset(p, 1, 8 * PAGE);
		if (mprotect(p, PAGE, PROT_READ) || read(zero, p, 1) != -1 || errno != EFAULT)
			continue;
		/* What is left free is another thread's at once. */
		right += mremap(p + 4 * PAGE, 4 * PAGE, PAGE, 0) == p + 4 * PAGE && !munmap(p, 5 * PAGE);
	}
	return right;
}

static int shared_file(void)
{
	int fd = memfd_create("shared", 0), right;
	char *p;

	if (fd < 0 || ftruncate(fd, 4 * PAGE))
		return -1;
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -1;
	p[PAGE] = 3;
	right = p[PAGE] == 3 && !munmap(p, 4 * PAGE);
	return right;
}

static int signals_to_self(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int before = taken, i;
	sigset_t set, old;

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (i = 0; i < 4; i++) {
		pthread_sigmask(SIG_BLOCK, &set, &old);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
		syscall(SYS_getppid);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	signal(SIGUSR2, SIG_IGN);
	kill(getpid(), SIGUSR2);
	signal(SIGUSR2, on_other_signal); /* never the default, which another one's signal would meet */
	return taken - before;
}

static int threads_come_and_go(void)
{
	int ended = 0, i;
	pthread_t thread;
	void *result;

	for (i = 0; i < 4; i++)
		ended += !pthread_create(&thread, NULL, ends, &gate) &&
			 !pthread_join(thread, &result) && result == &gate;
	return ended;
}

/* Also those blocked in the read are interrupted, and go on with it. */
static int signals_to_the_blocked(const pthread_t *threads, int count)
{
	int before = taken, i;

	for (i = 0; i < count; i++)
		pthread_kill(threads[i], SIGUSR1);
	while (taken - before < count)
		usleep(1000);
	return taken - before;
}

static int offsets(void)
{
	int fd = open("/proc/self/mem", O_RDONLY), right = 0;
	long offset;

	for (offset = -520; offset < -510; offset++) {
		errno = 0;
		right += syscall(SYS_lseek, fd, offset, SEEK_SET) == -1 && errno == -offset;
	}
	close(fd);
	return right;
}

/* Several threads at once do all of it. */
static void *works(void *argument)
{
	char *self = argument;
	int zero = open("/dev/zero", O_RDONLY), round;
	long right[6] = { 0 };

	for (round = 0; round < ROUNDS; round++) {
		right[0] += fork_and_wait() == 7;
		right[1] += spawn_and_wait(self) == 9;
		right[2] += change_seen_memory(zero) == PAGES;
		right[3] += shared_file() == 1;
		right[4] += signals_to_self() >= 4;
		right[5] += threads_come_and_go() == 4;
		step = right[0] & 1 ? "working" : "working on";
	}
	close(zero);
	for (int kind = 0; kind < 6; kind++)
		if (right[kind] != round)
			printf("kind %d: %ld of %d\n", kind, right[kind], round);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t blocked[BLOCKED], workers[2], dog;
	char *again[] = { argv[0], "again", NULL };
	int i, done = 0;
	void *result;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "child"))
		return 9;
	if (argc > 1) {
		printf("executed beside them\n");
		return 0;
	}
	if (pipe(gate))
		return 1;
	signal(SIGUSR1, on_signal);
	pthread_create(&dog, NULL, watch, NULL);
	for (i = 0; i < BLOCKED; i++)
		pthread_create(&blocked[i], NULL, blocks, NULL);
	step = "threads begin";
	while (entered < BLOCKED)
		usleep(1000);
	usleep(100000);
	step = "works";
	for (i = 0; i < 2; i++)
		pthread_create(&workers[i], NULL, works, argv[0]);
	for (i = 0; i < 2; i++)
		done += !pthread_join(workers[i], &result) && result == argv[0];
	printf("%d threads worked beside %d blocked ones\n", done, entered);
	step = "signals to the blocked";
	printf("%d of them took a signal\n", signals_to_the_blocked(blocked, BLOCKED));
	step = "offsets";
	printf("%d offsets returned\n", offsets());
	step = "execve";
	execv(argv[0], again);
	return 2;
}
