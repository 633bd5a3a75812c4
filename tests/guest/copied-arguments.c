/*
 * What matters where arguments of calls are copied: sizes, ends of memory, lists, signals, threads,
 * forks and programs.
 */
#include "guest.h"
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/statfs.h>

static unsigned long sum(const unsigned char *bytes, size_t count)
{
	unsigned long all = 5381, word;
	size_t i = 0;

	for (; i + sizeof(word) <= count; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		all = (all ^ word) * 0x9e3779b97f4a7c15;
	}
	for (; i < count; i++)
		all = all * 33 + bytes[i];
	return all;
}

/* Bytes that do not repeat. */
static void fill(unsigned char *bytes, size_t count, unsigned long from)
{
	for (size_t i = 0; i < count; i += sizeof(from)) {
		unsigned long word = (from + i) * 0x9e3779b97f4a7c15;

		memcpy(bytes + i, &word, count - i < sizeof(word) ? count - i : sizeof(word));
	}
}

static void *fresh(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Sizes around those of the buffers, to and from memory that is used again or not there yet. */
static void sizes(void)
{
	static const size_t all[] = { 1, 15, 511, 512, 4096, 16313, 65536, 100001, 262144, 1 << 20, 5000001, 64 << 20, 70 << 20 };
	int fd = memfd_create("sizes", 0);

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		unsigned char *memory = fresh(all[i] + PAGE);

		fill(memory + i, all[i], i);
		TELL(pwrite(fd, memory + i, all[i] - i % 2, i));
		memset(memory, 'x', all[i]);
		TELL(pread(fd, memory + 3 * i, all[i], i));
		printf("%lx\n", sum(memory, all[i] + PAGE));
		munmap(memory, all[i] + PAGE);
		memory = fresh(all[i] + PAGE);
		TELL(pread(fd, memory + 7, all[i], i));
		printf("%lx\n", sum(memory, all[i] + PAGE));
		munmap(memory, all[i] + PAGE);
	}
	close(fd);
}

/* Memory that ends, cannot be written to or is a file's. */
static void ends(void)
{
	int fd = memfd_create("ends", 0);
	char *memory = fresh(4 * PAGE), *file;

	ftruncate(fd, 8 * PAGE);
	pwrite(fd, "ends", 4, 3 * PAGE);
	munmap(memory + 2 * PAGE, PAGE);
	mprotect(memory + 3 * PAGE, PAGE, PROT_READ);
	TELL(pread(fd, memory + 2 * PAGE - 100, 200, 0));
	TELL(pread(fd, memory + 2 * PAGE, 200, 0));
	TELL(pread(fd, memory + 3 * PAGE, 200, 0));
	TELL(pread(fd, NULL, 200, 0));
	TELL(pread(fd, (void *)-200, 100, 0));
	TELL(pread(-1, memory + 2 * PAGE, 200, 0));
	TELL(pwrite(fd, memory + 2 * PAGE - 100, 200, 0));
	TELL(pwrite(fd, memory + 3 * PAGE, 200, 0));
	TELL(pwrite(fd, memory, 0, 0));
	TELL(open(memory + 2 * PAGE, O_RDONLY));
	memset(memory + 2 * PAGE - 10, 'x', 10);
	TELL(open(memory + 2 * PAGE - 10, O_RDONLY));
	struct iovec parts[] = { { memory, 100 }, { memory + 2 * PAGE - 50, 100 }, { memory + 300, 100 } };
	TELL(preadv(fd, parts, 3, 0));
	TELL(preadv(fd, parts, 3, 8 * PAGE - 120));
	TELL(preadv(fd, (void *)(memory + 2 * PAGE), 3, 0));
	TELL(syscall(SYS_preadv, fd, parts, 2000, 0, 0));
	file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TELL(pread(fd, file + 100, 4, 3 * PAGE));
	TELL(pwrite(fd, file + 100, 4, 5 * PAGE));
	char seen[9] = "";
	TELL(pread(fd, seen, 4, 100));
	TELL(pread(fd, seen + 4, 4, 5 * PAGE));
	puts(seen);
	ftruncate(fd, PAGE / 2);
	TELL(pread(fd, file + PAGE, 4, 0));
	TELL(pwrite(fd, file + PAGE, 4, 0));
	close(fd);
}

