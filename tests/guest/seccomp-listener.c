/*
 * seccomp: a supervisor decides about calls of its target (SECCOMP_RET_USER_NOTIF).
 *
 *   seccomp-listener                    supervisor and target are processes of this program
 *   seccomp-listener supervise SOCKET   a supervisor, for one target
 *   seccomp-listener target SOCKET      a target, whose supervisor is another program
 *
 * What the supervisor is to do about a call stands in the call's sixth argument, which no call here
 * uses.
 */
#include "guest.h"
#include "listener.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>

#define MARK 0x7ab00000UL
#define NUMBER_UNKNOWN 5000

/* A multiple of the page size: mmap wants that. */
enum { VALUE = 1, ERROR, GO_ON, ADD, ADD_AND_SEND, SET, SLOW, WRONG, FILL, HOLD, DIE, PAIR, ABSENT };
#define DO(what) (MARK | (unsigned long)(what) << 12)
#define WHAT(notif) ((notif)->data.args[5] >> 12 & 0xff)

/* No later call of libc's is to have the mark in a register that it does not set. */
static __attribute__((noinline)) long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long fourth asm("r10") = d, fifth asm("r8") = e, sixth asm("r9") = f;
	long result;

	asm volatile("syscall; xor %%r9d, %%r9d"
		     : "=a"(result), "+r"(sixth)
		     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
		     : "rcx", "r11", "memory");
	if (result < 0 && result > -4096) {
		errno = -result;
		return -1;
	}
	return result;
}

#define PLAIN(number) call(number, 0, 0, 0, 0, 0, 0)
/* The fourth argument names the caller. */
#define CALL(number, a, b, c, what) call(number, (long)(a), (long)(b), c, PLAIN(SYS_gettid), 0, DO(what))

static int listen_to(unsigned long flags)
{
	struct sock_filter all[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0), /* of a handler that interrupted a marked call */
		LOAD(args[5]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff00000),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return set_filter(all, COUNT(all), SECCOMP_FILTER_FLAG_NEW_LISTENER | flags);
}

static void give(int socket, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec io = { &byte, 1 };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	if (sendmsg(socket, &message, 0) != 1)
		_exit(40);
	close(fd);
}

static int taken(int socket)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec io = { &byte, 1 };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	int fd = -1;

	if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		_exit(41);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* ---- the supervisor ---- */

static int reply(int listener, unsigned long long id, long value, int error, unsigned flags)
{
	struct seccomp_notif_resp resp = { .id = id, .val = value, .error = error, .flags = flags };

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static int memory_of(const struct seccomp_notif *notif)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", notif->pid);
	return open(path, O_RDWR);
}

static void read_text(const struct seccomp_notif *notif, char text[64])
{
	int memory = memory_of(notif);

	memset(text, 0, 64);
	if (pread(memory, text, 63, notif->data.args[0]) < 1)
		strcpy(text, "(not read)");
	close(memory);
}

static int add(int listener, unsigned long long id, unsigned flags, unsigned number)
{
	int pipes[2], added;

	pipe(pipes);
	write(pipes[1], "added", 5);
	added = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD,
		      &(struct seccomp_notif_addfd){ .id = id, .flags = flags, .srcfd = pipes[0], .newfd = number });
	close(pipes[0]);
	close(pipes[1]);
	return added;
}

/* What the supervisor has seen while its target went on: to be told when that waits, or is gone. */
static char later[128];

/* Until no target waits for an answer any more: the target gets the signal that its call names. */
static void hold(int listener, const struct seccomp_notif *notif)
{
	unsigned long long id = notif->id;
	const char *until;
	int tries = 0;

	kill(notif->pid, notif->data.args[0]);
	while (!ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) && tries++ < 3000)
		usleep(10000);
	until = strerrorname_np(errno);
	reply(listener, id, 1, 0, 0);
	snprintf(later, sizeof(later), "supervisor: held until %s, late answer %s\n", until, strerrorname_np(errno));
}

static void tell_later(void)
{
	fputs(later, stdout);
	later[0] = 0;
}

