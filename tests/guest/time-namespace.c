/* Time namespaces: which clocks are shifted for which processes; sleeps and timeouts by them. */
#include "guest.h"
#include <linux/futex.h>
#include <sched.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define DAY 86400L

static struct timespec began[12];
static const int clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
			      CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI };

/* Days by which each clock differs from what it was at the start, by the vDSO and by the call. */
static void days(const char *who)
{
	for (unsigned int i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
		struct timespec a, b;

		clock_gettime(clocks[i], &a);
		syscall(SYS_clock_gettime, clocks[i], &b);
		printf("%s: clock %d: %ld %ld\n", who, clocks[i], (a.tv_sec - began[i].tv_sec + 1000) / DAY,
		       (b.tv_sec - began[i].tv_sec + 1000) / DAY);
	}
	struct timeval v;

	gettimeofday(&v, NULL);
	printf("%s: %ld %ld\n", who, (v.tv_sec - began[0].tv_sec + 1000) / DAY, (time(NULL) - began[0].tv_sec + 1000) / DAY);
	fflush(stdout);
}

static void sleeps(void)
{
	int word = 0;
	struct timespec now, end;
	const int by[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME };

	for (int i = 0; i < 3; i++) {
		clock_gettime(by[i], &now);
		now.tv_sec += 1;
		TELL(clock_nanosleep(by[i], TIMER_ABSTIME, &now, NULL));
		clock_gettime(by[i], &end);
		printf("late by less than a minute: %d\n", end.tv_sec >= now.tv_sec && end.tv_sec < now.tv_sec + 60);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	now.tv_sec += 1;
	TELL(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &now, NULL, -1));
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("late by less than a minute: %d\n", end.tv_sec >= now.tv_sec && end.tv_sec < now.tv_sec + 60);
}

static int child(const char *who, int space)
{
	int status;

	fflush(stdout);
	if (!fork()) {
		if (space >= 0)
			TELL(setns(space, CLONE_NEWTIME));
		alarm(600);
		days(who);
		sleeps();
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	return status;
}

/* ---- execve, which begins what unshare and clone of shared memory have made ---- */

static char *program[9], *stack;
static int own;

static void sets(int day)
{
	int offsets = open("/proc/self/timens_offsets", O_WRONLY);

	TELL(dprintf(offsets, "1 %ld 0\n7 %ld 5\n", day * DAY, day * DAY) > 0);
	close(offsets);
}

/* Unshares itself (unless its creator did), then runs the program. */
static int runs(void *unshares)
{
	struct stat now;

	if (unshares)
		TELL(unshare(CLONE_NEWTIME));
	sets(5);
	days("before exec");
	stat("/proc/self/ns/time", &now);
	printf("same namespace %d\n", (int)now.st_ino == own);
	fflush(stdout);
	execv(*program, program);
	_exit(9);
}

static void begun_by_exec(void)
{
	struct { uint64_t flags, pidfd, child, parent, signal, stack, size, tls; } clone3 = {
		CLONE_VM | CLONE_VFORK | CLONE_NEWTIME, 0, 0, 0, SIGCHLD, 0, 0, 0
	};
	struct stat now;
	int status = -1;

	stat("/proc/self/ns/time", &now);
	own = now.st_ino;
	if (!fork())
		runs(&own);
	wait(&status);
	printf("unshared: %x\n", status);
	fflush(stdout);
	waitpid(clone(runs, stack + (64 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, &own), &status, 0);
	printf("unshared after vfork: %x\n", status);
	fflush(stdout);
	/* As vfork: on the same stack. */
	long pid = syscall(SYS_clone3, &clone3, sizeof(clone3));
	if (pid == 0)
		runs(NULL);
	printf("vfork in another: %d", pid > 0 && waitpid(pid, &status, 0) == pid);
	printf(" %x\n", status);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int offsets, old = open("/proc/self/ns/time", O_RDONLY);

	for (unsigned int i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
		clock_gettime(clocks[i], &began[i]);
	if (argc > 1) {
		for (unsigned int i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
			began[i].tv_sec = atol(argv[i + 1]);
		days("exec");
		return 0;
	}
	static char text[7][24];

	program[0] = argv[0];
	for (int i = 0; i < 7; i++) {
		snprintf(text[i], sizeof(text[i]), "%ld", began[i].tv_sec);
		program[i + 1] = text[i];
	}
	stack = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/*
	 * In another process: memory shared by two namespaces has one clock page, and Linux' vDSO
	 * is wrong in it.
	 */
	fflush(stdout);
	if (!fork()) {
		begun_by_exec();
		return 0;
	}
	wait(NULL);
	days("first");
	TELL(unshare(CLONE_NEWTIME));
	offsets = open("/proc/self/timens_offsets", O_WRONLY);
	TELL(dprintf(offsets, "1 %ld 0\n7 %ld 5\n", 3 * DAY, 7 * DAY));
	close(offsets);
	days("parent");
	TELL(child("child", -1));
	TELL(child("back", old));
	fflush(stdout);
	if (!fork()) { /* a program, and its child's program */
		execv(*program, program);
		_exit(9);
	}
	wait(NULL);
	days("parent");
	return 0;
}
