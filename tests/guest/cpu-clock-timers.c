/* timer_create on the CPU-time clocks of a process and of a thread. */
#include "guest.h"
#include <pthread.h>

static volatile sig_atomic_t came[65];
static volatile int code, timer_id, overrun, first_overrun;
static volatile long value;

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)context;
	code = info->si_code;
	timer_id = info->si_timerid;
	overrun = info->si_overrun;
	if (!came[signal])
		first_overrun = overrun;
	value = (long)info->si_ptr;
	came[signal]++;
}

static long long ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn(int signal, int times, long long ns)
{
	long long start = ns_of(CLOCK_THREAD_CPUTIME_ID), end = ns_of(CLOCK_MONOTONIC) + 200000000000LL;
	volatile long n = 0;

	do {
		for (int i = 0; i < 1000; i++)
			n++;
	} while (came[signal] < times && ns_of(CLOCK_THREAD_CPUTIME_ID) - start < ns && ns_of(CLOCK_MONOTONIC) < end);
}

static struct itimerspec in(long value_ms, long interval_ms)
{
	return (struct itimerspec){ { interval_ms / 1000, interval_ms % 1000 * 1000000 },
				    { value_ms / 1000, value_ms % 1000 * 1000000 } };
}

static int create(clockid_t clock, struct sigevent *event)
{
	int id = -1;
	long result = syscall(SYS_timer_create, clock, event, &id);

	return result ? -errno : id;
}

static int set(int id, int flags, struct itimerspec new, struct itimerspec *old)
{
	return syscall(SYS_timer_settime, id, flags, &new, old);
}

static void by_default(clockid_t clock)
{
	struct itimerspec left;
	int id = create(clock, NULL);

	came[SIGALRM] = 0;
	TELL(set(id, 0, in(3000000, 20), NULL));
	TELL(syscall(SYS_timer_gettime, id, &left));
	printf("left %d, interval %ld\n", left.it_value.tv_sec >= 2000, left.it_interval.tv_nsec);
	TELL(set(id, 0, in(60, 0), &left));
	printf("left %d\n", left.it_value.tv_sec >= 2000);
	burn(SIGALRM, 1, 100000000000LL);
	printf("came %d, code %d, id %d, value %d, overrun %d\n", came[SIGALRM], code, timer_id == id,
	       (int)value == id, overrun);
	TELL(syscall(SYS_timer_gettime, id, &left));
	printf("left %ld %ld\n", left.it_value.tv_sec, left.it_value.tv_nsec);
	TELL(syscall(SYS_timer_delete, id));
	printf("again: %ld\n", syscall(SYS_timer_delete, id) ? (long)errno : 0);
	printf("gone: %d\n", set(id, 0, in(1, 0), NULL) ? errno : 0);
}

static void blocked(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_ptr = (void *)0x123456789 };
	int id = create(CLOCK_THREAD_CPUTIME_ID, &event);
	siginfo_t info = { 0 };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	TELL(set(id, 0, in(10, 10), NULL));
	burn(SIGRTMIN + 1, 1, 300000000LL);
	pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	burn(SIGRTMIN + 1, 1, 100000000000LL);
	printf("blocked: came %d, many %d, value %lx\n", came[SIGRTMIN + 1] >= 1, first_overrun >= 5, value);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	printf("of the last one: %d\n", syscall(SYS_timer_getoverrun, id) == overrun);
	TELL(set(id, 0, in(10, 10), NULL));
	burn(SIGRTMIN + 1, INT_MAX, 300000000LL);
	printf("waited for: %d", sigwaitinfo(&mask, &info) == SIGRTMIN + 1);
	printf(", many %d, told again %d\n", info.si_overrun >= 5, syscall(SYS_timer_getoverrun, id) == info.si_overrun);
	syscall(SYS_timer_delete, id);
	printf("deleted: %ld\n", syscall(SYS_timer_getoverrun, id) ? (long)errno : 0);
}

static void *in_thread(void *argument)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2 + (long)argument };
	int id;

	event._sigev_un._tid = gettid();
	id = create(CLOCK_THREAD_CPUTIME_ID, &event);
	set(id, 0, in(20, 20), NULL);
	burn(SIGRTMIN + 2 + (long)argument, 5, 100000000000LL);
	syscall(SYS_timer_delete, id);
	return (void *)(long)(came[SIGRTMIN + 2 + (long)argument] >= 5);
}

