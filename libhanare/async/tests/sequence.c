/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A random sequence of file calls, and an observer in another process.
 *
 * sequence SEED DIRECTORY: the child makes calls; whenever it tells the observer something, in one
 * of the ways in which processes tell each other something, that looks at every file and answers.
 * What it sees, what each call returned and how the child ended is printed. With and without
 * libhanare-async.so the output has to be the same.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 4
#define OPEN 6
#define TELL_PIPE 0
#define TELL_SOCKET 1
#define TELL_EVENT 2
#define TELL_SPLICE 3

extern char **environ;

static uint64_t state;
static int to_observer[4], from_observer;
static int fds[OPEN];
static FILE *streams[2];
static uint64_t results;
static int last_errno;

static uint32_t pick(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 20) % below;
}

static void note(long result)
{
	results = results * 1000003 + (uint64_t)result * 31 + (result < 0 ? (uint64_t)errno : 0);
	if (result < 0)
		last_errno = errno;
}

/* ---- The observer ---- */

static uint64_t hash_file(const char *name)
{
	static char buffer[65536];
	uint64_t hash = 1469598103934665603u;
	ssize_t count;
	int fd = open(name, O_RDONLY);

	if (fd < 0)
		return 0;
	while ((count = read(fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; i < count; i++)
			hash = (hash ^ (unsigned char)buffer[i]) * 1099511628211u;
	close(fd);
	return hash;
}

static void look(const char *why)
{
	char name[32];
	struct stat stat;

	printf("%s:", why);
	for (int i = 0; i < FILES * 2; i++) {
		sprintf(name, "f%d", i);
		if (lstat(name, &stat) == 0)
			printf(" %s %ld %lx", name, (long)stat.st_size, (unsigned long)hash_file(name));
	}
	printf("\n");
}

/* Until the child has ended. */
static void observe(int *from, int answer)
{
	struct pollfd poll_fds[3];
	char buffer[64];

	for (;;) {
		for (int i = 0; i < 3; i++)
			poll_fds[i] = (struct pollfd){ .fd = from[i], .events = POLLIN };
		if (poll(poll_fds, 3, -1) < 0)
			continue;
		for (int i = 0; i < 3; i++) {
			if (!(poll_fds[i].revents & (POLLIN | POLLHUP)))
				continue;
			ssize_t count = read(from[i], buffer, i == TELL_EVENT ? 8 : 1);

			if (count <= 0)
				return;
			look(i == TELL_PIPE ? "pipe" : i == TELL_SOCKET ? "socket" : "event");
			if (write(answer, "a", 1) != 1)
				return;
		}
	}
}

/* ---- The program ---- */

static void await_answer(void)
{
	char answer;

	while (read(from_observer, &answer, 1) < 0 && errno == EINTR)
		;
}

static void tell(int way)
{
	uint64_t one = 1;
	struct iovec vector = { "v", 1 };

	switch (way) {
	case TELL_PIPE:
		note(pick(2) ? write(to_observer[0], "p", 1) : writev(to_observer[0], &vector, 1));
		break;
	case TELL_SOCKET:
		note(send(to_observer[1], "s", 1, 0));
		break;
	case TELL_EVENT:
		note(write(to_observer[2], &one, 8));
		break;
	case TELL_SPLICE:
		note(vmsplice(to_observer[0], &vector, 1, 0));
		break;
	}
	await_answer();
}

static void fill(char *buffer, size_t size)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = (char)('a' + (i + state) % 26);
}

static void handler(int signal)
{
	(void)signal;
	if (fds[0] >= 0 && write(fds[0], "handler", 7) < 0)
		return;
}

static void *thread(void *argument)
{
	for (int i = 0; i < 20; i++)
		if (fds[0] >= 0 && write(fds[0], argument, 6) < 0)
			break;
	return NULL;
}

/* Addresses where nothing is, and after which nothing is. */
static void *volatile nowhere = (void *)8;
static char *volatile edge;

static void change(void)
{
	static char buffer[6 << 20];
	char name[32], other[32];
	int slot = (int)pick(OPEN), fd = fds[slot];
	size_t size = pick(20) == 0 ? pick(200000) : pick(300);
	struct iovec vectors[3];
	struct stat stat;
	static const int flags[] = { O_WRONLY | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC, O_WRONLY | O_CREAT | O_APPEND,
				     O_RDWR | O_CREAT | O_APPEND, O_RDWR | O_CREAT, O_RDONLY, O_WRONLY | O_CREAT | O_SYNC };

	int what = (int)pick(44);

	/* After these nothing is posted to the file, or to those that are open. */
	if ((what == 31 || what == 32 || what == 33 || what == 41) && pick(6))
		what = 4;
	sprintf(name, "f%d", (int)pick(FILES));
	sprintf(other, "f%d", (int)pick(FILES * 2));
	switch (what) {
	case 0 ... 3:
		if (fd >= 0)
			note(close(fd));
		note(fds[slot] = open(name, flags[pick(7)], 0644));
		break;
	case 4 ... 14:
		fill(buffer, size);
		note(write(fd, buffer, size));
		break;
	case 15:
		fill(buffer, 64);
		vectors[0] = (struct iovec){ buffer, 10 };
		vectors[1] = (struct iovec){ buffer + 20, pick(30) };
		vectors[2] = (struct iovec){ buffer + 5, 7 };
		note(pick(2) ? writev(fd, vectors, 3) : pwritev(fd, vectors, 3, pick(1000)));
		break;
	case 16 ... 18:
		fill(buffer, size);
		note(pwrite(fd, buffer, size, pick(2000)));
		break;
	case 19:
		note(fsync(fd));
		break;
	case 20:
		note(fdatasync(fd));
		break;
	case 21 ... 22:
		note(close(fd));
		fds[slot] = -1;
		break;
	case 23:
		note(lseek(fd, pick(3) ? (off_t)pick(500) : -1, (int)pick(3)));
		break;
	case 24:
		note(ftruncate(fd, pick(3000)));
		break;
	case 25:
		note(rename(name, other));
		break;
	case 26:
		note(unlink(other));
		break;
	case 27:
		note(fstat(fd, &stat) == 0 ? stat.st_size : -1);
		break;
	case 28 ... 29:
		size = (size_t)read(fd, buffer, 200);
		note((long)size);
		if ((ssize_t)size > 0)
			note(buffer[size - 1]);
		break;
	case 30:
		size = (size_t)pread(fd, buffer, 100, pick(500));
		note((long)size);
		break;
	case 31: {
		int copy = dup(fd);

		note(copy);
		note(write(copy, "dup", 3));
		note(close(copy));
		break;
	}
	case 32: {
		pid_t child = fork();

		if (child == 0) {
			fd = open("forked", O_WRONLY | O_CREAT | O_APPEND, 0644);
			_exit(write(fds[slot], "child", 5) + write(fd, "forked", 6));
		}
		int status;

		waitpid(child, &status, 0);
		note(status);
		break;
	}
	case 33: {
		char *const arguments[] = { "/bin/sh", "-c", "cat f? | md5sum > spawned; echo more >> f0", NULL };
		pid_t child;
		int status = 0;

		if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0)
			waitpid(child, &status, 0);
		note(status);
		note((long)hash_file("spawned"));
		break;
	}
	case 34:
		note(write(fd, nowhere, 5));
		note(write(fd, edge - 10, 100));
		break;
	case 35:
		raise(SIGUSR1);
		break;
	case 36: {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, thread, "thread");
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		break;
	}
	case 37: {
		FILE **stream = &streams[pick(2)];

		if (!*stream)
			*stream = fopen(other, pick(2) ? "a" : "w");
		else if (pick(2))
			note(fflush(*stream));
		else
			note(fclose(*stream)), *stream = NULL;
		break;
	}
	case 38 ... 40: {
		FILE *stream = streams[pick(2)];

		if (stream)
			note(fprintf(stream, "%d: %.*s\n", fd, (int)pick(500), buffer));
		break;
	}
	case 41: {
		char *map = mmap(NULL, 4096, PROT_READ, pick(20) ? MAP_PRIVATE : MAP_SHARED, fd, 0);

		if (map != MAP_FAILED && fstat(fd, &stat) == 0 && stat.st_size > 0) {
			note(map[0]);
			note(pwrite(fd, "Z", 1, 0));
			note(map[0]);
		}
		if (map != MAP_FAILED)
			munmap(map, 4096);
		break;
	}
	case 42:
		note(truncate(other, pick(2000)));
		break;
	case 43:
		if (pick(10) == 0) {
			fill(buffer, sizeof(buffer));
			note(write(fd, buffer, pick(sizeof(buffer))));
		}
		note(fcntl(fd, F_GETFL));
		break;
	}
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
static int overflow(int depth)
{
	volatile char space[4096];

	space[0] = (char)depth;
	return overflow(depth + 1) + space[0];
}

