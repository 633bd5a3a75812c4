/*
 * Children of vfork are killed at any moment of their execve: each ends by that signal or runs its
 * program; afterwards the program's file may be written.
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define LATEST_US 3000

static int rounds;

static volatile pid_t children[THREADS];
static volatile int over;
static char program[64];

static int child(void *told)
{
	children[(long)told] = getpid();
	execl(program, "program", "end", NULL);
	_exit(99);
}

static void *makes(void *told)
{
	long i = (long)told, wrong = 0;
	char *stack = malloc(64 << 10);
	int status;

	for (int round = 0; round < rounds; round++) {
		pid_t pid = clone(child, stack + (64 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, told);

		if (pid < 0 || waitpid(pid, &status, 0) != pid || (status && status != SIGKILL)) {
			printf("round %d: status %x\n", round, status);
			wrong++;
		}
		children[i] = 0;
	}
	return (void *)wrong;
}

/*
 * Later and later after the child has begun, and from the beginning again; a little more than once
 * in all rounds.
 */
static void *kills(void *told)
{
	long i = (long)told;

	for (int wait = 0; !over; wait = (wait + LATEST_US * 5 / 4 / rounds) % LATEST_US) {
		struct timespec begun, now;
		pid_t pid;

		while (!(pid = children[i]) && !over)
			sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &begun);
		do {
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < wait);
		/* Ended or not, it has not been waited for, or the id is not used yet. */
		if (pid && children[i] == pid)
			kill(pid, SIGKILL);
		while (children[i] == pid && !over)
			sched_yield();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t makers[THREADS], killers[THREADS];
	static char bytes[1 << 16];
	long wrong = 0, n;
	void *result;

	if (argc > 1)
		return 0;
	rounds = is_on_linux() ? 10 : by_tier(25, 100);
	snprintf(program, sizeof(program), "/tmp/vfork-killed-%d", getpid());
	int in = open("/proc/self/exe", O_RDONLY), out = open(program, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, n) != n)
			return 1;
	close(in);
	close(out);
	for (long i = 0; i < THREADS; i++) {
		pthread_create(&makers[i], NULL, makes, (void *)i);
		pthread_create(&killers[i], NULL, kills, (void *)i);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(makers[i], &result);
		wrong += (long)result;
	}
	over = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(killers[i], NULL);
	/* The last one's end may just be under way. */
	for (int i = 0; i < 2000 && (out = open(program, O_WRONLY)) < 0; i++)
		usleep(100000);
	printf("wrong ends %ld, written to: %d\n", wrong, out >= 0);
	unlink(program);
	return 0;
}
