/* clone and clone3: refused arguments; namespaces, ids and process groups of a new process. */
#define _GNU_SOURCE
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int child(int names)
{
	struct sigaction usr1, usr2;

	sigaction(SIGUSR1, NULL, &usr1);
	sigaction(SIGUSR2, NULL, &usr2);
	if (names)
		sethostname("elsewhere", 9);
	return (usr1.sa_handler == SIG_DFL) | (usr2.sa_handler == SIG_IGN) << 1 | (getpid() == 1) << 2;
}

static void try3(const char *what, struct clone_args args, size_t size)
{
	int pidfd = -1, status = 0;
	long pid;

	if (args.flags & CLONE_PIDFD && !args.pidfd)
		args.pidfd = (uintptr_t)&pidfd;
	errno = 0;
	pid = syscall(SYS_clone3, &args, size);
	if (pid == 0)
		_exit(child((args.flags & CLONE_NEWUTS) != 0));
	if (pid < 0) {
		printf("%s: %s\n", what, strerror(errno));
		return;
	}
	if (pidfd >= 0) {
		struct pollfd end = { .fd = pidfd, .events = POLLIN };

		printf("%s: descriptor, cloexec %d, ", what, fcntl(pidfd, F_GETFD));
		printf("end seen %d\n", poll(&end, 1, -1));
		close(pidfd);
	}
	if (waitpid(pid, &status, args.exit_signal == SIGCHLD ? 0 : __WCLONE) != pid)
		printf("%s: wait: %s\n", what, strerror(errno));
	printf("%s: status %x\n", what, status);
}

static void handler(int signal)
{
	(void)signal;
}

static void refused(void)
{
	const struct clone_args plain = { .exit_signal = SIGCHLD };
	static const struct { const char *name; uint64_t flags; } all[] = {
		{ "sighand", CLONE_SIGHAND }, { "thread", CLONE_THREAD }, { "fs-ns", CLONE_FS | CLONE_NEWNS },
		{ "fs-user", CLONE_FS | CLONE_NEWUSER }, { "detached", CLONE_DETACHED }, { "low", 0x40 },
		{ "high", 1ULL << 40 }, { "parent", CLONE_PARENT },
		{ "both", CLONE_VM | CLONE_SIGHAND | CLONE_CLEAR_SIGHAND },
	};
	struct clone_args args;
	char *end = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		args = plain;
		args.flags = all[i].flags;
		try3(all[i].name, args, sizeof args);
	}
	args = plain, args.exit_signal = 65;
	try3("signal", args, sizeof args);
	args = plain, args.stack = (uintptr_t)end;
	try3("stack", args, sizeof args);
	args = plain, args.stack_size = 4096;
	try3("stack-size", args, sizeof args);
	args = plain, args.set_tid_size = 1;
	try3("ids", args, sizeof args);
	args = plain, args.flags = CLONE_PIDFD, args.pidfd = 8;
	try3("descriptor-nowhere", args, sizeof args);
	args = plain, args.flags = CLONE_INTO_CGROUP, args.cgroup = 77;
	try3("group", args, sizeof args);
	try3("short", plain, 63);
	try3("first-version", plain, 64);
	mprotect(end + 4096, 4096, PROT_NONE);
	memcpy(end + 4096 - sizeof plain, &plain, sizeof plain);
	errno = 0;
	printf("long: %ld ", (long)syscall(SYS_clone3, end + 4096 - sizeof plain, sizeof plain + 1));
	puts(strerror(errno));
}

/* A child may be given a group of its own until it has a program of its own. */
static void groups(void)
{
	int ends[2], stop[2];
	pid_t pid;
	char byte;

	pipe2(ends, O_CLOEXEC);
	pipe2(stop, O_CLOEXEC);
	pid = fork();
	if (pid == 0) {
		dup2(stop[0], 0);
		execl("/bin/cat", "cat", NULL);
		_exit(9);
	}
	close(ends[1]);
	close(stop[0]);
	TELL(read(ends[0], &byte, 1)); /* the end: the program has begun */
	TELL(setpgid(pid, 0));
	close(stop[1]);
	waitpid(pid, NULL, 0);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	TELL(setpgid(pid, 0));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct clone_args plain = { .exit_signal = SIGCHLD };
	struct clone_args args = plain;
	char name[65] = "";
	int pidfd = -1, status;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGUSR1, handler);
	signal(SIGUSR2, SIG_IGN);
	args.flags = CLONE_NEWUTS;
	try3("names", args, sizeof args);
	gethostname(name, sizeof name);
	printf("still %d\n", strcmp(name, "elsewhere") != 0);
	args.flags = CLONE_NEWUTS | CLONE_NEWPID;
	try3("ids-of-its-own", args, sizeof args);
	args.flags = CLONE_NEWUTS | CLONE_PIDFD;
	try3("descriptor", args, sizeof args);
	args.flags = CLONE_NEWUTS | CLONE_CLEAR_SIGHAND;
	try3("handlers", args, sizeof args);
	args.flags = CLONE_NEWUTS, args.exit_signal = 0;
	try3("no-signal", args, sizeof args);
	refused();
	pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
	if (pid == 0)
		_exit(3);
	printf("clone: descriptor %d, ", pidfd >= 0);
	printf("wait %d", waitpid(pid, &status, 0) == pid);
	printf(" status %x\n", status);
	groups();
	return 0;
}
