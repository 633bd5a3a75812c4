/*
 * A thread that has ended is none to Linux: not for what only a process of one thread may do, not
 * for its descriptors, not for its filters. Linux says what is right. `held`: where threads are
 * held for a while (`hold_ms`), fewer times.
 */
#include "guest.h"
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

static int times;
static volatile pid_t last;

static void *tell(void *argument)
{
	last = syscall(SYS_gettid);
	return argument;
}

static void *filters(void *argument)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		printf("a filter: %s\n", strerrorname_np(errno));
	return tell(argument);
}

/*
 * Linux' own thread may be there a little longer, and has no id any more a moment before it is none
 * of the process'.
 */
static void until_gone(pid_t tid)
{
	for (int i = 0; i < 30000 && !syscall(SYS_tgkill, getpid(), tid, 0); i++)
		usleep(100);
	waitid(P_PID, getpid(), NULL, WEXITED | WNOHANG | WNOWAIT);
}

static void one_thread(void *(*body)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, body, NULL);
	pthread_join(thread, NULL);
	until_gone(last);
}

static int alone(void)
{
	one_thread(tell);
	return unshare(CLONE_NEWUSER) ? errno : 0;
}

static int filtered(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };

	one_thread(filters);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	errno = 0;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? errno ?: 200 : 0;
}

static int fds[2];

static void *looks(void *argument)
{
	*(int *)argument = fcntl(fds[1], F_GETFD) < 0;
	return argument;
}

/* A thread that leaves a table which others seem to have leaves nothing open there. */
static int closed(void)
{
	struct pollfd end = { .events = POLLIN };
	pthread_t thread;
	int is_closed = 0;

	if (pipe(fds))
		return errno;
	one_thread(tell);
	dup2(fds[0], 0);
	if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE))
		return errno;
	if (poll(&end, 1, 5000) != 1 || !(end.revents & POLLHUP))
		return 201;
	pthread_create(&thread, NULL, looks, &is_closed);
	pthread_join(thread, NULL);
	return is_closed ? 0 : 202;
}

/* One of several threads does so: its calls and the others' mean their own tables from then on. */
static volatile int leaves, has_left;

static void *leaver(void *argument)
{
	int wrong = 0;

	while (!leaves)
		usleep(1000);
	wrong += syscall(SYS_close_range, fds[1], fds[1], CLOSE_RANGE_UNSHARE) != 0;
	for (int i = 0; i < 20; i++)
		wrong += fcntl(fds[1], F_GETFD) != -1 || fsync(fds[1]) != -1 || errno != EBADF;
	has_left = 1;
	while (leaves)
		usleep(1000);
	*(int *)argument = wrong;
	return NULL;
}

static void one_of_several(void)
{
	pthread_t thread;
	int wrong = 0, own = 0;

	if (pipe(fds))
		return;
	pthread_create(&thread, NULL, leaver, &wrong);
	leaves = 1;
	while (!has_left)
		usleep(1000);
	for (int i = 0; i < 20; i++)
		own += fcntl(fds[1], F_GETFD) < 0 || write(fds[1], "", 1) != 1;
	leaves = 0;
	pthread_join(thread, NULL);
	printf("one of several leaves the table: %d %d\n", wrong, own);
}

static void often(const char *what, int (*body)(void))
{
	int failed = 0, error = 0;

	for (int i = 0; i < times; i++) {
		pid_t pid = fork();
		int status = 0;

		if (!pid)
			_exit(body());
		waitpid(pid, &status, 0);
		failed += status != 0;
		error = status ? status : error;
	}
	printf("%s: %d failed, %#x\n", what, failed, error);
}

int main(int argc, char **argv)
{
	times = argc > 1 && !strcmp(argv[1], "held") ? 2 : by_tier(8, 40);
	setvbuf(stdout, NULL, _IOLBF, 0);
	often("a user namespace", alone);
	often("a filter for all threads", filtered);
	often("a table of one's own", closed);
	one_of_several();
	return 0;
}
