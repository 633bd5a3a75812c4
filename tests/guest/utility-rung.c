/*
 * Threads whose code executes on a Linux CPU, asleep in a read of the eventfd by which threads on
 * the LWK ring them (prctl PR_HANARE_RUN_ON). Linux, where rings are writes, says what is right.
 *   utility-rung lwk       what only the LWK has: a line for each that is as it should be
 *   utility-rung crowd ITEMS   rings until SIGTERM by an eventfd at which ITEMS * ITEMS epoll items
 *                              look
 */
#include "utility.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define EVENTFD 3
#define RING 4
#define SLEEP 5

static int bell;
static volatile int tid, is_ready, may_sleep, woken;
static volatile long error, had;

static long be_rung_by(int fd)
{
	return prctl(PR_HANARE_RUN_ON, EVENTFD, (long)fd, 0, 0);
}

static void add_one(void)
{
	uint64_t one = 1;

	write(bell, &one, 8);
}

static void ring(void)
{
	if (prctl(PR_HANARE_RUN_ON, RING, (long)tid, 0, 0))
		add_one();
}

static void await(volatile int *word, int value)
{
	while (*word != value)
		usleep(100);
}

/* Sleeps until it is rung, again and again. */
static void *sleeps(void *unused)
{
	uint64_t count;

	be_rung_by(bell);
	tid = syscall(SYS_gettid);
	is_ready = 1;
	while (!may_sleep)
		;
	for (;;) {
		errno = 0;
		had = read(bell, &count, 8) == 8 ? (long)count : -1;
		error = errno;
		woken++;
	}
	return unused;
}

static void begin(int sleeps_at_once)
{
	bell = eventfd(0, 0);
	tid = is_ready = woken = 0;
	may_sleep = sleeps_at_once;
	outside(sleeps, NULL);
	await(&is_ready, 1);
}

static void handler(int signal)
{
	(void)signal;
}

static void wakes(void)
{
	struct sigaction action = { .sa_handler = handler };
	int i, sum = 0;

	begin(1);
	for (i = 1; i <= 200; i++) {
		if (i % 20 == 0)
			usleep(2000);
		ring();
		await(&woken, i);
		sum += had;
	}
	printf("woken %d times, %d rings\n", woken, sum);
	sigaction(SIGUSR1, &action, NULL);
	until_asleep(getpid(), tid);
	syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
	await(&woken, 201);
	printf("interrupted: %ld, error %ld\n", had, error);
	ring();
	await(&woken, 202);
	printf("and rung: %ld\n", had);
}

static void keeps(void)
{
	begin(0);
	ring();
	ring();
	usleep(200000);
	may_sleep = 1;
	await(&woken, 1);
	/* On the LWK rings that come together may be one. */
	printf("rung before it slept: %d\n", had == 1 || had == 2);
}

static void *kills_group(void *unused)
{
	usleep(50000);
	_exit(7);
	return unused;
}

static void *executes(void *unused)
{
	usleep(50000);
	execl("/bin/false", "false", NULL);
	return unused;
}

/* How a process ends, or goes on, that has such a thread. */
static void ends(const char *how)
{
	int status = -1;
	pthread_t other;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(200);
		begin(1);
		if (!strcmp(how, "exit"))
			pthread_create(&other, NULL, kills_group, NULL);
		if (!strcmp(how, "exit there"))
			outside(kills_group, NULL);
		if (!strcmp(how, "execve"))
			pthread_create(&other, NULL, executes, NULL);
		if (!strcmp(how, "stop")) {
			usleep(200000);
			ring();
			await(&woken, 1);
			_exit(9);
		}
		for (;;)
			pause();
	}
	usleep(100000);
	if (!strcmp(how, "SIGKILL"))
		kill(pid, SIGKILL);
	if (!strcmp(how, "SIGTERM"))
		kill(pid, SIGTERM);
	if (!strcmp(how, "stop")) {
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		printf("stopped: %d\n", WIFSTOPPED(status));
		usleep(200000);
		kill(pid, SIGCONT);
	}
	waitpid(pid, &status, 0);
	printf("%s: status %#x\n", how, status);
}

