/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Errors of connections that break, are full, or are shared: replies CASE (tests/run). */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in address;
static int listener, client, server;

static void say(const char *what, long result)
{
	dprintf(1, "%s %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void connect_both(int buffer_bytes)
{
	socklen_t size = sizeof(address);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (buffer_bytes)
		setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(int));
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 8) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		exit(99);
	client = socket(AF_INET, SOCK_STREAM, 0);
	if (buffer_bytes)
		setsockopt(client, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(int));
	if (connect(client, (struct sockaddr *)&address, size))
		exit(99);
	server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	say("first", write(server, "first", 5));
}

/*
 * Waits until the server's end has seen what the client did: it is established no more. The look
 * tells no process of it.
 */
static void await_change(void)
{
	unsigned int port, state;
	char line[256];
	int found = 1;

	while (found) {
		FILE *connections = fopen("/proc/net/tcp", "r");

		found = !connections;
		while (connections && fgets(line, sizeof(line), connections))
			found |= sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2 && port == ntohs(address.sin_port) && state == 1;
		if (connections)
			fclose(connections);
		usleep(1000);
	}
}

static void reset(void)
{
	struct linger linger = { 1, 0 };

	setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(client);
	await_change();
}

/* A program that was told of a broken connection has no reply taken. */
static void told(const char *by)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct pollfd entry = { .events = POLLIN };
	struct sockaddr_in name;
	socklen_t size = sizeof(name);
	fd_set set;
	char byte;
	int loop = epoll_create1(0);

	signal(SIGPIPE, SIG_IGN);
	connect_both(0);
	epoll_ctl(loop, EPOLL_CTL_ADD, server, &event);
	reset();
	if (!strcmp(by, "epoll")) {
		say("epoll", epoll_wait(loop, &event, 1, -1));
		say("events", event.events);
	} else if (!strcmp(by, "poll")) {
		entry.fd = server;
		say("poll", poll(&entry, 1, 60000));
	} else if (!strcmp(by, "read")) {
		say("read", read(server, &byte, 1));
	} else if (!strcmp(by, "name")) {
		say("name", getpeername(server, (struct sockaddr *)&name, &size));
	} else if (!strcmp(by, "select")) {
		FD_ZERO(&set);
		FD_SET(server, &set);
		say("select", select(server + 1, &set, NULL, NULL, NULL));
	}
	say("write", write(server, "second", 6));
	say("write", write(server, "third", 5));
	say("read", read(server, &byte, 1));
	say("close", close(server));
}

/* A program that was not told is told by the next call. */
static void not_told(const char *by)
{
	int error = 0;
	socklen_t size = sizeof(error);
	char byte;

	signal(SIGPIPE, SIG_IGN);
	connect_both(0);
	reset();
	say("write", write(server, "second", 6));
	if (!strcmp(by, "read"))
		say("read", read(server, &byte, 1));
	else if (!strcmp(by, "option"))
		say("option", getsockopt(server, SOL_SOCKET, SO_ERROR, &error, &size) ? -1 : error);
	say("write", write(server, "third", 5));
	say("write", write(server, "fourth", 6));
	say("read", read(server, &byte, 1));
	say("close", close(server));
}

static void sigpipe(void)
{
	connect_both(0);
	reset();
	say("write", write(server, "second", 6));
	say("write", write(server, "third", 5));
	say("alive", 0);
}

static void half(void)
{
	char bytes[64];

	signal(SIGPIPE, SIG_IGN);
	connect_both(0);
	shutdown(client, SHUT_WR);
	await_change();
	say("read", read(server, bytes, sizeof(bytes)));
	say("write", write(server, "second", 6));
	say("close", close(server));
	say("read", recv(client, bytes, 11, MSG_WAITALL));
	say("read", read(client, bytes, 64));
}

/* Both ends in one process: what was written is there. */
static void self(void)
{
	char bytes[64];
	struct pollfd entry = { .events = POLLIN };

	signal(SIGPIPE, SIG_IGN);
	connect_both(0);
	for (int i = 0; i < 50; i++) {
		long count = write(server, "more", 4), ready;

		entry.fd = client;
		ready = poll(&entry, 1, 0);
		if (count != 4 || ready != 1 || recv(client, bytes, 64, MSG_DONTWAIT) < 4)
			say("missing", i);
	}
	say("lowest", dup(0));
	say("close", close(server));
	say("lowest", dup(0));
}

/* The peer does not read. */
static void full(void)
{
	static char bytes[1 << 20];
	long total = 0, seen = 0, count;

	signal(SIGPIPE, SIG_IGN);
	connect_both(1 << 15);
	for (int size = 3000; size > 0; size = size == 3000 ? 100 : size == 100 ? 1 : 0)
		while ((count = write(server, bytes, (size_t)size)) > 0)
			total += count;
	say("full", count);
	shutdown(server, SHUT_WR);
	while ((count = read(client, bytes, sizeof(bytes))) > 0)
		seen += count;
	say("all of it", seen == total + 5);
	fprintf(stderr, "total %ld\n", total);
}

static void *wait_in(void *accepts)
{
	char byte;

	if (accepts)
		accept(listener, NULL, NULL);
	else if (recv(server, &byte, 1, 0) == 1)
		return accepts;
	return NULL;
}

static void cancelled(void)
{
	pthread_t thread;
	void *result;

	signal(SIGPIPE, SIG_IGN);
	connect_both(0);
	close(server);
	for (int accepts = 0; accepts < 2; accepts++) {
		client = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(client, (struct sockaddr *)&address, sizeof(address)))
			exit(99);
		server = accept(listener, NULL, NULL);
		pthread_create(&thread, NULL, wait_in, accepts ? &address : NULL);
		usleep(20000);
		say("write", write(server, "x", 1));
		pthread_cancel(thread);
		pthread_join(thread, &result);
		say("cancelled", result == PTHREAD_CANCELED);
		say("write", write(server, "y", 1));
	}
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} cases[] = { { "sigpipe", sigpipe }, { "half", half }, { "self", self }, { "full", full }, { "cancelled", cancelled } };

	if (count == 3 && !strcmp(arguments[1], "told"))
		told(arguments[2]);
	else if (count == 3)
		not_told(arguments[2]);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (count == 2 && !strcmp(arguments[1], cases[i].name))
			cases[i].function();
	return 3;
}
