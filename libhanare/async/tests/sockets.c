/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A server with an event loop, and a peer that gives it random commands and checks every byte.
 *
 * sockets SEED DIRECTORY: the server is the peer's child. What the calls of the server returned,
 * what the peer saw and how the server ended is printed. With and without libhanare-async.so the
 * output has to be the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 6
#define DESCRIPTORS 64
#define CHUNK 8192

struct command {
	char what, way, connection, end;
	uint32_t size;
};

static uint64_t state;
static int told[2], local[2];

static uint32_t pick(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % below;
}

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(98);
}

static char pattern(int connection, uint64_t at)
{
	return (char)(at * 7 + at / 251 + (uint64_t)connection * 31);
}

/* ---- The server ---- */

static struct {
	int connection;
	uint64_t written;
	size_t used;
	char input[sizeof(struct command)];
} served[DESCRIPTORS];
static uint64_t results;
static int log_file;
static char *volatile nowhere = (char *)8;

/* Commands of several connections come in any order. */
static void note(long result)
{
	results += (uint64_t)(result * 31 + (result < 0 ? errno : 0)) * 1000003;
}

static ssize_t write_by(int way, int fd, char *data, size_t size)
{
	struct iovec vectors[2] = { { data, size / 3 }, { data + size / 3, size - size / 3 } };
	struct msghdr message = { .msg_iov = vectors, .msg_iovlen = 2 };

	switch (way % 6) {
	case 0:
		return writev(fd, vectors, 2);
	case 1:
		return send(fd, data, size, MSG_NOSIGNAL);
	case 2:
		return sendmsg(fd, &message, 0);
	case 3:
		return sendto(fd, data, size, MSG_DONTWAIT, NULL, 0);
	}
	return write(fd, data, size);
}

static void reply(int fd, int way, size_t size)
{
	static char data[1 << 16];
	struct pollfd entry = { .fd = fd, .events = POLLOUT };

	while (size > 0) {
		size_t part = size < sizeof(data) ? size : sizeof(data);

		for (size_t i = 0; i < part; i++)
			data[i] = pattern(served[fd].connection, served[fd].written + i);
		ssize_t count = write_by(way, fd, data, part);

		memset(data, 0, part);
		if (!(way & 64))
			note(count);
		if (count < 0 && errno == EAGAIN)
			poll(&entry, 1, -1);
		else if (count < 0)
			return;
		if (count > 0) {
			served[fd].written += (uint64_t)count;
			size -= (size_t)count;
		}
	}
}

static void *reply_in_thread(void *argument)
{
	reply(*(int *)argument, 4, 10);
	return NULL;
}

static void fill_buffer(int fd)
{
	char data[CHUNK];
	uint32_t total = 0;
	ssize_t count;

	do {
		for (size_t i = 0; i < CHUNK; i++)
			data[i] = pattern(served[fd].connection, served[fd].written + i);
		count = write(fd, data, CHUNK);
		if (count > 0) {
			total += (uint32_t)count;
			served[fd].written += (uint64_t)count;
		}
	} while (count > 0);
	note(count);
	if (write(told[1], &total, 4) != 4)
		die("told");
}

static void end(int way)
{
	dprintf(1, "results %lx\n", (unsigned long)results);
	switch (way) {
	case 0:
		abort();
	case 1:
		*(volatile int *)8 = 1;
		break;
	case 2:
		raise(SIGTERM);
		break;
	case 3:
		execl("/bin/true", "true", NULL);
		break;
	}
	_exit(5);
}