static volatile int stop;

static void *spins(void *argument)
{
	while (!stop)
		;
	return argument;
}

/* The clock of another thread, which makes no call while it runs out. */
static void other(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct timespec moment = { 0, 10000000 };
	pthread_t thread;
	clockid_t clock;
	int id;

	pthread_create(&thread, NULL, spins, NULL);
	pthread_getcpuclockid(thread, &clock);
	nanosleep(&moment, NULL);
	id = create(clock, &event);
	TELL(set(id, 0, in(50, 0), NULL));
	for (int i = 0; i < 20000 && !came[SIGUSR1]; i++)
		nanosleep(&moment, NULL);
	printf("other: came %d\n", came[SIGUSR1]);
	stop = 1;
	pthread_join(thread, NULL);
	syscall(SYS_timer_delete, id);
}

static int *writable;

static void *protects(void *argument)
{
	while (!stop) {
		mprotect(writable, 4096, PROT_NONE);
		mprotect(writable, 4096, PROT_READ | PROT_WRITE);
	}
	return argument;
}

/* A timer whose number cannot be told is none: there are few, and they would be used up. */
static void untold(clockid_t clock)
{
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	struct rlimit before, few;
	int file = memfd_create("id", 0), leaked = 0, none_left = 0, *id;
	pthread_t thread;

	ftruncate(file, 4096);
	writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	id = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	getrlimit(RLIMIT_SIGPENDING, &before);
	few = before;
	few.rlim_cur = 20;
	setrlimit(RLIMIT_SIGPENDING, &few);
	stop = 0;
	pthread_create(&thread, NULL, protects, NULL);
	/* One in a few is not told, and 20 of those would use them up. */
	for (int i = 0; i < by_tier(1000, 10000) && !none_left; i++) {
		if (syscall(SYS_timer_create, clock, &none, writable) == 0)
			leaked += syscall(SYS_timer_delete, *id) != 0;
		else
			none_left = errno == EAGAIN;
	}
	stop = 1;
	pthread_join(thread, NULL);
	setrlimit(RLIMIT_SIGPENDING, &before);
	printf("untold: none left %d, not there %d\n", none_left, leaked);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct sigevent none = { .sigev_notify = SIGEV_NONE }, bad = { .sigev_signo = 99 };
	struct itimerspec wrong = { .it_value = { 0, 1000000000 } };
	pthread_t threads[2];
	struct timespec now;
	void *result;
	int id, status;

	setvbuf(stdout, NULL, _IONBF, 0);
	for (int signal = 1; signal <= 64; signal++)
		sigaction(signal, &action, NULL);
	by_default(CLOCK_PROCESS_CPUTIME_ID);
	by_default(CLOCK_THREAD_CPUTIME_ID);
	blocked();
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, in_thread, (void *)i);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		printf("thread: %ld\n", (long)result);
	}
	other();
	untold(CLOCK_PROCESS_CPUTIME_ID);
	untold(CLOCK_MONOTONIC);
	id = create(CLOCK_PROCESS_CPUTIME_ID, &none);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	wrong.it_value = now;
	wrong.it_value.tv_sec += 500;
	TELL(set(id, TIMER_ABSTIME, wrong, NULL));
	TELL(syscall(SYS_timer_gettime, id, &wrong));
	printf("absolute: left %d\n", wrong.it_value.tv_sec <= 500 && wrong.it_value.tv_sec >= 300);
	wrong.it_value.tv_nsec = 1000000000;
	TELL(set(id, 0, wrong, NULL));
	TELL(syscall(SYS_timer_settime, id, 0, NULL, NULL));
	TELL(syscall(SYS_timer_settime, id, 0, 8, NULL));
	TELL(syscall(SYS_timer_gettime, id, 8));
	TELL(syscall(SYS_timer_getoverrun, id));
	if (fork() == 0) {
		TELL(syscall(SYS_timer_gettime, id, &wrong));
		_exit(0);
	}
	wait(&status);
	TELL(create(CLOCK_PROCESS_CPUTIME_ID, &bad));
	TELL(create(1000, NULL));
	TELL(create(CLOCK_PROCESS_CPUTIME_ID, (void *)8));
	TELL(syscall(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, NULL, 8));
	return 0;
}
