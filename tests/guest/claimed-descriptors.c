/*
 * Descriptors that the tests' driver claims: those of /dev/null (boot option claim=1:3). The driver
 * reads zeros there, and Linux nothing. So each case says who served a read: "driver", or "Linux";
 * "file" is what a file holds that has taken the descriptor's place.
 */
#include "utility.h"
#include <linux/io_uring.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
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
	tell("opened", opened());
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
	must(!unshare(CLONE_FILES), "unshare");
	must(dup2(file(), *(int *)fd) == *(int *)fd, "dup2");
	tell("in a thread with a table of its own", *(int *)fd);
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

static void *closes_unseen(void *fd)
{
	must(dup2(file(), *(int *)fd) == *(int *)fd, "dup2");
	return NULL;
}

static void utility(void)
{
	int fd = opened();

	tell("opened", fd);
	pthread_join(outside(closes_unseen, &fd), NULL);
	tell("beside a utility thread", fd);
}

static void ring(void)
{
	struct io_uring_params params = {};
	int fd = opened();

	tell("opened", fd);
	must(syscall(SYS_io_uring_setup, 4, &params) >= 0, "io_uring_setup");
	tell("beside a ring of io_uring", fd);
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
	printf("wrong: %ld, by the driver: %d\n", wrong, driver > 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(void);
	} cases[] = { { "calls", calls }, { "duplicates", duplicates }, { "closes", closes }, { "flags", flags },
		      { "children", children }, { "threads", threads }, { "utility", utility }, { "ring", ring },
		      { "listener", listener }, { "sent", sent }, { "execs", execs }, { "at-once", at_once } };

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
