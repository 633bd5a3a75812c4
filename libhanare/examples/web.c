/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A web server for the files of a folder: web MODE PORT FOLDER [REQUESTS]
 *
 * trap: one thread makes each call. posted: it posts them, for up to CONNECTIONS requests side by
 * side, and goes on with whichever is finished; calls of which one needs the other's result are a
 * chain. function: what becomes of a request, from its first byte to the end, is one function,
 * which a worker calls.
 */
#define _GNU_SOURCE
#include "mode.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CONNECTIONS 64
#define WORKERS 4

static int folder;

/* Whether a component of the path is "..", which may lead out of the folder. */
static int has_parent(const char *path)
{
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && strncmp(path, "..", 2) == 0)
			return 1;
		path += length;
		path += strspn(path, "/");
	}
	return 0;
}

/* The path of "GET /path HTTP/1.1", which is changed; NULL: it is no such request. */
static const char *path_of(char *request, ssize_t length)
{
	const char *path;
	char *end;

	if (length < 0)
		return NULL;
	request[length] = 0;
	if (strncmp(request, "GET /", 5))
		return NULL;
	end = strchr(request + 5, ' ');
	if (!end)
		return NULL;
	*end = 0;
	/* A path that begins with a slash would not be looked up in the folder. */
	path = request + 4 + strspn(request + 4, "/");
	if (has_parent(path))
		return NULL;
	return *path ? path : "index.html";
}

static int head_of(char *head, size_t size, int found, long length)
{
	return snprintf(head, size, "HTTP/1.1 %s\r\nContent-Length: %ld\r\nConnection: close\r\n\r\n",
			found ? "200 OK" : "404 Not Found", found ? length : 0L);
}

