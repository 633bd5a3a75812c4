/* RLIMIT_SIGPENDING binds the signals and timers of all processes of a user together. */
#include "guest.h"

#define USER 61234

static int queue(pid_t pid, int most)
{
	union sigval value = { .sival_int = 1 };
	int queued = 0;

	while (queued < most && !sigqueue(pid, SIGRTMIN, value))
		queued++;
	return queued;
}

static void step(int *from, int *to)
{
	char byte;

	if (to)
		write(to[1], "x", 1);
	if (from)
		read(from[0], &byte, 1);
}

int main(void)
{
	struct rlimit limit = { 10, 10 };
	int there[2], go[2], status;
	sigset_t blocked;
	timer_t timer;
	pid_t other;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	setrlimit(RLIMIT_SIGPENDING, &limit);
	if (setresuid(USER, USER, USER)) {
		perror("setresuid");
		return 1;
	}
	pipe(there);
	pipe(go);
	other = fork();
	if (!other) {
		printf("the first one queues %d\n", queue(getpid(), 6));
		fflush(stdout);
		step(go, there);
		_exit(0);
	}
	step(there, NULL);
	printf("the other one queues %d\n", queue(getpid(), 20));
	printf("then %s\n", queue(getpid(), 1) ? "one more" : strerrorname_np(errno));
	printf("to the first one %s\n", queue(other, 1) ? "one more" : strerrorname_np(errno));
	printf("a timer: %s\n", timer_create(CLOCK_MONOTONIC, NULL, &timer) ? strerrorname_np(errno) : "made");
	step(NULL, go);
	waitpid(other, &status, 0);
	printf("when the first one has ended %d\n", queue(getpid(), 20));
	sigtimedwait(&blocked, NULL, &(struct timespec){ 0 });
	printf("a timer: %s\n", timer_create(CLOCK_MONOTONIC, NULL, &timer) ? strerrorname_np(errno) : "made");
	printf("in its place %d\n", queue(getpid(), 20));
	return 0;
}
