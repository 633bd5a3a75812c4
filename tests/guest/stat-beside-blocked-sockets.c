/*
 * Threads are blocked in recv, more than a request box has servers. When a line comes another one
 * looks at a file 300 times; at the next line the threads get what they wait for.
 */
#include "guest.h"
#include <pthread.h>
#include <sys/socket.h>

#define BLOCKED 8
#define LOOKS 300

static int pairs[BLOCKED][2];

static void *receives(void *arg)
{
	long n = (long)arg;
	char c;
	int i;

	/* A thread's first calls are its own worker's. */
	for (i = 0; i < 20; i++)
		access("/usr", F_OK);
	return (void *)recv(pairs[n][0], &c, 1, 0);
}

static void wait_for_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

int main(void)
{
	pthread_t threads[BLOCKED];
	long i, found = 0, received = 0;
	void *result;

	for (i = 0; i < BLOCKED; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) ||
		    pthread_create(&threads[i], NULL, receives, (void *)i))
			return 2;
	say("blocked");
	wait_for_line();
	for (i = 0; i < LOOKS; i++)
		found += !access("/usr", F_OK);
	say(found == LOOKS ? "looked" : "missed");
	wait_for_line();
	for (i = 0; i < BLOCKED; i++)
		if (send(pairs[i][1], "x", 1, 0) != 1)
			return 2;
	for (i = 0; i < BLOCKED; i++) {
		pthread_join(threads[i], &result);
		received += (long)result;
	}
	say(received == BLOCKED ? "received" : "lost");
	return 0;
}