/* Structures that lead to others. */
static void lists(void)
{
	int pair[2], got, other = memfd_create("lists", 0);
	char one[40] = "one", two[40] = "two and more", control[CMSG_SPACE(sizeof(int))], in[2][64];
	struct iovec parts[] = { { one, 4 }, { NULL, 0 }, { two, 13 } };
	struct msghdr sent = { .msg_iov = parts, .msg_iovlen = 3, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&sent);

	memset(control, 0, sizeof(control));
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &other, sizeof(int));
	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	TELL(sendmsg(pair[0], &sent, 0));
	memset(control, 0, sizeof(control));
	struct iovec to = { in[0], 64 };
	struct msghdr received = { .msg_iov = &to, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	TELL(recvmsg(pair[1], &received, 0));
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&received)), sizeof(int));
	printf("%s %s, control %zu, flags %x, same file %d\n", in[0], in[0] + 4, received.msg_controllen, received.msg_flags,
	       fcntl(got, F_GETFL) == fcntl(other, F_GETFL));
	struct mmsghdr several[2] = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 1 } },
				      { .msg_hdr = { .msg_iov = parts + 2, .msg_iovlen = 1 } } };
	TELL(sendmmsg(pair[0], several, 2, 0));
	struct iovec places[2] = { { in[0], 64 }, { in[1], 64 } };
	struct mmsghdr taken[2] = { { .msg_hdr = { .msg_iov = places, .msg_iovlen = 1 } },
				    { .msg_hdr = { .msg_iov = places + 1, .msg_iovlen = 1 } } };
	TELL(recvmmsg(pair[1], taken, 2, 0, NULL));
	printf("%u %u %s %s\n", taken[0].msg_len, taken[1].msg_len, in[0], in[1]);
	TELL(send(pair[0], one, 4, MSG_ZEROCOPY));
	TELL(recv(pair[1], in[0], 64, MSG_DONTWAIT));

	fd_set set;
	struct timeval soon = { 0, 1000 };
	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	FD_SET(pair[1], &set);
	TELL(select(pair[1] + 1, &set, NULL, NULL, &soon));
	printf("%d %d\n", !!FD_ISSET(pair[0], &set), !!FD_ISSET(pair[1], &set));
	struct pollfd polled[] = { { pair[0], POLLIN | POLLOUT, 0 }, { -1, POLLIN, 7 }, { 999, POLLIN, 0 } };
	TELL(poll(polled, 3, 0));
	printf("%x %x %x\n", polled[0].revents, polled[1].revents, polled[2].revents);
	int epoll = epoll_create1(0);
	struct epoll_event event = { EPOLLOUT, { .u64 = 0x123456789abc } }, events[4];
	TELL(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event));
	TELL(epoll_wait(epoll, events, 4, 0));
	printf("%x %llx\n", events[0].events, (unsigned long long)events[0].data.u64);
	write(pair[0], one, 4);
	TELL(ioctl(pair[1], FIONREAD, &got));
	printf("%d\n", got);
	struct statfs about;
	TELL(statfs("/proc", &about));
	printf("%lx\n", (long)about.f_type);
	char name[16];
	TELL(prctl(PR_SET_NAME, "copied"));
	TELL(prctl(PR_GET_NAME, name));
	puts(name);
	DIR *folder = opendir("/proc/self/fd");
	int entries = 0;
	while (folder && readdir(folder))
		entries++;
	printf("%d entries\n", entries > 5);
	closedir(folder);
	close(pair[0]);
	close(pair[1]);
	close(epoll);
	close(other);
}

static volatile int caught;

static void handler(int signal)
{
	caught = signal;
}

static volatile int restarts;
static int fed[2];

/* Interrupts the first thread's read once that sleeps; a restarted read then has data. */
static void *interrupt(void *thread)
{
	until_asleep(getpid(), getpid());
	pthread_kill(*(pthread_t *)thread, SIGUSR1);
	while (!caught)
		usleep(1000);
	if (restarts) {
		until_asleep(getpid(), getpid());
		write(fed[1], "late", 4);
	}
	return NULL;
}

