/* Threads and processes: making them, and handing the turn from one to the other. */
#define _GNU_SOURCE
#include "guest.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 500

static void *nothing(void *data)
{
	return data;
}

static void create_join(void *data)
{
	pthread_t thread;

	(void)data;
	if (pthread_create(&thread, NULL, nothing, NULL))
		fail("pthread_create");
	pthread_join(thread, NULL);
}

static int turn;

static void wait_for_turn(int mine)
{
	while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine)
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
}

static void pass_turn(int mine)
{
	__atomic_store_n(&turn, !mine, __ATOMIC_RELEASE);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* On the nth of some CPUs, or where there are fewer, on any of them. */
static void stay_on(const cpu_set_t *all, int n)
{
	cpu_set_t one;

	if (!all || CPU_COUNT(all) <= n)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, all) && !n--)
			CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
}

/* `data`: the CPUs of which it takes the second one, or NULL. */
static void *other_side(void *data)
{
	stay_on(data, 1);
	for (int i = 0; i < TURNS; i++) {
		wait_for_turn(1);
		pass_turn(1);
	}
	return data;
}

/*
 * ns from one thread to the other, which has to be woken. Each has a CPU of its own of `apart`, if
 * that is not NULL: on CPUs that Linux leaves alone it moves no thread from one to the other.
 */
static double hand_over(const struct wish *wish, cpu_set_t *apart)
{
	struct best best;

	stay_on(apart, 0);

	for (best_begin(&best, wish); best_more(&best);) {
		pthread_t thread;
		uint64_t start;

		turn = 0;
		if (pthread_create(&thread, NULL, other_side, apart))
			fail("pthread_create");
		start = now_ns();
		for (int i = 0; i < TURNS; i++) {
			pass_turn(0);
			wait_for_turn(0);
		}
		best_add(&best, (double)(now_ns() - start) / (2 * TURNS));
		pthread_join(thread, NULL);
	}
	return best.best;
}

static void wake(const struct wish *wish)
{
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof(all), &all))
		fail("sched_getaffinity");
	report("thread.wake", hand_over(wish, &all));
	stay_on(&all, 0);
	report("thread.switch", hand_over(wish, NULL));
	sched_setaffinity(0, sizeof(all), &all);
}

static void reap(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fail("a child");
}

static void fork_exit(void *data)
{
	pid_t pid = fork();

	(void)data;
	if (pid == 0)
		_exit(0);
	reap(pid);
}

static void spawn(void *data)
{
	char *const argv[] = { "hanare-bench-guest", "nothing", NULL };
	pid_t pid;

	(void)data;
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ))
		fail("posix_spawn");
	reap(pid);
}

void group_processes(const struct wish *wish)
{
	report("thread.create", best_ns(wish, 20, create_join, NULL));
	wake(wish);
	report("process.fork", best_ns(wish, 5, fork_exit, NULL));
	report("process.spawn", best_ns(wish, 3, spawn, NULL));
}

/* The program that `spawn` starts. */
void group_nothing(const struct wish *wish)
{
	(void)wish;
}
