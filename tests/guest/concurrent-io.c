/*
 * Delegated calls of several threads at once, most of them blocking: no call waits for one that it
 * does not depend on, and every byte arrives once.
 */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#define THREADS 4

struct work {
	int from, to, number;
	long bytes, sum;
};

static void run(void *(*body)(void *), struct work *work, int n)
{
	pthread_t threads[2 * THREADS];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, body, &work[i]);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Even ones write, odd ones read what their neighbour writes. */
static void *pump(void *argument)
{
	struct work *w = argument;
	char text[3000];

	for (int i = 0; i < 100; i++) {
		long n;

		if (w->number % 2 == 0) {
			memset(text, i, sizeof(text));
			n = write(w->to, text, sizeof(text));
			w->bytes += n;
			w->sum += n * i;
		} else {
			while ((n = read(w->from, text, sizeof(text))) > 0) {
				w->bytes += n;
				for (int k = 0; k < n; k++)
					w->sum += text[k];
				if (w->bytes == 100 * (long)sizeof(text))
					return NULL;
			}
		}
	}
	return NULL;
}

static void pairs(const char *what, void (*make)(int pair[2]))
{
	struct work work[2 * THREADS] = { 0 };

	for (int i = 0; i < THREADS; i++) {
		int pair[2];

		make(pair);
		work[2 * i] = (struct work){ .to = pair[1], .number = 2 * i };
		work[2 * i + 1] = (struct work){ .from = pair[0], .number = 2 * i + 1 };
	}
	run(pump, work, 2 * THREADS);
	for (int i = 0; i < THREADS; i++) {
		printf("%s %d: %ld %ld, %ld %ld\n", what, i, work[2 * i].bytes, work[2 * i].sum, work[2 * i + 1].bytes,
		       work[2 * i + 1].sum);
		close(work[2 * i].to);
		close(work[2 * i + 1].from);
	}
}

static void make_pipe(int pair[2]) { pipe(pair); }
static void make_unix(int pair[2]) { socketpair(AF_UNIX, SOCK_STREAM, 0, pair); }

