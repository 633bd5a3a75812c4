/* What the guest programs share. They print what they see; Linux says what is right. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096L
#define PR_HANARE_RUN_ON 0x484e524f

/*
 * A fork that failed gives -1, and kill(-1, signal) reaches every process of the machine that the
 * caller may signal; getppid() gives 0 where the parent is outside, and kill(0, signal) reaches the
 * process group, in which the starter of the program may be. So a program that means either defines
 * KILLS_MANY before it includes this file.
 */
static inline int kill_one(pid_t pid, int signal)
{
	if (signal && (pid == -1 || !pid)) {
		printf("kill(%d, %d) would reach more than one process\n", pid, signal);
		fflush(stdout);
		abort();
	}
	return kill(pid, signal);
}

#ifndef KILLS_MANY
#define kill(pid, signal) kill_one(pid, signal)
#endif

/*
 * A count: that of `make test`, or the full one of `make test-long`, which is also that of a
 * program run by hand.
 */
static inline long by_tier(long test, long full)
{
	const char *tier = getenv("TESTS_TIER");

	return tier && !strcmp(tier, "test") ? test : full;
}

/* Whether Linux executes this program, which then shows what is right, in a shorter run. */
static inline int is_on_linux(void)
{
	return prctl(PR_HANARE_RUN_ON, 2, 0, 0, 0) < 0;
}

/* Prints an expression, its result, and errno by name if that is -1. */
#define TELL(expression)                                                                    \
	({                                                                                  \
		errno = 0;                                                                  \
		long tell_ = (long)(expression);                                            \
		int errno_ = errno;                                                         \
		if (tell_ == -1)                                                            \
			printf("%d: %s: -1 %s\n", __LINE__, #expression,                    \
			       strerrorname_np(errno_));                                    \
		else                                                                        \
			printf("%d: %s: %ld\n", __LINE__, #expression, tell_);              \
		fflush(stdout);                                                             \
		errno = errno_;                                                             \
		tell_;                                                                      \
	})

/* The same for what returns an address: only whether it worked. */
#define TELL_MAP(expression)                                                                \
	({                                                                                  \
		errno = 0;                                                                  \
		void *tell_ = (void *)(expression);                                         \
		int errno_ = errno;                                                         \
		printf("%d: %s: %s\n", __LINE__, #expression,                               \
		       tell_ == MAP_FAILED ? strerrorname_np(errno_) : "ok");               \
		fflush(stdout);                                                             \
		tell_;                                                                      \
	})

/* Does a read or write of this byte raise a signal? Prints which. */
static sigjmp_buf touch_back;
static volatile int touch_signal, touch_code;
static void *volatile touch_address;

static void touch_handler(int signal, siginfo_t *info, void *context)
{
	(void)context;
	touch_signal = signal;
	touch_code = info->si_code;
	touch_address = info->si_addr;
	siglongjmp(touch_back, 1);
}

static inline const char *touch(volatile char *address, int write)
{
	static char text[64];
	struct sigaction action = { .sa_sigaction = touch_handler, .sa_flags = SA_SIGINFO };
	struct sigaction segv, bus;

	sigaction(SIGSEGV, &action, &segv);
	sigaction(SIGBUS, &action, &bus);
	if (sigsetjmp(touch_back, 1)) {
		snprintf(text, sizeof(text), "%s code %d%s", sigabbrev_np(touch_signal), touch_code,
			 touch_address == (void *)address ? "" : " wrong address");
	} else {
		char value = *address;

		if (write)
			*address = value;
		snprintf(text, sizeof(text), "fine");
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
	return text;
}

/* The state of a thread as its file in /proc has it. */
static inline char state_of_task(pid_t pid, pid_t tid)
{
	char name[64], text[300] = "", *end;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(name, O_RDONLY);
	if (fd < 0)
		return '?';
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	end = strrchr(text, ')');
	return end ? end[2] : '?';
}

/*
 * Waits until a thread sleeps: it is found so twenty times in a row, a millisecond apart, since one
 * that makes calls or computes may be shown asleep now and then (process-states.c).
 */
static inline void until_asleep(pid_t pid, pid_t tid)
{
	for (int looks = 0; looks < 20; usleep(1000))
		looks = state_of_task(pid, tid) == 'S' ? looks + 1 : 0;
}

#define TOUCH(address, write)                                                               \
	do {                                                                                \
		printf("%d: %s %s: %s\n", __LINE__, (write) ? "write" : "read", #address,   \
		       touch((volatile char *)(address), write));                           \
		fflush(stdout);                                                             \
	} while (0)

/*
 * Runs in a child made with these flags of clone(2), and says how that ended. What hangs is ended
 * by the comparing group: CPUs that are threads of a busy machine may stand still for half a
 * minute, and the group says what was waited for.
 */
static inline void child_of(const char *what, int flags, void (*body)(void))
{
	int status = -1;
	pid_t pid;

	printf("%s\n", what);
	fflush(stdout);
	pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("  status %#x\n", status);
	fflush(stdout);
}
