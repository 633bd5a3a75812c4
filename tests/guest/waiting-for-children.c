/* Waiting for children: waitid, process groups, sessions, orphans, pidfds, vfork, posix_spawn. */
#include "guest.h"
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>

static int child(int (*body)(void))
{
	int pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(body());
	return pid;
}

static int seven(void) { return 7; }
static int told[2]; /* a pipe: it has been seen that it goes on */
static int stopping(void) { char c; raise(SIGSTOP); return read(told[0], &c, 1) == 1 ? 3 : 4; }
static int dying(void) { kill(getpid(), SIGKILL); return 0; }
static int resting(void) { sleep(100); return 0; }

static void tell(const char *what, int result, const siginfo_t *info, int pid)
{
	printf("%s: %d, code %d, status %d, the child %d\n", what, result, info->si_code, info->si_status,
	       info->si_pid == pid);
}

static void waitids(void)
{
	siginfo_t info = { };
	int pid = child(seven), fd;

	tell("left", waitid(P_PID, pid, &info, WEXITED | WNOWAIT), &info, pid);
	tell("again", waitid(P_ALL, 0, &info, WEXITED), &info, pid);
	TELL(waitid(P_PID, pid, &info, WEXITED));
	TELL(waitid(P_ALL, 0, &info, 0));
	pid = child(resting);
	info.si_pid = 1;
	TELL(waitid(P_PID, pid, &info, WEXITED | WNOHANG));
	printf("nothing yet %d\n", info.si_pid);
	fd = syscall(SYS_pidfd_open, pid, 0);
	TELL(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
	TELL(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
	struct pollfd p = { fd, POLLIN };
	TELL(poll(&p, 1, -1));
	tell("by pidfd", waitid(P_PIDFD, fd, &info, WEXITED), &info, pid);
	TELL(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
	close(fd);
	TELL(syscall(SYS_pidfd_open, -1, 0));
	pipe(told);
	pid = child(stopping);
	tell("stopped", waitid(P_PID, pid, &info, WSTOPPED), &info, pid);
	kill(pid, SIGCONT);
	tell("continued", waitid(P_PID, pid, &info, WCONTINUED), &info, pid);
	write(told[1], "x", 1);
	tell("left", waitid(P_PGID, getpgrp(), &info, WEXITED), &info, pid);
	pid = child(dying);
	tell("killed", waitid(P_PID, pid, &info, WEXITED), &info, pid);
}

static void getfd(void)
{
	int pid, fd, pipes[2];
	char c = 0;

	pipe(pipes);
	fflush(stdout);
	if ((pid = fork()) == 0) {
		dup2(pipes[1], 50);
		write(50, "r", 1);
		pause();
	}
	read(pipes[0], &c, 1);
	fd = syscall(SYS_pidfd_open, pid, 0);
	int theirs = syscall(SYS_pidfd_getfd, fd, 50, 0);
	printf("a descriptor of the child's: %d\n", theirs >= 0);
	write(theirs, "x", 1);
	read(pipes[0], &c, 1);
	printf("through it: %c\n", c);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int session(void)
{
	return setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid();
}

static void groups(void)
{
	int status, pid = child(session), other;

	waitpid(pid, &status, 0);
	printf("a session of its own: %d\n", WEXITSTATUS(status));
	pid = child(resting);
	TELL(setpgid(pid, pid));
	other = child(resting);
	TELL(setpgid(other, pid));
	printf("one group: %d\n", getpgid(other) == pid);
	TELL(kill(-pid, SIGUSR1));
	waitpid(-pid, &status, 0);
	printf("signal %d\n", WTERMSIG(status));
	waitpid(-pid, &status, 0);
	printf("signal %d\n", WTERMSIG(status));
	TELL(waitpid(-pid, &status, 0));
	TELL(kill(-pid, 0));
}

static int leaves_an_orphan(void)
{
	if (fork() == 0) {
		while (getppid() == 0)
			;
		usleep(100000);
		_exit(9);
	}
	return 0;
}

static void orphans(void)
{
	int status, pid;

	TELL(prctl(PR_SET_CHILD_SUBREAPER, 1));
	pid = child(leaves_an_orphan);
	waitpid(pid, &status, 0);
	pid = wait(&status);
	printf("an orphan came home: %d, status %d\n", pid > 0, WEXITSTATUS(status));
	TELL(prctl(PR_SET_CHILD_SUBREAPER, 0));
}

static int pipes[2];

static int dies_first(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGUSR2);
		write(pipes[1], "r", 1);
		pause();
	}
	char c;
	read(pipes[0], &c, 1);
	return 0;
}

static void death_of_the_parent(void)
{
	int status;

	pipe(pipes);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	waitpid(child(dies_first), NULL, 0);
	wait(&status);
	printf("told by signal %d\n", WTERMSIG(status));
}

static volatile int shared_by_vfork;
static volatile int untouched[100000];

static void vforked(void)
{
	int pid, status, local = 1;

	fflush(stdout);
	pid = vfork();
	if (pid == 0) {
		shared_by_vfork = 5;
		*(volatile int *)&local = 2;
		/* Neighbours of pages without a user. */
		for (int n = 10000; n < 60000; n += 5000)
			untouched[n] = n;
		_exit(4);
	}
	printf("vfork: %d %d %d %d %d\n", shared_by_vfork, *(volatile int *)&local, untouched[10000],
	       untouched[50000], untouched[55000]);
	waitpid(pid, &status, 0);
	printf("status %d\n", WEXITSTATUS(status));
	pid = vfork();
	if (pid == 0) {
		shared_by_vfork = 8;
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	printf("vfork and exec: %d\n", shared_by_vfork);
	waitpid(pid, &status, 0);
	char *arguments[] = { "x", NULL };
	printf("%d\n", posix_spawn(&pid, "/nonexistent", NULL, NULL, arguments, environ));
	printf("%d\n", posix_spawn(&pid, "/etc/passwd", NULL, NULL, arguments, environ));
	TELL(waitpid(-1, &status, 0));
	arguments[0] = "true";
	TELL(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ));
	waitpid(pid, &status, 0);
	printf("status %d\n", status);
}

/* A child that is told to have stopped computes no more. */
static volatile long *turns;
static int turning(void) { for (;;) ++*turns; return 0; }

/* Stops it and lets it go on forty times: how often it computed although it had stopped. */
static int stops(int pid, int *wrong)
{
	int moved = 0, status = 0;

	for (int i = 0; i < 40; i++) {
		siginfo_t info = { };
		long before;

		kill(pid, SIGSTOP);
		if (i & 1)
			*wrong += waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status);
		else
			*wrong += waitid(P_PID, pid, &info, WSTOPPED) || info.si_code != CLD_STOPPED;
		before = *turns;
		usleep(10000);
		moved += *turns != before;
		kill(pid, SIGCONT);
		*wrong += waitpid(pid, &status, WCONTINUED) != pid || !WIFCONTINUED(status);
		for (int j = 0; j < 10000 && *turns == before; j++)
			usleep(1000);
		*wrong += *turns == before;
	}
	return moved;
}

static void stopped(void)
{
	int moved, wrong = 0, tries = 0, pid;

	turns = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = child(turning);
	while (!*turns)
		usleep(1000);
	/*
	 * A CPU of a busy host may stand still for longer than the LWK waits for it to hear of the
	 * stop (PAUSES_NS in kernel/src/process/waited.rs). That happens once in a while; a kernel
	 * that does not wait meets it each time.
	 */
	do
		moved = stops(pid, &wrong);
	while (moved && ++tries < 5);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("stopped, it went on %d times; wrong %d\n", moved, wrong);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	waitids();
	stopped();
	getfd();
	groups();
	orphans();
	vforked();
	death_of_the_parent();
	return 0;
}
