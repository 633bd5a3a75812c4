/* A web server whose requests are executed by trap, posted call by call, or as one posted function each. It answers all of
 * them with one small file, which it opens and reads each time. */
#define _GNU_SOURCE
#include "ways.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS 64
#define FILE_BYTES 1024
#define REQUEST_BYTES 2048

struct request {
	int connection, file;
	long received, read, sent;
	char in[REQUEST_BYTES], out[256 + FILE_BYTES];
};

static struct request requests[EVENTS];
static char path[4096];
static hanare_queue *queue;

/* Room for the head is in front of the content, and it is as long each time. */
static size_t head_of(struct request *request)
{
	return (size_t)snprintf(request->out, 256,
				"HTTP/1.1 200 OK\r\nServer: hanare-bench-posted\r\nContent-Type: text/plain\r\n"
				"Content-Length: %d\r\n\r\n", FILE_BYTES);
}

/* Of the connection: 0: it goes on. */
static long handle(struct request *request)
{
	size_t head;

	request->received = recv(request->connection, request->in, sizeof(request->in), 0);
	if (request->received <= 0)
		return -1;
	request->file = open(path, O_RDONLY);
	head = head_of(request);
	request->read = read(request->file, request->out + head, FILE_BYTES);
	request->sent = send(request->connection, request->out, head + FILE_BYTES, MSG_NOSIGNAL);
	close(request->file);
	return request->sent == (long)head + FILE_BYTES ? 0 : -1;
}

static int64_t result(hanare_ticket ticket)
{
	int64_t value;

	if (ticket < 0 || hanare_wait(queue, ticket, &value, HANARE_FOREVER))
		fail("hanare_wait");
	return value;
}

/* ---- ways: requests of so many connections that are ready; `done` says of each whether its connection ends ---- */

static void by_trap(int count, long *ends)
{
	for (int i = 0; i < count; i++)
		ends[i] = handle(&requests[i]);
}

static void by_function(int count, long *ends)
{
	hanare_ticket tickets[EVENTS];

	for (int i = 0; i < count; i++)
		tickets[i] = hanare_call(queue, 0, handle, &requests[i]);
	for (int i = 0; i < count; i++)
		ends[i] = result(tickets[i]);
}

/* Call by call, each for all connections at once: what FlexSC's threads come to. */
static void by_calls(int count, long *ends)
{
	hanare_ticket tickets[EVENTS];
	size_t head = 0;

	for (int i = 0; i < count; i++)
		tickets[i] = hanare_submit(queue, SYS_recvfrom, requests[i].connection, requests[i].in, REQUEST_BYTES, 0, 0, 0);
	for (int i = 0; i < count; i++) {
		requests[i].received = result(tickets[i]);
		ends[i] = requests[i].received > 0 ? 0 : -1;
		tickets[i] = hanare_submit(queue, SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	}
	for (int i = 0; i < count; i++) {
		requests[i].file = (int)result(tickets[i]);
		head = head_of(&requests[i]);
		tickets[i] = hanare_submit(queue, SYS_read, requests[i].file, requests[i].out + head, FILE_BYTES);
	}
	for (int i = 0; i < count; i++) {
		requests[i].read = result(tickets[i]);
		hanare_submit(queue, SYS_close | HANARE_DETACH, requests[i].file);
		tickets[i] = ends[i] ? 0 :
				       hanare_submit(queue, SYS_sendto, requests[i].connection, requests[i].out,
						     head + FILE_BYTES, MSG_NOSIGNAL, 0, 0);
	}
	for (int i = 0; i < count; i++)
		if (!ends[i])
			ends[i] = result(tickets[i]) == (int64_t)head + FILE_BYTES ? 0 : -1;
}

static const struct {
	const char *name;
	void (*serve)(int count, long *ends);
	int is_posted;
} servers[] = {
	{ "trap", by_trap, 0 },
	{ "posted", by_calls, 1 },
	{ "function", by_function, 1 },
};
#define SERVERS (sizeof(servers) / sizeof(*servers))

/* ---- the server ---- */

static int listen_at(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 128))
		fail("listen");
	return listener;
}

static void watch(int poller, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
		fail("epoll_ctl");
}

static void accept_from(int listener, int poller)
{
	int connection, one = 1;

	while ((connection = accept(listener, NULL, NULL)) >= 0) {
		setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		watch(poller, connection);
	}
}

static void make_file(const char *folder)
{
	static const char content[FILE_BYTES];
	int file;

	snprintf(path, sizeof(path), "%s/hanare-web-%d", folder, (int)getpid());
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || write(file, content, sizeof(content)) != sizeof(content))
		fail(path);
	close(file);
}

/* Serves until it is killed. */
void serve_web(const struct wish *wish)
{
	static struct epoll_event events[EVENTS];
	unsigned int way = 0;
	long ends[EVENTS];
	int listener, poller;

	while (way < SERVERS && strcmp(servers[way].name, wish->way ? wish->way : "trap"))
		way++;
	if (way == SERVERS)
		fail("no way to serve is called so");
	make_file(wish->folder);
	if (servers[way].is_posted)
		queue = queue_of_ways();
	listener = listen_at(wish->port);
	poller = epoll_create1(0);
	watch(poller, listener);
	report("ready", wish->port);
	for (;;) {
		int ready = servers[way].is_posted ?
				    (int)result(hanare_submit(queue, SYS_epoll_wait, poller, events, EVENTS, -1)) :
				    epoll_wait(poller, events, EVENTS, -1);
		int count = 0;

		for (int i = 0; i < ready; i++)
			if (events[i].data.fd == listener)
				accept_from(listener, poller);
			else
				requests[count++].connection = events[i].data.fd;
		servers[way].serve(count, ends);
		for (int i = 0; i < count; i++)
			if (ends[i])
				close(requests[i].connection);
	}
}