/*
 * A signal into a waiting call, with and without SA_RESTART, and one that the call's mask lets in.
 */
static void signals(void)
{
	pthread_t other, me = pthread_self();
	char byte[8];

	pipe(fed);
	for (int restart = 0; restart < 2; restart++) {
		struct sigaction action = { .sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0 };

		sigaction(SIGUSR1, &action, NULL);
		caught = 0;
		restarts = restart;
		pthread_create(&other, NULL, interrupt, &me);
		TELL(read(fed[0], byte, sizeof(byte)));
		printf("%d\n", caught == SIGUSR1);
		pthread_join(other, NULL);
	}
	sigset_t blocked, open;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, &open);
	raise(SIGUSR1);
	caught = 0;
	struct pollfd polled = { fed[0], POLLIN, 0 };
	struct timespec long_time = { 200, 0 };
	TELL(ppoll(&polled, 1, &long_time, &open));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fed[0], &set);
	raise(SIGUSR1);
	TELL(pselect(fed[0] + 1, &set, NULL, NULL, &long_time, &open));
	printf("%d\n", caught == SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &open, NULL);
	close(fed[0]);
	close(fed[1]);
}

static char *volatile victim;
static int victim_pipe[2];

static void *unmaps(void *nothing)
{
	usleep(100000);
	munmap(victim, 4 * PAGE);
	write(victim_pipe[1], "data", 4);
	return nothing;
}

static void *calls(void *number)
{
	char *memory = malloc(300000);
	int fd = memfd_create("thread", 0);
	unsigned long all = 0;

	for (int i = 0; i < 20; i++) {
		memset(memory, i + (long)number, 300000);
		if (pwrite(fd, memory, 15000 * i + 1, i) != 15000 * i + 1)
			return (void *)-1;
		memset(memory, 0, 300000);
		if (pread(fd, memory, 300000, i) != 15000 * i + 1)
			return (void *)-1;
		all += sum((unsigned char *)memory, 15000 * i + 1);
	}
	close(fd);
	free(memory);
	return (void *)all;
}

/*
 * Memory that another thread unmaps while the call waits; threads that come and go, each with calls
 * of its own.
 */
static void threads(void)
{
	pthread_t all[8];
	void *result;

	pipe(victim_pipe);
	victim = fresh(4 * PAGE);
	pthread_create(&all[0], NULL, unmaps, NULL);
	TELL(read(victim_pipe[0], victim, 4 * PAGE));
	pthread_join(all[0], NULL);
	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < 8; i++)
			pthread_create(&all[i], NULL, calls, (void *)i);
		for (int i = 0; i < 8; i++) {
			pthread_join(all[i], &result);
			printf("%lx\n", (unsigned long)result);
		}
	}
}

/* A child has memory of its own, and calls of its own. */
static void forks(const char *program)
{
	char *memory = fresh(20 * PAGE);
	int fd = memfd_create("forks", 0), status;

	memset(memory, 'p', 20 * PAGE);
	write(fd, "cccccccc", 8);
	pid_t child = fork();
	if (!child) {
		char *more = fresh(2 << 20);

		pread(fd, memory + 5 * PAGE, 8, 0);
		TELL(pwrite(fd, memory + 5 * PAGE - 4, 16, 8));
		TELL(pread(fd, more, 2 << 20, 0));
		execl(program, program, "again", NULL);
		_exit(99);
	}
	waitpid(child, &status, 0);
	printf("%x %c\n", status, memory[5 * PAGE]);
	char seen[25] = "";
	TELL(pread(fd, seen, 24, 0));
	puts(seen);
	child = vfork();
	if (!child) {
		execl(program, program, "again", NULL);
		_exit(98);
	}
	waitpid(child, &status, 0);
	printf("%x\n", status);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		char where[PATH_MAX] = "";

		TELL(readlink("/proc/self/exe", where, sizeof(where)) > 0);
		puts(strrchr(where, '/'));
		return 7;
	}
	sizes();
	ends();
	lists();
	signals();
	threads();
	forks(argv[0]);
	return 0;
}
