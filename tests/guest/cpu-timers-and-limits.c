/* Timers and limits of CPU time: setitimer, sleeps on a CPU-time clock, RLIMIT_CPU. */
#include "guest.h"
#include <pthread.h>

static volatile sig_atomic_t came[65];

static void count(int signal)
{
	came[signal]++;
}

static void burn(int signal, int times)
{
	struct timespec now, end;
	volatile long n = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 200;
	do {
		for (int i = 0; i < 1000; i++)
			n++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (came[signal] < times && now.tv_sec < end.tv_sec);
}

static void timer(int which, int signal)
{
	struct itimerval once = { .it_value = { 0, 100000 } }, again = { { 0, 50000 }, { 0, 50000 } };
	struct itimerval late = { .it_value = { 500, 0 } }, old;

	TELL(setitimer(which, &late, NULL));
	TELL(getitimer(which, &old));
	printf("left %d, interval %ld\n", old.it_value.tv_sec > 0 && old.it_value.tv_sec <= 500,
	       old.it_interval.tv_usec);
	TELL(setitimer(which, &once, NULL));
	burn(signal, 1);
	printf("came %d\n", came[signal] == 1);
	TELL(getitimer(which, &old));
	printf("off %d\n", !old.it_value.tv_sec && !old.it_value.tv_usec);
	TELL(setitimer(which, &again, NULL));
	burn(signal, 4);
	printf("came %d\n", came[signal] >= 4);
	memset(&again, 0, sizeof(again));
	TELL(setitimer(which, &again, &old));
	printf("interval %ld\n", old.it_interval.tv_usec);
	again.it_value.tv_usec = 1000000;
	TELL(setitimer(which, &again, NULL));
	TELL(setitimer(which, (void *)8, NULL));
	TELL(setitimer(which, NULL, (void *)8));
	TELL(getitimer(which, (void *)8));
	if (fork() == 0) {
		getitimer(which, &old);
		printf("child: %d\n", !old.it_value.tv_sec && !old.it_value.tv_usec);
		exit(0);
	}
	wait(NULL);
}

static void *works(void *argument)
{
	burn(SIGUSR1, 1);
	return argument;
}

static long long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Sleep that CPU time ends, which another thread uses. */
static void sleeps(void)
{
	struct timespec long_enough = { 0, 200000000 }, longer = { 200, 0 }, until, left = { 0, 0 };
	struct sigaction action = { .sa_handler = count };
	/* Again and again: the first one may come before the sleep that it is to end. */
	struct itimerval soon = { { 0, 50000 }, { 0, 50000 } }, off = { 0 };
	clockid_t clock;
	pthread_t thread;
	long long before, more = by_tier(300000000, 1000000000);

	pthread_create(&thread, NULL, works, NULL);
	before = cpu_ns();
	TELL(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &long_enough, NULL));
	printf("slept %d\n", cpu_ns() - before >= 200000000);
	clock_getcpuclockid(getpid(), &clock);
	clock_gettime(clock, &until);
	before = cpu_ns();
	until.tv_nsec += more;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	TELL(clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL));
	printf("slept %d\n", cpu_ns() - before >= more * 9 / 10);
	came[SIGUSR1] = 1;
	pthread_join(thread, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	TELL(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &longer, &left));
	setitimer(ITIMER_REAL, &off, NULL);
	printf("left %d\n", left.tv_sec >= 100 && left.tv_sec < 200);
	TELL(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &long_enough, NULL));
	pthread_getcpuclockid(pthread_self(), &clock);
	TELL(clock_nanosleep(clock, 0, &long_enough, NULL));
	long_enough.tv_nsec = -1;
	TELL(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &long_enough, NULL));
}

static void limit(int soft, int hard)
{
	volatile int *told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rlimit limit = { soft, hard };
	int status;

	/* A CPU that stands still between the limits comes to both at once: once more, then. */
	for (int tries = 0; tries < 20 && !*told; tries++) {
		if (fork() == 0) {
			signal(SIGXCPU, count);
			setrlimit(RLIMIT_CPU, &limit);
			burn(SIGXCPU, 1);
			*told = came[SIGXCPU] >= 1;
			burn(SIGXCPU, 1000);
			_exit(0);
		}
		wait(&status);
	}
	printf("limit %d\n", *told);
	printf("ended by %d\n", WTERMSIG(status));
}

static void *computes(void *argument)
{
	for (;;)
		;
	return argument;
}

/* A limit that a thread sets which waits, for one that computes; and of another process. */
static void limit_of_others(void)
{
	struct rlimit limit = { 1, 2000 };
	pthread_t thread;
	pid_t child;
	int status;

	if (fork() == 0) {
		alarm(200);
		signal(SIGXCPU, count);
		pthread_create(&thread, NULL, computes, NULL);
		usleep(300000);
		setrlimit(RLIMIT_CPU, &limit);
		while (!came[SIGXCPU]) /* as a rule the other thread is interrupted */
			usleep(10000);
		_exit(7);
	}
	wait(&status);
	printf("ended with %#x\n", status);
	child = fork();
	if (child == 0) {
		alarm(200);
		computes(NULL);
	}
	usleep(300000);
	TELL(prlimit(child, RLIMIT_CPU, &limit, NULL));
	wait(&status);
	printf("ended by %d\n", WTERMSIG(status));
}

/* Times that are longer than Linux can count, and those beside. */
static void long_times(int which)
{
	static const struct timeval times[] = {
		{ 1000, 500000 }, { 9223372035, 500000 }, { 9223372036, 0 }, { LONG_MAX, 999999 }, { 1L << 62, 0 }, { -1, 0 }, { 0, -1 },
		{ 0, 1000000 }, { 18446744073, 1 },
	};

	for (unsigned int i = 0; i < 2 * sizeof(times) / sizeof(*times); i++) {
		struct itimerval new = { { 0, 0 }, { 1000, 500000 } }, now = { { 0, 0 }, { 0, 0 } };

		*(i % 2 ? &new.it_interval : &new.it_value) = times[i / 2];
		TELL(setitimer(which, &new, NULL));
		getitimer(which, &now);
		printf("%ld, again %ld.%06ld\n", now.it_value.tv_sec, now.it_interval.tv_sec, now.it_interval.tv_usec);
	}
	setitimer(which, &(struct itimerval){ 0 }, NULL);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	long_times(ITIMER_VIRTUAL);
	long_times(ITIMER_PROF);
	signal(SIGVTALRM, count);
	signal(SIGPROF, count);
	timer(ITIMER_VIRTUAL, SIGVTALRM);
	timer(ITIMER_PROF, SIGPROF);
	TELL(setitimer(3, NULL, NULL));
	sleeps();
	limit(1, 2);
	/*
	 * Each takes a second of CPU time at least, for which the limit of one process that sets
	 * its own stands.
	 */
	if (by_tier(0, 1))
		limit_of_others();
	return 0;
}