/* A child has neither the thread nor its eventfd. */
static void in_child_of_fork(void)
{
	int status = -1, parent;
	pid_t pid;

	begin(1);
	parent = tid;
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(!prctl(PR_HANARE_RUN_ON, RING, (long)parent, 0, 0));
	waitpid(pid, &status, 0);
	usleep(20000);
	printf("in a child: status %#x, woken %d times\n", status, woken);
}

/* ---- what only the LWK has ---- */

static void is(const char *what, long result, int expected)
{
	int got = result < 0 ? errno : result;

	if (got == expected)
		printf("%s\n", what);
	else
		printf("%s: %d in place of %d\n", what, got, expected);
}

static long rings(int thread)
{
	return prctl(PR_HANARE_RUN_ON, RING, (long)thread, 0, 0);
}

static void *goes_without(void *unused)
{
	tid = syscall(SYS_gettid);
	is_ready = 1;
	while (!may_sleep)
		;
	return unused;
}

/* Sleeps without an eventfd until there is work. */
static volatile int work, done, sleeps_begun, refused, interrupted;

static void *naps(void *unused)
{
	is("rung asleep", be_rung_by(-2), 0);
	is("not here", prctl(PR_HANARE_RUN_ON, SLEEP, 0, 0, 0), EAGAIN);
	go_out();
	tid = syscall(SYS_gettid);
	is_ready = 1;
	for (;;) {
		while (!work) {
			sleeps_begun++;
			if (prctl(PR_HANARE_RUN_ON, SLEEP, 0, 0, 0)) {
				refused += errno == EAGAIN;
				interrupted += errno == EINTR;
			}
		}
		work = 0;
		done++;
	}
	return unused;
}

static void give_work(int pause_us)
{
	int before = done;

	work = 1;
	while (rings(tid) && errno == EAGAIN)
		sched_yield();
	while (done == before)
		usleep(pause_us);
}

static void start_to_nap(void)
{
	pthread_t thread;

	is_ready = work = done = sleeps_begun = refused = interrupted = 0;
	pthread_create(&thread, NULL, naps, NULL);
	await(&is_ready, 1);
}

/* Rung while it is on the LWK, in nanosleep, and its worker waits for its next request. */
static void *naps_late(void *unused)
{
	be_rung_by(-2);
	go_out();
	tid = syscall(SYS_gettid);
	is_ready = 1;
	for (int i = 0; i < 100; i++) {
		while (work <= i)
			usleep(1000);
		prctl(PR_HANARE_RUN_ON, SLEEP, 0, 0, 0);
		done++;
	}
	return unused;
}

static void rung_before(void)
{
	pthread_t thread;

	is_ready = work = done = 0;
	pthread_create(&thread, NULL, naps_late, NULL);
	await(&is_ready, 1);
	for (int i = 0; i < 100; i++) {
		while (rings(tid) && errno == EAGAIN)
			sched_yield();
		if (i % 2)
			usleep(3000);
		work = i + 1;
		while (done <= i)
			usleep(100);
	}
	pthread_join(thread, NULL);
	is("a ring that comes before counts", done, 100);
}

/* How a process ends that has such a thread, which sleeps. */
static void ends_asleep(const char *how)
{
	const struct rlimit no_core = { 0, 0 };
	int status = -1;
	pthread_t other;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		start_to_nap();
		give_work(100);
		usleep(20000);
		printf("%s\n", how);
		fflush(stdout);
		if (!strcmp(how, "exit"))
			_exit(7);
		if (!strcmp(how, "execve"))
			pthread_create(&other, NULL, executes, NULL);
		if (!strcmp(how, "SIGSEGV"))
			*(volatile int *)8 = 0;
		if (!strcmp(how, "SIGKILL"))
			kill(getpid(), SIGKILL);
		for (;;)
			pause();
	}
	waitpid(pid, &status, 0);
	printf("status %#x\n", status);
}

static void naps_there(void)
{
	struct sigaction action = { .sa_handler = handler };

	start_to_nap();
	for (int i = 0; i < 300; i++)
		give_work(i % 3 ? 0 : 3000);
	is("each was seen", done, 300);
	/* A ring counts where it comes before the sleep; a sleeper sleeps until then. */
	is("it slept", sleeps_begun > 10 && sleeps_begun <= 700 && refused == 0, 1);
	sigaction(SIGUSR1, &action, NULL);
	while (!interrupted) {
		syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
		usleep(3000);
	}
	give_work(100);
	is("interrupted, and rung", done, 301);
	rung_before();
	ends_asleep("exit");
	ends_asleep("execve");
	ends_asleep("SIGSEGV");
	ends_asleep("SIGKILL");
}