static void decide(int listener, struct seccomp_notif *notif)
{
	unsigned long long id = notif->id;
	int number = notif->data.nr, added;
	static struct seccomp_notif first;
	char text[64];

	if (number == SYS_execve) {
		read_text(notif, text);
		printf("supervisor: execve of %s\n", text);
		if (strstr(text, "true"))
			reply(listener, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		else
			reply(listener, id, 0, -EACCES, 0);
		return;
	}
	if (WHAT(notif) != PAIR)
		printf("supervisor: call %d, its thread's %d, %d\n", number, notif->pid == (unsigned)notif->data.args[3],
		       (int)WHAT(notif));
	switch (WHAT(notif)) {
	case VALUE:
		reply(listener, id, 77, 0, 0);
		break;
	case ERROR:
		reply(listener, id, 0, -EXDEV, 0);
		break;
	case ABSENT: /* not GO_ON, whichever kernel serves the call */
		reply(listener, id, 0, -ENOSYS, 0);
		break;
	case GO_ON:
		reply(listener, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		break;
	case ADD:
		added = add(listener, id, 0, 0);
		reply(listener, id, added, 0, 0);
		break;
	case ADD_AND_SEND:
		add(listener, id, SECCOMP_ADDFD_FLAG_SEND, 0); /* the target goes on, and tells what it got */
		break;
	case SET:
		printf("supervisor: added as %d\n", add(listener, id, SECCOMP_ADDFD_FLAG_SETFD, 42));
		reply(listener, id, 42, 0, 0);
		break;
	case SLOW:
		kill(notif->pid, notif->data.args[0]);
		usleep(100000);
		reply(listener, id, 78, 0, 0);
		break;
	case WRONG:
		tell_later();
		TELL(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id));
		TELL(reply(listener, id, 1, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
		TELL(reply(listener, id, 0, 0, 1 << 7));
		TELL(reply(listener, id + 1, 1, 0, 0));
		TELL(add(listener, id, 1 << 9, 0));
		TELL(add(listener, id + 1, 0, 0));
		TELL(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notif));
		TELL(ioctl(listener, TCGETS, notif));
		added = reply(listener, id, 79, 0, 0);
		/* It is answered, or gone. */
		snprintf(later, sizeof(later), "supervisor: answered %d, again %d\n", added,
			 reply(listener, id, 80, 0, 0) && (errno == EINPROGRESS || errno == ENOENT));
		break;
	case FILL: {
		struct sysinfo info = { .uptime = 12345, .totalram = 6789, .mem_unit = 1 };
		int memory = memory_of(notif);

		printf("supervisor: filled %d\n", pwrite(memory, &info, sizeof(info), notif->data.args[0]) == sizeof(info));
		close(memory);
		reply(listener, id, 0, 0, 0);
		break;
	}
	case HOLD:
		/* Each second one is answered. */
		if (!later[0]) {
			hold(listener, notif);
			if (notif->data.args[0] == SIGSTOP)
				kill(notif->pid, SIGCONT);
			break;
		}
		tell_later();
		reply(listener, id, 81, 0, 0);
		break;
	case DIE:
		_exit(0);
	case PAIR:
		if (!first.id) {
			first = *notif;
			break;
		}
		printf("supervisor: two calls, of %s threads\n", first.pid == notif->pid ? "the same" : "two");
		reply(listener, id, 100 + notif->data.args[0], 0, 0);
		reply(listener, first.id, 100 + first.data.args[0], 0, 0);
		first.id = 0;
		break;
	}
}

/* Until the target and all its children are gone. */
static void supervise(int listener)
{
	int poll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };

	epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
	for (;;) {
		struct seccomp_notif notif = {};

		if (epoll_wait(poll, &event, 1, 60000) != 1) {
			puts("supervisor: nothing came");
			break;
		}
		if (!(event.events & EPOLLIN))
			break; /* EPOLLHUP */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif)) {
			if (errno != ENOENT)
				printf("supervisor: %s\n", strerrorname_np(errno));
			continue; /* gone meanwhile */
		}
		decide(listener, &notif);
	}
	tell_later();
	puts("supervisor: end");
	close(poll);
	close(listener);
}

/* ---- targets ---- */

static void values(void)
{
	/* Linux makes the first four calls, the LWK serves the others. */
	static const int numbers[] = { SYS_mkdir, SYS_getsid, SYS_socket, SYS_kill, SYS_getppid, SYS_getpid, SYS_futex, SYS_close,
				       SYS_mmap, SYS_timer_create, NUMBER_UNKNOWN };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		TELL(CALL(numbers[i], -1, 0, 0, VALUE));
		TELL(CALL(numbers[i], -1, 0, 0, ERROR));
		TELL(CALL(numbers[i], -1, 0, 0, ABSENT));
	}
}

