/*
 * Signals for a process that threads have to give back, since they block them by then, stay the
 * process': another thread has them, in order and with all that they tell. Each of two threads
 * blocks them after its kernel has last heard of its mask, and computes. The next signal comes when
 * the one before is back: docs/compatibility.md says of the order.
 */
#include "guest.h"
#include <pthread.h>

#define SIGNALS 5

static volatile int ready, over;
static sigset_t waited;

static void handler(int signal)
{
	printf("handled %d\n", signal);
}

static void *computes(void *unused)
{
	sigset_t set = waited;

	getppid();		/* from here on its kernel hears nothing of it */
	sigprocmask(SIG_BLOCK, &set, NULL);
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	while (!over)
		__asm__ volatile("pause");
	return unused;
}

static void taken(void)
{
	struct timespec most = { 5, 0 };
	siginfo_t info;
	int signal = sigtimedwait(&waited, &info, &most);

	if (signal < 0)
		printf("  none: %s\n", strerrorname_np(errno));
	else
		printf("  signal %s code %d value %d\n", sigabbrev_np(signal) ?: "RT", info.si_code,
		       info.si_code == SI_USER || info.si_code == SI_TIMER ? 0 : info.si_int);
}

static void queue(pid_t pid, int signal, int code, int value)
{
	siginfo_t info = { .si_code = code };

	info.si_int = value;
	if (syscall(SYS_rt_sigqueueinfo, pid, signal, &info))
		printf("  queue: %s\n", strerrorname_np(errno));
}

/* Sends, by another process, what the threads give back. */
static void by_another(int signal, int code)
{
	pid_t parent = getpid(), pid = fork();
	int status;

	if (!pid) {
		for (int i = 0; i < (signal < SIGRTMIN ? 1 : SIGNALS); i++) {
			if (code == SI_USER)
				kill(parent, signal);
			else
				queue(parent, signal, code, i + 1);
			usleep(40000);
		}
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(1);
}

static void one(const char *what, int signal, int code)
{
	pthread_t threads[2];

	puts(what);
	ready = over = 0;
	/* They begin without a mask, and this thread has one. */
	pthread_sigmask(SIG_UNBLOCK, &waited, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, computes, NULL);
	pthread_sigmask(SIG_BLOCK, &waited, NULL);
	while (ready < 2)
		usleep(1000);
	if (code == SI_TIMER) {
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal };
		struct itimerspec once = { .it_value.tv_nsec = 1000000 };
		timer_t timer;

		timer_create(CLOCK_MONOTONIC, &event, &timer);
		timer_settime(timer, 0, &once, NULL);
		usleep(100000);
		taken();
		timer_delete(timer);
	} else {
		by_another(signal, code);
		usleep(50000);
		for (int i = 0; i < (signal < SIGRTMIN ? 1 : SIGNALS); i++)
			taken();
	}
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(120);
	sigemptyset(&waited);
	sigaddset(&waited, SIGUSR1);
	sigaddset(&waited, SIGRTMIN);
	signal(SIGUSR1, handler);
	signal(SIGRTMIN, handler);
	one("killed", SIGUSR1, SI_USER);
	one("queued", SIGUSR1, SI_QUEUE);
	one("queued with a code of its own", SIGUSR1, -70);
	one("real-time", SIGRTMIN, SI_USER);
	one("real-time, queued", SIGRTMIN, SI_QUEUE);
	one("real-time, queued with a code of its own", SIGRTMIN, -70);
	one("a timer", SIGUSR1, SI_TIMER);
	one("a timer, real-time", SIGRTMIN, SI_TIMER);
	return 0;
}
