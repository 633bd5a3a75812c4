/*
 * A timer that expires again before its signal has been handled: the program goes on, and each
 * signal is well-formed.
 */
#include "guest.h"

static volatile sig_atomic_t count, done, strange;
static timer_t timer;

static void taken(int signal, siginfo_t *info, void *context)
{
	struct itimerspec off = { 0 };

	(void)context;
	strange |= signal != SIGRTMIN + 1 || info->si_code != SI_TIMER || timer_getoverrun(timer) < 0;
	if (++count == 300) {
		strange |= timer_settime(timer, 0, &off, NULL) != 0;
		done = 1;
	}
}

static void run(const char *what, int flags, long interval_ns)
{
	struct sigaction action = { .sa_sigaction = taken, .sa_flags = SA_SIGINFO | flags };
	struct itimerspec on = { { 0, interval_ns }, { 0, interval_ns } };
	volatile long n = 0;

	count = done = 0;
	sigaction(SIGRTMIN + 1, &action, NULL);
	if (timer_settime(timer, 0, &on, NULL))
		puts("not set");
	/* The second time without calls: what comes interrupts the program. */
	while (!done)
		if (flags & SA_NODEFER)
			n++;
		else
			usleep(100);
	usleep(1000);
	printf("%s: at least %d, strange %d\n", what, count >= 300 ? 300 : count, strange);
}

int main(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 };

	TELL(timer_create(CLOCK_MONOTONIC, &event, &timer));
	run("restart", SA_RESTART, 1000);
	run("no restart", 0, 1000);
	run("nodefer", SA_NODEFER, 3000000);
	TELL(timer_delete(timer));
	return 0;
}
