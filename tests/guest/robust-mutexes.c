/* Robust mutexes in shared memory, whose owners end in every way there is. */
#include "guest.h"
#include <pthread.h>

struct shared {
	pthread_mutex_t mutex;
	volatile int taken;
	volatile int go_on;
};

static struct shared *shared;
static const char *self;

static void *takes(void *argument)
{
	pthread_mutex_lock(&shared->mutex);
	shared->taken = 1;
	while (argument)
		pause();
	return NULL;
}

static void *takes_and_computes(void *argument)
{
	pthread_mutex_lock(&shared->mutex);
	shared->taken = 1;
	for (;;)
		;
	return argument;
}

static void *exits_later(void *argument)
{
	for (int i = 0; i < 20000 && !shared->go_on; i++)
		usleep(10000);
	_exit(0);
	return argument;
}

static pthread_t thread(void *(*function)(void *), void *argument)
{
	pthread_t made;

	pthread_create(&made, NULL, function, argument);
	while (!shared->taken)
		usleep(1000);
	return made;
}

static void replace(void)
{
	execl(self, self, "wait", NULL);
	_exit(9);
}

/* What the process does that has the mutex. */
static void owner(const char *how)
{
	if (!strcmp(how, "exit") || !strcmp(how, "killed") || !strcmp(how, "fault") || !strcmp(how, "exec")) {
		takes(NULL);
		usleep(30000);
		if (!strcmp(how, "exit"))
			_exit(0);
		if (!strcmp(how, "fault"))
			*(volatile int *)8 = 1;
		if (!strcmp(how, "exec"))
			replace();
		for (;;)
			pause();
	}
	if (!strcmp(how, "thread")) {
		pthread_join(thread(takes, NULL), NULL);
		for (int i = 0; i < 20000 && !shared->go_on; i++)
			usleep(10000);
		_exit(0);
	}
	if (!strcmp(how, "first thread")) {
		pthread_t other;

		pthread_create(&other, NULL, exits_later, NULL);
		takes(NULL);
		usleep(30000);
		pthread_exit(NULL);
	}
	thread(!strcmp(how, "computes") || !strcmp(how, "killed computes") ? takes_and_computes : takes, "");
	usleep(30000);
	if (!strcmp(how, "other exits") || !strcmp(how, "computes"))
		_exit(0);
	if (!strcmp(how, "other faults"))
		*(volatile int *)8 = 1;
	if (!strcmp(how, "other execs, page away"))
		madvise(shared, sizeof(*shared), MADV_DONTNEED);
	if (!strncmp(how, "other execs", 11))
		replace();
	for (;;)
		pause();
}

static void check(const char *how, int protocol)
{
	pthread_mutexattr_t attributes;
	struct timespec until;
	int result, status = 0;
	pid_t pid;

	shared->taken = shared->go_on = 0;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attributes, protocol);
	pthread_mutex_init(&shared->mutex, &attributes);
	if ((pid = fork()) == 0)
		owner(how);
	while (!shared->taken)
		usleep(1000);
	if (!strncmp(how, "killed", 6) && fork() == 0) {
		usleep(60000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 120;
	result = pthread_mutex_timedlock(&shared->mutex, &until);
	printf("%s%s: %s\n", how, protocol == PTHREAD_PRIO_INHERIT ? ", with inheritance" : "",
	       result ? strerrorname_np(result) : "taken");
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(&shared->mutex);
	if (!result || result == EOWNERDEAD)
		pthread_mutex_unlock(&shared->mutex);
	shared->go_on = 1;
	if (!strcmp(how, "exec") || !strncmp(how, "other execs", 11))
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("status %#x\n", status & ~0x80);
	while (waitpid(-1, &status, 0) > 0)
		;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { "exit", "thread", "first thread", "killed", "fault", "exec", "other exits", "computes",
					    "killed computes", "killed other", "other faults", "other execs", "other execs, page away" };
	struct rlimit none = { 0, 0 };

	if (argc > 1)
		for (;;)
			pause();
	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_CORE, &none);
	self = argv[0];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		check(ways[i], PTHREAD_PRIO_NONE);
		/*
		 * A worker on Linux outlives its program's execve, and so does what waits for
		 * it there: known, and left out.
		 */
		if (strcmp(ways[i], "exec"))
			check(ways[i], PTHREAD_PRIO_INHERIT);
	}
	return 0;
}