static void end(void)
{
	switch (pick(10)) {
	case 0:
		_exit(7);
	case 1:
		abort();
	case 2:
		*(volatile int *)0 = 1;
		break;
	case 3:
		raise(SIGTERM);
		break;
	case 4:
		overflow(0);
		break;
	case 5:
		execl("/bin/cat", "cat", "f0", NULL);
		break;
	case 6: {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		*(volatile int *)0 = 1;
		break;
	}
	case 7:
		__builtin_trap();
	case 8:
		__asm__ volatile("int3");
		_exit(1);
	}
	exit(3);
}

static void program(uint64_t steps)
{
	for (int i = 0; i < OPEN; i++)
		fds[i] = -1;
	edge = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
	munmap(edge, 4096);
	memset(edge - 10, 'e', 10);
	signal(SIGUSR1, handler);
	signal(SIGPIPE, SIG_DFL);
	for (uint64_t i = 0; i < steps; i++) {
		change();
		if (pick(12) == 0)
			tell((int)pick(4));
		if (pick(40) == 0)
			dprintf(1, "results %lx errno %d\n", (unsigned long)results, last_errno);
	}
	dprintf(1, "results %lx errno %d\n", (unsigned long)results, last_errno);
	end();
}

int main(int count, char **arguments)
{
	int pipes[2], sockets[2], event = eventfd(0, 0), answers[2];

	if (count != 3 || chdir(arguments[2]) || pipe(pipes) || pipe(answers) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 99;
	state = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	/*
	 * The program is a child of the parent, started anew by exec if a library is to be loaded.
	 */
	pid_t child = fork();

	if (child == 0) {
		close(pipes[0]);
		close(answers[1]);
		close(sockets[0]);
		to_observer[0] = pipes[1];
		to_observer[1] = sockets[1];
		to_observer[2] = event;
		from_observer = answers[0];
		program(300 + pick(500));
	}
	close(pipes[1]);
	close(answers[0]);
	close(sockets[1]);
	observe((int[]){ pipes[0], sockets[0], event }, answers[1]);
	int status;

	waitpid(child, &status, 0);
	printf("status %x\n", status & ~0x80);
	look("end");
	return 0;
}
