/*
 * A bit of everything, for allocations of the LWK to fail under (group `accounts`).
 * For each line of standard input a child makes threads, mappings, signals and processes, and does
 * without what it does not get. Prints the child's wait status, or the error of fork.
 * Usage: allocation-failures [noop]    noop: ends at once
 */
#include "guest.h"
#include <pthread.h>

static void *end(void *arg)
{
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages != MAP_FAILED)
		pages[PAGE] = 1;
	return arg;
}

static void threads(void)
{
	pthread_t all[3];
	int n, made = 0;

	for (n = 0; n < 3; n++)
		made += !pthread_create(&all[made], NULL, end, NULL);
	while (made)
		pthread_join(all[--made], NULL);
}

static void maps(const char *self)
{
	int n, file = open(self, O_RDONLY);
	char *pages = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *of_file = mmap(NULL, 8 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);

	for (n = 0; pages != MAP_FAILED && n < 64; n += 5)
		pages[n * PAGE] = 1;
	if (of_file != MAP_FAILED)
		(void)of_file[PAGE];
	if (pages == MAP_FAILED)
		return;
	for (n = 0; n < 60; n += 20)
		mprotect(pages + n * PAGE, PAGE, PROT_READ);
	pages = mremap(pages, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
	if (pages != MAP_FAILED)
		munmap(pages + 8 * PAGE, 16 * PAGE);
}

static void handler(int signal)
{
}

static void signals(void)
{
	struct sigaction act = { .sa_handler = handler };
	timer_t timer;

	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGRTMIN, &act, NULL);
	raise(SIGUSR1);
	sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = 1 });
	if (!timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timer))
		timer_delete(timer);
}

static void processes(const char *self)
{
	pid_t pid = fork();

	if (!pid)
		_exit(3);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	pid = vfork();
	if (!pid) {
		execl(self, self, "noop", NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 1)
		return 0;
	while (fgets(line, sizeof(line), stdin)) {
		int status = 0;
		pid_t pid = fork();

		if (!pid) {
			alarm(60);
			threads();
			maps(argv[0]);
			signals();
			processes(argv[0]);
			execl(argv[0], argv[0], "noop", NULL);
			_exit(127);
		}
		if (pid < 0)
			status = -errno;
		else
			waitpid(pid, &status, 0);
		printf("%d\n", status);
		fflush(stdout);
	}
	return 0;
}
