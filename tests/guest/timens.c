/* Time namespaces: which clocks differ, for whom, and sleeps and timeouts by them. */
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
		alarm(120);
		days(who);
		sleeps();
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	return status;
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
		char text[8][24], *args[9] = { argv[0] };

		for (int i = 0; i < 7; i++) {
			snprintf(text[i], sizeof(text[i]), "%ld", began[i].tv_sec);
			args[i + 1] = text[i];
		}
		args[8] = NULL;
		execv(argv[0], args);
		_exit(9);
	}
	wait(NULL);
	days("parent");
	return 0;
}