static void make_tcp(int pair[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	bind(listener, (void *)&address, length);
	listen(listener, 1);
	getsockname(listener, (void *)&address, &length);
	pair[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[1], (void *)&address, length))
		perror("connect");
	pair[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
}

/* Waiters of each kind, all at the same time; one thread then writes to each. */
static int ready_fds[4][2];

static void *waiter(void *argument)
{
	struct work *w = argument;
	int fd = ready_fds[w->number][0];
	uint64_t value = 0;

	if (w->number == 0) {
		struct pollfd p = { fd, POLLIN, 0 };
		w->sum = poll(&p, 1, -1) * 100 + p.revents;
	} else if (w->number == 1) {
		fd_set set;
		struct timeval limit = { 200, 0 };

		FD_ZERO(&set);
		FD_SET(fd, &set);
		w->sum = select(fd + 1, &set, NULL, NULL, &limit) * 100 + FD_ISSET(fd, &set);
	} else if (w->number == 2) {
		struct epoll_event e = { EPOLLIN | EPOLLET, { .u64 = 7 } }, got;
		int ep = epoll_create1(EPOLL_CLOEXEC);

		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
		w->sum = epoll_wait(ep, &got, 1, -1) * 100 + got.data.u64 * 10 + epoll_wait(ep, &got, 1, 0);
		close(ep);
	} else {
		w->sum = read(fd, &value, 8) * 100 + value;
	}
	return NULL;
}

static void *waker(void *argument)
{
	uint64_t value = 5;

	usleep(100000);
	for (int i = 0; i < 4; i++)
		write(ready_fds[i][1], &value, 8);
	return argument;
}

static void waits(void)
{
	struct work work[5] = { 0 };
	pthread_t one;

	for (int i = 0; i < 3; i++)
		pipe(ready_fds[i]);
	ready_fds[3][0] = ready_fds[3][1] = eventfd(0, 0);
	for (int i = 0; i < 4; i++)
		work[i].number = i;
	pthread_create(&one, NULL, waker, NULL);
	run(waiter, work, 4);
	pthread_join(one, NULL);
	for (int i = 0; i < 4; i++)
		printf("waiter %d: %ld\n", i, work[i].sum);
}

static void moving(int file)
{
	int a[2], b[2], out = open("manyio-out", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char text[PAGE], *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec pieces[2] = { { p, PAGE }, { p + 8 * PAGE, PAGE } };
	off_t at = 10, to = 0;

	pipe(a);
	pipe(b);
	for (int i = 0; i < 16; i++)
		memset(p + i * PAGE, 'a' + i, PAGE);
	TELL(pwrite(file, p, 16 * PAGE, 0));
	TELL(sendfile(out, file, &at, 5 * PAGE) + at);
	TELL(copy_file_range(file, &to, out, NULL, PAGE, 0) + to);
	at = 3 * PAGE;
	TELL(splice(file, &at, a[1], NULL, PAGE, 0));
	TELL(tee(a[0], b[1], PAGE, 0));
	TELL(read(b[0], text, PAGE) + text[0]);
	TELL(splice(a[0], NULL, out, NULL, PAGE, 0));
	/* Pages of ours in a pipe: what is written to them afterwards may be seen. */
	TELL(vmsplice(a[1], pieces, 2, 0));
	TELL(read(a[0], text, PAGE) + text[5]);
	TELL(read(a[0], text, PAGE) + text[5]);
	pieces[0].iov_base = p + 12 * PAGE;
	TELL(vmsplice(a[1], pieces, 1, SPLICE_F_GIFT));
	munmap(p + 12 * PAGE, PAGE);
	TELL(read(a[0], text, PAGE) + text[5]);
	TELL(fcntl(a[1], F_SETPIPE_SZ, 1 << 20));
	pieces[0] = (struct iovec){ text, 10 };
	TELL(preadv2(file, pieces, 1, 5 * PAGE, RWF_HIPRI) + text[0]);
	TELL(preadv2(file, pieces, 1, 5 * PAGE, 0x1000));
	TELL(preadv2(a[0], pieces, 1, -1, RWF_NOWAIT));
	TELL(pwritev2(file, pieces, 1, 0, RWF_APPEND) + lseek(file, 0, SEEK_END));
	TELL(fallocate(file, 0, 0, 64 * PAGE));
	TELL(sync_file_range(file, 0, PAGE, SYNC_FILE_RANGE_WRITE));
	TELL(readahead(file, 0, PAGE));
	TELL(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
	close(out);
}

static void passing(void)
{
	int pair[2], file = open("manyio-passed", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char control[CMSG_SPACE(2 * sizeof(int))] = { 0 }, byte = 'p';
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	int on = 1, fds[2];

	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	*c = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &file, sizeof(file));
	message.msg_controllen = CMSG_SPACE(sizeof(int));
	fflush(stdout);
	if (!fork()) {
		char room[200];

		message.msg_control = room;
		message.msg_controllen = sizeof(room);
		TELL(recvmsg(pair[0], &message, 0));
		for (c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			if (c->cmsg_type == SCM_RIGHTS) {
				memcpy(fds, CMSG_DATA(c), sizeof(int));
				TELL(write(fds[0], "by the child", 12));
			} else {
				struct ucred *who = (void *)CMSG_DATA(c);

				TELL(who->pid == getppid());
				TELL(who->uid);
			}
		}
		exit(0);
	}
	long sent = sendmsg(pair[1], &message, 0);
	wait(NULL);
	TELL(sent);
	char text[20] = "";
	TELL(pread(file, text, 19, 0));
	puts(text);
	c->cmsg_len = CMSG_LEN(sizeof(int));
	fds[0] = 12345;
	memcpy(CMSG_DATA((struct cmsghdr *)control), fds, sizeof(int));
	TELL(sendmsg(pair[1], &message, 0));
}

static void *locker(void *argument)
{
	struct work *w = argument;
	int file = open("manyio-lock", O_RDWR);
	char text[20];

	for (int i = 0; i < 20; i++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100 };
		int value;

		if (w->number % 2)
			w->bytes += flock(file, LOCK_EX);
		else
			w->bytes += fcntl(file, F_OFD_SETLKW, &lock);
		(void)value;
		memset(text, 0, sizeof(text));
		if (w->number % 2)
			flock(file, LOCK_UN);
		lock.l_type = F_UNLCK;
		if (w->number % 2 == 0)
			fcntl(file, F_OFD_SETLK, &lock);
	}
	close(file);
	return NULL;
}

static void locks(void)
{
	int file = open("manyio-lock", O_RDWR | O_CREAT | O_TRUNC, 0644), status;
	struct work work[THREADS] = { 0 };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 200, .l_len = 10 };

	for (int i = 0; i < THREADS; i++)
		work[i].number = i;
	run(locker, work, THREADS);
	for (int i = 0; i < THREADS; i++)
		printf("locker %d: %ld\n", i, work[i].bytes);
	TELL(fcntl(file, F_SETLK, &lock));
	fflush(stdout);
	if (!fork()) {
		int other = open("manyio-lock", O_RDWR);

		TELL(fcntl(other, F_GETLK, &lock) ?: lock.l_pid == getppid());
		lock.l_type = F_RDLCK;
		TELL(fcntl(other, F_SETLK, &lock));
		exit(0);
	}
	wait(&status);
}

static void *watcher(void *argument)
{
	struct work *w = argument;
	char events[4096] __attribute__((aligned(8)));
	int seen = 0;

	while (seen < 3) {
		long n = read(w->from, events, sizeof(events));

		for (char *at = events; n > 0 && at < events + n; seen++) {
			struct inotify_event *e = (void *)at;

			w->sum |= e->mask;
			at += sizeof(*e) + e->len;
		}
		if (n <= 0)
			break;
	}
	return NULL;
}

static void notices(void)
{
	struct work work = { .from = inotify_init1(IN_CLOEXEC) };
	pthread_t one;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), file;
	struct itimerspec soon = { .it_value = { 0, 50000000 } };
	uint64_t value;

	mkdir("manyio-folder", 0755);
	TELL(inotify_add_watch(work.from, "manyio-folder", IN_CREATE | IN_CLOSE_WRITE | IN_DELETE));
	pthread_create(&one, NULL, watcher, &work);
	timerfd_settime(timer, 0, &soon, NULL);
	TELL(read(timer, &value, 8) + value);
	file = open("manyio-folder/file", O_WRONLY | O_CREAT, 0644);
	close(file);
	unlink("manyio-folder/file");
	pthread_join(one, NULL);
	printf("inotify: %#lx\n", work.sum);
}

/* Threads that fault, map and make calls into the same memory. */
static void *mapper(void *argument)
{
	struct work *w = argument;
	int zero = open("/dev/zero", O_RDONLY);

	for (int i = 0; i < 50; i++) {
		char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(p, 1, 64 * PAGE);
		w->bytes += pread(w->from, p + PAGE, 8 * PAGE, 0);
		w->sum += p[PAGE] + p[20 * PAGE];
		madvise(p, 4 * PAGE, MADV_DONTNEED);
		w->sum += p[PAGE];
		w->bytes += read(zero, p + 30 * PAGE, PAGE);
		munmap(p, 64 * PAGE);
	}
	close(zero);
	return NULL;
}

int main(void)
{
	int file = open("manyio-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	struct work work[THREADS] = { 0 };

	pairs("pipe", make_pipe);
	pairs("unix", make_unix);
	pairs("tcp", make_tcp);
	waits();
	moving(file);
	passing();
	locks();
	notices();
	for (int i = 0; i < THREADS; i++)
		work[i].from = file;
	run(mapper, work, THREADS);
	for (int i = 0; i < THREADS; i++)
		printf("mapper %d: %ld %ld\n", i, work[i].bytes, work[i].sum);
	return 0;
}