/* So many look at the eventfd that it takes long to add to it. */
static volatile sig_atomic_t is_told;

static void told(int signal)
{
	(void)signal;
	is_told = 1;
}

static void in_a_crowd(int some)
{
	struct rlimit files = { 4096, 4096 };
	struct epoll_event event = { .events = EPOLLIN };
	int dups[some], rung = 0;
	uint64_t count;
	time_t end;

	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGTERM, told);
	bell = eventfd(0, EFD_NONBLOCK);
	for (int i = 0; i < some; i++)
		dups[i] = dup(bell);
	for (int i = 0; i < some; i++) {
		int epoll = epoll_create1(0);

		for (int j = 0; j < some; j++)
			if (epoll_ctl(epoll, EPOLL_CTL_ADD, dups[j], &event))
				perror("epoll_ctl");
	}
	is("a thread here", be_rung_by(bell), 0);
	printf("begins\n");
	fflush(stdout);
	for (end = time(NULL) + 200; time(NULL) < end && (!is_told || rung <= 1000);)
		rung += !rings(getpid());
	is("rang", rung > 1000 && read(bell, &count, 8) == 8, 1);
}

/* The rings that have come, 0 where none comes. */
static void await_count(uint64_t *count)
{
	for (int look = 0; look < 60000 && read(bell, count, 8) != 8; look++) {
		*count = 0;
		usleep(1000);
	}
}

static void on_the_lwk(void)
{
	int pipes[2], parent = getpid(), status = -1, i, rung = 0;
	uint64_t count = 0, sum = 0;
	pid_t pid;

	begin(1);
	is("rings", rings(tid), 0);
	await(&woken, 1);
	pid = fork();
	if (!pid)
		_exit(rings(tid) != -1 || errno != ESRCH || rings(parent) != -1 || errno != ESRCH);
	waitpid(pid, &status, 0);
	is("not a thread of another process", status, 0);
	is("not nobody", rings(0), ESRCH);
	is("not who has no eventfd", rings(getpid()), ENXIO);
	pipe(pipes);
	is("not by a pipe", be_rung_by(pipes[0]), EINVAL);
	is("not by what is not open", be_rung_by(999), EBADF);
	is("still not", rings(getpid()), ENXIO);
	is_ready = may_sleep = 0;
	outside(goes_without, NULL);
	await(&is_ready, 1);
	is("not a thread there without one", rings(tid), ENXIO);
	may_sleep = 1;

	/* The calling thread need not be one there. */
	bell = eventfd(0, EFD_NONBLOCK);
	is("a thread here", be_rung_by(bell), 0);
	for (i = 0; i < 100000; i++)
		rung += !rings(getpid());
	usleep(200000);
	await_count(&count);
	is("rings that come together may be one", count > 0 && count <= (uint64_t)rung, 1);
	/* What of the rings above is late may come among the first ones here: once more, then. */
	for (int tries = 0; tries < 5 && (!tries || sum); tries++) {
		sum = 0;
		for (i = 0; i < 100; i++) {
			usleep(1000);
			if (rings(getpid()))
				continue;
			sum++;
			await_count(&count);
			sum -= count == 1;
		}
	}
	is("each ring that comes alone is there", sum, 0);
	rung = 1;
	is("too many are refused", rung > 0 && rung < 100000, 1);
	usleep(10000);
	close(bell);
	is("one that was closed", rings(getpid()), 0);
	is("none any more", be_rung_by(-1), 0);
	is("not rung without", rings(getpid()), ENXIO);
	naps_there();
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "crowd")) {
		in_a_crowd(atoi(argv[2]));
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "lwk")) {
		on_the_lwk();
		return 0;
	}
	wakes();
	keeps();
	ends("SIGKILL");
	ends("SIGTERM");
	ends("exit");
	ends("exit there");
	ends("execve");
	ends("stop");
	in_child_of_fork();
	return 0;
}
