/* Blocking calls met by signals: EINTR and SA_RESTART, for a pipe, sleeps, timers. */
#include "guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static int pipes[2];
static volatile int alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
	/* The second alarm feeds the reader that was restarted after the first one. */
	if (alarms == 2)
		write(pipes[1], "late", 4);
	else
		ualarm(200000, 0);
}

static void plain(int signal)
{
	(void)signal;
	alarms++;
}

static void arm(void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	alarms = 0;
	sigaction(SIGALRM, &action, NULL);
	/* Again and again: on a slow machine the first may come before the call that it ends. */
	ualarm(200000, handler == plain ? 200000 : 0);
}

int main(void)
{
	char buffer[10];
	struct timespec second = { .tv_sec = 100 }, left = {};
	struct timeval limit = { .tv_sec = 100 };
	struct pollfd poller;
	struct itimerval timer = { .it_value.tv_usec = 100000, .it_interval.tv_usec = 100000 };
	struct epoll_event event;
	fd_set set;
	int pair[2];

	pipe(pipes);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	arm(plain, 0);
	TELL(read(pipes[0], buffer, 10));
	arm(on_alarm, SA_RESTART);
	TELL(read(pipes[0], buffer, 10));
	TELL(alarms);
	arm(plain, 0);
	TELL(recv(pair[0], buffer, 10, 0));
	arm(plain, SA_RESTART);
	TELL(nanosleep(&second, &left));
	TELL(left.tv_sec >= 50 && left.tv_sec < 100);
	arm(plain, SA_RESTART);
	TELL(clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL));
	arm(plain, SA_RESTART);
	TELL(pause());
	poller = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	arm(plain, SA_RESTART);
	TELL(poll(&poller, 1, 100000));
	arm(plain, SA_RESTART);
	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	TELL(select(pipes[0] + 1, &set, NULL, NULL, &limit));
	arm(plain, SA_RESTART);
	TELL(epoll_wait(epoll_create1(0), &event, 1, 100000));
	arm(plain, 0);
	TELL(wait(NULL));
	alarm(0);
	/* A full pipe: the write is cut short or not started. */
	fcntl(pipes[1], F_SETPIPE_SZ, 4096);
	arm(plain, 0);
	{
		char *many = calloc(1, 100000);

		TELL(write(pipes[1], many, 100000));
		arm(plain, 0);
		TELL(write(pipes[1], many, 100000));
	}
	/* An interval timer while computing. */
	alarms = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	while (alarms < 3)
		;
	TELL(alarms >= 3);
	timer.it_value.tv_usec = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	TELL(alarm(100));
	left.tv_sec = alarm(0);
	TELL(left.tv_sec > 50 && left.tv_sec <= 100);
	/* Ignored signals do not interrupt. */
	signal(SIGALRM, SIG_IGN);
	ualarm(50000, 0);
	second.tv_sec = 0;
	second.tv_nsec = 200000000;
	TELL(nanosleep(&second, NULL));
	return 0;
}
