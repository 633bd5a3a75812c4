/*
 * Descriptors that the tests' driver claims: those of /dev/null (boot option claim=1:3). The driver
 * reads zeros there, and Linux nothing. So each case says who served a read: "driver", or "Linux";
 * "file" is what a file holds that has taken the descriptor's place.
 */
#include "utility.h"
#include <linux/io_uring.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static const char *path;

static void must(int done, const char *what)
{
	if (done)
		return;
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(3);
}

static int opened(void)
{
	int fd = open("/dev/null", O_RDWR);

	must(fd >= 0, "/dev/null");
	return fd;
}

static int file(void)
{
	int fd = open(path, O_RDONLY);

	must(fd >= 0, path);
	return fd;
}

static const char *reader(int fd)
{
	char byte = '?';
	ssize_t count = read(fd, &byte, 1);

	return count < 0 ? strerrorname_np(errno) : !count ? "Linux" : !byte ? "driver" : byte == 'f' ? "file" : "?";
}

static void tell(const char *what, int fd)
{
	printf("%s: %s\n", what, reader(fd));
	fflush(stdout);
}

/* ---- calls on it ---- */

static void calls(void)
{
	char bytes[3000], *volatile nowhere = (char *)8;
	struct stat stat;
	int fd = opened(), writes = open("/dev/null", O_WRONLY), other = open("/dev/zero", O_RDWR), named = open("/dev/null", O_PATH);

	memset(bytes, 'b', sizeof(bytes));
	printf("read %zd", read(fd, bytes, sizeof(bytes)));
	printf(", pread %zd", pread(fd, bytes, 10, 7));
	printf(", write %zd", write(fd, bytes, 20));
	printf(", pwrite %zd", pwrite(fd, bytes, 30, 7));
	printf(", nothing %zd", read(fd, nowhere, 0));
	printf(", zeros %d\n", !memcmp(bytes, (char[sizeof(bytes)]){}, sizeof(bytes)));
	printf("%zd", read(fd, nowhere, 10));
	printf(" %s, ", strerrorname_np(errno));
	printf("%zd", pread(fd, bytes, 10, -1));
	printf(" %s, ", strerrorname_np(errno));
	printf("%s, ", reader(writes));
	printf("%s, ", reader(named));
	printf("%d %ld %d\n", !fstat(fd, &stat) && S_ISCHR(stat.st_mode), (long)lseek(fd, 5, SEEK_SET), isatty(fd));
	printf("another device: %zd\n", read(other, bytes, 1));
}

/* ---- what changes it ---- */

static void duplicates(void)
{
	int fd = opened(), other;

	tell("opened", fd);
	other = dup(fd);
	tell("its duplicate", other);
	tell("itself", fd);
	must(dup2(file(), fd) == fd, "dup2");
	tell("dup2 onto it", fd);
	fd = opened();
	tell("opened", fd);
	must(dup3(file(), fd, O_CLOEXEC) == fd, "dup3");
	tell("dup3 onto it", fd);
	fd = opened();
	must(dup2(fd, fd) == fd, "dup2");
	tell("dup2 onto itself", fd);
	tell("fcntl's duplicate", fcntl(opened(), F_DUPFD, 100));
}

static void closes(void)
{
	int fd = opened();

	close(fd);
	must(file() == fd, "the same number");
	tell("closed, and another file", fd);
	close(fd);
	tell("closed", fd);
	must(opened() == fd, "the same number");
	tell("opened again", fd);
	must(!close_range(fd, fd + 5, 0), "close_range");
	must(file() == fd, "the same number");
	tell("a range closed, and another file", fd);
	close(fd);
	must(opened() == fd, "the same number");
	must(!close_range(fd + 1, fd + 5, 0), "close_range");
	tell("a range behind it closed", fd);
	must(!close_range(0x7ffffff0, ~0U, CLOSE_RANGE_UNSHARE), "close_range");
	tell("a table of its own", fd);
}

static void flags(void)
{
	int fd = opened(), other = opened();

	must(!fcntl(fd, F_SETFD, FD_CLOEXEC) && fcntl(fd, F_GETFL) >= 0, "fcntl");
	tell("flags of the descriptor", fd);
	must(!fcntl(dup(fd), F_SETFL, O_NONBLOCK), "fcntl");
	tell("flags of the file", fd);
	tell("of another one", other);
	fd = opened();
	tell("opened", fd);
	must(!ioctl(fd, FIONBIO, &(int){ 1 }), "FIONBIO");
	tell("FIONBIO", fd);
	tell("O_NONBLOCK", open("/dev/null", O_RDWR | O_NONBLOCK));
	tell("O_APPEND", open("/dev/null", O_RDWR | O_APPEND));
}