/* After the reply. */
static void go_on(int fd, const struct command *command)
{
	int number = 1, copy, status;
	socklen_t size = sizeof(number);
	uint32_t one = 1;
	pthread_t thread;
	pid_t child;

	switch (command->what) {
	case 'P': /* told in another way, the peer finds the reply there */
		note(write(told[1], &one, 4));
		break;
	case 'U':
		note(send(local[1], &one, 4, 0));
		break;
	case 'C':
		note(close(fd));
		break;
	case 'S':
		note(shutdown(fd, SHUT_WR));
		note(write(fd, "x", 1));
		break;
	case 'D':
		copy = dup(fd);
		reply(fd, command->way, 3);
		served[copy] = served[fd];
		reply(copy, command->way, 5);
		served[fd].written += 5;
		note(close(copy));
		break;
	case 'K':
		child = fork();
		reply(fd, command->way, child == 0 ? 5 : 0);
		if (child == 0)
			_exit(0);
		waitpid(child, &status, 0);
		note(status);
		served[fd].written += 5;
		reply(fd, command->way, 6);
		break;
	case 'O':
		copy = open("pattern", O_RDONLY);
		note(sendfile(fd, copy, NULL, 100));
		close(copy);
		break;
	case 'T':
		if (pthread_create(&thread, NULL, reply_in_thread, &fd) == 0)
			pthread_join(thread, NULL);
		break;
	case 'G':
		note(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, sizeof(number)));
		note(getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size));
		note(number);
		note(fcntl(fd, F_SETFL, O_NONBLOCK));
		break;
	case 'E':
		note(write(fd, nowhere, 5));
		note(send(fd, "x", 0, 0));
		break;
	}
}

static void serve(int fd, const struct command *command)
{
	served[fd].connection = command->connection;
	if (command->what == 'B')
		return fill_buffer(fd);
	/* What a reply tells of has been written. */
	if (command->what == 'F')
		note(pwrite(log_file, &command->size, 4, 0));
	reply(fd, command->way, command->size);
	if (command->what == 'X')
		end(command->end);
	go_on(fd, command);
	if (command->what == 'F')
		note(pwrite(log_file, "none", 4, 4));
}

static void receive(int fd)
{
	struct iovec vector = { served[fd].input + served[fd].used, sizeof(struct command) - served[fd].used };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
	ssize_t count;

	switch (served[fd].used % 3) {
	case 0:
		count = read(fd, vector.iov_base, vector.iov_len < 5 ? vector.iov_len : 5);
		break;
	case 1:
		count = recv(fd, vector.iov_base, vector.iov_len, 0);
		break;
	default:
		count = recvmsg(fd, &message, MSG_DONTWAIT);
	}
	if (count < 0 && errno == EAGAIN)
		return;
	if (count <= 0) {
		close(fd);
		return;
	}
	served[fd].used += (size_t)count;
	if (served[fd].used == sizeof(struct command)) {
		served[fd].used = 0;
		serve(fd, (struct command *)served[fd].input);
	}
}

static void serve_all(int listener)
{
	struct epoll_event events[8], event = { .events = EPOLLIN, .data.fd = listener };
	int loop = epoll_create1(EPOLL_CLOEXEC);

	signal(SIGPIPE, SIG_IGN);
	log_file = open("log", O_WRONLY | O_CREAT, 0644);
	epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
	for (unsigned turn = 0;; turn++) {
		int count = epoll_wait(loop, events, 8, (int[]){ -1, 1000, 0 }[turn % 3]);

		for (int i = 0; i < count; i++) {
			int fd = events[i].data.fd;

			if (fd != listener) {
				receive(fd);
				continue;
			}
			fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
			if (fd < 0 || fd >= DESCRIPTORS)
				die("accept");
			memset(&served[fd], 0, sizeof(served[fd]));
			event.data.fd = fd;
			epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
		}
	}
}

/* ---- The peer ---- */

static struct {
	int fd;
	uint64_t seen;
} peers[CONNECTIONS];
static struct sockaddr_in address = { .sin_family = AF_INET };

