/* seccomp: which listeners a filter may have, and what is told of them. */
#include "guest.h"
#include "listener.h"
#include <poll.h>
#include <pthread.h>

/* A filter that answers getppid and getsid. */
static int answer(unsigned value, unsigned long flags)
{
	struct sock_filter all[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, value),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return set_filter(all, COUNT(all), flags);
}

static int listen_to(unsigned long flags)
{
	return answer(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER | flags);
}

/* A thread with a filter of its own. */
static void *waits(void *unused)
{
	TELL(listen_to(0) >= 0);
	pause();
	return unused;
}

static void flags(void)
{
	static const unsigned actions[] = { SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO,
					    SECCOMP_RET_USER_NOTIF, SECCOMP_RET_TRACE, SECCOMP_RET_LOG, SECCOMP_RET_ALLOW, 0x12340000 };
	struct seccomp_notif_sizes sizes;
	struct pollfd poll_one = { .events = POLLIN };
	pthread_t thread;

	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]));
	TELL(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes));
	printf("%d %d %d\n", sizes.seccomp_notif, sizes.seccomp_notif_resp, sizes.seccomp_data);
	TELL(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 1, &sizes));
	TELL(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, NULL));
	TELL(listen_to(SECCOMP_FILTER_FLAG_TSYNC));
	TELL(listen_to(1 << 12));
	struct sock_filter allows[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

	TELL(set_filter(allows, 1, FLAG_WAIT_KILLABLE_RECV));
	pthread_create(&thread, NULL, waits, NULL);
	usleep(300000);
	TELL(listen_to(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH));
	poll_one.fd = listen_to(0);
	TELL(poll_one.fd >= 0);
	TELL(poll(&poll_one, 1, 0));
	TELL(listen_to(0));
	close(poll_one.fd);
	TELL(getppid()); /* no supervisor listens */
	TELL(getsid(0));
	TELL(listen_to(0)); /* there is room for another one */
}

static void all_threads(void)
{
	int listener = listen_to(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);

	TELL(listener >= 0);
	TELL(listen_to(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH));
}

/*
 * An error stands before a listener, which would not answer here, whichever filter is the outer
 * one; a tracer stands behind it.
 */
static void order(unsigned before, unsigned after)
{
	int listener;

	if (before)
		TELL(answer(before, 0));
	listener = listen_to(0);
	TELL(listener >= 0);
	if (after)
		TELL(answer(after, 0));
	if (((before | after) & SECCOMP_RET_ACTION) == SECCOMP_RET_TRACE)
		close(listener);
	TELL(syscall(SYS_getppid));
	TELL(syscall(SYS_getsid, 0));
}

static void error_before(void)
{
	order(SECCOMP_RET_ERRNO | EBADSLT, 0);
}

static void error_after(void)
{
	order(0, SECCOMP_RET_ERRNO | EBADSLT);
}

static void tracer_after(void)
{
	order(0, SECCOMP_RET_TRACE);
}

static void child(void (*act)(void))
{
	fflush(stdout);
	if (!fork()) {
		act();
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

int main(void)
{
	child(flags);
	child(all_threads);
	child(error_before);
	child(error_after);
	child(tracer_after);
	return 0;
}