/* Each call that opens. */
static void ways(void)
{
	struct open_how how = { .flags = O_RDWR };

	tell("open", syscall(SYS_open, "/dev/null", O_RDWR));
	tell("openat", openat(AT_FDCWD, "/dev/null", O_RDWR));
	tell("openat2", syscall(SYS_openat2, AT_FDCWD, "/dev/null", &how, sizeof(how)));
	printf("creat: %zd\n", write(creat("/dev/null", 0600), "four", 4));
}

/*
 * A file that nobody has any more is closed at once, also beside a child that had it: a lock goes
 * with the last one.
 */
static void released(void)
{
	enum { MANY = 150 };
	int first = opened(), closed[2], last;
	pid_t child;
	char byte;

	must(!flock(first, LOCK_SH) && !pipe(closed), "flock");
	for (int i = 0; i < MANY; i++)
		must(!flock(opened(), LOCK_SH), "flock");
	child = fork();
	if (!child) {
		close_range(first, first, 0);
		close_range(closed[1] + 1, ~0U, 0);
		must(write(closed[1], "", 1) == 1, "write");
		pause();
	}
	must(read(closed[0], &byte, 1) == 1, "read");
	last = open("/dev/null", O_WRONLY);
	printf("%s, ", flock(last, LOCK_EX | LOCK_NB) ? strerrorname_np(errno) : "locked");
	close(first);
	close_range(closed[1] + 1, last - 1, 0);
	printf("%s\n", flock(last, LOCK_EX | LOCK_NB) ? strerrorname_np(errno) : "locked");
	fflush(stdout);
	kill(child, SIGKILL);
	wait(NULL);
}

static void of_child(const char *what, int fd, long flags)
{
	pid_t child = flags ? syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0) : fork();

	must(child >= 0, "fork");
	if (!child) {
		tell("in the child", fd);
		if (flags & CLONE_FILES)
			must(dup2(file(), fd) == fd, "dup2");
		_exit(0);
	}
	must(waitpid(child, NULL, 0) == child, "waitpid");
	tell(what, fd);
}

static void children(void)
{
	of_child("after a fork", opened(), 0);
	of_child("after a fork with its table", opened(), CLONE_FILES);
	tell("opened", opened());
}

static void *with_own_table(void *fd)
{
	tell("in a thread", *(int *)fd);
	must(!unshare(CLONE_FILES), "unshare");
	tell("in a thread with a table of its own", *(int *)fd);
	tell("opened there", opened());
	return NULL;
}

static void threads(void)
{
	int fd = opened();
	pthread_t thread;

	must(!pthread_create(&thread, NULL, with_own_table, &fd), "pthread_create");
	pthread_join(thread, NULL);
	tell("beside it", fd);
}

static atomic_int runs = 1;

static int own_descriptors(void *fd)
{
	close((int)(long)fd);
	runs = 0;
	syscall(SYS_exit, 0);
	return 0;
}

/* Of a thread without CLONE_FILES. */
static void apart(void)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	int fd = opened();

	tell("opened", fd);
	must(clone(own_descriptors, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, (void *)(long)fd) > 0, "clone");
	while (runs)
		sched_yield();
	tell("beside a thread with its own", fd);
	tell("opened", opened());
}

static void namespaces(void)
{
	int fd = opened(), own = open("/proc/self/ns/uts", O_RDONLY);

	tell("opened", fd);
	must(!setns(own, CLONE_NEWUTS), "setns");
	tell("after setns", fd);
}

static void *closes_unseen(void *fd)
{
	must(is_out() == 1, "outside");
	close(*(int *)fd);
	return NULL;
}

static void utility(void)
{
	int fd = opened();

	tell("opened", fd);
	pthread_join(outside(closes_unseen, &fd), NULL);
	must(file() == fd, "the same number");
	tell("closed by a utility thread, and another file", fd);
}

static void ring(void)
{
	struct io_uring_params params = {};
	int fd = opened();

	tell("opened", fd);
	must(syscall(SYS_io_uring_setup, 4, &params) >= 0, "io_uring_setup");
	tell("beside a ring of io_uring", fd);
}

/* A ring that is inherited, by which the child closes. */
static void inherited(void)
{
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 4, &params), fd;
	char *rings = mmap(NULL, params.sq_off.array + params.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);

	must(ring >= 0 && rings != MAP_FAILED && (void *)entries != MAP_FAILED, "a ring");
	if (fork()) {
		wait(NULL);
		return;
	}
	fd = opened();
	tell("opened", fd);
	memset(entries, 0, sizeof(*entries));
	entries[0].opcode = IORING_OP_CLOSE;
	entries[0].fd = fd;
	((unsigned *)(rings + params.sq_off.array))[0] = 0;
	__atomic_store_n((unsigned *)(rings + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	must(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1, "io_uring_enter");
	must(file() == fd, "the same number");
	tell("closed by a ring, and another file", fd);
	exit(0);
}

static void listener(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };
	int fd = opened();

	tell("opened", fd);
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) >= 0, "seccomp");
	tell("beside a listener", fd);
}

