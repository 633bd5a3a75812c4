/* Resource usage of children that have ended, as getrusage, times, wait4 and waitid tell it. */
#include "guest.h"
#include <sys/times.h>

#define BURN_MS 300
#define MEMORY (48L << 20)

static void burn(void)
{
	struct timespec now;
	volatile long n = 0;

	do {
		for (int i = 0; i < 10000; i++)
			n++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < BURN_MS);
}

static pid_t child(int nested)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (nested) {
		waitpid(child(0), NULL, 0);
	} else {
		char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(memory, 1, MEMORY);
		burn();
	}
	_exit(0);
}

static void tell(const char *what, const struct rusage *usage)
{
	long ms = usage->ru_utime.tv_sec * 1000 + usage->ru_utime.tv_usec / 1000 +
		  usage->ru_stime.tv_sec * 1000 + usage->ru_stime.tv_usec / 1000;

	printf("%s: time %d, memory %d\n", what, (int)(ms >= BURN_MS - 50),
	       usage->ru_maxrss >= MEMORY / 1024);
}

int main(void)
{
	struct timespec begun, now;
	struct rusage usage = {}, before;
	struct tms ticks;
	long elapsed_ms;
	siginfo_t info;
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	getrusage(RUSAGE_CHILDREN, &usage);
	tell("none", &usage);
	pid = child(0);
	printf("waitid %d\n", waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	getrusage(RUSAGE_CHILDREN, &usage);
	tell("not waited for", &usage);
	memset(&usage, 0, sizeof(usage));
	printf("wait4 %d\n", wait4(pid, NULL, 0, &usage) == pid);
	tell("wait4", &usage);
	getrusage(RUSAGE_CHILDREN, &usage);
	tell("children", &usage);
	times(&ticks);
	printf("times %d\n", ticks.tms_cutime + ticks.tms_cstime >= (BURN_MS - 50) / 10);
	pid = child(1);
	memset(&usage, 0, sizeof(usage));
	printf("raw waitid %ld\n", syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, &usage));
	tell("grandchild", &usage);
	getrusage(RUSAGE_CHILDREN, &before);
	child(0);
	printf("waitid of any %ld\n", syscall(SYS_waitid, P_ALL, 0, NULL, WEXITED | WSTOPPED, NULL));
	getrusage(RUSAGE_CHILDREN, &usage);
	timersub(&usage.ru_utime, &before.ru_utime, &usage.ru_utime);
	timersub(&usage.ru_stime, &before.ru_stime, &usage.ru_stime);
	tell("more", &usage);
	signal(SIGCHLD, SIG_IGN);
	child(0);
	TELL(wait4(-1, NULL, 0, &usage));
	TELL(getrusage(-2, &usage));
	getrusage(RUSAGE_CHILDREN, &usage);
	clock_gettime(CLOCK_MONOTONIC, &now);
	elapsed_ms = (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
	/* Two of them run at a time, at most. Where a CPU stands still, its time goes on. */
	printf("as much as there was %d\n", usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000 <= 2 * elapsed_ms + 100);
	return 0;
}
