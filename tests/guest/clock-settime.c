/* clock_settime is seen at once: by the vDSO and by the system call. */
#define _GNU_SOURCE
#include "guest.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* It is set by 1000 s each time, and a busy machine is less late than that. */
static int is_near(time_t seconds, time_t expected)
{
	return seconds >= expected - 5 && seconds < expected + 300;
}

static void look(const char *what, const struct timespec *expected)
{
	struct timespec fast, slow;
	time_t seconds = time(NULL);

	clock_gettime(CLOCK_REALTIME, &fast);
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &slow);
	printf("%s: vdso %d, call %d, time %d\n", what, is_near(fast.tv_sec, expected->tv_sec),
	       is_near(slow.tv_sec, expected->tv_sec), is_near(seconds, expected->tv_sec));
}

int main(void)
{
	struct timespec now, monotonic[2];

	clock_gettime(CLOCK_MONOTONIC, &monotonic[0]);
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += 1000;
	printf("set %d\n", clock_settime(CLOCK_REALTIME, &now));
	look("later", &now);
	now.tv_sec -= 2000;
	printf("set %d\n", clock_settime(CLOCK_REALTIME, &now));
	look("earlier", &now);
	now.tv_sec += 1000;
	printf("set %d\n", clock_settime(CLOCK_REALTIME, &now));
	look("again", &now);
	clock_gettime(CLOCK_MONOTONIC, &monotonic[1]);
	printf("monotonic %d\n", is_near(monotonic[1].tv_sec, monotonic[0].tv_sec));
	clock_getres(CLOCK_MONOTONIC_COARSE, &now);
	printf("tick %ld ns\n", now.tv_nsec);
	return 0;
}
