/*
 * Many threads read from pipes into which nothing is written yet, more than a request box has
 * servers. Meanwhile others copy data through pipes, sockets and files: they go on, each piece
 * comes once and as it was written. Then those that wait read what is written for them. With the
 * argument `signalled` one thread writes to a file meanwhile that gets a signal more often than a
 * call is taken back from the box, whose handler writes as well.
 */
#include "guest.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define BLOCKED 12
#define COPIERS 6
#define PIECES 60

static int gates[BLOCKED][2];

static void *blocks(void *arg)
{
	long n = (long)arg;
	int word = -1;

	if (read(gates[n][0], &word, sizeof(word)) != sizeof(word) || word != n)
		return NULL;
	return arg + 1;
}

/* A writer and a reader of one connection, each its own thread. */
struct connection {
	int in, out;
	long read_ok, written_ok;
};

static void *writes(void *arg)
{
	struct connection *c = arg;
	int i;

	for (i = 0; i < PIECES; i++)
		c->written_ok += write(c->in, &i, sizeof(i)) == sizeof(i);
	return NULL;
}

static void *reads(void *arg)
{
	struct connection *c = arg;
	int i, word;

	for (i = 0; i < PIECES; i++)
		c->read_ok += read(c->out, &word, sizeof(word)) == sizeof(word) && word == i;
	return NULL;
}

static void *writes_file(void *arg)
{
	char name[64], text[16], back[16];
	long n = (long)arg, ok = 0;
	int i, fd;

	snprintf(name, sizeof(name), "/tmp/box-%d-%ld", getpid(), n);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (i = 0; i < PIECES; i++) {
		snprintf(text, sizeof(text), "%015d", i);
		ok += pwrite(fd, text, sizeof(text), 16L * i) == 16 && pread(fd, back, sizeof(back), 16L * i) == 16 &&
			!memcmp(text, back, 16);
	}
	ok += lseek(fd, 0, SEEK_END) == 16L * PIECES;
	close(fd);
	unlink(name);
	return (void *)ok;
}

static volatile int written_by_handler, is_over;
static int self_pipe[2];

static void writes_too(int number)
{
	(void)number;
	written_by_handler += write(self_pipe[1], "", 1) == 1;
}

static void *signals(void *arg)
{
	while (!is_over) {
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
		usleep(1000);
	}
	return NULL;
}

/* Beside blocked servers, and signals that come all the time. */
static void signalled(void)
{
	struct sigaction action = { .sa_handler = writes_too, .sa_flags = SA_RESTART };
	pthread_t writer = pthread_self(), signaller;
	int i, file = open("/dev/null", O_WRONLY), failed = 0;

	if (pipe(self_pipe) || fcntl(self_pipe[1], F_SETFL, O_NONBLOCK))
		exit(2);
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&signaller, NULL, signals, &writer);
	for (i = 0; i < PIECES || written_by_handler < PIECES; i++)
		failed += write(file, "x", 1) != 1;
	is_over = 1;
	pthread_join(signaller, NULL);
	printf("writes that failed among signals: %d\n", failed);
}

int main(int argc, char **argv)
{
	pthread_t blocked[BLOCKED], threads[COPIERS][3];
	struct connection connections[COPIERS] = { 0 };
	long i, woken = 0, files = 0, read_ok = 0, written_ok = 0;
	void *result;
	int fds[2];

	alarm(600);
	for (i = 0; i < BLOCKED; i++) {
		if (pipe(gates[i]) || pthread_create(&blocked[i], NULL, blocks, (void *)i))
			return 2;
	}
	usleep(100000);
	if (argc > 1 && !strcmp(argv[1], "signalled")) {
		signalled();
		return 0;
	}
	for (i = 0; i < COPIERS; i++) {
		if (i % 2 ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds))
			return 2;
		connections[i].in = fds[1];
		connections[i].out = fds[0];
		pthread_create(&threads[i][0], NULL, reads, &connections[i]);
		pthread_create(&threads[i][1], NULL, writes, &connections[i]);
		pthread_create(&threads[i][2], NULL, writes_file, (void *)i);
	}
	for (i = 0; i < COPIERS; i++) {
		pthread_join(threads[i][0], NULL);
		pthread_join(threads[i][1], NULL);
		pthread_join(threads[i][2], &result);
		read_ok += connections[i].read_ok;
		written_ok += connections[i].written_ok;
		files += (long)result;
	}
	printf("copied beside blocked threads: %ld written, %ld read, %ld in files\n", written_ok, read_ok, files);
	for (i = 0; i < BLOCKED; i++) {
		int word = i;

		if (write(gates[i][1], &word, sizeof(word)) != sizeof(word))
			return 2;
	}
	for (i = 0; i < BLOCKED; i++) {
		pthread_join(blocked[i], &result);
		woken += result == (void *)(i + 1);
	}
	printf("%ld of %d have read what was written for them\n", woken, BLOCKED);
	return 0;
}