/* Of a program that has a filter no call is taken from its worker. */
static void filtered(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
	tell("opened with a filter", opened());
	if (!fork()) {
		tell("opened by a child with it", opened());
		exit(0);
	}
	wait(NULL);
}

static void sent(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	char byte = 'x';
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	int fd = opened(), ends[2], received;

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	must(sendmsg(ends[0], &message, 0) == 1 && recvmsg(ends[1], &message, 0) == 1, "a message");
	memcpy(&received, CMSG_DATA(&control.head), sizeof(received));
	tell("received", received);
	tell("sent", fd);
}

static void execs(void)
{
	char number[16];

	sprintf(number, "%d", opened());
	execl("/proc/self/exe", "claimed-descriptors", path, "told", number, NULL);
}

/* ---- at once ---- */

static atomic_long wrong, driver;

/* Opens, reads and closes: what another thread closed just now has the same number. */
static void *opens_and_closes(void *argument)
{
	long rounds = by_tier(1000, 20000);

	(void)argument;
	for (long i = 0; i < rounds; i++) {
		int is_file = i % 3 == 0, fd = is_file ? file() : opened();
		const char *by = reader(fd);

		driver += !strcmp(by, "driver");
		wrong += is_file ? strcmp(by, "file") : strcmp(by, "driver") && strcmp(by, "Linux");
		if (i % 5 == 0) {
			int other = is_file ? opened() : file();

			must(dup2(other, fd) == fd, "dup2");
			close(other);
			by = reader(fd);
			wrong += is_file ? strcmp(by, "driver") && strcmp(by, "Linux") : strcmp(by, "file");
			close_range(fd, fd, 0);
			continue;
		}
		close(fd);
	}
	return NULL;
}

static void at_once(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		must(!pthread_create(&threads[i], NULL, opens_and_closes, NULL), "pthread_create");
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("wrong: %ld, by the driver: %d\n", wrong, driver > by_tier(1000, 20000));
}

/* ---- what others do to it ---- */

enum { FIRST = 3, NUMBERS = 12 };

static void *opens(void *argument)
{
	long rounds = by_tier(200, 2000);

	(void)argument;
	for (long i = 0; i < rounds; i++) {
		int fd = open("/dev/null", O_RDWR);

		driver += fd >= 0 && !strcmp(reader(fd), "driver");
		if (fd >= FIRST + NUMBERS)
			close(fd);
	}
	return NULL;
}

static void *replaces(void *argument)
{
	long rounds = by_tier(400, 4000);
	int own = file();

	(void)argument;
	for (long i = 0; i < rounds; i++) {
		int number = FIRST + i * 7 % NUMBERS;

		if (number == own)
			continue;
		if (i % 3)
			close(number);
		else
			dup2(own, number);
	}
	return NULL;
}

/* Threads open, and another one closes and replaces what they have opened. */
static void foreign(void)
{
	void *(*const bodies[])(void *) = { opens, opens, replaces };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		must(!pthread_create(&threads[i], NULL, bodies[i], NULL), "pthread_create");
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int fd = FIRST; fd < FIRST + NUMBERS; fd++) {
		struct stat stat;
		const char *by = reader(fd);

		if (fstat(fd, &stat))
			wrong += strcmp(by, "EBADF");
		else if (S_ISREG(stat.st_mode))
			wrong += !strcmp(by, "driver");
	}
	printf("wrong: %ld, by the driver: %d\n", wrong, driver > 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(void);
	} cases[] = { { "calls", calls }, { "duplicates", duplicates }, { "closes", closes }, { "flags", flags },
		      { "children", children }, { "threads", threads }, { "utility", utility }, { "ring", ring },
		      { "listener", listener }, { "sent", sent }, { "execs", execs }, { "at-once", at_once },
		      { "apart", apart }, { "namespaces", namespaces }, { "inherited", inherited }, { "ways", ways },
		      { "released", released }, { "filtered", filtered }, { "foreign", foreign } };

	path = argc > 2 ? argv[1] : "";
	if (argc > 3) {
		tell("in the next program", atoi(argv[3]));
		tell("opened by it", opened());
		return 0;
	}
	for (size_t i = 0; argc > 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[2], cases[i].name)) {
			cases[i].body();
			return 0;
		}
	fprintf(stderr, "claimed-descriptors FILE CASE\n");
	return 1;
}