/* One request, by plain calls: in trap mode in the server's thread, otherwise in a worker. */
static void serve(int fd)
{
	char request[4096], head[128];
	ssize_t length = read(fd, request, sizeof(request) - 1);
	const char *path = path_of(request, length);
	int file = path ? openat(folder, path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat status = { 0 };
	off_t sent = 0;

	if (file >= 0 && (fstat(file, &status) || !S_ISREG(status.st_mode))) {
		close(file);
		file = -1;
	}
	length = send(fd, head, (size_t)head_of(head, sizeof(head), file >= 0, status.st_size), MSG_NOSIGNAL);
	while (length > 0 && sent < status.st_size)
		length = sendfile(fd, file, &sent, (size_t)(status.st_size - sent));
	if (file >= 0)
		close(file);
	close(fd);
}

enum step { ACCEPT, READ, OPEN, SEND, OVER };

struct connection {
	hanare_ticket ticket;
	enum step step;
	int fd, file;
	off_t sent;
	struct stat status;
	struct hanare_link links[2];
	char request[4096], head[128];
};

static struct connection connections[CONNECTIONS];

/* The ticket of the next step of a connection. */
static void posted(struct connection *c, enum step step, hanare_ticket ticket)
{
	if (ticket < 0)
		fail("post", ticket);
	c->step = step;
	c->ticket = ticket;
}

static void accept_one(hanare_queue *queue, struct connection *c, int listener)
{
	posted(c, ACCEPT, hanare_submit(queue, SYS_accept4 | HANARE_NEXT, listener, NULL, NULL, SOCK_CLOEXEC));
}

/* Posts opening the file, and asking how long it is. */
static void open_file(hanare_queue *queue, struct connection *c, const char *path)
{
	c->links[0] = (struct hanare_link){ .nr = SYS_openat, .args = { folder, (uint64_t)path, O_RDONLY | O_CLOEXEC } };
	c->links[1] = (struct hanare_link){ .nr = SYS_fstat, .from = { 1 }, .args = { 0, (uint64_t)&c->status } };
	posted(c, OPEN, hanare_submit_chain(queue, HANARE_NEXT, c->links, 2));
}

/* Posts sending the head and the file, or what is left of it. */
static void send_file(hanare_queue *queue, struct connection *c, size_t head)
{
	c->links[0] = (struct hanare_link){ .nr = SYS_sendto, .args = { c->fd, (uint64_t)c->head, head, MSG_NOSIGNAL } };
	c->links[1] = (struct hanare_link){ .nr = SYS_sendfile,
					    .args = { c->fd, c->file, (uint64_t)&c->sent, c->status.st_size - c->sent } };
	if (head)
		posted(c, SEND, hanare_submit_chain(queue, HANARE_NEXT, c->links, c->file < 0 ? 1 : 2));
	else
		posted(c, SEND, hanare_submit_chain(queue, HANARE_NEXT, c->links + 1, 1));
}

/* Posts what comes after a step that has returned `result`. */
static void go_on(hanare_queue *queue, struct connection *c, int64_t result)
{
	const char *path = NULL;

	if (c->step == ACCEPT) {
		if (result < 0)
			fail("accept", result);
		c->fd = (int)result;
		posted(c, READ, hanare_submit(queue, SYS_read | HANARE_NEXT, c->fd, c->request, sizeof(c->request) - 1));
		return;
	}
	if (c->step == READ) {
		c->file = -1;
		c->sent = 0;
		c->status.st_size = 0;
		path = path_of(c->request, result);
	}
	if (c->step == OPEN) {
		c->file = (int)c->links[0].result;
		if (c->file >= 0 && (result < 0 || !S_ISREG(c->status.st_mode))) {
			hanare_submit(queue, SYS_close | HANARE_DETACH, c->file);
			c->file = -1;
		}
	}
	if (path) {
		open_file(queue, c, path);
	} else if (c->step != SEND) {
		send_file(queue, c, (size_t)head_of(c->head, sizeof(c->head), c->file >= 0, c->status.st_size));
	} else if (result > 0 && c->file >= 0 && c->sent < c->status.st_size) {
		send_file(queue, c, 0);
	} else {
		/* No thread waits for these. */
		if (c->file >= 0)
			hanare_submit(queue, SYS_close | HANARE_DETACH, c->file);
		hanare_submit(queue, SYS_close | HANARE_DETACH, c->fd);
		c->step = OVER;
	}
}

static void run_posted(hanare_queue *queue, int listener, long requests)
{
	long begun = 0, served = 0;

	while (served < requests) {
		struct hanare_completion done;
		int error;

		for (int i = 0; i < CONNECTIONS && begun < requests; i++) {
			static int is_accepting = -1;

			/* One accept at a time: the others wait for its workers. */
			if (is_accepting >= 0 && connections[is_accepting].step == ACCEPT)
				break;
			if (connections[i].step == OVER) {
				is_accepting = i;
				begun++;
				accept_one(queue, &connections[i], listener);
			}
		}
		error = hanare_next(queue, &done, HANARE_FOREVER);
		if (error)
			fail("wait", error);
		for (int i = 0; i < CONNECTIONS; i++)
			if (connections[i].step != OVER && connections[i].ticket == done.ticket) {
				go_on(queue, &connections[i], done.result);
				served += connections[i].step == OVER;
				break;
			}
	}
}

int main(int argc, char **argv)
{
	enum mode mode = mode_of(argv[1]);
	long requests = argc > 4 ? atol(argv[4]) : 1L << 62;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
	hanare_queue *queue;

	if (argc < 4) {
		fprintf(stderr, "usage: web MODE PORT FOLDER [REQUESTS]\n");
		return 2;
	}
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	folder = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		fail("open the folder", 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 128))
		fail("listen", 0);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < CONNECTIONS; i++)
		connections[i].step = OVER;
	queue = mode == TRAP ? NULL : queue_with(256, WORKERS, HANARE_BLOCKING);
	if (mode == POSTED) {
		run_posted(queue, listener, requests);
	} else {
		for (long i = 0; i < requests; i++) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd < 0)
				fail("accept", 0);
			if (mode == TRAP)
				serve(fd);
			else if (hanare_call(queue, HANARE_DETACH, serve, fd) < 0)
				fail("post", 0);
		}
		if (queue)
			hanare_drain(queue, HANARE_FOREVER);
	}
	hanare_queue_destroy(queue);
	return 0;
}