static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void goes_on(void)
{
	char directory[] = "/tmp/seccomp-listener-XXXXXX";
	int word = 0;
	long pid;
	void *at;

	TELL(mkdtemp(directory) != NULL);
	TELL(CALL(SYS_mkdir, directory, 0755, 0, GO_ON));
	TELL(CALL(SYS_rmdir, directory, 0, 0, GO_ON));
	TELL(CALL(SYS_rmdir, directory, 0, 0, GO_ON));
	TELL(CALL(SYS_getppid, 0, 0, 0, GO_ON) == PLAIN(SYS_getppid));
	TELL(CALL(SYS_getpid, 0, 0, 0, GO_ON) == PLAIN(SYS_getpid));
	TELL(CALL(SYS_gettid, 0, 0, 0, GO_ON) == PLAIN(SYS_gettid));
	TELL(CALL(SYS_futex, &word, FUTEX_WAKE, 1, GO_ON));
	TELL(CALL(SYS_close, -1, 0, 0, GO_ON));
	TELL(CALL(NUMBER_UNKNOWN, 0, 0, 0, GO_ON));
	at = (void *)call(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, DO(GO_ON));
	TELL(at != MAP_FAILED && !*(char *)at);
	TELL(CALL(SYS_munmap, at, PAGE, 0, GO_ON));
	signal(SIGUSR1, handler);
	TELL(CALL(SYS_kill, getpid(), SIGUSR1, 0, GO_ON));
	TELL(CALL(SYS_tgkill, getpid(), PLAIN(SYS_gettid), SIGUSR1, GO_ON));
	TELL(handled);
	fflush(stdout);
	pid = CALL(SYS_clone, SIGCHLD, 0, 0, GO_ON);
	if (!pid) { /* Its calls are the listener's, too. */
		TELL(CALL(SYS_getppid, 0, 0, 0, VALUE));
		TELL(CALL(SYS_mkdir, 0, 0, 0, ERROR));
		_exit(3);
	}
	TELL(waitpid(pid, &word, 0) == pid);
	TELL(WEXITSTATUS(word));
}

static void filled(void)
{
	struct sysinfo info;

	TELL(CALL(SYS_sysinfo, &info, 0, 0, FILL));
	TELL(info.uptime);
	TELL(info.totalram);
}

static void wrong(void)
{
	TELL(CALL(SYS_getppid, 0, 0, 0, WRONG));
	TELL(CALL(SYS_getsid, 0, 0, 0, WRONG));
}

static void descriptors(void)
{
	static const int numbers[] = { SYS_getppid, SYS_openat };
	char text[8];

	for (int i = 0; i < 2; i++) {
		for (int what = ADD; what <= SET; what++) {
			int fd = CALL(numbers[i], 0, 0, 0, what);

			memset(text, 0, sizeof(text));
			read(fd, text, sizeof(text) - 1);
			printf("as %d: %s\n", fd == 42 ? fd : fd > 2, text);
			close(fd);
		}
	}
}

static void executes(void)
{
	TELL(execl("/bin/false", "false", NULL));
	TELL(execl("/bin/true", "true", NULL));
}

static void interrupted(void)
{
	static const int numbers[] = { SYS_getppid, SYS_getsid };

	for (int i = 0; i < 2; i++) {
		for (int restart = 0; restart < 2; restart++) {
			struct sigaction action = { .sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0 };

			sigaction(SIGALRM, &action, NULL);
			TELL(CALL(numbers[i], SIGALRM, 0, 0, HOLD));
			TELL(handled);
			if (!restart)
				TELL(CALL(numbers[i], SIGALRM, 0, 0, HOLD)); /* that one is answered */
		}
		/* It is made again when the process goes on, and told again. */
		TELL(CALL(numbers[i], SIGSTOP, 0, 0, HOLD));
	}
}

/* With FLAG_WAIT_KILLABLE_RECV a signal waits for the answer. */
static void not_interrupted(void)
{
	static const int numbers[] = { SYS_getppid, SYS_getsid };
	struct sigaction action = { .sa_handler = handler };

	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 2; i++) {
		TELL(CALL(numbers[i], SIGALRM, 0, 0, SLOW));
		TELL(handled);
	}
}