static void open_connection(int place)
{
	peers[place].fd = socket(AF_INET, SOCK_STREAM, 0);
	peers[place].seen = 0;
	setsockopt(peers[place].fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (connect(peers[place].fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
}

static void give(int place, struct command command)
{
	command.connection = (char)place;
	if (send(peers[place].fd, &command, sizeof(command), MSG_NOSIGNAL) != sizeof(command))
		die("send");
}

/* Reads so much, all of which has to be there if it is said so. */
static void expect(int place, size_t size, int flags)
{
	static char data[1 << 16];

	while (size > 0) {
		ssize_t count = recv(peers[place].fd, data, size < sizeof(data) ? size : sizeof(data), flags);

		if (count <= 0)
			die("recv");
		for (ssize_t i = 0; i < count; i++)
			if (data[i] != pattern(place, peers[place].seen++))
				die("bytes");
		size -= (size_t)count;
	}
}

static void expect_end(int place)
{
	char byte;

	if (recv(peers[place].fd, &byte, 1, 0) != 0)
		die("end");
	close(peers[place].fd);
}

static uint32_t be_told(int fd)
{
	uint32_t number;

	if (read(fd, &number, 4) != 4)
		die("not told");
	return number;
}

/* Requests of several connections at once, several of each. */
static void crowd(void)
{
	size_t sizes[CONNECTIONS] = { 0 };

	for (unsigned i = pick(40); i > 0; i--) {
		int place = (int)pick(CONNECTIONS);
		struct command command = { .what = 'R', .way = (char)pick(6), .size = pick(400) };

		give(place, command);
		sizes[place] += command.size;
	}
	for (int i = CONNECTIONS - 1; i >= 0; i--)
		expect(i, sizes[i], 0);
}

static void look_at_log(uint32_t size)
{
	uint32_t found = 0;
	int fd = open("log", O_RDONLY);

	if (read(fd, &found, 4) != 4 || found != size)
		die("log");
	close(fd);
}

/* Ends the connection before it has read the reply, or before that is made. */
static void leave(int place)
{
	struct linger linger = { 1, 0 };

	for (unsigned i = pick(4); i > 0; i--)
		give(place, (struct command){ .what = 'R', .way = (char)(64 + pick(6)), .size = pick(9000) });
	if (pick(2))
		setsockopt(peers[place].fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(peers[place].fd);
	open_connection(place);
}

static void step(void)
{
	char data[100];
	static const char kinds[] = "RRRRRRPPUUCSDKOTGEFFFB";
	int place = (int)pick(CONNECTIONS);
	struct command command = { .way = (char)pick(6), .size = 1 + (pick(6) ? pick(500) : pick(16000)) };

	switch (pick(8)) {
	case 0 ... 1:
		return crowd();
	case 2:
		if (pick(3) == 0)
			return leave(place);
	}
	command.what = kinds[pick(sizeof(kinds) - 1)];
	/* After a fork nothing is posted to the connections that are open: they are made anew. */
	if (command.what == 'K' && pick(3))
		command.what = 'R';
	give(place, command);
	switch (command.what) {
	case 'P':
	case 'U':
		be_told(command.what == 'P' ? told[0] : local[0]);
		return expect(place, command.size, MSG_DONTWAIT);
	case 'B':
		return expect(place, be_told(told[0]), 0);
	}
	expect(place, command.size, 0);
	switch (command.what) {
	case 'F':
		return look_at_log(command.size);
	case 'D':
		return expect(place, 8, 0);
	case 'K':
		expect(place, 11, 0);
		for (int i = 0; i < CONNECTIONS; i++) {
			close(peers[i].fd);
			open_connection(i);
		}
		return;
	case 'T':
		return expect(place, 10, 0);
	case 'O':
		if (recv(peers[place].fd, data, 100, MSG_WAITALL) != 100 || data[0] != 'o' || data[99] != 'o')
			die("sendfile");
		return;
	case 'C':
	case 'S':
		expect_end(place);
		return open_connection(place);
	}
}

int main(int count, char **arguments)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), file, status;
	socklen_t size = sizeof(address);
	char data[100];

	if (count != 3 || chdir(arguments[2]) || pipe2(told, O_CLOEXEC) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, local))
		return 99;
	state = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	memset(data, 'o', sizeof(data));
	file = open("pattern", O_WRONLY | O_CREAT, 0644);
	if (write(file, data, sizeof(data)) != sizeof(data) || close(file))
		return 99;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	status = 1 << 16;
	if (pick(2))
		setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &status, sizeof(status));
	/* Connections inherit it; else small replies wait for acknowledgements. */
	setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 16) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		return 99;
	pid_t child = fork();

	if (child == 0)
		serve_all(listener);
	close(listener);
	for (int i = 0; i < CONNECTIONS; i++)
		open_connection(i);
	for (int i = 100; i > 0; i--)
		step();
	/* The server ends after this reply. */
	give(0, (struct command){ .what = 'X', .way = 4, .size = 100, .end = (char)pick(5) });
	expect(0, 100, 0);
	expect_end(0);
	waitpid(child, &status, 0);
	printf("status %x\n", status & ~0x80);
	return 0;
}
