/* Many threads that make calls at once: how these are shared out among their executors. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLERS_MAX 64

/* Threads that begin together. */
struct crowd {
	int callers, calls;
	pthread_barrier_t begin;
	void (*call)(struct crowd *crowd, int caller);
	uint64_t ns[CALLERS_MAX];	/* how long each took for all its calls */
	int fds[2];			/* of a pipe that stays empty, or a socket and where it sends to */
};

struct caller {
	struct crowd *crowd;
	int number;
};

static void *work(void *data)
{
	struct caller *caller = data;
	struct crowd *crowd = caller->crowd;
	uint64_t start;

	/* Its first call has whatever is made once. */
	crowd->call(crowd, caller->number);
	pthread_barrier_wait(&crowd->begin);
	start = now_ns();
	for (int i = 0; i < crowd->calls; i++)
		crowd->call(crowd, caller->number);
	crowd->ns[caller->number] = now_ns() - start;
	return NULL;
}

/* ns from the first call to the last answer, of calls of all threads. */
static uint64_t run(struct crowd *crowd)
{
	static struct caller callers[CALLERS_MAX];
	pthread_t threads[CALLERS_MAX];
	pthread_attr_t attributes;
	uint64_t start;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_barrier_init(&crowd->begin, NULL, (unsigned)crowd->callers + 1);
	for (int i = 0; i < crowd->callers; i++) {
		callers[i] = (struct caller){ crowd, i };
		if ((errno = pthread_create(&threads[i], &attributes, work, &callers[i])))
			fail("pthread_create");
	}
	pthread_barrier_wait(&crowd->begin);
	start = now_ns();
	for (int i = 0; i < crowd->callers; i++)
		pthread_join(threads[i], NULL);
	return now_ns() - start;
}

/* A service that takes a millisecond of its executor, and no CPU. */
static void wait_1ms(struct crowd *crowd, int caller)
{
	struct pollfd fd = { .fd = crowd->fds[0], .events = POLLIN };

	(void)caller;
	if (poll(&fd, 1, 1))
		fail("poll");
}

/* `callers` threads make `calls` calls of 1 ms each: ms until all are answered. */
void group_service(const struct wish *wish)
{
	struct crowd crowd = { .callers = wish->callers, .calls = wish->calls, .call = wait_1ms };

	if (pipe(crowd.fds))
		fail("pipe");
	report("service", (double)run(&crowd) / 1e6);
}

/*
 * Datagrams to a socket that takes none: the first caller's are short, the others' fill a packet.
 */
static void send_one(struct crowd *crowd, int caller)
{
	static const char data[1400];
	ssize_t bytes = caller ? 1400 : 64;

	/* A full socket drops it: that is as much work. */
	if (send(crowd->fds[0], data, (size_t)bytes, 0) != bytes && errno != ECONNREFUSED && errno != EAGAIN)
		fail("send");
}

/* us of a call of the one that sends 64 bytes, while the others send 1,400. */
void group_mixed(const struct wish *wish)
{
	struct crowd crowd = { .callers = wish->callers, .calls = wish->calls, .call = send_one };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(to);

	crowd.fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
	crowd.fds[1] = socket(AF_INET, SOCK_DGRAM, 0);
	if (crowd.fds[0] < 0 || crowd.fds[1] < 0 || bind(crowd.fds[1], (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(crowd.fds[1], (struct sockaddr *)&to, &length) ||
	    connect(crowd.fds[0], (struct sockaddr *)&to, sizeof(to)))
		fail("socket");
	run(&crowd);
	report("mixed", (double)crowd.ns[0] / 1e3 / crowd.calls);
}