static void killed_in(int number, int by)
{
	CALL(number, by, 0, 0, HOLD);
	puts("not killed");
}

static void killed_in_own(void)
{
	killed_in(SYS_getppid, SIGKILL);
}

static void killed_in_linux(void)
{
	killed_in(SYS_getsid, SIGKILL);
}

static void ended_in_own(void)
{
	killed_in(SYS_getppid, SIGTERM);
}

static void ended_in_linux(void)
{
	killed_in(SYS_getsid, SIGUSR1);
}

static void left_alone(void)
{
	TELL(CALL(SYS_getppid, 0, 0, 0, VALUE));
	TELL(CALL(SYS_getppid, 0, 0, 0, DIE));
	TELL(CALL(SYS_getppid, 0, 0, 0, VALUE));
	TELL(CALL(SYS_getsid, 0, 0, 0, VALUE));
	TELL(PLAIN(SYS_getppid) > 0);
	TELL(listen_to(0)); /* the one that there was is gone, its filter is not */
}

static long results[2];

static void *calls(void *which)
{
	long number = (long)which;

	results[number] = CALL(number ? SYS_getppid : SYS_getsid, number, 0, 0, PAIR);
	return NULL;
}

static void threads(void)
{
	pthread_t all[2];

	for (long i = 0; i < 2; i++)
		pthread_create(&all[i], NULL, calls, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(all[i], NULL);
	printf("%ld %ld\n", results[0], results[1]);
}

static void goes(int socket, unsigned long flags, void (*act)(void))
{
	int listener = listen_to(flags);

	TELL(listener >= 0);
	TELL(fcntl(listener, F_GETFD));
	TELL(listen_to(0)); /* there can be one only */
	give(socket, listener);
	close(socket);
	act();
	fflush(stdout);
}

/* A target and a supervisor, which is its parent. */
static void supervised(const char *name, unsigned long flags, void (*act)(void))
{
	int sockets[2], status;
	pid_t target, supervisor;

	printf("-- %s\n", name);
	fflush(stdout);
	socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
	target = fork();
	if (!target) {
		close(sockets[0]);
		goes(sockets[1], flags, act);
		_exit(0);
	}
	close(sockets[1]);
	supervisor = fork();
	if (!supervisor) {
		supervise(taken(sockets[0]));
		_exit(0);
	}
	close(sockets[0]);
	/*
	 * In this order: some versions of Linux tell the supervisor of the end when the target has
	 * been waited for.
	 */
	waitpid(target, &status, 0);
	waitpid(supervisor, NULL, 0);
	printf("-- %s: target %d signal %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fflush(stdout);
}

static int meet(const char *path, int listens)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int one = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(name.sun_path, path, sizeof(name.sun_path) - 1);
	if (!listens) {
		for (int i = 0; i < 1000 && connect(one, (void *)&name, sizeof(name)); i++)
			usleep(10000);
		return one;
	}
	if (bind(one, (void *)&name, sizeof(name)) || listen(one, 1))
		_exit(42);
	return accept(one, NULL, NULL);
}

static void all(void)
{
	values();
	goes_on();
	filled();
	descriptors();
	interrupted();
	executes();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 2 && !strcmp(argv[1], "supervise")) {
		supervise(taken(meet(argv[2], 1)));
		return 0;
	}
	if (argc > 2) {
		goes(meet(argv[2], 0), 0, all);
		return 0;
	}
	supervised("values", 0, values);
	supervised("goes-on", 0, goes_on);
	supervised("filled", 0, filled);
	supervised("wrong", 0, wrong);
	supervised("descriptors", 0, descriptors);
	supervised("executes", 0, executes);
	supervised("interrupted", 0, interrupted);
	supervised("not-interrupted", FLAG_WAIT_KILLABLE_RECV, not_interrupted);
	supervised("killed-in-own", 0, killed_in_own);
	supervised("killed-in-linux", FLAG_WAIT_KILLABLE_RECV, killed_in_linux);
	supervised("ended-in-own", FLAG_WAIT_KILLABLE_RECV, ended_in_own);
	supervised("ended-in-linux", FLAG_WAIT_KILLABLE_RECV, ended_in_linux);
	supervised("left-alone", 0, left_alone);
	supervised("threads", 0, threads);
	return 0;
}
